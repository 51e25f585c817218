"""The table of instructions as a whole: what every entry must have."""

import importlib
import keyword
import re
from dataclasses import replace

import pytest

from ascendsim.isa.instruction import register_instruction
from ascendsim.isa.table import BY_OPCODE, FAMILIES, TABLE
from ascendsim.record import AiCore
from ascendsim.terms import Pipe

ANY_PIPE = {"set_flag", "wait_flag", "pipe_barrier", "cross_core_set_flag", "cross_core_wait_flag"}
NO_CHECKS = ("", "SetFlag", "WaitFlag", "PipeBarrier", "SetDeqScale", "SetAtomicAdd", "SetAtomicNone")
PIPES = {
    Pipe.V: """
        add sub mul div max min and_ or_ add_relu sub_relu mul_add_dst fused_mul_add mul_cast axpy adds muls maxs mins
        leaky_relu shift_left shift_right exp ln sqrt rsqrt reciprocal abs relu not_ cast duplicate brcb copy
        data_copy_ub_to_ub transpose trans_data_to5hd gather gatherb gather_mask compare compares select select_scalar
        block_reduce_sum block_reduce_max block_reduce_min whole_reduce_sum whole_reduce_max whole_reduce_min
        pair_reduce_sum repeat_reduce_sum reduce_max reduce_min reduce_sum_accumulate reduce_sum_round set_cmpmask
        set_cmp_mask select_held vector_function data_copy_l0c_to_ub
    """,
    Pipe.MTE2: """
        data_copy_gm_to_ub data_copy_pad_gm_to_ub data_copy_gm_to_l1 data_copy_nd2nz load_data_2d_gm_to_l1
        load_data_2d_gm_to_l0a load_data_2d_gm_to_l0b
    """,
    Pipe.MTE3: """
        data_copy_ub_to_gm data_copy_pad_ub_to_gm data_copy_l1_to_gm data_copy_ub_to_l1 data_copy_ub_to_gm_atomic_add
        data_copy_l1_to_gm_atomic_add data_copy_pad_ub_to_gm_atomic_add
    """,
    Pipe.MTE1: """
        data_copy_l1_to_bt load_data_2d_l0a load_data_2d_l0b load_data_with_transpose_l0a load_data_with_transpose_l0b
        load_data_3d_l0a load_data_3d_l0b
    """,
    Pipe.M: "mmad mmad_accumulate",
    Pipe.FIX: "data_copy_l1_to_fb fixpipe_to_gm fixpipe_to_gm_atomic_add fixpipe_to_l1",
    Pipe.S: """
        get_value set_value set_mask_count set_mask_norm set_vector_mask set_va_reg_sb set_deq_scale set_atomic_add
        set_atomic_none scalar_work dump_tensor
    """,
}
"""Arithmetic, moves inside UB, comparisons, selections and reductions are V's; GM to UB is MTE2's, UB to GM MTE3's;
GM to L1 and L0 is MTE2's, out of L1 MTE1's (scales: FIX's), products are M's, results leave through FIX; reading and
writing elements and setting registers is the scalar unit's (asc-devkit docs, appendix on pipes)."""


@pytest.fixture(params=list(TABLE))
def op(request):
    return TABLE[request.param]


def test_names_its_source(op):
    text, _, source = op.doc.partition("Source:")
    assert text.strip()
    assert source.strip()


def test_names_its_parameters_once(op):
    assert len(set(op.params)) == len(op.params)


def test_has_a_pipe_unless_the_call_decides(op):
    assert (op.pipe is None) == (op.name in ANY_PIPE)
    if op.pipe is not None:
        assert op.name in PIPES[op.pipe].split()


def test_the_list_of_pipes_names_every_instruction_once():
    listed = [name for names in PIPES.values() for name in names.split()]
    assert sorted(listed) == sorted(set(TABLE) - ANY_PIPE)


def test_opcode_finds_the_instruction_and_stays(op):
    assert BY_OPCODE[op.opcode] is op
    assert TABLE[op.name] is op
    assert op.opcode == BY_OPCODE.index(op)


def test_masked_instructions_are_vector_instructions_with_a_repeat(op):
    if op.uses_mask:
        assert op.pipe is Pipe.V
        assert op.params[0] == "repeat"


def test_instructions_that_move_or_compute_have_checks(op):
    assert bool(op.checks) == (op.api not in NO_CHECKS)


def test_the_table_and_the_opcodes_hold_the_same():
    """What users declare has opcodes behind those of the table."""
    built_in, declared = BY_OPCODE[: len(TABLE)], BY_OPCODE[len(TABLE) :]
    assert set(map(id, built_in)) == set(map(id, TABLE.values()))
    assert all(op.declared is None for op in built_in)
    assert all(op.declared is not None for op in declared)


def test_every_api_name_can_be_called():
    """Each AscendC name is an attribute of AiCore in snake_case."""
    for op in TABLE.values():
        name = re.sub("(?<=[a-z])(?=[A-Z])", "_", op.api).lower() if op.api else op.name
        name += "_" * keyword.iskeyword(name)
        assert callable(getattr(AiCore, name)) or getattr(AiCore, name).op.api == op.api, op.name


def test_opcodes_stay_when_everything_is_imported_again():
    before = {name: op.opcode for name, op in TABLE.items()}
    for module in FAMILIES:
        importlib.import_module(module.__name__)
    assert (
        {name: op.opcode for name, op in TABLE.items()}
        == before
        == {op.name: i for i, op in enumerate(BY_OPCODE[: len(TABLE)])}
    )


def test_a_second_instruction_of_a_name_is_refused():
    with pytest.raises(ValueError, match=r"^instruction add is declared twice$"):
        register_instruction(TABLE["add"])


def test_a_docstring_without_a_source_is_refused():
    with pytest.raises(ValueError, match=r"^instruction new: its docstring names no source$"):
        register_instruction(replace(TABLE["add"], name="new", doc="dst = src"))
    assert "new" not in TABLE
