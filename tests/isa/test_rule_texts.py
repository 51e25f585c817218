"""Every rule that looks at instructions or at whole programs: broken once with its exact words, kept at the boundary.

A case is (rule, kernel that breaks it, its messages, kernels that just keep it). A rule without a case fails.
"""

from dataclasses import dataclass, replace

import cases_arithmetic
import cases_devices
import cases_rules
import cases_select
import examples_transpose
import pytest
from lane_harness import DEVICE, gm_tensors, local

from ascendsim.checks import check_rows, static
from ascendsim.checks.static import UNDEFINED
from ascendsim.device import Device, load_device
from ascendsim.errors import Rule, Severity
from ascendsim.isa import (
    compound,
    convert,
    dequant,
    elementwise,
    forms,
    logic,
    move,
    reduce,
    rules,
    scalar,
    sync,
    transpose,
    vector,
)
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.move import (
    BrcbRepeatParams,
    CopyRepeatParams,
    DataCopyExtParams,
    DataCopyPadExtParams,
    DataCopyParams,
)
from ascendsim.record import record
from ascendsim.terms import HardEvent, Pipe, RoundMode, TPosition

GM = gm_tensors(("x", "half", 64), ("y", "float", 64))
F, G, H = local("f", "float", 0x400, 1024), local("g", "float", 0x800, 1024), local("h", "half", 0xC00, 1024)
R = local("r", "float", 0x2000, 256)
INT8 = local("b", "int8_t", 0x3000, 64)
U8 = local("u", "uint8_t", 0x3000, 64)
BF = local("w", "bfloat16_t", 0x3000, 64)
I16 = local("i", "int16_t", 0x3000, 64)


def findings(kernel, device=DEVICE):
    """What recording and the static rules find in one core's kernel(asc, x, y)."""
    recording = record(kernel, device, 1, GM, ())
    assert recording.complete
    program = recording.program
    return (*recording.findings, *check_rows(program, device), *static.gm_alignment(program, device))


@dataclass(frozen=True)
class Case:
    rule: Rule
    broken: object
    messages: tuple
    kept: tuple
    device: Device = DEVICE


CASES = []


def case(rule, broken, *messages, kept=(), device=DEVICE):
    CASES.append(Case(rule, broken, messages, kept if isinstance(kept, tuple) else (kept,), device))


for rule, broken, messages, kept in examples_transpose.CASES:
    case(rule, broken, *messages, kept=kept)

_NONE = "asc-devkit, {} page, product table"
case(
    rules.API_PRODUCT,
    lambda asc, x, y: (
        asc.copy(F, G, 64, 1, CopyRepeatParams(1, 1, 8, 8)),
        asc.brcb(F, G, 1),
        asc.data_copy_pad(F, y, DataCopyExtParams(1, 8)),
        asc.data_copy_pad(y, F, DataCopyExtParams(1, 8)),
    ),
    f"Copy is no instruction of Ascend310P3 (arch 2002): {_NONE.format('Copy')}",
    "Brcb is no instruction of Ascend310P3 (arch 2002): no vbrcb in the intrinsic list of the platform files; the "
    "library emulates Brcb with the reserved 8 KiB, which is not simulated",
    f"DataCopyPad is no instruction of Ascend310P3 (arch 2002): {_NONE.format('DataCopyPad')}",
    f"DataCopyPad is no instruction of Ascend310P3 (arch 2002): {_NONE.format('DataCopyPad')}",
    kept=lambda asc, x, y: (asc.muls(F, G, 1, 64), asc.data_copy(F, y, 8)),
    device=load_device("Ascend310P3"),
)


for more in (cases_arithmetic, cases_devices, cases_rules):
    CASES.extend(Case(*each) for each in more.CASES)


case(
    rules.BRCB_STRIDE,
    lambda asc, *_: asc.brcb(F, G, 1, BrcbRepeatParams(0, 8)),
    "Brcb dst_blk_stride 0 is taken as 1",
    kept=lambda asc, *_: asc.brcb(F, G, 1, BrcbRepeatParams(1, 8)),
)
case(
    rules.OVERLAP_GATHER,
    lambda asc, *_: asc.brcb(F, F, 1),
    "Brcb cannot be in place: dst overlaps src",
    kept=(lambda asc, *_: asc.brcb(F, F[64], 1), lambda asc, *_: asc.brcb(F[8], F, 1)),
)

# ---- alignment --------------------------------------------------------------------------------------------------

