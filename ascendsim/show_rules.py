"""The catalogue of rules for people: the terminal, JSON, and the tables of docs/checks.md."""

import difflib
from collections.abc import Iterable
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ascendsim.catalogue import Entry, NotYet, entries, not_yet, severity_of
from ascendsim.errors import InputError, Rule, Severity

_WORDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "advice"}
_NEAREST = 3
"""Names that a typing error is answered with."""


def rule_list() -> list[dict[str, Any]]:
    """Return all rules in plain values."""
    return [
        {
            "code": code,
            "severity": _severities(entry),
            "architectures": list(entry.rule.archs),
            "condition": entry.rule.condition,
        }
        for code, entry in entries().items()
    ]


def rule_table() -> RenderableType:
    """Return all rules as a table."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("code", no_wrap=True)
    table.add_column("severity", no_wrap=True)
    table.add_column("arch", max_width=10)
    table.add_column("condition", overflow="fold")
    for code, entry in entries().items():
        table.add_row(code, "/".join(_severities(entry)), _archs(entry.rule), Text(entry.rule.condition))
    note = f"{len(entries())} rules; {len(not_yet())} more codes cannot occur yet (docs/checks.md)"
    return Group(table, Text(note, "dim"))


def explain(code: str) -> Entry | NotYet:
    """Return what is known of a code, whichever case it is written in.

    Raises:
        InputError: no such code; the text names the nearest.
    """
    name = code.strip().upper()
    if name in entries():
        return entries()[name]
    if name in not_yet():
        return not_yet()[name]
    near = difflib.get_close_matches(name, [*entries(), *not_yet()], n=_NEAREST, cutoff=0.6)
    hint = f"did you mean {', '.join(near)}?" if near else "`ascendsim check --list` lists all"
    raise InputError(f"--explain {code}: no such code; {hint}")


def explanation(known: Entry | NotYet) -> dict[str, Any]:
    """Return what is known of a code in plain values."""
    if isinstance(known, NotYet):
        return {"code": known.code, "can_occur": False, "title": known.title, "reason": known.reason}
    return {
        "code": known.rule.code,
        "can_occur": True,
        "severity": _severities(known),
        "condition": known.rule.condition,
        "architectures": list(known.rule.archs),
        "wordings": [
            {
                "message": rule.message,
                "hint": rule.hint,
                "source": rule.source,
                "severity": severity_of(rule).value,
            }
            for rule in known.wordings
        ],
        "instructions": list(known.instructions),
    }


def explanation_page(known: Entry | NotYet) -> RenderableType:
    """Return what is known of a code as a page."""
    if isinstance(known, NotYet):
        rows = [("what it is about", known.title), ("why it cannot occur yet", known.reason)]
        return Group(Text(known.code, "bold"), _pairs(rows))
    rows = [
        ("found when", known.rule.condition),
        ("severity", _severity_words(known)),
        ("architectures", _archs(known.rule)),
    ]
    for rule in known.wordings:
        rows += [("message", _with_grade(known, rule)), ("to mend it", rule.hint), ("source", rule.source)]
    if known.instructions:
        rows.append(("checked by", ", ".join(known.instructions)))
    return Group(Text(known.rule.code, "bold"), _pairs(rows))


def rules_markdown() -> str:
    """Return all rules as the table of docs/checks.md."""
    rows = [
        (f"`{code}`", "/".join(_severities(entry)), _archs(entry.rule), entry.rule.condition)
        for code, entry in entries().items()
    ]
    return _markdown(("code", "severity", "arch", "found when"), rows)


def not_yet_markdown() -> str:
    """Return the codes that cannot occur yet as the table of docs/checks.md."""
    rows = [(f"`{code}`", known.title, known.reason) for code, known in not_yet().items()]
    return _markdown(("code", "what it is about", "why not yet"), rows)


def with_tables(page: str) -> str:
    """Return docs/checks.md with both tables written anew between their marker comments."""
    for name, table in (("rules", rules_markdown()), ("not-yet", not_yet_markdown())):
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, _, rest = page.partition(begin)
        after = rest.partition(end)[2]
        page = f"{before}{begin}\n{table}\n{end}{after}"
    return page


def _markdown(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


def _severities(entry: Entry) -> list[str]:
    return [severity.value for severity in entry.severities]


def _severity_words(entry: Entry) -> str:
    """What its findings are reported as, and why where that is not what the code's letter says."""
    words = " or ".join(_WORDS[severity] for severity in entry.severities)
    graded = [rule for rule in entry.wordings if rule.level and rule.level != rule.code[0]]
    reasons = "; ".join(dict.fromkeys(rule.source for rule in graded))
    return f"{words}, graded from the code's {entry.rule.code[0]} by {reasons}" if graded else words


def _with_grade(entry: Entry, rule: Rule) -> str:
    """A message, with its severity where the rule has several."""
    return rule.message if len(entry.severities) == 1 else f"{rule.message} ({_WORDS[severity_of(rule)]})"


def _archs(rule: Rule) -> str:
    return ", ".join(map(str, rule.archs)) or "all"


def _pairs(rows: list[tuple[str, str]]) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, Text(text))
    return Padding(table, (0, 0, 0, 2))
