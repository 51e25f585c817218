"""DropOut: values against NumPy in the data's type, instructions against the library's, temp sizes, findings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from piece_harness import DEVICES, NAMES, found, local, place, run, same, sequence

from ascendsim.device import load_device
from ascendsim.errors import KernelError
from ascendsim.op_host.drop_out import get_drop_out_max_tmp_size, get_drop_out_min_tmp_size
from ascendsim.op_kernel import (
    DropOutMode,
    DropOutShapeInfo,
    SelectWithBytesMaskShapeInfo,
    drop_out,
    drop_out_bit_mode_init,
    select_with_bytes_mask,
)
from ascendsim.record import record
from ascendsim.terms import TPosition

many = settings(max_examples=50, deadline=None, derandomize=True)


def kernel(t, keep_prob, info, **more):
    return lambda asc: drop_out(asc, t["dst"], t["src"], t["mask"], t["tmp"], keep_prob, info, **more)


def placed(src, mask, tmp_bytes, in_place=False):
    out = (NAMES[src.dtype.name], src.nbytes)
    t = place(src=src, mask=mask, dst=out, tmp=("uint8_t", tmp_bytes))
    return t | {"dst": t["src"]} if in_place else t


def sources(rng, shape, kind):
    """Numbers with infinities, NaN and zeros of both signs."""
    src = (rng.standard_normal(shape) * 8).astype(kind)
    src.reshape(-1)[:5] = [np.inf, -np.inf, np.nan, 0, -0.0]
    rng.shuffle(src.reshape(-1))
    return src


def factor_of(keep_prob, kind):
    return (np.float32(1) / np.float32(keep_prob)).astype(kind)


def clamped(values, arch):
    """Half results of arch 2002, which saturates."""
    is_clamped = arch == 2002 and values.dtype == np.float16
    return np.nan_to_num(values, nan=0, posinf=65504, neginf=-65504) if is_clamped else values


def by_bits(src, kept, keep_prob, arch=2201):
    with np.errstate(all="ignore"):
        return clamped(np.where(kept, src, src.dtype.type(0)) * factor_of(keep_prob, src.dtype), arch)


def by_bytes(src, mask, keep_prob, arch=2201):
    """The byte is a factor."""
    with np.errstate(all="ignore"):
        product = clamped(mask.astype(src.dtype) * src, arch)
        return clamped(product * factor_of(keep_prob, src.dtype), arch)


def bits_of(mask, columns):
    return np.unpackbits(mask, axis=1, bitorder="little")[:, :columns]


kinds = st.sampled_from([np.float32, np.float16])
probabilities = st.sampled_from([0.5, 0.3, 0.9, 1e-3, 0.99999])


# ---- values ---------------------------------------------------------------------------------------------------------


@many
@given(data=st.data())
def test_values_with_bits(data):
    """Mode 3 takes the mask as one run; mode 4 closes the gaps of padded rows, which hold anything or nothing."""
    arch, kind, has_gaps = data.draw(st.sampled_from([2201, 2002])), data.draw(kinds), data.draw(st.booleans())
    rows = data.draw(st.integers(1, 20 if has_gaps else 5))
    columns = 16 * data.draw(st.integers(1, 20)) if has_gaps else 256 * data.draw(st.integers(1, 6))
    mask_columns = columns // 8 if not has_gaps else -(-columns // 256) * 32 + 32 * data.draw(st.integers(0, 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    src, keep_prob = sources(rng, (rows, columns), kind), data.draw(probabilities)
    mask = rng.integers(0, 256, (rows, mask_columns)).astype(np.uint8)
    t = placed(src, mask, 512, in_place=data.draw(st.booleans()))
    mode = DropOutMode.BIT_MISALIGN if has_gaps else data.draw(st.sampled_from([0, 3]))
    call = kernel(t, keep_prob, DropOutShapeInfo(rows, columns, mask_columns), drop_out_mode=mode)
    gaps = [("mask", row * mask_columns + columns // 8, (row + 1) * mask_columns) for row in range(rows)]
    ran = run(call, t, arch, gaps, src=src, mask=mask)
    assert ran.findings == ()
    assert same(ran.array(t["dst"], src), by_bits(src, bits_of(mask, columns), keep_prob, arch))
    if has_gaps and arch == 2201:
        closed = ran.array(t["mask"], mask).reshape(-1)[: rows * columns // 8]
        assert (closed == mask[:, : columns // 8].reshape(-1)).all()
    else:
        assert (ran.array(t["mask"], mask) == mask).all()


@many
@given(data=st.data())
def test_values_with_bytes(data):
    arch, kind, has_gaps = data.draw(st.sampled_from([2201, 2002])), data.draw(kinds), data.draw(st.booleans())
    rows, columns = data.draw(st.integers(1, 12)), 16 * data.draw(st.integers(1, 20))
    mask_columns = -(-columns // 32) * 32 + 32 * data.draw(st.integers(0, 1)) if has_gaps else columns
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    src, keep_prob = sources(rng, (rows, columns), kind), data.draw(probabilities)
    mask = rng.integers(0, data.draw(st.sampled_from([2, 256])), (rows, mask_columns)).astype(np.uint8)
    tmp_bytes = data.draw(st.integers(512, max(512, 6 * rows * columns)))
    t = placed(src, mask, tmp_bytes, in_place=data.draw(st.booleans()))
    mode = data.draw(st.sampled_from([0, 1 if has_gaps and mask_columns > columns else 0, 1 if has_gaps else 2]))
    call = kernel(t, keep_prob, DropOutShapeInfo(rows, columns, mask_columns), drop_out_mode=mode)
    gaps = [("mask", row * mask_columns + columns, (row + 1) * mask_columns) for row in range(rows)]
    ran = run(call, t, arch, gaps, src=src, mask=mask)
    assert ran.findings == ()
    assert same(ran.array(t["dst"], src), by_bytes(src, mask[:, :columns], keep_prob, arch))


def test_a_byte_is_a_factor_and_a_bit_is_a_choice():
    """0 times infinity is NaN, and 0 times a negative number is -0; a bit gives 0 for both."""
    src = np.tile(np.float32([np.inf, -1, 3, np.nan]), 64)[None]
    mask = np.tile(np.uint8([0, 0, 2, 0]), 64)[None]
    t = placed(src, mask, 2048)
    bytes_ = run(kernel(t, 0.5, DropOutShapeInfo(1, 256, 256)), t, src=src, mask=mask).array(t["dst"], src)
    assert np.isnan(bytes_[0, [0, 3]]).all()
    assert bytes_[0, 2] == 12
    assert np.signbit(bytes_[0, 1])
    bits = np.packbits(mask != 0, axis=1, bitorder="little")
    t = placed(src, bits, 2048)
    bit = run(kernel(t, 0.5, DropOutShapeInfo(1, 256, 32)), t, src=src, mask=bits).array(t["dst"], src)
    assert bit[0, :4].tolist() == [0, 0, 6, 0]
    assert not np.signbit(bit[0, :4]).any()


def test_the_examples_of_the_page():
    """keepProb 0.5 with bytes; and the bits of 169, which the page prints highest first, lowest first."""
    src = np.arange(32, dtype=np.float32)[None]
    mask = np.uint8([[0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1, 1, 1, 0]])
    t = placed(src, mask, 512)
    ran = run(kernel(t, 0.5, DropOutShapeInfo(1, 32, 32)), t, src=src, mask=mask)
    assert ran.array(t["dst"], src).tolist() == [[
        0, 2, 0, 0, 0, 0, 0, 0, 16, 0, 20, 22, 24, 0, 28, 30,
        0, 0, 36, 0, 0, 42, 44, 46, 48, 0, 52, 0, 56, 58, 60, 0,
    ]]  # fmt: skip
    src, mask = np.arange(1, 257, dtype=np.float32)[None], np.full((1, 32), 169, np.uint8)
    t = placed(src, mask, 512)
    ran = run(kernel(t, 0.5, DropOutShapeInfo(1, 256, 32)), t, src=src, mask=mask)
    assert (ran.array(t["dst"], src)[0, :8] / 2).tolist() == [1, 0, 0, 4, 0, 6, 0, 8]


def two_calls(t, between=lambda asc: None):
    """Two calls that share one initialisation."""

    def call(asc):
        drop_out_bit_mode_init(asc, t["tmp"])
        for dst in ("dst", "dst2"):
            drop_out(
                asc, t[dst], t["src"], t["mask"], t["tmp"], 0.5, DropOutShapeInfo(2, 256, 32), is_init_bit_mode=True
            )
            between(asc)

    return call


def test_one_initialisation_serves_many_calls():
    rng = np.random.default_rng(5)
    src, mask = sources(rng, (2, 256), np.float32), rng.integers(0, 256, (2, 32)).astype(np.uint8)
    t = placed(src, mask, 512) | {"dst2": local("dst2", "float", 65536, src.nbytes)}
    ran = run(two_calls(t), t, src=src, mask=mask)
    assert ran.findings == ()
    for dst in ("dst", "dst2"):
        assert same(ran.array(t[dst], src), by_bits(src, bits_of(mask, 256), 0.5))
    assert [line.split(" ")[0] for line in sequence(two_calls(t), t)].count("set_cmpmask") == 1


def test_a_selection_in_between_leaves_its_scalar():
    """SelectWithBytesMask fills the same register: what is dropped afterwards becomes its scalar."""
    src, mask = np.ones((2, 256), np.float32), np.zeros((2, 32), np.uint8)
    t = placed(src, mask, 2048) | {"dst2": local("dst2", "float", 65536, src.nbytes)}
    other = {"m": local("m", "uint8_t", 98304, 512), "o": local("o", "float", 102400, 2048)}
    info = SelectWithBytesMaskShapeInfo(2, 256, 256)
    call = two_calls(t, lambda asc: select_with_bytes_mask(asc, other["o"], t["src"], -9.0, other["m"], t["tmp"], info))
    ran = run(call, t | other, src=src, mask=mask, m=np.zeros(512, np.uint8))
    assert ran.findings == ()
    assert (ran.array(t["dst"], src) == 0).all()
    assert (ran.array(t["dst2"], src) == -18).all()


def test_without_an_initialisation_it_is_found():
    t = blank(1, 256, 32, 512)
    ((code, message, hint),) = found(kernel(t, 0.5, DropOutShapeInfo(1, 256, 32), is_init_bit_mode=True), DEVICES[2201])
    assert (code, message) == (
        "E-SELECT-UNSET",
        "Select without src1 takes its scalar from the compare-mask register, and no SetCmpMask stands before it",
    )
    assert (
        hint == "call set_cmp_mask before; a Select with src1, and library calls that select, put something else there"
    )


def test_the_framework_gives_the_temp():
    src, mask = np.ones((1, 256), np.float32), np.full((1, 32), 0x0F, np.uint8)
    t = placed(src, mask, 512)

    def call(asc):
        buf = asc.t_buf(TPosition.VECCALC, "tensors")
        asc.t_pipe().init_buffer(buf, 1, 8192)
        floats = buf.get("float")
        dst, src_ = floats[t["dst"].start_bytes // 4], floats[t["src"].start_bytes // 4]
        mask_ = buf.get("uint8_t")[t["mask"].start_bytes]
        drop_out_bit_mode_init(asc, None)
        drop_out(asc, dst, src_, mask_, None, 0.5, DropOutShapeInfo(1, 256, 32), is_init_bit_mode=True)

    ran = run(call, t, src=src, mask=mask)
    assert ran.findings == ()
    assert ran.array(t["dst"], src).tolist() == [[2, 2, 2, 2, 0, 0, 0, 0] * 32]


# ---- modes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "mask_columns", "mode"),
    [
        (64, 96, DropOutMode.BYTE_MISALIGN),
        (64, 64, DropOutMode.BYTE_ALIGN),
        (256, 32, DropOutMode.BIT_ALIGN),
        (128, 32, DropOutMode.BIT_MISALIGN),
        (16, 32, DropOutMode.BYTE_MISALIGN),  # bits of 16 elements in a datablock pass for bytes
        (32, 32, DropOutMode.BYTE_ALIGN),
        (48, 32, DropOutMode.BIT_MISALIGN),
    ],
)
def test_the_mode_that_the_shape_suggests(columns, mask_columns, mode):
    t = blank(3, columns, mask_columns, 4096)
    info = DropOutShapeInfo(3, columns, mask_columns)
    chosen = sequence(kernel(t, 0.5, info), t)
    assert chosen == sequence(kernel(t, 0.5, info, drop_out_mode=mode), t)
    assert any(line.startswith("vsel") for line in chosen) == (mode in (3, 4))
    assert any(line.startswith("vreducev2") for line in chosen) == (mode in (1, 4))


def test_modes_are_numbered_as_the_page_has_them():
    assert [int(m) for m in DropOutMode] == [0, 1, 2, 3, 4]


# ---- instructions ---------------------------------------------------------------------------------------------------


def blank(rows, columns, mask_columns, tmp_bytes, kind="float"):
    """Tensors of a call without content."""
    size = rows * columns * {"float": 4, "half": 2}[kind]
    return place(src=(kind, size), dst=(kind, size), mask=("uint8_t", rows * mask_columns), tmp=("uint8_t", tmp_bytes))


INIT = ["mask all", "vmuls all x1 1,1/8,8 tmp+0 tmp+0 =0", "barrier", "set_cmpmask x1 tmp+0", "barrier"]
"""Muls int16 by 0 on 128 lanes of temp, SetCmpMask."""
END = ["norm", "mask all"]


def select_and_scale(count, factor="2"):
    return [
        *("count", f"mask n{count}"),
        *(f"vsel n{count} x1 1,1/8,8 dst+0 src+0 mask+0", "barrier"),
        *(f"vmuls n{count} x1 1,1/8,8 dst+0 dst+0 ={factor}", "barrier"),
        *END,
    ]


@pytest.mark.parametrize(("rows", "columns"), [(32, 256), (1, 512), (128, 256)])
@pytest.mark.parametrize("kind", ["float", "half"])
def test_sequence_of_bits_in_one_run(rows, columns, kind):
    t = blank(rows, columns, columns // 8, 512, kind)
    call = kernel(t, 0.5, DropOutShapeInfo(rows, columns, columns // 8))
    assert sequence(call, t) == [*INIT, *select_and_scale(rows * columns)]


@pytest.mark.parametrize(("rows", "columns"), [(32, 240), (128, 64), (7, 16), (300, 32)])
def test_sequence_of_bits_with_gaps(rows, columns):
    """GatherMask mode 7, w/16 words of 16 bits a row, source row al32(w/8), in place."""
    row_bytes = -(-columns // 8 // 32) * 32
    t = blank(rows, columns, row_bytes, 512)
    call = kernel(t, 0.3, DropOutShapeInfo(rows, columns, row_bytes), drop_out_mode=4)
    assert sequence(call, t) == [
        *INIT,
        *("count", f"mask n{columns // 16}"),
        f"vreducev2 n{columns // 16} x{rows} 1/{row_bytes // 32},8 pattern7 mask+0 mask+0",
        *("norm", "barrier", "count"),
        *select_and_scale(rows * columns, "3.33333"),
    ]


def float_round(at, count, each):
    return [
        *(f"vconv_u82f16 n{count} x1 1,1/8,4 tmp+0 mask+{at}", "barrier"),
        *(f"vconv_f162f32 n{count} x1 1,1/8,4 tmp+{each // 2} tmp+0", "barrier"),
        *(f"vmul n{count} x1 1,1,1/8,8,8 dst+{at} tmp+{each // 2} src+{at}", "barrier"),
        *(f"vmuls n{count} x1 1,1/8,8 dst+{at} dst+{at} =2", "barrier"),
    ]


@pytest.mark.parametrize(("tmp_bytes", "each"), [(512, 64), (575, 64), (576, 96), (33 * 1024, 5632)])
def test_sequence_of_bytes(tmp_bytes, each):
    """Rounds of 32*floor(temp/192) elements: Cast uint8 -> half, Cast half -> float, Mul, Muls."""
    t = blank(3, 144, 144, tmp_bytes)
    whole, rest = divmod(432, each)
    assert sequence(kernel(t, 0.5, DropOutShapeInfo(3, 144, 144)), t) == [
        *("count", f"mask n{each}"),
        *(line for i in range(whole) for line in float_round(i * each, each, each)),
        *([f"mask n{rest}", *float_round(whole * each, rest, each)] if rest else []),
        *END,
    ]


@pytest.mark.parametrize(("rows", "columns"), [(32, 16), (7, 240)])
def test_sequence_of_bytes_with_gaps(rows, columns):
    row_bytes = -(-columns // 32) * 32
    t = blank(rows, columns, row_bytes, 33 * 1024)
    assert sequence(kernel(t, 0.5, DropOutShapeInfo(rows, columns, row_bytes)), t) == [
        *("count", f"mask n{columns // 2}"),
        f"vreducev2 n{columns // 2} x{rows} 1/{row_bytes // 32},8 pattern7 mask+0 mask+0",
        *("norm", "barrier", "count"),
        *("count", "mask n5632", f"mask n{rows * columns}", *float_round(0, rows * columns, 5632)),
        *END,
    ]


def test_sequence_of_bytes_with_half_data():
    """No second Cast; rounds of 32*floor(temp/64) elements."""
    t = blank(1, 512, 512, 512 + 32, "half")

    def one(at):
        return [
            *(f"vconv_u82f16 n256 x1 1,1/8,4 tmp+0 mask+{at}", "barrier"),
            *(f"vmul n256 x1 1,1,1/8,8,8 dst+{at} tmp+0 src+{at}", "barrier"),
            *(f"vmuls n256 x1 1,1/8,8 dst+{at} dst+{at} =2", "barrier"),
        ]

    wanted = ["count", "mask n256", *one(0), *one(256), *END]
    assert sequence(kernel(t, 0.5, DropOutShapeInfo(1, 512, 512)), t) == wanted


def test_sequence_row_by_row_on_arch_2002():
    """GatherMask has no mode 7 there."""
    t = blank(2, 48, 32, 512)
    assert sequence(kernel(t, 0.5, DropOutShapeInfo(2, 48, 32)), t, 2002) == [
        *INIT,
        *("count", "mask n48"),
        *("vsel n48 x1 1,1/8,8 dst+0 src+0 mask+0", "barrier"),
        *("vsel n48 x1 1,1/8,8 dst+48 src+48 mask+32", "barrier"),
        "mask n96",
        *("vmuls n96 x1 1,1/8,8 dst+0 dst+0 =2", "barrier"),
        *END,
    ]
    t = blank(2, 48, 64, 512)
    rows = []
    for row in range(2):
        lines = [line.replace(f"mask+{48 * row}", f"mask+{64 * row}") for line in float_round(48 * row, 48, 64)]
        rows += ["count", "mask n64", "mask n48", *lines, *END]
    assert sequence(kernel(t, 0.5, DropOutShapeInfo(2, 48, 64)), t, 2002) == rows


# ---- temp sizes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "high"), [((1, 8), 512), ((8, 8), 512), ((5, 13), 520), ((32, 256), 65536)])
def test_temp_sizes(shape, high):
    assert get_drop_out_min_tmp_size() == 512
    assert get_drop_out_max_tmp_size(shape) == high


# ---- findings -------------------------------------------------------------------------------------------------------


def call(rows=16, columns=128, mask_columns=32, keep_prob=0.5, mode=0, kinds=None, at=None, lengths=None):
    """A call by what differs from a good one of bits in padded rows."""
    kinds = {"dst": "float", "src": "float", "mask": "uint8_t", "tmp": "uint8_t"} | (kinds or {})
    places = {"dst": 0, "src": 16384, "mask": 32768, "tmp": 65536} | (at or {})
    sizes = {"dst": 4 * rows * columns, "src": 4 * rows * columns, "mask": rows * mask_columns, "tmp": 4096}
    t = {name: local(name, kinds[name], places[name], (sizes | (lengths or {}))[name]) for name in kinds}
    return kernel(t, keep_prob, DropOutShapeInfo(rows, columns, mask_columns), drop_out_mode=mode)


SEE = "see the modes and shapes in docs/attention-pieces.md"
BITS = "use one of the types named; reinterpret_cast if the bits are meant"
INVALID = "DropOut arguments invalid: "
ARGUMENTS = {
    "a mode": ({"mode": 5}, "drop_out_mode is 5, not one of 0..4"),
    "keep all": ({"keep_prob": 1}, "keep_prob is 1, not between 0 and 1"),
    "keep nothing": ({"keep_prob": 0.0}, "keep_prob is 0, not between 0 and 1"),
    "keep less": ({"keep_prob": -0.5}, "keep_prob is -0.5, not between 0 and 1"),
    "keep NaN": ({"keep_prob": float("nan")}, "keep_prob is nan, not between 0 and 1"),
    "keep what float does not hold": ({"keep_prob": 1e-60}, "keep_prob is 0, not between 0 and 1"),
    "no rows": ({"rows": 0}, "first_axis is 0"),
    "no columns": ({"columns": 0}, "src_last_axis is 0"),
    "no mask": ({"mask_columns": 0}, "mask_last_axis is 0"),
    "bits too short": (
        {"rows": 4, "columns": 512, "mode": 4},
        "mode 4: a row of the mask has 256 bits, one of the source 512 elements",
    ),
    "bytes too short": (
        {"mask_columns": 96, "mode": 1}, "mode 1: a row of the mask has 96 bytes, one of the source 128 elements",
    ),
    "gaps between bits": (
        {"mode": 3}, "mode 3 has no gaps: a row of the mask has 256 bits, one of the source 128",
    ),
    "gaps between bytes": (
        {"mode": 2, "mask_columns": 160}, "mode 2 has no gaps: a row of the mask has 160 bytes, one of the source 128",
    ),
    "an odd row of bits": ({"mask_columns": 17, "mode": 4}, "mode 4: mask_last_axis is 17, no multiple of 2"),
    "an odd row of bytes": ({"mask_columns": 129}, "mode 1: mask_last_axis is 129, no multiple of 2"),
    "a row of odd datablocks": (
        {"mask_columns": 18, "mode": 4}, "mode 4: a row of the mask is 18 B, no multiple of 32 B",
    ),
    "an odd number of bytes that hold bits": (
        {"columns": 120}, "mode 4: a row of the source has 120 elements, no multiple of 16",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_invalid_arguments(name):
    how, why = ARGUMENTS[name]
    assert found(call(**how), DEVICES[2201]) == (("E-DROPOUT", INVALID + why, SEE),)


FINDINGS = {
    "data of integers": (
        {"kinds": {"dst": "int32_t", "src": "int32_t"}},
        "E-DTYPE-OP", "DropOut does not support int32_t for dst; it takes half, float", BITS,
    ),
    "a source of another type": (
        {"kinds": {"src": "half"}}, "E-DTYPE-OP", "DropOut does not support half for src; it takes float", BITS,
    ),
    "a mask of words": (
        {"kinds": {"mask": "uint16_t"}, "lengths": {"mask": 1024}},
        "E-DTYPE-OP", "DropOut does not support uint16_t for mask; it takes uint8_t", BITS,
    ),
    "padded rows of odd datablocks": (
        {"columns": 12, "mask_columns": 32, "mode": 1},
        "E-ALIGN-LASTAXIS", "DropOut last axis 12 is 48 B, no multiple of 32 B", "pad the last axis to 16 elements",
    ),
    "a short mask": (
        {"lengths": {"mask": 480}},
        "E-OOB-LOCAL", "DropOut mask has 480 elements, 16x128 with mask rows of 32 needs 512",
        "allocate the padded shape",
    ),
    "a temp of floats": (
        {"kinds": {"tmp": "float"}}, "E-TMP-DTYPE", "temp tensor is float, must be uint8_t",
        "reinterpret_cast it to uint8_t",
    ),
    "a temp below the minimum": (
        {"lengths": {"tmp": 480}},
        "E-TMP-SMALL", "DropOut temp has 480 B, the minimum for any shape is 512 B",
        "enlarge it to at least the minimum (GetDropOutMinTmpSize)",
    ),
    "a temp on the source": (
        {"at": {"tmp": 16384 + 8160}}, "E-OVERLAP-TMP", "DropOut temp overlaps src", "give the temp its own memory",
    ),
    "a destination partly on the source": (
        {"at": {"dst": 16384 - 64}},
        "E-OVERLAP", "DropOut dst overlaps src without being the same tensor", "let them coincide, or keep them apart",
    ),
    "a destination on the mask": (
        {"at": {"dst": 32768 - 32}}, "E-OVERLAP", "DropOut dst overlaps mask", "keep them apart",
    ),
    "a destination that is the mask": (
        {"rows": 1, "columns": 128, "mask_columns": 512, "mode": 1, "at": {"dst": 32768}},
        "E-OVERLAP-TENSOR", "DropOut dst and mask are the same tensor", "give each its own memory",
    ),
    "a mask with gaps on the source": (
        {"at": {"mask": 16384}}, "E-OVERLAP", "DropOut mask overlaps src", "keep them apart",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FINDINGS)
def test_findings(name):
    how, *wanted = FINDINGS[name]
    assert found(call(**how), DEVICES[2201]) == (tuple(wanted),)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"at": {"dst": 16384}},
        {"lengths": {"tmp": 512}},
        {"mode": 3, "mask_columns": 16},
        {"mode": 3, "mask_columns": 16, "at": {"mask": 16384}},  # read only
        {"mode": 2, "columns": 13, "mask_columns": 13},  # one run, whatever its rows
    ],
)
def test_good_calls_have_none(how):
    assert found(call(**how), DEVICES[2201]) == ()


def test_products_without_it_and_parts_that_are_not_modelled():
    assert found(call(), load_device("Ascend310B1")) == (
        (
            "E-API-PRODUCT",
            "DropOut is no instruction of Ascend310B1 (arch 3002): asc-devkit, DropOut page, product table",
            "use an instruction that the device has, or another device",
        ),
    )
    with pytest.raises(KernelError) as error:
        record(call(), load_device("Ascend950PR_9579"), 1, (), ())
    assert "DropOut: Ascend950PR_9579 (arch 3510) computes through vector registers" in str(error.value)


@pytest.mark.parametrize("keep_prob", ["half", None])
def test_what_is_no_number_is_refused(keep_prob):
    with pytest.raises(KernelError) as error:
        record(call(keep_prob=keep_prob), DEVICES[2201], 1, (), ())
    assert str(error.value).endswith(f"DropOut: keep_prob must be a number, got {keep_prob!r}")
