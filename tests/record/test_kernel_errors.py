"""Kernels that cannot be recorded, and the words they get: file, line, what, why."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from record_harness import DEVICE, VECIN, gm_tensors, local, messages, recorded

from ascendsim.errors import InputError, KernelError
from ascendsim.isa.move import CopyRepeatParams, DataCopyExtParams
from ascendsim.record import record, tile
from ascendsim.terms import HardEvent, MaskMode, RoundMode

X, Y, H = local("x", "float", 0, 1024), local("y", "float", 1024, 1024), local("h", "half", 2048, 1024)
(G,) = gm_tensors(("g", "float", 256))
FILE = "test_kernel_errors.py"


def refused(kernel, *gm, cores=1):
    """The text of the KernelError."""
    with pytest.raises(KernelError) as caught:
        recorded(kernel, *gm, cores=cores)
    return str(caught.value)


def at(kernel, offset):
    """FILE:line, `offset` lines below the kernel's def."""
    return f"{FILE}:{kernel.__code__.co_firstlineno + offset}"


# ---- scalars known only when the program runs --------------------------------------------------------------------

UNKNOWN = (
    "the value that GetValue read at {} is known only when the program runs; Python cannot use it in a condition, "
    "an index, a bound or arithmetic. Pass it to an instruction that takes a scalar (Duplicate, Adds, Muls), or decide "
    "on the host and pass the number in with the tiling"
)


def if_(asc, r):
    if r:
        asc.duplicate(X, 0, 8)


USES = {
    "if": if_,
    "not": lambda asc, r: not r,
    "<": lambda asc, r: r < 1,
    "<=": lambda asc, r: r <= 1,
    ">": lambda asc, r: r > 1,
    ">=": lambda asc, r: r >= 1,
    "1 <": lambda asc, r: 1 < r,  # noqa: SIM300
    "range": lambda asc, r: list(range(r)),
    "len": lambda asc, r: len(r),
    "iteration": lambda asc, r: list(r),
    "index of a list": lambda asc, r: [0, 1][r],
    "index of a tensor": lambda asc, r: X[r],
    "int": lambda asc, r: int(r),
    "float": lambda asc, r: float(r),
    "+": lambda asc, r: r + 1,
    "1 +": lambda asc, r: 1 + r,
    "-": lambda asc, r: r - 1,
    "1 -": lambda asc, r: 1 - r,
    "*": lambda asc, r: r * 2,
    "2 *": lambda asc, r: 2 * r,
    "/": lambda asc, r: r / 2,
    "negation": lambda asc, r: -r,
    "min": lambda asc, r: min(r, 1),
}


@pytest.mark.parametrize("use", USES)
def test_python_cannot_look_at_a_register(use):
    def kernel(asc):
        r = asc.get_value(X, 0)
        USES[use](asc, r)

    line = at(USES[use], 1 if use == "if" else 0)
    assert refused(kernel) == f"{line}: {UNKNOWN.format(at(kernel, 1))}"


@pytest.mark.parametrize("use", ["if", "+"])
def test_nor_inside_a_tile(use):
    @tile
    def part(asc):
        USES[use](asc, asc.get_value(X, 0))

    line = at(USES[use], 1 if use == "if" else 0)
    assert refused(part) == f"{line}: {UNKNOWN.format(at(part.__wrapped__, 2))}"


@pytest.mark.parametrize("use", [lambda r: r == 0, lambda r: r != 0, lambda r: r in (0, 1)])
def test_nor_compare_it_for_equality(use):
    """`if asc.get_value(x, 0) == 0:` takes the same branch whatever x holds."""

    def kernel(asc):
        use(asc.get_value(X, 0))

    line = at(use if hasattr(use, "__code__") else kernel, 0 if hasattr(use, "__code__") else 1)
    assert refused(kernel) == f"{line}: {UNKNOWN.format(at(kernel, 1))}"