case(
    rules.ALIGN_UB,
    lambda asc, *_: asc.add(F[1], G[9], G[15], 8),
    "Add dst f: UB address 0x404 is 4 B past a 32 B boundary",
    "Add src0 g: UB address 0x824 is 4 B past a 32 B boundary",
    "Add src1 g: UB address 0x83c is 28 B past a 32 B boundary",
    kept=lambda asc, *_: asc.add(F[8], G[16], G[24], 8),
)
case(
    rules.ALIGN_UB,
    lambda asc, *_: asc.data_copy(H[8], H[1], 16),
    "DataCopy dst h: UB address 0xc10 is 16 B past a 32 B boundary",
    "DataCopy src0 h: UB address 0xc02 is 2 B past a 32 B boundary",
    kept=lambda asc, *_: asc.data_copy(H[32], H[16], 16),
)
case(
    rules.ALIGN_UB,
    lambda asc, x, y: asc.data_copy(H[1], x, 16),
    "DataCopy dst h: UB address 0xc02 is 2 B past a 32 B boundary",
    kept=lambda asc, x, y: asc.data_copy(H, x[1], 16),
)
case(
    rules.ALIGN_UB,
    lambda asc, x, y: asc.data_copy_pad(y, F[4], DataCopyExtParams(1, 4)),
    "DataCopyPad src0 f: UB address 0x410 is 16 B past a 32 B boundary",
    kept=lambda asc, x, y: asc.data_copy_pad(y[3], F[8], DataCopyExtParams(1, 4)),
)
case(
    rules.ALIGN_REDUCE,
    lambda asc, *_: asc.block_reduce_sum(R[4], F, 1, 64, 1, 1, 8),
    "BlockReduceSum dst r: reduce destination at UB address 0x2010 needs 32 B alignment",
    kept=lambda asc, *_: asc.block_reduce_sum(R[8], F, 1, 64, 1, 1, 8),
)
case(
    rules.ALIGN_REDUCE,
    lambda asc, *_: asc.block_reduce_sum(H[4], H[128], 1, 128, 1, 1, 8),
    "BlockReduceSum dst h: reduce destination at UB address 0xc08 needs 16 B alignment",
    kept=lambda asc, *_: asc.block_reduce_sum(H[8], H[128], 1, 128, 1, 1, 8),
)
case(
    rules.ALIGN_REDUCE,
    lambda asc, *_: asc.whole_reduce_sum(replace(R, offset_bytes=6), F, 64, 1, 1, 1, 8),
    "WholeReduceSum dst r: reduce destination at UB address 0x2006 needs 4 B alignment",
    kept=(
        lambda asc, *_: asc.whole_reduce_sum(R[1], F, 64, 1, 1, 1, 8),
        lambda asc, *_: asc.whole_reduce_sum(H[1], H[128], 64, 1, 1, 1, 8),
    ),
)
case(
    rules.ALIGN_GM,
    lambda asc, x, y: asc.data_copy(replace(y, offset_bytes=6), F, 8),
    "DataCopy dst y: GM offset 6 is not a multiple of the element size 4",
    kept=lambda asc, x, y: asc.data_copy(y[1], F, 8),
)
case(
    rules.ALIGN_COUNT,
    lambda asc, x, y: asc.data_copy(H, x, 31),
    "DataCopy count 31 is no multiple of 32 B: the hardware silently drops the last 30 B",
    kept=lambda asc, x, y: asc.data_copy(H, x, 32),
)

# ---- bounds -----------------------------------------------------------------------------------------------------

case(
    rules.OOB_LOCAL,
    lambda asc, *_: asc.add(F, F, G, 257),
    "Add dst touches 4 B past the end of f (1028 B needed, 1024 B there)",
    "Add src0 touches 4 B past the end of f (1028 B needed, 1024 B there)",
    "Add src1 touches 4 B past the end of g (1028 B needed, 1024 B there)",
    kept=lambda asc, *_: asc.add(F, F, G, 256),
)
case(
    rules.ALIGN_ELEMENT,
    lambda asc, *_: asc.get_value(H[1].reinterpret_cast("float"), 0),
    f"GetValue src0 h: UB address 0x{H.address_bytes + 2:x} is 2 B past an element's boundary, wanted a multiple of 4",
    kept=lambda asc, *_: asc.get_value(H[2].reinterpret_cast("float"), 0),
)
case(
    rules.OOB_LOCAL_BEFORE,
    lambda asc, *_: asc.duplicate(F[-8], 0, 8),
    "Duplicate dst touches 32 B before the start of f",
    kept=lambda asc, *_: asc.duplicate(F[8][-8], 0, 8),
)
case(
    rules.OOB_LOCAL,
    lambda asc, *_: asc.get_value(F, 256),
    "GetValue src0 touches 4 B past the end of f (1028 B needed, 1024 B there)",
    kept=lambda asc, *_: asc.get_value(F, 255),
)
case(
    rules.OOB_LOCAL,
    lambda asc, *_: asc.brcb(F[200], G, 1),
    "Brcb dst touches 32 B past the end of f (1056 B needed, 1024 B there)",
    kept=lambda asc, *_: asc.brcb(F[192], G, 1),
)
case(
    rules.OOB_LOCAL,
    lambda asc, x, y: asc.data_copy(F[249], y, 8),
    "DataCopy dst touches 4 B past the end of f (1028 B needed, 1024 B there)",
    kept=lambda asc, x, y: asc.data_copy(F[248], y, 8),
)
case(
    rules.OOB_LOCAL,
    lambda asc, x, y: asc.data_copy_pad(H[496], x, DataCopyExtParams(1, 34)),
    "DataCopyPad dst touches 32 B past the end of h (1056 B needed, 1024 B there)",  # dummy bytes count
    kept=lambda asc, x, y: asc.data_copy_pad(H[496], x, DataCopyExtParams(1, 2)),
)
case(
    static.OOB_GM,
    lambda asc, x, y: asc.data_copy(F, y[57], 8),
    "DataCopy src0 touches 4 B outside GM tensor y (256 B, up to byte 260 wanted)",
    kept=lambda asc, x, y: asc.data_copy(F, y[56], 8),
)
case(
    static.OOB_GM_BEFORE,
    lambda asc, x, y: asc.data_copy(x[-8], H, 16),
    "DataCopy dst touches 16 B before the start of GM tensor x",
    kept=lambda asc, x, y: asc.data_copy(x, H, 16),
)
case(
    static.OOB_GM,
    lambda asc, x, y: asc.data_copy_pad(H, x[60], DataCopyExtParams(2, 2, 6)),
    "DataCopyPad src0 touches 2 B outside GM tensor x (128 B, up to byte 130 wanted)",
    kept=lambda asc, x, y: asc.data_copy_pad(H, x[59], DataCopyExtParams(2, 2, 6)),
)

