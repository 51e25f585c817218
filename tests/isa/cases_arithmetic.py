"""Rules of the further element-wise instructions, each broken once and kept at its boundary; see test_rule_texts."""

from dataclasses import replace

from lane_harness import local

from ascendsim.isa import rules
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.move import DataCopyExtParams, DataCopyPadExtParams
from ascendsim.terms import RoundMode

F, G, H = local("f", "float", 0x400, 1024), local("g", "float", 0x800, 1024), local("h", "half", 0xC00, 1024)
I16, U16 = local("i", "int16_t", 0x1000, 1024), local("u", "uint16_t", 0x1400, 1024)
I32, U32 = local("i", "int32_t", 0x1800, 1024), local("u", "uint32_t", 0x1C00, 1024)
I8, BF = local("b", "int8_t", 0x2000, 1024), local("w", "bfloat16_t", 0x2400, 1024)
STILL, NO_STEP = UnaryRepeatParams(1, 1, 0, 0), BinaryRepeatParams(1, 1, 1, 0, 0, 0)

CASES = []
"""(rule, kernel that breaks it, its messages, kernels that just keep it); kernels take (asc, x, y)."""


def case(rule, broken, *messages, kept):
    kept = kept if isinstance(kept, tuple) else (kept,)
    CASES.append((rule, plain(broken), messages, tuple(map(plain, kept))))


def plain(kernel):
    return lambda asc, x, y: kernel(asc)


# ---- types ------------------------------------------------------------------------------------------------------

TAKEN = {
    "Max": ("half, float, int16_t, int32_t", lambda asc, t: asc.max(t, t, t, 8)),
    "Min": ("half, float, int16_t, int32_t", lambda asc, t: asc.min(t, t, t, 8)),
    "Div": ("half, float", lambda asc, t: asc.div(t, t, t, 8)),
    "AddRelu": ("half, float, int16_t", lambda asc, t: asc.add_relu(t, t, t, 8)),
    "SubRelu": ("half, float, int16_t", lambda asc, t: asc.sub_relu(t, t, t, 8)),
    "And": ("int16_t, uint16_t", lambda asc, t: asc.and_(t, t, t, 8)),
    "Or": ("int16_t, uint16_t", lambda asc, t: asc.or_(t, t, t, 8)),
    "Maxs": ("half, float, int16_t, int32_t", lambda asc, t: asc.maxs(t, t, 1, 8)),
    "Mins": ("half, float, int16_t, int32_t", lambda asc, t: asc.mins(t, t, 1, 8)),
    "LeakyRelu": ("half, float", lambda asc, t: asc.leaky_relu(t, t, 1, 8)),
    "ShiftLeft": ("int16_t, uint16_t, int32_t, uint32_t", lambda asc, t: asc.shift_left(t, t, 1, 8)),
    "ShiftRight": ("int16_t, uint16_t, int32_t, uint32_t", lambda asc, t: asc.shift_right(t, t, 1, 8)),
    "Exp": ("half, float", lambda asc, t: asc.exp(t, t, 8)),
    "Ln": ("half, float", lambda asc, t: asc.ln(t, t, 8)),
    "Sqrt": ("half, float", lambda asc, t: asc.sqrt(t, t, 8)),
    "Rsqrt": ("half, float", lambda asc, t: asc.rsqrt(t, t, 8)),
    "Reciprocal": ("half, float", lambda asc, t: asc.reciprocal(t, t, 8)),
    "Abs": ("half, float", lambda asc, t: asc.abs(t, t, 8)),
    "Relu": ("half, float, int32_t", lambda asc, t: asc.relu(t, t, 8)),
    "Not": ("int16_t, uint16_t", lambda asc, t: asc.not_(t, t, 8)),
}
TENSORS = {t.dtype.name: t for t in (F, H, I16, U16, I32, U32)}
for api, (wanted, call) in TAKEN.items():
    roles = ("dst", "src0", "src1") if call.__code__.co_names[0] in (
        "max", "min", "div", "add_relu", "sub_relu", "and_", "or_"
    ) else ("dst", "src0")  # fmt: skip
    for name, tensor in {**TENSORS, "int8_t": I8}.items():
        if name not in wanted.split(", "):
            case(
                rules.DTYPE_OP,
                lambda asc, call=call, t=tensor: call(asc, t),
                *(f"{api} does not support {name} for {role}; it takes {wanted}" for role in roles),
                kept=tuple(lambda asc, call=call, n=n: call(asc, TENSORS[n]) for n in wanted.split(", ")),
            )
    case(
        rules.DTYPE_BF16,
        lambda asc, call=call: call(asc, BF),
        *(f"{api} {role}: arch 2201 has no bfloat16_t arithmetic" for role in roles),
        kept=lambda asc, call=call, names=wanted: call(asc, TENSORS[names.split(", ")[0]]),
    )
