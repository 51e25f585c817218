"""Rules of reductions to extremes, tensor reductions, comparisons, selections and gathers, each broken once."""

from dataclasses import dataclass, replace

from lane_harness import local

from ascendsim.errors import Rule
from ascendsim.isa import (
    compare,
    extreme,
    gather,
    gather_mask,
    rules,
    select,
    tensor_extreme,
    tensor_reduce,
    transpose_square,
)
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.gather import GatherRepeatParams
from ascendsim.isa.gather_mask import GatherMaskParams
from ascendsim.terms import CmpMode, ReduceOrder, SelMode

MODULES = (extreme, tensor_reduce, tensor_extreme, compare, select, gather, gather_mask, transpose_square)

F, G, H = local("f", "float", 0x400, 1024), local("g", "float", 0x800, 1024), local("h", "half", 0xC00, 1024)
R, W = local("r", "float", 0x2000, 256), local("w", "float", 0x2400, 64)
LONG = local("long", "half", 0x8000, 0x14000)
U, OFFSETS = local("u", "uint8_t", 0x3000, 64), local("o", "uint32_t", 0x4000, 1024)
B16, I16, I32 = (local(n, k, 0x5000, 1024) for n, k in (("w16", "uint16_t"), ("i", "int16_t"), ("j", "int32_t")))
BF = local("bf", "bfloat16_t", 0x5000, 1024)
MASK = local("m", "uint8_t", 0x6000, 32)
TOP = local("top", "float", 188416 - 256, 512)
STILL = BinaryRepeatParams(1, 1, 1, 0, 0, 0)
MODE_2, MODE_1, MODE_0 = SelMode.VSEL_TENSOR_TENSOR_MODE, SelMode.VSEL_TENSOR_SCALAR_MODE, SelMode.VSEL_CMPMASK_SPR


@dataclass(frozen=True)
class Case:
    rule: Rule
    broken: object
    messages: tuple
    kept: tuple

    @property
    def positional(self):
        return (self.rule, self.broken, *self.messages)


CASES = []


def case(rule, broken, *messages, kept=()):
    CASES.append(Case(rule, broken, messages, kept if isinstance(kept, tuple) else (kept,)))


# ---- reductions -------------------------------------------------------------------------------------------------