case(
    static.OOB_GM,
    lambda asc, x, y: asc.data_copy_pad(replace(x, dtype=INT8.dtype)[1], INT8, DataCopyExtParams(2, 2, 0, 124)),
    "DataCopyPad dst touches 1 B outside GM tensor x (128 B, up to byte 129 wanted)",
    kept=lambda asc, x, y: asc.data_copy_pad(replace(x, dtype=INT8.dtype), INT8, DataCopyExtParams(2, 2, 0, 124)),
)

# ---- types ------------------------------------------------------------------------------------------------------

case(
    rules.DTYPE_OP,
    lambda asc, *_: asc.add(U8, U8, U8, 8),
    "Add does not support uint8_t for dst; it takes half, float, int16_t, int32_t",
    "Add does not support uint8_t for src0; it takes half, float, int16_t, int32_t",
    "Add does not support uint8_t for src1; it takes half, float, int16_t, int32_t",
    kept=lambda asc, *_: asc.add(I16, I16, I16, 8),
)
case(
    rules.DTYPE_OP,
    lambda asc, *_: asc.whole_reduce_sum(I16[16], I16, 8, 1, 1, 1, 8),
    "WholeReduceSum does not support int16_t for dst; it takes half, float",
    "WholeReduceSum does not support int16_t for src0; it takes half, float",
    kept=lambda asc, *_: asc.whole_reduce_sum(H[128], H, 8, 1, 1, 1, 8),
)
case(
    rules.DTYPE_OP,
    lambda asc, *_: asc.duplicate(INT8, 1, 8),
    "Duplicate does not support int8_t for dst; it takes half, bfloat16_t, float, int16_t, uint16_t, int32_t, uint32_t",
    kept=lambda asc, *_: asc.duplicate(BF, 1, 8),
)
case(
    rules.DTYPE_BF16,
    lambda asc, *_: asc.muls(BF, BF, 1, 8),
    "Muls dst: arch 2201 has no bfloat16_t arithmetic",
    "Muls src0: arch 2201 has no bfloat16_t arithmetic",
    kept=lambda asc, *_: asc.cast(F, BF, RoundMode.CAST_NONE, 8),
)
case(
    rules.DTYPE_SAME,
    lambda asc, *_: asc.add(F, F, H, 8),
    "Add operands differ in dtype: dst float, src0 float, src1 half",
    kept=lambda asc, *_: asc.add(F, F, H.reinterpret_cast(F.dtype), 8),
)
case(
    rules.DTYPE_SAME,
    lambda asc, x, y: asc.data_copy(F, x, 16),
    "DataCopy operands differ in dtype: dst float, src half",
    kept=lambda asc, x, y: asc.data_copy(F.reinterpret_cast(x.dtype), x, 16),
)
UNLIKE = {
    "Adds": lambda asc, d, s: asc.adds(d, s, 1, 8),
    "Muls": lambda asc, d, s: asc.muls(d, s, 1, 8),
    "Copy": lambda asc, d, s: asc.copy(d, s, 8, 1, CopyRepeatParams(1, 1)),
    "Brcb": lambda asc, d, s: asc.brcb(d, s, 1),
    "BlockReduceSum": lambda asc, d, s: asc.block_reduce_sum(d, s, 1, 8, 1, 1, 8),
    "PairReduceSum": lambda asc, d, s: asc.pair_reduce_sum(d, s, 1, 8, 1, 1, 8),
    "WholeReduceSum": lambda asc, d, s: asc.whole_reduce_sum(d, s, 8, 1, 1, 1, 8),
}
for api, call in UNLIKE.items():
    case(
        rules.DTYPE_SAME,
        lambda asc, x, y, call=call: call(asc, F, H),
        f"{api} operands differ in dtype: dst float, src0 half",
        kept=lambda asc, x, y, call=call: call(asc, F, G),
    )
