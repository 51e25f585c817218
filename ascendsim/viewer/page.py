"""One page that shows a run by itself: what it holds, and the files of style and script around that.

The page's data are one block of base64, so that no name in them can end a tag, and its only other text from outside,
the title, is escaped. It loads nothing and asks no server.
"""

import base64
import html
import re
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from typing import Any

from ascendsim import __version__, analysis, colours, report
from ascendsim.engine.base import Wait
from ascendsim.errors import Finding
from ascendsim.inspection import RowView
from ascendsim.places import named_lines
from ascendsim.result import RunResult
from ascendsim.terms import Pipe
from ascendsim.viewer import rows as of_rows
from ascendsim.viewer.columns import Column, packed
from ascendsim.viewer.values import hints, values_of
from ascendsim.words import cause_sentence

SCRIPTS = (
    *("data.js", "model.js", "steps.js", "words.js", "pieces.js", "chart.js", "panel.js", "find.js", "view.js"),
    "main.js",
)
"""In the order in which they are joined."""
FILES = (
    ("report.md", "the report as text"),
    ("timeline.png", "timeline of some cores"),
    ("timeline.svg", "the same as SVG"),
    ("memory.png", "on-chip memory over time (with --svg memory.svg, too)"),
    ("balance.png", "where the time goes (likewise)"),
    ("roofline.png", "operations for each byte of GM under the device's roofs (likewise)"),
    ("trace.json", "for Perfetto and MindStudio Insight"),
    ("memory_info.json", "memory map for MindStudio Insight"),
    ("PipeUtilization.csv", "pipes of each core, with msopprof's columns"),
    ("simulator", "instructions and lines of each core, with msopprof's columns"),
    ("dumps.txt", "what DumpTensor has shown"),
    ("outputs.npz", "values of the outputs"),
    ("findings.json", "violated rules"),
    ("scenario.toml", "the resolved scenario"),
    ("run.json", "the run in plain numbers"),
)
"""Beside the page in a run's folder, where the run has them."""


def report_html(result: RunResult, looked_at: Mapping[int, RowView] | None = None) -> str:
    """Return a run as one page of HTML, which needs nothing beside it.

    Args:
        result: the run.
        looked_at: what some rows found and left (`inspection.values`), None for those that the result has.
    """
    result = result if looked_at is None else replace(result, looked_at=looked_at)
    head, columns = _content(result)
    data = base64.b64encode(packed(head, columns)).decode()
    parts = {
        "TITLE": html.escape(f"{result.name} on {result.device.name}"),
        "STYLE": _slim(_file("view.css")),
        "SCRIPT": _slim("\n".join(_file(name) for name in SCRIPTS)),
        "DATA": data,
    }
    return re.sub(r"@(TITLE|STYLE|SCRIPT|DATA)@", lambda found: parts[found[1]], _file("page.html"))


def _file(name: str) -> str:
    return resources.files("ascendsim.viewer").joinpath(name).read_text(encoding="utf-8")


def _slim(text: str) -> str:
    """Leave indentation out, and lines that are empty or one comment: what a page is sent with, not read for."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not re.fullmatch(r"//.*|/\*.*\*/", line))


def _content(result: RunResult) -> tuple[dict[str, Any], dict[str, Column]]:
    """The head and the columns of a page's data."""
    program, timeline = result.program, result.timeline
    shown = of_rows.shown(result)
    columns = of_rows.row_columns(result, shown)
    lives, allocations = of_rows.life_columns(result, shown)
    table = of_rows.instructions(program)
    head = {
        **_outline(result),
        "rows": timeline.row_count,
        "rows_here": len(shown.at),
        "lanes": [list(lane) for lane in shown.lanes],
        "cores": [program.core_name(core) for core in range(program.core_count)],
        "gaps": _gaps(result, shown),
        "pipes": {int(p): [result.lane_name(p, None), colours.PIPES.get(p, "#999999")] for p in Pipe},
        "positions": colours.POSITIONS,
        "causes": [wait.words for wait in Wait],
        "dispatch_cycles": result.device.scalar.dispatch_cycles.value,
        "instructions": table.rows,
        "ops": table.ops,
        "tensors": table.tensors,
        "templates": table.templates,
        "gm": [[tensor.name, tensor.base_bytes] for tensor in program.gm],
        "lines": program.lines,
        "steps": program.steps,
        "sources": dict(result.sources),
        "line_cycles": of_rows.spent(result, table.rows),
        "wait_names": of_rows.wait_names(result, columns),
        "memories": of_rows.buffers(result),
        "allocations": allocations,
        "use": _use(result),
        "values": values_of(result.looked_at),
        "hints": hints(result),
    }
    path, edges = of_rows.path_columns(result)
    head["edges"] = edges
    return head, {**columns, **path, **of_rows.call_columns(program, shown), **lives}


def _outline(result: RunResult) -> dict[str, Any]:
    """What the page says in words."""
    return {
        "tool": f"ascendsim {__version__}",
        "name": result.name,
        "device": result.device.name,
        "clock_mhz": result.device.clock_mhz,
        "makespan": result.makespan_cycles,
        "cautions": [*([report.STAMP] if result.despite_findings else []), *filter(None, [result.device.caution])],
        "headline": [list(line) for line in report.headline(result)],
        "digest": result.digest,
        "tables": [[title, list(heads), [list(row) for row in cells]]
                   for title, heads, cells in report.tables(result) if cells],
        "waits": [[cause_sentence(result, c), c.line, int(c.pipe), int(c.wait)] for c in result.top_causes],
        "findings": [_finding(f, "", result.program.lines) for f in result.findings]
        + [_finding(s.finding, s.reason, result.program.lines) for s in result.suppressed],
        "files": [[name, what] for name, what in FILES if name not in _absent(result)],
        "skipped": [[s.first, s.last, s.period_cycles, s.rows] for s in result.timeline.skipped],
    }  # fmt: skip


def _absent(result: RunResult) -> set[str]:
    """Files that this run's folder has not."""
    tables = set() if result.timeline.is_whole else {"simulator"}
    return tables if result.dumps else tables | {"dumps.txt"}


def _finding(finding: Finding, reason: str, lines: tuple[str, ...]) -> dict[str, Any]:
    """A finding, why it is accepted if it is, and the kernel lines that it names."""
    return finding.to_dict() | {"suppressed": reason, "lines": named_lines(finding, lines)}


def _use(result: RunResult) -> dict[str, Any]:
    """How busy each pipe was over the whole run, in thousandths of each bin."""
    cuts, shares = analysis.utilisation(result.timeline, result.program.block_cores)
    return {
        "cuts": cuts.tolist(),
        "shares": {int(pipe): (1000 * share).round().astype(int).tolist() for pipe, share in shares.items()},
    }


def _gaps(result: RunResult, shown: of_rows.Shown) -> dict[int, list[tuple[int, int]]]:
    """By core, stretches of time of which rows are missing."""
    if len(shown.at) == result.timeline.row_count:
        return {}
    return {core: _missing(result, core) for core in sorted({core for core, _, _ in shown.lanes})}


def _missing(result: RunResult, core: int) -> list[tuple[int, int]]:
    """Where a core's rows are not kept: between those at either end, but in windows."""
    if result.timeline.is_whole:
        return []
    (_, first), (last, _) = analysis.edges(result.program, result.timeline, core)
    found = [(first, last)] if last > first else []
    for begin, end in result.windows:
        found = [part for a, b in found for part in ((a, min(b, begin)), (max(a, end), b)) if part[1] > part[0]]
    return found
