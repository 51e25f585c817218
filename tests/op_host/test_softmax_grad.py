"""SoftmaxGrad temp sizes and tilings against golden rows, worked examples, error texts and properties."""

import csv
import pickle
from ctypes import c_uint32
from dataclasses import astuple, fields, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.errors import InputError
from ascendsim.op_host import softmax
from ascendsim.op_host.softmax import SoftMaxInputError, SoftMaxTiling

GOLDEN = Path(__file__).parent.parent / "golden"
BYTES = {"half": 2, "float": 4}
ARCHS = (2201, 2002, 3002, 3510, 5102, 3003)
SOC_FAMILY = {
    "2201": "Ascend910B/Ascend910_93",
    "2002": "Ascend310P",
    "3002": "Ascend310B",
    "3510": "Ascend950",
    "5102": "MC62CM12A",
    "3003": "unlisted_3003",
}
FIELDS = [
    "srcM", "srcK", "srcSize", "outMaxM", "outMaxK", "outMaxSize", "splitM", "splitK", "splitSize",
    "reduceM", "reduceK", "reduceSize", "rangeM", "tailM", "tailSplitSize", "tailReduceSize",
]  # fmt: skip
SIZES = {
    "GetSoftMaxGradMinTmpSize": softmax.get_soft_max_grad_min_tmp_size,
    "GetSoftMaxGradMaxTmpSize": softmax.get_soft_max_grad_max_tmp_size,
}


@cache
def rows(name):
    with (GOLDEN / name).open(newline="") as file:
        return tuple(csv.DictReader(file))


def shape_of(text):
    """Axes of a golden shape; "-1x64" has a minus sign, "-" is rank 0."""
    return () if text == "-" else tuple(int(axis) for axis in text.split("x"))


def snake(name):
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def row_floats(k, size, front):
    """The facts' closed form, written apart from the module's."""
    return 3 * k + 96 if size == 2 else k + (72 if front else 80)


