"""Cost shapes: from a template's rows and a device's coefficients to the integer columns that engines schedule.

Shapes: `vector` (per repeat, with bank conflicts), `rounds` (a reduction repeated on its own results), `compact` (a
pattern fixed or read), `burst` (UB to UB copy), `transfer` (GM), `scalar`, flags, barrier.
The coefficients live in the device file; none are here.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ascendsim.banks import (
    Banks,
    address_of,
    banks_of,
    cycles_of,
    read_write_cycles,
    repeats_and_passes,
    roles_met,
    sides_of,
    written_while_read,
)
from ascendsim.device import Device, Line, TransferCost, VectorCost
from ascendsim.dtypes import DType
from ascendsim.engine.base import SCHEDULE_COLUMNS, UNITS_PER_BYTE, Ints, Kind, LinkInfo, TemplateSchedule, UnitFlag
from ascendsim.errors import DeviceError
from ascendsim.isa.instruction import Operand, Reason, Row, TensorRef
from ascendsim.isa.lanes import ends_partial, lanes_of, repeats_of
from ascendsim.isa.move import burst_geometry
from ascendsim.isa.unit_flag import HAND_OVER, KEEP, UNIT_BYTES, is_mmad, unit_flag_of, units_of
from ascendsim.memory import GM_ALIGN_BYTES
from ascendsim.program import Program, RowForm, Template
from ascendsim.terms import CUBE_SIDE, DATABLOCK_BYTES, DATABLOCKS_PER_REPEAT, REPEAT_BYTES, Buffer, MaskMode, ceil_div
from ascendsim.vector_timing import time_body

Fields = dict[str, int]
Box = tuple[int, int, int, int]
"""What a transfer touches in GM: first byte modulo GM_ALIGN_BYTES, bursts, bytes of each, pitch."""
_LONG_BURST_BYTES = 512
_COLUMN = {name: at for at, name in enumerate(SCHEDULE_COLUMNS)}


def links_of(device: Device) -> tuple[LinkInfo, ...]:
    """Links of a device, in the order that `link` columns count them."""
    return tuple(
        LinkInfo(name, int(device.link_bytes_per_cycle(name) * UNITS_PER_BYTE)) for name in _link_names(device)
    )


def _link_names(device: Device) -> list[str]:
    return sorted(device.link)


def template_schedules(program: Program, device: Device) -> tuple[TemplateSchedule, ...]:
    """Return the schedule columns of a program's templates on a device.

    GM bases that differ from call to call modulo GM_ALIGN_BYTES count as the middle one of them.

    Raises:
        DeviceError: as `template_schedule`.
    """
    bases = gm_bases_of(program)
    return tuple(template_schedule(t, device, own) for t, own in zip(program.templates, bases, strict=True))


def gm_bases_of(program: Program) -> tuple[tuple[int, ...], ...]:
    """Return for each template the base of each slot modulo GM_ALIGN_BYTES, the middle one of its calls."""
    found = []
    for number, template in enumerate(program.templates):
        places = (program.slots_of(number, slot) for slot in range(template.slots))
        bases = (program.slot_base_bytes[place] % GM_ALIGN_BYTES for place in places)
        found.append(tuple(map(_middle, bases)))
    return tuple(found)


def _middle(numbers: Ints) -> int:
    """The middle one of some numbers, 0 of none; most often all are alike."""
    if not len(numbers):
        return 0
    first = int(numbers[0])
    middle = len(numbers) // 2
    return first if (numbers == first).all() else int(np.partition(numbers, middle)[middle])


def template_schedule(template: Template, device: Device, gm_bases: tuple[int, ...] = ()) -> TemplateSchedule:
    """Return the schedule columns of a template on a device.

    Args:
        template: the template.
        device: the device.
        gm_bases: base of each slot modulo GM_ALIGN_BYTES; aligned ones unless told.

    Raises:
        DeviceError: the device file has no cost for an instruction and dtype that the template uses.
    """
    return template.kept(("schedule", gm_bases), device, lambda: _template_schedule(template, device, gm_bases))


def _template_schedule(template: Template, device: Device, gm_bases: tuple[int, ...]) -> TemplateSchedule:
    cost, banks = _costing(template, device, gm_bases), banks_of(device)
    rows = [np.zeros(0, np.int64)]

    def find(row: Row, form: RowForm) -> Ints:
        places = _bank_places(row, template.tensors, banks) if row.op.cost == "vector" else None
        values = partial(_column_values, row, cost)
        return values() if places is None else form.shape.answer(("schedule", places), device, values)

    for row, form in zip(template.rows, template.forms, strict=True):
        question = ("schedule", _bases_of(row, template.tensors, gm_bases))
        rows.append(form.answer(question, device, partial(find, row, form)))
    table = np.concatenate(rows).reshape(-1, len(SCHEDULE_COLUMNS)).T.copy()
    sets = _UnitSets(template.tensors)
    for at, row in enumerate(template.rows):
        if _unit_flag(row) is not UnitFlag.NONE:
            for name, value in _unit_fields(row, cost(row), sets).items():
                table[_COLUMN[name], at] = value
    return TemplateSchedule(dict(zip(SCHEDULE_COLUMNS, table, strict=True)), sets.all)


def _bank_places(row: Row, tensors: tuple[TensorRef, ...], banks: Banks | None) -> tuple[tuple[int, int], ...] | None:
    """What of a vector row's addresses its cost depends on, None where that is not known in short."""
    if banks is None:
        return None
    touched, places = {role: (first, end) for role, first, end in row.touched}, []
    for role, operand in row.operands:
        first, end = touched.get(role, (0, 0))
        start = address_of(operand, tensors)
        place = banks.place_of(start, start + end - 1) if first == 0 < end else None
        if place is None:
            return None
        places.append(place)
    return tuple(places)


