"""Both engines on the same program, compared row for row."""

import numpy as np

from ascendsim.engine import compiled, reference
from ascendsim.engine.base import TIMELINE_COLUMNS, Keep, ScheduleInput, Timeline
from ascendsim.errors import EnginesDiffer
from ascendsim.progress import StageProgress


def schedule(program: ScheduleInput, progress: StageProgress | None = None, keep: Keep | None = None) -> Timeline:
    """Return the compiled engine's timeline after the reference has given the same one.

    Raises:
        Deadlock: rows are left that wait for flags nobody raises.
        EnginesDiffer: the engines do not agree; the text names the first row and column.
    """
    fast = compiled.schedule(program, progress, keep)
    differences = disagreements(fast, reference.schedule(program, progress, keep))
    if differences:
        raise EnginesDiffer(_text(differences))
    return fast


def disagreements(fast: Timeline, slow: Timeline) -> list[str]:
    """Return what two timelines of one program do not agree on, the first place of each column or total."""
    if fast.row_count != slow.row_count or not np.array_equal(fast["number"], slow["number"]):
        counts = f"compiled {len(fast)} of {fast.row_count}, reference {len(slow)} of {slow.row_count}"
        return [f"rows: {counts}, or other ones"]
    found = []
    if fast.makespan_cycles != slow.makespan_cycles:
        found.append(f"makespan: compiled {fast.makespan_cycles}, reference {slow.makespan_cycles}")
    for name in TIMELINE_COLUMNS:
        rows = np.flatnonzero(fast[name] != slow[name])
        if rows.size:
            row = rows[0]
            where = f"row {fast['number'][row]} (core {fast['core'][row]}, call {fast['call'][row]})"
            found.append(
                f"{name}: {rows.size} rows, the first {where}: compiled {fast[name][row]}, reference {slow[name][row]}"
            )
    names = fast.totals.__slots__
    equal = [np.array_equal(getattr(fast.totals, name), getattr(slow.totals, name)) for name in names]
    return found + [f"totals: {name}" for name, same in zip(names, equal, strict=True) if not same]


def _text(differences: list[str]) -> str:
    lines = "\n".join(f"  {line}" for line in differences[:10])
    return f"the two engines disagree; this is an error of ascendsim, please report it with the scenario\n{lines}"
