"""Published cycles of single vector instructions of arch 2201, rebuilt: streams of msKPP, calls of asc-devkit.

msKPP lists cycles of one instruction in a long stream of equal ones without barriers. Where its operands lie is not
said; its rates of two and three sources fit only operands that start alike modulo 512 B, so that is how they lie here,
dst among them (which costs nothing, as dst then meets the sources block for block). All repeat strides are the default
of eight datablocks, of narrow operands, too: only so do half sources meet a float dst in every repeat, as listed.

asc-devkit's bank example repeats one Add on one destination. Its 22 cycles beside the repeats, at every instruction,
say that each waited for the one before; so each is rebuilt alone, at the addresses that the row states.

Sources: tables of Ascend+mskpp; asc-devkit, bank_conflict_ub example and guide to low-latency reductions.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ascendsim.device import Device
from ascendsim.dtypes import FLOAT, UINT8, UINT32, DType
from ascendsim.fidelity.course import Course
from ascendsim.fidelity.lengths import number_in
from ascendsim.fidelity.measured import Measured, Uncovered
from ascendsim.fidelity.rebuild import dtype_of, ub_tensor
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams, set_mask, set_mask_mode
from ascendsim.isa.gather_mask import GatherMaskParams
from ascendsim.isa.move import CopyRepeatParams
from ascendsim.isa.select import SELECT
from ascendsim.memory import LocalTensor
from ascendsim.record import AiCore, tile
from ascendsim.terms import DATABLOCK_BYTES, CmpMode, MaskMode, Pipe, RoundMode, SelMode, ceil_div

FAMILIES = ("mskpp_vector", "ascendc_api")

_ROOM_BYTES = 0xC000
"""From one operand to the next: four fit into UB, and all start alike modulo 512 B."""
_BLOCKS = 8
"""Datablocks of a contiguous repeat of the widest operand."""


def course_of(row: Measured, device: Device) -> Course:
    """Return a measured vector instruction, rebuilt.

    Raises:
        Uncovered: no instruction here does that, or the row does not say enough to rebuild it.
    """
    if row.family not in FAMILIES:
        raise Uncovered(f"family {row.family} is none of single vector instructions")
    return _streamed(row, device) if row.family == "mskpp_vector" else _alone(row, device)


# ---- streams ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Operands:
    """What a streamed instruction works on.

    Attributes:
        source, result: element types.
        repeat: repeats.
    """

    source: DType
    result: DType
    repeat: int

    def at(self, place: int, dtype: DType) -> LocalTensor:
        """Operand number `place`; 0 is dst."""
        return ub_tensor(f"operand{place}", dtype, place * _ROOM_BYTES, _ROOM_BYTES)

    @property
    def dst(self) -> LocalTensor:
        """The destination."""
        return self.at(0, self.result)

    @property
    def src0(self) -> LocalTensor:
        """The first source."""
        return self.at(1, self.source)

    @property
    def src1(self) -> LocalTensor:
        """The second source."""
        return self.at(2, self.source)

    @property
    def bits(self) -> LocalTensor:
        """A source or destination of bits."""
        return self.at(3, UINT8)


_Issue = Callable[[AiCore, _Operands], None]
"""Records one instruction under the mask that is set, which is full."""


def _streamed(row: Measured, device: Device) -> Course:
    if row.op not in _STREAMED:
        raise Uncovered(f"no instruction does {row.op}")
    if row.repeat is None:
        raise Uncovered("repeats not stated")
    operands = _Operands(dtype_of(row.dtype), dtype_of(row.dst_dtype), row.repeat)
    issue = _STREAMED[row.op]

    @tile
    def once(asc: AiCore) -> None:
        issue(asc, operands)

    return Course(once, Pipe.V, device, is_streamed=True)


def _two_sources(name: str) -> _Issue:
    return lambda asc, o: getattr(asc, name)(o.dst, o.src0, o.src1, None, o.repeat, BinaryRepeatParams())


def _one_source(name: str) -> _Issue:
    return lambda asc, o: getattr(asc, name)(o.dst, o.src0, None, o.repeat, UnaryRepeatParams())


def _with_scalar(name: str) -> _Issue:
    return lambda asc, o: getattr(asc, name)(o.dst, o.src0, 1, None, o.repeat, UnaryRepeatParams())


def _groups(name: str) -> _Issue:
    return lambda asc, o: getattr(asc, name)(o.dst, o.src0, o.repeat, None, 1, 1, _BLOCKS)


def _repeats(name: str) -> _Issue:
    return lambda asc, o: getattr(asc, name)(o.dst, o.src0, None, o.repeat, 1, 1, _BLOCKS)


def _cast(asc: AiCore, o: _Operands) -> None:
    asc.cast(o.dst, o.src0, RoundMode.CAST_NONE, None, o.repeat, UnaryRepeatParams())


def _dequantise(asc: AiCore, o: _Operands) -> None:
    """The instruction alone: the scale is set once, before the stream."""
    asc.deq_scale = 0
    _cast(asc, o)


def _select(asc: AiCore, o: _Operands) -> None:
    """The instruction alone: the compare mask is set once, before the stream."""
    strides = (1, 1, 1, _BLOCKS, _BLOCKS, _BLOCKS)
    asc.emit(SELECT, dst=o.dst, src0=o.src0, src1=o.src1, params=(o.repeat, *strides, int(SelMode.VSEL_CMPMASK_SPR)))


def _compact(asc: AiCore, o: _Operands) -> None:
    asc.gather_mask(o.dst, o.src0, 1, False, 0, GatherMaskParams(repeat_times=o.repeat))


def _compact_by_bits(asc: AiCore, o: _Operands) -> None:
    asc.gather_mask(o.dst, o.src0, o.at(3, o.source), False, 0, GatherMaskParams(repeat_times=o.repeat))


_STREAMED: dict[str, _Issue] = {
    **{
        op: _two_sources(name)
        for op, name in (
            ("VADD", "add"), ("VSUB", "sub"), ("VMUL", "mul"), ("VDIV", "div"), ("VMAX", "max"), ("VMIN", "min"),
            ("VAND", "and_"), ("VOR", "or_"), ("VADDRELU", "add_relu"), ("VSUBRELU", "sub_relu"),
            ("VMULCONV", "mul_cast"), ("VMLA", "mul_add_dst"), ("VMADD", "fused_mul_add"),
        )
    },
    **{
        op: _one_source(name)
        for op, name in (
            ("VABS", "abs"), ("VEXP", "exp"), ("VLN", "ln"), ("VSQRT", "sqrt"), ("VRSQRT", "rsqrt"),
            ("VREC", "reciprocal"), ("VRELU", "relu"), ("VNOT", "not_"),
        )
    },
    **{
        op: _with_scalar(name)
        for op, name in (
            ("VADDS", "adds"), ("VMULS", "muls"), ("VMAXS", "maxs"), ("VMINS", "mins"), ("VLRELU", "leaky_relu"),
            ("VSHL", "shift_left"), ("VSHR", "shift_right"), ("VAXPY", "axpy"),
        )
    },
    **{
        op: _groups(name)
        for op, name in (
            ("VCGADD", "block_reduce_sum"), ("VCGMAX", "block_reduce_max"), ("VCGMIN", "block_reduce_min"),
            ("VCPADD", "pair_reduce_sum"),
        )
    },
    **{
        op: _repeats(name)
        for op, name in (("VCADD", "whole_reduce_sum"), ("VCMAX", "whole_reduce_max"), ("VCMIN", "whole_reduce_min"))
    },
    "VCONV": _cast,
    "VCONVDEQ": _dequantise,
    "VSEL": _select,
    "VREDUCE": _compact,
    "VREDUCEV2": _compact_by_bits,
    "VCOPY": lambda asc, o: asc.copy(o.dst, o.src0, None, o.repeat, CopyRepeatParams(1, 1)),
    "VECTORDUP": lambda asc, o: asc.duplicate(o.dst, 1, None, o.repeat),
    "VBRCB": lambda asc, o: asc.brcb(o.dst, o.src0, o.repeat),
    "VGATHER": lambda asc, o: asc.gather(o.dst, o.src0, o.at(2, UINT32), 0, None, o.repeat, _BLOCKS),
    "VGATHERB": lambda asc, o: asc.gatherb(o.dst, o.src0, o.at(2, UINT32), o.repeat),
    "VCMPV": lambda asc, o: asc.compare(o.bits, o.src0, o.src1, CmpMode.EQ, None, o.repeat),
    "VCMPVS": lambda asc, o: asc.compares(o.bits, o.src0, 1, CmpMode.EQ, None, o.repeat),
}  # fmt: skip
"""Instructions by msKPP's names. Those that are missing have no counterpart here: results converted behind AddRelu and
SubRelu, multiply-add with Relu, comparison into the register, merge sort, conversions with scales by element."""


# ---- one call -----------------------------------------------------------------------------------------------------


def _alone(row: Measured, device: Device) -> Course:
    if row.op == "Add" and row.repeat is not None:
        add = partial(_add_at, _Placed.of(row.conditions), dtype_of(row.dtype), row.repeat)
        return Course(add, Pipe.V, device, is_streamed=False)
    if row.op == "reduce_sequence":
        reductions = partial(_reduce_in_turn, _sequence(row.conditions), _floats(row.conditions))
        return Course(reductions, Pipe.V, device, is_streamed=False)
    raise Uncovered(f"{row.op} is not rebuilt")


@dataclass(frozen=True, slots=True)
class _Placed:
    """Start addresses of an Add by role, and strides where the row states them."""

    starts: dict[str, int]
    strides: BinaryRepeatParams

    @classmethod
    def of(cls, conditions: str) -> "_Placed":
        """Read "src0 0x0 src1=dst=0x10100" and "src0 blkStride 0 repStride 1"; what is not stated starts at 0."""
        starts = dict.fromkeys(("dst", "src0", "src1"), 0)
        for roles, address in re.findall(r"((?:src0|src1|dst)(?:=(?:src0|src1|dst))*)[ =](0x[0-9a-f]+)", conditions):
            starts |= dict.fromkeys(roles.split("="), _address(address))
        strides = re.search(r"src0 blkStride (\d+),? repStride (\d+)", conditions)
        if strides is None:
            return cls(starts, BinaryRepeatParams())
        blk, rep = (number_in(number, _MOST_STRIDE, "stride") for number in strides.groups())
        return cls(starts, BinaryRepeatParams(src0_blk_stride=blk, src0_rep_stride=rep))


def _address(text: str) -> int:
    """Read an address in UB."""
    if len(text) > len("0x") + _ADDRESS_DIGITS:
        raise Uncovered(f"address {text[:20]} lies outside UB")
    return int(text, 16)


_ADDRESS_DIGITS = 5
"""Hexadecimal ones: UB ends below 1 MiB on every device."""


def _add_at(placed: _Placed, dtype: DType, repeat: int, asc: AiCore) -> None:
    room = repeat * _BLOCKS * DATABLOCK_BYTES
    dst, src0, src1 = (ub_tensor(role, dtype, placed.starts[role], room) for role in ("dst", "src0", "src1"))
    asc.add(dst, src0, src1, None, repeat, placed.strides)


_MOST_STRIDE = 255
"""Datablocks; strides of BinaryRepeatParams have eight bits."""
_MOST_IN_TURN = 8
"""Reductions in a row: five leave one of any number of floats that UB holds."""
_LEFT_BY = {"ReduceRepeat": FLOAT.per_repeat, "ReduceDataBlock": FLOAT.per_datablock}
"""Elements that become one, by AscendC's names of WholeReduceSum and BlockReduceSum."""


