"""The contract that every engine implements, stated once. All times are whole cycles of the core clock.

**Input.** Templates of rows (integer columns), calls (core, template, GM base addresses), queue depths, links. Rows
of a core are its calls' rows in call order; a row's number counts them over the whole program.

**Scalar unit.** Each core's S takes its rows in order. A row of pipe S runs on it: it starts when the row before
has ended, has no start-up and no drain, and its dispatch is its start. Any other row is dispatched: S waits until
the pipe's queue has room (at most `depth` rows wait behind the one the pipe works on), spends `dispatch_cycles`,
and the row is in the queue.

**Pipes.** Each other pipe works its queue off in order. A row is *ready* at the later of its dispatch and the end
of occupancy of the row before it on that pipe, and starts then. It has three times: start-up, occupancy, and drain.
Start-up is `startup` when the pipe is cold and `startup_warm` when it is warm. A pipe is cold at first and becomes
cold by a gap, a barrier, or a wait that had to wait; its next EXEC or TRANSFER makes it warm; other flags change
nothing. The next row may start when occupancy ends; the row is *complete* after the drain.

**Flags** count their sets, and each core has its own. Flags and barriers have no start-up and no drain; a held row
starts when it is ready, not when it is released. SET_FLAG occupies its pipe for `occupancy` and raises the flag
when that is over and all earlier rows of the pipe are complete; it is complete then, and the pipe goes on
meanwhile. Its `occupancy` is at least 1, so that a flag never rises in the cycle in which its set starts. WAIT_FLAG
holds its pipe until the flag is up, takes the earliest set that none has taken, and ends `occupancy` later. The
hardware documents one bit and leaves two sets without a wait undefined; counting keeps programs of queues with three
and more buffers going, where the recorded ids meet that case, and `Totals.double_sets` counts it. All sets of a flag
are on one pipe and all its waits on one pipe, as a HardEvent names them.

**Cross-core flags** are flags of a mode and an id. A mode puts cores into groups, each with setters and waiters. Sets
and waits are the rows of the two kinds above with `cross` one more than the mode's number. A set is raised as any
other; when every setter of the group has raised the flag for the n-th time, the flags of all waiters rise for the n-th
time, `cross_cycles` later; they are released by the last of these sets. Each waiter takes its own. A core that sets for
no group only sets; one that waits in none waits for ever. A core sets a flag on one pipe and waits for it on one.

**Unit flags.** A unit is a small piece of a core's L0C, with one bit that is down at first. An instruction or transfer
with a `unit_flag` names a set of units: KEEP and RAISE wait until the bits of all are down, and RAISE puts them up;
LOWER waits until all are up and puts them down. Instructions on M keep and raise, rows on FIX lower. Both sides work
unit after unit, so that one follows the other: what a row hands over comes one after another, the first `unit_step`
cycles after its start-up and the last when it is complete. A row that waits for them starts once every row that it
waits for has handed over its first, and at the earliest `unit_lead` before the last of them comes: with `unit_lead`
what it needs itself, less a step, it is not through with its last unit before it has got it. It leaves the queue when
it is ready, and holds its pipe from then on; where it starts later, its pipe is cold.

**Barriers.** BARRIER holds its pipe until all earlier rows of the pipe are complete, and ends `occupancy` later. On
S it holds the scalar unit until all pipes of the core are empty and complete.

**Transfers** move bytes over a link that all cores share. The data phase begins at the row's start; n transfers in
their data phase each get min(own cap, capacity // n), at least 1, units of 1/4096 byte per cycle. A transfer leaves
the link at the first whole cycle by which its bytes are through. Its occupancy ends then, but not before its start-up
and the cycles that its bytes take alone on the link have passed since its start, nor before `occupancy` cycles have:
start-up is latency, which a transfer that has to share the link spends waiting for its share anyway. This errs slow, by
less than a cycle. One of no bytes never joins, and takes its start-up. Start-
up, bytes, cap and link depend on whether the row is a hit in L2 when it starts. Bytes are what the link carries, not
what the core asked for.

**L2** keeps segments in least-recently-used order and, in each, which lines are there and which of them were written.
It has room for `bytes // line_bytes` lines. A transfer touches its segments once each, ascending; when one has taken
its lines in, the least recently used others are dropped, whole, until the rest has room, so that a box larger than L2
leaves its last segments. The written lines of a dropped segment are *written back*. Looking and updating happen at the
row's start, for loads and stores alike.
- A load is a hit if every line it touches is resident before. One that misses moves `bytes`, and on top what is written
  back for it.
- A store (`writes`) makes its lines resident and written. It is a hit if nothing is written back for it. Otherwise it
  moves `bytes` or what is written back, whichever is more.
- A row that bypasses L2 (`bypass`) is a miss, moves `bytes`, and leaves L2 as it is.
An empty box is a hit. L2 is empty at first; in mode "warm" it begins as all transfers of the program leave it when
taken without a clock: the first calls of all cores, core by core, then the second calls, and so on. A forced mode,
"hit" or "miss", holds for all transfers.

**Same line.** Memory serves one line at a time to whoever asks for it. While a load that bypasses L2 is between its
start and the end of its data phase, the line of its first byte is *in use*. Such a load that starts while its line is
in use by another core, or in the same cycle as another core's load of that line, goes over `link_clash` instead of
`link`. Nothing of this in a forced mode.

**Order within one cycle.** All completions first, what raises flags among them; then all starts. What takes no time
ends in the cycle it starts in. Transfers look L2 up after everything else of that cycle has started, in (core,
pipe) order. Shares of a link change after all that.

**Output.** One timeline row per program row, in the order of their numbers; `row` is the index inside the template. If
only some rows are to be kept, the timeline has those, and its makespan and totals are still those of all rows.
What a row waited for, how many cycles, and the number of the row that released it:
- PIPE_ORDER: it starts when the row before on its pipe ends, after its dispatch; counted from its dispatch.
- DISPATCH: it starts at its dispatch on a free pipe; counted from when the pipe got free (0 at first); released by the
  row that S took before on this core, or -1.
- FLAG, BUFFER, CROSS_CORE, BARRIER: a flag or barrier that holds its pipe; counted from its start; replaces the two
  above.
- UNIT_FLAG: a row that starts later than it is ready because of unit flags; counted from when it was ready, which is
  before its start; released by the row that handed over last; replaces all others.
- BANDWIDTH: a transfer whose `stretch_cycles` (what sharing the link added to what it takes alone) are more than its
  wait, or that only waited in pipe order; released by the transfer that left the link last while this one was on it,
  or -1.
`stuck_cycles` is how long S was held by a full queue before it dispatched the row.
Of several that release in one cycle, the first in (core, pipe) order counts, then the first row.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ascendsim.errors import InputError
from ascendsim.progress import StageProgress
from ascendsim.terms import HardEvent, Pipe

UNITS_PER_BYTE = 4096
L2_MODES = ("model", "hit", "miss", "warm")
MOST_CORES = 512
"""Cores of a program: AIC and AIV of the largest part are 75."""

Ints = NDArray[np.int64]


class Kind(IntEnum):
    """What a row does to its pipe."""

    EXEC = 0
    SET_FLAG = 1
    WAIT_FLAG = 2
    BARRIER = 3
    TRANSFER = 4


class UnitFlag(IntEnum):
    """What an instruction or transfer does with the bits of its units."""

    NONE = 0
    KEEP = 1
    """Wait until they are down."""
    RAISE = 2
    """Wait until they are down, and put them up."""
    LOWER = 3
    """Wait until they are up, and put them down."""


class Wait(IntEnum):
    """What a row waited for."""

    NOTHING = 0
    PIPE_ORDER = 1
    """The row before it on the same pipe."""
    FLAG = 2
    BUFFER = 3
    """A flag of AllocTensor: no buffer of the queue was free."""
    BARRIER = 4
    DISPATCH = 5
    """The scalar unit had not issued it yet."""
    BANDWIDTH = 6
    """Other cores' transfers on the same link."""
    CROSS_CORE = 7
    QUEUE_FULL = 8
    """The scalar unit: a pipe's queue had no room. Rows do not carry it; it follows from their dispatch times."""
    UNIT_FLAG = 9
    """L0C: Mmad had not made the result yet, or Fixpipe had not fetched the one before."""

    @property
    def words(self) -> str:
        """The cause in words."""
        return _WORDS[self]


