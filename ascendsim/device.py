"""Devices as data: one model, one TOML file a part, every number with its source and status.

A part file says `extends = "arch2201"` and adds what differs; the merged result is checked here, once, at load time.
There is no device name in any condition of the program: a difference is a number or a capability.
"""

import difflib
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from ascendsim.errors import DeviceError
from ascendsim.terms import (
    CUBE_SIDE,
    DATABLOCK_BYTES,
    Buffer,
    CoreKind,
    HalfOverflow,
    HardEvent,
    KernelType,
    MmadOrder,
    Pipe,
    RoundMode,
    TPosition,
    ceil_div,
)

Status = Literal["documented", "measured", "fitted", "inferred", "assumed"]
SCHEMA = 1
NOT_CALIBRATED = "NOT CALIBRATED"
"""The banner beside cycles of a device whose figures are not its own."""


class _Model(BaseModel):
    """Frozen, and an unknown key is refused with its full path."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Number(_Model):
    """A number with where it comes from and how sure it is."""

    value: int | float
    source: str = Field(min_length=1)
    status: Status


class IntNumber(Number):
    """A whole number of bytes, cycles or things."""

    value: int = Field(ge=0)


class PositiveNumber(IntNumber):
    """A whole number of cycles that cannot be none."""

    value: int = Field(ge=1)


class CyclesNumber(Number):
    """Cycles that are an average, so that they need not be whole."""

    value: float = Field(ge=0)


class Capability(_Model):
    """Whether the hardware or its library can do something."""

    value: bool
    source: str = Field(min_length=1)
    status: Status


class TypeList(_Model):
    """Element types by name; a source and a destination of different types are written "half->float"."""

    value: tuple[str, ...]
    source: str = Field(min_length=1)
    status: Status


class PlaceName(_Model):
    """The memory behind a position."""

    value: Literal["GM", "UB", "L1", "L0A", "L0B", "L0C", "BT", "FB"]
    source: str = Field(min_length=1)
    status: Status


class CoreParts(_Model):
    """What a core of one kind has: pipes, memories, and pairs of pipes with flags, by name."""

    pipes: TypeList
    buffers: TypeList
    events: TypeList


class OverflowChoice(_Model):
    """What half results beyond the largest finite value become."""

    value: HalfOverflow
    source: str
    status: Status


class MmadChoice(_Model):
    """In which order Mmad adds products."""

    value: MmadOrder
    source: str
    status: Status


class RoundChoice(_Model):
    """A rounding mode, by AscendC's name."""

    value: str
    source: str
    status: Status

    @property
    def mode(self) -> RoundMode:
        """The mode itself."""
        return RoundMode[self.value]


class Cores(_Model):
    """How many cores, and their clock."""

    aic: IntNumber
    aiv: IntNumber
    clock_mhz: IntNumber


class Memory(_Model):
    """Capacities in bytes."""

    ub_bytes: IntNumber
    l1_bytes: IntNumber
    l0a_bytes: IntNumber
    l0b_bytes: IntNumber
    l0c_bytes: IntNumber
    bt_bytes: IntNumber
    fb_bytes: IntNumber
    bt_burst_bytes: IntNumber | None = None
    fb_burst_bytes: IntNumber | None = None
    """What block_len of DataCopyParams counts on the way from L1 there; None where there is no such way."""
    l1_mixed_bytes: IntNumber | None = None
    """What kernels on both kinds of cores may use of L1; None for all of it."""
    l2_bytes: IntNumber
    gm_bytes: IntNumber | None = None
    gm_full_rate_bytes: IntNumber | None = None
    """Bytes of one GM transfer from which on it reaches the best bandwidth; None where nobody says."""
    gm_alignment_bytes: PositiveNumber | None = None
    """Boundary on which GM accesses reach full bandwidth; None where none is published."""
    gm_contended_bytes: PositiveNumber
    """Aligned block of GM in which accesses of several cores wait for one another."""


class UbLimits(_Model):
    """The three limits a UB plan meets, the framework temp's end, and the banks.

    Bank group of an address: datablock modulo `bank_groups`. Its bank in the group: the address divided by
    `bank_step_bytes`, modulo `banks_per_group`; None where no document gives the address bits.
    """

    visible_bytes: IntNumber
    safe_bytes: IntNumber
    reserved_offset_bytes: IntNumber
    pop_stack_end_bytes: IntNumber
    bank_groups: IntNumber
    bank_step_bytes: PositiveNumber | None = None
    banks_per_group: PositiveNumber | None = None
    read_write_cycles: CyclesNumber | None = None
    """What a repeat costs more in which dst hits a bank that a source reads; None where nobody measured it."""