case(
    rules.DTYPE_SAME,
    lambda asc, x, y: asc.data_copy_pad(F, x, DataCopyExtParams(1, 4)),
    "DataCopyPad operands differ in dtype: dst float, src half",
    kept=lambda asc, x, y: asc.data_copy_pad(F, y, DataCopyExtParams(1, 4)),
)
case(
    rules.CAST_PAIR,
    lambda asc, *_: asc.cast(U8, F, RoundMode.CAST_RINT, 8),
    "Cast: no conversion float->uint8_t on this device",
    kept=lambda asc, *_: asc.cast(U8, H, RoundMode.CAST_RINT, 8),
)
case(
    rules.CAST_ROUND,
    lambda asc, *_: asc.cast(F, H, RoundMode.CAST_RINT, 8),
    "Cast half->float: rounding mode CAST_RINT is not allowed, only CAST_NONE",
    kept=lambda asc, *_: asc.cast(F, H, RoundMode.CAST_NONE, 8),
)
case(
    rules.CAST_ROUND,
    lambda asc, *_: asc.cast(BF, F, RoundMode.CAST_ODD, 8),
    "Cast float->bfloat16_t: rounding mode CAST_ODD is not allowed, only CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, "
    "CAST_TRUNC",
    kept=lambda asc, *_: asc.cast(H, F, RoundMode.CAST_ODD, 8),
)

# ---- repeats and masks ------------------------------------------------------------------------------------------

NO_STEP = BinaryRepeatParams(1, 1, 1, 0, 0, 0)
STILL = UnaryRepeatParams(1, 1, 0, 0)
REPEATED = {
    "Add": lambda asc, n: asc.add(F, G, G, 8, n, NO_STEP),
    "Sub": lambda asc, n: asc.sub(F, G, G, 8, n, NO_STEP),
    "Mul": lambda asc, n: asc.mul(F, G, G, 8, n, NO_STEP),
    "Adds": lambda asc, n: asc.adds(F, G, 1, 8, n, STILL),
    "Muls": lambda asc, n: asc.muls(F, G, 1, 8, n, STILL),
    "Cast": lambda asc, n: asc.cast(H, G, RoundMode.CAST_RINT, 8, n, STILL),
    "Copy": lambda asc, n: asc.copy(F, G, 8, n, CopyRepeatParams(1, 1, 0, 0)),
    "Duplicate": lambda asc, n: asc.duplicate(F, 1, 8, n, 1, 0),
    "BlockReduceSum": lambda asc, n: asc.block_reduce_sum(R, G, n, 8, 0, 1, 0),
    "PairReduceSum": lambda asc, n: asc.pair_reduce_sum(R, G, n, 8, 0, 1, 0),
    "WholeReduceSum": lambda asc, n: asc.whole_reduce_sum(R, G, 8, n, 0, 1, 0),
    "Brcb": lambda asc, n: asc.brcb(F, local("long", "float", 0x8000, 8192), n, BrcbRepeatParams(1, 0)),
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
    rules.REPEAT_ZERO,
    lambda asc, *_: asc.add(F, F, F, 0),
    "Add does nothing: its count is 0",
    kept=lambda asc, *_: asc.add(F, F, F, 1),
)


def counted(asc, repeat):
    asc.set_mask_count()
    asc.add(F, F, F, 8, repeat)
    asc.set_mask_norm()


case(
    rules.RANGE_REPEAT,
    lambda asc, *_: counted(asc, 256),
    "Add repeat 256 does not fit the 8-bit field (at most 255)",
    kept=lambda asc, *_: counted(asc, 0),  # counter mode ignores the field
)

LANES = {
    "Add of float": (64, lambda asc, n: asc.add(F, F, F, n, 1)),
    "Add of half": (128, lambda asc, n: asc.add(H, H, H, n, 1)),
    "Cast by the wider type": (64, lambda asc, n: asc.cast(H, F, RoundMode.CAST_RINT, n, 1)),
    "Cast by the wider type, source": (64, lambda asc, n: asc.cast(F, H, RoundMode.CAST_NONE, n, 1)),
    "BlockReduceSum of half": (128, lambda asc, n: asc.block_reduce_sum(R.reinterpret_cast(H.dtype), H, 1, n, 1, 1, 8)),
    "WholeReduceSum of float": (64, lambda asc, n: asc.whole_reduce_sum(R, F, n, 1, 1, 1, 8)),
    "Duplicate of half": (128, lambda asc, n: asc.duplicate(H, 1, n, 1)),
    "Copy of float": (64, lambda asc, n: asc.copy(F, G, n, 1, CopyRepeatParams(1, 1, 8, 8))),
}
for text, (lanes, call) in LANES.items():
    for number in (lanes + 1, -1):
        case(
            rules.RANGE_MASK,
            lambda asc, x, y, call=call, number=number: call(asc, number),
            f"{text.split(' ')[0]} mask {number} exceeds the {lanes} lanes of a repeat",
            kept=(
                lambda asc, x, y, call=call, lanes=lanes: call(asc, lanes),
                lambda asc, x, y, call=call: call(asc, 0),
            ),
        )

