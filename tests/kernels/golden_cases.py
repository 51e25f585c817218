"""The golden cases of SoftmaxGrad, each run once: what tests of its values, log, findings and temp look at.

An architecture takes part by an entry in SOC and its rows in the index.
"""

import csv
import zlib
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from unittest import mock

import numpy as np
from conftest import GOLDEN

import ascendsim as asc
from ascendsim.op_host.softmax import soft_max_grad_tiling_func

FOLDER = GOLDEN / "softmaxgrad_cpu"
SOC = {"2201": "Ascend910B1", "2002": "Ascend310P3", "3002": "Ascend310B1", "3510": "Ascend950PR_9589"}
"""The part that runs an architecture's cases; arch 3002 has op traces and temp marks only."""

with (FOLDER / "index.csv").open() as file:
    CASES = list(csv.DictReader(file))
BY_ID = {case["case_id"]: case for case in CASES}


def label(case):
    return case["case_id"][:60]


@dataclass(frozen=True)
class Ran:
    """One case after its run. `contents`: the bytes that rows of the log wrote, by their CRC."""

    case: dict
    arrays: dict
    result: object
    contents: dict

    @property
    def codes(self):
        return {f.code for f in self.result.findings}


def arrays_of(case):
    with np.load(FOLDER / case["npz"]) as archive:
        return {name: archive[name] for name in archive.files}


def log_of(case):
    with (FOLDER / case["log"]).open() as log:
        return list(csv.DictReader(log))


def call(case, arrays, **more):
    """Run a case; the defect cases too, which write behind dst."""
    m, k = int(case["srcM"]), int(case["srcK"])
    tmp_bytes = int(case["tmp_bytes"])
    is_front = case["is_front"] == "1" or case["api"] == "front"
    # "device" cases were made by passing a tiling of another shape, so that the kernel re-tiles.
    rows = m + (case["tiling_source"] == "device")
    common = {
        "soc": SOC[case["arch"]],
        "data_format": case["format"].upper(),
        "ori_shape": (int(case["oriSrcM"]), int(case["oriSrcK"])),
        "tmp_bytes": tmp_bytes,
        "tiling": soft_max_grad_tiling_func((rows, k), arrays["src"].itemsize, tmp_bytes, is_front),
        "despite_findings": True,
        **more,
    }
    if case["api"] == "front":
        is_basic_block = case["is_basic_block"] == "1"
        return asc.softmax_grad_front(arrays["grad"], arrays["src"], is_basic_block=is_basic_block, **common)
    reuse = case["reuse_src"] == "1"
    return asc.softmax_grad(arrays["grad"], arrays["src"], is_front=is_front, reuse_source=reuse, **common)


@cache
def ran(case_id):
    """The case of that id, run once in a test session."""
    case = BY_ID[case_id]
    arrays, contents = arrays_of(case), {}

    def crc32(content):
        crc = zlib.crc32(content)
        contents[f"{crc:08x}"] = bytes(content)
        return crc

    with mock.patch("ascendsim.context.zlib", SimpleNamespace(crc32=crc32)):
        result = call(case, arrays)
    return Ran(case, arrays, result, contents)


def same_bits(got, want):
    unsigned = f"u{want.dtype.itemsize}"
    return (got.view(unsigned) == want.view(unsigned)) | (np.isnan(got) & np.isnan(want))


def touched_end(program, name, roles):
    """Highest byte of a tensor that a program touches through operands in these roles, plus one."""
    top = 0
    for template in program.templates:
        for row in template.rows:
            operands = dict(row.operands)
            if not any(template.tensors[o.tensor].name == name for o in operands.values()):
                continue
            for role, _, end in row.op.touch(row):
                if role in roles and template.tensors[operands[role].tensor].name == name:
                    top = max(top, operands[role].offset_bytes + end)
    return top
