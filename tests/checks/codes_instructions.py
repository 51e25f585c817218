"""The table of all codes, part 1: rules of single instructions, their operands, types, modes and values."""

from dataclasses import replace

from codes_harness import A310P, A950, OUT, checked, entry, flagged, kernels, local, ran, ready, vector

from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.isa.move import CopyRepeatParams, DataCopyExtParams, DataCopyPadExtParams, DataCopyParams
from ascendsim.isa.transpose import TransDataTo5HDParams
from ascendsim.terms import CmpMode, HardEvent, Pipe, ReduceOrder, RoundMode, SelMode

A, B, F = local("a", "float", 0, 1024), local("b", "float", 0x500, 1024), local("f", "float", 0x10000, 1024)
H, L, M = local("h", "half", 0x1000, 1024), local("l", "half", 0x1500, 1024), local("m", "half", 0x11000, 1024)
I16, D16 = local("i", "int16_t", 0x2000, 256), local("d", "int16_t", 0x12000, 256)
I32, U32 = local("j", "int32_t", 0x2200, 256), local("w", "uint32_t", 0x2400, 256)
U8, D8 = local("u", "uint8_t", 0x2600, 256), local("v", "uint8_t", 0x13000, 256)
BF = local("r", "bfloat16_t", 0x2800, 256)
NONE, RINT, MODE_2 = RoundMode.CAST_NONE, RoundMode.CAST_RINT, SelMode.VSEL_TENSOR_TENSOR_MODE
STEP = CopyRepeatParams(1, 1, 8, 8)
N = local("n", "float", 0x14000, 1024)


def blocks(tensor):
    """Sixteen datablocks of a tensor, one behind the other."""
    return [tensor[i * tensor.dtype.per_datablock] for i in range(16)]


# ---- product and type ---------------------------------------------------------------------------------------------

entry(
    "E-API-PRODUCT",
    lambda: checked(lambda asc, *_: (ready(asc), asc.copy(F, A, 64, 1, STEP)), soc=A310P),
    lambda: checked(lambda asc, *_: (ready(asc), asc.copy(F, A, 64, 1, STEP))),
)
vector("E-DTYPE-OP", lambda asc, *_: asc.add(D8, U8, U8, 32), lambda asc, *_: asc.add(D16, I16, I16, 32))
vector(
    "E-DTYPE-BF16",
    lambda asc, *_: asc.muls(BF, BF, 2.0, 64),
    lambda asc, *_: asc.muls(H, H, 2.0, 64),
    ("Muls dst: arch 2201 has no bfloat16_t arithmetic", "cast to float, compute, cast back"),
    ("Muls src0: arch 2201 has no bfloat16_t arithmetic", "cast to float, compute, cast back"),
)
vector("E-CAST-PAIR", lambda asc, *_: asc.cast(D8, A, RINT, 64), lambda asc, *_: asc.cast(D8, H, RINT, 64))
vector("E-CAST-ROUND", lambda asc, *_: asc.cast(F, H, RINT, 64), lambda asc, *_: asc.cast(F, H, NONE, 64))
vector(
    "E-CAST-DEQSCALE",
    lambda asc, *_: asc.cast(M, I32, NONE, 64),
    lambda asc, *_: (asc.set_deq_scale(1.0), asc.cast(M, I32, NONE, 64)),
)
vector(
    "W-CAST-PAIR",
    lambda asc, *_: asc.cast(F.reinterpret_cast("int32_t"), A, RINT, 64),
    lambda asc, *_: asc.cast(F.reinterpret_cast("int32_t"), H, RINT, 64),
    soc=A310P,
)

# ---- bounds -------------------------------------------------------------------------------------------------------

vector("E-OOB-LOCAL", lambda asc, *_: asc.adds(F, A, 1.0, 320), lambda asc, *_: asc.adds(F, A, 1.0, 256))
vector(
    "W-OOB-MASKED",
    lambda asc, *_: asc.adds(F, A[248], 1.0, 8, 1),
    lambda asc, *_: asc.adds(F, A[192], 1.0, 8, 1),
)
kernels("E-OOB-GM", lambda asc, x, y: asc.data_copy(F, x[4096], 8), lambda asc, x, y: asc.data_copy(F, x[3968], 8))
kernels("E-PATH", lambda asc, x, y: asc.data_copy(x, y, 8), lambda asc, x, y: asc.data_copy(F, y, 8))
vector(
    "E-INDEX-RANGE",
    lambda asc, *_: asc.gather(F, A, U32, 1024, 64),
    lambda asc, *_: asc.gather(F, A, U32, 1020, 64),
)
vector(
    "E-BRCB-SRC", lambda asc, *_: asc.brcb(F, A[248], 2), lambda asc, *_: asc.brcb(F, A[240], 2)
)  # fmt: skip
vector(
    "E-SELMASK",
    lambda asc, *_: asc.select(F, replace(U8, allocation_bytes=8), A, B, MODE_2, 128),
    lambda asc, *_: asc.select(F, replace(U8, allocation_bytes=16), A, B, MODE_2, 128),
)
vector(
    "E-TMP-REDUCE",
    lambda asc, *_: asc.reduce_sum(F, A, local("t", "float", 0x14000, 32), 64, 9, 0),
    lambda asc, *_: asc.reduce_sum(F, A, local("t", "float", 0x14000, 64), 64, 9, 0),
)