class Sync(_Model):
    """Event and queue resources."""

    event_ids: IntNumber
    queue_buffers_per_position: IntNumber
    max_buffers: IntNumber
    cross_core_cycles: IntNumber
    """From the last set of a cross-core flag to its rising."""
    mmad_ordered_fractals: PositiveNumber | None = None
    """Fractals of a result from which on Mmads that add to it one behind the other need no barrier; None: any."""


class Arithmetic(_Model):
    """Choices the documents leave open, or that differ between architectures."""

    half_overflow: OverflowChoice
    mmad_order: MmadChoice
    mmad_types: TypeList
    """Written "half*half->float"."""
    atomic_types: TypeList
    """Types in which stores add to GM."""
    softmax_grad_half_round_mode: RoundChoice


class QueueDepth(_Model):
    """Instructions that wait behind the one a pipe is issuing, before the scalar unit stalls."""

    V: IntNumber
    M: IntNumber
    MTE1: IntNumber
    MTE2: IntNumber
    MTE3: IntNumber
    FIX: IntNumber


class Scalar(_Model):
    """Cycles of the scalar unit and of synchronisation."""

    dispatch_cycles: IntNumber
    mask_cycles: IntNumber
    get_value_cycles: IntNumber
    set_flag_cycles: PositiveNumber
    """At least 1, as the contract of the engines asks."""
    wait_flag_cycles: IntNumber
    barrier_cycles: IntNumber
    barrier_all_cycles: IntNumber
    queue_depth: QueueDepth

    def depth(self, pipe: Pipe) -> int:
        """Queue depth of a pipe."""
        number: IntNumber = getattr(self.queue_depth, pipe.name)
        return number.value


class VectorCost(_Model):
    """Cycles of one vector instruction family and dtype; see devices/arch2201.toml for the formula."""

    startup: int = Field(ge=0)
    per_repeat: float = Field(gt=0)
    drain: int = Field(ge=0)
    min_issue: int = Field(ge=1)
    partial_repeat: int = Field(ge=0)
    conflict: Literal["two_source", "one_source", "none"]
    overhead: int = Field(default=0, ge=0)
    """Cycles of an instruction in which no other can run, beside those of its repeats."""
    per_offsets: int = Field(default=0, ge=0)
    """Cycles for each 256 B of offsets that are read."""
    partial_datablock: int = Field(default=0, ge=0)
    """Cycles once where the results end inside a datablock."""
    source: str = Field(min_length=1)
    status: Status


class MicroCost(_Model):
    """Cycles of one register micro-operation and element type.

    Attributes:
        latency: until a computation may use the result; of a store, until it is done.
        to_store: until a store may use the result, where that differs.
        interval: how long it keeps its unit; more than 1 on the slow part of a unit, which works beside the fast one.
        alone: no other load, or no other computation, starts in the same cycle.
    """

    latency: int = Field(ge=0)
    to_store: int | None = Field(default=None, ge=0)
    interval: int = Field(default=1, ge=1)
    alone: bool = False
    source: str = Field(min_length=1)
    status: Status

    @property
    def store_latency(self) -> int:
        """Cycles until a store may use the result."""
        return self.latency if self.to_store is None else self.to_store


class VectorFunctionCost(_Model):
    """Cycles of a vector function; see vector_timing.py for what is done with them.

    Attributes:
        startup: before the first micro-operation.
        drain: after the last, seen by whoever waits for the result.
        dispatch_per_cycle: micro-operations of one loop iteration that are dispatched in a cycle.
        loop_start: from what is before the first loop to its first iteration.
        loop_restart: from the last iteration of any loop to the first one of the next.
        accesses_per_cycle: loads and stores together; of stores it is one.
        units: units for computations, each starting one in a cycle.
        op: cost of a micro-operation by name, then by element type or width ("float", "b16").
    """

    startup: int = Field(ge=0)
    drain: int = Field(ge=0)
    dispatch_per_cycle: int = Field(ge=1)
    loop_start: int = Field(ge=1)
    loop_restart: int = Field(ge=1)
    accesses_per_cycle: int = Field(ge=1)
    units: int = Field(ge=1)
    op: dict[str, dict[str, MicroCost]]
    source: str = Field(min_length=1)
    status: Status


