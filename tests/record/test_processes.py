"""@process: every core does what it does without the mark."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_harness import DEVICE, VECIN, VECOUT, gm_tensors, local, recorded, run

from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT, HALF
from ascendsim.errors import KernelError
from ascendsim.memory import place_in_gm
from ascendsim.op_host.softmax_grad_operator import operator_tiling
from ascendsim.op_kernel import softmax_grad_operator as operator
from ascendsim.record import process, record, tile

G = gm_tensors(("x", "float", 4096), ("y", "float", 4096))
X = local("tmp", "float", 0, 1024)


def unmarked(fn):
    """What a process is without its mark."""
    return fn.__wrapped__


def steps(program, core):
    """All that a core does, with the addresses of what it touches."""
    for call in program.calls_of(core):
        template = program.templates[call.template]
        for row in template.rows:
            operands = []
            for role, o in row.operands:
                ref = template.tensors[o.tensor]
                base = ref.address_bytes if ref.slot < 0 else call.slot_base_bytes[ref.slot]
                operands.append((role, ref.name, base + o.offset_bytes, o.dtype))
            place = program.lines[row.line], program.steps[row.step]
            yield (row.op.name, row.params, row.pipe, row.mask_mode, row.mask_lo, row.que, operands, *place)


def agree(one, other):
    """Two recordings are alike in all that a program means."""
    assert one.program.core_count == other.program.core_count
    for core in range(one.program.core_count):
        assert list(steps(one.program, core)) == list(steps(other.program, core))
    assert (one.program.lines, one.program.steps, one.program.ques) == (
        other.program.lines,
        other.program.steps,
        other.program.ques,
    )
    assert one.program.high_water_bytes == other.program.high_water_bytes
    assert (one.findings, one.complete) == (other.findings, other.complete)


def compare(process_of, call, gm=G, cores=4):
    """A recording with the mark, compared with one without; call(process, asc, *gm) is the kernel."""
    marked = recorded(lambda asc, *gm: call(process_of, asc, *gm), *gm, cores=cores)
    agree(marked, recorded(lambda asc, *gm: call(unmarked(process_of), asc, *gm), *gm, cores=cores))
    return marked


# ---- the same program ---------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(1, 200),
    k=st.sampled_from([8, 64, 96, 256]),
    dtype=st.sampled_from([FLOAT, HALF]),
    tile_m=st.integers(1, 40),
    block_dim=st.integers(1, 48),
    nums=st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 2)),
    is_front=st.booleans(),
)
def test_softmax_grad_is_the_same_program(m, k, dtype, tile_m, block_dim, nums, is_front):
    k = k if dtype is FLOAT else max(k, 16)
    shapes = ((m, k), (m, k), (m, dtype.per_datablock) if is_front else (m, k))
    gm = place_in_gm([(n, dtype, shape) for n, shape in zip(("grad", "src", "dst"), shapes, strict=True)])
    tiling = operator_tiling(
        DEVICE, (m, k), dtype, tile_m=tile_m, tmp_bytes="max", is_front=is_front, ori_k=None, nums=nums
    )
    kernel = operator.softmax_grad_operator
    marked = record(kernel, DEVICE, block_dim, gm, (tiling,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator, "_process", unmarked(operator._process))
        alone = record(kernel, DEVICE, block_dim, gm, (tiling,))
    agree(marked, alone)
    assert (marked.program.digest, marked.sources) == (alone.program.digest, alone.sources)


runs = []


@tile
def copied(asc, dst, src, que, out, count):
    x = que.alloc_tensor(src.dtype)
    asc.data_copy(x, src, count)
    que.enque(x)
    x, y = que.deque(src.dtype), out.alloc_tensor(dst.dtype)
    asc.muls(y, x, 2.0, count)
    out.enque(y)
    que.free_tensor(x)
    y = out.deque(dst.dtype)
    asc.data_copy(dst, y, count)
    out.free_tensor(y)


@process
def doubled(asc, x, y, turns, count):
    runs.append(turns)
    pipe, que, out = asc.t_pipe(), asc.t_que(VECIN, 1, "in"), asc.t_que(VECOUT, 1, "out")
    for one in (que, out):
        pipe.init_buffer(one, 2, 4 * count)
    for i in range(turns):
        copied(asc, y[i * count], x[i * count], que, out, count)


def doubling(rows_of):
    """A kernel in which core i works off rows_of[i] rows of 64 elements."""

    def kernel(asc, x, y):
        core = asc.get_block_idx()
        first = 64 * sum(rows_of[:core])
        doubled(asc, x[first], y[first], rows_of[core], 64)

    return kernel


def test_values_of_all_cores_are_right():
    x = np.arange(64 * 9, dtype=np.float32)
    outputs, _, _ = run(doubling([3, 2, 2, 2]), {"x": x}, {"y": ("float", x.size)}, cores=4)
    assert np.array_equal(outputs["y"], 2 * x)


def test_it_runs_once_for_equal_arguments():
    runs.clear()
    recorded(doubling([3, 2, 3, 2, 2]), *G, cores=5)
    assert runs == [3, 2]


def test_rows_outside_of_tiles_are_repeated_too():
    @process
    def work(asc, x, y):
        asc.t_pipe()
        asc.data_copy(X, x, 64)
        asc.set_flag(*flag(asc))
        asc.wait_flag(*flag(asc))
        asc.data_copy(y[64], X, 64)

    def flag(asc):
        return asc_event, asc.fetch_event_id(asc_event)

    from ascendsim.terms import HardEvent

    asc_event = HardEvent.MTE2_MTE3
    marked = compare(
        work, lambda work, asc, x, y: work(asc, x[128 * asc.get_block_idx()], y[128 * asc.get_block_idx()])
    )
    bases = marked.program.slot_base_bytes.reshape(4, -1)
    assert (np.diff(bases, axis=0) == 512).all()


def test_two_arguments_in_one_gm_tensor_move_each_by_itself():
    @process
    def work(asc, source, target, fixed):
        asc.t_pipe()
        for one in (source, target, fixed):
            asc.data_copy(X, one, 64)

    def call(work, asc, x, y):
        core = asc.get_block_idx()
        work(asc, x[64 * core], x[2048 - 128 * core], y[0])

    marked = compare(work, call)
    assert np.diff(marked.program.slot_base_bytes.reshape(4, 3), axis=0).tolist() == [[256, -512, 0]] * 3


def test_a_gm_tensor_from_around_it_stays_where_it_is():
    def call(work, asc, x, y):
        @process
        def inner(asc, x):
            asc.t_pipe()
            asc.data_copy(X, x, 64)
            asc.data_copy(X, y[32], 64)

        (inner if work else unmarked(inner))(asc, x[64 * asc.get_block_idx()])

    marked, alone = (
        recorded(lambda asc, x, y, work=work: call(work, asc, x, y), *G, cores=3) for work in (True, False)
    )
    agree(marked, alone)


def test_findings_are_counted_for_each_core():
    @process
    def work(asc, x):
        pipe, que = asc.t_pipe(), asc.t_que(VECIN, 1, "in")
        pipe.init_buffer(que, 1, 256)
        asc.data_copy(que.alloc_tensor(x.dtype), x, 64)

    found = compare(work, lambda work, asc, x, y: work(asc, x[64 * asc.get_block_idx()])).findings
    assert [(f.code, f.count) for f in found] == [("E-MEM-LEAK", 4)]


def test_what_was_called_before_is_part_of_the_key():
    @tile
    def first(asc, n):
        asc.duplicate(X, 0.0, 64)

    @process
    def work(asc):
        asc.t_pipe()
        first(asc, 1)

    def call(work, asc, x, y):
        for _ in range(asc.get_block_idx() % 2):
            first(asc, 1)
        work(asc)

    assert compare(work, call).program.calls["tile"].tolist() == [0, 0, 1, 0, 0, 1]


def test_the_number_of_blocks_may_be_asked_inside():
    seen = []

    @process
    def work(asc):
        asc.t_pipe()
        seen.append(asc.get_block_num())

    recorded(work, cores=5)
    assert seen == [5]


def test_a_device_with_one_kind_of_core_has_them_too():
    device = load_device("Ascend310P3")
    gm = G

    def kernel(asc, x, y):
        doubled(asc, x[64 * asc.get_block_idx()], y[64 * asc.get_block_idx()], 1, 64)

    def alone(asc, x, y):
        unmarked(doubled)(asc, x[64 * asc.get_block_idx()], y[64 * asc.get_block_idx()], 1, 64)

    agree(record(kernel, device, 4, gm, ()), record(alone, device, 4, gm, ()))


# ---- what it may not do -------------------------------------------------------------------------------------------


def refused(kernel, *gm, cores=2):
    """What recording a kernel says, without the line in front."""
    with pytest.raises(KernelError) as caught:
        recorded(kernel, *gm, cores=cores)
    line, _, text = str(caught.value).partition(": ")
    assert line.startswith("test_processes.py:")
    return text


def test_the_block_index_is_asked_outside():
    @process
    def work(asc):
        asc.get_block_idx()

    assert refused(work) == (
        "get_block_idx inside a @process: a process is recorded once for all cores. Call it outside and pass the "
        "process what it needs"
    )


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda x: x.count, "how much is left of GM tensor x (.count)"),
        (lambda x: x.address_bytes, "the address of GM tensor x"),
        (lambda x: x[8].count, "how much is left of GM tensor x (.count)"),
    ],
)
def test_where_an_argument_lies_is_not_known(ask, what):
    @process
    def work(asc, x):
        ask(x)

    assert refused(work, G[0]) == (
        f"{what} differs from core to core; a @process is recorded once for all. Pass the number in as an argument"
    )


def test_it_ends_what_a_core_does():
    @process
    def work(asc):
        asc.t_pipe()

    def kernel(asc):
        work(asc)
        asc.duplicate(X, 0.0, 64)

    assert refused(kernel) == "@process work is over, and with it the kernel; do this inside of it"


@pytest.mark.parametrize("repeated", [False, True])
def test_nothing_can_be_called_behind_it(repeated):
    @tile
    def part(asc):
        asc.duplicate(X, 0.0, 64)

    @process
    def work(asc):
        asc.t_pipe()
        part(asc)

    def kernel(asc):
        work(asc)
        if asc.get_block_idx() == repeated:
            part(asc)

    assert refused(kernel) == "@process work is over, and with it the kernel; do this inside of it"


def test_it_is_not_called_twice():
    @process
    def work(asc):
        asc.t_pipe()

    def kernel(asc):
        work(asc)
        work(asc)

    assert refused(kernel) == "@process work is over, and with it the kernel; do this inside of it"


def test_it_is_called_outside_of_tiles_and_processes():
    @process
    def inner(asc):
        asc.t_pipe()

    @tile
    def part(asc):
        inner(asc)

    @process
    def outer(asc):
        inner(asc)

    assert refused(part) == "@process inner inside a @tile: call it outside"
    assert refused(outer) == "@process inner inside a @process: call it outside"


def test_queues_are_made_inside_of_it():
    @process
    def work(asc):
        pass

    def kernel(asc):
        asc.t_pipe()
        work(asc)

    assert refused(kernel) == "@process work behind a TPipe, queue or buffer: make them inside of it"


def test_it_returns_nothing():
    @process
    def work(asc):
        return 1

    def kernel(asc):
        work(asc)

    assert refused(kernel) == "@process work returns a value; a process may only record"


def test_arguments_have_to_fit():
    @process
    def work(asc, x):
        pass

    def kernel(asc):
        work(asc)

    assert refused(kernel) == "@process work: missing a required argument: 'x'"