# ---- alignment ----------------------------------------------------------------------------------------------------

vector("E-ALIGN-UB", lambda asc, *_: asc.adds(F[1], A, 1.0, 64), lambda asc, *_: asc.adds(F[8], A, 1.0, 64))
kernels(
    "E-ALIGN-GM",
    lambda asc, x, y: asc.data_copy(F, replace(x, offset_bytes=6), 8),
    lambda asc, x, y: asc.data_copy(F, replace(x, offset_bytes=512), 8),
)
kernels(
    "W-ALIGN-GM",
    lambda asc, x, y: asc.data_copy(F, x[8], 8),
    lambda asc, x, y: asc.data_copy(F, x[128], 8),
    (
        "DataCopy src0: start 32 B in GM tensor x is no multiple of 512 B, which costs bandwidth",
        "start tiles and rows on such a boundary: pad rows, or choose tiles of whole boundaries",
    ),
)
kernels("E-ALIGN-COUNT", lambda asc, x, y: asc.data_copy(F, x, 15), lambda asc, x, y: asc.data_copy(F, x, 16))
vector(
    "E-ALIGN-REDUCE",
    lambda asc, *_: asc.block_reduce_sum(F[4], A, 1, 64, 1, 1, 8),
    lambda asc, *_: asc.block_reduce_sum(F[8], A, 1, 64, 1, 1, 8),
)
vector(
    "E-ALIGN-COMPARE",
    lambda asc, *_: asc.compares(D8, A, 0.0, CmpMode.LT, 65),
    lambda asc, *_: asc.compares(D8, A, 0.0, CmpMode.LT, 64),
)
vector(
    "E-ALIGN-OFFSET",
    lambda asc, *_: asc.gather(F, A, U32, 2, 64),
    lambda asc, *_: asc.gather(F, A, U32, 4, 64),
)
vector(
    "E-ALIGN-TRANS5HD",
    lambda asc, *_: asc.trans_data_to5hd(blocks(F), blocks(A[1])),
    lambda asc, *_: asc.trans_data_to5hd(blocks(F), blocks(A[8])),
)

# ---- parameters ---------------------------------------------------------------------------------------------------

STILL = BinaryRepeatParams(1, 1, 1, 0, 0, 0)
vector(
    "E-RANGE-REPEAT",
    lambda asc, *_: asc.add(F, A, B, 64, 256, STILL),
    lambda asc, *_: asc.add(F, A, B, 64, 255, STILL),
)
vector("W-REPEAT-ZERO", lambda asc, *_: asc.adds(F, A, 1.0, 0), lambda asc, *_: asc.adds(F, A, 1.0, 1))
vector("E-RANGE-MASK", lambda asc, *_: asc.adds(F, A, 1.0, 65, 1), lambda asc, *_: asc.adds(F, A, 1.0, 64, 1))
vector("E-MASK-ZERO", lambda asc, *_: asc.adds(F, A, 1.0, 0, 1), lambda asc, *_: asc.adds(F, A, 1.0, 1, 1), soc=A310P)
vector(
    "E-RANGE-STRIDE",
    lambda asc, *_: asc.add(F, A, B, 64, 1, BinaryRepeatParams(1, 1, 1, 256, 8, 8)),
    lambda asc, *_: asc.add(F, A, B, 64, 1, BinaryRepeatParams(1, 1, 1, 255, 8, 8)),
)
vector(
    "E-RANGE-SHIFT", lambda asc, *_: asc.shift_left(D16, I16, 17, 64), lambda asc, *_: asc.shift_left(D16, I16, 16, 64)
)  # fmt: skip
vector(
    "W-SHIFT-ROUND",
    lambda asc, *_: asc.shift_right(U32, U32, 1, 64, 1, round_en=True),
    lambda asc, *_: asc.shift_right(I32, I32, 1, 64, 1, round_en=True),
)
kernels(
    "E-RANGE-COPY",
    lambda asc, x, y: asc.data_copy(F, x, DataCopyParams(1, 1, 65536, 0)),
    lambda asc, x, y: asc.data_copy(F, x, DataCopyParams(1, 1, 65535, 0)),
)
kernels(
    "E-COPY-ZERO",
    lambda asc, x, y: asc.data_copy(F, x, 0),
    lambda asc, x, y: asc.data_copy(F, x, 8),
    ("DataCopy copies nothing: block_len is 0", "guard the call"),
)
kernels(
    "E-RANGE-PAD",
    lambda asc, x, y: asc.data_copy_pad(F, x, DataCopyExtParams(1, 4), DataCopyPadExtParams(True, 0, 9)),
    lambda asc, x, y: asc.data_copy_pad(F, x, DataCopyExtParams(1, 4), DataCopyPadExtParams(True, 0, 7)),
)
HIGH = TransDataTo5HDParams(src_high_half=True)
vector(
    "E-RANGE-TRANS5HD",
    lambda asc, *_: asc.trans_data_to5hd(blocks(M), blocks(H), HIGH),
    lambda asc, *_: asc.trans_data_to5hd(
        blocks(M.reinterpret_cast("uint8_t")), blocks(H.reinterpret_cast("uint8_t")), HIGH
    ),
)
vector(
    "W-RANGE-TRANS5HD",
    lambda asc, *_: asc.trans_data_to5hd(blocks(M), blocks(H), TransDataTo5HDParams(False, False, 1, 16, 0)),
    lambda asc, *_: asc.trans_data_to5hd(blocks(M), blocks(H), TransDataTo5HDParams(False, False, 1, 0, 0)),
)


