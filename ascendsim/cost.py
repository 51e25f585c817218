"""Cost shapes: from a template's rows and a device's coefficients to the integer columns that engines schedule.

Shapes: `vector` (per repeat, with bank conflicts), `rounds` (a reduction repeated on its own results), `compact` (a
pattern fixed or read), `burst` (UB to UB copy), `transfer` (GM), `scalar`, flags, barrier.
The coefficients live in the device file; none are here.
"""

import math
from collections.abc import Callable

import numpy as np

from ascendsim.banks import (
    cycles_of,
    read_write_cycles,
    repeats_and_passes,
    roles_met,
    sides_of,
    written_while_read,
)
from ascendsim.device import Device, TransferCost, VectorCost
from ascendsim.engine.base import SCHEDULE_COLUMNS, UNITS_PER_BYTE, Kind, LinkInfo, TemplateSchedule
from ascendsim.errors import DeviceError
from ascendsim.isa.instruction import Reason, Row, TensorRef
from ascendsim.isa.lanes import ends_partial, lanes_of, repeats_of
from ascendsim.isa.move import burst_geometry
from ascendsim.program import Template
from ascendsim.terms import DATABLOCK_BYTES, DATABLOCKS_PER_REPEAT, REPEAT_BYTES, Buffer, MaskMode, ceil_div
from ascendsim.vector_timing import time_body

Fields = dict[str, int]


def links_of(device: Device) -> tuple[LinkInfo, ...]:
    """Links of a device, in the order that `link` columns count them."""
    return tuple(
        LinkInfo(name, int(device.link_bytes_per_cycle(name) * UNITS_PER_BYTE)) for name in sorted(device.link)
    )


def template_schedule(template: Template, device: Device) -> TemplateSchedule:
    """Return the schedule columns of a template on a device.

    Raises:
        DeviceError: the device file has no cost for an instruction and dtype that the template uses.
    """
    order = {link.name: i for i, link in enumerate(links_of(device))}
    rows = [_SHAPES[row.op.cost](row, template.tensors, device, order) for row in template.rows]
    columns = {
        name: np.array([fields.get(name, 0) for fields in rows], np.int64)
        for name in SCHEDULE_COLUMNS
        if name != "pipe"
    }
    columns["pipe"] = template.columns["pipe"].astype(np.int64)
    return TemplateSchedule(columns)


def vector_cost(row: Row, device: Device) -> VectorCost:
    """Return the coefficients of a vector row: by dtype, by conversion, or by element width.

    What writes bits or nothing to UB (Compare, the first half of ReduceSum) is looked up by what it reads.
    """
    if row.op.own_cost is not None:
        return row.op.own_cost
    table = device.vector.get(row.op.family, {})
    source, target = row.src0 or row.dst, row.dst or row.src0
    assert source is not None
    assert target is not None
    if "dst" not in row.op.lane_roles:
        target = source
    for key in (f"{source.dtype}->{target.dtype}", target.dtype.name, f"b{target.dtype.bytes * 8}", "b8"):
        if key in table:
            return table[key]
    raise DeviceError(
        f"device {device.name} has no cost for {row.op.api} with {source.dtype}->{target.dtype} "
        f"(table vector.{row.op.family} has {', '.join(table) or 'nothing'})"
    )


