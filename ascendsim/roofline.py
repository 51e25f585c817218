"""How much a run computes for each byte of GM it moves, and how far the device's roofs are above it.

Operations: two for each product of Mmad, one for each active lane of an instruction of V that computes, two where its
result is added to what dst held. Moves and fills are none. Bytes are those that cores read from and write to GM,
be it in memory or in L2.

Roofs follow from the device file: the Cube's peak for the factors used most, Add of the type computed with most on all
vector cores, and the shared links. Reads and stores have links of their own, so the bandwidth of a run is what both
give together at its mix of the two: all reads from memory, or all from L2.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import DType
from ascendsim.isa.instruction import MicroKind, Row
from ascendsim.isa.lanes import active_lanes, lane_count, lanes_of
from ascendsim.program import Program, Template
from ascendsim.terms import CoreKind, MaskMode, Pipe
from ascendsim.tuning import Traffic

CUBE, VECTOR, MEMORY, L2 = "Cube", "Vector", "memory", "L2"
_NO_ARITHMETIC = ("Copy", "Duplicate", "Brcb", "Gather", "Gatherb", "GatherMask", "Transpose", "TransDataTo5HD")
"""Instructions of V that move or fill."""
_PER_TERA = 1e12


@dataclass(frozen=True, slots=True)
class Roof:
    """What the device does at most in a second: 10^12 operations, or with `is_bandwidth` 10^12 bytes.

    Attributes:
        name: CUBE, VECTOR, MEMORY or L2.
        detail: of which type, or over which link.
    """

    name: str
    detail: str
    tera: float
    is_bandwidth: bool


@dataclass(frozen=True, slots=True)
class Point:
    """What some cores do: operations, bytes of GM, both over the makespan.

    Attributes:
        name: "run", or the kind of the cores.
        intensity: operations for each byte of GM moved.
        tera_ops: 10^12 operations a second.
        bound: name of the lowest roof at that intensity that is not below the point, which L2 can lift above memory's.
        share: of that roof, 1 for all of it.
    """

    name: str
    ops: int
    gm_bytes: int
    intensity: float
    tera_ops: float
    bound: str
    share: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """Roofs of a device, and points of a run."""

    roofs: tuple[Roof, ...]
    points: tuple[Point, ...]

    def roof(self, name: str) -> Roof | None:
        """Return a roof by name, None where the device or the run has none."""
        return next((roof for roof in self.roofs if roof.name == name), None)


@dataclass(frozen=True, slots=True)
class _Ops:
    """Operations of a row on the Cube or the vector unit, and the element type they are of."""

    unit: str
    count: int
    dtype: DType


def roofline_of(program: Program, device: Device, traffic: Sequence[Traffic], us: float) -> Roofline:
    """Return the roofs of a device and where a run stands below them.

    Args:
        program: the program.
        device: the device.
        traffic: bytes between GM and each pipe.
        us: the makespan.
    """
    by_kind, by_dtype = _count(program)
    mix = sum(one.bytes for one in traffic if one.way == "read"), sum(one.bytes for one in traffic if one.way != "read")
    roofs = _roofs(device, by_dtype, mix)
    moved: Counter[CoreKind | None] = Counter()
    for one in traffic:
        moved[one.kind] += one.bytes
    all_ops = sum((counts for counts in by_kind.values()), Counter[str]())
    points = [_point("run", all_ops, sum(moved.values()), us, roofs)]
    if program.kernel_type.is_mix:
        points += [_point(kind.name, by_kind[kind], moved[kind], us, roofs) for kind in by_kind]
    else:
        points = [_point(program.kernel_type.kinds[0].name, all_ops, sum(moved.values()), us, roofs)]
    return Roofline(roofs, tuple(point for point in points if point is not None))


def _count(program: Program) -> tuple[dict[CoreKind, Counter[str]], Counter[tuple[str, DType]]]:
    """Operations by the kind of core and unit, and by unit and element type."""
    by_kind: dict[CoreKind, Counter[str]] = {kind: Counter() for kind in dict.fromkeys(program.kernel_type.kinds)}
    by_dtype: Counter[tuple[str, DType]] = Counter()
    cores = program.block_cores
    keys = program.calls["template"] * cores + program.calls["core"] % cores
    counts = np.bincount(keys, minlength=len(program.templates) * cores).reshape(-1, cores).tolist()
    for template, calls in zip(program.templates, counts, strict=True):
        for unit, dtype, count in _of_template(template):
            by_dtype[unit, dtype] += count * sum(calls)
            for place, times in enumerate(calls):
                by_kind[program.core_kind(place)][unit] += count * times
    return by_kind, by_dtype


def _of_template(template: Template) -> list[tuple[str, DType, int]]:
    found: defaultdict[tuple[str, DType], int] = defaultdict(int)
    for row in template.rows:
        for ops in _of_row(row):
            found[ops.unit, ops.dtype] += ops.count
    return [(unit, dtype, count) for (unit, dtype), count in found.items()]


def _of_row(row: Row) -> list[_Ops]:
    if row.op.family == "Mmad":
        assert row.src0 is not None
        return [_Ops(CUBE, 2 * row.param("m") * row.param("n") * row.param("k"), row.src0.dtype)]
    if row.body is not None:
        computing = [micro for micro in row.body.rows if micro.op.kind is MicroKind.COMPUTE]
        return [_Ops(VECTOR, micro.mask.bit_count(), micro.dtype) for micro in computing]
    if row.pipe is not Pipe.V or not row.op.uses_mask or row.op.api in _NO_ARITHMETIC:
        return []
    dtype = max((o.dtype for role, o in row.operands if role in row.op.lane_roles), key=lambda one: one.bytes)
    return [_Ops(VECTOR, (1 + row.op.reads_dst) * _active(row), dtype)]


def _active(row: Row) -> int:
    """Lanes that compute, over all repeats."""
    if row.mask_mode is MaskMode.COUNTER:
        return row.mask_lo
    return len(active_lanes(row.mask_hi, row.mask_lo, lanes_of(row))) * max(0, row.param("repeat"))


def _roofs(device: Device, by_dtype: Counter[tuple[str, DType]], mix: tuple[int, int]) -> tuple[Roof, ...]:
    roofs = [_cube_roof(device, _most(by_dtype, CUBE)), _vector_roof(device, _most(by_dtype, VECTOR))]
    hits = sorted({cost.link for name, cost in device.transfer.items() if name.endswith("_hit")})
    roofs.append(_link_roof(device, MEMORY, device.l2.memory_link, mix))
    roofs += [_link_roof(device, L2, link, mix) for link in hits[:1]]
    return tuple(roof for roof in roofs if roof is not None)


def _most(by_dtype: Counter[tuple[str, DType]], unit: str) -> DType | None:
    """The type that a unit computes with most, None without work."""
    counts = {dtype: count for (one, dtype), count in by_dtype.items() if one == unit and count}
    return max(counts, key=lambda dtype: (counts[dtype], -dtype.code), default=None)


def _cube_roof(device: Device, factors: DType | None) -> Roof | None:
    peak = None if factors is None else device.cube_peak_flop(factors.name)
    return None if peak is None else Roof(CUBE, str(factors), peak / _PER_TERA, is_bandwidth=False)


def _vector_roof(device: Device, dtype: DType | None) -> Roof | None:
    """All vector cores at one Add a lane: a repeat of 256 B in the cycles that the device file has for it."""
    cost = None if dtype is None else device.vector.get("Add", {}).get(dtype.name)
    if cost is None or dtype is None or not cost.per_repeat:
        return None
    per_second = lane_count(dtype.bytes) / cost.per_repeat * device.clock_mhz * 1e6 * device.aiv
    return Roof(VECTOR, f"Add {dtype}", per_second / _PER_TERA, is_bandwidth=False)


def _link_roof(device: Device, name: str, link: str, mix: tuple[int, int]) -> Roof:
    """What the link of reads and that of stores carry together where (read, stored) bytes are through at once."""
    stores = min({cost.link for name, cost in device.transfer.items() if name.endswith("_to_gm")})
    each = [device.link_bytes_per_cycle(one) * device.clock_mhz * 1e6 / _PER_TERA for one in (link, stores)]
    if not any(mix):
        return Roof(name, f"{link} alone", each[0], is_bandwidth=True)
    together = sum(mix) / max(count / tera for count, tera in zip(mix, each, strict=True))
    share = mix[0] / sum(mix)
    return Roof(name, f"{link} and {stores}, {share:.0%} reads", together, is_bandwidth=True)


def _point(name: str, ops: Counter[str], gm_bytes: int, us: float, roofs: Sequence[Roof]) -> Point | None:
    """Where some cores stand; None without operations, bytes or time."""
    total = sum(ops.values())
    if not total or not gm_bytes or not us:
        return None
    intensity, rate = total / gm_bytes, total / us / 1e6
    units = [roof for roof in roofs if not roof.is_bandwidth and ops[roof.name]]
    levels = {roof.name: roof.tera for roof in sorted(units, key=lambda roof: -roof.tera)[:1]}
    levels |= {roof.name: roof.tera * intensity for roof in roofs if roof.is_bandwidth}
    above = {one: level for one, level in levels.items() if level >= rate} or levels
    bound = min(above, key=lambda one: above[one])
    return Point(name, total, gm_bytes, intensity, rate, bound, rate / levels[bound])
