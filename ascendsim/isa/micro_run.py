"""Values of a vector function: its micro-operations on register files, those that do not depend on one another at once.

A register file is an array [registers of one element type, lanes]. Bytes that nobody has written are followed through
the registers, as they are through moves in UB: a result that rests on one counts as unwritten where it is stored. What
a load finds behind the end of its tensor counts the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from ascendsim.dtypes import FLOAT, DType, cast, unpack
from ascendsim.isa.instruction import Array, Context, MicroKind, MicroRow, Operand, Row, Step, in_turn
from ascendsim.isa.micro_table import MOST_LANES, REGISTER_BYTES, WORD_LANES, lane_elements, lanes_of, set_lanes
from ascendsim.isa.micro_walk import levels_of, loaded_lanes, wanted_lanes
from ascendsim.isa.reduce import adjacent_pair_tree
from ascendsim.isa.rounding import larger, rounded_once, smaller
from ascendsim.memory import Lanes
from ascendsim.terms import DATABLOCK_BYTES, RoundMode

Index = slice | Array


@dataclass(slots=True)
class _Registers:
    """The register files of one body."""

    files: dict[int, Array] = field(default_factory=dict)
    """By code of the element type: [registers, lanes]."""
    known: dict[int, Array] = field(default_factory=dict)
    """Which lanes rest on written bytes only; looked at while `tainted`."""
    place: list[int] = field(default_factory=list)
    """Row of each virtual register in its file."""
    tainted: bool = False

    @classmethod
    def of(cls, rows: Sequence[MicroRow]) -> "_Registers":
        """Return files with room for what the rows define."""
        counts: dict[DType, int] = {}
        place = []
        for row in rows:
            for _ in range(row.op.results):
                place.append(counts.get(row.dtype, 0))
                counts[row.dtype] = place[-1] + 1
        lanes = {kind: MOST_LANES if kind.bytes < 4 else WORD_LANES for kind in counts}
        files = {k.code: np.zeros((n, lanes[k]), k.numpy) for k, n in counts.items()}
        return cls(files, {code: np.ones(f.shape, np.bool_) for code, f in files.items()}, place)

    def rows(self, numbers: Sequence[int]) -> Index:
        """Return the place of registers of one type, as a slice where they follow one another evenly."""
        at = [self.place[n] for n in numbers]
        step = at[1] - at[0] if len(at) > 1 else 1
        if step > 0 and all(b - a == step for a, b in pairwise(at)):
            return slice(at[0], at[-1] + 1, step)
        return np.array(at)


def run_body(ctx: Context, row: Row) -> Step:
    """Return the execution of a vector function."""
    assert row.body is not None
    rows = row.body.rows
    if not rows:
        return lambda: None
    registers, wanted = _Registers.of(rows), wanted_lanes(rows)
    maker = _Maker(ctx, registers, wanted)
    if ctx.keeps_log:
        return in_turn([_logged(ctx, number, maker.step([micro])) for number, micro in enumerate(rows)])
    here = next((r.memory for r in rows if r.memory is not None), None)

    def address(operand: Operand) -> int:
        assert here is not None
        apart = ctx.distance(here, operand)
        assert apart is not None
        return apart

    levels = levels_of(rows, wanted, address)
    steps = [maker.step(group) for group in _groups(rows, levels)]

    def run() -> None:
        _start(registers)
        for step in steps:
            step()

    return run


def _logged(ctx: Context, number: int, step: Step) -> Step:
    def run() -> None:
        step()
        ctx.logged(number)

    return run


def _start(registers: _Registers) -> None:
    if registers.tainted:
        registers.tainted = False
        for known in registers.known.values():
            known.fill(True)


def _groups(rows: Sequence[MicroRow], levels: Sequence[int]) -> list[list[MicroRow]]:
    """Rows of one level and one kind together, levels in order."""

    def kind(item: tuple[int, MicroRow]) -> tuple[Any, ...]:
        level, row = item
        tensor = -1 if row.memory is None else row.memory.tensor
        return level, row.op.name, row.dtype.code, row.src_dtype.code, tensor

    ordered = sorted(zip(levels, rows, strict=True), key=kind)
    return [[row for _, row in group] for _, group in groupby(ordered, kind)]


class _Maker:
    """Turns groups of like rows into executions."""

    def __init__(self, ctx: Context, registers: _Registers, wanted: list[int]) -> None:
        self._ctx = ctx
        self._registers = registers
        self._wanted = wanted

    def step(self, group: list[MicroRow]) -> Step:
        """Return the execution of rows of one kind that depend on none of each other."""
        match group[0].op.kind:
            case MicroKind.LOAD:
                return self._load(group)
            case MicroKind.STORE:
                return self._store(group)
            case MicroKind.BARRIER:
                return lambda: None
        return self._compute(group)

    def _load(self, group: list[MicroRow]) -> Step:
        regs, kind = self._registers, group[0].dtype
        parts = lane_elements(group[0].op.name, kind)
        targets: list[Array] = []
        elements: list[Array] = []
        for row in group:
            assert row.memory is not None
            offset = row.memory.offset_bytes // kind.bytes
            for i, (of_lane, lanes) in enumerate(zip(parts, loaded_lanes(row, self._wanted), strict=True)):
                picked = set_lanes(lanes & (1 << len(of_lane)) - 1)
                targets.append(regs.place[row.register + i] * regs.files[kind.code].shape[1] + picked)
                elements.append(offset + of_lane[picked])
        at = np.concatenate(elements)
        if not at.size:
            return lambda: None
        assert group[0].memory is not None
        operand = Operand(group[0].memory.tensor, 0, kind)
        read = self._ctx.loader(operand, Lanes.at(at))
        inside = (at + 1) * kind.bytes <= self._ctx.tensor_bytes(operand)
        is_whole = bool(inside.all())
        place = _flat(np.concatenate(targets))
        file, known = regs.files[kind.code].reshape(-1), regs.known[kind.code].reshape(-1)

        def load() -> None:
            values, flags = read()
            file[place] = values
            if flags is not None or not is_whole:
                regs.tainted = True
                known[place] = inside if flags is None else flags & inside

        return load

    def _store(self, group: list[MicroRow]) -> Step:
        regs, kind = self._registers, group[0].dtype
        parts = lane_elements(group[0].op.name, kind)
        width = regs.files[kind.code].shape[1]
        sources: list[Array] = []
        elements: list[Array] = []
        for row in group:
            assert row.memory is not None
            offset = row.memory.offset_bytes // kind.bytes
            for number, of_lane in zip(row.sources, parts, strict=True):
                picked = set_lanes(row.mask & (1 << len(of_lane)) - 1)
                sources.append(regs.place[number] * width + picked)
                elements.append(offset + of_lane[picked])
        at = np.concatenate(elements)
        if not at.size:
            return lambda: None
        assert group[0].memory is not None
        write = self._ctx.storer(Operand(group[0].memory.tensor, 0, kind), Lanes.at(at))
        place = _flat(np.concatenate(sources))
        file, known = regs.files[kind.code].reshape(-1), regs.known[kind.code].reshape(-1)

        def store() -> None:
            write(file[place], known[place] if regs.tainted else None)

        return store

    def _compute(self, group: list[MicroRow]) -> Step:
        regs, first = self._registers, group[0]
        lanes = lanes_of(first.op, first.dtype, first.src_dtype)
        out = regs.files[first.dtype.code], regs.rows([row.register for row in group])
        count = len(first.sources)
        sources = [regs.rows([row.sources[i] for row in group]) for i in range(count)]
        file, known, result_known = regs.files[first.dtype.code], regs.known, regs.known[first.dtype.code]
        source_file = regs.files.get(first.src_dtype.code)
        mask = _masks(group, lanes)
        compute = _arithmetic(group, mask)
        spread = _KNOWN.get(first.op.name, _all_known)

        def step() -> None:
            values = [source_file[s, :lanes] for s in sources] if source_file is not None else []
            file[out[1], :lanes] = compute(values)
            if regs.tainted and sources:
                flags = [known[first.src_dtype.code][s, :lanes] for s in sources]
                result_known[out[1], :lanes] = spread(flags, mask)

        return step


def _flat(at: Array) -> Index:
    """A slice where the places follow one another."""
    return slice(int(at[0]), int(at[-1]) + 1) if (np.diff(at) == 1).all() else at


def _masks(group: list[MicroRow], lanes: int) -> Array | None:
    """[rows, lanes] of active lanes; None where all are."""
    full = (1 << lanes) - 1
    if all(row.mask & full == full for row in group):
        return None
    masks = np.zeros((len(group), lanes), np.bool_)
    for i, row in enumerate(group):
        masks[i, set_lanes(row.mask & full)] = True
    return masks


def _arithmetic(group: list[MicroRow], mask: Array | None) -> Callable[[list[Array]], Array]:
    """What a group computes: from sources [rows, lanes] to results [rows, lanes], inactive lanes 0."""
    first = group[0]
    if first.op.name in _OF_SCALARS:
        of_scalars = _OF_SCALARS[first.op.name]
        scalars = np.stack([unpack(row.scalar_bits, first.dtype) for row in group])[:, None]
        return lambda values: _zeroed(of_scalars(scalars, *values), mask)
    if first.op.name in ("reg_cast", "reg_cast_b16"):
        to = first.dtype
        return lambda values: _zeroed(_converted(values[0], to), mask)
    if first.op.name in _REDUCTIONS:
        reduce = _REDUCTIONS[first.op.name]
        return lambda values: reduce(values[0], mask)
    combine = _LANEWISE[first.op.name]
    return lambda values: _zeroed(combine(*values), mask)


def _zeroed(values: Array, mask: Array | None) -> Array:
    return values if mask is None else np.where(mask, values, values.dtype.type(0))


def _converted(values: Array, to: DType) -> Array:
    """Widening is exact; what becomes half or bfloat16_t rounds to nearest even and keeps infinities."""
    return values.astype(to.numpy) if to is FLOAT else cast(values, to, RoundMode.CAST_RINT)


def _lane0(src: Array) -> Array:
    return np.broadcast_to(src[:, :1], src.shape)


def _flushed(values: Array) -> Array:
    """Subnormal numbers as zeros of their sign."""
    return np.where(np.abs(values) < np.finfo(values.dtype).tiny, np.copysign(values.dtype.type(0), values), values)


def _flushing(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function as one instruction computes it: subnormal inputs and results are zeros.

    Source: asc-devkit docs, Reg pages of Exp, Sqrt and Div. They allow 1 ulp; ours is the correctly rounded result.
    """
    return lambda *values: _flushed(function(*map(_flushed, values)))


