"""Rows of templates as places in a kernel, and hazards: findings with the lines that they are about."""

import re
from dataclasses import dataclass, replace

from ascendsim.checks.accesses import Site
from ascendsim.errors import Finding
from ascendsim.isa.instruction import Row
from ascendsim.program import Program
from ascendsim.terms import HardEvent, Pipe


@dataclass(frozen=True, slots=True)
class Hazard:
    """A finding, and the kernel lines that it is about."""

    finding: Finding
    lines: frozenset[int]


class Found:
    """Hazards, those about the same two lines counted together."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[Hazard, int]] = {}

    def add(self, hazard: Hazard, count: int) -> None:
        """Take one in that occurs so often."""
        f = hazard.finding
        key = (f.code, f.where, f.operand, f.wanted, f.level)
        first, before = self._known.get(key, (hazard, 0))
        self._known[key] = (first, before + count)

    def has(self, beginning: str) -> bool:
        """Whether a code begins like this."""
        return any(hazard.finding.code.startswith(beginning) for hazard, _ in self._known.values())

    def all(self) -> tuple[Hazard, ...]:
        """Return them, in the order in which they were found."""
        return tuple(Hazard(replace(h.finding, count=count), h.lines) for h, count in self._known.values())


def names_line(text: str, line: str) -> bool:
    """Whether a text names a kernel line: "k.py:12" names neither k.py:1 nor y.py:12."""
    return re.search(rf"(?<![\w.]){re.escape(line)}(?!\d)", text) is not None


def sync_name(row: Row) -> str:
    """Return what a wait or barrier is called: its flag, or its pipe."""
    if row.op.name == "wait_flag":
        event, event_id = row.params
        return f"WaitFlag {HardEvent(event).name} id {event_id}"
    return f"PipeBarrier<PIPE_{Pipe(row.param('barrier_pipe')).name}>"


def is_of_sync_all(rows: tuple[Row, ...], at: int) -> bool:
    """Whether a barrier is part of SyncAll, which sets its flag behind it."""
    following = rows[at + 1] if at + 1 < len(rows) else None
    is_set = following is not None and following.op.name == "cross_core_set_flag"
    return is_set and following is not None and following.line == rows[at].line


class Sites:
    """Rows of a program's templates, by template and place in it."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def row(self, site: Site) -> Row:
        """The row."""
        template, at = site
        return self._program.templates[template].rows[at]

    def is_of_sync_all(self, site: Site) -> bool:
        """Whether a barrier is part of SyncAll."""
        return is_of_sync_all(self._program.templates[site[0]].rows, site[1])

    def flag(self, site: Site) -> tuple[HardEvent, int]:
        """The pair and id of a flag's row."""
        event, event_id = self.row(site).params
        return HardEvent(event), event_id

    def is_inside_select(self, site: Site) -> bool:
        """Whether a barrier stands behind Select's own setting of the compare-mask register."""
        template, at = site
        return at > 0 and self._program.templates[template].rows[at - 1].op.name == "set_cmpmask"

    def source(self, site: Site) -> str:
        """The kernel line, "file.py:31"."""
        return self._program.lines[self.row(site).line]

    def line(self, site: Site) -> str:
        """Instruction and kernel line, as findings name a place."""
        return f"{self.row(site).op.api} ({self.source(site)})"

    def hazard(self, finding: Finding, *sites: Site) -> Hazard:
        """A finding about these rows."""
        return Hazard(finding, frozenset(self.row(site).line for site in sites))
