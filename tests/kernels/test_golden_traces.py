"""Golden op traces and temp high-water marks: recorded only, no values. Architectures come from the files' rows."""

import csv
import re
from collections import Counter
from itertools import groupby

import pytest
from conftest import GOLDEN
from golden_cases import SOC, touched_end

from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT, HALF, UINT8
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import SoftMaxTiling
from ascendsim.op_kernel import softmax_grad, softmax_grad_front
from ascendsim.record import record
from ascendsim.terms import DataFormat, HardEvent, MaskMode, TPosition

ELEMENTS = {"half": HALF, "float": FLOAT}


def _rows(name):
    with (GOLDEN / name).open() as file:
        return list(csv.DictReader(file))


HIGH_WATER = _rows("softmaxgrad_tmp_highwater.csv")
TRACES = [list(rows) for _, rows in groupby(_rows("softmaxgrad_optrace.csv"), key=lambda row: row["case_id"])]


def _tiling(m, k, e, rows):
    """The struct for tiles of so many rows; e: elements of a datablock."""
    full, tail = divmod(m, rows)
    return SoftMaxTiling(
        m, k, m * k, m, e, m * e, rows, k, rows * k, rows, e, rows * e, full, tail, tail * k, tail * e
    )  # fmt: skip


def _program(case):
    """The program of a row of either file, its tensors 64 KiB apart from address 0 on (nothing is executed)."""
    element = ELEMENTS[case["dtype"]]
    m, k = int(case["m"]), int(case["k"])
    size = m * k * 4
    names = ("src", "grad", "dst", "tmp")
    src, grad, dst, tmp = (
        LocalTensor(n, TPosition.VECCALC, element, i * size, size) for i, n in enumerate(names)
    )  # fmt: skip
    tmp = LocalTensor("tmp", TPosition.VECCALC, UINT8, tmp.address_bytes, 1 << 20)
    tiling = _tiling(m, k, element.per_datablock, int(case["split_m"]))
    data_format = DataFormat(case["format"])
    mode = case["mode"]

    def kernel(asc):
        if mode == "full":
            softmax_grad(asc, dst, grad, src, tmp, tiling, data_format=data_format)
        else:
            is_basic = mode == "front_basic_block"
            softmax_grad_front(
                asc, dst, grad, src, tmp, tiling, data_format=data_format, is_basic_block=is_basic
            )  # fmt: skip

    recording = record(kernel, load_device(SOC[case["arch"]]), 1, (), ())
    assert recording.complete
    assert {f.code for f in recording.findings} <= {"I-SMG-MASK", "I-SMG-STALE"}
    return recording.program


def test_there_are_as_many_as_the_files_should_hold():
    assert Counter(row["arch"] for row in HIGH_WATER) == {"2201": 280, "2002": 282, "3002": 119}
    assert Counter(trace[0]["arch"] for trace in TRACES) == {"2201": 20, "2002": 20, "3002": 12}


@pytest.mark.parametrize(("arch", "mode"), sorted({(row["arch"], row["mode"]) for row in HIGH_WATER}))
def test_temp_that_is_touched(arch, mode):
    """touched_bytes: highest byte of temp read or written, plus one; at most what the tiling formula reserves."""
    rows = [row for row in HIGH_WATER if (row["arch"], row["mode"]) == (arch, mode)]
    assert rows
    for row in rows:
        touched = touched_end(_program(row), "tmp", ("dst", "src0", "src1"))
        assert touched == int(row["touched_bytes"]), row
        assert touched <= int(row["tiling_formula_bytes"])


# ---- traces -----------------------------------------------------------------------------------------------------


def _shown(row, template):
    """(op, operands, what else there is to say) of a row, or None for rows that traces leave out."""
    op = row.op
    if op.name in ("set_flag", "wait_flag"):
        return op.api, HardEvent(row.param("event")).name, {}
    if op.name == "pipe_barrier":
        return op.api, "V", {}
    if row.dst is None:
        return None
    operands = " ".join(
        f"{template.tensors[o.tensor].name}[{o.offset_bytes // o.dtype.bytes}]" for _, o in row.operands
    )
    return op.api, "" if op.api == "TransDataTo5HD" else operands, _details(row)


def _details(row):
    names = {
        "repeat": "rep", "block_count": "blocks", "block_len": "len", "src_gap": "srcGap", "dst_gap": "dstGap",
        "dst_rep_stride": "dstRep", "src0_rep_stride": "srcRep", "dst_blk_stride": "dstBlk",
        "src0_blk_stride": "srcBlk",
    }  # fmt: skip
    details = {names[n]: str(v) for n, v in zip(row.op.params, row.params, strict=True) if n in names}
    if len(row.params) == 7:
        details["strides"] = ",".join(map(str, row.params[1:]))
    if not row.op.uses_mask:
        return details
    if row.mask_mode is MaskMode.COUNTER:
        return details | {"counter": str(row.mask_lo)}
    lanes = (row.mask_lo & (1 << 64) - 1).bit_count()  # floats: 64 lanes, the high word means nothing
    return details | {"mask": str(lanes)}


def _wanted(row):
    """The same of a line of a trace; count forms are counter mode."""
    text = row["operands"].replace("mask=full", "mask=64").replace("bitmask", "mask=64")
    details = dict(re.findall(r"(\w+)=([\d,]+)", text))
    operands = " ".join(re.findall(r"\w+\[\d+\]", text))
    if row["op"] in ("PipeBarrier", "SetFlag", "WaitFlag"):
        operands = text
    if "count" in details:
        count = int(details.pop("count"))
        if row["op"] == "DataCopy":
            details |= {"blocks": "1", "len": str(count // 8), "srcGap": "0", "dstGap": "0"}
        else:
            details["counter"] = str(count)
    return row["op"], operands, details


@pytest.mark.parametrize(
    "trace", TRACES, ids=lambda t: "-".join(t[0][n] for n in ("arch", "dtype", "format", "mode", "m", "k"))
)
def test_op_trace(trace):
    program = _program(trace[0])
    got = [_shown(row, template) for template in program.templates for row in template.rows]
    got = [line for line in got if line]
    for (op, operands, details), row in zip(got, trace, strict=True):
        wanted_op, wanted_operands, wanted = _wanted(row)
        assert (op, operands) == (wanted_op, wanted_operands), row
        assert wanted.items() <= details.items(), (row, details)
