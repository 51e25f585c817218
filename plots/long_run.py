"""Write docs/images/long_run.png: 1.8 million instructions at a glance, and two microseconds of them row by row."""

from pathlib import Path

import ascendsim as asc
from ascendsim.plot import timeline_png

ROOT = Path(__file__).resolve().parent.parent
ROWS = 48_000
WINDOW = (200_000, 203_700)


def main() -> None:
    """Run the scenario on tall matrices, without values, and write the picture."""
    changes = {f"tensors.{name}.shape": [ROWS, 960] for name in ("grad", "src", "dst")} | {"machine.values": "none"}
    scenario = ROOT / "scenarios" / "softmaxgrad_960x960_float.toml"
    result = asc.run(scenario, set=changes, windows=[WINDOW])
    target = ROOT / "docs" / "images" / "long_run.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(timeline_png(result))


if __name__ == "__main__":
    main()
