"""The table of all codes, part 5: calls of SimpleSoftMax, SelectWithBytesMask and DropOut, and SetCmpMask."""

from codes_harness import kernels, local

from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.op_host.softmax_family import soft_max_tiling_func
from ascendsim.op_kernel import (
    DropOutMode,
    DropOutShapeInfo,
    SelectWithBytesMaskShapeInfo,
    drop_out,
    select_with_bytes_mask,
    simple_softmax,
)
from ascendsim.terms import Pipe, SelMode

ROWS, COLUMNS = 8, 64
SRC, SUM, MAX = (local(name, "float", at, size) for name, at, size in (
    ("src", 0, 2048), ("sum", 0x900, 256), ("max", 0xB00, 256)
))  # fmt: skip
MASK, WIDE_MASK = local("mask", "uint8_t", 0x1100, 512), local("wide", "uint8_t", 0x1100, 768)
DST, TMP = local("dst", "float", 0x10000, 2048), local("tmp", "uint8_t", 0x11100, 4096)
FILLED = local("ub", "half", 0, 0x2000)


def _on_full_ub(call):
    def kernel(asc, *_):
        asc.duplicate(FILLED, 1.0, FILLED.count)
        asc.pipe_barrier(Pipe.V)
        call(asc)

    return kernel


def softmax(columns=COLUMNS, is_basic_block=False, **other):
    """A SimpleSoftMax of 8 rows of floats; `other` replaces tensors."""
    t = {"dst": DST, "in_sum": SUM, "in_max": MAX, "src": SRC, "tmp": TMP} | other
    tiling = soft_max_tiling_func((ROWS, columns), 4, TMP.count)
    return _on_full_ub(
        lambda asc: simple_softmax(
            asc, t["dst"], t["in_sum"], t["in_max"], t["src"], t["tmp"], tiling, is_basic_block=is_basic_block
        )
    )


def bytes_mask(mask=MASK, width=COLUMNS, is_inverted=False, **other):
    """A SelectWithBytesMask of 8x64 floats."""
    t = {"dst": DST, "src": SRC, "tmp": TMP} | other
    info = SelectWithBytesMaskShapeInfo(ROWS, COLUMNS, width)
    sources = (0.0, t["src"]) if is_inverted else (t["src"], 0.0)
    return _on_full_ub(lambda asc: select_with_bytes_mask(asc, t["dst"], *sources, mask, t["tmp"], info))


def dropped(mask=MASK, width=COLUMNS, keep_prob=0.5, mode=DropOutMode.BY_SHAPE, **other):
    """A DropOut of 8x64 floats."""
    t = {"dst": DST, "src": SRC, "tmp": TMP} | other
    info = DropOutShapeInfo(ROWS, COLUMNS, width)
    return _on_full_ub(
        lambda asc: drop_out(asc, t["dst"], t["src"], mask, t["tmp"], keep_prob, info, drop_out_mode=mode)
    )


kernels(
    "E-DROPOUT",
    dropped(keep_prob=1.0),
    dropped(keep_prob=0.5),
    (
        "DropOut arguments invalid: keep_prob is 1, not between 0 and 1",
        "see the modes and shapes in docs/attention-pieces.md",
    ),
)
kernels("E-BYTESMASK", bytes_mask(WIDE_MASK, 80), bytes_mask(WIDE_MASK, 96))
kernels(
    "E-OVERLAP-TENSOR",
    softmax(8, dst=MAX),
    softmax(8, dst=DST),
    ("SimpleSoftMax dst and in_max are the same tensor", "give each its own memory"),
)

# ---- Select with a scalar in the compare-mask register --------------------------------------------------------------

BITS, SCALAR = local("bits", "uint8_t", 0x1100, 64), local("scalar", "float", 0x1300, 32)


def by_register(asc):
    """Take the scalar that SetCmpMask has set."""
    asc.select(DST, BITS, SRC, 8, BinaryRepeatParams())


def held(*before):
    """A kernel that calls these, and then selects by the register."""
    return _on_full_ub(lambda asc: [call(asc) for call in (*before, by_register)])


def setting(asc):
    """Set the register, and wait for it."""
    asc.set_cmp_mask(SCALAR)
    asc.pipe_barrier(Pipe.V)


def by_tensors(asc):
    """Select between tensors, which uses the register."""
    other = local("other", "float", 0x12200, 2048)
    asc.select(other, BITS, SRC, 1.0, SelMode.VSEL_TENSOR_SCALAR_MODE, 256)
    asc.pipe_barrier(Pipe.V)


for trigger in (held(), held(setting, by_tensors)):
    kernels("E-SELECT-UNSET", trigger, held(by_tensors, setting))
