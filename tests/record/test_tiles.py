"""@tile: recorded once for each key, replayed as calls, and always with the values of the same kernel without it."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_harness import DEVICE, VECCALC, VECIN, VECOUT, gm_tensors, local, recorded, rows, run

from ascendsim.errors import KernelError
from ascendsim.execute import execute
from ascendsim.memory import Bytes
from ascendsim.record import tile
from ascendsim.terms import HardEvent, MaskMode, Pipe

X, Y, Z = (local(n, "float", 1024 * i, 1024) for i, n in enumerate("xyz"))


def shape(program):
    """Names of the templates, and of the template of each call, core by core."""
    names = [t.name for t in program.templates]
    calls = {}
    for index in range(len(program.calls["core"])):
        call = program.call(index)
        calls.setdefault(call.core, []).append(names[call.template])
    return names, calls


@tile
def double(asc, dst, src, count):
    asc.add(dst, src, src, count)


def plain(tile_function):
    """The function behind @tile."""
    return tile_function.__wrapped__


# ---- keys -------------------------------------------------------------------------------------------------------


def test_one_template_for_all_calls_of_a_key_on_all_cores():
    recordings = []

    @tile
    def double(asc, dst, src, count):
        recordings.append(count)
        asc.add(dst, src, src, count)

    def kernel(asc):
        for _ in range(10):
            double(asc, X, Y, 16)

    program = recorded(kernel, cores=4).program
    assert recordings == [16]
    names, calls = shape(program)
    assert names == ["double"]
    assert calls == {core: ["double"] * 10 for core in range(4)}
    assert program.calls["tile"].tolist() == list(range(10)) * 4  # calls of one tile are numbered on each core
    assert len(program) == 4 * 10 * 5


DIFFERENT = {
    "count": (X, Y, 17),
    "dtype": (X.reinterpret_cast(Z.dtype).reinterpret_cast(local("h", "half", 0, 32).dtype), Y, 16),
    "address": (X, Z, 16),
    "offset": (X[8], Y, 16),
    "length": (X, local("y", "float", 1024, 512), 16),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_differs_in_the_arguments_is_another_template(what):
    def kernel(asc):
        for arguments in ((X, Y, 16), DIFFERENT[what], (X, Y, 16), DIFFERENT[what]):
            double(asc, *arguments)

    program = recorded(kernel).program
    assert shape(program)[0] == ["double"] * 2
    assert program.calls["template"].tolist() == [0, 1, 0, 1]
    assert program.calls["tile"].tolist() == [0, 1, 2, 3]


def test_keywords_and_defaults_make_the_same_key():
    recordings = []

    @tile
    def fill(asc, dst, value=1.0, count=8):
        recordings.append(count)
        asc.duplicate(dst, value, count)

    def kernel(asc):
        fill(asc, X)
        fill(asc, X, 1.0)
        fill(asc, dst=X, value=1.0, count=8)
        fill(asc, X, count=16)

    assert recorded(kernel).program.calls["template"].tolist() == [0, 0, 0, 1]
    assert recordings == [8, 16]


def test_the_mask_on_entry_is_part_of_the_key_and_the_mask_on_exit_is_restored():
    @tile
    def masked(asc, lanes):
        asc.add(X, Y, Y, None, 1)
        asc.set_vector_mask(0, lanes)

    masks = []

    def kernel(asc):
        for lanes in (0b1, 0b1, 0b11, 0b1):
            masked(asc, lanes)
            masks.append((asc.mask.mode, asc.mask.hi, asc.mask.lo))
        asc.reset_mask()

    program = recorded(kernel, cores=2).program
    full_then_1, one_then_1, one_then_3, three_then_1 = 0, 1, 2, 3
    want = [full_then_1, one_then_1, one_then_3, three_then_1]
    tiles = program.calls["tile"] >= 0
    assert program.calls["template"][tiles].tolist() == want * 2
    assert masks == [(MaskMode.NORMAL, 0, lanes) for lanes in (1, 1, 3, 1)] * 2
    assert [r.mask_lo for r in rows(program) if r.op.name == "add"] == [2**64 - 1, 1, 1, 3]


def test_equal_body_rows_share_a_template_too():
    def kernel(asc):
        asc.add(X, Y, Y, 8)
        double(asc, X, Y, 16)

    names, calls = shape(recorded(kernel, cores=3).program)
    assert names == ["body", "double"]
    assert calls == {core: ["body", "double"] for core in range(3)}


def test_tiles_made_anew_on_every_core_are_stored_once():
    def kernel(asc):
        @tile
        def inner(asc, n):
            asc.add(X, Y, Y, n)

        inner(asc, 8)

    assert shape(recorded(kernel, cores=4).program)[0] == ["inner"]


def test_a_tile_inside_a_tile_is_part_of_it():
    @tile
    def outer(asc, dst, src):
        double(asc, dst, src, 8)
        double(asc, dst[8], src, 8)

    def kernel(asc):
        outer(asc, X, Y)
        outer(asc, X, Y)

    names, calls = shape(recorded(kernel).program)
    assert (names, calls) == (["outer"], {0: ["outer", "outer"]})


def test_a_tile_is_recorded_once_wherever_in_gm_it_works():
    (g,) = gm_tensors(("g", "float", 4096))

    recordings = []

    @tile
    def load(asc, src):
        recordings.append(src.name)
        asc.data_copy(X, src, 8)

    def kernel(asc, g):
        for offset in (0, 128, 1024, 1, 129, 127):
            load(asc, g[offset])

    program = recorded(kernel, g).program
    assert len(recordings) == 1
    assert program.calls["template"].tolist() == [0] * 6
    assert (program.slot_base_bytes - g.base_bytes).tolist() == [0, 512, 4096, 4, 516, 508]
    assert program.slot_tensor.tolist() == [0] * 6
    assert [t.slots for t in program.templates] == [1]


def test_every_gm_argument_has_its_slot():
    a, b = gm_tensors(("a", "float", 256), ("b", "float", 256))

    @tile
    def move(asc, dst, src):
        asc.data_copy(X, src[8], 8)
        asc.data_copy(dst[16], X, 8)

    def kernel(asc, a, b):
        move(asc, b, a)
        move(asc, b[128], a[128])
        move(asc, a, a[128])

    program = recorded(kernel, a, b).program
    assert program.calls["template"].tolist() == [0, 0, 1]
    assert program.slot_tensor.reshape(-1, 2).tolist() == [[1, 0], [1, 0], [0, 0]]
    load, store = program.templates[0].rows
    refs = program.templates[0].tensors
    assert (refs[load.src0.tensor].slot, load.src0.offset_bytes) == (1, 32)
    assert (refs[store.dst.tensor].slot, store.dst.offset_bytes) == (0, 64)


def pipelined(asc, src, dst, step, rows_of_a_core, width):
    """The usual loop: load, double, store, with two buffers each way."""
    pipe = asc.t_pipe()
    inq, outq = asc.t_que(VECIN, 1, "in"), asc.t_que(VECOUT, 1, "out")
    for que in (inq, outq):
        pipe.init_buffer(que, 2, width * 4)
    first = asc.get_block_idx() * rows_of_a_core
    for row in range(first, first + rows_of_a_core):
        step(asc, inq, outq, src[row * width], dst[row * width], width)


@tile
def load_double_store(asc, inq, outq, src, dst, width):
    t = inq.alloc_tensor("float")
    asc.data_copy(t, src, width)
    inq.enque(t)
    t = inq.deque("float")
    out = outq.alloc_tensor("float")
    asc.add(out, t, t, width)
    inq.free_tensor(t)
    outq.enque(out)
    out = outq.deque("float")
    asc.data_copy(dst, out, width)
    outq.free_tensor(out)


def test_queue_states_that_alternate_make_one_template_each():
    """Two fills of empty queues, then two that wait for the buffers, then the same again and again."""

    def kernel(asc, src, dst):
        pipelined(asc, src, dst, load_double_store, 9, 128)

    gm = gm_tensors(("src", "float", 9 * 128 * 3), ("dst", "float", 9 * 128 * 3))
    program = recorded(kernel, *gm, cores=3).program
    tiles = program.calls["template"][program.calls["tile"] >= 0].reshape(3, 9)
    assert tiles.tolist() == [[0, 1, 2, 3, 2, 3, 2, 3, 2]] * 3
    waits = [
        sum(r.op.name == "wait_flag" and r.reason.name == "BUFFER" for r in program.templates[t].rows) for t in range(4)
    ]
    assert waits == [0, 0, 2, 2]


# ---- values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("width", [8, 104, 128])
def test_a_pipelined_kernel_gives_the_same_with_and_without_tiles(cores, width):
    x = np.random.default_rng(width).standard_normal(cores * 7 * width).astype(np.float32)
    results = []
    for step in (load_double_store, plain(load_double_store)):

        def kernel(asc, src, dst, step=step):
            pipelined(asc, src, dst, step, 7, width)

        out, program, found = run(kernel, {"src": x}, {"dst": ("float", x.size)}, cores=cores)
        assert found == ()
        results.append(out["dst"])
    assert np.array_equal(results[0], 2 * x)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(program.calls["tile"], [-1] * cores)


@tile
def scaled(asc, dst, src, local_tensor, factor, width):
    """Load, wait, scale by an element of itself, store."""
    asc.data_copy(local_tensor, src, width)
    asc.set_flag(HardEvent.MTE2_S, 0)
    asc.wait_flag(HardEvent.MTE2_S, 0)
    first = asc.get_value(local_tensor, 0)
    asc.muls(local_tensor, local_tensor, factor, width)
    asc.pipe_barrier(Pipe.V)
    asc.adds(local_tensor, local_tensor, first, width)
    asc.set_flag(HardEvent.V_MTE3, 0)
    asc.wait_flag(HardEvent.V_MTE3, 0)
    asc.data_copy(dst, local_tensor, width)
    asc.set_flag(HardEvent.MTE3_MTE2, 0)
    asc.wait_flag(HardEvent.MTE3_MTE2, 0)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.sampled_from([1, 2, -1]), st.sampled_from([8, 16, 64]), st.booleans()),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 3),
)
def test_random_sequences_of_tiles_give_the_same_as_plain_calls(calls, cores):
    x = np.random.default_rng(1).standard_normal(4096).astype(np.float32)
    results = []
    for use in (scaled, plain(scaled)):

        def kernel(asc, src, dst, use=use):
            for i, (offset, factor, width, aligned) in enumerate(calls):
                at = asc.get_block_idx() * 512 + i * 64 + (0 if aligned else offset % 8)
                width = min(width, 56) if not aligned else width  # noqa: PLW2901
                asc.duplicate(Y, factor, 8)
                use(asc, dst[at], src[offset], X, factor, width)

        out, _, found = run(kernel, {"src": x}, {"dst": ("float", 2048)}, cores=cores)
        assert found == ()
        results.append(out["dst"].view(np.uint32))
    assert np.array_equal(*results)


def test_registers_of_a_replayed_tile_are_its_own_each_time():
    x = np.arange(64, dtype=np.float32)

    def kernel(asc, src, dst):
        for row in range(4):
            scaled(asc, dst[row * 16], src[row * 16], X, 0, 16)

    (out,) = run(kernel, {"src": x}, {"dst": ("float", 64)})[0].values()
    assert out.tolist() == [16 * (i // 16) for i in range(64)]


def test_steps_marked_inside_and_around_a_tile_belong_to_its_rows():
    @tile
    def marked(asc):
        with asc.trace("inner"):
            asc.duplicate(X, 0, 8)

    def kernel(asc):
        marked(asc)
        with asc.trace("outer"):
            marked(asc)
            marked(asc)

    program = recorded(kernel).program
    assert program.calls["template"].tolist() == [0, 1, 1]
    assert [program.steps[r.step] for r in rows(program) if r.op.name == "duplicate"] == [
        "inner", "outer/inner", "outer/inner",
    ]  # fmt: skip


def test_events_left_open_by_a_tile_are_open_after_its_replay():
    @tile
    def take(asc):
        asc.alloc_event_id(HardEvent.V_S)

    @tile
    def give(asc):
        asc.release_event_id(HardEvent.V_S, 0)

    seen = []

    def kernel(asc):
        for _ in range(2):
            take(asc)
            seen.append(asc.fetch_event_id(HardEvent.V_S))
            give(asc)
            seen.append(asc.fetch_event_id(HardEvent.V_S))

    assert recorded(kernel, cores=2).findings == ()
    assert seen == [1, 0] * 4


def test_a_finding_inside_a_tile_is_noted_when_it_is_recorded():
    @tile
    def odd(asc):
        asc.add(X, Y, Y, 65, 1)

    def kernel(asc):
        odd(asc)
        odd(asc)

    (found,) = recorded(kernel, cores=2).findings
    assert (found.code, found.message) == ("E-RANGE-MASK", "Add mask 65 exceeds the 64 lanes of a repeat")


# ---- what a key holds -------------------------------------------------------------------------------------------


def doubles_of(kernel, count):
    """Run kernel(asc) and return the floats at the start of X."""
    ub = Bytes(65536)
    execute(recorded(kernel).program, DEVICE, (), ub=ub)
    return ub.content[: 4 * count].view(np.float32)


@dataclass(frozen=True)
class Factor:
    value: float


@pytest.mark.parametrize(
    "wrap",
    [
        lambda v: v,
        lambda v: (v,),
        lambda v: (1, (v,)),
        Factor,
        lambda v: (Factor(v),),
        np.float64,
        np.float32,
    ],
)
def test_zero_and_minus_zero_are_different_arguments(wrap):
    """The key is everything a tile's rows can depend on (ascendsim.record)."""

    def innermost(value):
        while isinstance(value, tuple | Factor):
            value = value[-1] if isinstance(value, tuple) else value.value
        return float(value)

    @tile
    def fill(asc, dst, value):
        asc.duplicate(dst, innermost(value), 8)

    def kernel(asc):
        fill(asc, X, wrap(0.0))
        fill(asc, X, wrap(-0.0))

    assert np.signbit(doubles_of(kernel, 1))[0]


