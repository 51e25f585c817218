"""SelectWithBytesMask: values against np.where, instructions against the library's, temp sizes, findings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from piece_harness import DEVICES, NAMES, found, local, place, run, same, sequence

from ascendsim.device import load_device
from ascendsim.errors import KernelError
from ascendsim.op_host.select_with_bytes_mask import (
    get_select_with_bytes_mask_max_tmp_size,
    get_select_with_bytes_mask_min_tmp_size,
)
from ascendsim.op_kernel import SelectWithBytesMaskShapeInfo, select_with_bytes_mask
from ascendsim.record import record

many = settings(max_examples=60, deadline=None, derandomize=True)
LOWEST = float(np.uint32(0xFF7FFFFF).view(np.float32))
SCALARS = [0.0, -1.5, LOWEST, float("inf"), float("nan")]


def kernel(t, scalar, info, is_inverted=False, **more):
    sources = (scalar, t["src"]) if is_inverted else (t["src"], scalar)
    return lambda asc: select_with_bytes_mask(asc, t["dst"], *sources, t["mask"], t["tmp"], info, **more)


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


# ---- values ---------------------------------------------------------------------------------------------------------


@many
@given(data=st.data())
def test_values_with_a_mask_of_bytes(data):
    arch, is_inverted, is_reuse_mask = data.draw(st.tuples(st.sampled_from([2201, 2002]), st.booleans(), st.booleans()))
    kind = data.draw(st.sampled_from([np.float32, np.float16]))
    rows, columns = data.draw(st.integers(1, 20)), 32 // np.dtype(kind).itemsize * data.draw(st.integers(1, 20))
    mask_columns = -(-columns // 32) * 32 + 32 * data.draw(st.integers(0, 2))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    src = sources(rng, (rows, columns), kind)
    mask = (rng.integers(0, 256, (rows, mask_columns)) * rng.integers(0, 2, (rows, mask_columns))).astype(np.uint8)
    shapes = (src.shape, mask.shape, 1)
    low = get_select_with_bytes_mask_min_tmp_size(*shapes, is_reuse_mask=is_reuse_mask)
    high = get_select_with_bytes_mask_max_tmp_size(*shapes, is_reuse_mask=is_reuse_mask)
    t = placed(src, mask, data.draw(st.integers(low, high)), in_place=data.draw(st.booleans()))
    scalar = data.draw(st.sampled_from(SCALARS))
    call = kernel(
        t, scalar, SelectWithBytesMaskShapeInfo(rows, columns, mask_columns), is_inverted, is_reuse_mask=is_reuse_mask
    )
    gaps = [("mask", row * mask_columns + columns, (row + 1) * mask_columns) for row in range(rows)]
    ran = run(call, t, arch, gaps, src=src, mask=mask)
    assert ran.findings == ()
    with np.errstate(over="ignore"):
        want = np.where((mask[:, :columns] != 0) != is_inverted, kind(scalar), src)
    assert same(ran.array(t["dst"], src), want)
    if not is_reuse_mask or mask_columns == columns or arch == 2002:
        assert (ran.array(t["mask"], mask) == mask).all()
    else:
        closed = ran.array(t["mask"], mask).reshape(-1)[: rows * columns]
        assert (closed == mask[:, :columns].reshape(-1)).all()


WORDS = {
    "uint8": [0, 1, 255],
    "int8": [0, 1, -1, -128],
    "uint16": [0, 1, 32768, 65535],
    "int16": [0, 1, -1, -32768],
    "uint32": [0, 1, 2**23 - 1, 2**31 + 1, 0x7F800000, 0x3F800000],
    "int32": [0, 1, -1, 2**31 - 1],
}
"""Masks' elements; of 32-bit ones also subnormal floats, the infinity and NaN as which they are converted."""


