"""The run as text: tables for the terminal and a Markdown report. Functions of a RunResult."""

import math
from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ascendsim import report_critical, report_tuning
from ascendsim.analysis import MemoryUse
from ascendsim.error_bar import ErrorBar
from ascendsim.errors import Finding, Severity
from ascendsim.result import RunResult
from ascendsim.terms import Buffer, CoreKind, Pipe
from ascendsim.words import cause_sentence

Cells = Sequence[tuple[str, ...]]
MOST_BANK_LOSSES = 10
"""Lines of the table of bank conflicts."""
STAMP = "SIMULATED DESPITE FINDINGS"
_LEAST = 0.001
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def headline(result: RunResult) -> list[tuple[str, str]]:
    """What matters most, as (name, value)."""
    moved = result.summary()["bytes_moved"]
    return [
        ("device", f"{result.device.name}, {_cores_text(result)}"),
        ("makespan", makespan_text(result)),
        ("task", f"about {result.task_us:.1f} us, launch included"),
        ("bottleneck", result.bottleneck),
        *report_tuning.headlines(result),
        ("critical path", report_critical.headline(result)),
        *((f"peak {use.buffer.name}", _memory_text(result, use)) for use in result.memories),
        ("GM traffic", ", ".join(f"{name} {count} B" for name, count in moved.items()) or "none"),
        ("program", f"{result.timeline.row_count:,} rows in {len(result.program.templates)} templates"),
        ("schedule", schedule_text(result)),
        ("values", values_text(result)),
        ("rests on", _status_text(result)),
    ]


def makespan_text(result: RunResult) -> str:
    """The makespan with what the errors measured on its instruction mix imply, and its time at the device's clock."""
    bar = result.error_bar
    said = "" if bar is None else f" ({error_bar_text(bar)})"
    return f"{result.makespan_cycles} cycles{said}, {result.makespan_us:.3f} us at {result.device.clock_mhz} MHz"


def error_bar_text(bar: ErrorBar) -> str:
    """A range of cycles, to three digits, and what was not measured of it."""
    low, high = three_digits(bar.low_cycles, math.floor), bar.high_cycles
    cycles = f"{low} or more" if high is None else f"{low} to {three_digits(high, math.ceil)}"
    text = f"{cycles} by the errors measured on its instruction mix"
    if not bar.unmeasured_share:
        return text
    return f"{text}; {_percent(bar.unmeasured_share)} of the cycles rest on nothing measured"


def three_digits(number: int, rounded: Callable[[float], int]) -> int:
    """Return a number rounded to three digits, by math.floor or math.ceil."""
    unit: int = 10 ** max(0, len(str(number)) - 3)
    return rounded(number / unit) * unit


def _percent(share: float) -> str:
    """A share to a tenth of a percent; what is less is not called none."""
    return f"{share:.1%}" if share >= _LEAST else f"less than {_LEAST:.1%}"


def _status_text(result: RunResult) -> str:
    """How sure the numbers are that the busy cycles rest on."""
    shares = ", ".join(f"{status} {_percent(part)}" for status, part in result.status_shares.items())
    return f"numbers of the device file: {shares} of the busy cycles" if shares else "nothing"


def schedule_text(result: RunResult) -> str:
    """Which engine, and of how many rows the times are there, repeated, or only added up."""
    timeline = result.timeline
    engine = "both engines agree" if result.engine == "both" else f"{result.engine} engine"
    kept = "all rows kept" if timeline.is_whole else f"{len(timeline):,} of {timeline.row_count:,} rows kept"
    rows = sum(skip.rows for skip in timeline.skipped)
    if not rows:
        return f"{engine}, {kept}"
    periods = sorted({skip.period_cycles for skip in timeline.skipped})
    lengths = f"{periods[0]:,}" if len(periods) == 1 else f"{periods[0]:,} to {periods[-1]:,}"
    return f"{engine}, {kept}, {rows:,} rows repeated from periods of {lengths} cycles"


def values_text(result: RunResult) -> str:
    """Which values were computed: all, those of some tiles, or none."""
    sample = result.sample
    if sample is None:
        return "not computed" if result.values == "none" else "all"
    how = ", ".join(result.scenario["machine"]["sample"])
    return (
        f"sampled, {len(sample.tiles):,} of {sample.tiles_there:,} tiles ({how}), "
        f"{sample.calls_run:,} of {sample.calls:,} calls run"
    )


def _cores_text(result: RunResult) -> str:
    """How many cores of the device work, in a mixed kernel of which kinds."""
    kernel_type = result.program.kernel_type
    most, word = result.device.most_blocks(kernel_type), kernel_type.block_word
    text = f"{result.program.block_dim} of {most} {word}"
    if not kernel_type.is_mix:
        return text
    vector = kernel_type.kinds.count(CoreKind.AIV)
    return f"{text}, each 1 AIC and {vector} {'AIV' if vector == 1 else 'AIVs'}"