def test_numbers_of_different_types_are_different_arguments():
    seen = []

    @tile
    def part(asc, value):
        seen.append(value)

    def kernel(asc):
        for value in (1, 1.0, True, (1,), (1.0,), "1", None, 1, (1,)):
            part(asc, value)

    recorded(kernel)
    assert [repr(v) for v in seen] == ["1", "1.0", "True", "(1,)", "(1.0,)", "'1'", "None"]


def test_keyword_only_arguments_reach_the_tile():
    @tile
    def fill(asc, dst, *, value=1.0):
        asc.duplicate(dst, value, 8)

    assert doubles_of(lambda asc: fill(asc, X, value=2.0), 8).tolist() == [2.0] * 8


def counted_load(step):
    x = np.arange(192, dtype=np.float32)

    def kernel(asc, src, dst):
        for at in (128, 0):
            step(asc, src[at], dst[at])

    return run(kernel, {"src": x}, {"dst": ("float", 192)})[0]["dst"]


@tile
def load_what_is_left(asc, src, dst):
    count = min(128, src.count)
    asc.data_copy(X, src, count)
    asc.set_flag(HardEvent.MTE2_MTE3, 0)
    asc.wait_flag(HardEvent.MTE2_MTE3, 0)
    asc.data_copy(dst, X, count)
    asc.set_flag(HardEvent.MTE3_MTE2, 0)
    asc.wait_flag(HardEvent.MTE3_MTE2, 0)


