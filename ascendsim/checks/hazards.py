"""Races and unordered rows: what `order` and `gm` find, as findings. Those about flags alone are in `flags`.

Bytes are exact: masked lanes, strides and tails count as the hardware touches them.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.accesses import Accesses
from ascendsim.checks.flags import Flags
from ascendsim.checks.gm import GmAccesses, GmPair, GmPairs, kinds, places_on_core
from ascendsim.checks.order import Clash, Order, Outcome, Site
from ascendsim.checks.sites import Found, Hazard, Sites
from ascendsim.checks.sums import is_library
from ascendsim.device import Device
from ascendsim.errors import Rule, Severity
from ascendsim.isa.instruction import Row
from ascendsim.terms import HardEvent, Pipe

Ints = NDArray[Any]

_RACES = "public msSanitizer pages, contention check; asc-tools, npu-check ErrorSync1 and ErrorSync2"
_BARRIERS = "asc-devkit docs, PipeBarrier page and synchronisation inside a core"

RACE_RAW = Rule(
    "E-RACE-RAW",
    "{api} on {pipe} may read {bytes} of {tensor} before {other} on {other_pipe} has written them",
    "set a flag behind the write and wait for it before the read",
    _RACES,
    condition="A pipe reads bytes that another pipe wrote, and no chain of flags orders the read after the write.",
)
RACE_WAR = Rule(
    "E-RACE-WAR",
    "{api} on {pipe} may overwrite {bytes} of {tensor} that {other} on {other_pipe} still reads",
    "set a flag behind the read and wait for it before the write",
    _RACES,
    condition="A pipe writes bytes that another pipe reads earlier, and no chain of flags orders the write after it.",
)
RACE_WAW = Rule(
    "E-RACE-WAW",
    "{api} on {pipe} and {other} on {other_pipe} write {bytes} of {tensor} in no order",
    "set a flag behind the first write and wait for it before the second",
    _RACES,
    condition="Two pipes write the same bytes, and no chain of flags orders them.",
)
RACE_GM = Rule(
    "E-RACE-GM",
    "{got} touch bytes {first} to {last} of GM tensor {tensor} in no order: {other} and {api}",
    "give each core its own part, by get_block_idx and the tail",
    "public msSanitizer pages, contention check; asc-tools, npu-check, several cores on one GM",
    condition="Two cores touch the same bytes of GM, at least one of them writes, and nothing orders the two.",
)
HAZARD_V = Rule(
    "E-HAZARD-V",
    "{api} {verb} {bytes} of {tensor} that {other} has not finished writing",
    "put pipe_barrier(Pipe.V) between them",
    _BARRIERS,
    condition="A vector instruction reads or writes bytes that an earlier one writes, with no PipeBarrier<PIPE_V> "
    "between them. An error where automatic synchronisation is off; else the compiler adds the barrier, and it is a "
    "warning.",
    archs=(2201, 2002, 3002),
)
HAZARD_MTE = Rule(
    "E-HAZARD-MTE",
    "{api} {verb} {bytes} of {tensor} that {other}, on the same {pipe}, has not finished writing",
    "put a pipe_barrier of their pipe between them",
    _BARRIERS,
    condition="A copy writes or reads bytes that an earlier one on the same pipe writes, with no PipeBarrier between.",
)
COMPILER_ORDERS = (Pipe.V, Pipe.MTE2, Pipe.MTE3)
"""Pipes that the scalar unit waits for by itself: the compiler adds V-S, MTE2-S and MTE3-S waits on AIV, and V-V
barriers (asc-devkit docs, overview of synchronisation inside a core)."""


def check_hazards(
    accesses: Accesses, device: Device, *, auto_sync: bool = True, is_complete: bool = True, with_gm: bool = True
) -> tuple[Hazard, ...]:
    """Return races, unordered rows and flags that do not pair, once for each pair of lines.

    Args:
        accesses: of the program.
        device: whose hardware orders vector instructions or not.
        auto_sync: the compiler adds what it can on vector cores; what it does is then a warning.
        is_complete: the kernel was recorded to its end; else what is left open there means nothing.
        with_gm: look at GM, too, of which no call reaches outside a tensor.
    """
    return _Hazards(accesses, device, auto_sync=auto_sync, with_gm=with_gm).hazards(is_complete=is_complete)


class _Hazards:
    """All findings of one program."""

    def __init__(self, accesses: Accesses, device: Device, *, auto_sync: bool, with_gm: bool = True) -> None:
        self.program = program = accesses.program
        self.accesses = accesses
        hardware = {Pipe.V} if device.has("vector_ordered") else set()
        self.order = Order(self.accesses, ordered_pipes=frozenset({Pipe.S} | hardware))
        self._auto_sync = auto_sync
        self._sites, self._flags = Sites(program), Flags(program)
        self._gm = GmAccesses(program) if with_gm else None
        self._state_of: Ints = np.zeros(len(program.calls["core"]), np.int64)
        """State in which each call begins."""
        self._turns: Counter[tuple[int, int]] = Counter()
        """(state, template): how often over all cores."""
        self._ends: dict[int, int] = {}
        """State at the end: how many cores."""

    def hazards(self, *, is_complete: bool) -> tuple[Hazard, ...]:
        """Everything, in the order of the program."""
        self._walk()
        found = Found()
        useful: set[Site] = set()
        idle: set[Site] = set()
        twice: set[tuple[HardEvent, int]] = set()
        for (state, template), count in self._turns.items():
            outcome = self.order.outcome(state, template)
            useful |= outcome.useful
            idle |= outcome.idle
            twice |= {self._sites.flag(site) for site, _ in outcome.doubled}
            for hazard in self._of_outcome(outcome):
                found.add(hazard, count)
        if is_complete:
            for state, count in self._ends.items():
                for hazard in self._flags.of_end(self.order.states[state], twice):
                    found.add(hazard, count)
        if not found.has("E-SYNC"):  # else it is not known what a flag is good for
            for hazard in self._flags.redundant(idle, useful):
                found.add(hazard, 1)
        for hazard, count in self._in_gm():
            found.add(hazard, count)
        return found.all()

    def _walk(self) -> None:
        """Walk every core; cores that call the same templates are one."""
        calls, order = self.program.calls, self.order
        alike: dict[bytes, list[Ints]] = {}
        for core in range(self.program.core_count):
            here = np.flatnonzero(calls["core"] == core)
            alike.setdefault(calls["template"][here].tobytes(), []).append(here)
        for key, cores in alike.items():
            state, states = order.start, []
            for template in np.frombuffer(key, calls["template"].dtype).tolist():
                self._turns[state, template] += len(cores)
                states.append(state)
                state = order.outcome(state, template).after
            self._ends[state] = self._ends.get(state, 0) + len(cores)
            for here in cores:
                self._state_of[here] = states

    # ---- rows that meet -----------------------------------------------------------------------------------------

    def _of_outcome(self, outcome: Outcome) -> Iterator[Hazard]:
        yield from (self._clash(clash) for clash in outcome.clashes if not self._is_librarys(clash))
        yield from (self._flags.doubled(site, before) for site, before in outcome.doubled)

    def _is_librarys(self, clash: Clash) -> bool:
        """Whether both rows are of a library call and the compiler orders them: its caller could mend nothing."""
        rows = [self.accesses.row(self.accesses.all[n]) for n in (clash.earlier, clash.later)]
        return self._is_graded(*rows) and all(is_library(self.program.lines[row.line]) for row in rows)

    def _clash(self, clash: Clash) -> Hazard:
        first, second = self.accesses.all[clash.earlier], self.accesses.all[clash.later]
        if clash.was_held and first.template == second.template and first.at > second.at:
            first, second = second, first  # the kernel has them in this order
        low, high = self.accesses.shared(clash.earlier, clash.later)
        rows = self.accesses.row(first), self.accesses.row(second)
        sites = ((first.template, first.at), (second.template, second.at))
        place = (f"UB bytes {low} to {high}", second.tensor)
        return self._clash_of(*rows, (first.writes, second.writes), second.role, place, sites)

    def _clash_of(
        self,
        first: Row,
        second: Row,
        writes: tuple[bool, bool],
        role: str,
        place: tuple[str, str],
        sites: tuple[Site, Site],
    ) -> Hazard:
        """Two rows in no order: which rule, which bytes of what, and what is missing."""
        names = [self._sites.line(site) for site in sites]
        fill: dict[str, object] = {
            "api": second.op.api,
            "pipe": second.pipe.name,
            "bytes": place[0],
            "tensor": place[1],
            "other": names[0],
            "other_pipe": first.pipe.name,
            "verb": "writes" if writes[1] else "reads",
        }
        rule = _rule(first.pipe, second.pipe, writes)
        hint, wanted = self._hint(first, second), f"after {names[0]}"
        finding = rule.finding(names[1], operand=role, got="no order", wanted=wanted, hint=hint, fill=fill)
        if self._is_graded(first, second):
            finding = replace(finding, level=Severity.WARNING.value)
        return self._sites.hazard(finding, *sites)

    def _hint(self, first: Row, second: Row) -> str:
        before, after = self.program.lines[first.line], self.program.lines[second.line]
        compiler = "the compiler adds it if automatic synchronisation is on; else " * self._is_graded(first, second)
        if first.pipe is second.pipe:
            place = f"between {before} and {after}" if before != after else f"between one turn of {before} and the next"
            return f"{compiler}pipe_barrier(Pipe.{first.pipe.name}) {place}"
        pair = f"HardEvent.{first.pipe.name}_{second.pipe.name}"
        return f"{compiler}set_flag({pair}, id) behind {before} and wait_flag({pair}, id) before {after}"

    def _is_graded(self, first: Row, second: Row) -> bool:
        """Whether the compiler orders two rows where it is let."""
        if not self._auto_sync:
            return False
        same = first.pipe is Pipe.V and second.pipe is Pipe.V
        return same or (second.pipe is Pipe.S and first.pipe in COMPILER_ORDERS)

    # ---- GM -----------------------------------------------------------------------------------------------------

    def _in_gm(self) -> Iterator[tuple[Hazard, int]]:
        if self._gm is not None:
            for pairs in self._gm.pairs():
                yield from self._of_gm(self._gm, pairs)

    def _of_gm(self, gm: GmAccesses, pairs: GmPairs) -> Iterator[tuple[Hazard, int]]:
        """Pairs between cores are races; one of each kind on one core is looked into, and stands for all alike."""
        core = self.program.calls["core"]
        apart = core[pairs.first_call] != core[pairs.second_call]
        for pair, count in kinds(pairs.only(np.flatnonzero(apart)), ()):
            yield self._between_cores(gm, pair, pairs.tensor), count
        inside = pairs.only(np.flatnonzero(~apart))
        places = places_on_core(core)
        turns = places[inside.second_call] - places[inside.first_call]
        for pair, count in kinds(inside, (turns, self._state_of[inside.first_call])):
            hazard = self._on_one_core(gm, pair, pairs.tensor)
            if hazard is not None:
                yield hazard, count

    def _between_cores(self, gm: GmAccesses, pair: GmPair, tensor: int) -> Hazard:
        first, second = gm.all[pair.first], gm.all[pair.second]
        core = self.program.calls["core"]
        what = f"cores {core[pair.first_call]} and {core[pair.second_call]}"
        sites = ((first.template, first.at), (second.template, second.at))
        names = [self._sites.line(site) for site in sites]
        fill = {
            "first": pair.low,
            "last": pair.high,
            "tensor": self.program.gm[tensor].name,
            "api": names[1],
            "other": names[0],
        }
        finding = RACE_GM.finding(names[1], operand=second.role, got=what, wanted="one core", fill=fill)
        return self._sites.hazard(finding, *sites)

    def _on_one_core(self, gm: GmAccesses, pair: GmPair, tensor: int) -> Hazard | None:
        first, second = gm.all[pair.first], gm.all[pair.second]
        sites = ((first.template, first.at), (second.template, second.at))
        rows = [self.program.templates[t].rows[at] for t, at in sites]
        if rows[0].pipe is rows[1].pipe and not first.writes:
            return None  # one pipe reads before it writes later
        core = self.program.calls["core"]
        calls = np.flatnonzero(core == core[pair.first_call])
        calls = calls[(calls >= pair.first_call) & (calls <= pair.second_call)]
        templates = self.program.calls["template"][calls].tolist()
        if self.order.is_before(int(self._state_of[pair.first_call]), templates, *sites):
            return None
        place = f"bytes {pair.low} to {pair.high}"
        name = f"GM tensor {self.program.gm[tensor].name}"
        return self._clash_of(rows[0], rows[1], (first.writes, second.writes), second.role, (place, name), sites)


def _rule(first: Pipe, second: Pipe, writes: tuple[bool, bool]) -> Rule:
    """The rule that two accesses in no order break."""
    if first is second:
        return HAZARD_V if first is Pipe.V else HAZARD_MTE
    if all(writes):
        return RACE_WAW
    return RACE_RAW if writes[0] else RACE_WAR
