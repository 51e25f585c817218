"""Calls of reductions, comparisons, selections and gathers that cannot be recorded, and the words they get."""

import pytest
from record_harness import gm_tensors, local, recorded

from ascendsim.errors import KernelError
from ascendsim.terms import CmpMode, SelMode

F, U, O4 = local("f", "float", 0, 1024), local("u", "uint8_t", 2048, 64), local("o", "uint32_t", 4096, 1024)
(G,) = gm_tensors(("g", "float", 256))
MODE_1, MODE_2 = SelMode.VSEL_TENSOR_SCALAR_MODE, SelMode.VSEL_TENSOR_TENSOR_MODE

REFUSED = {
    "Compare: count must not be negative, got -64": lambda a: a.compare(U, F, F, CmpMode.LT, -64),
    "Gather: count must not be negative, got -1": lambda a: a.gather(F, F, O4, 0, -1),
    "ReduceSum: count must not be negative, got -1": lambda a: a.reduce_sum(F, F, F, -1),
    "ReduceSum: repeat_times must not be negative, got -2": lambda a: a.reduce_sum(F, F, F, 64, -2, 8),
    "ReduceMax: count must not be negative, got -1": lambda a: a.reduce_max(F, F, F, -1),
    "Select: count must not be negative, got -8": lambda a: a.select(F, U, F, F, MODE_2, -8),
    "Compare: count must be a whole number, got 1.5": lambda a: a.compare(U, F, F, CmpMode.LT, 1.5),
    "Compare: cmp_mode must be a CmpMode such as LT, got 'LT'": lambda a: a.compare(U, F, F, "LT", 64),
    "Compares: cmp_mode must be a CmpMode such as LT, got 0": lambda a: a.compares(U, F, 1, 0, 64),
    "Select: sel_mode must be a SelMode such as VSEL_CMPMASK_SPR, got 2": lambda a: a.select(F, U, F, F, 2, 8),
    "WholeReduceMax: order must be a ReduceOrder such as ORDER_VALUE_INDEX, got 1": lambda a: a.whole_reduce_max(
        F, F, 64, 1, 1, 1, 8, 1
    ),
    "Select: src1 must be a LocalTensor in VSEL_TENSOR_TENSOR_MODE, got int": lambda a: a.select(F, U, F, 0, MODE_2, 8),
    "Select: src1 must be a number or a Register in VSEL_TENSOR_SCALAR_MODE, got LocalTensor": lambda a: a.select(
        F, U, F, F, MODE_1, 8
    ),
    "Compares: the scalar is missing (None)": lambda a: a.compares(U, F, None, CmpMode.LT, 64),
    "GatherMask: src1_pattern must be a whole number, got '1'": lambda a: a.gather_mask(F, F, "1", False, 0),
    "Transpose: src must be a LocalTensor in UB, got int": lambda a: a.transpose(F, 1),
    "SetValue: index must be a whole number, got None": lambda a: a.set_value(F, None, 1),
    "RepeatReduceSum: mask must be a whole number, got (1, 0)": lambda a: a.repeat_reduce_sum(
        F, F, 1, (1, 0), 1, 1, 1, 8
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_wrong_call_names_its_line_and_argument(message):
    call = REFUSED[message]
    with pytest.raises(KernelError) as caught:
        recorded(call)
    text = str(caught.value)
    assert text.partition(": ")[2] == message
    assert text.startswith("test_select_errors.py:")


def test_a_global_tensor_is_no_source():
    with pytest.raises(
        KernelError, match=r"Gather: src must be a LocalTensor in UB, got a GlobalTensor \(copy it to UB first"
    ):
        recorded(lambda asc, g: asc.gather(F, g, O4, 0, 8), G)


def test_a_count_known_only_when_the_program_runs_is_no_number():
    with pytest.raises(
        KernelError, match=r"the value that GatherMask read at test_select_errors\.py:\d+ is known only when"
    ):
        recorded(lambda asc: range(asc.gather_mask(F, F[64], 1, True, 8)))
