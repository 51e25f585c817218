"""Cases of single rules, strictly: a kernel that breaks one rule gives that code and no other, its neighbours none.

Types that a device lacks are compared with the pages' tables as they are written down here.
"""

import re

import cases_rules
import pytest
from lane_harness import DEVICE, gm_tensors, local

from ascendsim.checks import check_rows, static
from ascendsim.device import load_device
from ascendsim.isa.table import TABLE
from ascendsim.isa.transpose import TransDataTo5HDParams
from ascendsim.record import record
from ascendsim.terms import CmpMode, SelMode

GM = gm_tensors(("x", "half", 64), ("y", "float", 64))
SOC = {2201: "Ascend910B1", 2002: "Ascend310P3", 3002: "Ascend310B1", 3510: "Ascend950PR_9579"}


def found(kernel, device=DEVICE):
    recording = record(kernel, device, 1, GM, ())
    assert recording.complete
    program = recording.program
    return (*recording.findings, *check_rows(program, device), *static.gm_alignment(program, device))


@pytest.mark.parametrize(
    ("rule", "broken", "messages", "kept", "device"),
    cases_rules.CASES,
    ids=[f"{c[0].code}: {c[2][0]}" for c in cases_rules.CASES],
)
def test_one_code_and_its_neighbours_none(rule, broken, messages, kept, device):
    findings = found(broken, device)
    assert tuple(f.message for f in findings) == messages
    assert {f.code for f in findings} == {rule.code}
    assert all(f.hint and f.source and f.where for f in findings)
    for neighbour in kept:
        assert found(neighbour, device) == ()


def test_rules_say_when_they_are_found():
    for rule in {id(c[0]): c[0] for c in cases_rules.CASES}.values():
        if rule.code not in ("E-DTYPE-OP", "E-API-PRODUCT", "E-RANGE-MASK", "E-BRCB-SRC", "W-MASK-MODE"):
            assert rule.condition.endswith("."), rule.code


# ---- types ------------------------------------------------------------------------------------------------------

