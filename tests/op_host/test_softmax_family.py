"""SoftMax, LogSoftMax, SoftMaxFlash, V2 and V3 on the host: golden rows, hand-worked rows, error texts, properties."""

import csv
import pickle
from dataclasses import astuple
from math import prod
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ascendsim.op_host import softmax_family, softmax_flash_v2, softmax_flash_v3
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


def rows(name):
    with (GOLDEN / name).open(newline="") as file:
        return tuple(csv.DictReader(file))


def shape_of(text):
    return tuple(int(axis) for axis in text.split("x"))


# --- the functions, all called one way ---


class Api(NamedTuple):
    """An API with its flags."""

    name: str
    update: bool = False
    basic: bool = False
    brc: bool = False

    @property
    def v2_flags(self):
        return {"is_basic_block": self.basic, "is_flash_output_brc": self.brc}


def api_of(row):
    flags = dict(flag.split("=") for flag in row["flags"].split(";")) if row["flags"] != "-" else {}
    names = ("isUpdate", "isBasicBlock", "isFlashOutputBrc")
    return Api(row["api"], *(flags.get(name) == "1" for name in names))


def minimum(api, shape, size1, size2, arch):
    match api.name:
        case "SoftMax":
            return softmax_family.get_soft_max_min_tmp_size(shape, size1, arch)
        case "LogSoftMax":
            return softmax_family.get_log_soft_max_min_tmp_size(shape, size1, arch)
        case "SoftMaxFlash":
            return softmax_family.get_soft_max_flash_min_tmp_size(shape, size1, api.update, arch)
        case "SoftMaxFlashV2":
            return softmax_flash_v2.get_soft_max_flash_v2_min_tmp_size(
                shape, size1, size2, api.update, arch, **api.v2_flags
            )
    both = softmax_flash_v3.get_soft_max_flash_v3_max_min_tmp_size
    return both(shape, size1, size2, api.update, arch, is_basic_block=api.basic).min_value


def maximum(api, shape, size1, size2, arch):
    match api.name:
        case "SoftMax":
            return softmax_family.get_soft_max_max_tmp_size(shape, size1, arch)
        case "LogSoftMax":
            return softmax_family.get_log_soft_max_max_tmp_size(shape, size1, arch)
        case "SoftMaxFlash":
            return softmax_family.get_soft_max_flash_max_tmp_size(shape, size1, api.update, arch)
        case "SoftMaxFlashV2":
            return softmax_flash_v2.get_soft_max_flash_v2_max_tmp_size(
                shape, size1, size2, api.update, arch, **api.v2_flags
            )
    both = softmax_flash_v3.get_soft_max_flash_v3_max_min_tmp_size
    return both(shape, size1, size2, api.update, arch, is_basic_block=api.basic).max_value


def tiling_of(api, shape, size1, size2, workspace):
    match api.name:
        case "SoftMax":
            return softmax_family.soft_max_tiling_func(shape, size1, workspace)
        case "LogSoftMax":
            return softmax_family.log_soft_max_tiling_func(shape, size1, workspace)
        case "SoftMaxFlash":
            return softmax_family.soft_max_flash_tiling_func(shape, size1, workspace, api.update)
        case "SoftMaxFlashV2":
            return softmax_flash_v2.soft_max_flash_v2_tiling_func(
                shape, size1, size2, workspace, api.update, **api.v2_flags
            )
    return softmax_flash_v3.soft_max_flash_v3_tiling_func(
        shape, size1, size2, workspace, api.update, is_basic_block=api.basic
    )


def answer(function, *arguments):
    """What the function gives, or what CANN does where it raises."""
    try:
        return function(*arguments)
    except SoftMaxInputError as error:
        return error.cann


# --- golden rows, all columns ---


def arguments_of(row):
    return api_of(row), shape_of(row["shape"]), BYTES[row["dtype1"]], BYTES[row["dtype2"]]


def size_columns(row):
    arguments = arguments_of(row)
    shape, arch = arguments[1], int(row["arch"])
    return {
        "soc_family": SOC_FAMILY[row["arch"]],
        "m": str(prod(shape[:-1])),
        "k": str(shape[-1]),
        "min_bytes": str(answer(minimum, *arguments, arch)),
        "max_bytes": str(answer(maximum, *arguments, arch)),
    }


def tiling_columns(row):
    got = answer(tiling_of, *arguments_of(row), int(row["local_workspace_bytes"]))
    if isinstance(got, SoftMaxTiling):
        status, tiling = "ok", got
    else:
        status = "brc_reduceM_misaligned" if got.log_codes == ("E_BRC_REDUCE_M",) else str(got)
        tiling = got.tiling
    fields = list(row)[list(row).index("srcM") :]
    return {"status": status, **dict(zip(fields, map(str, astuple(tiling)), strict=True))}


def differences(table, columns):
    """Each row that is not as it should be: its index, and what we have instead."""
    wrong = []
    for index, row in enumerate(table):
        got = columns(row)
        wrong += [(index, name, row[name], value) for name, value in got.items() if row[name] != value]
    return wrong


def test_tmp_sizes_equal_every_golden_row():
    table = rows("softmax_family_tmpsize.csv")
    assert len(table) == 2496
    assert differences(table, size_columns) == []


