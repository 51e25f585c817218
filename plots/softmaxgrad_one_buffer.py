"""Write docs/images/softmaxgrad_one_buffer.png: the shipped scenario with one buffer a queue, its first two tiles."""

from pathlib import Path

import ascendsim as asc
from ascendsim.plot import timeline_png

ROOT = Path(__file__).resolve().parent.parent
QUEUES = ("in_grad", "in_p", "out")
TILES, TILES_SHOWN = 5, 2


def main() -> None:
    """Run the scenario with the queues changed and write the picture."""
    scenario = ROOT / "scenarios" / "softmaxgrad_960x960_float.toml"
    result = asc.run(scenario, set={f"queues.{name}.num": 1 for name in QUEUES})
    target = ROOT / "docs" / "images" / "softmaxgrad_one_buffer.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(timeline_png(result, last=result.makespan_cycles * TILES_SHOWN // TILES))


if __name__ == "__main__":
    main()