# ---- strides ----------------------------------------------------------------------------------------------------

BINARY = (
    "dst_blk_stride",
    "src0_blk_stride",
    "src1_blk_stride",
    "dst_rep_stride",
    "src0_rep_stride",
    "src1_rep_stride",
)
UNARY = {"dst_blk_stride": "dst_blk_stride", "src_blk_stride": "src0_blk_stride", "dst_rep_stride": "dst_rep_stride",
         "src_rep_stride": "src0_rep_stride"}  # fmt: skip


def stride(api, what, low, high, call):
    """The field `what` of one call(asc, value): low..high fit. One lane and one repeat, so that nothing is far away."""
    for number in (low - 1, high + 1):
        case(
            rules.RANGE_STRIDE,
            lambda asc, x, y, number=number: call(asc, number),
            f"{api} {what} {number} is out of range {low}..{high}",
            kept=tuple(lambda asc, x, y, edge=edge: call(asc, edge) for edge in (low, high)),
        )


for field in BINARY:
    stride(
        "Mul", field, int(field == "dst_blk_stride"), 255,
        lambda asc, n, field=field: asc.mul(F, G, G, 1, 1, BinaryRepeatParams(**{field: n})),
    )  # fmt: skip
for field, what in UNARY.items():
    low, high = int(field == "dst_blk_stride"), 65535 if "blk" in field else 255
    stride(
        "Adds", what, low, high,
        lambda asc, n, field=field: asc.adds(F, G, 1, 1, 1, UnaryRepeatParams(**{field: n})),
    )  # fmt: skip
    stride(
        "Cast", what, low, high,
        lambda asc, n, field=field: asc.cast(H, F, RoundMode.CAST_RINT, 1, 1, UnaryRepeatParams(**{field: n})),
    )  # fmt: skip
    stride(
        "Copy", what, low, 65535 if "blk" in field else 4095,
        lambda asc, n, field=field: asc.copy(F, G, 1, 1, replace(CopyRepeatParams(1, 1, 8, 8), **{field: n})),
    )  # fmt: skip
for position, what in enumerate(("dst_rep_stride", "src0_blk_stride", "src0_rep_stride")):
    stride(
        "WholeReduceSum", what, 0, 65535,
        lambda asc, n, p=position: asc.whole_reduce_sum(R, F, 1, 1, *(n if i == p else 1 for i in range(3))),
    )  # fmt: skip
    stride(
        "BlockReduceSum", what, 0, 65535,
        lambda asc, n, p=position: asc.block_reduce_sum(R, F, 1, 1, *(n if i == p else 1 for i in range(3))),
    )  # fmt: skip
stride("Duplicate", "dst_blk_stride", 1, 65535, lambda asc, n: asc.duplicate(F, 1, 1, 1, n, 8))
stride("Duplicate", "dst_rep_stride", 0, 255, lambda asc, n: asc.duplicate(F, 1, 1, 1, 1, n))
stride("Brcb", "dst_rep_stride", 0, 65535, lambda asc, n: asc.brcb(F, G, 1, BrcbRepeatParams(1, n)))
stride("Brcb", "dst_blk_stride", 0, 65535, lambda asc, n: asc.brcb(F, G, 1, BrcbRepeatParams(n, 8)))

# ---- copies -----------------------------------------------------------------------------------------------------


def burst_field(field, high):
    """A field of DataCopy's bursts inside UB; what lies out of bounds then is not asked here."""
    for number in (-1, high + 1):
        case(
            rules.RANGE_COPY,
            lambda asc, x, y, n=number: asc.data_copy(F, G, replace(DataCopyParams(1, 1), **{field: n})),
            f"DataCopy {field} {number} is out of range 0..{high}",
            kept=lambda asc, x, y: asc.data_copy(F, G, replace(DataCopyParams(1, 1), **{field: high})),
        )


burst_field("block_count", 4095)
burst_field("block_len", 65535)
burst_field("src_gap", 65535)
burst_field("dst_gap", 65535)


def pad_field(field, high):
    """A field of DataCopyPad, both ways."""
    for number in (-1, high + 1):
        for name in ("in", "out"):

            def call(asc, x, y, value, name=name):
                params = replace(DataCopyExtParams(1, 1), **{field: value})
                dst, src = (INT8, replace(x, dtype=INT8.dtype)) if name == "in" else (
                    replace(x, dtype=INT8.dtype), INT8,
                )  # fmt: skip
                asc.data_copy_pad(dst, src, params)

            case(
                rules.RANGE_COPY,
                lambda asc, x, y, n=number, call=call: call(asc, x, y, n),
                f"DataCopyPad {field} {number} is out of range 0..{high}",
                kept=lambda asc, x, y, call=call: call(asc, x, y, high),
            )