def _column_values(row: Row, cost: Callable[[Row], Fields]) -> Ints:
    """The schedule columns of a row in their order, without those of unit flags."""
    values = np.zeros(len(SCHEDULE_COLUMNS), np.int64)
    for name, value in cost(row).items():
        values[_COLUMN[name]] = value
    values[_COLUMN["pipe"]] = row.pipe
    return values


def row_costs(template: Template, rows: Sequence[Row], device: Device, gm_bases: tuple[int, ...] = ()) -> list[Fields]:
    """Return the schedule columns of some rows of a template that are not 0, without `pipe` and those of unit flags.

    Args:
        template: the template.
        rows: those of its rows.
        device: the device.
        gm_bases: as of `template_schedule`.

    Raises:
        DeviceError: as `template_schedule`.
    """
    return list(map(_costing(template, device, gm_bases), rows))


def _costing(template: Template, device: Device, gm_bases: tuple[int, ...]) -> Callable[[Row], Fields]:
    """What gives the columns of one row of a template."""
    order = {name: i for i, name in enumerate(_link_names(device))}
    tensors = template.tensors
    if any(gm_bases):
        tensors = tuple(t if t.slot < 0 else replace(t, address_bytes=gm_bases[t.slot]) for t in tensors)

    def cost(row: Row) -> Fields:
        return _SHAPES[row.op.cost](row, tensors, device, order)

    return cost


def _bases_of(row: Row, tensors: tuple[TensorRef, ...], gm_bases: tuple[int, ...]) -> tuple[int, ...]:
    """Bases of the slots that a row's cost depends on."""
    if row.op.cost != "transfer":
        return ()
    slots = [tensors[o.tensor].slot for o in (row.dst, row.src0, row.src1, row.src2) if o is not None]
    return tuple([gm_bases[slot] for slot in slots if 0 <= slot < len(gm_bases)])


def _unit_flag(row: Row) -> UnitFlag:
    """What a row does with unit flags; values that do not exist do nothing."""
    field = unit_flag_of(row)
    if field == HAND_OVER:
        return UnitFlag.RAISE if is_mmad(row) else UnitFlag.LOWER
    return UnitFlag.KEEP if field == KEEP and is_mmad(row) else UnitFlag.NONE


class _UnitSets:
    """The sets of units of a template's rows, each once; rows of one shape are looked at once."""

    def __init__(self, tensors: tuple[TensorRef, ...]) -> None:
        self._tensors = tensors
        self._numbers: dict[tuple[int, ...], int] = {}
        self._known: dict[Hashable, tuple[int, ...]] = {}

    @property
    def all(self) -> tuple[tuple[int, ...], ...]:
        """The sets in the order of their numbers."""
        return tuple(self._numbers)

    def of(self, row: Row) -> tuple[int, ...]:
        """Return a row's units."""
        key = (row.op.name, row.params, row.operands)
        if key not in self._known:
            self._known[key] = tuple(units_of(row, self._tensors).tolist())
        return self._known[key]

    def number(self, units: tuple[int, ...]) -> int:
        """Return the number of a set."""
        return self._numbers.setdefault(units, len(self._numbers))