def counted(repeats):
    """Copy of 128 elements in counter mode."""

    def call(asc, *_):
        asc.set_mask_count()
        asc.copy(F, A, 128, repeats, STEP)
        asc.set_mask_norm()
        asc.reset_mask()

    return call


vector("E-COUNTER-COPY", counted(2), counted(1))
vector(
    "W-MASK-MODE",
    lambda asc, *_: (asc.set_mask_count(), asc.adds(F, A, 1.0, 64, 1)),
    lambda asc, *_: (asc.set_mask_count(), asc.adds(F, A, 1.0, 64, 1), asc.set_mask_norm(), asc.reset_mask()),
    ("counter mode is still on when the kernel ends", "call set_mask_norm and reset_mask"),
)

# ---- overlap ------------------------------------------------------------------------------------------------------

vector("E-OVERLAP", lambda asc, *_: asc.adds(A[8], A, 1.0, 64, 1), lambda asc, *_: asc.adds(A, A, 1.0, 64, 1))
vector("E-OVERLAP-GATHER", lambda asc, *_: asc.brcb(A, A, 1), lambda asc, *_: asc.brcb(A[8], A, 1))
vector(
    "E-OVERLAP-WIDEN",
    lambda asc, *_: asc.cast(A, A.reinterpret_cast("half"), NONE, 64),
    lambda asc, *_: asc.cast(A, A.reinterpret_cast("half")[64], NONE, 64),
)


def through_memory(has_bar):
    """A vector function that loads what it has stored."""

    def call(asc, *_):
        with asc.vector_function() as vf:
            vf.store_align(F, vf.load_align(A))
            if has_bar:
                vf.local_mem_bar()
            vf.store_align(N, vf.load_align(F))

    return call


vector("E-HAZARD-VF", through_memory(has_bar=False), through_memory(has_bar=True), soc=A950)

# ---- values -------------------------------------------------------------------------------------------------------

vector("W-NUM-RECIP", lambda asc, *_: asc.reciprocal(F, A, 64), lambda asc, *_: asc.div(F, B, A, 64))
vector(
    "W-NUM-HALFREDUCE",
    lambda asc, *_: asc.whole_reduce_sum(M, H, 128, 1, 1, 1, 8),
    lambda asc, *_: asc.whole_reduce_max(M, H, 128, 1, 1, 1, 8, ReduceOrder.ORDER_ONLY_VALUE),
)


def storing(value, count=4096):
    """Kernel that stores the square root of a value in the first `count` elements of y."""

    def kernel(asc, x, y):
        root = local("root", "float", 0, 16384)
        asc.duplicate(root, value, count)
        asc.pipe_barrier(Pipe.V)
        asc.sqrt(root, root, count)
        flagged(asc, HardEvent.V_MTE3)
        asc.data_copy(y, root, count)

    return kernel


def result_of(kernel):
    """What a run finds whose y is an output."""
    return lambda: ran(kernel, OUT)


entry(
    "W-NUM-NAN",
    result_of(storing(-1.0)),
    result_of(storing(1.0)),
    (
        "output y holds 4096 NaN or infinite values, the first at element [0]",
        "check the data, or the operation that made them",
    ),
)
entry(
    "W-MEM-OUTPUT",
    result_of(storing(1.0, 2048)),
    result_of(storing(1.0, 4096)),
    (
        "8192 B of GM tensor y were never written, the first at byte 8192",
        "check block_dim, the tail, and that every tile is copied out",
    ),
)