for api, call in {
    "Max": lambda asc, d, s: asc.max(d, s, s, 8),
    "Exp": lambda asc, d, s: asc.exp(d, s, 8),
    "Maxs": lambda asc, d, s: asc.maxs(d, s, 1, 8),
}.items():
    case(
        rules.DTYPE_SAME,
        lambda asc, call=call: call(asc, F, H),
        f"{api} operands differ in dtype: dst float, src0 half" + ", src1 half" * (api == "Max"),
        kept=lambda asc, call=call: call(asc, F, G),
    )
SAME, WIDENING = "half -> half, float -> float", "half -> half, float -> float, half -> float"
for api, got, wanted, broken, kept in (
    ("Axpy", "float -> half", WIDENING, lambda asc: asc.axpy(H, F, 1, 8), lambda asc: asc.axpy(F, H, 1, 8)),
    ("Axpy", "int32_t -> int32_t", WIDENING, lambda asc: asc.axpy(I32, I32, 1, 8), lambda asc: asc.axpy(H, H, 1, 8)),
    (
        *("MulAddDst", "half, float -> float", WIDENING),
        *(lambda asc: asc.mul_add_dst(F, H, F, 8), lambda asc: asc.mul_add_dst(F, H, H, 8)),
    ),
    (
        *("FusedMulAdd", "half, half -> float", SAME),
        *(lambda asc: asc.fused_mul_add(F, H, H, 8), lambda asc: asc.fused_mul_add(F, G, G, 8)),
    ),
    (
        *("MulCast", "half, half -> half", "half -> int8_t, half -> uint8_t"),
        *(lambda asc: asc.mul_cast(H, H, H, 8), lambda asc: asc.mul_cast(I8, H, H, 8)),
    ),
):
    case(rules.DTYPE_PAIR, broken, f"{api} does not support {got}; it takes {wanted}", kept=kept)
case(
    rules.DTYPE_PAIR,
    lambda asc: (asc.set_deq_scale(1.0), asc.add_deq_relu(F, I32, I32, 8)),
    "AddDeqRelu does not support int32_t, int32_t -> float; it takes int32_t -> half",
    kept=lambda asc: (asc.set_deq_scale(1.0), asc.add_deq_relu(H, I32, I32[64], 8)),
)
case(
    rules.DTYPE_BF16,
    lambda asc: asc.mul_add_dst(BF, H, BF, 8),
    "MulAddDst dst: arch 2201 has no bfloat16_t arithmetic",
    "MulAddDst src1: arch 2201 has no bfloat16_t arithmetic",
    kept=lambda asc: asc.mul_add_dst(H, H, H, 8),
)

# ---- scales and shifts ------------------------------------------------------------------------------------------

case(
    rules.DEQ_SCALE,
    lambda asc: asc.cast(H, I32, RoundMode.CAST_NONE, 8),
    "Cast multiplies by the scale of SetDeqScale, which was never set",
    kept=(
        lambda asc: (asc.set_deq_scale(0), asc.cast(H, I32, RoundMode.CAST_NONE, 8)),
        lambda asc: asc.cast(F, I32, RoundMode.CAST_NONE, 8),
    ),
)
case(
    rules.DEQ_SCALE,
    lambda asc: asc.add_deq_relu(H, I32, I32, 8),
    "AddDeqRelu multiplies by the scale of SetDeqScale, which was never set",
    kept=lambda asc: (asc.set_deq_scale(1.0), asc.add_deq_relu(H, I32, I32[64], 8)),
)
TOP = local("top", "int32_t", 188416 - 64, 128)  # its second half is reserved


def dequantised(asc, top, *more):
    asc.set_deq_scale(1.0)
    asc.add_deq_relu(H, I32, top, *more)


