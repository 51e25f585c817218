"""Write docs/images/softmaxgrad_timeline.png: the shipped scenario, two buffers a queue, the whole run."""

from pathlib import Path

import ascendsim as asc
from ascendsim.plot import timeline_png

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run the scenario and write the picture."""
    result = asc.run(ROOT / "scenarios" / "softmaxgrad_960x960_float.toml")
    target = ROOT / "docs" / "images" / "softmaxgrad_timeline.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(timeline_png(result))


if __name__ == "__main__":
    main()
