"""Write docs/images/tmp_size_curve.png: predicted cycles against temp of SoftmaxGrad 75x64 float."""

from pathlib import Path

import ascendsim as asc
from ascendsim.plot.tmp_curve import curve_png

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Size the temp and write the picture."""
    curve = asc.tmp_curve(asc.tmp_size("softmaxgrad", (75, 64), "float"))
    target = ROOT / "docs" / "images" / "tmp_size_curve.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(curve_png(curve, 20))


if __name__ == "__main__":
    main()