case(
    rules.RESERVED_UB,
    lambda asc: dequantised(asc, TOP, 17),
    "AddDeqRelu src1 top reaches UB address 0x2e003: the library keeps temporaries from 0x2e000 on",
    kept=(lambda asc: dequantised(asc, TOP, 16), lambda asc: dequantised(asc, TOP[24], 1)),
)
case(
    rules.RESERVED_UB,
    lambda asc: dequantised(asc, TOP, 9, 1, BinaryRepeatParams(1, 1, 2, 4, 8, 8)),
    "AddDeqRelu src1 top reaches UB address 0x2e01f: the library keeps temporaries from 0x2e000 on",
    kept=(
        lambda asc: dequantised(asc, TOP, 8, 1, BinaryRepeatParams(1, 1, 2, 4, 8, 8)),
        lambda asc: dequantised(asc, TOP, 9, 1, BinaryRepeatParams(1, 1, 1, 4, 8, 8)),
    ),
)
for tensor, high in ((I16, 16), (U16, 16), (I32, 32), (U32, 32)):
    for api in ("ShiftLeft", "ShiftRight"):
        name = "shift_left" if api == "ShiftLeft" else "shift_right"
        below = -1 if tensor in (I16, I32) else (1 << 8 * tensor.dtype.bytes) - 1
        for number, seen in ((high + 1, high + 1), (-1, below)):
            case(
                rules.RANGE_SHIFT,
                lambda asc, t=tensor, n=number, name=name: getattr(asc, name)(t, t, n, 8),
                f"{api} by {seen} bits: out of range 0..{high}",
                kept=tuple(
                    lambda asc, t=tensor, n=n, name=name: getattr(asc, name)(t, t, n, 8) for n in (0, high)
                ),
            )  # fmt: skip
case(
    rules.ROUND_SHIFT,
    lambda asc: asc.shift_right(U16, U16, 1, 8, 1, STILL, round_en=True),
    "ShiftRight round_en has no effect on uint16_t",
    kept=(
        lambda asc: asc.shift_right(I16, I16, 1, 8, 1, STILL, round_en=True),
        lambda asc: asc.shift_right(U16, U16, 1, 8, 1, STILL),
    ),
)

L = local("l", "int64_t", 0x4000, 256)


def padded(asc, x, value):
    pad = DataCopyPadExtParams(is_pad=True, padding_value=value)
    asc.data_copy_pad(L, replace(x, dtype=L.dtype), DataCopyExtParams(1, 8), pad)


CASES.extend(
    (
        rules.RANGE_PAD,
        lambda asc, x, y, v=value: padded(asc, x, v),
        (f"DataCopyPad padding_value {value}: 64-bit types pad with 0",),
        (lambda asc, x, y: padded(asc, x, 0),),
    )
    for value in (1, -1)
)

# ---- what every element-wise instruction keeps --------------------------------------------------------------------

case(
    rules.ALIGN_UB,
    lambda asc: asc.fused_mul_add(F[1], G[9], G[15], 8),
    "FusedMulAdd dst f: UB address 0x404 is 4 B past a 32 B boundary",
    "FusedMulAdd src0 g: UB address 0x824 is 4 B past a 32 B boundary",
    "FusedMulAdd src1 g: UB address 0x83c is 28 B past a 32 B boundary",
    kept=lambda asc: asc.fused_mul_add(F[8], G[16], G[24], 8),
)
case(
    rules.OOB_LOCAL,
    lambda asc: asc.axpy(F, H, 1, 257),
    "Axpy dst touches 4 B past the end of f (1028 B needed, 1024 B there)",
    kept=lambda asc: asc.axpy(F, H, 1, 256),
)
case(
    rules.OOB_LOCAL,
    lambda asc: asc.mul_cast(I8, H, H[16], 500),
    "MulCast src1 touches 8 B past the end of h (1032 B needed, 1024 B there)",
    kept=lambda asc: asc.mul_cast(I8, H, H[16], 496),
)
REPEATED = {
    "Exp": lambda asc, n: asc.exp(F, G, 8, n, STILL),
    "Not": lambda asc, n: asc.not_(I16, I16, 8, n, STILL),
    "Max": lambda asc, n: asc.max(F, G, G, 8, n, NO_STEP),
    "Maxs": lambda asc, n: asc.maxs(F, G, 1, 8, n, STILL),
    "ShiftRight": lambda asc, n: asc.shift_right(I16, I16, 1, 8, n, STILL),
    "Axpy": lambda asc, n: asc.axpy(F, G, 1, 8, n, STILL),
    "MulAddDst": lambda asc, n: asc.mul_add_dst(F, G, G, 8, n, NO_STEP),
    "MulCast": lambda asc, n: asc.mul_cast(I8, H, H, 8, n, NO_STEP),
    "AddDeqRelu": lambda asc, n: (
        asc.set_deq_scale(1.0), asc.add_deq_relu(H, I32, local("far", "int32_t", 0x8000, 65536), 8, n, NO_STEP)
    ),
}  # fmt: skip
for api, call in REPEATED.items():
    if api != "AddDeqRelu":  # its temp and sources are contiguous, whatever the strides
        case(
            rules.RANGE_REPEAT,
            lambda asc, call=call: call(asc, 256),
            f"{api} repeat 256 does not fit the 8-bit field (at most 255)",
            kept=lambda asc, call=call: call(asc, 255),
        )
    case(
        rules.REPEAT_ZERO,
        lambda asc, call=call: call(asc, 0),
        f"{api} does nothing: its repeat is 0",
        kept=lambda asc, call=call: call(asc, 1),
    )