case(
    rules.ALIGN_REDUCE,
    lambda asc, *_: asc.whole_reduce_max(R[1], F, 64, 1, 1, 1, 8),
    "WholeReduceMax dst r: reduce destination at UB address 0x2004 needs 8 B alignment",
    kept=(
        lambda asc, *_: asc.whole_reduce_max(R[2], F, 64, 1, 1, 1, 8),
        lambda asc, *_: asc.whole_reduce_max(R[1], F, 64, 1, 1, 1, 8, ReduceOrder.ORDER_ONLY_VALUE),
        lambda asc, *_: asc.whole_reduce_max(R[1], F, 64, 1, 1, 1, 8, ReduceOrder.ORDER_ONLY_INDEX),
    ),
)
case(
    rules.ALIGN_REDUCE,
    lambda asc, *_: asc.whole_reduce_min(H[1], H[128], 128, 1, 1, 1, 8, ReduceOrder.ORDER_ONLY_INDEX),
    "WholeReduceMin dst h: reduce destination at UB address 0xc02 needs 4 B alignment",
    kept=(
        lambda asc, *_: asc.whole_reduce_min(H[2], H[128], 128, 1, 1, 1, 8, ReduceOrder.ORDER_INDEX_VALUE),
        lambda asc, *_: asc.whole_reduce_min(H[1], H[128], 128, 1, 1, 1, 8, ReduceOrder.ORDER_ONLY_VALUE),
    ),
)
case(
    rules.ALIGN_REDUCE,
    lambda asc, *_: asc.block_reduce_min(R[4], F, 1, 64, 1, 1, 8),
    "BlockReduceMin dst r: reduce destination at UB address 0x2010 needs 32 B alignment",
    kept=lambda asc, *_: asc.block_reduce_min(R[8], F, 1, 64, 1, 1, 8),
)
case(
    rules.ALIGN_REDUCE,
    lambda asc, *_: asc.reduce_max(R[1], F, W, 64, cal_index=True),
    "ReduceMax dst r: reduce destination at UB address 0x2004 needs 8 B alignment",
    kept=lambda asc, *_: asc.reduce_max(R[1], F, W, 64),
)
case(
    rules.OOB_LOCAL,
    lambda asc, *_: asc.whole_reduce_max(R[62], F, 64, 2, 1, 1, 8),
    "WholeReduceMax dst touches 8 B past the end of r (264 B needed, 256 B there)",
    kept=lambda asc, *_: asc.whole_reduce_max(R[60], F, 64, 2, 1, 1, 8),
)
case(
    rules.OOB_LOCAL,
    lambda asc, *_: asc.reduce_min(replace(R, allocation_bytes=4), F, W, 64, cal_index=True),
    "ReduceMin dst touches 4 B past the end of r (8 B needed, 4 B there)",
    kept=lambda asc, *_: asc.reduce_min(replace(R, allocation_bytes=4), F, W, 64),
)
case(
    tensor_reduce.TMP_REDUCE,
    lambda asc, *_: asc.reduce_sum(R, F, W, 64, 17, 0),
    "ReduceSum work: the work buffer has 16 elements, 24 are needed",
    kept=(lambda asc, *_: asc.reduce_sum(R, F, W, 64, 16, 0), lambda asc, *_: asc.reduce_sum(R, F, W[15], 256)),
)
case(
    tensor_reduce.TMP_REDUCE,
    lambda asc, *_: asc.reduce_max(R, F, W, 8, 9, 1),
    "ReduceMax work: the work buffer has 16 elements, 24 are needed",
    kept=lambda asc, *_: asc.reduce_max(R, F, W, 8, 8, 1),
)
case(
    tensor_reduce.TMP_REDUCE,
    lambda asc, *_: asc.reduce_min(R, F, W, 8, 5, 1, cal_index=True),
    "ReduceMin work: the work buffer has 16 elements, 24 are needed",
    kept=lambda asc, *_: asc.reduce_min(R, F, W, 8, 4, 1, cal_index=True),
)
case(
    tensor_extreme.HALF_INDEX,
    lambda asc, *_: asc.reduce_max(
        R.reinterpret_cast("half"), replace(LONG, allocation_bytes=0x21000), F.reinterpret_cast("half"), 1, 2, 4096,
        cal_index=True,
    ),
    "ReduceMax: indices reach 65536, a half holds at most 65535",
    kept=(
        lambda asc, *_: asc.reduce_max(
            R.reinterpret_cast("half"), replace(LONG, allocation_bytes=0x21000), F.reinterpret_cast("half"), 1, 2, 4095,
            cal_index=True,
        ),
        lambda asc, *_: asc.reduce_max(
            R.reinterpret_cast("half"), replace(LONG, allocation_bytes=0x21000), F.reinterpret_cast("half"), 1, 2, 4096
        ),
    ),
)  # fmt: skip
case(
    rules.DTYPE_SAME,
    lambda asc, *_: asc.reduce_sum(H, F, W, 64),
    "ReduceSum operands differ in dtype: dst half, src0 float",
    kept=lambda asc, *_: asc.reduce_sum(R, F, W, 64),
)
case(
    rules.REPEAT_ZERO,
    lambda asc, *_: asc.reduce_max(R, F, W, 64, 0, 8),
    "ReduceMax does nothing: its repeat is 0",
    kept=lambda asc, *_: asc.reduce_max(R, F, W, 64, 1, 8),
)
case(
    rules.REPEAT_ZERO,
    lambda asc, *_: asc.reduce_max(R, F, W, 0),
    "ReduceMax does nothing: its count is 0",
    kept=lambda asc, *_: asc.reduce_max(R, F, W, 1),
)
case(
    rules.REPEAT_ZERO,
    lambda asc, *_: asc.reduce_sum(R, F, W, 0),
    "ReduceSum does nothing: its count is 0",
    kept=lambda asc, *_: asc.reduce_sum(R, F, W, 1),
)
case(
    rules.ALIGN_ELEMENT,
    lambda asc, *_: asc.set_value(replace(F, offset_bytes=2), 0, 1.0),
    "SetValue dst f: UB address 0x402 is 2 B past an element's boundary, wanted a multiple of 4",
    kept=lambda asc, *_: asc.set_value(F, 1, 1.0),
)
case(
    rules.OOB_LOCAL,
    lambda asc, *_: asc.set_value(F, 256, 1.0),
    "SetValue dst touches 4 B past the end of f (1028 B needed, 1024 B there)",
    kept=lambda asc, *_: asc.set_value(F, 255, 1.0),
)

