"""Findings about flags between cores: those that nobody sets or waits for, too many at once, reserved ones."""

from collections.abc import Iterator

from ascendsim.checks.between import Between, Event
from ascendsim.checks.flags import DEADLOCK, UNPAIRED
from ascendsim.checks.sites import Hazard, Sites
from ascendsim.cross import CrossFlag
from ascendsim.errors import Rule
from ascendsim.isa.sync import SYNC_ALL_IDS, XSYNC_ID
from ascendsim.program import Program

_FLAGS = "asc-devkit docs, CrossCoreSetFlag and CrossCoreWaitFlag pages"

CROSS_DEADLOCK = DEADLOCK.saying(
    "deadlock: {chain}", "let every core of the group set the flag before the others wait for it", _FLAGS
)
CROSS_UNPAIRED = UNPAIRED.saying(
    "{operand} is set {got} times, and {who} waits for it {wanted} times",
    "wait for every set, on every core that it is for: the rest is still there for the next kernel",
    _FLAGS,
)
XSYNC_BLOCK = Rule(
    "E-XSYNC-BLOCK",
    "{who} waits in SyncAll for {got}, which never gets there",
    "call sync_all on every core, however many tiles it has, and as often",
    "asc-devkit docs, SyncAll page",
    condition="A core reaches a SyncAll more often than another that has to.",
)
XSYNC_OVERFLOW = Rule(
    "E-XSYNC-OVERFLOW",
    "{operand}: {got} sets can be ahead of the waits of {who}, its counter holds {wanted}",
    "wait more often, or let the core that sets wait for a flag from the other side",
    _FLAGS,
    condition="More than 15 sets of a cross-core flag can happen before a core that waits for them takes the first.",
)
SYNC_ALL_ID = XSYNC_ID.saying("{api}: flag id {got} is {operand}; kernels may use {wanted}")
MOST_PENDING = 15
"""What the counter of a cross-core flag holds (asc-devkit docs, CrossCoreSetFlag page)."""
RESERVED = range(11, 15)
"""Ids that SyncAll may use (asc-devkit docs, CrossCoreSetFlag page)."""


def is_sync_all(flag: CrossFlag) -> bool:
    """Whether a flag is one of those that SyncAll sets."""
    return SYNC_ALL_IDS.get(flag.mode) == flag.flag_id


class FlagsBetween:
    """Findings about the cross-core flags of one program."""

    def __init__(self, program: Program, between: Between) -> None:
        self._program = program
        self._between = between
        self._sites = Sites(program)

    def all(self) -> Iterator[Hazard]:
        """Everything; what a deadlock leaves open is not told beside it."""
        yield from self._reserved()
        held = self._between.held
        if held:
            yield self._stuck(held)
            return
        for flag, waiter in self._flags():
            yield from self._of_flag(flag, waiter)

    # ---- who waits in vain ----------------------------------------------------------------------------------------

    def _stuck(self, held: list[Event]) -> Hazard:
        """The wait for somebody who is over, else the first; and what each waits for."""
        waits = {wait.core: wait for wait in held}
        first = min(held, key=lambda wait: all(core in waits for core in self._late(wait)))
        late = [core for core in self._late(first) if core not in waits]
        name = self._program.core_name
        where = self._sites.line(first.site)
        if late and is_sync_all(first.flag):
            got, who = ", ".join(map(name, late)), name(first.core)
            finding = XSYNC_BLOCK.finding(where, operand="SyncAll", got=got, wanted="all cores", fill={"who": who})
            return self._sites.hazard(finding, first.site)
        chain, wait, seen = [], first, set[int]()
        while wait.core not in seen:
            seen.add(wait.core)
            setter = next((core for core in self._late(wait) if core not in waits), None)
            said = f"{name(wait.core)} waits at {self._sites.line(wait.site)} for {_name(wait.flag)}"
            if setter is not None or not self._late(wait):
                never = name(setter) if setter is not None else "no core"
                chain.append(f"{said}, which {never} {self._how_often(wait, setter)}")
                break
            setter = self._late(wait)[0]
            sets = self._between.sets.get((wait.flag, setter), [])
            later = f"sets only later, at {self._sites.line(sets[wait.number].site)}" if len(sets) > wait.number else ""
            chain.append(f"{said}, which {name(setter)} {later or self._how_often(wait, setter)}")
            wait = waits[setter]
        fill = {"chain": "; ".join(chain)}
        finding = CROSS_DEADLOCK.finding(where, operand=_name(first.flag), got="a wait", wanted="a set", fill=fill)
        return self._sites.hazard(finding, first.site)

    def _how_often(self, wait: Event, setter: int | None) -> str:
        sets = [] if setter is None else self._between.sets.get((wait.flag, setter), [])
        return f"sets only {len(sets)} times" if sets else "never sets"

    def _late(self, wait: Event) -> tuple[int, ...]:
        """Cores that have not set what a wait needs."""
        setters = self._between.setters.get((wait.flag.mode, wait.core), ())
        sets = self._between.sets
        return tuple(
            core
            for core in setters
            if len(sets.get((wait.flag, core), ())) <= wait.number or sets[wait.flag, core][wait.number].clock is None
        )

    # ---- counts ---------------------------------------------------------------------------------------------------

    def _flags(self) -> Iterator[tuple[CrossFlag, int]]:
        """Every flag that is set, with each core that it is for."""
        flags = dict.fromkeys(flag for flag, _ in self._between.sets)
        for flag in flags:
            for mode, waiter in self._between.setters:
                setters = self._between.setters[mode, waiter]
                if mode is flag.mode and any((flag, setter) in self._between.sets for setter in setters):
                    yield flag, waiter

    def _of_flag(self, flag: CrossFlag, waiter: int) -> Iterator[Hazard]:
        between, who = self._between, self._program.core_name(waiter)
        setters = between.setters[flag.mode, waiter]
        waits = len(between.waits.get((flag, waiter), ()))
        sets = [between.sets.get((flag, setter), []) for setter in setters]
        count = max(len(one) for one in sets)
        if count > waits:
            last = next(one for one in sets if len(one) == count)[waits]
            fill = {"who": who}
            found = CROSS_UNPAIRED.finding(
                self._sites.line(last.site), operand=_name(flag), got=count, wanted=waits, fill=fill
            )
            yield self._sites.hazard(found, last.site)
            return
        pending, event = between.most_pending(flag, waiter)
        if pending > MOST_PENDING and event is not None:
            fill = {"who": who}
            where = self._sites.line(event.site)
            found = XSYNC_OVERFLOW.finding(where, operand=_name(flag), got=pending, wanted=MOST_PENDING, fill=fill)
            yield self._sites.hazard(found, event.site)

    def _reserved(self) -> Iterator[Hazard]:
        """Ids of a kernel's own that SyncAll may use, in a kernel that calls it."""
        events = [event for of_core in self._between.events for event in of_core]
        if not any(is_sync_all(event.flag) for event in events):
            return
        for event in events:
            if event.flag.flag_id in RESERVED and not is_sync_all(event.flag):
                api, wanted = event.row.op.api, f"0..{RESERVED.start - 1} and 15 beside SyncAll"
                found = SYNC_ALL_ID.finding(
                    self._sites.line(event.site),
                    operand="one that SyncAll may use",
                    got=event.flag.flag_id,
                    wanted=wanted,
                    fill={"api": api},
                )
                yield self._sites.hazard(found, event.site)


def _name(flag: CrossFlag) -> str:
    return f"cross-core flag {flag.flag_id} of mode {flag.mode.value}"
