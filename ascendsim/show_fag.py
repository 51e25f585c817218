"""The answer of `ascendsim fag` for the terminal, as lines."""

from collections.abc import Iterator
from dataclasses import asdict, fields

from ascendsim import show_estimate
from ascendsim.aligned import aligned
from ascendsim.fag_answer import FagAnswer, Work
from ascendsim.op_host.fag_dealing import Block
from ascendsim.op_host.fag_map import MemoryMap
from ascendsim.op_host.fag_result import FagTiling, Matmuls
from ascendsim.show_reasons import finding_lines, note_lines
from ascendsim.terms import CoreKind

_KINDS = {CoreKind.AIC: "AIC", CoreKind.AIV: "AIV"}


def page(found: FagAnswer, core: int | None = None) -> Iterator[str]:
    """Yield what the command prints, line by line."""
    yield from head(found)
    yield from _told(found)
    tiling = found.report.tiling
    if tiling is None:
        return
    yield from _tiling(found, tiling)
    if found.dealt is None:
        return
    yield ""
    yield from (_phase(work) for work in found.work if work.phase != "post")
    yield from _dealt(found)
    yield from (_phase(work) for work in found.work if work.phase == "post")
    yield from _maps(found)
    yield from _estimate(found)
    if core is not None:
        yield from _core(found, core)


def head(found: FagAnswer) -> Iterator[str]:
    """Yield the call, its status, workspace and template."""
    p, report = found.request.params, found.report
    lengths = f"S1 {p.q_len}, S2 {p.kv_len}"
    if p.is_tnd:
        lengths = f"T1 {p.T1}, T2 {p.T2}, {lengths} at most"
    yield (
        f"FlashAttentionScoreGrad {p.dtype} {p.layout}: B {p.batch}, N1 {p.N1}, N2 {p.N2}, {lengths}, D {p.D}, "
        f"Dv {p.v_dim} on {report.device}"
    )
    yield f"status {report.status} {report.status_name} of {report.function}, {report.interface} interface"
    if report.returned_status != report.status:
        yield f"  the caller gets {report.returned_status}: what a layer below refuses comes back as a null pointer"
    if report.workspace_bytes is not None:
        yield (
            f"workspace {report.workspace_bytes:,} B; with the tensors of pad and transpose {report.total_bytes:,} B"
        )
    if report.tiling is not None:
        priority = report.tiling.template_priority
        template = report.template + (f" ({priority})" if priority is not None else "")
        yield f"template {template}, tiling key {report.tiling_key}, block dim {report.block_dim}"


def _told(found: FagAnswer) -> Iterator[str]:
    for reason in found.report.reasons:
        yield from finding_lines(str(reason.status or "no code"), reason.finding)
    for finding in found.findings:
        yield ""
        yield f"error {finding}"
    yield from note_lines((*found.request.notes, *found.report.notes))


