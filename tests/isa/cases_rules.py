"""Rules of single instructions that came late: each broken once, with kernels beside it that keep every rule."""

from lane_harness import DEVICE, local

from ascendsim.checks import static
from ascendsim.device import load_device
from ascendsim.isa import compare, gather_mask, move, overlap, rules
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.move import CopyRepeatParams, DataCopyExtParams, DataCopyParams
from ascendsim.terms import FULL_MASK, CmpMode, HardEvent, ReduceOrder, RoundMode, SelMode, TPosition

A310P, A310B, A950 = (load_device(n) for n in ("Ascend310P3", "Ascend310B1", "Ascend950PR_9579"))
F, G, K = local("f", "float", 0x400, 1024), local("g", "float", 0x800, 1024), local("k", "float", 0x1000, 1024)
H, L = local("h", "half", 0xC00, 1024), local("l", "half", 0x1400, 1024)
I16, J16 = local("i", "int16_t", 0x1800, 256), local("j", "int16_t", 0x1900, 256)
I32, J32 = local("p", "int32_t", 0x1C00, 256), local("q", "int32_t", 0x1D00, 256)
U8, U32 = local("b", "uint8_t", 0x2000, 256), local("w", "uint32_t", 0x2300, 256)
U16, V16 = local("u", "uint16_t", 0x2100, 256), local("v", "uint16_t", 0x2200, 256)
BF, CF = local("r", "bfloat16_t", 0x2400, 256), local("s", "bfloat16_t", 0x2500, 256)
AS_HALF = F.reinterpret_cast("half")
NONE, RINT = RoundMode.CAST_NONE, RoundMode.CAST_RINT

CASES = []
"""(rule, kernel that breaks it, messages, kernels that keep all rules, device)."""


def case(rule, broken, *messages, kept=(), device=DEVICE):
    CASES.append((rule, broken, messages, kept if isinstance(kept, tuple) else (kept,), device))


def counted(call):
    """A call in counter mode, and what ends it."""
    return lambda asc, *_: (asc.set_mask_count(), call(asc), asc.set_mask_norm(), asc.reset_mask())


# ---- types and products ----------------------------------------------------------------------------------------

for name, api in (("add_relu", "AddRelu"), ("sub_relu", "SubRelu")):
    case(
        rules.DTYPE_HERE,
        lambda asc, *_, name=name: getattr(asc, name)(I16, J16, J16, 64),
        *(
            f"{api} does not support int16_t for {role} on arch 3002; there it takes half, float"
            for role in ("dst", "src0", "src1")
        ),
        kept=lambda asc, *_, name=name: getattr(asc, name)(H, L, L, 64),
        device=A310B,
    )
for device in (A310P, A310B):
    words = "half, int16_t, uint16_t, int32_t, uint32_t, float"
    case(
        rules.DTYPE_HERE,
        lambda asc, *_: asc.gather(CF, BF, U32, 0, 16),
        *(
            f"Gather does not support bfloat16_t for {role} on arch {device.npu_arch}; there it takes {words}"
            for role in ("dst", "src0")
        ),
        kept=lambda asc, *_: asc.gather(H, L, U32, 0, 16),
        device=device,
    )
    case(
        rules.DTYPE_HERE,
        lambda asc, *_: asc.compare(U8, I32, J32, CmpMode.EQ, 64),
        *(
            f"Compare does not support int32_t for {role} on arch {device.npu_arch}; there it takes half, float"
            for role in ("src0", "src1")
        ),
        kept=lambda asc, *_: asc.compare(U8, F, G, CmpMode.EQ, 64),
        device=device,
    )
case(
    rules.DTYPE_HERE,
    lambda asc, *_: asc.data_copy(CF, BF, 16),
    *(
        f"DataCopy does not support bfloat16_t for {role} on arch 2002; there it takes half, float, int8_t, uint8_t, "
        "int16_t, uint16_t, int32_t, uint32_t, int64_t"
        for role in ("dst", "src0")
    ),
    kept=lambda asc, *_: asc.data_copy(H, L, 16),
    device=A310P,
)
case(
    rules.DTYPE_PAIR_HERE,
    lambda asc, *_: asc.mul_add_dst(F, H, L, 64),
    "MulAddDst does not support half, half -> float on arch 3002; there it takes half -> half, float -> float",
    kept=(lambda asc, *_: asc.mul_add_dst(F, G, K, 64), lambda asc, *_: asc.axpy(F, H, 1.0, 64)),
    device=A310B,
)
case(
    rules.API_PRODUCT,
    lambda asc, *_: asc.gatherb(U16, V16, U32, 1),
    "Gatherb is no instruction of Ascend310P3 (arch 2002): asc-devkit, Gatherb page, product table",
    kept=lambda asc, *_: asc.gather(U16, V16, U32, 0, 16),
    device=A310P,
)
case(
    rules.API_PRODUCT,
    lambda asc, *_: asc.data_copy(F, G, 64),
    "DataCopy is no instruction of Ascend310B1 (arch 3002): asc-devkit, DataCopy page for UB to UB, product table; the "
    "library's SoftmaxGrad copies inside UB all the same",
    kept=lambda asc, *_: asc.copy(F, G, 64, 1, CopyRepeatParams(1, 1, 8, 8)),
    device=A310B,
)