pad_field("block_count", 4095)
pad_field("block_len", 2097151)
pad_field("src_stride", 2**32 - 1)
pad_field("dst_stride", 2**32 - 1)
for empty in ("block_count", "block_len"):
    case(
        rules.COPY_ZERO,
        lambda asc, x, y, field=empty: asc.data_copy(F, G, replace(DataCopyParams(1, 1), **{field: 0})),
        f"DataCopy copies nothing: {empty} is 0",
        kept=lambda asc, x, y: asc.data_copy(F, G, DataCopyParams(1, 1)),
    )
    case(
        rules.COPY_ZERO,
        lambda asc, x, y, field=empty: asc.data_copy_pad(x, H, replace(DataCopyExtParams(1, 2), **{field: 0})),
        f"DataCopyPad copies nothing: {empty} is 0",
        kept=lambda asc, x, y: asc.data_copy_pad(x, H, DataCopyExtParams(1, 2)),
    )
case(
    rules.COPY_ZERO,
    lambda asc, x, y: asc.data_copy(H, x, 0),
    "DataCopy copies nothing: block_len is 0",
    kept=lambda asc, x, y: asc.data_copy(H, x, 16),
)
case(
    rules.RANGE_PAD,
    lambda asc, x, y: asc.data_copy_pad(H, x, DataCopyExtParams(1, 3)),
    "DataCopyPad block_len 3: must be a multiple of the element size 2",
    kept=lambda asc, x, y: asc.data_copy_pad(H, x, DataCopyExtParams(1, 4)),
)
case(
    rules.RANGE_PAD,
    lambda asc, x, y: asc.data_copy_pad(y, F, DataCopyExtParams(1, 6)),
    "DataCopyPad block_len 6: must be a multiple of the element size 4",
    kept=lambda asc, x, y: asc.data_copy_pad(y, F, DataCopyExtParams(1, 4)),
)
for side in ("left_padding", "right_padding"):
    case(
        rules.RANGE_PAD,
        lambda asc, x, y, side=side: asc.data_copy_pad(
            H, x, DataCopyExtParams(1, 2), DataCopyPadExtParams(is_pad=True, **{side: 17})
        ),
        f"DataCopyPad {side} 17: at most 16 elements (32 B)",
        kept=lambda asc, x, y, side=side: asc.data_copy_pad(
            H, x, DataCopyExtParams(1, 2), DataCopyPadExtParams(is_pad=True, **{side: 16})
        ),
    )
    case(
        rules.RANGE_PAD,
        lambda asc, x, y, side=side: asc.data_copy_pad(
            F, y, DataCopyExtParams(1, 4), DataCopyPadExtParams(is_pad=True, **{side: 9})
        ),
        f"DataCopyPad {side} 9: at most 8 elements (32 B)",
        kept=lambda asc, x, y, side=side: asc.data_copy_pad(
            F, y, DataCopyExtParams(1, 4), DataCopyPadExtParams(is_pad=True, **{side: 8})
        ),
    )

# ---- flags ------------------------------------------------------------------------------------------------------

for number in (8, -1):
    case(
        sync.SYNC_ID,
        lambda asc, x, y, n=number: (asc.set_flag(HardEvent.MTE2_V, n), asc.wait_flag(HardEvent.MTE2_V, n)),
        f"SetFlag MTE2_V: event id {number} does not exist, ids are 0..7",
        f"WaitFlag MTE2_V: event id {number} does not exist, ids are 0..7",
        kept=tuple(
            lambda asc, x, y, n=n: (asc.set_flag(HardEvent.MTE2_V, n), asc.wait_flag(HardEvent.MTE2_V, n))
            for n in (0, 7)
        ),
    )
case(
    sync.SYNC_BARRIER_S,
    lambda asc, x, y: asc.pipe_barrier(Pipe.S),
    "PipeBarrier<PIPE_S> is not allowed",
    kept=tuple(lambda asc, x, y, p=p: asc.pipe_barrier(p) for p in (Pipe.V, Pipe.MTE2, Pipe.MTE3, Pipe.ALL)),
)

# ---- what UB has to hold -----------------------------------------------------------------------------------------


def uses(length):
    """A kernel that touches the first and owns all of `length` bytes of UB."""
    return lambda asc, x, y: asc.duplicate(local("all", "half", 0, length), 0, 8)