def _named(values: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


# --- what the tiling decides ---


def _tiling(found: FagAnswer, tiling: FagTiling) -> Iterator[str]:
    yield ""
    yield "Workspace of the kernel, in order"
    rows = [("", "B", "of it used", ""), *((t.name, t.bytes, t.payload_bytes, t.formula) for t in tiling.terms)]
    yield from aligned(rows, frozenset({0, 3}))
    if found.report.graph_tensors:
        yield "Tensors that the interface adds"
        yield from aligned(
            [(t.name, t.bytes, f"{list(t.shape)} {t.dtype}") for t in found.report.graph_tensors], frozenset({0, 2})
        )
    if found.call is not None and found.report.graph_tensors:
        shape = found.call.shape
        yield f"The kernel gets {shape.layout}, D {shape.d}, Dv {shape.dv}"
    if tiling.key_fields is not None:
        yield f"Tiling key: {_named(asdict(tiling.key_fields))}"
    tiles = {f.name: getattr(tiling.tiles, f.name) for f in fields(tiling.tiles)}
    shown = {name: value for name, value in tiles.items() if value is not None and value is not False}
    if shown:
        yield f"Tiles: {_named({name: 'yes' if value is True else value for name, value in shown.items()})}"
    if tiling.split is not None:
        yield f"Split: {_named(asdict(tiling.split))}"
    if tiling.matmuls is not None:
        yield f"Base blocks, m x n x k: {_matmuls(tiling.matmuls)}"
    if tiling.band is not None:
        skips = "blocks outside are skipped" if tiling.band.is_sparse else "nothing is skipped"
        yield f"Band: pre {tiling.band.pre_tokens}, next {tiling.band.next_tokens}; {skips}"
    for passed in tiling.passed_over:
        yield f"Passed over: {passed.template} ({passed.priority}): {passed.why}"


def _matmuls(matmuls: Matmuls) -> str:
    named = {"S and dA": matmuls.scores, "dQ": matmuls.dq, "dK and dV": matmuls.dk_dv}
    return ", ".join(f"{name} {b.m} x {b.n} x {b.k}" for name, b in named.items())


# --- who does what ---


def _dealt(found: FagAnswer) -> Iterator[str]:
    dealt, load, tiling = found.dealt, found.load, found.report.tiling
    assert dealt is not None
    assert load is not None
    assert tiling is not None
    kind = _KINDS[dealt.kind]
    yield f"Main phase: {dealt.count:,} blocks on {len(load.blocks)} {kind}s, {load.rounds:,} rounds"
    yield f"  order: {dealt.order}"
    few, many = min(load.blocks), max(load.blocks)
    spread = f"{few:,}" if few == many else f"{few:,} to {many:,}"
    yield (
        f"  blocks of a core: {spread}; busiest {kind} {load.busiest} with {load.scores[load.busiest]:,} scores, "
        f"idlest {kind} {load.idlest} with {load.scores[load.idlest]:,}; balance {load.balance:.3f}"
    )
    first = next(iter(dealt.of_core(load.busiest)))
    yield f"  first block of {kind} {load.busiest}: {_block(found, first)}"


def _block(found: FagAnswer, block: Block) -> str:
    """Return a block in words, and how its AIVs share it."""
    where = f"b {block.b}, n2 {block.n2}, g {block.g}"
    extent = f"rows {block.s1}..{block.s1 + block.rows - 1}, columns {block.s2}..{block.s2 + block.columns - 1}"
    if block.heads > 1:
        extent += f", {block.heads} heads"
    parts = []
    shares = found.share_of(block)
    for share in shares:
        who = f"AIV {share.aiv}" if len(shares) > 1 else "in all"
        tile = f"{share.sub_tiles} sub-tiles of {share.step_rows} x {share.step_columns}"
        span = (
            f" (rows {share.s1}..{share.s1 + share.rows - 1}, columns {share.s2}..{share.s2 + share.columns - 1} of it)"
        )
        parts.append(
            f"{who} {tile if share.sub_tiles else 'nothing'}{span if share.sub_tiles and len(shares) > 1 else ''}"
        )
    return f"{where}, {extent}" + (f"; {', '.join(parts)}" if parts else "")


def _phase(work: Work) -> str:
    return f"{work.phase.capitalize()} phase: {_work(work)}"


def _work(work: Work) -> str:
    each = ", ".join(f"{name} {count:,}" for name, count in work.each.items())
    step = "" if work.step is None else f", {work.step:,} at a time"
    unit = "" if "rows" in work.each else " elements"
    return f"{work.cores} AIVs, each {each}{unit}{step}"


def _core(found: FagAnswer, core: int) -> Iterator[str]:
    assert found.dealt is not None
    blocks = found.blocks_of(core)
    yield ""
    yield f"Blocks of {_KINDS[found.dealt.kind]} {core}: {len(blocks):,}"
    for block in blocks:
        yield f"  round {block.turn}: {_block(found, block)}"


# --- memory and time ---


def _maps(found: FagAnswer) -> Iterator[str]:
    for item in found.maps:
        yield ""
        yield from _map(item)


def _map(found: MemoryMap) -> Iterator[str]:
    note = f" ({found.note})" if found.note else ""
    yield (
        f"{found.memory.name}, {found.phase}{note}: {found.used_bytes:,} of {found.capacity_bytes:,} B, "
        f"{found.free_bytes:,} B free"
    )
    rows = [("", "from", "B", "needed"), *(_area(area) for area in map(asdict, found.areas))]
    yield from aligned(rows)


def _area(area: dict[str, object]) -> tuple[object, ...]:
    needed = area["needed_bytes"]
    return area["name"], area["start_bytes"], area["bytes"], "-" if needed is None else needed


def _estimate(found: FagAnswer) -> Iterator[str]:
    e = found.estimate
    assert e is not None
    heads = f", {e.heads} heads" if e.heads > 1 else ""
    block = e.block
    yield from show_estimate.opening("Estimate, no simulation", "fag", found.device)
    yield f"  largest block, {e.rows} x {e.columns}{heads}, in cycles"
    rows = [
        ("cube 1", block.cube_1),
        ("vector", block.vector),
        ("cube 2", block.cube_2),
        (f"memory ({block.path})", block.memory),
        ("period", block.period),
    ]
    yield from show_estimate.stages(rows, block.binds)
    yield from show_estimate.totals(e, "all scores in blocks; skipped blocks do not count", found.device)