# ---- masks -----------------------------------------------------------------------------------------------------

case(
    rules.MASK_ZERO,
    lambda asc, *_: asc.add(F, G, K, 0, 1),
    "Add under mask 0: arch 2002 takes no repeat without a lane",
    kept=(lambda asc, *_: asc.add(F, G, K, 1, 1), lambda asc, *_: asc.add(F, G, K, (1 << 63, 0), 1)),
    device=A310P,
)
case(
    rules.RANGE_MASK_BITS,
    lambda asc, *_: asc.add(F, G, K, (FULL_MASK, 1), 1),
    "Add mask 0x0000000000000001ffffffffffffffff names lanes beyond the 64 of a repeat",
    kept=(
        lambda asc, *_: asc.add(F, G, K, (FULL_MASK, 0), 1),
        lambda asc, *_: asc.add(F, G, K, (FULL_MASK, FULL_MASK), 1),
        lambda asc, *_: asc.max(H, L, L, (FULL_MASK, 1), 1),
    ),
)
case(
    rules.OOB_MASKED,
    lambda asc, *_: asc.add(F, G[248], K[192], 8, 1),
    "Add src0: lanes that the mask leaves out lie up to 224 B past the end of g",
    kept=(
        lambda asc, *_: asc.add(F, G[192], K[192], 8, 1),
        lambda asc, *_: asc.add(F[248], G, K, 8, 1),
        lambda asc, *_: asc.add(F, G[248], K[248], 8),
    ),
)
case(
    compare.COUNTER_IGNORED,
    counted(lambda asc: asc.transpose(H, H)),
    "mask state has no effect on Transpose, which takes no mask: counter mode is on",
    kept=lambda asc, *_: asc.transpose(H, H),
)
case(
    compare.COUNTER_IGNORED,
    counted(lambda asc: asc.brcb(F, G, 1)),
    "mask state has no effect on Brcb, which takes no mask: counter mode is on",
    kept=lambda asc, *_: asc.brcb(F, G, 1),
)
case(
    move.COUNTER_COPY,
    counted(lambda asc: asc.copy(F, G, 128, 2, CopyRepeatParams(1, 1, 8, 8))),
    "Copy in counter mode: each of 2 repeats copies 128 elements, over what the one before wrote",
    kept=(
        counted(lambda asc: asc.copy(F, G, 128, 1, CopyRepeatParams(1, 1, 8, 8))),
        counted(lambda asc: asc.copy(F, G, 64, 2, CopyRepeatParams(1, 1, 8, 8))),
        counted(lambda asc: asc.copy(F, G, 128, 2, CopyRepeatParams(2, 1, 1, 0))),
    ),
)

# ---- overlap ---------------------------------------------------------------------------------------------------