# ---- comparisons ------------------------------------------------------------------------------------------------

case(
    compare.ALIGN_COMPARE,
    lambda asc, *_: asc.compare(U, F, G, CmpMode.LT, 100),
    "Compare count 100: the last 36 elements fill no repeat of 64 and are not compared",
    kept=lambda asc, *_: asc.compare(U, F, G, CmpMode.LT, 128),
)
case(
    compare.ALIGN_COMPARE,
    lambda asc, *_: asc.compares(U, H, 1, CmpMode.LT, 64),
    "Compares count 64: the last 64 elements fill no repeat of 128 and are not compared",
    kept=lambda asc, *_: asc.compares(U, H, 1, CmpMode.LT, 256),
)
case(
    compare.MASK_IGNORED,
    lambda asc, *_: asc.compare(U, F, G, CmpMode.LT, 63, 1),
    "mask state has no effect on Compare: it compares whole repeats, got a mask that leaves lanes out",
    kept=(
        lambda asc, *_: asc.compare(U, F, G, CmpMode.LT, 64, 1),
        lambda asc, *_: asc.compare(U, F, G, CmpMode.LT, None, 1),
        lambda asc, *_: asc.compare(U, F, G, CmpMode.LT, (2**64 - 1, 0), 1),
    ),
)


def counted_compare(asc, *_):
    asc.set_mask_count()
    asc.compares(U, H, 0, CmpMode.GE, 128, 1)
    asc.set_mask_norm()


case(
    compare.MASK_IGNORED,
    counted_compare,
    "mask state has no effect on Compares: it compares whole repeats, got counter mode",
    kept=lambda asc, *_: asc.compares(U, H, 0, CmpMode.GE, 128, 1),
)
case(
    compare.COMPARE_TYPE,
    lambda asc, *_: asc.compare(U, I32, I32, CmpMode.LT, 64),
    "Compare LT does not support src0 of int32_t; it takes half, float, or int32_t with EQ",
    kept=lambda asc, *_: asc.compare(U, I32, I32, CmpMode.EQ, 64),
)
case(
    rules.DTYPE_OP,
    lambda asc, *_: asc.compare(B16, I16, I16, CmpMode.EQ, 128),
    "Compare does not support uint16_t for dst; it takes int8_t, uint8_t",
    "Compare does not support int16_t for src0; it takes half, float, int32_t",
    "Compare does not support int16_t for src1; it takes half, float, int32_t",
    kept=lambda asc, *_: asc.compare(U, H, H, CmpMode.EQ, 128),
)
case(
    rules.DTYPE_SAME,
    lambda asc, *_: asc.compare(U, F, H, CmpMode.EQ, 64),
    "Compare operands differ in dtype: src0 float, src1 half",
    kept=lambda asc, *_: asc.compare(U, F, G, CmpMode.EQ, 64),
)
case(
    rules.OOB_LOCAL,
    lambda asc, *_: asc.compare(U[56], F, G, CmpMode.EQ, 64, 2, BinaryRepeatParams(1, 1, 1, 8, 8, 8)),
    "Compare dst touches 8 B past the end of u (72 B needed, 64 B there)",
    kept=lambda asc, *_: asc.compare(U[32], F, G, CmpMode.EQ, 64, 4, BinaryRepeatParams(1, 1, 1, 8, 8, 8)),
)
case(
    rules.REPEAT_ZERO,
    lambda asc, *_: asc.compare(U, F, G, CmpMode.EQ, 0),
    "Compare does nothing: its count is 0",
    kept=lambda asc, *_: asc.compare(U, F, G, CmpMode.EQ, 64),
)
case(
    rules.RANGE_STRIDE,
    lambda asc, *_: asc.compares(U, F, 0, CmpMode.EQ, 64, 1, UnaryRepeatParams(1, 1, 8, 256)),
    "Compares src0_rep_stride 256 is out of range 0..255",
    kept=lambda asc, *_: asc.compares(U, F, 0, CmpMode.EQ, 64, 1, UnaryRepeatParams(1, 1, 8, 255)),
)

# ---- selections -------------------------------------------------------------------------------------------------