def unwrapped_bytes(row):
    """Bytes a size function returns for a golden row if integers had no end."""
    *leading, k = shape_of(row["shape"])
    m, front = prod(leading), row["is_front"] == "1"
    one_row = 4 * row_floats(k, int(row["dtype_size"]), front)
    if row["function"] == "GetSoftMaxGradMaxTmpSize":
        return m * one_row
    if row["arch"] in {"3510", "5102"}:
        return 4 * (-(-m // 64) * 64 if front else -(-2 * m // 128) * 128)
    return one_row


# --- golden rows, all columns ---


def test_struct_has_canns_fields_in_canns_order():
    assert [field.name for field in fields(SoftMaxTiling)] == [snake(name) for name in FIELDS]


def test_tmp_sizes_equal_every_golden_row():
    table = rows("softmaxgrad_tmpsize.csv")
    assert len(table) == 3960
    for row in table:
        shape, size = shape_of(row["shape"]), BYTES[row["dtype"]]
        arguments = shape, size, row["is_front"] == "1", int(row["arch"])
        got = [
            row["arch"], SOC_FAMILY[row["arch"]], row["dtype"], row["is_front"], row["shape"],
            str(prod(shape[:-1])), str(shape[-1]),
            str(softmax.get_soft_max_grad_min_tmp_size(*arguments)),
            str(softmax.get_soft_max_grad_max_tmp_size(*arguments)),
        ]  # fmt: skip
        assert got == list(row.values())


def test_host_tilings_equal_every_golden_row():
    table = rows("softmaxgrad_tiling.csv")
    assert len(table) == 4798
    for row in table:
        shape, size, front, arch = (
            shape_of(row["shape"]), BYTES[row["dtype"]], row["is_front"] == "1", int(row["arch"]),
        )  # fmt: skip
        tiling = softmax.soft_max_grad_tiling_func(shape, size, int(row["local_workspace_bytes"]), front)
        got = [
            row["arch"], SOC_FAMILY[row["arch"]], row["dtype"], row["is_front"], row["shape"],
            str(tiling.src_m), str(tiling.src_k),
            str(softmax.get_soft_max_grad_min_tmp_size(shape, size, front, arch)),
            str(softmax.get_soft_max_grad_max_tmp_size(shape, size, front, arch)),
            row["local_workspace_bytes"],
            *map(str, astuple(tiling)),
        ]  # fmt: skip
        assert got == list(row.values())
        assert tiling.split_m or arch in {3510, 5102}


def test_kernel_tilings_equal_every_golden_row():
    table = rows("softmaxgrad_device_tiling.csv")
    assert len(table) == 1920
    for row in table:
        arguments = int(row["m"]), int(row["k"]), BYTES[row["dtype"]], int(row["work_local_elems"])
        front, basic, nz = (row[flag] == "1" for flag in ("is_front", "is_basic_block", "is_nz"))
        if row["status"] == "ok":
            tiling = softmax.soft_max_grad_kernel_tiling(*arguments, front, is_basic_block=basic, is_nz=nz)
        else:
            with pytest.raises(SoftMaxInputError, match="a debug build asserts and a release build divides") as caught:
                softmax.soft_max_grad_kernel_tiling(*arguments, front, is_basic_block=basic, is_nz=nz)
            assert caught.value.cann.status == row["status"]
            tiling = caught.value.cann.tiling
        assert [str(value) for value in astuple(tiling)] == [row[name] for name in FIELDS]


def test_basic_block_answers_equal_every_golden_row():
    table = rows("softmax_is_basic_block.csv")
    assert len(table) == 255
    for row in table:
        tiling = SoftMaxTiling(src_k=int(row["srcK"]), tail_m=int(row["tailM"]))
        answer = softmax.is_basic_block_in_soft_max(tiling, int(row["dtype_size"]))
        assert answer == (row["result"] == "1"), row
    assert softmax.is_basic_block_in_soft_max(SoftMaxTiling(src_k=128))
    assert not softmax.is_basic_block_in_soft_max(SoftMaxTiling(src_k=64))


def outcome_of(row):
    shape, size, front = shape_of(row["shape"]), int(row["dtype_size"]), row["is_front"] == "1"
    if row["function"] == "SoftMaxGradTilingFunc":
        return softmax.cann_outcome_tiling(shape, size, int(row["local_workspace_bytes"]), front)
    reuse = row["case"] == "reuse_source_true"
    return softmax.cann_outcome_tmp_size(row["function"], shape, size, front, int(row["arch"]), is_reuse_source=reuse)


def call(row):
    shape, size, front = shape_of(row["shape"]), int(row["dtype_size"]), row["is_front"] == "1"
    if row["function"] == "SoftMaxGradTilingFunc":
        return softmax.soft_max_grad_tiling_func(shape, size, int(row["local_workspace_bytes"]), front)
    return SIZES[row["function"]](shape, size, front, int(row["arch"]))


WRAP_PHRASES = (
    "arithmetic is 32-bit unsigned and wraps silently unless the truncated element count is 0",
    "sizes wrap silently",
)
BELOW_ONE_ROW = "fewer bytes than one row needs: tile height 0, rangeM not written"
PHRASES_THE_TABLE_LACKS = {
    # (case, function, stale fields): what our meaning says where the table says nothing or less
    ("negative_dim", "SoftMaxGradTilingFunc", "none"):
        "dynamic dim: element count is -1 as int64 and large as uint32",
    ("uint32_overflow", "SoftMaxGradTilingFunc", "rangeM"): BELOW_ONE_ROW,
    ("basic_block_halving_to_zero", "SoftMaxGradTilingFunc", "rangeM"):
        "halving the tile below 16384 elements ends at tile height 0, rangeM not written",
    ("empty_shape", "SoftMaxGradTilingFunc", ""):
        "rank 0: the last-axis check reads the end of an empty list (undefined behaviour)",
}  # fmt: skip


def without_wrap_phrases(meaning):
    for phrase in WRAP_PHRASES:
        meaning = meaning.replace(phrase, "")
    return meaning.strip("; ")


def expected_meaning(row):
    key = row["case"], row["function"], row["fields_left_stale_if_struct_reused"]
    return PHRASES_THE_TABLE_LACKS.get(key, without_wrap_phrases(row["meaning"]))


def something_wraps(row, returned):
    """Whether the element count or the result exceeds 32 bits, from exact integers."""
    shape = shape_of(row["shape"])
    if not shape:
        return False
    if not 0 <= prod(shape) < 2**32:
        return True
    if row["function"] == "SoftMaxGradTilingFunc" or returned == 0:
        return False
    exact = unwrapped_bytes(row)
    assert exact % 2**32 == returned
    return exact != returned


def test_bad_input_equals_every_golden_row():
    table = rows("softmaxgrad_tiling_errors.csv")
    assert len(table) == 798
    for row in table:
        outcome = outcome_of(row)
        tiling = outcome.tiling
        heights = (tiling.split_m, tiling.reduce_m, tiling.range_m, tiling.tail_m) if tiling else ("",) * 4
        assert {
            "function": outcome.function,
            "status": outcome.status,
            "returned_bytes": "" if outcome.returned_bytes is None else str(outcome.returned_bytes),
            "splitM": str(heights[0]),
            "reduceM": str(heights[1]),
            "rangeM": str(heights[2]),
            "tailM": str(heights[3]),
            "fields_left_stale_if_struct_reused": outcome.fields_left_stale if tiling else "",
            "log_codes": ";".join(outcome.log_codes),
            "meaning": without_wrap_phrases(outcome.meaning),
        }.items() <= (row | {"meaning": expected_meaning(row)}).items(), row
        assert outcome.wrapped == something_wraps(row, outcome.returned_bytes), row
        assert (WRAP_PHRASES[0] in outcome.meaning) == (outcome.wrapped and row["case"] != "negative_dim")


def test_errors_are_raised_exactly_where_cann_logs_an_error_refuses_or_crashes():
    raised = 0
    for row in rows("softmaxgrad_tiling_errors.csv"):
        logged_error = any(code.startswith("E_") for code in row["log_codes"].split(";"))
        if logged_error or row["status"] in {"rejected", "crash_SIGSEGV"}:
            with pytest.raises(SoftMaxInputError) as caught:
                call(row)
            assert caught.value.cann == outcome_of(row)
            raised += 1
        else:
            answer = call(row)
            assert answer == (outcome_of(row).tiling or int(row["returned_bytes"]))
    assert raised == 390 + 216 + 12 + 6


# --- error texts ---

MIN, MAX, TILING = (
    softmax.get_soft_max_grad_min_tmp_size,
    softmax.get_soft_max_grad_max_tmp_size,
    softmax.soft_max_grad_tiling_func,
)
KERNEL = softmax.soft_max_grad_kernel_tiling
REFUSED_TILING = "it leaves an optiling struct as it was and fills a plain struct with zeros."
KERNEL_DIES = "In CANN a debug build asserts and a release build divides by zero."
NO_ELEMENTS = "which CANN counts as 0; use axes of at least 1 and a product below 2**32"

TEXTS = {
    "unaligned half": (
        lambda: MIN((8, 24), 2, False, 2201),
        (
            "GetSoftMaxGradMinTmpSize: last axis 24 of 2-byte elements is 48 bytes, not a multiple of 32; pad K to 32."
            " CANN logs E_LAST_AXIS_UNALIGNED and still returns 672."
        ),
    ),
    "unaligned float": (
        lambda: MAX((4, 3, 4), 4, True, 3510),
        (
            "GetSoftMaxGradMaxTmpSize: last axis 4 of 4-byte elements is 16 bytes, not a multiple of 32; pad K to 8."
            " CANN logs E_LAST_AXIS_UNALIGNED and still returns 3648."
        ),
    ),
    "unaligned tiling": (
        lambda: TILING((7, 100), 2, 16384, False),
        (
            "SoftMaxGradTilingFunc: last axis 100 of 2-byte elements is 200 bytes, not a multiple of 32; pad K to 112."
            " CANN logs E_LAST_AXIS_UNALIGNED and still fills the struct, split_m with 7."
        ),
    ),
    "element size": (
        lambda: MAX((8, 16, 64), 1, False, 2201),
        (
            "GetSoftMaxGradMaxTmpSize: element size 1 is not supported; use 2 (half) or 4 (float)."
            " CANN logs E_TYPE_SIZE, E_DTYPE_REJECT and returns 0."
        ),
    ),
    "element size and workspace": (
        lambda: TILING((8, 64), 8, 0, False),
        (
            "SoftMaxGradTilingFunc: element size 8 is not supported; use 2 (half) or 4 (float);"
            " workspace too small: 0 bytes; pass at least one row."
            f" CANN logs E_TYPE_SIZE, E_WORKSPACE_ZERO, E_DTYPE_REJECT; {REFUSED_TILING}"
        ),
    ),
    "everything at once": (
        lambda: TILING((0, 3), 5, 0, False),
        (
            "SoftMaxGradTilingFunc: last axis 3 of 5-byte elements is 15 bytes, not a multiple of 32; pad K to 32;"
            " element size 5 is not supported; use 2 (half) or 4 (float);"
            f" workspace too small: 0 bytes; pass at least one row; shape 0x3 has 0 elements, {NO_ELEMENTS}."
            " CANN logs E_SHAPE_SIZE, E_LAST_AXIS_UNALIGNED, E_TYPE_SIZE, E_WORKSPACE_ZERO, E_SHAPE_SIZE_REJECT;"
            f" {REFUSED_TILING}"
        ),
    ),
    "no elements": (
        lambda: MIN((0, 64), 4, False, 2201),
        (
            f"GetSoftMaxGradMinTmpSize: shape 0x64 has 0 elements, {NO_ELEMENTS}."
            " CANN logs E_SHAPE_SIZE, E_SHAPE_SIZE_REJECT and returns 0."
        ),
    ),
    "no columns": (
        lambda: TILING((8, 0), 4, 16384, False),
        (
            "SoftMaxGradTilingFunc: last axis 0 is not positive; use a multiple of 8;"
            f" shape 8x0 has 0 elements, {NO_ELEMENTS}."
            f" CANN logs E_SHAPE_SIZE, E_LAST_AXIS_ZERO, E_SHAPE_SIZE_REJECT; {REFUSED_TILING}"
        ),
    ),
    "2**32 elements": (
        lambda: TILING((65536, 65536), 4, 184320, False),
        (
            f"SoftMaxGradTilingFunc: shape 65536x65536 has 4294967296 elements, {NO_ELEMENTS}."
            f" CANN logs E_SHAPE_SIZE_REJECT; {REFUSED_TILING}"
        ),
    ),
    "more elements than int64 holds": (
        lambda: MIN((2**62, 16), 2, False, 2201),
        (
            f"GetSoftMaxGradMinTmpSize: shape 4611686018427387904x16 has 73786976294838206464 elements, {NO_ELEMENTS}."
            " CANN logs E_SHAPE_SIZE, E_SHAPE_SIZE_REJECT and returns 0."
        ),
    ),
    "workspace 0": (
        lambda: TILING((64, 128), 4, 0, False),
        (
            "SoftMaxGradTilingFunc: workspace too small: 0 bytes; pass at least 832 bytes, one row of K = 128."
            " CANN logs E_WORKSPACE_ZERO and still fills the struct, split_m with 0 and range_m as it was."
        ),
    ),
    "workspace 0 and unaligned": (
        lambda: TILING((8, 24), 2, 0, False),
        (
            "SoftMaxGradTilingFunc: last axis 24 of 2-byte elements is 48 bytes, not a multiple of 32; pad K to 32;"
            " workspace too small: 0 bytes; pass at least 768 bytes, one row of K = 32."
            " CANN logs E_LAST_AXIS_UNALIGNED, E_WORKSPACE_ZERO and still fills the struct,"
            " split_m with 0 and range_m as it was."
        ),
    ),
    "kernel workspace for an unaligned row": (
        lambda: KERNEL(8, 60, 4, 139, False),
        (
            "SoftMaxGradTilingFunc (kernel): workspace too small: 556 bytes;"
            f" pass at least 560 bytes, one row of K = 60. {KERNEL_DIES}"
        ),
    ),
    "workspace 0 and a negative row": (
        lambda: TILING((8, -8), 4, 0, False),
        (
            "SoftMaxGradTilingFunc: last axis -8 is not positive; use a multiple of 8;"
            " workspace too small: 0 bytes; pass at least 352 bytes, one row of K = 8;"
            " the row count is 0 as uint32; use at least one row and a product of axes below 2**32."
            " CANN logs E_LAST_AXIS_ZERO, E_WORKSPACE_ZERO and still fills the struct,"
            " split_m with 0 and range_m as it was."
        ),
    ),
    "unknown last axis": (
        lambda: MIN((8, -1), 4, False, 2201),
        (
            "GetSoftMaxGradMinTmpSize: last axis -1 is not positive; use a multiple of 8;"
            " last axis -1 of 4-byte elements is -4 bytes, not a multiple of 32; pad K to 8."
            " CANN logs E_LAST_AXIS_ZERO, E_LAST_AXIS_UNALIGNED and still returns 316."
        ),
    ),
    "rank 0": (
        lambda: MIN((), 4, False, 2201),
        (
            "GetSoftMaxGradMinTmpSize: the shape has no axes; give at least the last axis K."
            " CANN reads past the empty list of axes: undefined behaviour, SIGSEGV where it was tried."
        ),
    ),
    "K = 0 behind an unknown axis": (
        lambda: MIN((-1, 0), 4, False, 2201),
        (
            "GetSoftMaxGradMinTmpSize: last axis 0 is not positive; use a multiple of 8;"
            " K = 0 makes the row length or the row cost 0 as uint32; use a K from 1 to 2**30."
            " CANN logs E_LAST_AXIS_ZERO and divides by zero: undefined behaviour, SIGFPE on x86."
        ),
    ),
    "row cost 2**32 floats": (
        lambda: TILING((2**32 - 80,), 4, 184320, False),
        (
            "SoftMaxGradTilingFunc: K = 4294967216 makes the row length or the row cost 0 as uint32;"
            " use a K from 1 to 2**30."
            " CANN logs nothing and divides by zero: undefined behaviour, SIGFPE on x86."
        ),
    ),
    "kernel workspace": (
        lambda: KERNEL(8, 64, 4, 143, False),
        (
            "SoftMaxGradTilingFunc (kernel): workspace too small: 572 bytes;"
            f" pass at least 576 bytes, one row of K = 64. {KERNEL_DIES}"
        ),
    ),
    "kernel workspace, NZ front keeps both datablocks": (
        lambda: KERNEL(8, 64, 4, 143, True, is_nz=True),
        (
            "SoftMaxGradTilingFunc (kernel): workspace too small: 572 bytes;"
            f" pass at least 576 bytes, one row of K = 64. {KERNEL_DIES}"
        ),
    ),
    "kernel halves to nothing": (
        lambda: KERNEL(64, 16384, 4, 10**7, True, is_basic_block=True),
        (
            "SoftMaxGradTilingFunc (kernel): basic-block tiles are halved until they hold less than 16384 elements,"
            f" which leaves no row of K = 16384; use a K below 2048, a workspace for at most 8 rows, or no basic block."
            f" {KERNEL_DIES}"
        ),
    ),
    "kernel without rows": (
        lambda: KERNEL(0, 64, 4, 1000, False),
        (
            "SoftMaxGradTilingFunc (kernel): the row count is 0 as uint32;"
            f" use at least one row and a product of axes below 2**32. {KERNEL_DIES}"
        ),
    ),
    "kernel element size": (
        lambda: KERNEL(8, 64, 1, 1000, False),
        (
            "SoftMaxGradTilingFunc (kernel): element size 1 is not supported; use 2 (half) or 4 (float)."
            " CANN compiles the kernel for half and float only."
        ),
    ),
    "kernel row cost 2**32 floats": (
        lambda: KERNEL(8, 2**32 - 80, 4, 1000, False),
        (
            "SoftMaxGradTilingFunc (kernel): K = 4294967216 makes the row length or the row cost 0 as uint32;"
            " use a K from 1 to 2**30. CANN divides by zero: undefined behaviour."
        ),
    ),
}


@pytest.mark.parametrize(("function", "text"), TEXTS.values(), ids=TEXTS)
def test_error_text_names_the_mistake_the_remedy_and_canns_answer(function, text):
    with pytest.raises(InputError) as caught:
        function()
    assert str(caught.value) == text
    assert str(pickle.loads(pickle.dumps(caught.value))) == text  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (
            softmax.cann_outcome_tmp_size("GetSoftMaxGradMinTmpSize", (8, 64), 4, False, 2201),
            "CANN logs nothing and returns 576",
        ),
        (
            softmax.cann_outcome_tiling((8, 64), 4, 575, False),
            "CANN logs nothing and fills the struct, split_m with 0 and range_m as it was",
        ),
    ],
)
def test_outcomes_that_are_no_errors_have_a_sentence_too(outcome, sentence):
    assert not outcome.is_error
    assert outcome.cann_does == sentence