def _memory_text(result: RunResult, use: MemoryUse) -> str:
    """The highest byte in use and what there is; of UB, two limits stand before its end."""
    if use.buffer is not Buffer.UB:
        return f"{use.peak_bytes} B of {use.capacity_bytes} B, {use.free_bytes} B free"
    ub = result.device.ub
    return f"{use.peak_bytes} B (safe to {ub.safe_bytes.value}, visible to {ub.visible_bytes.value})"


def pipe_cells(result: RunResult) -> Cells:
    """Per pipe, in a mixed kernel of each kind of core: busy, stalled, idle as shares of its time, and instructions."""
    rows = []
    for (kind, pipe), uses in result.lane_use.items():
        total = max(1, len(uses) * result.makespan_cycles)
        busy, stalled = sum(u.busy_cycles for u in uses), sum(u.stalled_cycles for u in uses)
        shares = (f"{part / total:.1%}" for part in (busy, stalled, total - busy - stalled))
        rows.append((result.lane_name(pipe, kind), *shares, str(sum(u.rows for u in uses))))
    return rows


def overlap_cells(result: RunResult) -> Cells:
    """Per pair of pipes: shared cycles over the smaller busy time."""
    return [(f"{o.first.name} + {o.second.name}", str(o.shared_cycles), f"{o.share:.1%}") for o in result.overlaps]


def step_cells(result: RunResult) -> Cells:
    """Per marked step: cycles over all cores and share."""
    total = max(1, sum(result.step_cycles.values()))
    return [(name, str(cycles), f"{cycles / total:.1%}") for name, cycles in result.step_cycles.items()]


def cause_cells(result: RunResult) -> Cells:
    """The top causes of waiting: pipe, cause, queue, tensor or step, source line, count, cycles."""
    return [
        (result.lane_name(c.pipe, c.kind), c.wait.words, c.name, c.line, str(c.count), str(c.cycles))
        for c in result.top_causes
    ]


def bank_cells(result: RunResult) -> Cells:
    """The lines that lose most to UB bank conflicts, over all cores, and in the last row how much others lose."""
    losses = result.bank_losses
    rows = [(loss.line, loss.api, str(loss.cycles), loss.operands, loss.remedy) for loss in losses[:MOST_BANK_LOSSES]]
    rest = losses[MOST_BANK_LOSSES:]
    if rest:
        rows.append((f"{len(rest)} more", "", str(sum(loss.cycles for loss in rest)), "", ""))
    return rows


def expectation_cells(result: RunResult) -> Cells:
    """The scenario's [expect]: met or not, or not judged because the values were not computed."""
    words = {True: "met", False: "NOT MET", None: "not judged"}
    return [(words[e.met], e.what, e.wanted, e.got) for e in result.expectations]


_TABLES = (
    ("Pipes", ("pipe", "busy", "stalled", "idle", "instructions"), pipe_cells),
    ("Overlap", ("pipes", "shared cycles", "of the less busy one"), overlap_cells),
    ("Marked steps (all cores)", ("step", "cycles", "share"), step_cells),
    ("Top causes of waiting", ("pipe", "cause", "queue, tensor or step", "line", "count", "cycles"), cause_cells),
    (
        "UB bank conflicts (all cores)",
        ("line", "instruction", "cycles lost", "operands that meet", "what avoids it"),
        bank_cells,
    ),
    ("Expectations", ("", "what", "wanted", "got"), expectation_cells),
)


def tables(result: RunResult) -> list[tuple[str, tuple[str, ...], Cells]]:
    """Title, heads and rows of every table."""
    own = [(title, columns, cells(result)) for title, columns, cells in _TABLES]
    return [own[0], *report_tuning.tables(result), *report_critical.tables(result), *own[1:]]


def terminal(result: RunResult) -> RenderableType:
    """Return the summary for a terminal."""
    parts: list[RenderableType] = [Text(result.name, style="bold")]
    if result.despite_findings:
        parts.append(Text(STAMP, style="bold red"))
    if result.device.caution:
        parts.append(Text(result.device.caution, style="bold yellow"))
    head = Table.grid(padding=(0, 2))
    for name, value in headline(result):
        head.add_row(Text(name, style="dim"), value)
    parts.append(head)
    for title, columns, rows in tables(result):
        if rows:
            parts.append(_table(title, columns, rows))
    parts += [finding_text(f) for f in result.findings]
    parts += [
        Text.assemble("suppressed: ", finding_text(s.finding), f" (reason: {s.reason})") for s in result.suppressed
    ]
    return Group(*parts)