case(
    select.SELECT_MASK,
    lambda asc, *_: asc.select(F, MASK, F, G, MODE_2, 257),
    "Select sel_mask m: the selection mask has 256 bits, 320 are needed",
    kept=(
        lambda asc, *_: asc.select(F, MASK, F, G, MODE_2, 256),
        lambda asc, *_: asc.select(F, MASK, F, G, MODE_0, 257),
    ),
)
case(
    select.SELECT_MASK,
    lambda asc, *_: asc.select(H, replace(MASK, allocation_bytes=16), H, 0, MODE_1, 64, 2),
    "Select sel_mask m: the selection mask has 128 bits, 256 are needed",
    kept=lambda asc, *_: asc.select(H, MASK, H, 0, MODE_1, 64, 2),
)
case(
    select.SELECT_MASK,
    lambda asc, *_: asc.select(H, replace(MASK, allocation_bytes=8), H, H, MODE_0, 64, 2),
    "Select sel_mask m: the selection mask has 64 bits, 128 are needed",
    kept=lambda asc, *_: asc.select(H, replace(MASK, allocation_bytes=16), H, H, MODE_0, 64, 2),
)
case(
    rules.RESERVED_UB,
    lambda asc, *_: asc.select(F, MASK, TOP[8], 0, MODE_1, 57),
    "Select src0 top reaches UB address 0x2e003: the library keeps temporaries from 0x2e000 on",
    kept=(
        lambda asc, *_: asc.select(F, MASK, TOP[8], 0, MODE_1, 56),
        lambda asc, *_: asc.select(F, MASK, TOP, F, MODE_0, 64),
        lambda asc, *_: asc.select(F, MASK, TOP[96], 0, MODE_1, 8),
    ),
)
case(
    rules.DTYPE_OP,
    lambda asc, *_: asc.select(I32, I32, I32, 0, MODE_1, 64),
    "Select does not support int32_t for sel_mask; it takes uint8_t, uint16_t, uint32_t",
    "Select does not support int32_t for dst; it takes half, float",
    "Select does not support int32_t for src0; it takes half, float",
    kept=lambda asc, *_: asc.select(F, OFFSETS, G, 0, MODE_1, 64),
)
case(
    rules.DTYPE_SAME,
    lambda asc, *_: asc.select(F, MASK, G, H, MODE_2, 64),
    "Select operands differ in dtype: dst float, src0 float, src1 half",
    kept=lambda asc, *_: asc.select(F, MASK, G, G, MODE_2, 64),
)
case(
    rules.RANGE_REPEAT,
    lambda asc, *_: asc.select(F, MASK, G, G, MODE_0, 8, 256, BinaryRepeatParams(1, 1, 1, 0, 0, 0)),
    "Select repeat 256 does not fit the 8-bit field (at most 255)",
    kept=lambda asc, *_: asc.select(F, MASK, G, G, MODE_0, 8, 255, BinaryRepeatParams(1, 1, 1, 0, 0, 0)),
)

# ---- gathers ----------------------------------------------------------------------------------------------------