_WORDS = {
    Wait.NOTHING: "nothing",
    Wait.PIPE_ORDER: "pipe order",
    Wait.FLAG: "flag",
    Wait.BUFFER: "buffer not free",
    Wait.BARRIER: "barrier",
    Wait.DISPATCH: "dispatch",
    Wait.BANDWIDTH: "bandwidth",
    Wait.CROSS_CORE: "cross-core flag",
    Wait.QUEUE_FULL: "pipe queue full",
    Wait.UNIT_FLAG: "unit flag",
}

UNITS_HELD = {
    Pipe.M: "M waits for unit flags that no Fixpipe lowers",
    Pipe.FIX: "FIX waits for unit flags that no Mmad raises",
}
"""What a deadlock says of a pipe that unit flags hold."""

SCHEDULE_COLUMNS = (
    "kind", "pipe", "startup", "startup_warm", "occupancy", "drain", "flag", "buffer_wait", "bytes", "link",
    "cap_units", "startup_hit", "startup_warm_hit", "bytes_hit", "link_hit", "cap_units_hit", "slot", "gm_offset",
    "gm_rows", "gm_length", "gm_pitch", "cross", "writes", "bypass", "link_clash", "unit_flag", "unit_set", "unit_step",
    "unit_lead",
)  # fmt: skip
"""Integer columns of a template's schedule. Those from startup_hit on matter to transfers only; `bytes`, `link` and
`cap_units` hold for a transfer that misses L2. `writes` is 1 for a store, `bypass` 1 for a row that leaves L2 out;
`link_clash` matters to those of them that load. GM columns describe the box (offset from its slot's base, rows, bytes
of a row, pitch) that the transfer touches. `cross` is 0 for a core's own flags, else one more than the mode. The last
three matter to rows with a `unit_flag` only; `unit_set` is a number of the template's."""