def test_without_a_tile_the_rest_of_a_gm_tensor_may_decide():
    assert counted_load(plain(load_what_is_left)).tolist() == list(range(192))


def test_a_tile_cannot_see_how_much_is_left_of_its_gm_argument():
    with pytest.raises(KernelError, match=r"how much is left of GM tensor src \(.count\) differs from call to call"):
        counted_load(load_what_is_left)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda asc: asc.t_que(VECIN, 1, "q"), "queue or buffer 'q'"),
        (lambda asc: asc.t_buf(VECCALC, "t"), "queue or buffer 't'"),
        (lambda asc: asc.t_pipe(), "t_pipe"),
    ],
)
def test_queues_and_buffers_are_not_made_inside_a_tile(make, what):
    @tile
    def makes(asc):
        make(asc)

    with pytest.raises(KernelError) as caught:
        recorded(makes, cores=2)
    text = f"{what} inside a @tile: a tile is recorded once; make queues and buffers outside of it"
    assert str(caught.value) == f"test_tiles.py:{make.__code__.co_firstlineno}: {text}"


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda g: g.count, "how much is left of GM tensor g (.count)"),
        (lambda g: g[8].count, "how much is left of GM tensor g (.count)"),
        (lambda g: g.address_bytes, "the address of GM tensor g"),
    ],
)
def test_what_differs_between_calls_is_not_told_inside_a_tile(ask, what):
    @tile
    def part(asc, g):
        ask(g)

    with pytest.raises(KernelError) as caught:
        recorded(part, *gm_tensors(("g", "float", 64)))
    assert str(caught.value) == (
        f"test_tiles.py:{ask.__code__.co_firstlineno}: {what} differs from call to call; a @tile is recorded once for "
        "all. Pass the number in as an argument"
    )


