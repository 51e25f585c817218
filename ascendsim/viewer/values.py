"""What rows found and left, as the page takes it, and what it says of rows of which that was not kept."""

from collections.abc import Mapping
from typing import Any

from ascendsim.inspection import RowView, Values
from ascendsim.kept_values import MOST_VALUES
from ascendsim.result import RunResult
from ascendsim.show_inspection import value_texts

_ON_DISK = {"how": "ascendsim inspect {run} --row {row}"}
_ON_DISK["more"] = f"{_ON_DISK['how']} --elements {MOST_VALUES}:{4 * MOST_VALUES}"
_IN_PYTHON = {"how": "result.inspect(row={row})", "more": "result.inspect(row={row}, most=None)"}
_NOWHERE = {"how": "", "more": ""}
"""How to see values of a row, and more of those that are here. The page knows where it lies, so the run's folder."""


def values_of(looked_at: Mapping[int, RowView]) -> dict[int, list[Any]]:
    """Return by row: facts as [name, value], and operands.

    An operand is [role, where it lies, how many elements, how many of them changed or -1 where it is not written,
    numbers of those that are kept, their values before, and after; no list for after where nothing changed].
    """
    return {number: [_facts(view), [_operand(o) for o in view.operands]] for number, view in looked_at.items()}


def _facts(view: RowView) -> list[tuple[str, str]]:
    known = (("scalar", view.scalar), ("its register holds", view.result))
    return [(name, text) for name, text in known if text is not None]


def _operand(values: Values) -> list[Any]:
    before, after = value_texts(values)
    place = f"{values.tensor}, {values.memory} 0x{values.address_bytes:x}, {values.dtype.name}"
    return [
        values.role, place, values.count, values.changed if values.is_written else -1, values.elements.tolist(),
        before, [] if after == before else after,
    ]  # fmt: skip


def hints(result: RunResult) -> dict[str, str]:
    """Return why rows have no values here, how to get those of one, and more than are here; "" for no way."""
    if result.values == "none":
        return {"why": 'the run computed none (machine.values = "none")'} | _NOWHERE
    if result.values == "sample":
        return {"why": 'the run computed those of some tiles only (machine.values = "sample")'} | _NOWHERE
    how = _ON_DISK if _is_whole_on_disk(result) else _IN_PYTHON
    if not result.timeline.is_whole:
        return {"why": f"the run is long ({result.timeline.row_count:,} rows), so none were kept"} | how
    if not result.looked_at:
        return {"why": "none were kept here"} | how
    return {
        "why": f"they were kept of {len(result.looked_at):,} rows: the longest steps of the critical path, first and "
        "last rows of a core of each kind, the first of each kernel line and of what findings name"
    } | how


def _is_whole_on_disk(result: RunResult) -> bool:
    """Whether the run's folder has what executing it again needs: a scenario, and no arrays of a caller."""
    tensors = result.scenario.get("tensors", {})
    return "api" not in result.scenario and not any(spec.get("fill") == "array" for spec in tensors.values())
