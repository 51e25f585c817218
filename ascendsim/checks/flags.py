"""Flags and barriers of a core: pairs that do not pair, waits that nobody ends, and what orders nothing."""

from collections.abc import Iterable, Iterator
from functools import cached_property

from ascendsim.checks.accesses import Act, Site
from ascendsim.checks.order import Flag, Held, Pending, State
from ascendsim.checks.sites import Hazard, Sites, sync_name
from ascendsim.errors import Rule
from ascendsim.library import is_library
from ascendsim.program import Program
from ascendsim.terms import HardEvent, Pipe

_FLAGS = "asc-devkit docs, SetFlag/WaitFlag page"

UNPAIRED = Rule(
    "E-SYNC-UNPAIRED",
    "flag {operand} id {got} is set and never waited for",
    "wait for it, or remove the set",
    _FLAGS,
    condition="A flag is set and the core has no wait for it afterwards.",
)
DUPLICATE = Rule(
    "E-SYNC-DUPLICATE",
    "flag {operand} id {got} is set again before anybody waited for it",
    "use another id, or wait first",
    _FLAGS,
    condition="A flag is set a second time while no wait has taken the first.",
)
MISMATCH = Rule(
    "E-SYNC-MISMATCH",
    "flag {operand} is set at {other}, but {pipe} waits for {got}",
    "use the same pair and id in SetFlag and WaitFlag",
    "asc-devkit docs, architecture page 2002, and SetFlag/WaitFlag page",
    condition="A wait has no set and a set has no wait, and the two differ in the pair or in the id only.",
)
DEADLOCK = Rule(
    "E-SYNC-DEADLOCK",
    "deadlock: {chain}",
    "set the flag before the wait, on the pipe that its name begins with",
    "follows from how flags work",
    condition="A pipe waits for a flag that nobody sets, or that a pipe sets which waits itself.",
)
REDUNDANT = Rule(
    "W-SYNC-REDUNDANT",
    "{what} orders nothing that is not ordered already",
    "remove it, a wait with its set_flag",
    "public msSanitizer pages, synchronisation check",
    condition="Whenever a wait or barrier is passed, its pipe knows already that everything it stands for is finished.",
)


