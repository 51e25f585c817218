"""What DumpTensor has shown, as a run prints it and as its folder keeps it."""

from collections.abc import Iterator

from ascendsim.dumps import dump_lines
from ascendsim.result import RunResult

MOST_DUMPS = 8
"""So many are printed by a run; its folder has all."""
MOST_VALUES = 64
"""So many values of each are printed by a run."""


def text(result: RunResult) -> str:
    """Return all dumps of a run whole, in the order in which they ran."""
    return "".join(f"{line}\n" for dump in result.dumps for line in dump_lines(dump))


def page(result: RunResult, file: str) -> Iterator[str]:
    """Return the first dumps of a run, long ones shortened; `file` has them all. Nothing for a kernel without any."""
    if not result.has_dumps:
        return
    if result.values != "all":
        yield f'dump_tensor shows nothing with machine.values = "{result.values}"; it needs "all"'
        return
    for dump in result.dumps[:MOST_DUMPS]:
        yield from dump_lines(dump, MOST_VALUES)
    left = len(result.dumps) - MOST_DUMPS
    yield f"{left} more dumps in {file}" if left > 0 else f"dumps whole in {file}"
