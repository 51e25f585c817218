"""SetDeqScale and AddDeqRelu: the sequence that the library of arch 2201 issues, its passes, what it overwrites."""

import numpy as np
import pytest
from lane_harness import DEVICE, Ground, local

from ascendsim.checks import check_rows
from ascendsim.errors import KernelError
from ascendsim.execute import execute
from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.machine import schedule
from ascendsim.record import record, tile
from ascendsim.terms import HalfOverflow, RoundMode

UB = 196608
RESERVED = 188416
D, A, B = local("d", "half", 0, 16384), local("a", "int32_t", 32768, 32768), local("b", "int32_t", 65536, 32768)


def recorded(kernel):
    return record(kernel, DEVICE, 1, (), ())


def run(kernel, a, b, saturate=False):
    """UB after the kernel, with the sources written."""
    ground = Ground(ub_bytes=UB).write(A, np.int32(a)).write(B, np.int32(b))
    program = recorded(kernel).program
    assert check_rows(program, DEVICE) == ()
    mode = HalfOverflow.SATURATE if saturate else HalfOverflow.INF_NAN
    assert execute(program, DEVICE, (), overflow=mode, ub=ground.ub).findings == ()
    return ground.ub


def halves(ub, start, count):
    return ub.content[start : start + 2 * count].view(np.float16).tolist()


def names(program):
    return [r.op.api or r.op.name for t in program.templates for r in t.rows if r.op.api != "PipeBarrier"]


def test_the_example_of_the_page():
    a, b = [70, 36, 43, 54, 28, 49, 27, 82, 95], [19, 33, 34, 50, 42, 2, 97, 93, 99]
    ub = run(lambda asc: (asc.set_deq_scale(0.1), asc.add_deq_relu(D, A, B, 9)), a, b)
    assert [round(x, 1) for x in halves(ub, 0, 9)] == [8.9, 6.9, 7.7, 10.4, 7.0, 5.1, 12.4, 17.5, 19.4]


def test_the_rows_are_those_of_the_library():
    program = recorded(lambda asc: (asc.set_deq_scale(0.5), asc.add_deq_relu(D, A, B, 9))).program
    assert names(program) == [
        *("SetDeqScale", "set_mask_count", "set_vector_mask"),
        *("Add", "Cast", "Muls", "Muls", "Muls", "Cast", "Duplicate", "Max"),
        *("set_mask_norm", "set_vector_mask"),
    ]
    rows = [r for t in program.templates for r in t.rows]
    assert sum(r.op.name == "pipe_barrier" for r in rows) == 8
    assert schedule(program, DEVICE).makespan_cycles > 8 * 20


def test_negative_sums_are_zero_and_large_ones_overflow():
    a, b = [-5, 5, 2**31 - 1, 70000, -(2**31)], [3, -3, 1, 70000, 0]
    ub = run(lambda asc: (asc.set_deq_scale(1.0), asc.add_deq_relu(D, A, B, 5)), a, b)
    assert halves(ub, 0, 5) == [0, 2, 0, np.inf, 0]  # the sum wraps
    ub = run(lambda asc: (asc.set_deq_scale(1.0), asc.add_deq_relu(D, A, B, 5)), a, b, saturate=True)
    assert halves(ub, 0, 5) == [0, 2, 65504, 65504, 0]


@pytest.mark.parametrize("count", [1, 2048, 2049, 5000])
def test_passes_of_2048_elements(count):
    a, b = np.arange(5000) - 2000, np.full(5000, -100)
    ub = run(lambda asc: (asc.set_deq_scale(0.25), asc.add_deq_relu(D, A, B, count)), a, b)
    assert halves(ub, 0, count) == np.float16(np.maximum(0, (a + b)[:count] / 4)).tolist()
    assert not ub.written[2 * count : 2 * count + 2].any()
    used = np.flatnonzero(ub.written[RESERVED:])
    assert used.max() + 1 == min(count, 2048) * 4 <= 8192


def test_both_sources_are_overwritten():
    ub = run(lambda asc: (asc.set_deq_scale(0.5), asc.add_deq_relu(D, A, B, 3)), [1, 2, 3], [10, 20, -30])
    assert ub.content[A.address_bytes :][:12].view(np.float32).tolist() == [5.5, 11, -13.5]
    assert halves(ub, B.address_bytes, 3) == [5.5, 11, -13.5]