case(
    overlap.OVERLAP,
    lambda asc, *_: asc.add(F[8], F, G, 64, 1),
    "Add: dst and src0 share bytes of f in repeat 0 without being the same lane for lane",
    kept=(
        lambda asc, *_: asc.add(F, F, G, 256),
        lambda asc, *_: asc.add(F[64], F, G, 64, 1),
        lambda asc, *_: asc.add(F[8], F, G, 8, 8, BinaryRepeatParams(1, 1, 1, 2, 2, 2)),
    ),
)
case(
    overlap.OVERLAP,
    lambda asc, *_: asc.muls(F, F, 2.0, 64, 2, UnaryRepeatParams(1, 2, 16, 16)),
    "Muls: dst and src0 share bytes of f in repeat 0 without being the same lane for lane",
    kept=lambda asc, *_: asc.muls(F, F, 2.0, 64, 2, UnaryRepeatParams(2, 2, 16, 16)),
)
case(
    overlap.OVERLAP_LATER,
    lambda asc, *_: asc.add(F[64], F, G, 128),
    "Add: repeat 1 reads as src0 what repeat 0 wrote to f",
    kept=(lambda asc, *_: asc.add(F, F[64], G, 128), lambda asc, *_: asc.add(F[128], F, G, 128)),
)
case(
    overlap.OVERLAP_LATER,
    lambda asc, *_: asc.add(F, F, G, 64, 2, BinaryRepeatParams(1, 1, 1, 0, 0, 8)),
    "Add: repeat 1 reads as src0 what repeat 0 wrote to f",
    kept=(
        lambda asc, *_: asc.add(F, G, F, 64, 2, BinaryRepeatParams(1, 1, 1, 0, 8, 0)),
        lambda asc, *_: asc.sub(F, F, F[128], 64, 2, BinaryRepeatParams(1, 1, 0, 8, 8, 0)),
        lambda asc, *_: asc.whole_reduce_sum(F, F, 64, 4, 1, 1, 8),
    ),
)
case(
    overlap.OVERLAP_LATER,
    lambda asc, *_: asc.div(F, G, F, 64, 2, BinaryRepeatParams(1, 1, 1, 0, 8, 0)),
    "Div: repeat 1 reads as src1 what repeat 0 wrote to f",
    kept=lambda asc, *_: asc.div(F, G, F, 128),
)
case(
    overlap.OVERLAP_NONE,
    lambda asc, *_: asc.compares(F.reinterpret_cast("uint8_t")[32], F, 0.0, CmpMode.LT, 64),
    "Compares: dst overlaps src0 in f, which its page does not allow",
    kept=(
        lambda asc, *_: asc.compares(U8, F, 0.0, CmpMode.LT, 64),
        lambda asc, *_: asc.compares(F.reinterpret_cast("uint8_t"), F, 0.0, CmpMode.LT, 128),
    ),
)
case(
    overlap.OVERLAP_NONE,
    lambda asc, *_: asc.compares(
        F.reinterpret_cast("uint8_t"), F, 0.0, CmpMode.LT, 64, 2, UnaryRepeatParams(1, 1, 8, 0)
    ),
    "Compares: dst overlaps src0 in f, which its page does not allow",
    kept=lambda asc, *_: asc.compares(
        F.reinterpret_cast("uint8_t"), F, 0.0, CmpMode.LT, 64, 2, UnaryRepeatParams(1, 1, 8, 1)
    ),
)
case(
    overlap.OVERLAP_NONE,
    lambda asc, *_: asc.compare(F.reinterpret_cast("uint8_t"), F, G, CmpMode.LT, 64),
    "Compare: dst overlaps src0 in f, which its page does not allow",
    kept=lambda asc, *_: asc.compare(U8, F, G, CmpMode.LT, 64),
)
case(
    overlap.OVERLAP_NONE,
    lambda asc, *_: asc.mul_add_dst(F, AS_HALF, L, 64),
    "MulAddDst: dst overlaps src0 in f, which its page does not allow",
    kept=(lambda asc, *_: asc.mul_add_dst(F, H, L, 64), lambda asc, *_: asc.mul_add_dst(F, F, G, 64)),
)
case(
    overlap.OVERLAP_NONE,
    lambda asc, *_: asc.select(F, F.reinterpret_cast("uint8_t"), G, 0.0, SelMode.VSEL_TENSOR_SCALAR_MODE, 64),
    "Select: dst overlaps src1 in f, which its page does not allow",
    kept=lambda asc, *_: asc.select(F, U8, F, 0.0, SelMode.VSEL_TENSOR_SCALAR_MODE, 64),
)
case(
    overlap.OVERLAP_WIDEN,
    lambda asc, *_: asc.cast(F, AS_HALF, NONE, 64),
    "Cast half->float in place: dst overwrites elements of f that are still to be read",
    kept=(
        lambda asc, *_: asc.cast(F, AS_HALF[128], NONE, 128),
        lambda asc, *_: asc.cast(AS_HALF, F, RINT, 256),
        lambda asc, *_: asc.cast(F, F, RINT, 256),
    ),
)
case(
    overlap.OVERLAP_WIDEN,
    lambda asc, *_: asc.cast(F, AS_HALF[32], NONE, 128),
    "Cast half->float in place: dst overwrites elements of f that are still to be read",
)
case(
    move.COPY_OVERLAP,
    lambda asc, *_: asc.data_copy(F[8], F, 32),
    "DataCopy: dst and src0 share bytes of f without being the same",
    kept=(
        lambda asc, *_: asc.data_copy(F[32], F, 32),
        lambda asc, *_: asc.data_copy(F[8], F, DataCopyParams(4, 1, 1, 1)),
    ),
)
case(
    overlap.OVERLAP,
    lambda asc, *_: asc.copy(F[8], F, 64, 1, CopyRepeatParams(1, 1, 8, 8)),
    "Copy: dst and src0 share bytes of f in repeat 0 without being the same lane for lane",
    kept=lambda asc, *_: asc.copy(F[8], F, 64, 1, CopyRepeatParams(2, 2, 8, 8)),
)
case(
    gather_mask.MASK_OVERLAP,
    lambda asc, *_: asc.gather_mask(F[8], F, 1, False, 0),
    "GatherMask: dst and src0 share bytes of f without starting together",
    kept=(lambda asc, *_: asc.gather_mask(F, F, 1, False, 0), lambda asc, *_: asc.gather_mask(F[64], F, 1, False, 0)),
)

