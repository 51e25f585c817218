"""Where everything of a plan lies, and what does not fit.

Each physical buffer is filled from 0 upward in the order of the plan: queues, buffers, temps; every start and length is
rounded up to what the place asks for, as TPipe's InitBuffer does with 32 B in UB.
Source: asc-devkit docs, InitBuffer page; general constraints, table 2 (alignment).
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from ascendsim.checks import static
from ascendsim.device import Device
from ascendsim.errors import Finding, InputError, Rule, Severity
from ascendsim.isa.rules import ALIGN_UB
from ascendsim.op_host.softmax_outcome import SoftMaxTiling
from ascendsim.op_kernel import call_checks
from ascendsim.plan.apis import Call, call_of
from ascendsim.plan.formulas import Plan, Temp, Unit
from ascendsim.plan.model import PLACES, Limit, Place
from ascendsim.terms import DATABLOCK_BYTES, Buffer, align_up, ceil_div
from ascendsim.tpipe import CAP_BUF, CAP_QUE, MOST_BUFFERS

ALIGN_BYTES: dict[Place, int] = {"UB": 32, "L1": 32, "L0A": 512, "L0B": 512, "L0C": 64, "BT": 64, "FB": 128}
"""Source: asc-devkit docs, general constraints, table 2; FB: the copy page's 128 B."""