@dataclass(frozen=True, slots=True)
class TemplateSchedule:
    """Schedule columns of one template, all of one length, and the sets of units that its rows name."""

    columns: dict[str, Ints]
    unit_sets: tuple[tuple[int, ...], ...] = ()
    table: Ints = field(init=False, repr=False, compare=False)
    """The same, [column, row], in the order of SCHEDULE_COLUMNS."""

    def __post_init__(self) -> None:
        if set(self.columns) != set(SCHEDULE_COLUMNS):
            raise ValueError(f"schedule columns are {sorted(self.columns)}, want {sorted(SCHEDULE_COLUMNS)}")
        table = np.array([self.columns[name] for name in SCHEDULE_COLUMNS], np.int64)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "columns", dict(zip(SCHEDULE_COLUMNS, table, strict=True)))
        sets = self.columns["kind"] == Kind.SET_FLAG
        if (self.columns["occupancy"][sets] < 1).any():
            raise ValueError("the occupancy of a SET_FLAG is at least 1")
        if table.min(initial=0) < 0:
            raise ValueError("schedule columns are never negative")
        self._check_units()

    def _check_units(self) -> None:
        """Raise ValueError where the engines could not tell when a row with a unit flag ends."""
        c = self.columns
        if any(unit < 0 for units in self.unit_sets for unit in units):
            raise ValueError("units are never negative")
        if not c["unit_flag"].any():
            return
        flag, own = c["unit_flag"], np.minimum(c["startup"], c["startup_warm"]) + c["occupancy"]
        on_m = (flag == UnitFlag.KEEP) | (flag == UnitFlag.RAISE)
        if (on_m & ((c["pipe"] != Pipe.M) | (c["kind"] != Kind.EXEC))).any():
            raise ValueError("only instructions on M keep and raise unit flags")
        if (on_m & (c["unit_lead"] > own)).any():
            raise ValueError("the unit_lead of an instruction on M is at most its start-up and occupancy")
        work = (c["kind"] == Kind.EXEC) | (c["kind"] == Kind.TRANSFER)
        if ((flag == UnitFlag.LOWER) & ((c["pipe"] != Pipe.FIX) | ~work)).any():
            raise ValueError("only instructions and transfers on FIX lower unit flags")
        if (c["unit_set"][flag > 0] >= len(self.unit_sets)).any():
            raise ValueError(f"a row names a set of units; there are {len(self.unit_sets)}")

    def __len__(self) -> int:
        return len(self.columns["kind"])


@dataclass(frozen=True, slots=True)
class LinkInfo:
    """A shared link: name and capacity in units of 1/4096 byte per cycle."""

    name: str
    capacity_units: int


@dataclass(frozen=True, slots=True)
class L2Info:
    """L2 geometry; `mode` is "model", "warm", or "hit" or "miss" to force every transfer."""

    mode: str
    bytes: int
    line_bytes: int
    segment_bytes: int

    def __post_init__(self) -> None:
        if self.mode not in L2_MODES:
            raise ValueError(f"L2 mode {self.mode!r}: one of {', '.join(L2_MODES)}")
        if self.line_bytes < 1 or self.segment_bytes < 1 or self.segment_bytes % self.line_bytes:
            raise ValueError(f"L2: segments of {self.segment_bytes} B are not made of lines of {self.line_bytes} B")
        if self.line_bytes.bit_count() != 1 or self.segment_bytes.bit_count() != 1:
            raise ValueError(f"L2: {self.line_bytes} B and {self.segment_bytes} B are not powers of two")