# ---- moves -----------------------------------------------------------------------------------------------------

case(
    move.BRCB_SOURCE,
    lambda asc, *_: asc.brcb(F, G[248], 2),
    "Brcb reads 16 elements, 8 for each repeat, and g has 8 from there on",
    kept=lambda asc, *_: asc.brcb(F, G[240], 2),
)
case(
    move.PATH,
    lambda asc, x, y: (asc.data_copy(y, y, 8), asc.data_copy_pad(F, G, DataCopyExtParams(1, 32))),
    "DataCopy: there is no path from GM to GM",
    "DataCopyPad: there is no path from UB to UB",
    kept=lambda asc, x, y: (asc.data_copy(F, y, 8), asc.data_copy_pad(y, F, DataCopyExtParams(1, 32))),
)


def through(position, name):
    """Load into a queue's buffer, hand it on, store it, with flags between the two copies."""

    def kernel(asc, x, y):
        pipe, que = asc.t_pipe(), asc.t_que(position, 1, name)
        pipe.init_buffer(que, 1, 256)
        tensor = que.alloc_tensor("float")
        asc.data_copy(tensor, y, 64)
        asc.set_flag(HardEvent.MTE2_MTE3, 0)
        asc.wait_flag(HardEvent.MTE2_MTE3, 0)
        que.enque(tensor)
        tensor = que.deque("float")
        asc.data_copy(y, tensor, 64)
        que.free_tensor(tensor)

    return kernel


def explicit(asc, x, y):
    """The same with a tensor of no queue."""
    asc.data_copy(F, y, 64)
    asc.set_flag(HardEvent.MTE2_MTE3, 0)
    asc.wait_flag(HardEvent.MTE2_MTE3, 0)
    asc.data_copy(y, F, 64)


case(
    move.BUF_ROLE,
    through(TPosition.VECOUT, "o"),
    "DataCopy dst o is on VECOUT; the documented path is GM to VECIN",
    kept=explicit,
)
case(
    move.BUF_ROLE,
    through(TPosition.VECIN, "i"),
    "DataCopy src0 i is on VECIN; the documented path is VECOUT to GM",
    kept=explicit,
)
case(
    static.GM_UNALIGNED,
    lambda asc, x, y: asc.data_copy(F, y[8], 8),
    "DataCopy src0: start 32 B in GM tensor y is no multiple of 512 B, which costs bandwidth",
    kept=lambda asc, x, y: asc.data_copy(F, y, DataCopyParams(1, 1, 1, 0)),
)
case(
    static.GM_UNALIGNED,
    lambda asc, x, y: asc.data_copy(y, F, DataCopyParams(2, 1, 0, 1)),
    "DataCopy dst: row pitch 64 B in GM tensor y is no multiple of 512 B, which costs bandwidth",
    kept=lambda asc, x, y: asc.data_copy(y, F, 8),
)
case(
    static.GM_UNALIGNED,
    lambda asc, x, y: asc.data_copy(F, y[16], 8),
    "DataCopy src0: start 64 B in GM tensor y is no multiple of 128 B, which costs bandwidth",
    kept=lambda asc, x, y: asc.data_copy(F, y[32], 8),
    device=A950,
)


def beside(length):
    """A TBuf of that length from address 0, and an explicit tensor at 0x400."""

    def kernel(asc, *_):
        pipe, buf = asc.t_pipe(), asc.t_buf(TPosition.VECCALC, "t")
        pipe.init_buffer(buf, 1, length)
        asc.duplicate(buf.get("float"), 0.0, 8)
        asc.duplicate(F, 0.0, 8)

    return kernel


case(
    static.BUF_ADDRMIX,
    beside(0x420),
    "explicit tensor f at UB 0x400 lies on buffer t at 0x0, which InitBuffer has given out",
    kept=beside(0x400),
)

# ---- numerics --------------------------------------------------------------------------------------------------

case(
    rules.NUM_RECIP,
    lambda asc, *_: (asc.reciprocal(F, G, 64), asc.rsqrt(H, L, 64)),
    "Reciprocal approximates: its error may pass 1e-4",
    "Rsqrt approximates: its error may pass 1e-3",
    kept=lambda asc, *_: (asc.sqrt(F, G, 64), asc.div(K, G, F, 64)),
)
case(
    rules.NUM_HALF_SUM,
    lambda asc, *_: asc.block_reduce_sum(H, L, 1, 128, 1, 1, 8),
    "BlockReduceSum adds halves: slower than float, and each step is rounded to half",
    kept=(
        lambda asc, *_: asc.block_reduce_sum(F, G, 1, 64, 1, 1, 8),
        lambda asc, *_: asc.whole_reduce_max(H, L, 128, 1, 1, 1, 8, ReduceOrder.ORDER_ONLY_VALUE),
    ),
)
