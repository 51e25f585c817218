"""Tables of a report for those who tune: where the time goes, balance over cores, traffic. Functions of a RunResult."""

from collections.abc import Sequence

from ascendsim.comparison import Comparison
from ascendsim.engine.base import Wait
from ascendsim.result import RunResult
from ascendsim.tuning import BUBBLES, Bubbles, Place, read_hit_share

Cells = Sequence[tuple[str, ...]]
MOST_PLACES = 8
"""Lines of the table of places."""
_LEAST = 0.0005


def headlines(result: RunResult) -> list[tuple[str, str]]:
    """What a run is bound by, how Cube and Vector work together, and floating-point operations, as (name, value)."""
    lines = [("bound", bound_text(result))] if result.bounds else []
    if result.unit_use:
        lines.append(("Cube, Vector", units_text(result)))
    if result.work is not None:
        lines.append(("work", work_text(result)))
    if result.comparison is not None:
        lines.append(("prescribed", _comparison_text(result, result.comparison)))
    hits = read_hit_share(result.traffic)
    return lines if hits is None else [*lines, ("L2", f"{hits:.1%} of the bytes read are hits")]


def bound_text(result: RunResult) -> str:
    """Which pipe is busiest on how many AI Cores."""
    total, word = result.program.block_dim, result.program.kernel_type.block_word
    if total == 1:
        word = word.removesuffix("s")
    return ", ".join(
        f"{result.lane_name(pipe, kind)} on {count} of {total} {word}, busy {share:.1%} of the makespan"
        for kind, pipe, count, share in result.bounds
    )


def units_text(result: RunResult) -> str:
    """How long the Cube and Vector units of an AI Core are busy at once, over all of them."""
    total = max(1, len(result.unit_use) * result.makespan_cycles)
    names = ("both busy", "Cube alone", "Vector alone", "none")
    parts = zip(*((use.both, use.cube_only, use.vector_only, use.none) for use in result.unit_use), strict=True)
    return ", ".join(f"{name} {sum(part) / total:.1%}" for name, part in zip(names, parts, strict=True))


def work_text(result: RunResult) -> str:
    """Floating-point operations with their convention, a second, and as a share of the Cube cores' peak."""
    if result.work is None or result.tflops is None:
        return "none"
    text = f"{result.work.flop:,} FLOP ({result.work.convention}), {result.tflops:.4g} TFLOP/s"
    peak = result.peak_tflops
    return text if not peak else f"{text}, {result.tflops / peak:.1%} of the Cube cores' peak {peak:.4g}"


def bubble_columns(result: RunResult) -> tuple[str, ...]:
    """The heads of `bubble_cells`."""
    return ("pipe", "busy", "of it sharing", *(wait.words for wait in _causes(result)), "no work")


def bubble_cells(result: RunResult) -> Cells:
    """Per pipe, as shares of its time: busy, of it added by sharing a link, what it lost by cause, and without work."""
    return [_bubble_cells(result, lane) for lane in result.bubbles]


def _bubble_cells(result: RunResult, lane: Bubbles) -> tuple[str, ...]:
    total = max(1, lane.cores * result.makespan_cycles)
    cycles = (lane.busy, lane.shared, *(lane.lost.get(wait, 0) for wait in _causes(result)), lane.rest)
    shares = (f"{part / total:.1%}" if part / total >= _LEAST or not part else "<0.1%" for part in cycles)
    return (result.lane_name(lane.pipe, lane.kind), *shares)


def _causes(result: RunResult) -> list[Wait]:
    """The causes that occur, in their order."""
    return [wait for wait in BUBBLES if any(wait in lane.lost for lane in result.bubbles)]


def place_cells(result: RunResult) -> Cells:
    """The largest losses: pipe, cause, cycles, where most of them were lost, and who waited there."""
    return [_place_cells(result, place) for place in result.bubble_places[:MOST_PLACES]]


def _place_cells(result: RunResult, place: Place) -> tuple[str, ...]:
    who = "the scalar unit" if place.by_scalar else "the pipe"
    lane = result.lane_name(place.pipe, place.kind)
    return (lane, place.wait.words, str(place.cycles), place.line, place.name, who)