@pytest.mark.parametrize("use", [lambda r: r // 2, lambda r: r % 2, lambda r: r**2, abs, round, lambda r: 2 / r])
def test_nor_calculate_with_it_in_other_ways(use):
    def kernel(asc):
        use(asc.get_value(X, 0))

    line = at(use if hasattr(use, "__code__") else kernel, 0 if hasattr(use, "__code__") else 1)
    assert refused(kernel) == f"{line}: {UNKNOWN.format(at(kernel, 1))}"


def test_a_register_does_not_leave_its_tile():
    kept = []

    @tile
    def read(asc):
        kept.append(asc.get_value(X, 0))

    def kernel(asc):
        read(asc)
        asc.duplicate(Y, kept[0], 8)

    assert refused(kernel) == (
        f"{at(kernel, 2)}: a scalar read at {at(read.__wrapped__, 2)} is used outside its tile; read and use it in the "
        "same tile"
    )


def test_a_register_does_not_come_back_in_a_later_template(monkeypatch):
    """Whether an address is used again is up to the allocator; here every template is made to lie at the same one."""
    monkeypatch.setattr("ascendsim.record.id", lambda _: 4096, raising=False)
    kept = []

    @tile
    def read(asc):
        kept.append(asc.get_value(X, 0))

    def kernel(asc):
        read(asc)
        asc.get_value(Y, 0)
        asc.duplicate(Y, kept[0], 8)

    assert f"{at(kernel, 3)}: a scalar read at" in refused(kernel)


def test_a_register_does_not_enter_a_tile():
    @tile
    def use(asc, value):
        asc.duplicate(Y, value, 8)

    def kernel(asc):
        use(asc, asc.get_value(X, 0))

    assert refused(kernel) == f"{at(kernel, 1)}: a scalar read from UB cannot be passed into a @tile; read it inside"


# ---- what a tile may not do -------------------------------------------------------------------------------------


def test_a_gm_tensor_must_be_an_argument():
    @tile
    def load(asc):
        asc.data_copy(X, G, 8)

    def kernel(asc, g):
        load(asc)

    assert refused(kernel, G) == (
        f"{at(load.__wrapped__, 2)}: GM tensor g is not among the arguments of the @tile that uses it"
    )


def test_a_gm_tensor_inside_a_tuple_is_no_argument():
    @tile
    def load(asc, sources):
        asc.data_copy(X, sources[0], 8)

    ask = lambda asc, g: load(asc, (g,))  # noqa: E731
    assert refused(ask, G) == (
        f"{at(ask, 0)}: a GM tensor inside another @tile argument; pass it as an argument of its own"
    )


def test_the_block_index_is_asked_outside():
    @tile
    def part(asc):
        asc.get_block_idx()

    assert refused(part) == (
        f"{at(part.__wrapped__, 2)}: get_block_idx inside a @tile: a tile is recorded once for all cores. Call it "
        "outside and pass the tile what it needs"
    )


def test_the_number_of_blocks_may_be_asked_inside():
    seen = []

    @tile
    def part(asc):
        seen.append(asc.get_block_num())

    recorded(part, cores=5)
    assert seen == [5]  # recorded once


def test_a_tile_returns_nothing():
    @tile
    def part(asc):
        asc.duplicate(X, 0, 8)
        return X

    def kernel(asc):
        part(asc)

    assert refused(kernel) == f"{at(kernel, 1)}: @tile part returns a value; a tile may only record"


CHANGES = "may change between calls; pass numbers, text, enum members, tuples, frozen dataclasses, tensors or queues"


@dataclass
class Changing:
    n: int = 1


class Plain:
    pass


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        (Changing(), "a @tile argument of type Changing " + CHANGES),
        (Plain(), "a @tile argument of type Plain " + CHANGES),
        (max, "a @tile argument of type builtin_function_or_method " + CHANGES),
        ([1], "a @tile argument of type list " + CHANGES),
        ({"n": 1}, "a @tile argument of type dict " + CHANGES),
        (np.zeros(2), "a @tile argument of type ndarray " + CHANGES),
        (([1],), "a @tile argument of type list " + CHANGES),
    ],
)
def test_arguments_of_a_tile_can_be_compared(argument, text):
    @tile
    def part(asc, value):
        asc.duplicate(X, 0, 8)

    def kernel(asc):
        part(asc, argument)

    assert refused(kernel) == f"{at(kernel, 1)}: {text}"


