"""Races and unordered rows: what `order` and `gm` find, as findings. Those about flags alone are in `flags`.

Bytes are exact: masked lanes, strides and tails count as the hardware touches them.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.accesses import Accesses, Act, Site
from ascendsim.checks.between import Between
from ascendsim.checks.cross_flags import FlagsBetween
from ascendsim.checks.flags import Flags
from ascendsim.checks.gm import GmAccesses, GmPair, Meetings, Spots, kinds, places_on_core
from ascendsim.checks.gm_order import GmOrder
from ascendsim.checks.history import History
from ascendsim.checks.order import Clash, Order, Outcome
from ascendsim.checks.sites import Found, Hazard, Sites
from ascendsim.device import Device
from ascendsim.errors import Rule, Severity
from ascendsim.isa.fixpipe import HAZARD_FIX
from ascendsim.isa.instruction import Row
from ascendsim.library import is_library
from ascendsim.terms import CUBE_SIDE, CoreKind, HardEvent, Pipe, ceil_div

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
    condition="Two cores touch the same bytes of GM, at least one of them writes, and neither flags between cores nor "
    "SyncAll order the two; additions of both are no race.",
)
RACE_SUBBLOCK = Rule(
    "E-RACE-SUBBLOCK",
    "{got}, the vector cores of one AI Core, write the same bytes {first} to {last} of GM tensor {tensor} at {api}",
    "halve the work between them by get_sub_block_idx",
    "asc-devkit, public issue 1723",
    condition="Both vector cores of an AI Core write the same bytes of GM with the same line of the kernel.",
    archs=(2201, 3510),
)
ATOMIC_ORDER = Rule(
    "W-RACE-ATOMICORDER",
    "{got} add {kind} to bytes {first} to {last} of GM tensor {tensor} in no order: last bits differ from run to run",
    "let cores add one after another, or reduce in a fixed order",
    "asc-devkit docs, page on atomic operations",
    condition="Several cores, or one without barriers, add floats to the same bytes of GM in no order.",
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
HAZARD_MM = Rule(
    "E-HAZARD-MM",
    "{api} adds to {bytes} of {tensor}, {got} fractals of 16 x 16, that {other} has not finished writing; no "
    "barrier is needed from {wanted} fractals on",
    "put pipe_barrier(Pipe.M) between them",
    "asc-devkit docs, Mmad page",
    condition="Mmads add to the same result one behind the other, it has fewer than 10 fractals, and there is no "
    "PipeBarrier<PIPE_M> between them.",
    archs=(2201,),
)
HAZARD_FIX_TWO = HAZARD_FIX.saying(
    "{api} {verb} {bytes} of {tensor} that {other}, on the same {pipe}, has not finished writing",
    "put a pipe_barrier of their pipe between them",
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
        self._device = device
        hardware = {Pipe.V} if device.has("vector_ordered") else set()
        self.order = Order(self.accesses, ordered_pipes=frozenset({Pipe.S} | hardware))
        self._auto_sync = auto_sync
        self._sites, self._flags = Sites(program), Flags(program)
        self._gm = GmAccesses(program) if with_gm else None
        self._state_of: Ints = np.zeros(len(program.calls["core"]), np.int64)
        """State in which each call begins."""
        self._places = places_on_core(program.calls["core"])
        self._turns: Counter[tuple[int, int]] = Counter()
        """(state, template): how often over all cores."""
        self._ends: dict[int, int] = {}
        """State at the end: how many cores."""
        self._alike: list[list[Ints]] = []
        """Calls of each core; of those that call the same templates together."""
        self._between: Between | None = None
        """Order between cores, where it is known."""

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
        if self._pair_cores(found, is_complete=is_complete):
            for hazard, count in self._in_gm():
                found.add(hazard, count)
        return found.all()

    @cached_property
    def _history(self) -> History:
        """Of the cores that were walked."""
        return History(self.program, self.order, self._alike, self._state_of)

    def _pair_cores(self, found: Found, *, is_complete: bool) -> bool:
        """Find what is wrong with flags between cores; whether it is known what they order."""
        calls = self.program.calls["core"]
        if not any(step.act in (Act.CROSS_SET, Act.CROSS_WAIT) for steps in self.accesses.steps for step in steps):
            return True
        if not is_complete:
            return False
        calls_of = [np.flatnonzero(calls == core) for core in range(self.program.core_count)]
        between = Between(self.program, self.order, calls_of, self._history)
        for hazard in FlagsBetween(self.program, between).all():
            found.add(hazard, 1)
        if between.held:
            return False
        self._between = between
        return True

    def _walk(self) -> None:
        """Walk every core; cores that call the same templates are one."""
        calls, order = self.program.calls, self.order
        alike: dict[bytes, list[Ints]] = {}
        for core in range(self.program.core_count):
            here = np.flatnonzero(calls["core"] == core)
            alike.setdefault(calls["template"][here].tobytes(), []).append(here)
        self._alike = list(alike.values())
        for key, cores in alike.items():
            templates = np.frombuffer(key, calls["template"].dtype).tolist()
            states, state = order.walk(templates)
            for turn in zip(states, templates, strict=True):
                self._turns[turn] += len(cores)
            self._ends[state] = self._ends.get(state, 0) + len(cores)
            for here in cores:
                self._state_of[here] = states

    # ---- rows that meet -----------------------------------------------------------------------------------------

    def _of_outcome(self, outcome: Outcome) -> Iterator[Hazard]:
        clashes = (clash for clash in outcome.clashes if not (self._is_librarys(clash) or self._is_in_order(clash)))
        yield from (self._clash(clash) for clash in clashes)
        yield from (self._flags.doubled(site, before) for site, before in outcome.doubled)

    def _is_in_order(self, clash: Clash) -> bool:
        """Whether the hardware orders both: by the unit flag, or as Mmads, but for sums of few fractals."""
        first, second = (self.accesses.row(self.accesses.all[n]) for n in (clash.earlier, clash.later))
        if {first.pipe, second.pipe} == {Pipe.M, Pipe.FIX}:
            return all("unit_flag" in row.op.params and row.param("unit_flag") > 0 for row in (first, second))
        if first.pipe is not Pipe.M or second.pipe is not Pipe.M:
            return False
        enough = self._device.sync.mmad_ordered_fractals
        is_sum = second.op.reads_dst and self.accesses.all[clash.later].role == "dst"
        return not is_sum or enough is None or _result_fractals(second) >= enough.value

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
        memory, base = self.accesses.memory(second)
        place = (f"{memory.name} bytes {low - base} to {high - base}", second.tensor)
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
        hint, got, wanted = self._hint(first, second), "no order", f"after {names[0]}"
        if rule is HAZARD_MM:
            enough = self._device.sync.mmad_ordered_fractals
            got, wanted = str(_result_fractals(second)), str(enough.value if enough is not None else "any")
        finding = rule.finding(names[1], operand=role, got=got, wanted=wanted, hint=hint, fill=fill)
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
        if self._gm is None:
            return
        found = [(tensor, spots, meets) for tensor, spots, meets in self._gm.meetings() if len(meets)]
        if not found:
            return
        ordered = frozenset({Pipe.FIX} if self._device.has("fixpipe_to_gm_ordered") else ())
        order = GmOrder(self.program, self._gm, self._history, self._between, ordered)
        for of_tensor in found:
            yield from self._of_gm(self._gm, order, self._history, of_tensor)

    def _of_gm(
        self, gm: GmAccesses, order: GmOrder, history: History, found: tuple[int, Spots, Meetings]
    ) -> Iterator[tuple[Hazard, int]]:
        """What is in no order; the first of each kind stands for all."""
        tensor, spots, meets = found
        for pair, count in kinds(order.additions(spots, meets), ()):
            hazard = None if self._is_ordered(gm, history, pair) else self._addition(gm, pair, tensor)
            if hazard is not None:
                yield hazard, count
        for pair, count in kinds(order.apart(spots, meets), ()):
            yield self._between_cores(gm, pair, tensor), count
        inside = order.inside(spots, meets)
        turns = self._places[inside.second_call] - self._places[inside.first_call]
        for pair, count in kinds(inside, (turns, self._state_of[inside.first_call])):
            hazard = self._on_one_core(gm, pair, tensor)
            if hazard is not None:
                yield hazard, count

    def _is_ordered(self, gm: GmAccesses, history: History, pair: GmPair) -> bool:
        """Whether flags between cores order two rows."""
        if self._between is None:
            return False
        first, second = (
            self._between.marks(history.rows(np.array([call]), np.array([gm.all[access].at])))
            for access, call in ((pair.first, pair.first_call), (pair.second, pair.second_call))
        )
        return bool(self._between.is_before(first, second)[0] or self._between.is_before(second, first)[0])

    def _addition(self, gm: GmAccesses, pair: GmPair, tensor: int) -> Hazard | None:
        """Two additions in no order, if they are of floats: the sum depends on which comes first."""
        first, second = gm.all[pair.first], gm.all[pair.second]
        cores = [int(self.program.calls["core"][call]) for call in (pair.first_call, pair.second_call)]
        sites = ((first.template, first.at), (second.template, second.at))
        dst = self._sites.row(sites[1]).dst
        assert dst is not None
        if dst.dtype.numpy.kind in "iu":
            return None
        name = self.program.core_name
        got = f"{name(cores[0])} and {name(cores[1])}" if cores[0] != cores[1] else f"copies of {name(cores[0])}"
        fill = {"first": pair.low, "last": pair.high, "tensor": self.program.gm[tensor].name, "kind": dst.dtype.name}
        where = self._sites.line(sites[1])
        finding = ATOMIC_ORDER.finding(where, operand="dst", got=got, wanted="an order", fill=fill)
        return self._sites.hazard(finding, *sites)

    def _between_cores(self, gm: GmAccesses, pair: GmPair, tensor: int) -> Hazard:
        first, second = gm.all[pair.first], gm.all[pair.second]
        cores = [int(self.program.calls["core"][call]) for call in (pair.first_call, pair.second_call)]
        what = f"cores {cores[0]} and {cores[1]}"
        if self.program.kernel_type.is_mix:
            what = " and ".join(self.program.core_name(core) for core in cores)
        sites = ((first.template, first.at), (second.template, second.at))
        names = [self._sites.line(site) for site in sites]
        fill: dict[str, object] = {
            "first": pair.low,
            "last": pair.high,
            "tensor": self.program.gm[tensor].name,
            "api": names[1],
            "other": names[0],
        }
        if first.writes and second.writes and names[0] == names[1] and self._share_a_cube(*cores):
            finding = RACE_SUBBLOCK.finding(names[1], operand=second.role, got=what, wanted="one core", fill=fill)
        else:
            hint = self._cross_hint(cores, sites) if self.program.kernel_type.is_mix else ""
            finding = RACE_GM.finding(names[1], operand=second.role, got=what, wanted="one core", hint=hint, fill=fill)
        return self._sites.hazard(finding, *sites)

    def _share_a_cube(self, one: int, other: int) -> bool:
        """Whether two cores are vector cores of one AI Core."""
        program = self.program
        count = len(program.kernel_type.kinds)
        kinds_of = {program.core_kind(core) for core in (one, other)}
        return program.kernel_type.is_mix and kinds_of == {CoreKind.AIV} and one // count == other // count

    def _cross_hint(self, cores: list[int], sites: tuple[Site, Site]) -> str:
        """Which flag would order two rows of cores that can signal each other."""
        kinds_of = [self.program.core_kind(core) for core in cores]
        if kinds_of[0] is kinds_of[1]:
            return RACE_GM.hint
        sets, waits = (self._sites.row(site).pipe.name for site in sites)
        before, after = (self._sites.source(site) for site in sites)
        return (
            f"cross_core_set_flag(2, Pipe.{sets}, id) behind {before} and cross_core_wait_flag(2, Pipe.{waits}, id) "
            f"before {after}"
        )

    def _on_one_core(self, gm: GmAccesses, pair: GmPair, tensor: int) -> Hazard | None:
        first, second = gm.all[pair.first], gm.all[pair.second]
        if first.adds and second.adds:
            return self._addition(gm, pair, tensor)
        sites = ((first.template, first.at), (second.template, second.at))
        rows = [self._sites.row(site) for site in sites]
        place = f"bytes {pair.low} to {pair.high}"
        name = f"GM tensor {self.program.gm[tensor].name}"
        return self._clash_of(rows[0], rows[1], (first.writes, second.writes), second.role, (place, name), sites)


def _rule(first: Pipe, second: Pipe, writes: tuple[bool, bool]) -> Rule:
    """The rule that two accesses in no order break."""
    if first is second:
        return {Pipe.V: HAZARD_V, Pipe.M: HAZARD_MM, Pipe.FIX: HAZARD_FIX_TWO}.get(first, HAZARD_MTE)
    if all(writes):
        return RACE_WAW
    return RACE_RAW if writes[0] else RACE_WAR


def _result_fractals(row: Row) -> int:
    """Fractals of 16 x 16 results that a Mmad writes."""
    return ceil_div(row.param("m"), CUBE_SIDE) * ceil_div(row.param("n"), CUBE_SIDE)