_TILING_SOURCE = "asc-devkit 9.1.0, softmax tiling (host)"
_UB_SOURCE = "asc-devkit docs, architecture pages; platform GetCoreMemSize"
_SMALLER = "use a smaller tile, fewer buffers, or a smaller or shared temp"
_ROOM = "{operand} ends at {got} B, {over} B beyond the {wanted} B "
CAP_UB_HW = static.CAP_UB_HW.saying(_ROOM + "of UB that exist", _SMALLER, _UB_SOURCE)
CAP_UB = static.CAP_UB.saying(_ROOM + "of UB that Ascend C sees", _SMALLER, _UB_SOURCE)
CAP_UB_SAFE = static.CAP_UB_SAFE.saying(
    "{operand} ends at {got} B, {over} B beyond the {wanted} B that are left when some APIs take their 8 KiB",
    "keep below the safe limit, or avoid those APIs (Select, DropOut, LayerNorm, ...)",
    _UB_SOURCE,
)
CAP_TEMP = static.CAP_UB.saying(
    "{operand}: {left} B are left of the {wanted} B of UB that Ascend C sees, {api} needs at least {got} B of temp"
    " ({most} B for full speed)",
    _SMALLER,
    _UB_SOURCE,
)
CAP_PLACE = {
    place: static.CAP_MEMORY[Buffer[place]].saying(
        f"{{operand}} ends at {{got}} B of {place}, {{over}} B beyond the {{wanted}} B it has",
        "use a smaller tile or fewer slots",
        "platform files",
    )
    for place in PLACES
    if place != "UB"
}
ROW = ALIGN_UB.saying(
    "{operand}: a row of {width} elements is {got} B, not a multiple of {wanted} B; the next legal width is {next}",
    "make the rows in UB wider; the valid columns may stay fewer",
    "asc-devkit docs, DataCopy and DataCopyPad pages",
)
TMP_SMALL = call_checks.TMP_SMALL.saying(
    "temp {operand} has {got} B, {api} needs at least {wanted} B",
    'give it more, or write bytes = "fit"',
    "asc-devkit docs, temp-size pages of the API",
)
TMP_TILING = Rule(
    "E-TMP-TILING",
    "{operand}: with {got} B of temp the tiling has no row in a tile (split_m 0), so nothing is computed",
    "give the call fewer columns, or another temp",
    _TILING_SOURCE,
    condition="With the temp of a plan the tiling of an API has no row in a tile, or the size or tiling "
    "function refuses it.",
)
TMP_REFUSED = TMP_TILING.saying(
    "{operand}: with {got} B of temp: {problem}", "choose another temp size or tile", _TILING_SOURCE
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the map: `num` buffers of `bytes`, one behind the other from `start_bytes` to `end_bytes`."""

    name: str
    kind: str
    place: Place
    start_bytes: int
    bytes: int
    num: int
    steps: tuple[int, int] | None

    @property
    def end_bytes(self) -> int:
        """First byte behind it."""
        return self.start_bytes + self.num * self.bytes

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return asdict(self) | {"end_bytes": self.end_bytes, "steps": None if self.steps is None else list(self.steps)}


@dataclass(frozen=True, slots=True)
class TempUse:
    """One temp: what its APIs need at least and can use at most, and what it gets."""

    name: str
    policy: str
    least_bytes: int
    most_bytes: int
    bytes: int
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """How one API call cuts its rows; None for a call without a tiling. `problem` is what CANN objects to."""

    call: Call
    temp_bytes: int
    tiling: SoftMaxTiling | None
    problem: str

    @property
    def has_loops(self) -> bool:
        """Whether temp decides how the call cuts its rows; of one with a size of its own nothing does."""
        return self.call.fixed_bytes is None and not self.call.ignores_tiles

    @property
    def loops(self) -> int | None:
        """Tiles, the partial one included; None where the tiling says nothing."""
        if self.tiling is None or self.call.ignores_tiles:
            return None
        return self.tiling.range_m + (self.tiling.tail_m > 0)


@dataclass(frozen=True, slots=True)
class Layout:
    """A plan laid out for one tiling, its temps sized for one limit."""

    names: Mapping[str, int]
    limit: Limit
    entries: tuple[Entry, ...]
    temps: tuple[TempUse, ...]
    cuts: tuple[Cut, ...]
    findings: tuple[Finding, ...]

    def used_bytes(self, place: Place) -> int:
        """Bytes up to the end of what lies in a place."""
        return max((e.end_bytes for e in self.entries if e.place == place), default=0)

    @property
    def without_temps_bytes(self) -> int:
        """Bytes of UB without temps."""
        return sum(e.num * e.bytes for e in self.entries if e.place == "UB" and e.kind != "temp")

    @property
    def has_errors(self) -> bool:
        """Whether a finding is of severity E."""
        return any(f.severity is Severity.ERROR for f in self.findings)


def limit_bytes(device: Device, limit: Limit) -> int:
    """Return one of the three ends of UB."""
    known = {
        "safe": device.ub.safe_bytes.value,
        "visible": device.ub.visible_bytes.value,
        "hardware": device.ub_bytes,
    }
    return known[limit]


def capacity_bytes(device: Device, place: Place) -> int:
    """Return the bytes of a physical buffer; of UB those of the hardware."""
    memory = device.memory
    sizes = {
        "UB": memory.ub_bytes,
        "L1": memory.l1_bytes,
        "L0A": memory.l0a_bytes,
        "L0B": memory.l0b_bytes,
        "L0C": memory.l0c_bytes,
        "BT": memory.bt_bytes,
        "FB": memory.fb_bytes,
    }
    return sizes[place].value


def lay_out(plan: Plan, chosen: Mapping[str, int], limit: Limit) -> Layout:
    """Return where everything lies for one tiling; temps that fit take what is left below a limit.

    Args:
        plan: the plan.
        chosen: a value for each of its ranges.
        limit: end of UB for temps that take what is left.

    Raises:
        InputError: an expression that has no value or one that no buffer can have.
    """
    names = plan.names(chosen)
    entries, ends = [], dict.fromkeys(PLACES, 0)
    for unit in plan.units:
        entry = _entry(unit, names, ends[unit.place])
        entries.append(entry)
        ends[entry.place] = entry.end_bytes
    temps = _temps(plan, names, limit_bytes(plan.device, limit) - ends["UB"])
    for temp, use in zip(plan.temps, temps, strict=True):
        entry = Entry(use.name, "temp", "UB", ends["UB"], align_up(use.bytes, DATABLOCK_BYTES), 1, temp.steps)
        entries.append(entry)
        ends["UB"] = entry.end_bytes
    cuts = tuple(cut_of(call, use.bytes) for use in temps for call in use.calls)
    findings = (*_capacity(plan, entries, temps), *_counts(plan, names), *_rows(plan, names), *_of_temps(temps, cuts))
    findings = tuple(replace(f, where=plan.keys.get(f.where, f.where)) for f in findings)
    return Layout(names, limit, tuple(entries), temps, cuts, findings)


def units_exceed_ub(plan: Plan, chosen: Mapping[str, int]) -> bool:
    """Whether queues and buffers alone take more than UB has: a quick look before anything is laid out."""
    try:
        names = plan.names(chosen)
        entries = [_entry(unit, names, 0) for unit in plan.units if unit.place == "UB"]
    except InputError:
        return False  # whoever lays it out says what is wrong
    return sum(e.end_bytes for e in entries) > plan.device.ub_bytes


def cut_of(call: Call, temp_bytes: int) -> Cut:
    """Return how a call cuts its rows with so much temp."""
    return Cut(call, temp_bytes, *call.tiling(temp_bytes))


def _entry(unit: Unit, names: Mapping[str, int], start: int) -> Entry:
    size = unit.bytes.value_in(names, 1, None, "a size in bytes")
    num = unit.num.value_in(names, 1, MOST_BUFFERS, "the number of buffers")
    return Entry(unit.name, unit.kind, unit.place, start, align_up(size, ALIGN_BYTES[unit.place]), num, unit.steps)


# ---- temps ------------------------------------------------------------------------------------------------------


def _temps(plan: Plan, names: Mapping[str, int], left: int) -> tuple[TempUse, ...]:
    """Every temp gets its least; then those that take what is left, in order, up to what their APIs can use."""
    calls = [call_of(api, names, plan.device.npu_arch) for api in plan.apis]
    uses = [_least_use(temp, tuple(c for c in calls if c.temp == temp.name), names) for temp in plan.temps]
    left -= sum(align_up(use.bytes, DATABLOCK_BYTES) for use in uses)
    sized = []
    for use in uses:
        size = use.bytes
        if use.policy in ("fit", "framework"):
            has = align_up(use.bytes, DATABLOCK_BYTES)
            size = max(use.bytes, min(use.most_bytes, has + max(0, left) // DATABLOCK_BYTES * DATABLOCK_BYTES))
            left -= align_up(size, DATABLOCK_BYTES) - has
        sized.append(replace(use, bytes=size))
    return tuple(sized)


def _least_use(temp: Temp, calls: tuple[Call, ...], names: Mapping[str, int]) -> TempUse:
    """A temp with the least it may have; APIs that share it need the largest of their sizes."""
    sizes = [call.sizes() for call in calls]
    least, most = (max((size[i] for size in sizes), default=0) for i in (0, 1))
    if temp.bytes is not None:
        own = temp.bytes.value_in(names, 1, None, "a size in bytes")
        return TempUse(temp.name, "", least, most, own, calls)
    return TempUse(temp.name, temp.policy, least, most, most if temp.policy == "max" else least, calls)


def _of_temps(temps: tuple[TempUse, ...], cuts: tuple[Cut, ...]) -> Iterator[Finding]:
    """Temps below their minimum, what CANN refuses, and tilings without a row although their temp has the minimum."""
    small = {use.name for use in temps if use.bytes < use.least_bytes}
    for use in temps:
        if use.name in small:
            api = max(use.calls, key=lambda call: call.sizes()[0]).name
            where = f"temps.{use.name}"
            yield TMP_SMALL.finding(where, operand=use.name, got=use.bytes, wanted=use.least_bytes, fill={"api": api})
    for cut in cuts:
        if cut.problem:
            problem = {"problem": cut.problem.removesuffix(".")}
            yield TMP_REFUSED.finding(f"apis.{cut.call.name}", operand=cut.call.name, got=cut.temp_bytes, fill=problem)
        has_no_row = cut.tiling is not None and cut.tiling.split_m == 0 and not cut.call.ignores_tiles
        if has_no_row and cut.call.temp not in small:
            yield TMP_TILING.finding(f"apis.{cut.call.name}", operand=cut.call.name, got=cut.temp_bytes)


# ---- what does not fit ------------------------------------------------------------------------------------------


def _capacity(plan: Plan, entries: list[Entry], temps: tuple[TempUse, ...]) -> Iterator[Finding]:
    """For each capacity that is exceeded the first entry that ends beyond it."""
    yield from _ub_capacity(plan.device, [e for e in entries if e.place == "UB"], temps)
    for place, rule in CAP_PLACE.items():
        yield from _first_beyond(rule, [e for e in entries if e.place == place], capacity_bytes(plan.device, place))


def _ub_capacity(device: Device, entries: list[Entry], temps: tuple[TempUse, ...]) -> Iterator[Finding]:
    """The limits of UB; a temp for which there is no room is told in terms of what its API needs."""
    visible = device.ub.visible_bytes.value
    first = next((e for e in entries if e.end_bytes > visible), None)
    if first is None:
        yield from _first_beyond(CAP_UB_SAFE, entries, device.ub.safe_bytes.value)
        return
    yield from _first_beyond(CAP_UB_HW, entries, device.ub_bytes)
    use = next((use for use in temps if use.name == first.name and use.calls), None)
    if use is not None:
        yield _no_room(first, use, visible)
    else:
        yield from _first_beyond(CAP_UB, entries, visible)


def _first_beyond(rule: Rule, entries: list[Entry], end: int) -> Iterator[Finding]:
    first = next((e for e in entries if e.end_bytes > end), None)
    if first is not None:
        yield _too_long(rule, first, end)


def _too_long(rule: Rule, entry: Entry, end: int) -> Finding:
    got = entry.end_bytes
    fill: dict[str, object] = {"over": got - end}
    return rule.finding(_key(entry), operand=entry.name, got=got, wanted=end, fill=fill)


def _no_room(entry: Entry, use: TempUse, end: int) -> Finding:
    """A temp for which too little is left, in terms of what its API needs."""
    call = max(use.calls, key=lambda call: call.sizes()[0])
    fill: dict[str, object] = {"left": max(0, end - entry.start_bytes), "api": call.name, "most": use.most_bytes}
    need = max(use.bytes, use.least_bytes) if use.policy == "" else use.least_bytes
    return CAP_TEMP.finding(_key(entry), operand=entry.name, got=need, wanted=end, fill=fill)


def _key(entry: Entry) -> str:
    return f"{entry.kind}s.{entry.name}"


def _counts(plan: Plan, names: Mapping[str, int]) -> Iterator[Finding]:
    """Queue buffers of one position, and buffers of the kernel."""
    sync = plan.device.sync
    total = sum(unit.num.value(names) if unit.kind == "queue" else 1 for unit in plan.units) + len(plan.temps)
    of_position: dict[str, int] = {}
    for unit in plan.units:
        if unit.position:
            of_position[unit.position] = of_position.get(unit.position, 0) + unit.num.value(names)
    for position, count in of_position.items():
        if count > sync.queue_buffers_per_position.value:
            yield CAP_QUE.finding("queues", operand=position, got=count, wanted=sync.queue_buffers_per_position.value)
    if total > sync.max_buffers.value:
        yield CAP_BUF.finding("queues, buffers", got=total, wanted=sync.max_buffers.value)


def _rows(plan: Plan, names: Mapping[str, int]) -> Iterator[Finding]:
    """Rows in UB are whole datablocks."""
    for unit in plan.units:
        if unit.row is None:
            continue
        width = unit.row.width.value_in(names, 1, None, "a width in elements")
        element = unit.row.element_bytes.value_in(names, 1, DATABLOCK_BYTES, "the bytes of an element")
        if DATABLOCK_BYTES % element:
            raise unit.row.element_bytes.error(1, f"gives {element}; want an element type, or its bytes")
        if width * element % DATABLOCK_BYTES:
            per_datablock = DATABLOCK_BYTES // element
            fill: dict[str, object] = {"width": width, "next": ceil_div(width, per_datablock) * per_datablock}
            got = width * element
            yield ROW.finding(
                f"{unit.kind}s.{unit.name}", operand=unit.name, got=got, wanted=DATABLOCK_BYTES, fill=fill
            )