def _unit_fields(row: Row, fields: Fields, sets: _UnitSets) -> Fields:
    """The columns of a row's unit flag; a step is what a row needs for a fractal of 16 x 16, if it is alone.

    Mmad finishes one fractal after another and Fixpipe fetches one after another, in the same order (unit flag page);
    both are taken as even in time. Errs late by up to one row where several Fixpipes share what a Mmad makes, as each
    of them follows it to its end, and by a start-up where a row had to wait.
    """
    units = sets.of(row)
    operand = row.dst if is_mmad(row) else row.src0
    assert operand is not None
    alone = fields["occupancy"]
    if fields["kind"] == Kind.TRANSFER:
        alone = max(alone, ceil_div(fields["bytes"] * UNITS_PER_BYTE, fields["cap_units"]))
    count = max(1, ceil_div(len(units) * UNIT_BYTES, CUBE_SIDE * CUBE_SIDE * operand.dtype.bytes))
    step = ceil_div(alone, count)
    warm = min(fields.get("startup", 0), fields.get("startup_warm", 0))
    return {
        "unit_flag": _unit_flag(row),
        "unit_set": sets.number(units),
        "unit_step": step,
        "unit_lead": warm + alone - step,
    }


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
    occupancy = max(cost.min_issue, _bank_cycles(row, tensors, device, cost) + once_cycles(row, cost)) + partial
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
        read, written = (
            tuple([sides[r].moved(phase * sides[r].pass_stride) for r in roles]) for roles in (reads, writes)
        )
        cycles += len(range(phase, each, phases)) * cycles_of(read, written, repeats, groups, cost.per_repeat)
    if each == 1:
        cycles += read_write_cycles(device) * sum(written_while_read(row, sides, repeats, device, cost).values())
    return math.ceil(cycles)


def once_cycles(row: Row, cost: VectorCost) -> int:
    """Return cycles of a row beside its repeats: what nothing hides, offsets that are read, a last datablock."""
    cycles = cost.overhead
    if cost.per_offsets or cost.partial_datablock:
        touched = {role: end - first for role, first, end in row.touched}
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
    """Charged for the pieces of GM that its bursts touch, on its way and on the link it shares.

    Errs low where a tile's base is less aligned in some calls than in the middle one of all (`template_schedules`).
    """
    count, length, src_pitch, dst_pitch = burst_geometry(row)
    gm_role = next(role for role, o in row.operands if tensors[o.tensor].buffer is Buffer.GM)
    operand = dict(row.operands)[gm_role]
    is_load = gm_role == "src0"
    miss = _transfer_cost(device, row, "_miss" if is_load else "")
    hit = _transfer_cost(device, row, "_hit") if is_load else miss
    first = tensors[operand.tensor].address_bytes + operand.offset_bytes
    box = (first, count, length, src_pitch if is_load else dst_pitch)
    return {
        "kind": Kind.TRANSFER,
        "occupancy": miss.min_cycles,
        "writes": int(not is_load),
        "slot": tensors[operand.tensor].slot,
        "gm_offset": operand.offset_bytes,
        "gm_rows": count,
        "gm_length": length,
        "gm_pitch": box[-1],
        **_path(miss, box, operand.dtype, order, ""),
        **_path(hit, box, operand.dtype, order, "_hit"),
        **({} if is_load else {"link": order[device.l2.memory_link]}),
        **(_past_l2(miss, hit, box, operand, device, order) if tensors[operand.tensor].bypasses_l2 else {}),
    }


def _past_l2(
    miss: TransferCost, hit: TransferCost, box: Box, operand: Operand, device: Device, order: dict[str, int]
) -> Fields:
    """Of a transfer that leaves L2 out, what differs from one that misses: it fetches no whole lines for L2 to keep."""
    first, count, length, pitch = box
    path = _path(miss.model_copy(update={"piece_bytes": hit.piece_bytes, "once": False}), box, operand.dtype, order, "")
    if any(n % miss.piece_bytes for n in (first, length, pitch)):
        path["bytes"] += count * device.l2.bypass_row_bytes.value
    return {"bypass": 1, "bytes": path["bytes"], "link_clash": order[device.l2.same_line_link]}


def _transfer_cost(device: Device, row: Row, suffix: str) -> TransferCost:
    name = f"{row.op.family}{suffix}"
    if name not in device.transfer:
        raise DeviceError(f"device {device.name} has no cost for {row.op.api} (table transfer.{name})")
    return device.transfer[name]