case(
    rules.RANGE_REPEAT,
    lambda asc: REPEATED["AddDeqRelu"](asc, 256),
    "AddDeqRelu repeat 256 does not fit the 8-bit field (at most 255)",
    kept=lambda asc: REPEATED["AddDeqRelu"](asc, 2),
)
case(
    rules.REPEAT_ZERO,
    lambda asc: (asc.set_deq_scale(1.0), asc.add_deq_relu(H, I32, I32, 0)),
    "AddDeqRelu does nothing: its count is 0",
    kept=lambda asc: (asc.set_deq_scale(1.0), asc.add_deq_relu(H, I32, I32[64], 1)),
)
for text, lanes, call in (
    ("Exp", 64, lambda asc, n: asc.exp(F, G, n, 1)),
    ("Exp", 128, lambda asc, n: asc.exp(H, H, n, 1)),
    ("Axpy", 64, lambda asc, n: asc.axpy(F, H, 1, n, 1)),
    ("MulAddDst", 64, lambda asc, n: asc.mul_add_dst(F, H, H, n, 1)),
    ("MulCast", 128, lambda asc, n: asc.mul_cast(I8, H, H, n, 1)),
    (
        *("Cast", 32),
        lambda asc, n: asc.cast(local("l", "int64_t", 0x3000, 256), I32, RoundMode.CAST_NONE, n, 1),
    ),
    (
        *("AddDeqRelu", 64),
        lambda asc, n: (asc.set_deq_scale(1.0), asc.add_deq_relu(H, I32, I32[64], n, 1)),
    ),
):
    case(
        rules.RANGE_MASK,
        lambda asc, call=call, n=lanes + 1: call(asc, n),
        f"{text} mask {lanes + 1} exceeds the {lanes} lanes of a repeat",
        kept=lambda asc, call=call, n=lanes: call(asc, n),
    )
for field in ("dst_blk_stride", "src1_blk_stride", "dst_rep_stride", "src0_rep_stride"):
    low = int(field == "dst_blk_stride")
    for number in (low - 1, 256):
        case(
            rules.RANGE_STRIDE,
            lambda asc, f=field, n=number: asc.mul_add_dst(F, G, G, 1, 1, BinaryRepeatParams(**{f: n})),
            f"MulAddDst {field} {number} is out of range {low}..255",
            kept=tuple(
                lambda asc, f=field, n=n: asc.mul_add_dst(F, G, G, 1, 1, BinaryRepeatParams(**{f: n}))
                for n in (low, 255)
            ),
        )
for field, what, low, high in (
    ("dst_blk_stride", "dst_blk_stride", 1, 65535),
    ("src_blk_stride", "src0_blk_stride", 0, 65535),
    ("dst_rep_stride", "dst_rep_stride", 0, 255),
    ("src_rep_stride", "src0_rep_stride", 0, 255),
):
    for number in (low - 1, high + 1):
        case(
            rules.RANGE_STRIDE,
            lambda asc, f=field, n=number: asc.axpy(F, G, 1, 1, 1, UnaryRepeatParams(**{f: n})),
            f"Axpy {what} {number} is out of range {low}..{high}",
            kept=tuple(
                lambda asc, f=field, n=n: asc.axpy(F, G, 1, 1, 1, UnaryRepeatParams(**{f: n})) for n in (low, high)
            ),
        )