def test_wrong_arguments_of_a_tile_are_named():
    @tile
    def part(asc, value):
        asc.duplicate(X, value, 8)

    def kernel(asc):
        part(asc)

    assert refused(kernel) == f"{at(kernel, 1)}: @tile part: missing a required argument: 'value'"


# ---- steps ------------------------------------------------------------------------------------------------------


def test_trace_stop_closes_the_step_opened_last():
    def kernel(asc):
        asc.trace_start("outer")
        asc.trace_start("inner")
        asc.trace_stop("outer")

    assert refused(kernel) == f"{at(kernel, 3)}: trace_stop('outer'): the step open here is 'inner'"


def test_trace_stop_needs_an_open_step():
    def kernel(asc):
        asc.trace_stop("step")

    assert refused(kernel) == f"{at(kernel, 1)}: trace_stop('step'): the step open here is 'none'"


def test_a_step_left_open_is_named():
    assert refused(lambda asc: asc.trace_start("step")) == (
        "end of kernel: step 'step' was opened by trace_start and never closed"
    )


def test_a_step_closed_twice_inside_with_is_named():
    def kernel(asc):
        with asc.trace("step"):
            asc.trace_stop("step")

    line = refused(kernel)
    assert line == f"{at(kernel, 1)}: trace_stop('step'): the step open here is 'none'"


# ---- the kernel's own mistakes ----------------------------------------------------------------------------------


def test_an_exception_of_the_kernel_names_its_line():
    def kernel(asc):
        asc.duplicate(X, 0, 8)
        return 1 // (asc.get_block_num() - 2)

    assert refused(kernel, cores=2) == (
        f"{at(kernel, 2)}: the kernel raised ZeroDivisionError: integer division or modulo by zero"
    )


def test_the_innermost_line_of_the_kernel_counts_and_the_cause_is_kept():
    def helper():
        raise LookupError("no such thing")

    def kernel(asc):
        helper()

    with pytest.raises(KernelError) as caught:
        recorded(kernel)
    assert str(caught.value) == f"{at(helper, 1)}: the kernel raised LookupError: no such thing"
    assert isinstance(caught.value.__cause__, LookupError)


def test_an_exception_inside_a_tile_names_its_line():
    @tile
    def part(asc):
        raise LookupError("inside")

    assert refused(part) == f"{at(part.__wrapped__, 2)}: the kernel raised LookupError: inside"


NOT_THERE = {
    "reduce_data_block": "ReduceDataBlock is called block_reduce_sum, block_reduce_max or block_reduce_min here",
    "ReduceRepeat": "ReduceRepeat is called whole_reduce_sum, whole_reduce_max or whole_reduce_min here",
    "reduce_pair_elem": "ReducePairElem is called pair_reduce_sum here",
    "sort32": "Sort32 is not modelled; see docs/adding-an-instruction.md",
    "MrgSort": "MrgSort is not modelled; see docs/adding-an-instruction.md",
    "get_cmp_mask": "GetCmpMask is not modelled; see docs/adding-an-instruction.md; did you mean set_cmp_mask?",
    "whole_reduce_summ": "asc has no 'whole_reduce_summ'; did you mean whole_reduce_sum or whole_reduce_min?",
    "Muls": "asc has no 'Muls'; did you mean muls or mul?",
    "something_else": "asc has no 'something_else'; docs/writing-a-kernel.md lists what there is",
}


@pytest.mark.parametrize("name", NOT_THERE)
def test_an_unknown_call_is_named(name):
    def kernel(asc):
        getattr(asc, name)(X, X, 8)

    text = refused(kernel)
    assert text == f"{at(kernel, 1)}: {NOT_THERE[name]}"