def _exp(values: Array) -> Array:
    return rounded_once(values.reshape(-1), np.exp, Decimal.exp).reshape(values.shape)


_LANEWISE: dict[str, Callable[..., Array]] = {
    "reg_add": lambda a, b: a + b,
    "reg_sub": lambda a, b: a - b,
    "reg_mul": lambda a, b: a * b,
    "reg_div": _flushing(lambda a, b: a / b),
    "reg_exp": _flushing(_exp),
    "reg_sqrt": _flushing(np.sqrt),
    "reg_dup_lane0": _lane0,
}

_OF_SCALARS: dict[str, Callable[..., Array]] = {
    "reg_dup_scalar": lambda scalars: scalars,
    "reg_dup_masked": lambda scalars: scalars,
    "reg_adds": lambda scalars, a: a + scalars,
    "reg_muls": lambda scalars, a: a * scalars,
    "reg_maxs": lambda scalars, a: larger(a, scalars),
    "reg_mins": lambda scalars, a: smaller(a, scalars),
}
"""Of what each row has as its immediate, [rows, 1], and of registers [rows, lanes]."""


def _add(a: Array, b: Array) -> Array:
    return a + b


def _reduce_all(values: Array, mask: Array | None) -> Array:
    """The sum of the active lanes in lane 0; 0 where there are none (asc-devkit docs, ReduceDataBlock page, 950)."""
    out = np.zeros_like(values)
    sums = adjacent_pair_tree(values, mask, _add)
    out[:, 0] = sums if mask is None else np.where(mask.any(axis=-1), sums, 0)
    return out


