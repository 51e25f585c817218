"""A run, and its timeline, as HTML that a notebook shows: one piece, no script, nothing fetched, any background.

Text takes the colour of the page, so that it is read on light and dark alike.
"""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise

import numpy as np

from ascendsim import analysis, colours, report
from ascendsim.analysis import Ints
from ascendsim.errors import Finding
from ascendsim.result import RunResult
from ascendsim.terms import Pipe

MOST_FINDINGS = 10
"""So many are listed."""
_WIDTH, _BAND, _GAP = 640, 22, 4
"""Units of the small picture: width, height of a pipe's band, distance of two."""
_NAME = 64
_MOST_BINS = 144
_CELL = "padding:1px 10px 1px 0;text-align:left;vertical-align:top;border:0;background:transparent"
_TABLE = "border-collapse:collapse;border:0;margin:6px 0;color:inherit;font-size:inherit"
"""Where a page says nothing of its kind, tables take neither colour nor size from around them."""
_FAINT = "opacity:.7"
_BOX = "font-family:sans-serif;font-size:13px;line-height:1.35;color:inherit"


def result_html(result: RunResult) -> str:
    """Return a run as HTML: what matters most, pipes, expectations, findings."""
    parts = [
        title(f"{result.name} on {result.device.name}"),
        table([(faint(name), escape(value)) for name, value in report.headline(result)]),
        _pipes(result),
        _expectations(result),
        _findings(result.findings),
    ]
    return box(parts)


def timeline_html(result: RunResult) -> str:
    """Return a timeline as HTML: how busy each pipe was over time, and all in all."""
    timeline = result.timeline
    kept = "all rows kept" if timeline.is_whole else f"{len(timeline):,} rows kept"
    makespan = f"makespan {timeline.makespan_cycles:,} cycles = {result.makespan_us:.3f} µs"
    text = f"{timeline.row_count:,} rows, {kept}, {makespan}"
    parts = [title(f"Timeline of {result.name}"), f"<div>{escape(text)}</div>", _overview(result), _pipes(result)]
    return box([*parts, f'<div style="{_FAINT}">draw it with <code>.plot(cores, window)</code></div>'])


def box(parts: Iterable[str]) -> str:
    """Return parts of HTML as one."""
    return f'<div class="ascendsim" style="{_BOX}">{"".join(parts)}</div>'


def title(text: str) -> str:
    """Return a line above the rest."""
    return f'<div style="font-weight:bold;font-size:15px">{escape(text)}</div>'


def faint(text: str) -> str:
    """Return text that stands back."""
    return f'<span style="{_FAINT}">{escape(text)}</span>'


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table; cells are HTML already."""
    cells = ("".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) for row in rows)
    body = "".join(f'<tr style="background:transparent">{row}</tr>' for row in cells)
    return f'<table style="{_TABLE}">{body}</table>'


def _pipes(result: RunResult) -> str:
    """Busy, stalled and idle cycles of each pipe as shares of its cores' time."""
    rows = []
    for (kind, pipe), uses in result.lane_use.items():
        total = max(1, result.makespan_cycles * len(uses))
        busy, stalled = (sum(getattr(u, name) for u in uses) / total for name in ("busy_cycles", "stalled_cycles"))
        bar = (
            '<div style="display:inline-block;width:200px;height:10px;border:1px solid currentColor">'
            f'<div style="width:{busy * 100:.1f}%;height:100%;background:{colours.PIPES[pipe]}"></div></div>'
        )
        rows.append((faint(result.lane_name(pipe, kind)), bar, f"{busy:.1%} busy, {stalled:.1%} stalled"))
    return table(rows)


def _expectations(result: RunResult) -> str:
    words = {True: "met", False: "NOT MET", None: "not judged"}
    rows = [(words[e.met], escape(e.what), escape(e.wanted), escape(e.got)) for e in result.expectations]
    return table([("", faint("expected"), faint("wanted"), faint("got")), *rows]) if rows else ""


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return faint("no findings")
    rows = [
        (escape(f.severity.name.lower()), f"<b>{escape(f.code)}</b>", escape(f.message), faint(f.where))
        for f in findings[:MOST_FINDINGS]
    ]
    left = len(findings) - MOST_FINDINGS
    return table(rows) + (faint(f"{left} more findings") if left > 0 else "")


def _overview(result: RunResult) -> str:
    """A band for each pipe: which part of its cores is busy, over time."""
    cuts, shares = analysis.utilisation(result.timeline, result.program.block_cores)
    pipes = [pipe for pipe in colours.PIPES if pipe in shares]
    last = max(1, result.makespan_cycles)
    height = len(pipes) * (_BAND + _GAP)
    bands = []
    for number, pipe in enumerate(pipes):
        top = number * (_BAND + _GAP)
        bands.append(_band(pipe, top, *_joined(cuts, shares[pipe]), last))
    label = f"busy share of each pipe over {last} cycles"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" aria-label="{label}" '
        f'style="display:block;margin:6px 0">{"".join(bands)}</svg>'
    )


def _joined(cuts: Ints, shares: Ints) -> tuple[list[tuple[int, int]], list[float]]:
    """Neighbouring bins as one, so that there are no more than can be seen."""
    step = max(1, -(-len(shares) // _MOST_BINS))
    starts = np.arange(0, len(shares), step)
    edges = [*cuts[starts].tolist(), int(cuts[-1])]
    spans = np.diff(cuts)
    means = np.add.reduceat(shares * spans, starts) / np.maximum(1, np.add.reduceat(spans, starts))
    return list(pairwise(edges)), means.tolist()


def _band(pipe: Pipe, top: int, bins: list[tuple[int, int]], shares: list[float], last: int) -> str:
    room, base = _WIDTH - _NAME, top + _BAND
    points = [f"M{_NAME} {base}"]
    for (first, end), share in zip(bins, shares, strict=True):
        left, right = (_NAME + room * at / last for at in (first, end))
        y = base - share * _BAND
        points.append(f"L{left:.1f} {y:.1f}L{right:.1f} {y:.1f}")
    path = "".join([*points, f"L{_WIDTH} {base}Z"])
    return (
        f'<text x="0" y="{base - 6}" font-size="11" fill="currentColor">{pipe.name}</text>'
        f'<path d="{path}" fill="{colours.PIPES[pipe]}"/>'
        f'<path d="M{_NAME} {base}H{_WIDTH}" stroke="currentColor" stroke-opacity=".4" fill="none"/>'
    )