def test_a_kernel_can_ask_whether_a_call_is_there():
    def kernel(asc):
        assert [hasattr(asc, n) for n in ("add", "sort32", "nothing", "_own_")] == [True, False, False, False]

    assert recorded(kernel).complete


def test_an_unknown_type_name_is_an_input_error():
    def kernel(asc):
        q = asc.t_que(VECIN, 1, "q")
        asc.t_pipe().init_buffer(q, 1, 32)
        q.alloc_tensor("double")

    with pytest.raises(InputError, match=r"^unknown dtype 'double'; known: half, bfloat16_t, "):
        recorded(kernel)


@pytest.mark.parametrize(
    "call",
    [
        lambda asc: asc.adds(X, X, "two", 8),
        lambda asc: X["first"],
        lambda asc: X[0:8],
        lambda asc: X[1.5] and asc.add(X[1.5], X, X, 8),
    ],
)
def test_wrong_values_are_blamed_on_the_kernels_line(call):
    def kernel(asc):
        call(asc)

    assert refused(kernel).startswith(FILE)


# ---- operands of the wrong kind ---------------------------------------------------------------------------------

NOT_LOCAL = {
    "str": ("text", "str"),
    "None": (None, "NoneType"),
    "array": (np.zeros(8), "ndarray"),
    "GM tensor": (G, "a GlobalTensor (copy it to UB first)"),
}
LOCAL_OPERANDS = {
    "Add": (lambda asc, d, a, b: asc.add(d, a, b, 8), ("dst", "src0", "src1")),
    "Sub": (lambda asc, d, a, b: asc.sub(d, a, b, 8, 1), ("dst", "src0", "src1")),
    "Mul": (lambda asc, d, a, b: asc.mul(d, a, b, 8), ("dst", "src0", "src1")),
    "Adds": (lambda asc, d, a: asc.adds(d, a, 1, 8), ("dst", "src")),
    "Muls": (lambda asc, d, a: asc.muls(d, a, 1, 8, 1), ("dst", "src")),
    "Cast": (lambda asc, d, a: asc.cast(d, a, RoundMode.CAST_RINT, 8), ("dst", "src")),
    "Copy": (lambda asc, d, a: asc.copy(d, a, 8, 1, CopyRepeatParams(1, 1)), ("dst", "src")),
    "Duplicate": (lambda asc, d: asc.duplicate(d, 0, 8), ("dst",)),
    "Brcb": (lambda asc, d, a: asc.brcb(d, a, 1), ("dst", "src")),
    "BlockReduceSum": (lambda asc, d, a: asc.block_reduce_sum(d, a, 1, 8, 1, 1, 8), ("dst", "src")),
    "PairReduceSum": (lambda asc, d, a: asc.pair_reduce_sum(d, a, 1, 8, 1, 1, 8), ("dst", "src")),
    "WholeReduceSum": (lambda asc, d, a: asc.whole_reduce_sum(d, a, 8, 1, 1, 1, 8), ("dst", "src")),
    "GetValue": (lambda asc, t: asc.get_value(t, 0), ("tensor",)),
}


@pytest.mark.parametrize("kind", NOT_LOCAL)
@pytest.mark.parametrize(
    ("api", "position"), [(a, i) for a, (_, roles) in LOCAL_OPERANDS.items() for i in range(len(roles))]
)
def test_vector_operands_are_local_tensors(api, position, kind):
    call, roles = LOCAL_OPERANDS[api]
    value, what = NOT_LOCAL[kind]
    operands = [value if i == position else X for i in range(len(roles))]

    def kernel(asc):
        call(asc, *operands)

    line = call.__code__.co_firstlineno
    assert refused(kernel) == f"{FILE}:{line}: {api}: {roles[position]} must be a LocalTensor in UB, got {what}"


