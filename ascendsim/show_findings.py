"""Judged findings as text and as JSON: each with its place, the source line and a mark under the call."""

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from ascendsim.check_target import Judged, places
from ascendsim.errors import Finding, Severity
from ascendsim.places import Place, from_here

_WORDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "advice"}
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def page(judged: Judged) -> Iterator[Text]:
    """Yield what `ascendsim check` prints, one block after the other."""
    if judged.lines:
        yield Text("\n".join([*judged.lines, ""]))
    for finding, place, reason in places(judged):
        yield _block(finding, place, reason)
    yield Text(counts(judged))


def counts(judged: Judged) -> str:
    """Return how many findings there are of each severity, and how many are suppressed."""
    found = [(sum(f.severity is severity for f in judged.findings), _WORDS[severity]) for severity in Severity]
    parts = [f"{count} {word}{'s' * (count > 1 and word != 'advice')}" for count, word in found if count]
    accepted = len(judged.suppressed)
    return ", ".join([*(parts or ["no findings"]), *([f"{accepted} suppressed"] if accepted else [])])


def _block(finding: Finding, place: Place | None, reason: str | None) -> Text:
    word = _WORDS[finding.severity] if reason is None else "suppressed"
    style = _COLOURS[finding.severity] if reason is None else "dim"
    text = Text.assemble((f"{word} {finding.code}", f"bold {style}"), f": {finding.message}\n")
    for line in (*_place_lines(finding, place), *_more_lines(finding, reason)):
        text.append(f"{line}\n")
    return text


def _place_lines(finding: Finding, place: Place | None) -> list[str]:
    if place is None:
        return [f"  at {finding.where}"] if finding.where else []
    lines = [f"  --> {place.shown}{f', {place.what}' if place.what else ''}"]
    if place.line is None or place.column is None or place.end_column is None or not place.text:
        return lines
    margin = " " * len(str(place.line))
    before = "".join(c if c == "\t" else " " for c in place.text[: place.column - 1])
    mark = "^" * max(1, place.end_column - place.column)
    return [*lines, f"   {place.line} | {place.text.rstrip()}", f"   {margin} | {before}{mark}"]


def _more_lines(finding: Finding, reason: str | None) -> Iterator[str]:
    if finding.hint and reason is None:
        yield f"  to mend it: {finding.hint}"
    if finding.count > 1:
        yield f"  {finding.count} times"
    if reason is not None:
        yield f"  reason: {reason}"


def to_json(judged: Judged) -> dict[str, Any]:
    """Return the findings as plain values, those that count first, then the accepted ones; then sizes, if any."""
    return {
        "findings": [_plain(finding, place, reason) for finding, place, reason in places(judged)],
        **judged.facts,
    }


def _plain(finding: Finding, place: Place | None, reason: str | None) -> dict[str, Any]:
    return {
        **finding.to_dict(),
        "file": None if place is None else from_here(place.file),
        "line": None if place is None else place.line,
        "column": None if place is None else place.column,
        "suppressed": reason,
    }
