"""The answer of `ascendsim lag` for the terminal, as lines."""

from collections.abc import Iterator

from ascendsim import show_estimate
from ascendsim.aligned import aligned
from ascendsim.errors import Severity
from ascendsim.lag_answer import LagAnswer
from ascendsim.op_host.lag_blocks import BlockMap, Segment
from ascendsim.op_host.lag_params import LagCall, MapKind
from ascendsim.op_host.lag_tiling import LagTiling
from ascendsim.show_reasons import finding_lines, note_lines

_WORDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_MAPS = {
    MapKind.DENSE: "all blocks of scores, no mask",
    MapKind.TRIANGLE: "triangle, folded",
    MapKind.TRAPEZOID: "window, its corner folded",
    MapKind.UNFOLDED: "triangle, unfolded: a comparison, no kernel does it",
}


def page(found: LagAnswer, core: int | None = None, turn: int | None = None) -> Iterator[str]:
    """Yield what the command prints, line by line."""
    yield from head(found)
    yield from _told(found)
    call, tiling, blocks = found.report.call, found.report.tiling, found.blocks
    if call is None or tiling is None or blocks is None:
        return
    yield from _tiling(tiling)
    yield from _dealt(found, blocks)
    yield from _estimate(found)
    if core is not None:
        yield ""
        yield f"Rounds of AIC {core}"
        yield from _segments((f"round {t}", segments) for t, segments in found.rounds_of(core))
    if turn is not None:
        yield ""
        yield f"Round {turn}"
        yield from _segments((f"AIC {c}", segments) for c, segments in found.round_of(turn))


def head(found: LagAnswer) -> Iterator[str]:
    """Yield the call, what the operator answers, and the workspace."""
    report = found.report
    call = report.call
    if call is None:
        query = next((str(list(desc.dims)) for desc in found.request.tensors.inputs), "missing")
        layout = found.request.params.inputLayout
        yield f"LaserAttentionGrad {layout}: query {query} on {report.soc}"
        yield f"{report.error} at {report.stage}"
        return
    yield f"LaserAttentionGrad {call.layout}: {_sizes(call)} on {report.soc}"
    yield f"{report.error}; outputs {', '.join(str(list(desc.dims)) for desc in report.outputs)}"
    yield f"workspace {report.workspace_bytes:,} B"


def _sizes(call: LagCall) -> str:
    mask = f"mask, preTokens {call.pre_tokens}" if call.has_mask else "no mask"
    return (
        f"B {call.B}, N {call.Nq}, key heads {call.Nkv}, S {call.Sq}, Skv {call.Skv}, head sizes {call.Dq}, {call.Dk}, "
        f"{call.Dv}, {mask}"
    )


def _told(found: LagAnswer) -> Iterator[str]:
    for finding in found.findings:
        yield from finding_lines(_WORDS[finding.severity], finding)
    yield from note_lines(found.notes)


def _tiling(tiling: LagTiling) -> Iterator[str]:
    yield ""
    yield "Workspace, in order"
    yield from aligned(
        [("", "B", ""), *((term.name, term.bytes, term.formula) for term in tiling.terms)], frozenset({0, 2})
    )
    yield f"Cleared at launch: {tiling.memset_bytes:,} B"
    fields = tiling.fields()
    shown = {name: value for name, value in fields.items() if not name.startswith("derived") and "bytes" not in name}
    yield f"Tiling: {', '.join(f'{name} {value}' for name, value in shown.items())}"


def _dealt(found: LagAnswer, blocks: BlockMap) -> Iterator[str]:
    load = found.load
    assert load is not None
    few, many = min(load.blocks), max(load.blocks)
    spread = f"{few:,}" if few == many else f"{few:,} to {many:,}"
    yield ""
    yield f"Blocks of 128 x 128 scores: {_MAPS[blocks.kind]}"
    yield (
        f"  {blocks.rows:,} x {blocks.columns:,} of a head to compute, {blocks.total_blocks:,} in all, "
        f"{sum(load.slots) - sum(load.blocks):,} of them skipped; {blocks.rounds:,} rounds of 16 on {blocks.cores} AICs"
    )
    yield (
        f"  blocks of an AIC: {spread}; busiest AIC {load.busiest}, idlest AIC {load.idlest}; "
        f"balance {load.balance:.3f}"
    )


def _estimate(found: LagAnswer) -> Iterator[str]:
    e, device = found.estimate, found.report.device
    assert e is not None
    assert device is not None
    stages = e.round
    yield from show_estimate.opening("Estimate, no simulation", "lag", device)
    yield f"  a block costs an AIV {e.block_vector:,} cycles; the fullest round, {e.blocks} blocks, in cycles"
    rows = [
        ("cube 1", stages.cube_1),
        ("vector", stages.vector),
        ("cube 3", stages.cube_3),
        ("cube 2", stages.cube_2),
        (f"memory ({stages.path})", stages.memory),
        ("period", stages.period),
    ]
    yield from show_estimate.stages(rows, stages.binds)
    yield from show_estimate.totals(e, "all blocks that are computed; hidden scores inside a block count", device)


def _segments(named: Iterator[tuple[str, tuple[Segment, ...]]]) -> Iterator[str]:
    for name, segments in named:
        yield f"  {name}: {'; '.join(map(_segment, segments)) or 'nothing'}"


def _segment(segment: Segment) -> str:
    last = segment.row + segment.lines - 1
    rows = f"row {segment.row}" if segment.lines == 1 else f"rows {segment.row}..{last}"
    skipped = segment.slots - segment.computed_blocks
    left_out = f", {skipped} skipped" if skipped else ""
    return (
        f"b {segment.batch}, n {segment.head}, {rows}, columns {segment.column}.."
        f"{segment.column + segment.columns - 1}{left_out}"
    )