def _path(cost: TransferCost, box: Box, dtype: DType, order: dict[str, int], suffix: str) -> Fields:
    """Bytes of the pieces; start-up, in which all bursts begin, and cap of the line that dominates for this many."""
    aligned = cost.aligned_piece_bytes or cost.piece_bytes
    is_aligned = all(n % aligned == 0 for n in (box[0], *box[2:]))
    total_bytes = pieces_bytes(aligned if is_aligned else cost.piece_bytes, *box, once=cost.once)
    lines = cost.lines
    if cost.elements_per_cycle is not None:
        lines = (*lines, Line(fixed_cycles=0, bytes_per_cycle=cost.elements_per_cycle * dtype.bytes))
    _, count, length, _ = box
    parts = 1 if cost.most_bytes is None else max(1, ceil_div(count * length, cost.most_bytes))
    line = max(lines, key=lambda line: parts * line.fixed_cycles + total_bytes / line.bytes_per_cycle)
    start_cycles = parts * line.fixed_cycles
    exposed = min(1.0, count * length / cost.overlap_bytes)
    begun = math.ceil(cost.burst_cycles * max(0, count)) + cost.odd_burst_cycles * _odd_bursts(box)
    cap = line.bytes_per_cycle
    if cost.row_pieces is not None and total_bytes:
        cap = min(cap, total_bytes / (count * cost.row_pieces.of_row(length) * cost.row_pieces.cycles))
    return {
        f"bytes{suffix}": total_bytes,
        f"startup{suffix}": start_cycles + begun,
        f"startup_warm{suffix}": math.ceil(start_cycles * exposed) + begun,
        f"cap_units{suffix}": int(cap * UNITS_PER_BYTE),
        f"link{suffix}": order[cost.link],
    }


def _odd_bursts(box: Box) -> int:
    """Bursts that are charged for ending within a datablock: each, or one where they are above 512 B."""
    _, count, length, _ = box
    if length <= 0 or count <= 0 or length % DATABLOCK_BYTES == 0:
        return 0
    return count if length <= _LONG_BURST_BYTES else 1


def pieces_bytes(piece_bytes: int, first: int, count: int, length: int, pitch: int, *, once: bool) -> int:
    """Return the bytes of all aligned pieces of GM that bursts touch; those of consecutive bursts once, if so asked.

    Bursts without a gap are one.
    """
    if count <= 0 or length <= 0:
        return 0
    if pitch == length:
        count, length = 1, count * length
    if pitch % piece_bytes == 0:  # every burst lies alike
        each = (first % piece_bytes + length - 1) // piece_bytes + 1
        met = max(0, each - pitch // piece_bytes) if once else 0
        return (count * each - (count - 1) * met) * piece_bytes
    begin = first + np.arange(count) * pitch
    low, high = begin // piece_bytes, (begin + length - 1) // piece_bytes
    pieces = int((high - low + 1).sum())
    if once:
        pieces -= int(np.clip(high[:-1] - low[1:] + 1, 0, (high - low + 1)[1:]).sum())
    return pieces * piece_bytes


def _scalar(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    del tensors, order
    if row.op.family == "work":
        return {"kind": Kind.EXEC, "occupancy": row.param("cycles")}
    if row.op.family == "dump":  # stands in for nothing that runs in production
        return {"kind": Kind.EXEC, "occupancy": 0}
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
    """The steps of a product; behind another one without the start-up, but with a wait for the sums it adds to.

    Charged wherever an Mmad adds to L0C behind another one, whichever sums that one left; errs slow where products of
    several results take turns.
    """
    del tensors, order
    assert row.src0 is not None
    cost = device.cube.get(row.op.family, {}).get(row.src0.dtype.name)
    if cost is None:
        raise DeviceError(f"device {device.name} has no cost for {row.op.api} with {row.src0.dtype} (table cube.Mmad)")
    m, n, k = (max(0, row.param(name)) for name in ("m", "n", "k"))
    warm = cost.accumulate_cycles if row.op.reads_dst else 0
    occupancy = cost.occupancy_cycles(m, n, k)
    return {"kind": Kind.EXEC, "startup": cost.startup, "startup_warm": warm, "occupancy": occupancy}


def _local(row: Row, tensors: tuple[TensorRef, ...], device: Device, order: dict[str, int]) -> Fields:
    """A move between on-chip memories: its own bytes at the path's rate, behind another one without the start-up."""
    del tensors, order
    cost = device.local.get(row.op.family)
    if cost is None:
        raise DeviceError(f"device {device.name} has no cost for {row.op.api} (table local.{row.op.family})")
    count, length, _, _ = burst_geometry(row)
    assert row.dst is not None
    rate = cost.bytes_per_cycle
    if cost.elements_per_cycle is not None:
        rate = min(rate, cost.elements_per_cycle * row.dst.dtype.bytes)
    cycles = cost.fixed_cycles + math.ceil(count * length / rate)
    return {"kind": Kind.EXEC, "startup": cost.startup, "occupancy": max(cost.min_cycles, cycles)}


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