case(
    gather.OFFSET_TYPE,
    lambda asc, *_: asc.gather(F, G, I32, 0, 8),
    "Gather does not support int32_t for src_offset; it takes uint32_t",
    kept=lambda asc, *_: asc.gather(F, G, OFFSETS, 0, 8),
)
case(
    gather.OFFSET_TYPE,
    lambda asc, *_: asc.gather_mask(H, LONG, OFFSETS, False, 0),
    "GatherMask does not support uint32_t for src1_pattern; it takes uint16_t",
    kept=lambda asc, *_: asc.gather_mask(H, LONG, B16, False, 0),
)
case(
    gather.BASE_ALIGN,
    lambda asc, *_: asc.gather(F, G, OFFSETS, 6, 8),
    "Gather src_base_addr 6 is no multiple of the element size 4",
    kept=lambda asc, *_: asc.gather(F, G, OFFSETS, 4, 8),
)
case(
    gather.BASE_RANGE,
    lambda asc, *_: asc.gather(F, G[8], OFFSETS, 992, 8),
    "Gather src_base_addr 992 lies outside the 992 B of g",
    kept=lambda asc, *_: asc.gather(F, G[8], OFFSETS, 988, 8),
)
case(
    gather.OVERLAP_GATHER,
    lambda asc, *_: asc.gather(F, F, OFFSETS, 0, 8),
    "Gather cannot be in place: dst overlaps src0",
    kept=(lambda asc, *_: asc.gather(F, G, OFFSETS, 0, 8), lambda asc, *_: asc.gather(F[64], F, OFFSETS, 0, 8)),
)
case(
    gather.OVERLAP_GATHER,
    lambda asc, *_: asc.gatherb(OFFSETS, B16.reinterpret_cast("uint32_t"), OFFSETS, 1),
    "Gatherb cannot be in place: dst overlaps src1",
    kept=lambda asc, *_: asc.gatherb(OFFSETS[64], B16.reinterpret_cast("uint32_t"), OFFSETS, 1),
)
case(
    gather.BLOCK_STRIDE,
    lambda asc, *_: asc.gatherb(B16, LONG.reinterpret_cast("uint16_t"), OFFSETS, 1, GatherRepeatParams(0, 8)),
    "Gatherb dst_blk_stride 0 is taken as 1",
    kept=lambda asc, *_: asc.gatherb(B16, LONG.reinterpret_cast("uint16_t"), OFFSETS, 1, GatherRepeatParams(1, 8)),
)
case(
    gather_mask.PATTERN_RANGE,
    lambda asc, *_: asc.gather_mask(F, G, 8, False, 0),
    "GatherMask pattern 8 does not exist, fixed patterns are 1..7",
    kept=lambda asc, *_: asc.gather_mask(F, G, 7, False, 0),
)
case(
    gather_mask.PATTERN_RANGE,
    lambda asc, *_: asc.gather_mask(F, G, 0, False, 0),
    "GatherMask pattern 0 does not exist, fixed patterns are 1..7",
    kept=lambda asc, *_: asc.gather_mask(F, G, 1, False, 0),
)
case(
    transpose_square.TRANSPOSE_OVERLAP,
    lambda asc, *_: asc.transpose(H[16], H),
    "Transpose: dst and src overlap without being the same",
    kept=(lambda asc, *_: asc.transpose(H, H), lambda asc, *_: asc.transpose(H[256], H)),
)
case(
    rules.DTYPE_OP,
    lambda asc, *_: asc.gatherb(F, G, OFFSETS, 1),
    "Gatherb does not support float for dst; it takes uint16_t, uint32_t",
    "Gatherb does not support float for src0; it takes uint16_t, uint32_t",
    kept=lambda asc, *_: asc.gatherb(B16, LONG.reinterpret_cast("uint16_t"), OFFSETS, 1),
)
case(
    rules.DTYPE_BF16,
    lambda asc, *_: asc.transpose(BF[256], BF),
    "Transpose dst: arch 2201 has no bfloat16_t arithmetic",
    "Transpose src0: arch 2201 has no bfloat16_t arithmetic",
    kept=lambda asc, *_: asc.transpose(B16[256], B16),
)
case(
    rules.DTYPE_SAME,
    lambda asc, *_: asc.gather(F, H, OFFSETS, 0, 8),
    "Gather operands differ in dtype: dst float, src0 half",
    kept=lambda asc, *_: asc.gather(H, LONG, OFFSETS, 0, 8),
)
case(
    rules.OOB_LOCAL,
    lambda asc, *_: asc.gather(F[200], G, OFFSETS[200], 0, 57),
    "Gather dst touches 4 B past the end of f (1028 B needed, 1024 B there)",
    "Gather src1 touches 4 B past the end of o (1028 B needed, 1024 B there)",
    kept=lambda asc, *_: asc.gather(F[200], G, OFFSETS[200], 0, 56),
)
case(
    rules.OOB_LOCAL,
    lambda asc, *_: asc.gather_mask(F[248], G, 2, True, 18),
    "GatherMask dst touches 4 B past the end of f (1028 B needed, 1024 B there)",
    kept=lambda asc, *_: asc.gather_mask(F[248], G, 2, True, 17),
)
case(
    rules.OOB_LOCAL,
    lambda asc, *_: asc.gather_mask(F, G, 1, True, 8, GatherMaskParams(1, 33, 1, 0)),
    "GatherMask src0 touches 32 B past the end of g (1056 B needed, 1024 B there)",
    kept=lambda asc, *_: asc.gather_mask(F, G, 1, True, 8, GatherMaskParams(1, 32, 1, 0)),
)

# ---- the compare-mask register ----------------------------------------------------------------------------------