WHOLE_NUMBERS = {
    "Add count": lambda asc, n: asc.add(X, X, X, n),
    "Add mask": lambda asc, n: asc.add(X, X, X, n, 1),
    "Add repeat_times": lambda asc, n: asc.add(X, X, X, 8, n),
    "Muls count": lambda asc, n: asc.muls(X, X, 1, n),
    "Muls repeat_times": lambda asc, n: asc.muls(X, X, 1, 8, n),
    "Cast count": lambda asc, n: asc.cast(H, X, RoundMode.CAST_RINT, n),
    "Cast repeat_times": lambda asc, n: asc.cast(H, X, RoundMode.CAST_RINT, 8, n),
    "Copy repeat_times": lambda asc, n: asc.copy(X, Y, 8, n, CopyRepeatParams(1, 1)),
    "Duplicate count": lambda asc, n: asc.duplicate(X, 0, n),
    "Duplicate repeat_times": lambda asc, n: asc.duplicate(X, 0, 8, n),
    "Brcb repeat_times": lambda asc, n: asc.brcb(X, Y, n),
    "BlockReduceSum repeat_times": lambda asc, n: asc.block_reduce_sum(X, Y, n, 8, 1, 1, 8),
    "BlockReduceSum mask": lambda asc, n: asc.block_reduce_sum(X, Y, 1, n, 1, 1, 8),
    "WholeReduceSum repeat_times": lambda asc, n: asc.whole_reduce_sum(X, Y, 8, n, 1, 1, 8),
    "GetValue index": lambda asc, n: asc.get_value(X, n),
    "DataCopy count": lambda asc, n: asc.data_copy(X, Y, n),
    "SetFlag event_id": lambda asc, n: asc.set_flag(HardEvent.MTE2_V, n),
    "WaitFlag event_id": lambda asc, n: asc.wait_flag(HardEvent.MTE2_V, n),
}
FORM_BY_NONE = {"Add mask", "BlockReduceSum mask", "Add repeat_times", "Muls repeat_times", "Cast repeat_times",
                "Duplicate repeat_times"}  # fmt: skip
"""None there means the mask set before, or the count form."""


@pytest.mark.parametrize(
    ("what", "value"),
    [
        (what, value)
        for what in WHOLE_NUMBERS
        for value in (1.0, True, "8", None, np.int64(8))
        if value is not None or what not in FORM_BY_NONE
    ],
)
def test_counts_are_plain_whole_numbers(what, value):
    api, arg = what.split(" ")
    call = WHOLE_NUMBERS[what]
    assert refused(lambda asc: call(asc, value)) == (
        f"{FILE}:{call.__code__.co_firstlineno}: {api}: {arg} must be a whole number, got {value!r}"
    )


@pytest.mark.parametrize(("position", "role"), [(0, "dst"), (1, "src")])
@pytest.mark.parametrize("api", ["DataCopy", "DataCopyPad"])
def test_copies_take_tensors(api, position, role):
    operands = [8 if i == position else X for i in range(2)]

    def kernel(asc):
        if api == "DataCopy":
            asc.data_copy(*operands, 8)
        else:
            asc.data_copy_pad(*operands, DataCopyExtParams(1, 8))

    assert refused(kernel) == f"{at(kernel, 2 if api == 'DataCopy' else 4)}: {api}: {role} must be a tensor, got int"


def test_there_is_no_path_from_gm_to_gm():
    def kernel(asc, g):
        asc.data_copy(g, g[8], 8)

    assert messages(recorded(kernel, G)) == [("E-PATH", "DataCopy: there is no path from GM to GM")]


@pytest.mark.parametrize(("both", "where"), [(X, "UB"), (G, "GM")], ids=["UB", "GM"])
def test_data_copy_pad_goes_between_gm_and_ub(both, where):
    def kernel(asc, g):
        asc.data_copy_pad(both, both, DataCopyExtParams(1, 8))

    assert messages(recorded(kernel, G)) == [("E-PATH", f"DataCopyPad: there is no path from {where} to {where}")]


# ---- what is left at the end ------------------------------------------------------------------------------------


