"""Mistakes in the matmul operator's loads: fractals turned that must not be, or not turned, or in another order."""

from dataclasses import replace

import pytest
from test_matmul import A2, A5, recorded

from ascendsim.checks import check_program
from ascendsim.device import load_device
from ascendsim.program import Template

SHAPE = (64, 96, 160)
BLOCK = {"base_m": 64, "base_n": 96, "base_k": 64}


def changed(program, side, change):
    """(The program with other parameters of its loads to L0A or L0B, whether they are others at all)."""
    templates, is_another = [], False
    for old in program.templates:
        rows = []
        for row in old.rows:
            is_meant = row.op.name.startswith("load_data") and row.op.name.endswith(side)
            named = dict(zip(row.op.params, row.params, strict=True))
            params = tuple((named | change(named)).values()) if is_meant else row.params
            is_another |= params != row.params
            rows.append(replace(row, params=params))
        templates.append(Template.of_rows(old.name, rows, old.tensors, old.slots, old.registers))
    return replace(program, templates=tuple(templates)), is_another


def turned(names):
    return {"if_transpose": 1 - names["if_transpose"]}


def in_a_run(names):
    return {"src_stride": 1}


def of_mmad(program, device):
    return {f.operand for f in check_program(program, load_device(device)) if f.code == "E-MMAD-LAYOUT"}


@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("device", [A2, A5])
def test_turned_fractals_of_the_operator(device, a_transposed, b_transposed):
    choice = {"a_transposed": a_transposed, "b_transposed": b_transposed} | BLOCK
    program = recorded(SHAPE, device=device, **choice).program
    assert of_mmad(program, device) == set()
    for side, operand in (("l0a", "src0"), ("l0b", "src1")):
        assert of_mmad(changed(program, side, turned)[0], device) == {operand}


@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("kind", ["half", "float", "int8_t"])
def test_fractals_of_the_operator_in_another_order(kind, a_transposed, b_transposed):
    choice = {"a_transposed": a_transposed, "b_transposed": b_transposed} | BLOCK
    result = "int32_t" if kind == "int8_t" else "float"
    program = recorded(SHAPE, kind, result, **choice).program
    assert of_mmad(program, A2) == set()
    for side, operand in (("l0a", "src0"), ("l0b", "src1")):
        mutant, is_another = changed(program, side, in_a_run)
        assert of_mmad(mutant, A2) == ({operand} if is_another else set())