def held(asc, *_, between=None):
    """Select with the scalar of SetCmpMask, and something in between."""
    asc.set_cmp_mask(G)
    if between is not None:
        between(asc)
    asc.select(F, MASK, G, 1)


case(
    select.CMPMASK_UNSET,
    lambda asc, *_: asc.select(F, MASK, G, 1),
    "Select without src1 takes its scalar from the compare-mask register, and no SetCmpMask stands before it",
    kept=held,
)
case(
    select.CMPMASK_UNSET,
    lambda asc, *_: held(asc, between=lambda asc: asc.select(H, MASK, H, 0, MODE_1, 8)),
    "Select without src1 takes its scalar from the compare-mask register, and no SetCmpMask stands before it",
    kept=lambda asc, *_: held(asc, between=lambda asc: asc.select(F[64], MASK, G, 1)),
)
case(
    select.ALIGN_CMPMASK,
    lambda asc, *_: asc.set_cmp_mask(F[2]),
    "SetCmpMask src f: UB address 0x408 is 8 B past a 16 B boundary",
    kept=(lambda asc, *_: asc.set_cmp_mask(F[4]), lambda asc, *_: asc.set_cmp_mask(U)),
)
case(
    rules.OOB_LOCAL,
    lambda asc, *_: asc.set_cmp_mask(replace(U, allocation_bytes=8)),
    "SetCmpMask src0 touches 8 B past the end of u (16 B needed, 8 B there)",
    kept=lambda asc, *_: asc.set_cmp_mask(replace(U, allocation_bytes=16)),
)
case(
    select.SELECT_MASK,
    lambda asc, *_: (asc.set_cmp_mask(G), asc.select(F, MASK, G, 5, STILL)),
    "Select sel_mask m: the selection mask has 256 bits, 320 are needed",
    kept=lambda asc, *_: (asc.set_cmp_mask(G), asc.select(F, MASK, G, 4, STILL)),
)

# ---- fields of every call ---------------------------------------------------------------------------------------

WIDE_O, WIDE_U = local("wo", "uint32_t", 0x8000, 0x20000), local("wu", "uint8_t", 0x8000, 0x8000)
HUGE_O = local("wo", "uint32_t", 0x8000, 4 * 65535)
B32 = local("b32", "uint32_t", 0x5000, 1024)
REPEATED = {
    "BlockReduceMax": lambda asc, n: asc.block_reduce_max(R, F, n, 8, 0, 1, 0),
    "BlockReduceMin": lambda asc, n: asc.block_reduce_min(R, F, n, 8, 0, 1, 0),
    "WholeReduceMax": lambda asc, n: asc.whole_reduce_max(R, F, 8, n, 0, 1, 0),
    "WholeReduceMin": lambda asc, n: asc.whole_reduce_min(R, F, 8, n, 0, 1, 0),
    "RepeatReduceSum": lambda asc, n: asc.repeat_reduce_sum(R, F, n, 8, 1, 1, 0, 0),
    "Compare": lambda asc, n: asc.compare(WIDE_U, F, G, CmpMode.LT, 64, n, STILL),
    "Compares": lambda asc, n: asc.compares(WIDE_U, F, 0, CmpMode.LT, 64, n, UnaryRepeatParams(1, 1, 0, 0)),
    "Select": lambda asc, n: asc.select(F, WIDE_U, G, 0, MODE_1, 8, n, STILL),
    "Gather": lambda asc, n: asc.gather(F, G, WIDE_O, 0, 8, n, 0),
    "Gatherb": lambda asc, n: asc.gatherb(WIDE_O, B32, OFFSETS if n < 2 else local("lo", "uint32_t", 0, 8192), n),
}
for api, call in REPEATED.items():
    case(
        rules.RANGE_REPEAT,
        lambda asc, x, y, call=call: call(asc, 256),
        f"{api} repeat 256 does not fit the 8-bit field (at most 255)",
        kept=lambda asc, x, y, call=call: call(asc, 255),
    )
    case(
        rules.REPEAT_ZERO,
        lambda asc, x, y, call=call: call(asc, 0),
        f"{api} does nothing: its repeat is 0",
        kept=lambda asc, x, y, call=call: call(asc, 1),
    )