case(
    static.CAP_UB_SAFE,
    uses(188161),
    "UB use 188161 B leaves less than the 8 KiB that some APIs reserve (safe up to 188160 B)",
    kept=uses(188160),
)
case(
    sync.SYNC_PAIR,
    lambda asc, *_: asc.set_flag(HardEvent.MTE1_M, 0),
    "SetFlag MTE1_M: AIV has no such pair; the library drops the call without a word",
    kept=lambda asc, *_: asc.set_flag(HardEvent.MTE2_V, 0),
)
case(
    sync.XSYNC_MODE,
    lambda asc, *_: asc.cross_core_set_flag(3, Pipe.MTE3, 0),
    "CrossCoreSetFlag: mode 3 is not possible, modes are 0, 1 and 2",
)
case(
    sync.XSYNC_MODE,
    lambda asc, *_: asc.cross_core_set_flag(2, Pipe.ALL, 0),
    "CrossCoreSetFlag: pipe PIPE_ALL is not possible, the flag rises when one pipe has finished",
)
case(
    sync.XSYNC_MODE,
    lambda asc, *_: asc.cross_core_wait_flag(2, Pipe.MTE2, 0),
    "CrossCoreWaitFlag: kernel type AIV_ONLY is not possible, it takes a mixed kernel",
)
case(
    sync.XSYNC_ID,
    lambda asc, *_: asc.cross_core_wait_flag(0, Pipe.V, 16),
    "CrossCoreWaitFlag: flag id 16 is no flag; kernels may use 0..15",
    kept=lambda asc, *_: asc.cross_core_wait_flag(0, Pipe.V, 15),
)
case(
    static.CAP_UB,
    uses(196353),
    "UB use 196353 B exceeds the 196352 B that Ascend C sees: explicit tensors",
    kept=uses(196352),
)
case(
    static.CAP_UB_HW,
    uses(196609),
    "UB address 196609 is past the end of UB (196608 B): explicit tensors",
    kept=uses(196608),
)


for one in cases_select.CASES:
    case(*one.positional, kept=one.kept)


@pytest.mark.parametrize("c", CASES, ids=[f"{c.rule.code}: {c.messages[0]}" for c in CASES])
def test_a_broken_rule_is_found_with_its_words_and_the_boundary_is_not(c):
    found = [f for f in findings(c.broken, c.device) if f.message in c.messages or f.code == c.rule.code]
    assert tuple(f.message for f in found) == c.messages
    assert {f.code for f in found} == {c.rule.code}
    assert {f.source for f in found} == {c.rule.source}
    assert all(f.hint for f in found)
    for kept in c.kept:
        again = [f.message for f in findings(kept, c.device) if f.code == c.rule.code]
        assert again == []


@pytest.mark.parametrize("c", CASES, ids=[f"{c.rule.code}: {c.messages[0]}" for c in CASES])
def test_a_check_finds_only_what_it_declares(c):
    for template in record(c.broken, c.device, 1, GM, ()).program.templates:
        for row in template.rows:
            for check in row.op.checks:
                found = {(f.code, f.source, f.level) for f in check(row, template.tensors, c.device, "")}
                assert found <= {(rule.code, rule.source, rule.level) for rule in check.rules}


# A kernel of both kinds of cores breaks it: tests/checks/codes_cube.py.
MIXED_KERNELS_BREAK_IT = {id(static.CAP_L1_MIXED)}


@pytest.mark.parametrize(
    "module",
    [
        *(rules, convert, sync, static, forms, move, reduce, scalar, transpose, vector, elementwise, compound, logic),
        dequant,
        *cases_select.MODULES,
    ],
)
def test_every_rule_has_a_case(module):
    declared = {id(r): r for r in vars(module).values() if isinstance(r, Rule)}
    covered = {id(c.rule) for c in CASES} | MIXED_KERNELS_BREAK_IT
    assert [r.code for i, r in declared.items() if i not in covered] == []


def test_capacity_warnings_become_errors_at_the_visible_size():
    def codes(length):
        return [f.code for f in findings(uses(length))]

    assert codes(188160) == []
    assert codes(188161) == codes(196352) == ["W-CAP-UB-SAFE"]
    assert codes(196353) == codes(196608) == ["E-CAP-UB"]
    assert codes(196609) == ["E-CAP-UB-HW", "E-CAP-UB"]


def test_capacity_names_the_buffers():
    def kernel(asc, x, y):
        pipe = asc.t_pipe()
        que, buf = asc.t_que(TPosition.VECIN, 1, "in"), asc.t_buf(TPosition.VECCALC, "tmp")
        pipe.init_buffer(que, 2, 90000)
        pipe.init_buffer(buf, 1, 16401)
        asc.duplicate(buf.get("half"), 0, 8)

    (found,) = findings(kernel)
    assert found.message == (
        "UB use 196448 B exceeds the 196352 B that Ascend C sees: in 2 x 90016 B, tmp 1 x 16416 B"
    )  # fmt: skip