@many
@given(data=st.data())
def test_values_with_masks_of_other_types(data):
    kind, is_inverted = data.draw(st.sampled_from(sorted(WORDS))), data.draw(st.booleans())
    rows, columns = data.draw(st.integers(1, 9)), 8 * data.draw(st.integers(1, 9))
    mask_columns = -(-columns // 32) * 32 + 32 * data.draw(st.integers(0, 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    src, mask = sources(rng, (rows, columns), np.float32), rng.choice(WORDS[kind], (rows, mask_columns)).astype(kind)
    t = placed(src, mask, 2048 + 4 * rows * columns)
    info = SelectWithBytesMaskShapeInfo(rows, columns, mask_columns)
    ran = run(kernel(t, 2.0, info, is_inverted, is_reuse_mask=data.draw(st.booleans())), t, src=src, mask=mask)
    assert ran.findings == ()
    assert same(ran.array(t["dst"], src), np.where((mask[:, :columns] != 0) != is_inverted, np.float32(2), src))


@pytest.mark.parametrize(("arch", "is_zero"), [(2201, [True, True, False]), (2002, [True, True, True])])
def test_words_whose_half_is_zero_count_as_zero(arch, is_zero):
    """Words of 32 bits are taken as floats: -2**31 is -0; a NaN becomes 0 where conversions saturate."""
    src, mask = np.ones((1, 16), np.float32), np.zeros((1, 16), np.uint32)
    mask[0, 1:3] = 2**31, 0x7FC00000
    t = placed(src, mask, 1024)
    ran = run(kernel(t, 5.0, SelectWithBytesMaskShapeInfo(1, 16, 16)), t, arch, src=src, mask=mask)
    assert (ran.array(t["dst"], src)[0, :3] == 1).tolist() == is_zero


def test_a_register_as_scalar():
    src, mask = np.arange(8, dtype=np.float32)[None], np.uint8([[0, 1] * 16])
    t = placed(src, mask, 1024) | {"s": local("s", "float", 65536, 32)}

    def call(asc):
        value = asc.get_value(t["s"], 1)
        select_with_bytes_mask(
            asc, t["dst"], t["src"], value, t["mask"], t["tmp"], SelectWithBytesMaskShapeInfo(1, 8, 32)
        )

    ran = run(call, t, src=src, mask=mask, s=np.float32([7, 9]))
    assert ran.findings == ()
    assert ran.array(t["dst"], src).tolist() == [[0, 9, 2, 9, 4, 9, 6, 9]]


def test_a_chunk_of_32640_elements_at_most():
    src = (np.arange(33024) % 7).astype(np.float16)[None]
    mask = (np.arange(33024) % 3 == 0).astype(np.uint8)[None]
    t = place(src=src, mask=mask, tmp=("uint8_t", 66048 + 512))
    t = t | {"dst": t["src"]}
    ran = run(kernel(t, -1.0, SelectWithBytesMaskShapeInfo(1, 33024, 33024)), t, src=src, mask=mask)
    assert ran.findings == ()
    assert same(ran.array(t["dst"], src), np.where(mask, np.float16(-1), src))
    counts = [row.mask_lo for row in ran.program.templates[0].rows if row.op.name == "select_held"]
    assert counts == [32640, 384]


# ---- instructions ---------------------------------------------------------------------------------------------------


def blank(rows, columns, mask_columns, tmp_bytes, kind="float", mask="uint8_t"):
    """Tensors of a call without content."""
    size, width = rows * columns * {"float": 4, "half": 2}[kind], {"uint8_t": 1, "int16_t": 2, "int32_t": 4}[mask]
    return place(
        src=(kind, size), dst=(kind, size), mask=(mask, rows * mask_columns * width), tmp=("uint8_t", tmp_bytes)
    )


def held(kind, scalar):
    """The scalar goes into the compare-mask register."""
    lanes = {"float": 64, "half": 128}[kind]
    return ["barrier", "count", f"mask n{lanes}", f"vector_dup n{lanes} x1 1/8 tmp+0 ={scalar:g}", "barrier",
            "set_cmpmask x1 tmp+0", "barrier"]  # fmt: skip


def chunk(at, count, mask, relation="eq", cast="vconv_u82f16", strides="1,1/8,4", tmp_at=0):
    """Cast, CompareScalar in place over whole repeats of 128, Select, with a barrier behind each."""
    return [
        f"mask n{count}",
        f"{cast} n{count} x1 {strides} tmp+{tmp_at // 2} {mask}+{at}",
        "barrier",
        f"vcmpvs_{relation} x{-(-count // 128)} 1,1/8,8 tmp+{tmp_at} tmp+{tmp_at // 2} =0",
        "barrier",
        f"vsel n{count} x1 1,1/8,8 dst+{at} src+{at} tmp+{tmp_at}",
        "barrier",
    ]


END = ["norm", "mask all"]


@pytest.mark.parametrize(("rows", "columns"), [(32, 256), (128, 64), (3, 32), (5, 96)])
@pytest.mark.parametrize("is_inverted", [False, True])
def test_sequence_of_a_mask_without_gaps(rows, columns, is_inverted):
    """The attention backward's 33 KiB of temp: chunks of 16,768 elements, so one pass."""
    t = blank(rows, columns, columns, 33 * 1024)
    call = kernel(t, LOWEST, SelectWithBytesMaskShapeInfo(rows, columns, columns), is_inverted)
    relation = "ne" if is_inverted else "eq"
    assert sequence(call, t) == [*held("float", LOWEST), *chunk(0, rows * columns, "mask", relation), *END]


@pytest.mark.parametrize(("rows", "columns", "mask_columns"), [(32, 16, 32), (7, 240, 256), (128, 48, 64)])
def test_sequence_of_a_mask_with_gaps(rows, columns, mask_columns):
    """GatherMask mode 7 on 16-bit words in place: w/2 for each row, r rows, the mask's row between them."""
    t = blank(rows, columns, mask_columns, 33 * 1024)
    assert sequence(kernel(t, 1.0, SelectWithBytesMaskShapeInfo(rows, columns, mask_columns)), t) == [
        *held("float", 1),
        *("count", f"mask n{columns // 2}"),
        f"vreducev2 n{columns // 2} x{rows} 1/{mask_columns // 32},0 pattern7 mask+0 mask+0",
        *("norm", "count", "barrier"),
        *chunk(0, rows * columns, "mask"),
        *END,
    ]


def test_sequence_of_a_mask_that_must_not_change():
    """The mask without its gaps goes to the start of temp, the halves behind it."""
    t = blank(10, 24, 32, 4096)
    assert sequence(kernel(t, 1.0, SelectWithBytesMaskShapeInfo(10, 24, 32), is_reuse_mask=False), t) == [
        *held("float", 1),
        *("count", "mask n12", "vreducev2 n12 x10 1/1,0 pattern7 tmp+0 mask+0", "norm", "count", "barrier"),
        *chunk(0, 240, "tmp", tmp_at=256),
        *END,
    ]


@pytest.mark.parametrize(("tmp_bytes", "each"), [(8704, 4224), (8704 + 63, 4224), (8704 + 64, 4256), (17152, 8192)])
def test_sequence_in_chunks(tmp_bytes, each):
    """min(down32((temp - 256) / 2), 32640) elements at once."""
    t = blank(32, 256, 256, tmp_bytes)
    parts = [(at, min(each, 8192 - at)) for at in range(0, 8192, each)]
    assert sequence(kernel(t, 1.0, SelectWithBytesMaskShapeInfo(32, 256, 256)), t) == [
        *held("float", 1),
        *(line for at, count in parts for line in chunk(at, count, "mask")),
        *END,
    ]


@pytest.mark.parametrize(
    ("mask", "cast", "strides"),
    [("int16_t", "vconv_s162f16", "1,1/8,8"), ("int32_t", "vconv_f322f16o", "1,1/4,8")],
)
def test_sequence_of_wider_masks(mask, cast, strides):
    t = blank(4, 32, 32, 1024, "half", mask)
    assert sequence(kernel(t, 1.0, SelectWithBytesMaskShapeInfo(4, 32, 32)), t) == [
        *held("half", 1),
        *chunk(0, 128, "mask", cast=cast, strides=strides),
        *END,
    ]


def test_sequence_row_by_row_on_arch_2002():
    """GatherMask has no mode 7 there."""
    t = blank(3, 24, 32, 1024)
    rows = []
    for row in range(3):
        lines = chunk(24 * row, 24, "mask")
        rows += [line.replace(f"mask+{24 * row}", f"mask+{32 * row}") for line in lines]
    assert sequence(kernel(t, 1.0, SelectWithBytesMaskShapeInfo(3, 24, 32)), t, 2002) == [
        *held("float", 1),
        *rows,
        *END,
    ]


# ---- temp sizes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("src", "mask", "width", "reuse", "low", "high"),
    [
        ((1, 8), (1, 32), 1, True, 1024, 1024),
        ((2, 128), (2, 128), 1, True, 1024, 1024),
        ((3, 96), (3, 96), 1, True, 1088, 1088),  # 288 halves and 512 B
        ((5, 56), (5, 64), 1, True, 1088, 1088),  # 280 are 288
        ((5, 56), (5, 64), 1, False, 1088 + 288, 1088 + 288),
        ((5, 56), (5, 64), 2, False, 1088 + 576, 1088 + 576),  # 560 B are 576
        ((5, 64), (5, 64), 2, False, 1152, 1152),
        ((32, 128), (32, 128), 1, True, 8704, 8704),
        ((32, 256), (32, 256), 1, True, 8704, 16896),
        ((64, 128), (64, 160), 4, False, 8704 + 32768, 16896 + 32768),
    ],
)
def test_temp_sizes(src, mask, width, reuse, low, high):
    assert get_select_with_bytes_mask_min_tmp_size(src, mask, width, is_reuse_mask=reuse) == low
    assert get_select_with_bytes_mask_max_tmp_size(src, mask, width, is_reuse_mask=reuse) == high