def test_tilings_equal_every_golden_row():
    table = rows("softmax_family_tiling.csv")
    assert len(table) == 4642
    assert list(table[0])[13:] == [
        field for field in table[0] if field[:3] in {"src", "out", "spl", "red", "ran", "tai"}
    ]
    assert differences(table, lambda row: size_columns(row) | tiling_columns(row)) == []
    assert sum(row["status"] == "brc_reduceM_misaligned" for row in table) == 324


def test_tilings_are_the_same_on_every_architecture():
    by_call = {}
    for row in rows("softmax_family_tiling.csv"):
        key = tuple(row[name] for name in ("api", "flags", "dtype1", "dtype2", "shape", "local_workspace_bytes"))
        by_call.setdefault(key, set()).add(tuple(list(row.values())[12:]))
    assert {len(tilings) for tilings in by_call.values()} == {1}


def bad_input_columns(row):
    api, shape = api_of(row), shape_of(row["shape"])
    sizes = int(row["dtype1_size"]), int(row["dtype2_size"])
    if not row["local_workspace_bytes"]:
        least = answer(minimum, api, shape, *sizes, int(row["arch"]))
        most = answer(maximum, api, shape, *sizes, int(row["arch"]))
        assert getattr(least, "status", None) == getattr(most, "status", None)
        return {"status": status_of(least), "min_bytes": bytes_of(least, 1), "max_bytes": bytes_of(most, 0)}
    got = answer(tiling_of, api, shape, *sizes, int(row["local_workspace_bytes"]))
    tiling = got if isinstance(got, SoftMaxTiling) else got.tiling
    heights = map(str, (tiling.split_m, tiling.range_m, tiling.tail_m)) if tiling else [""] * 3
    return {"status": status_of(got), **dict(zip(("splitM", "rangeM", "tailM"), heights, strict=True))}


def status_of(got):
    """A call that does not raise was silent: these inputs have no warnings."""
    return "ok_silent" if isinstance(got, int | SoftMaxTiling) else got.status


def bytes_of(got, place):
    """The golden zeros of a refused V3 call are what its outputs held before."""
    if isinstance(got, int):
        return str(got)
    if got.kind == "max_min":
        return str((got.max_min_bytes or (0, 0))[place])
    return str(got.returned_bytes)


def test_bad_input_equals_every_golden_row():
    table = rows("softmax_family_errors.csv")
    assert len(table) == 74
    assert differences(table, bad_input_columns) == []


# --- hand-worked rows ---

SOFT_MAX, LOG, FLASH, UPDATE = Api("SoftMax"), Api("LogSoftMax"), Api("SoftMaxFlash"), Api("SoftMaxFlash", update=True)
V2, V3 = Api("SoftMaxFlashV2"), Api("SoftMaxFlashV3")
BASIC = V2._replace(basic=True)

WORKED_SIZES = [
    # api, shape, data bytes, sum bytes, arch, min, max
    (SOFT_MAX, (64, 128), 4, 4, 2201, 4 * (8 + 128 + 64), 64 * 800),
    (SOFT_MAX, (64, 128), 2, 2, 2201, 4 * (16 + 128 + 64), 64 * 832),
    (
        SOFT_MAX,
        (64, 128),
        4,
        4,
        3510,
        4 * (64 * 136 + 256 + 64),
        64 * 800,
    ),  # 8 floats of results and e = 8 differ by 320
    (SOFT_MAX, (64, 128), 2, 2, 3510, 4 * (64 * 144), 64 * 832),
    (SOFT_MAX, (64, 128), 4, 4, 3003, 36096, 51200),
    (LOG, (64, 128), 4, 4, 3003, 800, 51200),
    (FLASH, (64, 128), 4, 4, 3003, 800, 51200),
    (UPDATE, (64, 128), 4, 4, 2201, 4 * (32 + 256), 64 * 1152),
    (UPDATE, (64, 128), 4, 4, 3510, 4 * 64 * 136, 4 * 64 * 200),
    (V3, (8, 1024), 2, 4, 2201, 4 * (40 + 2048 + 64), 8 * 8608),
    (V3, (8, 1024), 2, 4, 3510, 4 * 8 * 1088, 4 * 8 * 1088),
    (V3._replace(update=True), (8, 1024), 2, 4, 3510, 4 * 8 * 1096, 4 * 8 * 1096),
    (V2, (64, 128), 4, 4, 2201, 4 * 72, 64 * 288),
    (V2, (64, 128), 2, 4, 2201, 4 * 208, 64 * 832),
    (V2._replace(brc=True), (64, 128), 2, 4, 2201, 16 * 832, 64 * 832),
    (V2._replace(brc=True), (3, 128), 4, 4, 2201, 3 * 288, 3 * 288),
    (BASIC, (40, 8192), 2, 2, 2201, 264704, 33088),  # the maximum has one row of 8192, the minimum eight
    (BASIC, (64, 1024), 4, 4, 2201, 8 * 4 * 136, 8 * 4 * 136),  # the K of two repeats; 64 rows are halved to 8
    (BASIC, (64, 16384), 4, 4, 2201, 8 * 4 * 72, 0),
    (BASIC, (64, 128), 2, 4, 3510, 4 * (64 * 132 + 256 + 64), 4 * 64 * 200),
    (V2._replace(update=True), (2, 64), 2, 2, 3510, 4 * (128 + 2 * 96), 4 * (128 + 2 * 96)),
    (V2._replace(update=True), (2, 64), 2, 4, 3510, 4 * (128 + 2 * 88), 4 * (128 + 2 * 88)),
    (V2._replace(update=True), (3, 64), 2, 4, 3510, 4 * (128 + 3 * 88), 4 * 3 * 144),
    (V2._replace(update=True), (65, 64), 4, 4, 3510, 4 * (128 + 65 * 16), 4 * 65 * 72),
]


