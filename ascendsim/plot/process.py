"""The process that draws: a run is there when standard input ends, its pictures go into a file. See `painter`."""

import gc
import multiprocessing
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from ascendsim.painter import PICTURES, RUN
from ascendsim.plot import (
    balance_png,
    balance_svg,
    memory_png,
    memory_svg,
    roofline_png,
    roofline_svg,
    timeline_png,
    timeline_svg,
)
from ascendsim.result import RunResult
from ascendsim.stored import result_of

Draw = Callable[[RunResult], bytes]

DRAWN: Mapping[str, Draw] = {
    "timeline.png": timeline_png,
    "timeline.svg": timeline_svg,
    "memory.png": memory_png,
    "balance.png": balance_png,
    "roofline.png": roofline_png,
    "memory.svg": memory_svg,
    "balance.svg": balance_svg,
    "roofline.svg": roofline_svg,
}
"""By file name. The first takes as long as the next four together."""


def draw(result: RunResult, names: Sequence[str]) -> dict[str, bytes]:
    """Return a run's pictures by file name."""
    return {name: DRAWN[name](result) for name in names}


def draw_beside(result: RunResult, names: Sequence[str]) -> dict[str, bytes]:
    """As `draw`, all but the first by a copy of this process; only where copies are sound (see `painter`).

    Only for a process that has not drawn yet: a copy shares the place in every open file, those of fonts too, and each
    would read what the other looked for.
    """
    context = multiprocessing.get_context("fork")
    reading, writing = context.Pipe(duplex=False)
    context.Process(target=_send, args=(result, names[1:], writing), daemon=True).start()
    writing.close()  # so that the copy's end is the only one
    first = draw(result, names[:1])
    try:
        others: dict[str, bytes] = reading.recv()
    except EOFError:  # the copy is gone; if it is the pictures, drawing them here says why
        others = draw(result, names[1:])
    return first | others


def _send(result: RunResult, names: Sequence[str], writing: Connection) -> None:
    writing.send(draw(result, names))


def main(place: Path) -> None:
    """Draw the run that comes into a folder."""
    gc.disable()  # this process lives for one run
    sys.stdin.buffer.read()
    if not (place / RUN).is_file():
        return  # nobody asked
    record, arrays = pickle.loads((place / RUN).read_bytes())  # noqa: S301 - what our own process wrote
    drawing = draw_beside if sys.platform == "linux" else draw
    (place / PICTURES).write_bytes(pickle.dumps(drawing(result_of(record, arrays, {}, Path()), record["pictures"])))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