def _vector(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    del order
    cost = vector_cost(row, device)
    lanes = lanes_of(row)
    partial = cost.partial_repeat if row.op.uses_mask and ends_partial(row, lanes) else 0
    occupancy = max(cost.min_issue, _bank_cycles(row, tensors, device, cost) + _once(row, cost)) + partial
    return {"kind": Kind.EXEC, "startup": cost.startup, "occupancy": occupancy, "drain": cost.drain}


def _bank_cycles(row: Row, tensors: tuple[TensorRef, ...], device: Device, cost: VectorCost) -> int:
    """Cycles of all repeats as the banks let them run."""
    lanes = lanes_of(row)
    repeats, each = repeats_and_passes(row, lanes)
    if cost.conflict == "none" or repeats == 0:
        return math.ceil(cost.per_repeat * repeats * each)
    sides, groups = sides_of(row, tensors, lanes), device.ub.bank_groups.value
    reads, writes = roles_met(row, sides, cost), [role for role in sides if role == "dst"]
    phases = min(each, ceil_div(groups, DATABLOCKS_PER_REPEAT))  # passes behind these meet the same groups again
    cycles = 0.0
    for phase in range(phases):
        met = [tuple([sides[r].moved(phase * sides[r].pass_stride) for r in roles]) for roles in (reads, writes)]
        cycles += len(range(phase, each, phases)) * cycles_of(*met, repeats, groups, cost.per_repeat)
    if each == 1:
        cycles += read_write_cycles(device) * sum(written_while_read(row, sides, repeats, device, cost).values())
    return math.ceil(cycles)


def _once(row: Row, cost: VectorCost) -> int:
    """Cycles of a row beside its repeats: what no other instruction hides, offsets that are read, a last datablock."""
    cycles = cost.overhead
    if cost.per_offsets or cost.partial_datablock:
        touched = {role: end - first for role, first, end in row.op.touch(row)}
        cycles += cost.per_offsets * ceil_div(touched.get("src1", 0), REPEAT_BYTES)
        cycles += cost.partial_datablock if touched["dst"] % DATABLOCK_BYTES else 0
    return cycles


def _vector_function(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    """A start-up, the body, and a drain: see vector_timing.py."""
    del order
    assert row.body is not None
    cycles = time_body(row.body, tensors, device).cycles
    cost = device.vector_function
    assert cost is not None
    return {"kind": Kind.EXEC, "startup": cost.startup, "occupancy": max(1, cycles), "drain": cost.drain}


def _rounds(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    """A reduction of repeats to pairs of value and index, then of those pairs until one is left.

    Each round after the first waits for the one before, so its start-up and drain count in full.
    """
    first = _vector(row, tensors, device, order)
    cost, lanes = vector_cost(row, device), lanes_of(row)
    pairs = 2 * repeats_of(row, lanes)
    occupancy = first["occupancy"]
    while pairs > 2:
        passes = ceil_div(pairs, lanes)
        occupancy += cost.drain + cost.startup + max(cost.min_issue, math.ceil(cost.per_repeat * passes))
        pairs = 2 * passes
    return first | {"occupancy": occupancy}


def _compact(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    """GatherMask: 256 B passes, each repeat of a longer mask several; a pattern read from UB has a table of its own."""
    del tensors, order
    table = device.vector.get(row.op.family, {})
    key = "fixed" if row.src1 is None else "tensor"
    if key not in table:
        raise DeviceError(
            f"device {device.name} has no cost for {row.op.api} with a {key} pattern "
            f"(table vector.{row.op.family} has {', '.join(table) or 'nothing'})"
        )
    cost, lanes = table[key], lanes_of(row)
    each = ceil_div(row.mask_lo, lanes) if row.mask_mode is MaskMode.COUNTER else 1
    occupancy = max(cost.min_issue, math.ceil(cost.per_repeat * max(0, row.param("repeat")) * each))
    return {"kind": Kind.EXEC, "startup": cost.startup, "occupancy": occupancy, "drain": cost.drain}


def _burst(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    """Bursts of datablocks that follow one another: a pass of up to eight of them never meets a bank group twice."""
    del tensors, order
    cost = vector_cost(row, device)
    count, length, _, _ = burst_geometry(row)
    passes = count * ceil_div(length, DATABLOCK_BYTES * DATABLOCKS_PER_REPEAT)
    occupancy = max(cost.min_issue, math.ceil(cost.per_repeat * passes))
    return {"kind": Kind.EXEC, "startup": cost.startup, "occupancy": occupancy, "drain": cost.drain}


def _transfer(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    count, length, src_pitch, dst_pitch = burst_geometry(row)
    gm_role = next(role for role, o in row.operands if tensors[o.tensor].buffer is Buffer.GM)
    operand = dict(row.operands)[gm_role]
    total = count * length
    is_load = gm_role == "src0"
    miss = _transfer_cost(device, row, "_miss" if is_load else "")
    hit = _transfer_cost(device, row, "_hit") if is_load else miss
    return {
        "kind": Kind.TRANSFER,
        "occupancy": miss.min_cycles,
        "bytes": total,
        "slot": tensors[operand.tensor].slot,
        "gm_offset": operand.offset_bytes,
        "gm_rows": count,
        "gm_length": length,
        "gm_pitch": src_pitch if is_load else dst_pitch,
        **_path(miss, total, order, ""),
        **_path(hit, total, order, "_hit"),
    }


def _transfer_cost(device: Device, row: Row, suffix: str) -> TransferCost:
    name = f"{row.op.family}{suffix}"
    if name not in device.transfer:
        raise DeviceError(f"device {device.name} has no cost for {row.op.api} (table transfer.{name})")
    return device.transfer[name]


def _path(cost: TransferCost, total_bytes: int, order: dict[str, int], suffix: str) -> Fields:
    """Start-up and cap of the line that dominates for this many bytes."""
    line = max(cost.lines, key=lambda line: line.fixed_cycles + total_bytes / line.bytes_per_cycle)
    exposed = min(1.0, total_bytes / cost.overlap_bytes)
    return {
        f"startup{suffix}": line.fixed_cycles,
        f"startup_warm{suffix}": math.ceil(line.fixed_cycles * exposed),
        f"cap_units{suffix}": int(line.bytes_per_cycle * UNITS_PER_BYTE),
        f"link{suffix}": order[cost.link],
    }


def _scalar(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    del tensors, order
    cycles = device.scalar.mask_cycles if row.op.family == "mask" else device.scalar.get_value_cycles
    return {"kind": Kind.EXEC, "occupancy": cycles.value}


def _set_flag(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    del tensors, order
    return {"kind": Kind.SET_FLAG, "flag": _flag(row, device), "occupancy": device.scalar.set_flag_cycles.value}


def _wait_flag(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    del tensors, order
    return {
        "kind": Kind.WAIT_FLAG,
        "flag": _flag(row, device),
        "occupancy": device.scalar.wait_flag_cycles.value,
        "buffer_wait": int(row.reason is Reason.BUFFER),
    }


def _flag(row: Row, device: Device) -> int:
    """One number for a flag pair and id."""
    return row.param("event") * device.sync.event_ids.value + row.param("event_id")


def _barrier(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    del tensors, order
    scalar = device.scalar
    cycles = scalar.barrier_all_cycles if row.pipe.name == "S" else scalar.barrier_cycles
    return {"kind": Kind.BARRIER, "occupancy": cycles.value}


def _mmad(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    """The steps of a product; behind another one without the start-up."""
    del tensors, order
    assert row.src0 is not None
    cost = device.cube.get(row.op.family, {}).get(row.src0.dtype.name)
    if cost is None:
        raise DeviceError(f"device {device.name} has no cost for {row.op.api} with {row.src0.dtype} (table cube.Mmad)")
    m, n, k = (max(0, row.param(name)) for name in ("m", "n", "k"))
    return {"kind": Kind.EXEC, "startup": cost.startup, "occupancy": cost.occupancy_cycles(m, n, k)}


def _local(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    """A move between on-chip memories: its own bytes at the path's rate, behind another one without the start-up."""
    del tensors, order
    cost = device.local.get(row.op.family)
    if cost is None:
        raise DeviceError(f"device {device.name} has no cost for {row.op.api} (table local.{row.op.family})")
    count, length, _, _ = burst_geometry(row)
    cycles = cost.fixed_cycles + math.ceil(count * length / cost.bytes_per_cycle)
    return {"kind": Kind.EXEC, "startup": cost.startup, "occupancy": max(1, cycles)}


def _cross_set(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    del tensors, order
    cycles = device.scalar.set_flag_cycles.value
    return {"kind": Kind.SET_FLAG, "flag": row.param("flag_id"), "cross": row.param("mode") + 1, "occupancy": cycles}


def _cross_wait(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    del tensors, order
    cycles = device.scalar.wait_flag_cycles.value
    return {"kind": Kind.WAIT_FLAG, "flag": row.param("flag_id"), "cross": row.param("mode") + 1, "occupancy": cycles}


_SHAPES: dict[str, Callable[[Row, tuple[TensorRef, ...], Device, dict[str, int]], Fields]] = {
    "vector": _vector,
    "rounds": _rounds,
    "compact": _compact,
    "burst": _burst,
    "transfer": _transfer,
    "vector_function": _vector_function,
    "scalar": _scalar,
    "set_flag": _set_flag,
    "wait_flag": _wait_flag,
    "barrier": _barrier,
    "cross_set": _cross_set,
    "mmad": _mmad,
    "local": _local,
    "cross_wait": _cross_wait,
}