@dataclass(frozen=True, slots=True)
class CrossMode:
    """A mode of cross-core flags: for each group, the cores that must all set and the cores whose flag then rises.

    A core sets for at most one group of a mode, and waits in at most one.
    """

    name: str
    setters: tuple[tuple[int, ...], ...]
    waiters: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if len(self.setters) != len(self.waiters):
            raise ValueError(f"cross-core mode {self.name}: as many groups of setters as of waiters")
        for role, groups in (("sets", self.setters), ("waits", self.waiters)):
            cores = [core for group in groups for core in group]
            if len(cores) != len(set(cores)) or not all(groups):
                raise ValueError(f"cross-core mode {self.name}: a core {role} in one group, and no group is empty")


@dataclass(frozen=True, slots=True)
class ScheduleInput:
    """Everything an engine sees."""

    templates: tuple[TemplateSchedule, ...]
    call_core: Ints
    call_template: Ints
    call_slot_start: Ints
    slot_base_bytes: Ints
    core_count: int
    queue_depth: dict[Pipe, int]
    dispatch_cycles: int
    event_ids: int
    links: tuple[LinkInfo, ...]
    l2: L2Info
    cross_modes: tuple[CrossMode, ...] = ()
    cross_cycles: int = 0
    """From the last set of a cross-core flag to its rising."""
    block_cores: int = 1
    """Cores count block by block; so many have their Cube and Vector units looked at together."""
    table: Ints = field(init=False, repr=False, compare=False)
    """Schedule columns of all templates, [column, row], in the order of SCHEDULE_COLUMNS."""

    def __post_init__(self) -> None:
        empty = np.zeros((len(SCHEDULE_COLUMNS), 0), np.int64)
        object.__setattr__(self, "table", np.concatenate([empty, *(t.table for t in self.templates)], axis=1))
        if self.core_count > MOST_CORES:
            raise ValueError(f"{self.core_count} cores; the engines take up to {MOST_CORES}")
        if self.block_cores < 1 or self.core_count % self.block_cores:
            raise ValueError(f"{self.core_count} cores are not made of blocks of {self.block_cores}")
        most = int(self.column("cross").max(initial=0))
        if most > len(self.cross_modes):
            raise ValueError(f"a row has cross = {most}; there are {len(self.cross_modes)} cross-core modes")
        for mode in self.cross_modes:
            highest = max((core for group in (*mode.setters, *mode.waiters) for core in group), default=-1)
            if highest >= self.core_count:
                raise ValueError(f"cross-core mode {mode.name}: core {highest} of {self.core_count}")

    def column(self, name: str) -> Ints:
        """Return one schedule column of all templates."""
        found: Ints = self.table[SCHEDULE_COLUMNS.index(name)]
        return found

    def flag_text(self, flag: int, cross: int = 0) -> str:
        """Name of a flag number: the pair and its id, or the mode and the id."""
        if cross:
            return f"cross-core flag {flag} of mode {self.cross_modes[cross - 1].name}"
        return f"{HardEvent(flag // self.event_ids).name} id {flag % self.event_ids}"

    def row_starts(self) -> Ints:
        """Number of the first row of each call, and the total at the end."""
        lengths = np.array([len(t) for t in self.templates], np.int64)
        counts = lengths[self.call_template] if len(self.call_template) else np.zeros(0, np.int64)
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


