"""Findings that a scenario accepts, each with a reason: `[[suppress]]`."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ascendsim.errors import Finding, Rule, Suppressed

UNUSED = Rule(
    "W-SUPPRESS-UNUSED",
    "suppression of {operand}{conditions} matches no finding",
    "delete it, or correct its code, line, where or operand",
    "follows from the scenario: what it accepts is not there",
    condition="A [[suppress]] of the scenario matches no finding.",
)


@dataclass(frozen=True, slots=True)
class Suppression:
    """One accepted finding.

    Attributes:
        code: its code, whole.
        reason: why it is accepted.
        line: its kernel line, "31" or "kernel.py:31"; "" for any.
        where: text that its place holds; "" for any.
        operand: its operand; "" for any.
    """

    code: str
    reason: str
    line: str = ""
    where: str = ""
    operand: str = ""

    def covers(self, finding: Finding) -> bool:
        """Whether it is this finding that is accepted."""
        return (
            finding.code == self.code
            and self.where in finding.where
            and self.operand in ("", finding.operand)
            and (not self.line or self._is_at_line(finding.where))
        )

    def _is_at_line(self, where: str) -> bool:
        before = ":" if self.line.isdecimal() else r"(?<![\w.-])"
        return re.search(rf"{before}{re.escape(self.line)}(?!\d)", where) is not None

    @property
    def conditions(self) -> str:
        """What it asks for beside the code, in words."""
        given = [(name, getattr(self, name)) for name in ("line", "where", "operand")]
        texts = [f"{name} {value!r}" for name, value in given if value]
        return f" ({', '.join(texts)})" if texts else ""


def set_apart(
    findings: Iterable[Finding], suppressions: Sequence[Suppression]
) -> tuple[tuple[Finding, ...], tuple[Suppressed, ...]]:
    """Return the findings that count, and those that a suppression covers; the first one gives the reason."""
    kept, accepted = [], []
    for finding in findings:
        reason = next((s.reason for s in suppressions if s.covers(finding)), None)
        if reason is None:
            kept.append(finding)
        else:
            accepted.append(Suppressed(finding, reason))
    return tuple(kept), tuple(accepted)


def unused(
    suppressions: Sequence[Suppression], findings: Collection[Finding], not_judged: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return a finding for each suppression that covers nothing; `not_judged` are codes nobody has looked for."""
    return tuple(
        UNUSED.finding(f"suppress[{number}]", operand=s.code, fill={"conditions": s.conditions})
        for number, s in enumerate(suppressions)
        if s.code not in not_judged and not any(s.covers(finding) for finding in findings)
    )
