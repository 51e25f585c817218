"""Temp sizes and tilings of every API a plan can name, against the golden rows of the host functions."""

import csv

import pytest
from conftest import GOLDEN
from plan_harness import plan_of

from ascendsim.errors import InputError
from ascendsim.plan.layout import lay_out

DEVICES = {"2201": "Ascend910B1", "2002": "Ascend310P3", "3510": "Ascend910_95", "3002": "Ascend310B1"}
NAMES = {
    "SoftMax": "soft_max",
    "SoftMaxFlash": "soft_max_flash",
    "SoftMaxFlashV2": "soft_max_flash_v2",
    "SoftMaxFlashV3": "soft_max_flash_v3",
    "LogSoftMax": "log_soft_max",
}
FLAGS = {"isUpdate": "is_update", "isBasicBlock": "is_basic_block", "isFlashOutputBrc": "is_flash_output_brc"}


def _rows(name):
    with (GOLDEN / name).open(newline="") as file:
        return list(csv.DictReader(file))


def _flags(row):
    given = [flag.split("=") for flag in row["flags"].split(";")] if row["flags"] != "-" else []
    return "".join(f"{FLAGS[name]} = {value}\n" for name, value in given if name in FLAGS)


def _layout(row, api, flags, temp):
    shape = [int(axis) for axis in row["shape"].split("x")]
    head = f'schema = 1\nname = "p"\ndevice = "{DEVICES[row["arch"]]}"\n'
    sum_dtype = f'sum_dtype = "{row["dtype2"]}"\n' if api in ("soft_max_flash_v2", "soft_max_flash_v3") else ""
    dtype = row.get("dtype1", row.get("dtype"))
    text = f'[apis.a]\napi = "{api}"\nshape = {shape}\ndtype = "{dtype}"\n{sum_dtype}{flags}'
    return lay_out(plan_of(f'{text}temp = "t"\n[temps.t]\nbytes = {temp}\n', head=head), {}, "safe")


def _sizes(row, api, flags):
    (use,) = _layout(row, api, flags, '"min"').temps
    return use.least_bytes, use.most_bytes


@pytest.mark.parametrize("name", NAMES)
def test_sizes_of_the_family_equal_the_golden_rows(name):
    rows = [r for r in _rows("softmax_family_tmpsize.csv") if r["api"] == name and r["arch"] in DEVICES][::7]
    small = [r for r in rows if 4 * (int(r["m"]) + 8) * (3 * int(r["k"]) + 256) < 2**32]
    assert len(small) > 8
    for row in small:
        assert _sizes(row, NAMES[name], _flags(row)) == (int(row["min_bytes"]), int(row["max_bytes"])), row


def test_sizes_of_softmax_grad_equal_the_golden_rows():
    rows = [r for r in _rows("softmaxgrad_tmpsize.csv") if r["arch"] in DEVICES][::31]
    for row in rows:
        if 4 * (int(row["m"]) + 8) * (3 * int(row["k"]) + 256) < 2**32:
            got = _sizes(row, "softmax_grad", f"is_front = {row['is_front']}\n")
            assert got == (int(row["min_bytes"]), int(row["max_bytes"])), row


@pytest.mark.parametrize("name", NAMES)
def test_tilings_of_the_family_equal_the_golden_rows(name):
    rows = [
        r
        for r in _rows("softmax_family_tiling.csv")
        if r["api"] == name
        and r["arch"] == "2201"
        and r["status"] == "ok"
        and int(r["local_workspace_bytes"]) > 0
        and 4 * (int(r["m"]) + 8) * (3 * int(r["k"]) + 256) < 2**32
    ][::5]
    assert rows
    for row in rows:
        (cut,) = _layout(row, NAMES[name], _flags(row), row["local_workspace_bytes"]).cuts
        want = tuple(int(row[field]) for field in ("splitM", "rangeM", "tailM"))
        assert (cut.tiling.split_m, cut.tiling.range_m, cut.tiling.tail_m) == want, row


def test_a_product_that_ignores_tiles_is_no_finding():
    """SoftmaxGrad of arch 3510 works on all rows at once; its least temp gives split_m 0, and that is normal there."""
    row = {"arch": "3510", "shape": "64x128", "dtype": "float"}
    layout = _layout(row, "softmax_grad", "", '"min"')
    (cut,) = layout.cuts
    assert (cut.tiling.split_m, cut.loops, layout.findings) == (0, None, ())


def test_elements_other_than_half_and_float_are_refused():
    text = '[apis.a]\napi = "soft_max"\nshape = [8, 64]\ndtype = "int64_t"\ntemp = "t"\n[temps.t]\nbytes = "min"\n'
    with pytest.raises(InputError) as caught:
        lay_out(plan_of(text, head='schema = 1\nname = "p"\ndevice = "Ascend910B1"\n'), {}, "safe")
    assert str(caught.value).endswith("apis.a: elements of 8 B: want half or float")