def test_what_is_the_same_for_all_calls_may_be_asked_inside_a_tile():
    seen = []

    @tile
    def part(asc, g):
        seen.append((g.name, g.dtype.name, g.shape, g.tensor_bytes))

    (g,) = gm_tensors(("g", "float", 64))
    recorded(lambda asc, g: part(asc, g[8]), g)
    assert seen == [("g", "float", (64,), 256)]


def test_inside_a_tile_offsets_count_from_its_argument():
    seen = []

    @tile
    def part(asc, g):
        seen.append((g.offset_bytes, g[2].offset_bytes))

    recorded(lambda asc, g: part(asc, g[128]), *gm_tensors(("g", "float", 512)))
    assert seen == [(0, 8)]


# ---- what a tile depends on besides its arguments ---------------------------------------------------------------


def numbers_written(kernel, count):
    """First element of the first `count` tiles of 8 floats that a kernel wrote to g."""
    gm = (Bytes(count * 32),)
    program = recorded(kernel, *gm_tensors(("g", "float", count * 8))).program
    execute(program, DEVICE, gm)
    return gm[0].content.view(np.float32)[::8].tolist()


def write(asc, g, number):
    asc.duplicate(X, number, 8)
    asc.set_flag(HardEvent.V_MTE3, 0)
    asc.wait_flag(HardEvent.V_MTE3, 0)
    asc.data_copy(g, X, 8)
    asc.set_flag(HardEvent.MTE3_V, 0)
    asc.wait_flag(HardEvent.MTE3_V, 0)


