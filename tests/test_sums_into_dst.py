"""Instructions that read dst, outside of their values: what a sample needs, and how long a buffer lives."""

from test_sample import A, B, checked, memories, only_tiles, recorded

from ascendsim.analysis import lives
from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT
from ascendsim.execute import execute
from ascendsim.machine import schedule
from ascendsim.memory import place_in_gm
from ascendsim.record import record, tile
from ascendsim.terms import TPosition

DEVICE = load_device("Ascend910B1")


@tile
def begin(asc):
    asc.duplicate(B, 1.0, 8)


@tile
def add(asc, x):
    asc.data_copy(A, x, 8)
    asc.axpy(B, A, 2.0, 8)


@tile
def put(asc, y):
    asc.data_copy(y, B, 8)


def test_a_sampled_result_needs_every_sum_before_it():
    def kernel(asc, x, y):
        begin(asc)
        for i in range(3):
            add(asc, x[8 * i])
            put(asc, y[8 * i])

    program = recorded(kernel, ("x", 24), ("y", 24))
    roots = only_tiles(program, 1) & (program.calls["template"] == program.calls["template"][2])
    sample, _ = checked(program, roots, lambda: memories(program, ("y",)))
    assert sample.calls_run == 4  # begin, two sums, the second put


def lives_of_out(call):
    """How many lives a VECOUT buffer has that `call` works on after it was stored."""

    def kernel(asc, y):
        pipe = asc.t_pipe()
        que = asc.t_que(TPosition.VECOUT, 1, "out")
        pipe.init_buffer(que, 1, 32)
        for work in (lambda out: asc.duplicate(out, 1.0, 8), lambda out: call(asc, out)):
            out = que.alloc_tensor("float")
            work(out)
            que.enque(out)
            stored = que.deque("float")
            asc.data_copy(y, stored, 8)
            que.free_tensor(stored)

    program = record(kernel, DEVICE, 1, place_in_gm([("y", FLOAT, (8,))]), ()).program
    return sum(life.name.startswith("out") for life in lives(program, schedule(program, DEVICE), 0))


def test_a_sum_goes_on_with_the_life_of_its_buffer():
    assert lives_of_out(lambda asc, out: asc.adds(out, A, 1.0, 8)) == 2
    assert lives_of_out(lambda asc, out: asc.axpy(out, A, 1.0, 8)) == 1


def test_reading_a_dst_that_nobody_wrote_is_found():
    def kernel(asc):
        asc.duplicate(A, 1.0, 8)
        asc.axpy(B, A, 1.0, 8)

    (found,) = execute(recorded(kernel), DEVICE, ()).findings
    assert (found.code, found.operand) == ("W-MEM-UNINIT", "dst")
    assert found.message == "Axpy dst reads 32 bytes of b that nobody wrote"
