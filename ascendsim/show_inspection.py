"""What looking into a run gives, as text."""

from collections.abc import Iterator

from ascendsim.dumps import value_text
from ascendsim.inspection import RowView, TensorView, Values, Writer
from ascendsim.inspection.views import Array, Flags

_LINE = 8
"""Values in a line where nothing changed."""
_NEVER = "never written"


def row_page(view: RowView) -> Iterator[str]:
    """Return a row: what it is, when it ran, and its operands."""
    kind = " ".join(filter(None, (view.dtype, f"on {view.pipe}")))
    yield f"row {view.number}, row {view.core_number} of {view.core_name}: {_name(view)} {kind}, {view.line}"
    yield f"  {_when(view)}"
    facts = [f"mask {view.mask}"] if view.mask else []
    facts += [f"scalar {view.scalar}"] if view.scalar is not None else []
    facts += [f"{name}={value}" for name, value in view.params.items() if not view.note]
    facts += [view.note] if view.note else []
    facts += [f"step {view.step}"] if view.step else []
    if facts:
        yield f"  {', '.join(facts)}"
    if view.result is not None:
        yield f"  its register holds {view.result}"
    if not view.operands:
        yield "  no operand in memory"
    for operand in view.operands:
        yield ""
        yield from _values(operand, "before", "after")


def _name(view: RowView) -> str:
    return f"{view.api} ({view.instr})" if view.api else view.instr


def _when(view: RowView) -> str:
    if view.times is None:
        return "when it ran was not kept: the run is long (--trace-window keeps a stretch of time)"
    t = view.times
    waited = f", waited {t.wait_cycles} cycles for {t.waited_for}" if t.wait_cycles else ""
    return f"cycles {t.start} to {t.end}, dispatched at {t.dispatched}{waited}"


def tensor_page(view: TensorView) -> Iterator[str]:
    """Return a tensor at a cycle, and who has written it or is about to."""
    yield f"{view.values.tensor} of {view.core_name} at cycle {view.cycle}: what rows complete by then have left"
    yield f"  last written by {_writer(view.last)}" if view.last else "  no row that writes it is complete by then"
    for writer in view.in_flight[:_LINE]:
        yield f"  in flight: {_writer(writer)}"
    if len(view.in_flight) > _LINE:
        yield f"  in flight: {len(view.in_flight) - _LINE} more rows"
    yield ""
    yield from _values(view.values, f"at {view.cycle}", "when those in flight are done")


def _writer(writer: Writer) -> str:
    return f"row {writer.number} ({writer.instr}, {writer.line}), cycles {writer.start} to {writer.end}"


def _values(values: Values, before: str, after: str) -> Iterator[str]:
    """Where a tensor lies, and its elements: both columns where something changed, else one list."""
    words = [values.role] if values.role else []
    words += [values.tensor, f"{values.memory} 0x{values.address_bytes:x}", values.dtype.name, _count(values.count)]
    words += [f"{values.changed} changed"] if values.is_written else []
    yield "  ".join(words)
    old, new = value_texts(values)
    if old == new:
        for at in range(0, len(old), _LINE):
            yield f"  {values.elements[at]:>8}  {'  '.join(old[at : at + _LINE])}"
    else:
        width = max(len(before), *(len(text) for text in old))
        yield f"  {'element':>8}  {before:<{width}}  {after}"
        for element, was, now in zip(values.elements.tolist(), old, new, strict=True):
            yield f"  {element:>8}  {was:<{width}}  {now}"
    if len(values.elements) < values.count:
        yield f"  {len(values.elements)} of {_count(values.count)} shown"


def _count(number: int) -> str:
    return f"{number} element{'s' * (number != 1)}"


def value_texts(values: Values) -> tuple[list[str], list[str]]:
    """Return the elements that are kept as text, before and after."""
    return _texts(values.before, values.known_before), _texts(values.after, values.known_after)


def _texts(found: Array, known: Flags) -> list[str]:
    """Values as text."""
    return [
        value_text(value, is_written=True) if is_known else _NEVER for value, is_known in zip(found, known, strict=True)
    ]