def test_findings_say_where_and_severity():
    def kernel(asc, x, y):
        asc.data_copy(F, y[57], 8)

    line = kernel.__code__.co_firstlineno + 1
    (found,) = (f for f in findings(kernel) if f.code == "E-OOB-GM")
    assert found.where == f"DataCopy (test_rule_texts.py:{line}) core 0"
    assert (found.operand, found.got, found.wanted, found.count) == ("src0", "260", "256", 1)
    assert found.severity is Severity.ERROR
    assert str(found) == (
        f"E-OOB-GM DataCopy (test_rule_texts.py:{line}) core 0: DataCopy src0 touches 4 B outside GM tensor y "
        "(256 B, up to byte 260 wanted) (to mend it: check the block offset and the tail)"
    )


def test_alignment_hints_count_in_elements_of_the_operand():
    hints = {f.hint for f in findings(lambda asc, *_: asc.cast(F[1], H[1], RoundMode.CAST_NONE, 8))}
    assert hints == {
        f"start operands on whole datablocks (32 B): use offsets that are multiples of {n} elements of {t}"
        for n, t in ((8, "float"), (16, "half"))
    }


def test_one_line_that_breaks_a_rule_often_is_reported_once():
    def kernel(asc, x, y):
        for _ in range(5):
            asc.add(F[1], F, F, 8)
        asc.add(F[1], F, F, 8)

    found = [f for f in findings(kernel) if f.code == "E-ALIGN-UB"]
    first = kernel.__code__.co_firstlineno
    assert [f.where for f in found] == [f"Add (test_rule_texts.py:{first + n})" for n in (2, 3)]


def test_a_gm_bound_is_checked_on_every_core():
    def kernel(asc, x, y):
        asc.data_copy(F, y[32 * asc.get_block_idx()], 32)

    program = record(kernel, DEVICE, 3, GM, ()).program
    found = [f for f in check_rows(program, DEVICE) if f.code == "E-OOB-GM"]
    assert [f.where.split(" ")[-2:] for f in found] == [["core", "2"]]


def test_what_has_no_meaning_when_executed_is_named():
    assert UNDEFINED == (
        "E-CAP-UB-HW", "E-OOB-GM", "E-ALIGN-UB", "E-ALIGN-REDUCE", "E-DTYPE-OP", "E-CAST-PAIR", "E-OOB-LOCAL",
        "E-RANGE-MASK", "E-SYNC-ID", "E-DTYPE-BF16", "E-API-PRODUCT", "E-SELMASK", "E-TMP-REDUCE", "E-BRCB-SRC",
        "E-ALIGN-FRACTAL", "E-CORE-ROLE", "E-SYNC-PAIR", "E-XSYNC-MODE", "E-XSYNC-ID", "E-MMAD-DIM", "E-MMAD-DTYPE",
        "E-FIX-QUANT", "E-PATH",
    )  # fmt: skip


# ---- values that fit no field -----------------------------------------------------------------------------------


@pytest.mark.parametrize("api", list(REPEATED))
def test_a_negative_repeat_is_out_of_range(api):
    messages = [f.message for f in findings(lambda asc, x, y: REPEATED[api](asc, -1)) if f.code == "E-RANGE-REPEAT"]
    assert messages == [f"{api} repeat -1 does not fit the 8-bit field (at most 255)"]


def test_negative_padding_is_out_of_range():
    def kernel(asc, x, y):
        asc.data_copy_pad(H, x, DataCopyExtParams(1, 8), DataCopyPadExtParams(is_pad=True, left_padding=-1))

    assert [f.code for f in findings(kernel)] == ["E-RANGE-PAD"]


def test_data_copy_pad_between_types_is_refused():
    assert [f.code for f in findings(lambda asc, x, y: asc.data_copy_pad(F, x, DataCopyExtParams(1, 8)))] == [
        "E-DTYPE-OP"
    ]


def test_a_copy_of_nothing_is_a_warning():
    """Checks page, E-COPY-ZERO: documented no-op, the vendor check only warns: report as warning."""
    (found,) = findings(lambda asc, x, y: asc.data_copy(F, G, DataCopyParams(0, 1)))
    assert found.severity is Severity.WARNING


def test_brcb_takes_block_stride_zero_as_one_with_a_warning():
    """Instructions page, section 6: dstBlkStride 0 treated as 1 with a warning."""
    found = findings(lambda asc, x, y: asc.brcb(F, G, 1, BrcbRepeatParams(0, 8)))
    assert [f.severity for f in found] == [Severity.WARNING]


def test_brcb_in_place_is_refused():
    """Instructions page, section 6: source and destination not the same address; checks page: E-OVERLAP-GATHER."""
    assert [f.code for f in findings(lambda asc, x, y: asc.brcb(F, F, 1))] == ["E-OVERLAP-GATHER"]


def test_brcb_between_its_own_datablocks_is_taken():
    """Destination datablocks 0, 2, 4, ...; the source lies in datablock 1, which is not written."""
    assert findings(lambda asc, x, y: asc.brcb(F, F[8], 1, BrcbRepeatParams(2, 16))) == ()
