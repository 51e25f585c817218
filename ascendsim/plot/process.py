"""The process that draws: runs come in on standard input, their pictures go out on standard output. See `painter`."""

import gc
import pickle
import sys
from pathlib import Path

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


def main() -> None:
    """Draw one run after the other until nobody asks any more."""
    gc.disable()  # it lives for one command
    while True:
        try:
            record, arrays = pickle.load(sys.stdin.buffer)  # noqa: S301 - what our own process wrote
        except EOFError:
            return
        pickle.dump(draw(result_of(record, arrays, {}, Path())), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
