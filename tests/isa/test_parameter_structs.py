"""A parameter struct of another class, or with a field of another type, is refused where C++ would not compile it."""

import numpy as np
import pytest
from lane_harness import DEVICE, Ground, gm_tensors, local, run_both

from ascendsim.checks import check_rows
from ascendsim.errors import KernelError
from ascendsim.execute import execute
from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
from ascendsim.isa.gather import GatherRepeatParams
from ascendsim.isa.gather_mask import GatherMaskParams
from ascendsim.isa.move import (
    BrcbRepeatParams,
    CopyRepeatParams,
    DataCopyExtParams,
    DataCopyPadExtParams,
    DataCopyParams,
)
from ascendsim.isa.transpose import TransDataTo5HDParams
from ascendsim.record import record
from ascendsim.terms import CmpMode, RoundMode, SelMode

X, Y, Z = local("x", "float", 0, 1024), local("y", "float", 1024, 1024), local("z", "float", 2048, 1024)
H, I16, I32 = local("h", "half", 3072, 1024), local("i", "int16_t", 4096, 1024), local("j", "int32_t", 5120, 1024)
I32B, U8 = local("k", "int32_t", 6144, 1024), local("u", "uint8_t", 7168, 1024)
U32 = local("w", "uint32_t", 8192, 1024)
LIST = [X[8 * i] for i in range(16)]


def refused(kernel):
    """What a KernelError says behind the line."""
    with pytest.raises(KernelError) as caught:
        record(kernel, DEVICE, 1, (), ())
    return str(caught.value).split(": ", 1)[1]


UNARY = {
    "Muls": lambda a, p: a.muls(Z, X, 1.0, 64, 2, p),
    "Exp": lambda a, p: a.exp(Z, X, 64, 2, p),
    "Axpy": lambda a, p: a.axpy(Z, X, 1.0, 64, 2, p),
    "ShiftRight": lambda a, p: a.shift_right(I32, I32, 1, 64, 2, p),
    "Cast": lambda a, p: a.cast(H, X, RoundMode.CAST_NONE, 64, 2, p),
    "Compares": lambda a, p: a.compares(U8, X, 1.0, CmpMode.LT, 64, 2, p),
}
BINARY = {
    "Add": lambda a, p: a.add(Z, X, Y, 64, 2, p),
    "MulAddDst": lambda a, p: a.mul_add_dst(Z, X, Y, 64, 2, p),
    "Compare": lambda a, p: a.compare(U8, X, Y, CmpMode.LT, 64, 2, p),
    "Select": lambda a, p: a.select(Z, U8, X, Y, SelMode.VSEL_TENSOR_TENSOR_MODE, 64, 2, p),
    "AddDeqRelu": lambda a, p: (a.set_deq_scale(1.0), a.add_deq_relu(H, I32, I32B, 64, 2, p)),
}
OTHER = {
    CopyRepeatParams: {"Copy": lambda a, p: a.copy(Z, X, 64, 2, p)},
    BrcbRepeatParams: {"Brcb": lambda a, p: a.brcb(Z, X, 1, p)},
    GatherRepeatParams: {"Gatherb": lambda a, p: a.gatherb(U32, U32, U32, 1, p)},
    GatherMaskParams: {"GatherMask": lambda a, p: a.gather_mask(Z, X, 1, False, 0, p)},
    TransDataTo5HDParams: {"TransDataTo5HD": lambda a, p: a.trans_data_to5hd(LIST, LIST, p)},
}
CALLS = [
    (kind, api, call)
    for kind, calls in ({UnaryRepeatParams: UNARY, BinaryRepeatParams: BINARY} | OTHER).items()
    for api, call in calls.items()
]


@pytest.mark.parametrize(("kind", "api", "call"), CALLS, ids=[api for _, api, _ in CALLS])
def test_another_class_or_field_type_is_refused(kind, api, call):
    other = UnaryRepeatParams if kind is not UnaryRepeatParams else BinaryRepeatParams
    for wrong in (other(), None, 8, (1, 1, 8, 8), ""):
        assert refused(lambda asc, wrong=wrong: call(asc, wrong)) == (
            f"{api}: its parameters must be {kind.__name__}(...), got {wrong!r}"
        )
    whole = [n for n, f in kind.__dataclass_fields__.items() if f.type is int]
    for name in whole:
        for value in (1.0, "1", None, True, np.int64(1)):
            params = kind(**{name: value})
            assert refused(lambda asc, params=params: call(asc, params)) == (
                f"{api}: {kind.__name__}.{name} must be a whole number, got {value!r}"
            )


def test_the_right_class_writes_every_repeat():
    """Two repeats of 64 floats are 128 elements; with another struct's fields it would be 72."""
    start = Ground().write(X, np.arange(128, dtype=np.float32)).write(Z, np.full(128, -1, np.float32))
    both = run_both(lambda asc: asc.muls(Z, X, 1.0, 64, 2, UnaryRepeatParams()), start)
    assert both.array(Z, 128).tolist() == list(range(128))


def test_copies_take_their_own_structs():
    gm = local("g", "float", 9216, 1024)
    assert refused(lambda a: a.data_copy(X, Y, DataCopyParams(1, 1.0))) == (
        "DataCopy: DataCopyParams.block_len must be a whole number, got 1.0"
    )
    assert refused(lambda a: a.data_copy(gm, Y, "8")) == "DataCopy: count must be a whole number, got '8'"
    assert refused(lambda a: a.data_copy(gm, Y, DataCopyExtParams(1, 8))) == (
        f"DataCopy: its parameters must be a count or DataCopyParams(...), got {DataCopyExtParams(1, 8)!r}"
    )