def _reduce_datablocks(values: Array, mask: Array | None) -> Array:
    """The sum of each datablock's active lanes in lanes 0, 1, ..."""
    datablocks = REGISTER_BYTES // DATABLOCK_BYTES
    shape = (len(values), datablocks, values.shape[1] // datablocks)
    present = None if mask is None else mask.reshape(shape)
    sums = adjacent_pair_tree(values.reshape(shape), present, _add)
    out = np.zeros_like(values)
    out[:, :datablocks] = sums if present is None else np.where(present.any(axis=-1), sums, 0)
    return out


_REDUCTIONS = {"reg_reduce_sum": _reduce_all, "reg_reduce_sum_datablock": _reduce_datablocks}


def _all_known(flags: list[Array], mask: Array | None) -> Array:
    """A lane is known if the lanes it is made of are; a zeroed one is."""
    known: Array = np.logical_and.reduce(flags)
    return known if mask is None else known | ~mask


def _first_known(flags: list[Array], mask: Array | None) -> Array:
    known = np.broadcast_to(flags[0][:, :1], flags[0].shape)
    return known if mask is None else known | ~mask


def _sum_known(flags: list[Array], mask: Array | None) -> Array:
    known = np.ones_like(flags[0])
    known[:, 0] = (flags[0] if mask is None else flags[0] | ~mask).all(axis=1)
    return known


def _block_sums_known(flags: list[Array], mask: Array | None) -> Array:
    known = np.ones_like(flags[0])
    whole = flags[0] if mask is None else flags[0] | ~mask
    datablocks = REGISTER_BYTES // DATABLOCK_BYTES
    blocks = whole.reshape(len(whole), datablocks, -1).all(axis=2)
    known[:, : blocks.shape[1]] = blocks
    return known


_KNOWN: dict[str, Callable[[list[Array], Array | None], Array]] = {
    "reg_dup_lane0": _first_known,
    "reg_reduce_sum": _sum_known,
    "reg_reduce_sum_datablock": _block_sums_known,
}