def _table(title: str, columns: tuple[str, ...], rows: Cells) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", header_style="dim", box=None, padding=(0, 2, 0, 0)
    )
    for column, cell in zip(columns, rows[0], strict=True):
        table.add_column(column, justify="right" if cell[:1].isdigit() else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def finding_text(finding: Finding) -> Text:
    """Return one finding for a terminal, in the colour of its severity."""
    text = Text(finding.code, style=f"bold {_COLOURS[finding.severity]}")
    text.append(str(finding).removeprefix(finding.code), style="default")
    if finding.count > 1:
        text.append(f" ({finding.count} times)", style="dim")
    return text


def markdown(result: RunResult) -> str:
    """Return the report as Markdown."""
    lines = [f"# {result.name}", ""]
    if result.despite_findings:
        lines += [f"**{STAMP}**", ""]
    if result.device.caution:
        lines += [f"**{result.device.caution}**", ""]
    lines += [f"- {name}: {value}" for name, value in headline(result)]
    lines += [f"- digest: {result.digest}", ""]
    for title, columns, rows in tables(result):
        if rows:
            lines += [f"## {title}", "", *_markdown_table(columns, rows), ""]
    lines += ["## Waiting in words", ""]
    lines += [f"- {cause_sentence(result, c)}" for c in result.top_causes] or ["- Nothing was waited for."]
    lines += ["", "## Findings", ""]
    lines += [f"- {f}" for f in result.findings] or ["- None."]
    if result.suppressed:
        lines += ["", "## Suppressed findings", ""]
        lines += [f"- {s.finding} Reason: {s.reason}" for s in result.suppressed]
    lines += ["", "## Pictures", "", "![timeline](timeline.png)", "", f"![{result.memory_title}](memory.png)", ""]
    lines += ["![where the time goes](balance.png)", ""]
    lines += _rests(result)
    return "\n".join(lines)


def _markdown_table(columns: tuple[str, ...], rows: Cells) -> list[str]:
    head = "| " + " | ".join(c or " " for c in columns) + " |"
    return [head, "|" + "---|" * len(columns), *("| " + " | ".join(row) + " |" for row in rows)]


def leaning_cells(result: RunResult) -> Cells:
    """The inferred and assumed numbers that the schedule used: busy cycles on them, their share, cycles waited."""
    total = max(1, result.busy_cycles)
    return [
        (
            used.figure.path,
            used.figure.status,
            str(used.busy_cycles),
            f"{used.busy_cycles / total:.1%}",
            str(used.waited_cycles),
            used.figure.source,
        )
        for used in result.uncertain_leanings
    ]


def family_cells(result: RunResult) -> Cells:
    """The families of measurements behind the makespan's range: part of the makespan, measurements, errors."""
    bar = result.error_bar
    return [
        (e.family.name, f"{part:.1%}", str(e.count), f"{e.median:.1%}", f"{e.p90:.1%}")
        for e, part in (bar.family_shares if bar else ())
    ]


_RESTS = (
    (
        "Inferred or assumed numbers that the schedule used",
        ("number", "status", "busy cycles", "of all", "cycles waited", "source"),
        leaning_cells,
    ),
    (
        "Measurements behind the range of the makespan",
        ("family", "of the makespan", "measurements", "median error", "90th percentile"),
        family_cells,
    ),
)


def _rests(result: RunResult) -> list[str]:
    """What the run rests on: choices, and tables of numbers and of measured errors."""
    lines = ["## What this rests on", "", *_choices(result), ""]
    for title, columns, cells in _RESTS:
        rows = cells(result)
        if rows:
            lines += [f"{title}:", "", *_markdown_table(columns, rows), ""]
    return lines


def _choices(result: RunResult) -> list[str]:
    device, arithmetic = result.device, result.device.arithmetic
    lines = [
        f"- half overflow: {arithmetic.half_overflow.value.value} ({arithmetic.half_overflow.status})",
        f"- rounding of half results: {arithmetic.softmax_grad_half_round_mode.value}",
    ]
    if any(pipe is Pipe.M for _, pipe in result.lane_use):
        lines.append(
            f"- order of Mmad's additions: {arithmetic.mmad_order.value.value} ({arithmetic.mmad_order.status})"
        )
    if result.outgrows_l2:
        segment = device.l2.segment_bytes
        lines.append(f"- L2 is smaller than the tensors; it drops segments of {segment.value} B ({segment.status})")
    uncertain = f"{len(device.uncertain_numbers())} numbers of the device file are inferred or assumed"
    used = "those listed below" if result.uncertain_leanings else "none of them"
    return [
        *lines,
        f"- {uncertain}; the schedule used {used}",
        "- kernel launch and instruction cache are not part of the makespan",
    ]