class Flags:
    """Findings about flags of one program."""

    def __init__(self, program: Program) -> None:
        self._sites = Sites(program)
        self._program = program

    @cached_property
    def _set(self) -> frozenset[Flag]:
        return self._flags_of("set_flag")

    @cached_property
    def _waited(self) -> frozenset[Flag]:
        return self._flags_of("wait_flag")

    def _flags_of(self, name: str) -> frozenset[Flag]:
        """The flags that are set, or waited for."""
        rows = (row for template in self._program.templates for row in template.rows)
        return frozenset((row.params[0], row.params[1]) for row in rows if row.op.name == name)

    def doubled(self, site: Site, before: Site) -> Hazard:
        """Return that a flag is set while an earlier set of it is pending."""
        event, event_id = self._sites.flag(site)
        finding = DUPLICATE.finding(self._sites.line(site), operand=event.name, got=event_id, wanted="a wait first")
        return self._sites.hazard(finding, site, before)

    def redundant(self, idle: Iterable[Site], useful: Iterable[Site]) -> Iterator[Hazard]:
        """Yield waits and barriers that never tell their pipe anything new."""
        needed = {self._call_at(site) for site in useful}
        for site in sorted(site for site in idle if self._call_at(site) not in needed):
            yield from self._redundant_at(site)

    def of_end(self, state: State, twice: set[tuple[HardEvent, int]]) -> Iterator[Hazard]:
        """Yield what is left when the kernel is over: flags that are up, pipes that wait; flags set twice are known."""
        waits = [rows[0] for _, rows in state.held if rows[0].step.act is Act.WAIT]
        left = [(flag, pending) for flag, line in state.pending for pending in line]
        for wait in waits:
            near = next((one for one in left if self._are_mistaken(one[0], wait.step.flag)), None)
            if near is not None:
                yield self._mismatch(near, wait)
                return  # what else waits or is left over follows from it
        if waits:
            yield self._deadlock(state, waits)
            return
        for (event, event_id), pending in left:
            if (event, event_id) in twice:
                continue
            name = HardEvent(event).name
            finding = UNPAIRED.finding(self._sites.line(pending.site), operand=name, got=event_id, wanted="a wait")
            yield self._sites.hazard(finding, pending.site)

    def _are_mistaken(self, one: Flag, other: Flag) -> bool:
        """Whether nobody waits for a flag that is set, nobody sets one that is waited for, and they nearly agree."""
        return _nearly(one, other) and one not in self._waited and other not in self._set

    def _mismatch(self, near: tuple[Flag, Pending], wait: Held) -> Hazard:
        (event, event_id), pending = near
        wanted = f"{HardEvent(wait.step.flag[0]).name} id {wait.step.flag[1]}"
        site = (wait.template, wait.step.at)
        fill = {"other": self._sites.line(pending.site), "pipe": wait.step.pipe.name}
        operand = f"{HardEvent(event).name} id {event_id}"
        finding = MISMATCH.finding(self._sites.line(site), operand=operand, got=wanted, wanted=operand, fill=fill)
        return self._sites.hazard(finding, site, pending.site)

    def _deadlock(self, state: State, waits: list[Held]) -> Hazard:
        """Follow a wait for a flag that nobody sets, else the first, to who should have set it, and on."""
        held = dict(state.held)
        first = min(waits, key=lambda one: (one.step.flag in self._set, one.template, one.step.at))
        chain, wait = [], first
        seen: set[Pipe] = set()
        while True:
            event, event_id = wait.step.flag
            seen.add(wait.step.pipe)
            place = self._sites.line((wait.template, wait.step.at))
            said = f"{wait.step.pipe.name} waits at {place} for {HardEvent(event).name} id {event_id}"
            setter = HardEvent(event).src
            late = next((p for p, rows in held.items() if any(_sets(r, wait.step.flag) for r in rows)), None)
            if late is None:
                chain.append(f"{said}, which {setter.name} never sets")
                break
            row = next(r for r in held[late] if _sets(r, wait.step.flag))
            later = self._sites.line((row.template, row.step.at))
            chain.append(f"{said}, which {setter.name} sets only later, at {later}")
            following = held[late][0]
            if late in seen or following.step.act is not Act.WAIT:
                break
            wait = following
        site = (first.template, first.step.at)
        event, event_id = first.step.flag
        name, fill = HardEvent(event).name, {"chain": "; ".join(chain)}
        finding = DEADLOCK.finding(
            self._sites.line(site), operand=name, got=f"id {event_id}", wanted="a set before", fill=fill
        )
        return self._sites.hazard(finding, site)

    def _call_at(self, site: Site) -> tuple[object, ...]:
        """The call that a wait or barrier stands for: turns of a loop are one call, of which only some may be idle."""
        row = self._sites.row(site)
        return row.line, row.op.opcode, row.params

    def _redundant_at(self, site: Site) -> Iterator[Hazard]:
        """A wait or barrier of the kernel's own that says nothing new; queues bring their flags by themselves.

        Flags from and to the scalar unit are left out: that it finishes before it issues is how this simulator orders
        it, and what an API does inside may order it already. So are those of library kernels, which serve all shapes,
        and the one inside Select, which waits for a register and not for bytes.
        """
        row = self._sites.row(site)
        is_inner = self._sites.is_of_sync_all(site) or self._sites.is_inside_select(site)
        if row.que >= 0 or is_library(self._sites.source(site)) or is_inner:
            return
        if row.op.name == "wait_flag" and Pipe.S in (HardEvent(row.params[0]).src, HardEvent(row.params[0]).dst):
            return
        what = sync_name(row)
        finding = REDUNDANT.finding(self._sites.line(site), operand=what, got=0, wanted="an order", fill={"what": what})
        yield self._sites.hazard(finding, site)


def _sets(row: Held, flag: Flag) -> bool:
    return row.step.act is Act.SET and row.step.flag == flag


def _nearly(one: Flag, other: Flag) -> bool:
    """Whether two flags differ in the id only, or in the pair only, one end of which is the same."""
    if one[0] == other[0]:
        return True
    first, second = HardEvent(one[0]), HardEvent(other[0])
    return one[1] == other[1] and (first.src is second.src or first.dst is second.dst)