class CubeCost(_Model):
    """Cycles of Mmad for one type of factors: fixed_cycles + per_fractal for each step of 16 x 16 x k_elements.

    Attributes:
        startup: on top, of an Mmad that finds the pipe idle.
        fixed_cycles: of every Mmad.
        accumulate_cycles: on top, of an Mmad that adds to L0C behind another one, whose last sums it has to wait for.
        k_elements: depth of a step.
    """

    startup: int = Field(ge=0)
    fixed_cycles: int = Field(ge=0)
    accumulate_cycles: int = Field(ge=0)
    per_fractal: int = Field(ge=1)
    k_elements: int = Field(ge=1)
    source: str = Field(min_length=1)
    status: Status

    def occupancy_cycles(self, m: int, n: int, k: int) -> int:
        """Return the cycles of [m, k] times [k, n] behind a product that it does not add to.

        Nothing is published of partial steps: they count whole, which errs slow.
        """
        steps = ceil_div(m, CUBE_SIDE) * ceil_div(n, CUBE_SIDE) * ceil_div(k, self.k_elements)
        return self.fixed_cycles + self.per_fractal * steps


class LocalCost(_Model):
    """Cycles of a move between on-chip memories: startup if the pipe is idle, then fixed_cycles + bytes / rate.

    Attributes:
        min_cycles: least cycles behind the startup.
        elements_per_cycle: what narrow results of the fixpipe are limited by; None where only bytes count.
    """

    startup: int = Field(ge=0)
    fixed_cycles: int = Field(ge=0)
    bytes_per_cycle: float = Field(gt=0)
    min_cycles: int = Field(ge=1, default=1)
    elements_per_cycle: PositiveInt | None = None
    source: str = Field(min_length=1)
    status: Status


class Line(_Model):
    """cycles = fixed_cycles + bytes / bytes_per_cycle."""

    fixed_cycles: int = Field(ge=0)
    bytes_per_cycle: float = Field(gt=0)