@pytest.mark.parametrize(("api", "shape", "size1", "size2", "arch", "least", "most"), WORKED_SIZES)
def test_worked_sizes(api, shape, size1, size2, arch, least, most):
    assert minimum(api, shape, size1, size2, arch) == least
    assert maximum(api, shape, size1, size2, arch) == most


WORKED_TILES = [
    # api, shape, data bytes, sum bytes, workspace, split_m, range_m, tail_m
    (SOFT_MAX, (64, 128), 4, 4, 16384, 16, 4, 0),  # 4096 // 200 = 20 -> 16
    (SOFT_MAX, (33, 208), 2, 2, 20000, 16, 2, 1),  # 5000 // 288 = 17 -> 16, no basic block
    (LOG, (40, 64), 4, 4, 4 * 136 * 33, 8, 5, 0),  # 33 rows fit; no multiple of 8 above 8 divides 40
    (UPDATE, (64, 128), 4, 4, 4 * 288 * 9, 8, 8, 0),
    (V3, (64, 1024), 2, 4, 4 * 2152 * 31, 24, 2, 16),  # a multiple of 8, whether it divides or not
    (V2, (64, 128), 4, 4, 4 * 72 * 63, 56, 1, 8),
    (BASIC, (64, 128), 4, 4, 4 * 72 * 63, 32, 2, 0),
    (BASIC, (64, 1024), 4, 4, 4 * 136 * 64, 8, 8, 0),
    (BASIC, (56, 4096), 4, 4, 4 * 72 * 56, 3, 18, 2),
    (V2._replace(brc=True), (64, 128), 2, 4, 20000, 16, 4, 0),
    (V2._replace(brc=True), (33, 208), 2, 4, 200000, 33, 1, 0),
]