@pytest.mark.parametrize(("mask", "lanes"), [(64, 64), (10, 10), ((0b1011, 0), None)])
@pytest.mark.parametrize("repeat", [1, 3, 33])
def test_the_mask_form_strides_as_asked(mask, lanes, repeat):
    params = BinaryRepeatParams(2, 1, 1, 8, 9, 8)
    a, b = np.arange(8000) % 1000, np.arange(8000) // 8
    ub = run(lambda asc: (asc.set_deq_scale(1.0), asc.add_deq_relu(D, A, B, mask, repeat, params)), a, b)
    active = range(lanes) if lanes else [0, 1, 3]
    got = np.array(halves(ub, 0, 8192))
    for r in range(repeat):
        for lane in active:
            at = r * 8 * 16 + lane // 16 * 2 * 16 + lane % 16
            assert got[at] == np.float16(a[r * 72 + lane] + b[r * 64 + lane]), (r, lane)


def test_the_mask_form_leaves_its_mask():
    def kernel(asc):
        asc.set_deq_scale(1.0)
        asc.add_deq_relu(D, A, B, 5, 1, BinaryRepeatParams(1, 1, 1, 4, 8, 8))
        assert (asc.mask.hi, asc.mask.lo) == (0, 31)

    assert recorded(kernel).complete


def test_the_reserved_ub_is_no_part_of_what_a_kernel_uses():
    program = recorded(lambda asc: (asc.set_deq_scale(1.0), asc.add_deq_relu(D, A, B, 4000))).program
    assert check_rows(program, DEVICE) == ()


@pytest.mark.parametrize("call", [
    lambda asc: asc.add_deq_relu(D, A, B, 8),
    lambda asc: asc.cast(D, A, RoundMode.CAST_NONE, 8),
], ids=["AddDeqRelu", "Cast"])  # fmt: skip
def test_the_scale_has_to_be_set_and_lives_on_from_tile_to_tile(call):
    @tile
    def used(asc):
        call(asc)

    @tile
    def scale(asc, value):
        asc.set_deq_scale(value)

    def kernel(asc):
        scale(asc, 0.5)
        used(asc)
        scale(asc, 0.25)
        used(asc)
        scale(asc, 0.5)
        used(asc)

    recording = recorded(kernel)
    assert recording.findings == ()
    assert len(recording.program.templates) == 4
    templates = recording.program.calls["template"].tolist()
    assert templates[1] == templates[5] != templates[3]
    assert [f.code for f in recorded(call).findings] == ["E-CAST-DEQSCALE"]


@pytest.mark.parametrize("scale", [None, "0.5", A])
def test_a_scale_that_is_no_number_is_refused(scale):
    with pytest.raises(KernelError, match="SetDeqScale: scale must be a number, got "):
        recorded(lambda asc: asc.set_deq_scale(scale))


def test_a_register_is_no_scale():
    with pytest.raises(KernelError, match="SetDeqScale: scale must be a number, got Register"):
        recorded(lambda asc: asc.set_deq_scale(asc.get_value(D)))


def test_add_deq_relu_sets_its_own_masks():
    def counter(asc):
        asc.set_deq_scale(1.0)
        asc.set_mask_count()
        asc.add_deq_relu(D, A, B, 8, 1)

    def outside(asc):
        asc.set_deq_scale(1.0)
        asc.add_deq_relu(D, A, B, None, 1)

    for kernel in (counter, outside):
        with pytest.raises(KernelError, match="AddDeqRelu sets its own masks: give it one, and call it in normal mode"):
            recorded(kernel)


def test_the_scale_is_in_the_row_that_uses_it():
    def kernel(asc):
        asc.set_deq_scale(0.5)
        asc.cast(D, A, RoundMode.CAST_NONE, 8)

    log = recorded(kernel).program.instruction_log()
    assert [row["instr"] for row in log if row["ascendc_api"]] == ["set_deqscale", "vconv_deq"]
    (cast,) = (r for t in recorded(kernel).program.templates for r in t.rows if r.op.api == "Cast")
    assert cast.param("deq_scale") == 0x3800