def test_a_fraction_of_an_element_is_a_type_error():
    with pytest.raises(TypeError):
        MIN((8, 64.5), 4, False, 2201)


# --- the worked examples of the facts ---

EXAMPLES = [
    # arch, element bytes, front, shape, workspace, min, max, split_m, range_m, tail_m
    (2201, 4, False, (8, 8), 2816, 352, 2816, 8, 1, 0),
    (2201, 4, False, (64, 128), 16384, 832, 53248, 16, 4, 0),
    (2201, 2, False, (33, 208), 20000, 2880, 95040, 6, 5, 3),
    (2201, 2, False, (128, 128), 409600, 1920, 245760, 64, 2, 0),
    (2201, 4, True, (48, 128), 37888, 800, 38400, 24, 2, 0),
    (2201, 4, True, (40, 64), 17952, 544, 21760, 8, 5, 0),
    (2201, 4, False, (56, 4096), 935424, 16704, 935424, 3, 18, 2),
    (2201, 4, False, (120, 1024), 24 * 4416, 4416, 529920, 12, 10, 0),
    (2201, 4, False, (120, 1024), 40 * 4416, 4416, 529920, 10, 12, 0),
    (2201, 4, False, (120, 1024), 120 * 4416, 4416, 529920, 15, 8, 0),
    (3510, 4, False, (64, 128), 512, 512, 53248, 0, 0, 0),
    (3510, 4, False, (1, 8), 512, 512, 352, 1, 1, 0),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e[0]}-{'x'.join(map(str, e[3]))}-{e[4]}")