def test_what_a_tile_takes_from_the_function_around_it_is_part_of_its_key():
    def kernel(asc, g):
        number = 0.0

        @tile
        def part(asc, g):
            write(asc, g, number)

        for i in range(4):
            number = float(i)
            part(asc, g[8 * i])

    assert numbers_written(kernel, 4) == [0, 1, 2, 3]


def test_the_frameworks_temp_is_part_of_the_key():
    starts = []

    @tile
    def part(asc):
        starts.append(asc.pop_stack_buffer("float").address_bytes)

    def kernel(asc):
        pipe = asc.t_pipe()
        part(asc)
        pipe.init_buffer(asc.t_buf(VECIN, "b"), 1, 4096)
        part(asc)
        part(asc)

    recorded(kernel)
    assert starts == [0, 4096]


# ---- what looks alike and is not --------------------------------------------------------------------------------


def _configs():
    def made(lanes):
        @dataclass(frozen=True)
        class Config:
            scale: int = 1

            def count(self):
                return lanes

        return Config()

    return made(8), made(16)


def test_classes_of_one_name_are_told_apart():
    @tile
    def fill(asc, config):
        asc.duplicate(X, 1.0, config.count())

    program = recorded(lambda asc: [fill(asc, config) for config in _configs()]).program
    assert program.calls["template"].tolist() == [0, 1]


def test_a_subclass_that_is_not_frozen_itself_is_refused():
    @dataclass(frozen=True)
    class Base:
        count: int = 8

    class More(Base):
        def __init__(self, extra):
            super().__init__()
            object.__setattr__(self, "extra", extra)

    @tile
    def fill(asc, config):
        asc.duplicate(X, 1.0, config.extra)

    with pytest.raises(KernelError, match="a @tile argument of type More may change between calls"):
        recorded(lambda asc: fill(asc, More(8)))


def test_what_a_helper_takes_from_around_it_is_part_of_the_key():
    def kernel(asc):
        count = 8

        def helper():
            return count

        @tile
        def fill(asc):
            asc.duplicate(X, 1.0, helper())

        fill(asc)
        count = 16
        fill(asc)
        count = 8
        fill(asc)

    assert recorded(kernel).program.calls["template"].tolist() == [0, 1, 0]


def test_a_helper_that_calls_itself_is_no_endless_loop():
    def kernel(asc):
        def helper(n):
            return helper(n - 1) if n else 8

        @tile
        def fill(asc):
            asc.duplicate(X, 1.0, helper(2))

        fill(asc)
        fill(asc)

    assert recorded(kernel).program.calls["template"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("one", "other"), [(np.float32(0.0), np.float32(-0.0)), (1, 1.0), (1.0, np.float32(1.0)), (True, 1)]
)
def test_numbers_that_are_equal_but_not_the_same_have_keys_of_their_own(one, other):
    recordings = []

    @tile
    def fill(asc, value):
        recordings.append(value)
        asc.duplicate(X, float(value), 8)

    recorded(lambda asc: [fill(asc, value) for value in (one, other, one, other)])
    assert len(recordings) == 2


def test_the_state_of_a_queue_is_up_to_date_after_a_replayed_tile():
    @tile
    def turn(asc, que):
        tensor = que.alloc_tensor("float")
        asc.duplicate(tensor, 1.0, 8)
        que.free_tensor(tensor)

    states = []

    def kernel(asc):
        que = asc.t_que(VECOUT, 1, "q")
        asc.t_pipe().init_buffer(que, 2, 256)
        for _ in range(6):
            turn(asc, que)
            states.append(que.state)

    recorded(kernel)
    assert states[0] != states[1]
    assert states[3] == states[5]