class RowPieces(_Model):
    """Pieces in which a transfer works rows of a matrix, each of a power of two of bytes, the longest first.

    Attributes:
        cycles: of a piece, whatever its length.
        most_bytes, least_bytes: lengths of the longest piece and of the shortest; what is left of a row is one more.
    """

    cycles: float = Field(gt=0)
    most_bytes: PositiveInt
    least_bytes: PositiveInt

    def of_row(self, row_bytes: int) -> int:
        """Return the pieces of a row."""
        count, rest = divmod(row_bytes, self.most_bytes)
        return count + (rest // self.least_bytes).bit_count() + (rest % self.least_bytes > 0)


class TransferCost(_Model):
    """Cycles of a GM transfer; the largest of the lines counts.

    Attributes:
        piece_bytes: GM is accessed in pieces of this length and alignment; a burst is charged for those it touches.
        aligned_piece_bytes: the same where all bursts begin and end on such a boundary; None for no difference.
        most_bytes: a longer transfer is as many of at most this length, each with its start; None for no limit.
        once: whether consecutive bursts that meet in a piece are charged for it once (a fetch from HBM into L2 is).
        burst_cycles: on top, for each burst, before its bytes move on the link.
        odd_burst_cycles: on top, for each burst that is no multiple of 32 B (for one, where they are above 512 B).
        elements_per_cycle: as of LocalCost.
        row_pieces: what bounds a transfer that turns rows into fractals, beside its rate; None for others.
    """

    lines: tuple[Line, ...] = Field(min_length=1)
    piece_bytes: int = Field(ge=1)
    aligned_piece_bytes: PositiveInt | None = None
    most_bytes: PositiveInt | None = None
    once: bool = False
    burst_cycles: float = Field(ge=0, default=0)
    odd_burst_cycles: int = Field(ge=0, default=0)
    elements_per_cycle: PositiveInt | None = None
    row_pieces: RowPieces | None = None
    min_cycles: int = Field(ge=1)
    overlap_bytes: int = Field(gt=0)
    link: str
    source: str = Field(min_length=1)
    status: Status


class Link(_Model):
    """A path shared by all cores; its capacity is the per-AIV figure times the number of AIVs."""

    bytes_per_cycle_per_aiv: Number


class L2(_Model):
    """How L2 residency is kept, and what reaches memory.

    Attributes:
        memory_link: what L2 writes back goes over, and stores that bypass it.
        same_line_link: loads that bypass L2 go over, if several cores read one line at the same time.
        bypass_row_bytes: what a row that is not made of whole lines costs memory on top of its own bytes if it bypasses
            L2, which would keep the rest of its lines.
    """

    line_bytes: IntNumber
    segment_bytes: IntNumber
    memory_link: str
    same_line_link: str
    bypass_row_bytes: IntNumber


class UsNumber(Number):
    """Microseconds."""

    value: float = Field(ge=0)


class Launch(_Model):
    """What a task takes beside its cores' work: scheduling it, and its end; fixed + all_cores * share of the cores."""

    fixed_us: UsNumber
    all_cores_us: UsNumber


class Device(_Model):
    """One part, complete. Load one with `load_device`."""

    schema_: Literal[1] = Field(alias="schema")
    name: str
    short_soc: str
    product_family: str
    npu_arch: int
    core_form: Literal["split", "combined"]
    calibrated: Capability
    """Whether cycles rest on figures of this architecture."""
    cores: Cores
    memory: Memory
    ub: UbLimits
    sync: Sync
    positions: dict[str, PlaceName]
    core: dict[str, CoreParts]
    """By kind of core."""
    capabilities: dict[str, Capability]
    types: dict[str, TypeList] = {}
    """Of instructions that take fewer element types here than their declaration names, by AscendC name: those."""
    arithmetic: Arithmetic
    scalar: Scalar
    launch: Launch
    vector: dict[str, dict[str, VectorCost]]
    vector_function: VectorFunctionCost | None = None
    """None where there are none."""
    cube: dict[str, dict[str, CubeCost]]
    """By instruction and type of the factors."""
    local: dict[str, LocalCost]
    """Moves between on-chip memories, by path."""
    transfer: dict[str, TransferCost]
    link: dict[str, Link]
    l2: L2

    @property
    def ub_bytes(self) -> int:
        """Unified Buffer of one AIV, hardware size."""
        return self.memory.ub_bytes.value

    @property
    def aiv(self) -> int:
        """Vector cores of the chip."""
        return self.cores.aiv.value

    @property
    def aic(self) -> int:
        """Cube cores of the chip."""
        return self.cores.aic.value

    def buffer_of(self, position: TPosition) -> Buffer | None:
        """Return the memory that plays a position, None for one that the architecture does not have."""
        place = self.positions.get(position.value)
        return None if place is None else Buffer[place.value]

    def buffer_bytes(self, buffer: Buffer) -> int:
        """Return the capacity of an on-chip memory."""
        number: IntNumber = getattr(self.memory, f"{buffer.name.lower()}_bytes")
        return number.value

    def usable_bytes(self, buffer: Buffer, kernel_type: KernelType) -> int:
        """Return what a kernel may use of an on-chip memory."""
        limit = self.memory.l1_mixed_bytes
        if buffer is Buffer.L1 and kernel_type.is_mix and limit is not None:
            return limit.value
        return self.buffer_bytes(buffer)

    def events_of(self, kind: CoreKind) -> frozenset[HardEvent]:
        """Return the flag pairs that a kind of core has."""
        return frozenset(HardEvent[name] for name in self.core[kind.value].events.value)

    def burst_bytes(self, target: Buffer) -> int:
        """Return what block_len of DataCopyParams counts on the way into a memory."""
        own = {Buffer.BT: self.memory.bt_burst_bytes, Buffer.FB: self.memory.fb_burst_bytes}.get(target)
        return DATABLOCK_BYTES if own is None else own.value

    def kernel_types(self) -> tuple[KernelType, ...]:
        """Kernel types that the architecture's cores can run, the usual one first."""
        return tuple(t for t in KernelType if all(kind.value in self.core for kind in t.kinds))

    def most_blocks(self, kernel_type: KernelType) -> int:
        """Return how many blocks of a kernel type run at the same time."""
        have = {CoreKind.AIV: self.aiv, CoreKind.AIC: self.aic, CoreKind.AICORE: self.aiv}
        return min(have[kind] // kernel_type.kinds.count(kind) for kind in set(kernel_type.kinds))

    @property
    def clock_mhz(self) -> int:
        """Core clock."""
        return self.cores.clock_mhz.value

    @property
    def caution(self) -> str:
        """What has to stand beside cycles: nothing for a calibrated device."""
        return "" if self.calibrated.value else f"{NOT_CALIBRATED}: {self.calibrated.source}"

    def has(self, capability: str) -> bool:
        """Whether the device has a named capability; one that no file names is absent."""
        found = self.capabilities.get(capability)
        return found is not None and found.value

    def link_bytes_per_cycle(self, name: str) -> float:
        """Capacity of a shared link with all cores counted."""
        return float(self.link[name].bytes_per_cycle_per_aiv.value) * self.aiv

    def launch_us(self, kernel_type: KernelType, block_dim: int) -> float:
        """Return what a task on so many blocks takes beside its cores' work, in microseconds."""
        share = block_dim / self.most_blocks(kernel_type)
        return float(self.launch.fixed_us.value + self.launch.all_cores_us.value * share)

    def cube_peak_flop(self, factors: str) -> int | None:
        """Return the floating-point operations that all Cube cores do in a second with factors of a type, at most.

        Two for each product and its addition, in whole steps without start-up. None where it has no such product.
        """
        cost = self.cube["Mmad"].get(factors)
        if cost is None or self.aic == 0:
            return None
        step = 2 * CUBE_SIDE * CUBE_SIDE * cost.k_elements
        return step * self.aic * self.clock_mhz * 10**6 // cost.per_fractal

    def microseconds(self, cycles: int) -> float:
        """Convert cycles of the core clock to microseconds."""
        return cycles / self.clock_mhz

    def uncertain_numbers(self) -> tuple[str, ...]:
        """Paths of the numbers whose status is assumed or inferred, sorted."""
        return tuple(sorted(_paths_with_status(self.model_dump(by_alias=True), ("assumed", "inferred"))))

    def numbers(self, status: Status) -> tuple[str, ...]:
        """Paths of the numbers and tables of coefficients of a status, sorted."""
        return tuple(sorted(_paths_with_status(self.model_dump(by_alias=True), (status,))))


@dataclass(frozen=True, slots=True)
class Platform:
    """A part that is in no list: arch 2201 with other core counts or memory sizes. Everything else as arch 2201."""

    aic_cores: int
    aiv_cores: int
    ub_bytes: int = 196608
    l1_bytes: int = 524288
    l2_bytes: int = 201326592
    clock_mhz: int = 1850
    name: str = "custom"

    def device(self) -> Device:
        """Return the device; the UB limits keep their distance from the end of UB.

        Raises:
            DeviceError: a count or size that no part can have.
        """
        given = {f: getattr(self, f) for f in ("aic_cores", "aiv_cores", "ub_bytes", "l1_bytes", "l2_bytes")}
        for field, value in (given | {"clock_mhz": self.clock_mhz}).items():
            if value <= 0:
                raise DeviceError(f"Platform({field}={value}): must be positive")
        base = _read_toml("arch2201")
        shift = self.ub_bytes - base["memory"]["ub_bytes"]["value"]
        number = {"source": "given by the user", "status": "assumed"}
        for limit in ("visible_bytes", "safe_bytes", "reserved_offset_bytes", "pop_stack_end_bytes"):
            moved = base["ub"][limit]["value"] + shift
            if moved <= 0:
                raise DeviceError(f"Platform(ub_bytes={self.ub_bytes}): too small, 8448 bytes of it are reserved")
            base["ub"][limit]["value"] = moved
        part = {
            "name": self.name,
            "short_soc": self.name,
            "product_family": "custom",
            "cores": {
                "aic": {"value": self.aic_cores, **number},
                "aiv": {"value": self.aiv_cores, **number},
                "clock_mhz": {"value": self.clock_mhz, **number},
            },
            "memory": {
                "ub_bytes": {"value": self.ub_bytes, **number},
                "l1_bytes": {"value": self.l1_bytes, **number},
                "l2_bytes": {"value": self.l2_bytes, **number},
            },
        }
        return Device.model_validate(_merge(base, part))


@dataclass(frozen=True, slots=True)
class Product:
    """A product name of the vendor's pages: its parts here, or the reason why there are none."""

    names: tuple[str, ...]
    family: str
    npu_arch: int
    reason: str = ""
    note: str = ""
    """What to know before choosing one of the parts."""


def device_names() -> tuple[str, ...]:
    """Names of all parts with a device file, sorted."""
    files = (f.name for f in resources.files("ascendsim.devices").iterdir())
    return tuple(
        sorted(
            f.removesuffix(".toml")
            for f in files
            if f.endswith(".toml") and f != "products.toml" and not f.startswith("arch")
        )
    )


@cache
def products() -> tuple[Product, ...]:
    """Every product name the tool understands."""
    entries = _read_toml("products")["product"]
    return tuple(
        Product(tuple(e["names"]), e["family"], e["npu_arch"], e.get("reason", ""), e.get("note", "")) for e in entries
    )


def find_product(name: str) -> Product | None:
    """Return the product of that name (case and surrounding spaces ignored), or None."""
    wanted = name.strip().casefold()
    return next((p for p in products() if wanted in (n.casefold() for n in p.names)), None)


def parts_of(family: str) -> tuple[str, ...]:
    """Names of the parts of a product family, sorted."""
    return tuple(n for n in device_names() if load_device(n).product_family == family)


@cache
def load_device(soc: str | Platform) -> Device:
    """Load a part by its full name, for example "Ascend910B1", or build one from a `Platform`.

    Raises:
        DeviceError: no such part. A product name ("Atlas A2 training") lists its parts; a near miss is suggested.
    """
    if isinstance(soc, Platform):
        return soc.device()
    if not isinstance(soc, str):
        raise DeviceError(f"a device is named by text or is a Platform, got {soc!r}")
    names = {n.casefold(): n for n in device_names()}
    name = names.get(soc.strip().casefold())
    if name is None:
        raise DeviceError(_why_unknown(soc))
    raw = _read_toml(name)
    base = _architecture(raw.pop("extends"))
    try:
        return Device.model_validate(_merge(base, raw))
    except ValidationError as error:
        raise DeviceError(f"device file {name}.toml: {describe_validation(error)}") from error


def _why_unknown(soc: str) -> str:
    product = find_product(soc)
    if product is not None and product.reason:
        return f"{soc} cannot be simulated: {product.reason}"
    if product is not None:
        parts = ", ".join(parts_of(product.family))
        note = f" ({product.note})" if product.note else ""
        return f"{soc} is a product family, not a part; choose one of its parts: {parts}{note}"
    near = difflib.get_close_matches(soc, device_names(), n=1, cutoff=0.5)
    guess = f"; did you mean {near[0]}?" if near else ""
    return f"unknown device {soc!r}{guess} Known: {', '.join(device_names())}"


def describe_validation(error: ValidationError) -> str:
    """Return what pydantic refused as "path: reason", joined by semicolons."""
    lines = []
    for e in error.errors():
        path = ".".join(str(p) for p in e["loc"])
        reason = "unknown key" if e["type"] == "extra_forbidden" else e["msg"]
        lines.append(f"{path}: {reason}")
    return "; ".join(lines)


def _read_toml(name: str) -> dict[str, Any]:
    text = resources.files("ascendsim.devices").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _architecture(name: str) -> dict[str, Any]:
    """Return what the parts of an architecture share.

    Its table [borrowed] says that instruction costs of which nothing is published are another architecture's ("of"),
    but for some instructions ("without").
    """
    own = _read_toml(name)
    borrowed = own.pop("borrowed", None)
    if borrowed is None:
        return own
    lender = _read_toml(borrowed["of"])
    said = {"source": f"nothing published for {name}; the figure of {borrowed['of']}", "status": "assumed"}
    vector = {k: v for k, v in lender["vector"].items() if k not in borrowed["without"]}
    cube = {name: lender[name] for name in ("scalar", "launch", "cube", "local")}
    lent = _said_by({"vector": vector, **cube}, said)
    lent["transfer"] = _said_by({k: v for k, v in lender["transfer"].items() if k not in own["transfer"]}, said)
    return _merge(lent, own)


def _said_by(tree: dict[str, Any], said: dict[str, str]) -> dict[str, Any]:
    """Return a tree of tables in which every table with a source has this one."""
    if "source" in tree:
        return tree | said
    return {key: _said_by(value, said) for key, value in tree.items()}


def _merge(base: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return base with part's tables laid over it; a leaf of part replaces the leaf of base whole."""
    merged = dict(base)
    for key, value in part.items():
        both_tables = isinstance(value, dict) and isinstance(merged.get(key), dict) and "value" not in value
        merged[key] = _merge(merged[key], value) if both_tables else value
    return merged


def _paths_with_status(tree: object, wanted: tuple[str, ...], path: str = "") -> list[str]:
    if not isinstance(tree, dict):
        return []
    if tree.get("status") in wanted:
        return [path]
    found = []
    for key, value in tree.items():
        found += _paths_with_status(value, wanted, f"{path}.{key}" if path else str(key))
    return found