def test_padding_copies_take_their_own_structs():
    gm = gm_tensors(("g", "float", 64))

    def refused_pad(*params):
        with pytest.raises(KernelError) as caught:
            record(lambda a, g: a.data_copy_pad(X, g, *params), DEVICE, 1, gm, ())
        return str(caught.value).split(": ", 1)[1]

    assert refused_pad(DataCopyParams(1, 1)) == (
        f"DataCopyPad: its parameters must be DataCopyExtParams(...), got {DataCopyParams(1, 1)!r}"
    )
    assert refused_pad(DataCopyExtParams(1, 4.0)) == (
        "DataCopyPad: DataCopyExtParams.block_len must be a whole number, got 4.0"
    )
    right = DataCopyExtParams(1, 4)
    assert refused_pad(right, DataCopyPadExtParams(is_pad=1)) == (
        "DataCopyPad: DataCopyPadExtParams.is_pad must be True or False, got 1"
    )
    assert refused_pad(right, DataCopyPadExtParams(left_padding="1")) == (
        "DataCopyPad: DataCopyPadExtParams.left_padding must be a whole number, got '1'"
    )
    assert refused_pad(right, DataCopyPadExtParams(padding_value="1")) == (
        "DataCopyPad: DataCopyPadExtParams.padding_value must be a number, got '1'"
    )


@pytest.mark.parametrize(
    ("text", "kernel"),
    {
        "Duplicate: dst_blk_stride must be a whole number, got 1.0": lambda a: a.duplicate(Z, 1, 64, 1, 1.0, 8),
        "Duplicate: dst_rep_stride must be a whole number, got '8'": lambda a: a.duplicate(Z, 1, 64, 1, 1, "8"),
        "Gather: dst_rep_stride must be a whole number, got 8.0": lambda a: a.gather(Z, X, U32, 0, 64, 1, 8.0),
        "BlockReduceSum: dst_rep_stride must be a whole number, got 1.0": lambda a: a.block_reduce_sum(
            Z, X, 1, 64, 1.0, 1, 8
        ),
        "WholeReduceSum: src_blk_stride must be a whole number, got '1'": lambda a: a.whole_reduce_sum(
            Z, X, 64, 1, 1, "1", 8
        ),
        "WholeReduceMax: src_rep_stride must be a whole number, got 8.0": lambda a: a.whole_reduce_max(
            Z, X, 64, 1, 1, 1, 8.0
        ),
        "RepeatReduceSum: src_rep_stride must be a whole number, got None": lambda a: a.repeat_reduce_sum(
            Z, X, 1, 64, 1, 1, 1, None
        ),
        "SetVectorMask: mask_low must be a whole number, got 1.5": lambda a: a.set_vector_mask(0, 1.5),
        "SetVectorMask: mask_high must be a whole number, got '1'": lambda a: a.set_vector_mask("1", 0),
        "ShiftRight: round_en must be True or False, got 'yes'": lambda a: a.shift_right(
            I32, I32, 1, 64, 1, UnaryRepeatParams(), "yes"
        ),
        "GatherMask: reduce_mode must be True or False, got 0": lambda a: a.gather_mask(Z, X, 1, 0, 0),
        "ReduceMax: cal_index must be True or False, got 1": lambda a: a.reduce_max(Z, X, Y, 64, cal_index=1),
        "TransDataTo5HD: TransDataTo5HDParams.dst_high_half must be True or False, got 1": lambda a: a.trans_data_to5hd(
            LIST, LIST, TransDataTo5HDParams(dst_high_half=1)
        ),
    }.items(),
)
def test_single_fields_have_types_too(text, kernel):
    assert refused(kernel) == text


# ---- masks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [(1,), (1, 2, 3), (), (1.0, 0), ("1", 0), (True, 0), (None, 0)])
def test_a_mask_pair_is_two_whole_numbers(mask):
    text = f"Add: a mask pair must be two whole numbers (low, high), got {mask!r}"
    assert refused(lambda asc: asc.add(Z, X, Y, mask, 1, BinaryRepeatParams())) == text


def test_the_low_word_of_a_mask_pair_comes_first():
    a, d = local("a", "half", 0, 256), local("d", "half", 1024, 256)
    start = Ground().write(a, np.arange(128, dtype=np.float16)).write(d, np.full(128, -1, np.float16))
    both = run_both(lambda asc: asc.adds(d, a, 0, (0b10, 0b100), 1), start)
    assert [i for i, x in enumerate(both.array(d, 128).tolist()) if x >= 0] == [1, 66]


# ---- nothing to do -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_max", "reduce_min"])
def test_a_reduction_of_no_elements_does_nothing_and_warns(name):
    start = Ground().write(X, np.ones(64, np.float32)).write(Z, np.full(8, 7, np.float32))
    both = run_both_without_oracle(lambda asc: getattr(asc, name)(Z, X, Y, 0), start)
    assert both == (["W-REPEAT-ZERO"], [7.0] * 8)


def run_both_without_oracle(kernel, ground):
    """(codes found, the first eight elements of Z)."""
    program = record(kernel, DEVICE, 1, (), ()).program
    execute(program, DEVICE, (), ub=ground.ub)
    got = ground.ub.content[2048 : 2048 + 32].view(np.float32).tolist()
    return [f.code for f in check_rows(program, DEVICE)], got