# ---- findings -------------------------------------------------------------------------------------------------------


def call(rows=16, columns=128, mask_columns=128, kinds=None, at=None, lengths=None, **more):
    """A call by what differs from a good one."""
    kinds = {"dst": "float", "src": "float", "mask": "uint8_t", "tmp": "uint8_t"} | (kinds or {})
    places = {"dst": 0, "src": 16384, "mask": 32768, "tmp": 65536} | (at or {})
    sizes = {"dst": 4 * rows * columns, "src": 4 * rows * columns, "mask": 4 * rows * mask_columns, "tmp": 8192}
    sizes = sizes | (lengths or {})
    t = {name: local(name, kinds[name], places[name], sizes[name]) for name in kinds}
    return kernel(t, 1.0, SelectWithBytesMaskShapeInfo(rows, columns, mask_columns), **more)


ROWS = "pad rows of the mask to whole datablocks, at least as long as those of the source"
BITS = "use one of the types named; reinterpret_cast if the bits are meant"
KINDS = ("uint8_t", "int8_t", "uint16_t", "int16_t", "uint32_t", "int32_t")
INVALID = "SelectWithBytesMask arguments invalid: "
FINDINGS = {
    "data of integers": (
        {"kinds": {"dst": "int32_t", "src": "int32_t"}},
        "E-DTYPE-OP", "SelectWithBytesMask does not support int32_t for dst; it takes half, float", BITS,
    ),
    "a source of another type": (
        {"kinds": {"src": "half"}},
        "E-DTYPE-OP", "SelectWithBytesMask does not support half for src; it takes float", BITS,
    ),
    "a mask of floats": (
        {"kinds": {"mask": "float"}},
        "E-DTYPE-OP",
        f"SelectWithBytesMask does not support float for mask; it takes {', '.join(KINDS)}",
        BITS,
    ),
    "no rows": ({"rows": 0}, "E-BYTESMASK", INVALID + "first_axis is 0", ROWS),
    "no columns": ({"columns": 0}, "E-BYTESMASK", INVALID + "src_last_axis is 0", ROWS),
    "mask rows that are too short": (
        {"mask_columns": 96},
        "E-BYTESMASK", INVALID + "rows of the mask have 96 elements, those of the source 128", ROWS,
    ),
    "mask rows of odd datablocks": (
        {"columns": 120, "mask_columns": 144},
        "E-BYTESMASK", INVALID + "a row of the mask is 144 B, no multiple of 32 B", ROWS,
    ),
    "mask rows of odd elements": (
        {"columns": 120, "mask_columns": 120, "kinds": {"mask": "int32_t"}},
        "E-BYTESMASK", INVALID + "a row of the mask has 120 elements, no multiple of 16", ROWS,
    ),
    "source rows of odd datablocks": (
        {"columns": 100},
        "E-ALIGN-LASTAXIS", "SelectWithBytesMask last axis 100 is 400 B, no multiple of 32 B",
        "pad the last axis to 104 elements",
    ),
    "a short mask": (
        {"mask_columns": 160, "lengths": {"mask": 2048}},
        "E-OOB-LOCAL", "SelectWithBytesMask mask has 2048 elements, 16x128 with mask rows of 160 needs 2560",
        "allocate the padded shape",
    ),
    "a temp of floats": (
        {"kinds": {"tmp": "float"}}, "E-TMP-DTYPE", "temp tensor is float, must be uint8_t",
        "reinterpret_cast it to uint8_t",
    ),
    "a temp below the minimum": (
        {"lengths": {"tmp": 4576}},
        "E-TMP-SMALL", "SelectWithBytesMask temp has 4576 B, the minimum for 16x128 is 4608 B",
        "enlarge it to at least the minimum (GetSelectWithBytesMaskMinTmpSize)",
    ),
    "a temp without room for the mask": (
        {"mask_columns": 160, "is_reuse_mask": False, "lengths": {"tmp": 6624}},
        "E-TMP-SMALL", "SelectWithBytesMask temp has 6624 B, the minimum for 16x128 is 6656 B",
        "enlarge it to at least the minimum (GetSelectWithBytesMaskMinTmpSize)",
    ),
    "a temp on the mask": (
        {"at": {"tmp": 32768}}, "E-OVERLAP-TMP", "SelectWithBytesMask temp overlaps mask",
        "give the temp its own memory",
    ),
    "a destination partly on the source": (
        {"at": {"dst": 16384 + 64}},
        "E-OVERLAP", "SelectWithBytesMask dst overlaps src without being the same tensor",
        "let them coincide, or keep them apart",
    ),
    "a destination on the mask": (
        {"at": {"dst": 32768 + 1024}}, "E-OVERLAP", "SelectWithBytesMask dst overlaps mask", "keep them apart",
    ),
    "a destination that is the mask": (
        {"kinds": {"mask": "int32_t"}, "at": {"dst": 32768}},
        "E-OVERLAP-TENSOR", "SelectWithBytesMask dst and mask are the same tensor", "give each its own memory",
    ),
    "a mask with gaps on the source": (
        {"mask_columns": 160, "at": {"mask": 16384 + 4096}},
        "E-OVERLAP", "SelectWithBytesMask mask overlaps src", "keep them apart",
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
        {"lengths": {"tmp": 4608}},
        {"mask_columns": 160, "is_reuse_mask": False, "lengths": {"tmp": 6656}},
        {"at": {"mask": 16384 + 4096}},  # read only
        {"mask_columns": 160, "is_reuse_mask": False, "at": {"mask": 16384 + 4096}},
    ],
)
def test_good_calls_have_none(how):
    assert found(call(**how), DEVICES[2201]) == ()


