"""Write docs/images/softmaxgrad_memory.png: what lies where in UB of core 0 while the shipped scenario runs."""

from pathlib import Path

import ascendsim as asc
from ascendsim.plot import memory_png

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run the scenario and write the picture."""
    result = asc.run(ROOT / "scenarios" / "softmaxgrad_960x960_float.toml")
    target = ROOT / "docs" / "images" / "softmaxgrad_memory.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(memory_png(result))


if __name__ == "__main__":
    main()
