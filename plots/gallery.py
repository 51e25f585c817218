"""Write the pictures of the README's gallery to docs/images/gallery; with --svg also as SVG, which is not kept."""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import ascendsim as asc
from ascendsim import plot
from ascendsim.plot.canvas import Picture
from ascendsim.plot.tmp_curve import curve_picture

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "images" / "gallery"
ATTENTION = "fag_same_ab_small"
SOFTMAX = "softmaxgrad_960x960_float"
LAST = 13_000
"""Cycle at the right edge of the timeline."""


@cache
def run(name: str) -> asc.RunResult:
    """Run a shipped scenario; no picture shows values."""
    return asc.run(ROOT / "scenarios" / f"{name}.toml", set={"machine.values": "none"})


PICTURES: dict[str, Callable[[], Picture]] = {
    "timeline": lambda: plot.timeline_picture(run(ATTENTION), last=LAST),
    "memory": lambda: plot.memory_picture(run(SOFTMAX)),
    "roofline": lambda: plot.roofline_picture(run(ATTENTION)),
    "balance": lambda: plot.balance_picture(run(ATTENTION)),
    "temp_curve": lambda: curve_picture(asc.tmp_curve(asc.tmp_size("softmaxgrad", (75, 64), "float")), 20),
}


def main() -> None:
    """Draw them all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        picture = draw()
        (FOLDER / f"{name}.png").write_bytes(plot.png(picture))
        if "--svg" in sys.argv[1:]:
            (FOLDER / f"{name}.svg").write_bytes(plot.svg(picture, name))


if __name__ == "__main__":
    main()