ALL = ("half", "bfloat16_t", "float", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t")
WORDS = {"half", "bfloat16_t", "float", "int16_t", "uint16_t", "int32_t", "uint32_t"}
BLOCKS = {"half", "float", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t"}


def _transposed(asc, a, b):
    asc.trans_data_to5hd([a[i * a.dtype.per_datablock] for i in range(16)],
                         [b[i * b.dtype.per_datablock] for i in range(16)], TransDataTo5HDParams())  # fmt: skip


U32, U8 = local("w", "uint32_t", 0x3000, 1024), local("u", "uint8_t", 0x3400, 256)
CALLS = {
    "AddRelu": lambda asc, a, b: asc.add_relu(a, b, b, 8),
    "SubRelu": lambda asc, a, b: asc.sub_relu(a, b, b, 8),
    "Gather": lambda asc, a, b: asc.gather(a, b, U32, 0, 8),
    "GatherMask": lambda asc, a, b: asc.gather_mask(a, b, 1, False, 0),
    "Compare": lambda asc, a, b: asc.compare(U8, a, b, CmpMode.EQ, 256 // a.dtype.bytes),
    "TransDataTo5HD": _transposed,
    "Duplicate": lambda asc, a, b: asc.duplicate(a, 1, 8),
    "Add": lambda asc, a, b: asc.add(a, b, b, 8),
    "Select": lambda asc, a, b: asc.select(a, U8, b, b, SelMode.VSEL_TENSOR_TENSOR_MODE, 8),
}
TAKEN = {
    ("AddRelu", 2201): {"half", "float", "int16_t"},
    ("AddRelu", 2002): {"half", "float", "int16_t"},
    ("AddRelu", 3002): {"half", "float"},
    ("AddRelu", 3510): {"half", "float", "int16_t"},
    ("SubRelu", 3002): {"half", "float"},
    ("Gather", 2201): WORDS,
    ("Gather", 2002): WORDS - {"bfloat16_t"},
    ("Gather", 3002): WORDS - {"bfloat16_t"},
    ("Gather", 3510): WORDS,
    ("GatherMask", 2201): WORDS,
    ("GatherMask", 2002): WORDS - {"bfloat16_t"},
    ("GatherMask", 3002): WORDS - {"bfloat16_t"},
    ("Compare", 2201): {"half", "float", "int32_t"},
    ("Compare", 2002): {"half", "float"},
    ("Compare", 3002): {"half", "float"},
    ("TransDataTo5HD", 2201): BLOCKS,
    ("TransDataTo5HD", 2002): BLOCKS,
    ("TransDataTo5HD", 3002): BLOCKS,
    ("TransDataTo5HD", 3510): BLOCKS | {"bfloat16_t"},
    ("Duplicate", 2002): WORDS,
    ("Duplicate", 3002): WORDS,
    ("Add", 2002): {"half", "float", "int16_t", "int32_t"},
    ("Add", 3002): {"half", "float", "int16_t", "int32_t"},
    ("Select", 2002): {"half", "float"},
}
"""Data types of the instructions' pages by product, those that are modelled."""


@pytest.mark.parametrize(("api", "arch"), list(TAKEN))
def test_types_by_architecture(api, arch):
    device = load_device(SOC[arch])
    taken = set()
    for name in ALL:
        a, b = local("a", name, 0x400, 1024), local("b", name, 0x1000, 1024)
        codes = {f.code for f in found(lambda asc, *_, a=a, b=b: CALLS[api](asc, a, b), device)}
        assert codes <= {"E-DTYPE-OP", "E-DTYPE-BF16"}
        taken |= set() if codes else {name}
    assert taken == TAKEN[api, arch]


@pytest.mark.parametrize("arch", list(SOC))
def test_device_files_name_instructions_and_types_that_exist(arch):
    types = load_device(SOC[arch]).types
    assert set(types) <= {op.api for op in TABLE.values()} | {"SetAtomicAdd"}  # a mode, which no row of a log names
    for limited in types.values():
        assert {name for text in limited.value for name in re.split(r"\*|->", text)} <= set(ALL)


# ---- differences of devices that are no finding -----------------------------------------------------------------


@pytest.mark.parametrize("arch", [2201, 3002, 3510])
def test_mask_zero_does_nothing_where_it_is_legal(arch):
    f, g = local("f", "float", 0x400, 1024), local("g", "float", 0x800, 1024)
    assert found(lambda asc, *_: asc.add(f, g, g, 0, 1), load_device(SOC[arch])) == ()


@pytest.mark.parametrize(
    ("arch", "codes"), [(2201, {"E-CAP-UB-RESERVED"}), (2002, {"E-CAP-UB-RESERVED"}), (3510, set())]
)
def test_select_uses_the_reserved_area_on_some_devices_only(arch, codes):
    device = load_device(SOC[arch])
    top = local("top", "float", device.ub.reserved_offset_bytes.value - 32, 64)
    f = local("f", "float", 0x400, 1024)
    findings = found(lambda asc, *_: asc.select(top, U8, f, f, SelMode.VSEL_TENSOR_TENSOR_MODE, 16), device)
    assert {f.code for f in findings if f.severity.value == "E"} - {"E-CAP-UB"} == codes


def test_unaligned_copies_of_a_line_are_one_finding_with_their_number():
    def kernel(asc, _, y):
        for i in range(3):
            asc.data_copy(local("f", "float", 0x400, 1024), y[8 * i], 8)

    (finding,) = found(kernel)
    assert (finding.code, finding.got, finding.count) == ("W-ALIGN-GM", "32", 2)


@pytest.mark.parametrize("arch", [2002, 3002])
def test_no_boundary_of_gm_is_published_for_these(arch):
    assert found(lambda asc, _, y: asc.data_copy(local("f", "float", 0, 1024), y[8], 8), load_device(SOC[arch])) == ()