def _sequence(conditions: str) -> list[str]:
    """Read "2x ReduceRepeat" or "ReduceDataBlock then ReduceRepeat"."""
    head = conditions.partition("(")[0]
    found = re.findall(r"(?:(\d+)x )?(Reduce\w+)", head)
    names = [name for times, name in found for _ in range(number_in(times or "1", _MOST_IN_TURN, "reductions"))]
    if not names or "tree" in head or any(name not in _LEFT_BY for name in names):
        raise Uncovered("the order of the reductions is not stated")
    return names


def _floats(conditions: str) -> int:
    stated = re.search(r"(\d+) fp32", conditions)
    if stated is None:
        raise Uncovered("the length is not stated")
    return number_in(stated[1], _ROOM_BYTES // FLOAT.bytes, "length")


def _reduce_in_turn(names: list[str], count: int, asc: AiCore) -> None:
    """Each in counter mode on what the one before left, with a barrier behind it."""
    set_mask_mode(asc, MaskMode.COUNTER)
    for number, name in enumerate(names):
        set_mask(asc, 0, count)
        src, dst = (ub_tensor(f"part{n}", FLOAT, n % 2 * _ROOM_BYTES, _ROOM_BYTES) for n in (number, number + 1))
        if name == "ReduceRepeat":
            asc.whole_reduce_sum(dst, src, None, 1, 1, 1, _BLOCKS)
        else:
            asc.block_reduce_sum(dst, src, 1, None, 1, 1, _BLOCKS)
        asc.pipe_barrier(Pipe.V)
        count = ceil_div(count, _LEFT_BY[name])
