"""The process that draws: a run is there when standard input ends, its pictures go into a file. See `painter`."""

import gc
import multiprocessing
import pickle
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from ascendsim.painter import PICTURES, RUN
from ascendsim.plot import balance_png, memory_png, timeline_png, timeline_svg
from ascendsim.result import RunResult
from ascendsim.stored import result_of


def draw(result: RunResult) -> dict[str, bytes]:
    """Return a run's pictures by file name."""
    return _longest(result) | _others(result)


def draw_beside(result: RunResult) -> dict[str, bytes]:
    """As `draw`, half of it done by a copy of this process; only where copies are sound (see `painter`).

    Only for a process that has not drawn yet: a copy shares the place in every open file, those of fonts too, and each
    would read what the other looked for.
    """
    context = multiprocessing.get_context("fork")
    reading, writing = context.Pipe(duplex=False)
    context.Process(target=_send_others, args=(result, writing), daemon=True).start()
    writing.close()  # so that the copy's end is the only one
    longest = _longest(result)
    try:
        others: dict[str, bytes] = reading.recv()
    except EOFError:  # the copy is gone; if it is the pictures, drawing them here says why
        others = _others(result)
    return longest | others


def _longest(result: RunResult) -> dict[str, bytes]:
    """The picture that takes as long as the others together."""
    return {"timeline.png": timeline_png(result)}


def _others(result: RunResult) -> dict[str, bytes]:
    return {"timeline.svg": timeline_svg(result), "memory.png": memory_png(result), "balance.png": balance_png(result)}


def _send_others(result: RunResult, writing: Connection) -> None:
    writing.send(_others(result))


def main(place: Path) -> None:
    """Draw the run that comes into a folder."""
    gc.disable()  # this process lives for one run
    sys.stdin.buffer.read()
    if not (place / RUN).is_file():
        return  # nobody asked
    record, arrays = pickle.loads((place / RUN).read_bytes())  # noqa: S301 - what our own process wrote
    drawing = draw_beside if sys.platform == "linux" else draw
    (place / PICTURES).write_bytes(pickle.dumps(drawing(result_of(record, arrays, {}, Path()))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