def balance_cells(result: RunResult) -> Cells:
    """Per pipe: busy cycles of a core, of the busiest one, their ratio, which one, and when the first and last end."""
    rows = []
    for one in result.balances:
        if len(one.busy) > 1:
            worst = f"{one.kind.name} {one.worst}" if result.program.kernel_type.is_mix else f"core {one.worst}"
            ends = f"{min(one.ends)} to {max(one.ends)}"
            numbers = (f"{one.mean:.0f}", str(max(one.busy)), f"{one.ratio:.3f}")
            rows.append((result.lane_name(one.pipe, one.kind), *numbers, worst, ends))
    return rows


def block_cells(result: RunResult) -> Cells:
    """What the operator deals: cores, blocks and operations of the one with most, the mean, and their ratio."""
    work = result.work
    if work is None or len(work.blocks) < 2:
        return []
    rows = []
    for name, each in (("blocks", work.blocks), ("FLOP", work.block_flop)):
        mean = sum(each) / len(each)
        worst = max(range(len(each)), key=each.__getitem__)
        ratio = f"{each[worst] / mean:.3f}" if mean else "-"
        rows.append((name, f"{mean:.4g}", str(min(each)), str(each[worst]), ratio, f"{work.kind} {worst}"))
    return rows


def comparison_cells(result: RunResult) -> Cells:
    """Figures of the run and of the operator's own tiling, and their ratio."""
    comparison, here = result.comparison, result.figures
    if comparison is None or comparison.default is None:
        return []
    there = comparison.default
    rows = [_ratio("makespan cycles", here.makespan_cycles, there.makespan_cycles, "d")]
    if here.tflops and there.tflops:
        rows.append(_ratio("TFLOP/s", here.tflops, there.tflops, ".4g"))
    if here.both_share is not None and there.both_share is not None:
        rows.append(_ratio("Cube and Vector both busy", here.both_share, there.both_share, ".1%"))
    if here.read_hit_share is not None and there.read_hit_share is not None:
        rows.append(_ratio("L2 hits of bytes read", here.read_hit_share, there.read_hit_share, ".1%"))
    rows.append(_ratio("GM traffic B", here.gm_bytes, there.gm_bytes, "d"))
    for name in dict.fromkeys([*here.busy_cycles, *there.busy_cycles]):
        busy = [one.busy_cycles.get(name, 0.0) for one in (here, there)]
        rows.append(_ratio(f"{name} busy cycles", busy[0], busy[1], ".0f"))
        shared = [one.shared_cycles.get(name, 0.0) for one in (here, there)]
        if any(shared):
            rows.append(_ratio(f"{name} of it sharing", shared[0], shared[1], ".0f"))
    return rows


def _ratio(name: str, here: float, there: float, form: str) -> tuple[str, ...]:
    return name, f"{here:{form}}", f"{there:{form}}", f"{here / there:.3f}" if there else "-"


def _comparison_text(result: RunResult, comparison: Comparison) -> str:
    """What is prescribed and how long the default takes, or why it has no time."""
    given = ", ".join(f"{name} = {value}" for name, value in comparison.prescribed.items())
    if comparison.default is None:
        return f"{given}; the operator's own tiling cannot be timed: {comparison.reason}"
    here, there = result.makespan_cycles, comparison.default.makespan_cycles
    return f"{given}: {here} cycles against {there} of the default tiling, {here / max(1, there):.3f} of it"


def traffic_cells(result: RunResult) -> Cells:
    """Per phase, pipe and way: bytes of inputs, outputs and workspace, and the share of L2 hits."""
    return [
        (
            one.phase or "-",
            result.lane_name(one.pipe, one.kind),
            one.way,
            *(str(count) for count in (one.input_bytes, one.output_bytes, one.workspace_bytes)),
            f"{one.hit_bytes / one.bytes:.1%}" if one.bytes else "-",
        )
        for one in result.traffic
    ]


def tables(result: RunResult) -> list[tuple[str, tuple[str, ...], Cells]]:
    """Return (title, heads, rows) of every table."""
    return [
        ("Compared with the default tiling", ("", "this", "default", "this / default"), comparison_cells(result)),
        ("Where the time goes", bubble_columns(result), bubble_cells(result)),
        ("Most is lost at", ("pipe", "cause", "cycles", "mostly at", "for", "who waits there"), place_cells(result)),
        ("Balance of cores", ("pipe", "mean busy", "most", "over mean", "core", "last ends"), balance_cells(result)),
        ("Balance of blocks", ("", "mean", "least", "most", "over mean", "core"), block_cells(result)),
        (
            "GM traffic by phase",
            ("phase", "pipe", "way", "inputs B", "outputs B", "workspace B", "L2 hits"),
            traffic_cells(result),
        ),
    ]
