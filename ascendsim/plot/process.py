"""The process that draws: a run is there when standard input ends, its pictures go into a file. See `painter`."""

import gc
import pickle
import sys
from pathlib import Path

from ascendsim.painter import PICTURES, RUN
from ascendsim.plot import memory_png, png, svg, timeline_picture
from ascendsim.result import RunResult
from ascendsim.stored import result_of


def draw(result: RunResult) -> dict[str, bytes]:
    """Return a run's pictures by file name."""
    timeline = timeline_picture(result)
    return {
        "timeline.png": png(timeline),
        "timeline.svg": svg(timeline, result.name),
        "memory.png": memory_png(result),
    }


def main(place: Path) -> None:
    """Draw the run that comes into a folder."""
    gc.disable()  # this process lives for one run
    sys.stdin.buffer.read()
    if not (place / RUN).is_file():
        return  # nobody asked
    record, arrays = pickle.loads((place / RUN).read_bytes())  # noqa: S301 - what our own process wrote
    (place / PICTURES).write_bytes(pickle.dumps(draw(result_of(record, arrays, {}, Path()))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