def test_worked_examples(example):
    arch, size, front, shape, workspace, least, most, split_m, range_m, tail_m = example
    tiling = TILING(shape, size, workspace, front)
    assert MIN(shape, size, front, arch) == least
    assert MAX(shape, size, front, arch) == most
    assert (tiling.split_m, tiling.range_m, tiling.tail_m) == (split_m, range_m, tail_m)


def test_halving_after_the_divisor_search_leaves_a_tail_so_no_basic_block():
    tiling = TILING((56, 4096), 4, 935424, False)
    assert tiling.tail_m == 2
    assert not softmax.is_basic_block_in_soft_max(replace(tiling, src_k=1024), 4)
    assert softmax.is_basic_block_in_soft_max(replace(tiling, src_k=1024, tail_m=0), 4)


# --- properties ---


class Case(NamedTuple):
    """Arguments CANN has nothing to say about."""

    m: int
    k: int
    size: int
    front: bool
    workspace: int

    @property
    def row_bytes(self):
        return 4 * row_floats(self.k, self.size, self.front)

    @property
    def host(self):
        return TILING((self.m, self.k), self.size, self.workspace, self.front)

    def kernel(self, **flags):
        return KERNEL(self.m, self.k, self.size, self.workspace // 4, self.front, **flags)

    def bytes_on(self, function, arch):
        return function((self.m, self.k), self.size, self.front, arch)


sizes = st.sampled_from([2, 4])
fronts = st.booleans()
rows_and_groups = st.one_of(st.integers(1, 5000), st.integers(1, 600).map(lambda groups: groups * 8))
widths = st.one_of(st.integers(1, 600).map(lambda n: n * 16), st.integers(1, 150).map(lambda n: n * 64))
cases = st.builds(Case, rows_and_groups, widths, sizes, fronts, st.integers(1, 1 << 22))


@st.composite
def basic_block_cases(draw):
    """Two groups of 8 rows or more fit, M is a multiple of 8 and K of 64."""
    case = draw(cases)
    case = case._replace(m=8 * draw(st.integers(2, 600)), k=64 * draw(st.integers(1, 150)))
    return case._replace(workspace=case.row_bytes * draw(st.integers(16, 700)) + draw(st.integers(0, 351)))


def covers_every_row_once(tiling, m):
    return tiling.range_m * tiling.split_m + tiling.tail_m == m and 0 <= tiling.tail_m < tiling.split_m


@given(cases)
def test_host_tiles_cover_every_row_once_and_fit_the_workspace(case):
    tiling = case.host
    assert tiling.split_m * case.row_bytes <= case.workspace
    if tiling.split_m:
        assert covers_every_row_once(tiling, case.m)
    else:
        assert (tiling.range_m, tiling.tail_m) == (0, 0)


@given(cases, st.booleans(), st.booleans())
def test_kernel_tiles_cover_every_row_once_and_fit_the_workspace(case, basic_block, nz):
    one_row = case._replace(front=case.front and not nz).row_bytes
    case = case._replace(workspace=max(case.workspace, one_row))
    tiling = case.kernel(is_basic_block=basic_block, is_nz=nz)
    assert tiling.split_m * one_row <= case.workspace
    assert covers_every_row_once(tiling, case.m)
    if not (basic_block and case.front):
        assert tiling.split_m == case.m or tiling.split_m <= 8 or tiling.split_m % 8 == 0


@given(cases)
def test_the_maximum_is_m_rows_and_the_minimum_one_row_off_3510(case):
    for arch in (2201, 2002, 3002, 3003, 3113):
        assert case.bytes_on(MAX, arch) == case.m * case.bytes_on(MIN, arch)


@given(cases, widths)
def test_the_3510_minimum_ignores_k_and_element_size(case, other_k):
    for arch in (3510, 5102):
        assert case.bytes_on(MIN, arch) == case._replace(k=other_k, size=6 - case.size).bytes_on(MIN, arch)


@given(cases, st.lists(st.integers(1, 12), max_size=4), st.permutations(range(5)))
def test_only_the_product_of_the_leading_axes_matters(case, leading, order):
    axes = leading + [1] * (5 - len(leading))
    flat, deep = (prod(leading), case.k), (*(axes[i] for i in order), case.k)
    assert TILING(deep, case.size, case.workspace, case.front) == TILING(flat, case.size, case.workspace, case.front)
    for arch in ARCHS:
        for function in (MIN, MAX):
            assert function(deep, case.size, case.front, arch) == function(flat, case.size, case.front, arch)


@given(cases)
def test_rank_one_is_one_row(case):
    assert TILING((case.k,), case.size, case.workspace, case.front) == case._replace(m=1).host


@given(cases)
def test_the_maximum_gives_one_tile_unless_basic_blocks_shrink_it(case):
    tiling = case._replace(workspace=case.bytes_on(MAX, 2201)).host
    if case.m % 8 or case.k % 64 or case.m <= 8 or case.m * case.k < 16384:
        assert tiling.split_m == case.m
    else:
        assert tiling.split_size < 16384


@pytest.mark.parametrize(("rows", "split_m"), [(8, 8), (9, 8), (15, 8), (16, 4)])
def test_a_tile_of_8_rows_is_never_halved_one_of_16_is(rows, split_m):
    assert TILING((16, 2048), 4, 4 * (2048 + 80) * rows, False).split_m == split_m


@given(basic_block_cases())
def test_a_basic_block_tile_is_the_largest_divisor_that_fits_then_halved(case):
    fit = min(case.workspace // case.row_bytes, case.m)
    expected = max(rows for rows in range(8, fit + 1, 8) if case.m % rows == 0)
    while expected * case.k >= 16384:
        expected //= 2
    assert case.host.split_m == expected
    if expected and case.front:
        assert case.kernel(is_basic_block=True) == case.host


@given(cases)
def test_the_kernel_takes_the_host_tile_where_no_basic_block_is_at_work(case):
    case = case._replace(workspace=max(case.workspace, case.row_bytes))
    if case.m % 8 or case.k % 64:
        assert case.kernel() == case.host
    assert case.kernel().split_m >= case.host.split_m


@given(cases)
def test_one_row_is_exactly_enough(case):
    least = case.bytes_on(MIN, 2201)
    assert case._replace(workspace=least).host.split_m == 1
    assert case._replace(workspace=least - 1).host.split_m == 0
    assert case._replace(workspace=least).kernel().split_m == 1
    with pytest.raises(SoftMaxInputError, match=f"workspace too small: {least - 4} bytes; pass at least {least} bytes"):
        case._replace(workspace=least - 1).kernel()


# --- any integers at all ---

any_int = st.one_of(
    st.integers(-3, 70),
    st.integers(2**31 - 70, 2**31 + 70),
    st.integers(2**32 - 100, 2**32 + 100),
    st.integers(-(2**70), 2**70),
)
any_shape = st.lists(any_int, max_size=4)
archs = st.sampled_from(ARCHS)


def assert_agrees(outcome, function):
    if outcome.is_error:
        with pytest.raises(SoftMaxInputError) as caught:
            function()
        assert caught.value.cann == outcome
        assert caught.value.problem
        assert str(caught.value).startswith(f"{outcome.function}: ")
    else:
        assert function() == (outcome.tiling if outcome.returned_bytes is None else outcome.returned_bytes)
    assert outcome.cann_does


@given(any_shape, st.one_of(sizes, any_int), fronts, archs)
def test_size_outcomes_never_raise_and_the_functions_follow_them(shape, size, front, arch):
    for name, function in SIZES.items():
        outcome = softmax.cann_outcome_tmp_size(name, shape, size, front, arch)
        assert_agrees(outcome, lambda function=function: function(shape, size, front, arch))
        assert outcome.returned_bytes is None or 0 <= outcome.returned_bytes < 2**32
        reusing = softmax.cann_outcome_tmp_size(name, shape, size, front, arch, is_reuse_source=True)
        assert reusing.returned_bytes == outcome.returned_bytes
        assert ("W_REUSE_IGNORED" in reusing.log_codes) == bool(shape)


@given(any_shape, st.one_of(sizes, any_int), any_int, fronts)
def test_tiling_outcomes_never_raise_and_the_function_follows_them(shape, size, workspace, front):
    outcome = softmax.cann_outcome_tiling(shape, size, workspace, front)
    assert_agrees(outcome, lambda: TILING(shape, size, workspace, front))
    assert outcome.tiling is None or all(0 <= value < 2**32 for value in astuple(outcome.tiling))


@given(any_shape.filter(lambda shape: shape and shape[-1] % 2**32), sizes, fronts, archs)
def test_sizes_wrap_as_uint32_variables_do(shape, size, front, arch):
    count, k = c_uint32(1), c_uint32(shape[-1])
    for axis in shape:
        count.value = count.value * axis
    m = c_uint32(count.value // k.value)
    row = c_uint32(k.value * (3 if size == 2 else 1))
    row.value += 96 if size == 2 else 72 if front else 80
    most, least = c_uint32(m.value * row.value), c_uint32(row.value)
    if arch in {3510, 5102}:
        unit = 64 if front else 128
        padded = c_uint32(m.value if front else 2 * m.value)
        padded.value += unit - 1
        least.value = padded.value // unit * unit
    for name, floats in (("GetSoftMaxGradMaxTmpSize", most), ("GetSoftMaxGradMinTmpSize", least)):
        outcome = softmax.cann_outcome_tmp_size(name, shape, size, front, arch)
        assert outcome.returned_bytes == (0 if outcome.status == "rejected" else c_uint32(4 * floats.value).value)


def kernel_struct(*arguments):
    """What the kernel has in its struct, also when it then dies; None when it dies before."""
    try:
        return KERNEL(*arguments)
    except SoftMaxInputError as error:
        return error.cann.tiling


@given(any_int, any_int, sizes, any_int, fronts)
def test_kernel_fields_wrap_as_uint32_variables_do(m, k, size, work_floats, front):
    tiling = kernel_struct(m, k, size, work_floats, front)
    if tiling:
        b, t, e = tiling.split_m, tiling.tail_m, 32 // size
        assert (tiling.src_m, tiling.src_k) == (m % 2**32, k % 2**32)
        products = [(tiling.src_m, k), (tiling.src_m, e), (b, k), (b, e), (t, k), (t, e)]
        got = [tiling.src_size, tiling.out_max_size, tiling.split_size, tiling.reduce_size]
        got += [tiling.tail_split_size, tiling.tail_reduce_size]
        assert got == [c_uint32(x * y).value for x, y in products]


def test_a_kernel_tensor_of_2_to_the_33_elements_wraps():
    assert KERNEL(2**20 + 1, 8192, 4, 8272, False).src_size == 8192


@pytest.mark.parametrize(
    ("shape", "rejected", "unknown"),
    [
        ((-1, 64), False, True),
        ((-2, 64), False, True),
        ((-3, 64), False, False),  # no mark: a factor like any other
        ((0, -1, 64), False, True),  # the unknown axis ends the count before the product is looked at
        ((0, -2, 64), False, True),
        ((0, -3, 64), True, False),
        ((2**62, 2, -1), True, False),  # the overflow comes first
        ((2**31, 2, 64), True, False),
        ((2**31, 2, 63), True, False),
        ((2**32 + 1, 64), False, False),
    ],
)
def test_the_element_count_is_the_graph_engines(shape, rejected, unknown):
    outcome = softmax.cann_outcome_tmp_size("GetSoftMaxGradMaxTmpSize", shape, 4, False, 2201)
    assert (outcome.status == "rejected") == rejected
    assert ("dynamic dim" in outcome.meaning) == unknown
    assert outcome.wrapped or rejected