case(
    rules.RANGE_REPEAT_WIDE,
    lambda asc, *_: asc.gather_mask(WIDE_O, B32, 1, True, 2, GatherMaskParams(1, 65536, 0, 0)),
    "GatherMask repeat 65536 does not fit the 16-bit field (at most 65535)",
    kept=lambda asc, *_: asc.gather_mask(HUGE_O, B32, 1, True, 2, GatherMaskParams(1, 65535, 0, 0)),
)
case(
    rules.RANGE_REPEAT_WIDE,
    lambda asc, *_: asc.gather_mask(B32, WIDE_O, 7, True, 2, GatherMaskParams(1, -1, 0, 0)),
    "GatherMask repeat -1 does not fit the 16-bit field (at most 65535)",
    kept=lambda asc, *_: asc.gather_mask(B32, WIDE_O, 7, True, 2, GatherMaskParams(1, 1, 0, 0)),
)
case(
    rules.REPEAT_ZERO,
    lambda asc, *_: asc.gather_mask(B32, WIDE_O, 7, True, 2, GatherMaskParams(1, 0, 0, 0)),
    "GatherMask does nothing: its repeat is 0",
    kept=lambda asc, *_: asc.gather_mask(B32, WIDE_O, 7, True, 2, GatherMaskParams(1, 1, 0, 0)),
)
LANES = {
    "BlockReduceMax of float": (64, lambda asc, n: asc.block_reduce_max(R, F, 1, n, 1, 1, 8)),
    "WholeReduceMin of half": (128, lambda asc, n: asc.whole_reduce_min(R.reinterpret_cast("half"), H, n, 1, 1, 1, 8)),
    "Compare of float": (64, lambda asc, n: asc.compare(U, F, G, CmpMode.LT, n, 1)),
    "Select of half": (128, lambda asc, n: asc.select(H, MASK, H, 0, MODE_1, n, 1)),
    "Gather of half, whose offsets are wider": (128, lambda asc, n: asc.gather(H, LONG, OFFSETS, 0, n, 1, 8)),
    "ReduceMax of float": (64, lambda asc, n: asc.reduce_max(R, F, W, n, 1, 8)),
}
for text, (lanes, call) in LANES.items():
    case(
        rules.RANGE_MASK,
        lambda asc, x, y, call=call, lanes=lanes: call(asc, lanes + 1),
        f"{text.split(' ')[0]} mask {lanes + 1} exceeds the {lanes} lanes of a repeat",
        kept=lambda asc, x, y, call=call, lanes=lanes: call(asc, lanes),
    )


def stride(api, what, low, high, call):
    """The field `what` of one call(asc, value): low..high fit."""
    for number in (low - 1, high + 1):
        case(
            rules.RANGE_STRIDE,
            lambda asc, x, y, number=number: call(asc, number),
            f"{api} {what} {number} is out of range {low}..{high}",
            kept=tuple(lambda asc, x, y, edge=edge: call(asc, edge) for edge in (low, high)),
        )


stride("WholeReduceMax", "dst_rep_stride", 0, 65535, lambda asc, n: asc.whole_reduce_max(R, F, 1, 1, n, 1, 8))
stride("BlockReduceMin", "src0_blk_stride", 0, 65535, lambda asc, n: asc.block_reduce_min(R, F, 1, 1, 1, n, 8))
stride("ReduceMin", "src0_rep_stride", 0, 65535, lambda asc, n: asc.reduce_min(R, F, W, 1, 1, n))
WIDE_F = WIDE_O.reinterpret_cast("float")
stride("Compare", "src1_blk_stride", 0, 255,
       lambda asc, n: asc.compare(U, WIDE_F, WIDE_F, CmpMode.LT, 64, 1, BinaryRepeatParams(1, 1, n)))  # fmt: skip
stride("Select", "src1_rep_stride", 0, 255,
       lambda asc, n: asc.select(F, MASK, F, G, MODE_2, 1, 1, BinaryRepeatParams(src1_rep_stride=n)))  # fmt: skip
stride("Gather", "dst_rep_stride", 0, 65535, lambda asc, n: asc.gather(F, G, OFFSETS, 0, 1, 1, n))
stride("GatherMask", "src0_blk_stride", 0, 255,
       lambda asc, n: asc.gather_mask(F, G, 1, True, 1, GatherMaskParams(n)))  # fmt: skip
stride("GatherMask", "src0_rep_stride", 0, 65535,
       lambda asc, n: asc.gather_mask(F, G, 1, True, 1, GatherMaskParams(1, 1, n)))  # fmt: skip