def test_counter_mode_left_on_is_found():
    recording = recorded(lambda asc: asc.set_mask_count(), cores=2)
    assert messages(recording) == [("W-MASK-MODE", "counter mode is still on when the kernel ends")]
    (found,) = recording.findings
    assert (found.where, found.operand, found.got, found.wanted, found.count) == (
        "end of kernel", "mask", "counter", "normal", 2,
    )  # fmt: skip
    assert recording.complete


def test_a_recording_that_stops_keeps_what_it_has():
    def kernel(asc):
        asc.add(X, Y, Y, 65, 1)
        if asc.get_block_idx() == 1:
            asc.t_pipe()
            asc.t_pipe()

    recording = recorded(kernel, cores=3)
    assert not recording.complete
    assert [f.code for f in recording.findings] == ["E-RANGE-MASK", "E-PIPE-MULTI"]
    assert recording.program.calls["core"].tolist() == [0]
    assert recording.findings[0].count == 2


def test_every_core_is_recorded_with_its_index():
    seen = []

    def kernel(asc, g, tiling):
        seen.append((asc.get_block_idx(), asc.get_block_num(), tiling))
        assert asc.mask.mode is MaskMode.NORMAL

    assert record(kernel, DEVICE, 4, (G,), ("tiling",)).complete
    assert seen == [(i, 4, "tiling") for i in range(4)]


# ---- values that fit nowhere ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-1, 1 << 64])
@pytest.mark.parametrize(
    "call",
    [
        lambda asc, n: asc.add(X, X, X, n),
        lambda asc, n: asc.set_vector_mask(0, n),
        lambda asc, n: asc.set_vector_mask(n, 0),
        lambda asc, n: asc.add(X, X, X, (n, 0), 1),
        lambda asc, n: asc.copy(X, Y, (0, n), 1, CopyRepeatParams(1, 1)),
        lambda asc, n: (asc.set_mask_count(), asc.muls(X, X, 1, n, 1)),
    ],
)
def test_masks_that_fit_no_register_are_refused_by_name(call, value):
    assert refused(lambda asc: call(asc, value)) == (
        f"{at(call, 0)}: mask or count {value} does not fit the 64-bit mask register"
    )


SCALARS = {
    "Duplicate": lambda asc, s: asc.duplicate(X, s, 8),
    "Adds": lambda asc, s: asc.adds(X, X, s, 8),
    "Muls": lambda asc, s: asc.muls(X, X, s, 8, 1),
}


@pytest.mark.parametrize("api", SCALARS)
def test_a_missing_scalar_is_refused(api):
    call = SCALARS[api]
    assert refused(lambda asc: call(asc, None)) == f"{at(call, 0)}: {api}: the scalar is missing (None)"


@pytest.mark.parametrize("api", SCALARS)
def test_a_scalar_is_no_text(api):
    assert refused(lambda asc: SCALARS[api](asc, "2")).startswith(FILE)


@pytest.mark.parametrize("call", [lambda: json.loads("{"), lambda: np.reshape(np.zeros(3), (2,))])
def test_an_exception_below_the_kernel_is_blamed_on_the_kernels_line(call):
    assert refused(lambda asc: call()).startswith(FILE)


def test_a_kernel_module_may_be_called_ascendsim_something():
    names = {"__name__": "ascendsim_kernels"}
    exec(compile("def kernel(asc):\n    return 1 / 0\n", "ascendsim_kernels.py", "exec"), names)  # noqa: S102
    assert refused(names["kernel"]).startswith("ascendsim_kernels.py:2: ")


def test_a_rounding_mode_that_does_not_exist_is_refused():
    def kernel(asc):
        asc.cast(H, X, 9, 8)

    assert refused(kernel) == f"{at(kernel, 1)}: Cast: round_mode must be a RoundMode, got 9"


def test_a_tile_inside_a_tile_returns_nothing_either():
    @tile
    def inner(asc):
        return X

    @tile
    def outer(asc):
        inner(asc)

    assert refused(outer).endswith("@tile inner returns a value; a tile may only record")