TIMELINE_COLUMNS = (
    "number", "core", "call", "row", "pipe", "kind", "dispatched", "start", "occupied", "end", "waited_for",
    "wait_cycles", "released_by", "stretch_cycles", "l2_hit", "stuck_cycles",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Totals:
    """What all rows of a program add up to. Template rows count through all templates, in their order.

    A pipe is *busy* while one of its instructions or transfers is between start and completion (the scalar unit: while
    it works on a row of its own or dispatches one), *stalled* while it holds a row that waits for a flag, a buffer, a
    unit flag or a barrier (the scalar unit: or for room in a queue) and is not busy.

    Attributes:
        busy_cycles, stalled_cycles, rows: [core, pipe]; `rows` counts instructions and transfers.
        overlap_cycles: [pipe, pipe], first < second, S left out: both busy on one core, over all cores.
        wait_cycles, wait_count: [template row, Wait]; QUEUE_FULL stands at the row that S could not dispatch.
        spent_cycles: [template row] from the start of an instruction or transfer to its completion, or to the start of
            the next on its pipe if that is earlier; S left out.
        double_sets: [template row], how often a set came before the wait of the set before it had taken its flag.
        first_double: [template row], number of the first such row, -1 for none.
        bin_cycles: length of a bin of `busy_bins`.
        busy_bins: [pipe, bin], busy cycles over all cores in each stretch of time; S left out.
        lost_cycles: [core, pipe, Wait], what held a pipe up, see below.
        last_cycles: [core, pipe], cycle by which the last instruction or transfer is complete; S left out.
        unit_cycles: [block, 2], cycles in which any V of the block's cores is busy, and in which M is, too.
        l2_hits: [template row], how many transfers were hits in L2.

    Of the cycles in which a pipe is not busy, `lost_cycles` counts those in which it holds a row that waits, by what
    that waits for, and those in which it has no row, by what its scalar unit is held by meanwhile: a flag, a flag of
    other cores, a barrier, a buffer, and DISPATCH for whatever else keeps it from issuing the next. What is left is a
    flag's or barrier's own occupancy, and the time behind the last row. BANDWIDTH is apart: of the busy cycles, those
    that sharing a link added. For the scalar unit they are its stalled cycles.
    """

    busy_cycles: Ints
    stalled_cycles: Ints
    rows: Ints
    overlap_cycles: Ints
    wait_cycles: Ints
    wait_count: Ints
    spent_cycles: Ints
    double_sets: Ints
    first_double: Ints
    bin_cycles: int
    busy_bins: Ints
    lost_cycles: Ints
    last_cycles: Ints
    unit_cycles: Ints
    l2_hits: Ints


@dataclass(frozen=True, slots=True)
class Skip:
    """A stretch that repeats what came before it, so that it was added up and not simulated.

    Attributes:
        first: cycle at which it begins.
        last: cycle at which it ends.
        period_cycles: length of the period that repeats.
        rows: rows left out.
    """

    first: int
    last: int
    period_cycles: int
    rows: int


@dataclass(frozen=True)
class Timeline:
    """When rows ran, as columns in ascending order of row numbers; see the module docstring for what they mean.

    Attributes:
        columns: one entry for each row that is kept.
        row_count: rows of the program; more than `len` if only some are kept.
        makespan_cycles: cycle by which every row of the program is complete.
        totals: what all rows add up to.
        skipped: stretches that were not simulated because they repeat what came before.
    """

    columns: dict[str, NDArray[Any]]
    row_count: int
    makespan_cycles: int
    totals: Totals
    skipped: tuple[Skip, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether every row is kept."""
        return len(self) == self.row_count

    def position(self, number: int) -> int:
        """Return where a row stands in the columns, -1 if it was not kept."""
        at = int(np.searchsorted(self.columns["number"], number))
        return at if at < len(self) and self.columns["number"][at] == number else -1

    def __len__(self) -> int:
        return len(self.columns["start"])

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]


@dataclass(frozen=True, slots=True)
class Keep:
    """Which rows of a long run to keep: all rows of some calls, and what is at work in some stretches of time.

    Attributes:
        calls: [calls], whether to keep a call's rows.
        windows: (first, last) cycles; a row is in one if the scalar unit is at it before `last`, be it stuck before a
            full queue, and it is complete after `first`.
    """

    calls: NDArray[np.bool_]
    windows: tuple[tuple[int, int], ...] = ()
    ends: NDArray[np.int64] | None = None
    """[template rows] 1 for rows of long templates that are kept with their calls, 0 for the others; None keeps all."""

    def chosen(self, call: Ints, hot: Ints, dispatched: Ints, stuck: Ints, end: Ints) -> NDArray[np.bool_]:
        """Return which rows to keep, given their calls, template rows, dispatches, stuck cycles and completions."""
        chosen = self.calls[call]
        if self.ends is not None:
            chosen &= self.ends[hot] > 0
        for first, last in self.windows:
            chosen |= (dispatched - stuck < last) & (end > first)
        return chosen


class Engine(Protocol):
    """A scheduler of the contract above."""

    def __call__(
        self, program: ScheduleInput, progress: StageProgress | None = None, keep: Keep | None = None
    ) -> Timeline:
        """Return when every row runs, or only those to keep; raise Deadlock when no pipe can move."""


def check_engine_name(name: str, known: tuple[str, ...]) -> None:
    """Raise InputError for an engine that does not exist."""
    if name not in known:
        raise InputError(f"unknown engine {name!r}; this version has: {', '.join(known)}")