def test_two_tensors_or_two_scalars_are_refused():
    t = blank(1, 32, 32, 1024)
    info = SelectWithBytesMaskShapeInfo(1, 32, 32)
    for sources_, kinds in ((("src", "src"), "LocalTensor, src1 LocalTensor"), ((1.0, 2), "float, src1 int")):
        pair = [t.get(s, s) for s in sources_]
        with pytest.raises(KernelError) as error:
            record(
                lambda asc, pair=pair: select_with_bytes_mask(asc, t["dst"], *pair, t["mask"], t["tmp"], info),
                DEVICES[2201], 1, (), (),
            )  # fmt: skip
        assert str(error.value).endswith(
            f"one source must be a LocalTensor, the other a number or a Register, got src0 {kinds}"
        )


def test_a_product_without_it():
    page = "asc-devkit, Select page among the high-level APIs, product table"
    assert found(call(), load_device("Ascend310B1")) == (
        (
            "E-API-PRODUCT",
            f"SelectWithBytesMask is no instruction of Ascend310B1 (arch 3002): {page}",
            "use an instruction that the device has, or another device",
        ),
    )


def test_a_part_whose_library_is_not_modelled():
    with pytest.raises(KernelError) as error:
        record(call(), load_device("Ascend950PR_9579"), 1, (), ())
    assert "SelectWithBytesMask: Ascend950PR_9579 (arch 3510) computes through vector registers" in str(error.value)