@pytest.mark.parametrize(("api", "shape", "size1", "size2", "workspace", "split_m", "range_m", "tail_m"), WORKED_TILES)
def test_worked_tiles(api, shape, size1, size2, workspace, split_m, range_m, tail_m):
    tiling = tiling_of(api, shape, size1, size2, workspace)
    assert (tiling.split_m, tiling.range_m, tiling.tail_m) == (split_m, range_m, tail_m)
    assert (tiling.reduce_k, tiling.out_max_k) == (32 // size2, 32 // size2)


def test_the_example_of_the_page_says_what_its_comments_say():
    page = (GOLDEN.parents[1] / "docs/softmax-family.md").read_text()
    names = {}
    exec(page.split("```python\n")[1].split("```")[0], names)  # noqa: S102 - our own text
    assert names["least"] == 800
    assert (names["tiling"].split_m, names["tiling"].range_m, names["tiling"].tail_m) == (16, 4, 0)


@pytest.mark.parametrize("module", [softmax_family, softmax_flash_v2, softmax_flash_v3])
def test_the_page_names_every_function(module):
    page = (GOLDEN.parents[1] / "docs/softmax-family.md").read_text()
    functions = [n for n in vars(module) if n.startswith("get_soft") or n.endswith("tiling_func")]
    assert functions
    assert [name for name in functions if f"`{name}`" not in page] == []


# --- error texts ---

NO_ELEMENTS = "which CANN counts as 0; use axes of at least 1 and a product below 2**32"
NO_ROWS = "the row count is 0 as uint32; use at least one row and a product of axes below 2**32"
ZERO_DIVISOR = "K = 0 makes the row length or the row cost 0 as uint32; use a K from 1 to 2**30"
FPE = "divides by zero: undefined behaviour, SIGFPE on x86."
REFUSED_TILING = "it leaves an optiling struct as it was and fills a plain struct with zeros."

TEXTS = {
    "unaligned": (
        lambda: minimum(SOFT_MAX, (8, 24), 2, 2, 2201),
        (
            "GetSoftMaxMinTmpSize: last axis 24 of 2-byte elements is 48 bytes, not a multiple of 32; pad K to 32."
            " CANN logs E_LAST_AXIS_UNALIGNED and still returns 416."
        ),
    ),
    "element size": (
        lambda: maximum(UPDATE, (8, 64), 8, 8, 2201),
        (
            "GetSoftMaxFlashMaxTmpSize: element size 8 is not supported; use 2 (half) or 4 (float)."
            " CANN logs E_TYPE_SIZE, E_DTYPE_REJECT and returns 0."
        ),
    ),
    "no elements": (
        lambda: tiling_of(UPDATE, (0, 64), 4, 4, 4096),
        (
            f"SoftMaxFlashTilingFunc: shape 0x64 has 0 elements, {NO_ELEMENTS}."
            f" CANN logs E_SHAPE_SIZE, E_SHAPE_SIZE_REJECT; {REFUSED_TILING}"
        ),
    ),
    "workspace 0": (
        lambda: tiling_of(UPDATE, (64, 128), 4, 4, 0),
        (
            "SoftMaxFlashTilingFunc: workspace too small: 0 bytes; pass at least 1152 bytes, one row of K = 128."
            " CANN logs E_WORKSPACE_ZERO and still fills the struct, split_m with 0 and range_m as it was."
        ),
    ),
    "log: workspace 0": (
        lambda: tiling_of(LOG, (64, 128), 4, 4, 0),
        (
            "LogSoftMaxTilingFunc: workspace too small: 0 bytes; pass at least 800 bytes, one row of K = 128."
            f" CANN logs E_WORKSPACE_ZERO and {FPE}"
        ),
    ),
    "log: workspace below one row": (
        lambda: tiling_of(LOG, (64, 128), 4, 4, 799),
        (
            "LogSoftMaxTilingFunc: workspace too small: 799 bytes; pass at least 800 bytes, one row of K = 128."
            f" CANN logs nothing and {FPE}"
        ),
    ),
    "log: halved away": (
        lambda: tiling_of(LOG, (64, 16384), 4, 4, 10**7),
        (
            "LogSoftMaxTilingFunc: basic-block tiles are halved until they hold less than 16384 elements,"
            " which leaves no row of K = 16384; use a K below 2048, a workspace for at most 8 rows, or no basic block."
            f" CANN logs nothing and {FPE}"
        ),
    ),
    "log: element size 0, tiling": (
        lambda: tiling_of(LOG, (64, 128), 0, 0, 4096),
        (
            "LogSoftMaxTilingFunc: element size 0 is not supported; use 2 (half) or 4 (float)."
            f" CANN logs E_TYPE_SIZE; {REFUSED_TILING}"
        ),
    ),
    "log: element size 0, size": (
        lambda: minimum(LOG, (64, 128), 0, 0, 2201),
        (
            "GetLogSoftMaxMinTmpSize: element size 0 is not supported; use 2 (half) or 4 (float)."
            " CANN logs E_TYPE_SIZE and still returns 0."
        ),
    ),
    "log: no rows, tiling": (
        lambda: tiling_of(LOG, (0, 128), 4, 4, 4096),
        f"LogSoftMaxTilingFunc: shape 0x128 has 0 elements, {NO_ELEMENTS}; {NO_ROWS}. CANN logs E_SHAPE_SIZE and {FPE}",
    ),
    "log: no rows, size": (
        lambda: maximum(LOG, (0, 128), 4, 4, 2201),
        (
            f"GetLogSoftMaxMaxTmpSize: shape 0x128 has 0 elements, {NO_ELEMENTS}."
            " CANN logs E_SHAPE_SIZE and still returns 0."
        ),
    ),
    "log: no columns": (
        lambda: maximum(LOG, (64, 0), 4, 4, 2201),
        (
            "GetLogSoftMaxMaxTmpSize: last axis 0 is not positive; use a multiple of 8;"
            f" shape 64x0 has 0 elements, {NO_ELEMENTS}; {ZERO_DIVISOR}."
            f" CANN logs E_SHAPE_SIZE, E_LAST_AXIS_ZERO and {FPE}"
        ),
    ),
    "log: rows wrap to 0": (
        lambda: tiling_of(LOG, (65536, 65536), 4, 4, 4096),
        f"LogSoftMaxTilingFunc: {NO_ROWS}. CANN logs nothing and {FPE}",
    ),
    "v2: both element sizes": (
        lambda: minimum(V2, (64, 128), 1, 8, 2201),
        (
            "GetSoftMaxFlashV2MinTmpSize: element size 1 is not supported; use 2 (half) or 4 (float);"
            " element size 8 of max and sum is not supported; use 2 (half) or 4 (float)."
            " CANN logs E_TYPE_SIZE, E_SUM_TYPE_SIZE, E_DTYPE_REJECT and returns 0."
        ),
    ),
    "v2: element size of max and sum": (
        lambda: tiling_of(V2, (64, 128), 2, 8, 0),
        (
            "SoftMaxFlashV2TilingFunc: element size 8 of max and sum is not supported; use 2 (half) or 4 (float);"
            " workspace too small: 0 bytes; pass at least one row."
            f" CANN logs E_SUM_TYPE_SIZE, E_WORKSPACE_ZERO, E_SUM_DTYPE_REJECT; {REFUSED_TILING}"
        ),
    ),
    "v2: no columns behind an unknown axis, basic block": (
        lambda: tiling_of(BASIC, (-1, 0), 2, 4, 0),
        (
            "SoftMaxFlashV2TilingFunc: last axis 0 is not positive; use a multiple of 16;"
            f" workspace too small: 0 bytes; pass at least 384 bytes, one row of K = 16; {ZERO_DIVISOR}."
            f" CANN logs E_LAST_AXIS_ZERO, E_WORKSPACE_ZERO and {FPE}"
        ),
    ),
    "v2: workspace 0, basic block asked for but M is no multiple of 8": (
        lambda: tiling_of(BASIC, (12, 1024), 2, 4, 0),
        (
            "SoftMaxFlashV2TilingFunc: workspace too small: 0 bytes; pass at least 4416 bytes, one row of K = 1024."
            " CANN logs E_WORKSPACE_ZERO and still fills the struct, split_m with 0 and range_m as it was."
        ),
    ),
    "v2: broadcast results misaligned": (
        lambda: tiling_of(V2._replace(brc=True), (64, 128), 2, 4, 10000),
        (
            "SoftMaxFlashV2TilingFunc: with is_flash_output_brc a tile of 12 rows must be a multiple of 16"
            " or hold all rows; choose another local_work_space_size."
            " CANN logs E_BRC_REDUCE_M and still fills the struct, split_m with 12."
        ),
    ),
    "v3: sums in half": (
        lambda: minimum(V3, (8, 1024), 2, 2, 2201),
        (
            "GetSoftMaxFlashV3MaxMinTmpSize: element size 2 of max and sum is not supported; use 4 (float)."
            " CANN logs E_SUM_TYPE_SIZE and still gives 70144 as maximum and 8768 as minimum."
        ),
    ),
    "v3: no element size of the sums": (
        lambda: minimum(V3, (8, 1024), 2, 0, 2201),
        (
            "GetSoftMaxFlashV3MaxMinTmpSize: element size 0 of max and sum is not supported; use 4 (float)."
            " CANN logs E_SUM_TYPE_SIZE, E_SUM_DTYPE_REJECT and leaves both sizes as they were."
        ),
    ),
    "v3: data in float": (
        lambda: tiling_of(V3, (8, 1024), 4, 4, 0),
        (
            "SoftMaxFlashV3TilingFunc: element size 4 is not supported; use 2 (half);"
            " workspace too small: 0 bytes; pass at least one row."
            f" CANN logs E_TYPE_SIZE, E_WORKSPACE_ZERO, E_DTYPE_REJECT; {REFUSED_TILING}"
        ),
    ),
    "v3: workspace 0": (
        lambda: tiling_of(V3, (8, 1024), 2, 4, 0),
        (
            "SoftMaxFlashV3TilingFunc: workspace too small: 0 bytes; pass at least 8608 bytes, one row of K = 1024."
            " CANN logs E_WORKSPACE_ZERO and still fills the struct,"
            " split_m with 0 and range_m and the tail as they were."
        ),
    ),
    "v3: no rows": (
        lambda: maximum(V3, (0, 64), 2, 4, 2201),
        (
            f"GetSoftMaxFlashV3MaxMinTmpSize: shape 0x64 has 0 elements, {NO_ELEMENTS}."
            " CANN logs E_SHAPE_SIZE and still gives 0 as maximum and 928 as minimum."
        ),
    ),
    "v3: rank 0": (
        lambda: maximum(V3, (), 2, 4, 2201),
        (
            "GetSoftMaxFlashV3MaxMinTmpSize: the shape has no axes; give at least the last axis K."
            " CANN reads past the empty list of axes: undefined behaviour, SIGSEGV where it was tried."
        ),
    ),
    "v3: no columns": (
        lambda: maximum(V3, (-1, 0), 2, 4, 2201),
        (
            f"GetSoftMaxFlashV3MaxMinTmpSize: last axis 0 is not positive; use a multiple of 16; {ZERO_DIVISOR}."
            f" CANN logs E_LAST_AXIS_ZERO and {FPE}"
        ),
    ),
}


@pytest.mark.parametrize(("function", "text"), TEXTS.values(), ids=TEXTS)
def test_error_text_names_the_mistake_the_remedy_and_canns_answer(function, text):
    with pytest.raises(SoftMaxInputError) as caught:
        function()
    assert str(caught.value) == text
    assert str(pickle.loads(pickle.dumps(caught.value))) == text  # noqa: S301 - our own bytes


def test_a_v3_call_without_an_error_has_a_sentence_too():
    sizes = softmax_flash_v3.cann_outcome_soft_max_flash_v3_tmp_size((8, 1024), 2, 4, False, 2201)
    assert sizes.cann_does == "CANN logs nothing and gives 68864 as maximum and 8608 as minimum"
    tiling = softmax_flash_v3.cann_outcome_soft_max_flash_v3_tiling((8, 1024), 2, 4, 100)
    assert tiling.fields_left_stale == "rangeM, tailM, tailSplitSize, tailReduceSize"
    assert tiling.meaning == "fewer bytes than one row needs: tile height 0, rangeM and the tail not written"
    assert not tiling.is_error


@pytest.mark.parametrize(
    ("outcome_of", "function"),
    [
        (softmax_family.cann_outcome_soft_max_tmp_size, softmax_family.get_soft_max_max_tmp_size),
        (softmax_family.cann_outcome_log_soft_max_tmp_size, softmax_family.get_log_soft_max_max_tmp_size),
    ],
)
def test_reuse_source_is_a_warning_and_no_more(outcome_of, function):
    name = "GetLogSoftMaxMaxTmpSize" if "log" in function.__name__ else "GetSoftMaxMaxTmpSize"
    outcome = outcome_of(name, (8, 64), 4, 2201, is_reuse_source=True)
    assert outcome.log_codes == ("W_REUSE_IGNORED",)
    assert function((8, 64), 4, 2201, is_reuse_source=True) == outcome.returned_bytes == function((8, 64), 4, 2201)


def test_reuse_source_of_flash_is_a_warning_too():
    for name, function in (
        ("GetSoftMaxFlashMinTmpSize", softmax_family.get_soft_max_flash_min_tmp_size),
        ("GetSoftMaxFlashMaxTmpSize", softmax_family.get_soft_max_flash_max_tmp_size),
    ):
        outcome = softmax_family.cann_outcome_soft_max_flash_tmp_size(
            name, (8, 64), 4, True, 2201, is_reuse_source=True
        )
        assert outcome.log_codes == ("W_REUSE_IGNORED",)
        assert function((8, 64), 4, True, 2201, is_reuse_source=True) == outcome.returned_bytes


# --- the facts' closed forms, written apart from the modules, with a uint32's wrapping where it shows ---

U32 = 2**32


def row_floats(api, m, k, size1, size2):
    """What tiling reserves for one row."""
    e, h = 32 // size2, size1 == 2
    if api.name == "SoftMaxFlashV3":
        return 5 * e + 2 * k + 64
    if api.name == "SoftMaxFlashV2":
        if api.basic and k % 64 == 0 and m % 8 == 0:
            return e + (128 if k == 1024 else 64) + (k if h else 0)
        return 2 * e + k + 64 if h else e + 64
    return 4 * e + 2 * k if api.update else e + k + 64


def expected_sizes(api, m, k, size1, size2, arch):
    """Minimum and maximum as CANN's uint32 has them."""
    e = 32 // size2
    c = (m * (8 + k) + 256 + -(-m // 8) * 8) % U32
    if api.name == "SoftMaxFlashV2":
        least, most = expected_v2_floats(api, m, k, size1, size2, arch in {3510, 5102})
    elif api.name == "SoftMaxFlashV3":
        row = row_floats(api, m, k, size1, size2)
        least, most = row, m * row
        if arch in {3510, 5102}:
            least = most = m * (64 + k) + (m * e if api.update else 0)
    elif arch in {3510, 5102} | ({3003} if api.name == "SoftMax" else set()):
        least, most = m * (e + k) % U32, m * (e + k + 64) % U32
        if not api.update:
            least, most = max(c, least), max(c, most)
    else:
        row = row_floats(api, m, k, size1, size2)
        least, most = row, m * row
    return 4 * least % U32, 4 * most % U32


def expected_v2_floats(api, m, k, size1, size2, is_reg):
    e, h = 32 // size2, size1 == 2
    plain = 2 * e + k + 64 if h else e + 64
    blocks = api.basic and k % 64 == 0 and m % 8 == 0
    if not is_reg:
        x = 128 if k == 1024 else 64
        basic = e + x + (k if h else 0)
        least = 8 * basic % U32 if api.basic and k % 64 == 0 else plain
        if api.brc:
            least = (least // 8 if api.basic and k % 64 == 0 else least) * min(32 // size1, m)
        rows_ = m
        while blocks and rows_ * k % U32 >= 16384:
            rows_ //= 2
        return least, rows_ * (basic if blocks else plain)
    if not api.update:
        c = m * (8 + k) + 256 + -(-m // 8) * 8
        least = max((c - (4 * m if api.basic else 0)) % U32, m * (e + k) % U32)
        return least, max(c % U32, m * (e + k + 64) % U32)
    least = -(-m // 64) * 64 + 2 * m * e
    if h:
        least = -(-2 * m // 128) * 128 + m * (2 * e + k + (e if size2 == 4 else 0))
    if m <= 2:
        return least, least
    return least, m * (e + 64 + (k if h else 0) if blocks else plain)


# --- properties ---

apis = st.one_of(
    st.sampled_from([SOFT_MAX, LOG, FLASH, UPDATE]),
    st.builds(Api, st.just("SoftMaxFlashV2"), st.booleans(), st.booleans(), st.booleans()),
    st.builds(Api, st.just("SoftMaxFlashV3"), st.booleans(), st.booleans()),
)


@st.composite
def size_pairs(draw, api):
    if api.name == "SoftMaxFlashV3":
        return 2, 4
    size1 = draw(st.sampled_from([2, 4]))
    return size1, draw(st.sampled_from([2, 4])) if api.name == "SoftMaxFlashV2" else size1


class Case(NamedTuple):
    """Arguments CANN has nothing to say about but for broadcast results."""

    api: Api
    m: int
    k: int
    sizes: tuple[int, int]
    workspace: int
    arch: int

    @property
    def row_bytes(self):
        return 4 * row_floats(self.api, self.m, self.k, *self.sizes)

    @property
    def tiling(self):
        got = answer(tiling_of, self.api, (self.m, self.k), *self.sizes, self.workspace)
        return got if isinstance(got, SoftMaxTiling) else got.tiling

    @property
    def min_max(self):
        arguments = self.api, (self.m, self.k), *self.sizes, self.arch
        return minimum(*arguments), maximum(*arguments)


rows_and_groups = st.one_of(st.integers(1, 3000), st.integers(1, 400).map(lambda groups: groups * 8))
widths = st.one_of(st.integers(1, 600).map(lambda n: n * 16), st.integers(1, 300).map(lambda n: n * 64))


@st.composite
def all_cases(draw, chosen=apis):
    api = draw(chosen)
    sizes = draw(size_pairs(api))
    arch, workspace = draw(st.sampled_from(ARCHS)), draw(st.integers(1, 1 << 22))
    return Case(api, draw(rows_and_groups), draw(widths), sizes, workspace, arch)


cases = all_cases()
v2_cases = all_cases(st.builds(Api, st.just("SoftMaxFlashV2"), st.booleans(), st.booleans(), st.booleans()))


@given(cases)
def test_sizes_equal_the_closed_forms(case):
    assert case.min_max == expected_sizes(case.api, case.m, case.k, *case.sizes, case.arch)


@given(cases)
def test_tiles_cover_every_row_once_and_fit_the_workspace(case):
    tiling = case.tiling
    if tiling is None:
        assert case.api is LOG
        return
    assert tiling.split_m * case.row_bytes <= case.workspace
    if tiling.split_m:
        assert tiling.range_m * tiling.split_m + tiling.tail_m == case.m
        assert 0 <= tiling.tail_m < tiling.split_m
    else:
        assert (tiling.range_m, tiling.tail_m) == (0, 0)


@given(cases)
def test_one_row_is_exactly_enough(case):
    enough = case._replace(workspace=case.row_bytes).tiling
    assert enough.split_m == 1
    below = case._replace(workspace=case.row_bytes - 1).tiling
    assert below is None if case.api is LOG else below.split_m == 0


@given(cases)
def test_outside_the_whole_input_architectures_the_maximum_is_m_minima(case):
    case = case._replace(arch=2201, api=case.api._replace(basic=False, brc=False))
    least, most = case.min_max
    assert least == case.row_bytes
    assert most == case.m * least


@given(cases, st.integers(0, 500), st.integers(0, 40))
def test_sizes_never_shrink_with_the_shape_unless_basic_blocks_are_at_work(case, more_rows, more_blocks):
    assume(not case.api.basic or case.api.name == "SoftMaxFlashV3")
    larger = case._replace(m=case.m + more_rows, k=case.k + 16 * more_blocks)
    if case.api.name == "SoftMaxFlashV2" and case.api.update:  # up to 2 rows the maximum is the minimum
        assume(case.m > 2 or larger.m <= 2)
    assert all(a <= b for a, b in zip(case.min_max, larger.min_max, strict=True))


@given(all_cases(st.sampled_from([SOFT_MAX, LOG, FLASH])))
def test_without_update_the_minimum_is_never_above_the_maximum(case):
    least, most = case.min_max
    assert least <= most


@given(all_cases(st.sampled_from([SOFT_MAX, FLASH])))
def test_log_soft_max_cuts_as_soft_max_does_where_it_does_not_crash(case):
    tiling = case._replace(api=SOFT_MAX).tiling
    assert case._replace(api=LOG).tiling == (tiling if tiling.split_m else None)
    assert case._replace(api=FLASH).tiling == tiling


def with_basic_blocks(case):
    """A case of moderate size whose M and K are whole basic blocks."""
    m, k = 8 * (1 + case.m % 400), 64 * (1 + case.k % 300)
    return case._replace(m=m, k=k, api=case.api._replace(basic=True))


@given(v2_cases)
def test_v2_has_its_minimum_above_its_maximum_where_a_tile_holds_fewer_rows_than_it_counts(case):
    case = with_basic_blocks(case._replace(arch=2201))
    rows_ = case.m
    while rows_ * case.k >= 16384:
        rows_ //= 2
    counted = min(32 // case.sizes[0], case.m) if case.api.brc else 8
    least, most = case.min_max
    assert (least > most) == (counted > rows_)
    assert least * rows_ == most * counted


@given(v2_cases)
def test_v2_complains_of_broadcast_results_where_its_tiles_are_no_whole_blocks(case):
    got = answer(tiling_of, case.api, (case.m, case.k), *case.sizes, case.workspace)
    unit = 32 // case.sizes[0]
    split = case.tiling.range_m > 1 or case.tiling.tail_m != 0
    misaligned = case.api.brc and split and case.tiling.split_m % unit != 0
    assert isinstance(got, SoftMaxTiling) != misaligned
    if misaligned:
        assert (got.status, got.log_codes) == ("ok_with_log", ("E_BRC_REDUCE_M",))


@given(v2_cases)
def test_v2_with_basic_blocks_takes_divisors_and_small_tiles(case):
    case = with_basic_blocks(case._replace(api=case.api._replace(brc=False)))
    fit = min(case.workspace // case.row_bytes, case.m)
    if fit <= 8:
        expected = fit
    else:
        expected = max(rows_ for rows_ in range(8, fit + 1, 8) if case.m % rows_ == 0)
        while expected * case.k >= 16384:
            expected //= 2
        if 8 < expected < case.m:
            expected = expected // 8 * 8
    assert case.tiling.split_m == expected


@given(all_cases(st.builds(Api, st.just("SoftMaxFlashV3"), st.booleans(), st.booleans())))
def test_v3_tiles_are_whole_groups_of_8(case):
    fit = min(case.workspace // case.row_bytes, case.m)
    assert case.tiling.split_m == (fit // 8 * 8 if 8 < fit < case.m else fit)
    assert (case.tiling.reduce_k, case.tiling.out_max_k) == (8, 8)


@given(cases, st.lists(st.integers(1, 12), max_size=3))
def test_only_the_product_of_the_leading_axes_matters(case, leading):
    deep, flat = ([*axes, case.k] for axes in ([*leading, 1], [prod(leading)]))
    sizes, tiling = outcomes(case.api, deep, *case.sizes, case.arch, case.workspace)
    assert (sizes, tiling) == outcomes(case.api, flat, *case.sizes, case.arch, case.workspace)


# --- any integers at all ---

any_int = st.one_of(
    st.integers(-3, 70),
    st.integers(2**31 - 70, 2**31 + 70),
    st.integers(2**32 - 100, 2**32 + 100),
    st.integers(-(2**70), 2**70),
)
any_shape = st.lists(any_int, max_size=4)


def outcomes(api, shape, size1, size2, arch, workspace):
    """Size outcomes with the place of the size (0 least, 1 most), and the tiling's outcome."""
    if api.name == "SoftMaxFlashV3":
        both = softmax_flash_v3.cann_outcome_soft_max_flash_v3_tmp_size(shape, size1, size2, api.update, arch)
        tiling = softmax_flash_v3.cann_outcome_soft_max_flash_v3_tiling(shape, size1, size2, workspace)
        return [both, both], tiling
    if api.name == "SoftMaxFlashV2":
        sizes = [
            softmax_flash_v2.cann_outcome_soft_max_flash_v2_tmp_size(
                f"GetSoftMaxFlashV2{end}TmpSize", shape, size1, size2, api.update, arch, **api.v2_flags
            )
            for end in ("Min", "Max")
        ]
        return sizes, softmax_flash_v2.cann_outcome_soft_max_flash_v2_tiling(
            shape, size1, size2, workspace, **api.v2_flags
        )
    size_outcome, tiling_outcome = {
        "SoftMax": (softmax_family.cann_outcome_soft_max_tmp_size, softmax_family.cann_outcome_soft_max_tiling),
        "LogSoftMax": (
            softmax_family.cann_outcome_log_soft_max_tmp_size,
            softmax_family.cann_outcome_log_soft_max_tiling,
        ),
        "SoftMaxFlash": (
            softmax_family.cann_outcome_soft_max_flash_tmp_size,
            softmax_family.cann_outcome_soft_max_flash_tiling,
        ),
    }[api.name]
    update = [api.update] if api.name == "SoftMaxFlash" else []
    sizes = [size_outcome(f"Get{api.name}{end}TmpSize", shape, size1, *update, arch) for end in ("Min", "Max")]
    return sizes, tiling_outcome(shape, size1, workspace, *update)


def assert_follows(function, outcome, value):
    """The function named after CANN's raises exactly where the outcome is an error, and else gives its value."""
    if outcome.is_error:
        with pytest.raises(SoftMaxInputError) as caught:
            function()
        assert caught.value.cann == outcome
        assert caught.value.problem
    else:
        assert function() == value
    assert outcome.cann_does


@given(apis, any_shape, st.one_of(st.sampled_from([2, 4]), any_int), any_int, st.sampled_from(ARCHS), any_int)
def test_outcomes_never_raise_and_the_functions_follow_them(api, shape, size1, size2, arch, workspace):
    arguments = api, shape, size1, size2
    sizes, tiling = outcomes(*arguments, arch, workspace)
    for outcome, function, place in zip(sizes, (minimum, maximum), (1, 0), strict=True):
        value = outcome.max_min_bytes[place] if outcome.max_min_bytes else outcome.returned_bytes
        assert value is None or 0 <= value < U32
        assert_follows(lambda function=function: function(*arguments, arch), outcome, value)
    assert_follows(lambda: tiling_of(*arguments, workspace), tiling, tiling.tiling)
    assert tiling.tiling is None or all(0 <= value < U32 for value in astuple(tiling.tiling))
    assert tiling.tiling is None or tiling.tiling.split_m or tiling.fields_left_stale != "none"


@given(cases, any_shape.filter(lambda shape: shape and shape[-1] % U32))
def test_sizes_wrap_as_uint32_variables_do(case, shape):
    k = shape[-1] % U32
    m = prod(shape) % U32 // k
    outcome_sizes, _ = outcomes(case.api, shape, *case.sizes, case.arch, case.workspace)
    if any(outcome.status == "rejected" for outcome in outcome_sizes):
        return
    if case.api.name == "SoftMaxFlashV3":
        got = outcome_sizes[0].max_min_bytes[::-1]
    else:
        got = tuple(outcome.returned_bytes for outcome in outcome_sizes)
    assert got == expected_sizes(case.api, m, k, *case.sizes, case.arch)


@given(cases, st.integers(1, 1 << 16), st.integers(1, (1 << 26) - 1).map(lambda n: n * 64))
def test_sizes_of_long_rows_wrap_step_by_step(case, m, k):
    assume(m * k < U32)  # so that M is m
    assert case._replace(m=m, k=k).min_max == expected_sizes(case.api, m, k, *case.sizes, case.arch)


@pytest.mark.parametrize(
    ("api", "m", "k", "arch"),
    [
        (BASIC._replace(brc=True), 1, 2**29, 2201),  # eight rows are 2**32 floats and more, and are divided by 8
        (V2, 1, 2**32 - 256, 3510),  # the larger of two sums wraps and becomes the smaller
        (SOFT_MAX, 1, 2**32 - 256, 3510),
        (SOFT_MAX, 64, 2**26 - 16, 3510),  # and the other of the two
        (V2, 64, 2**26 - 16, 3510),
    ],
)
def test_a_sum_wraps_before_it_is_divided_or_compared(api, m, k, arch):
    arguments = api, (m, k), 2, 2, arch
    assert (minimum(*arguments), maximum(*arguments)) == expected_sizes(api, m, k, 2, 2, arch)


@pytest.mark.parametrize("api", [SOFT_MAX, LOG, FLASH, UPDATE, V2, V3], ids=str)
def test_a_wrapped_size_tells(api):
    sizes, tiling = outcomes(api, (2**26 + 4464, 64), 2, 4, 2201, 1 << 16)
    assert [outcome.wrapped for outcome in sizes] == [True, True]
    assert tiling.wrapped
    assert tiling.tiling.src_m == 4464
    sizes, tiling = outcomes(api, (64, 128), 2, 4, 2201, 1 << 16)
    assert not any(outcome.wrapped for outcome in (*sizes, tiling))
