"""Sampled tiles: chosen as documented, with the bytes of a full run, and by computing no call more than they need."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.computed import Sample, Tile
from ascendsim.context import Machine
from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT, dtype
from ascendsim.errors import Deadlock, InputError
from ascendsim.execute import execute
from ascendsim.isa.move import DataCopyParams
from ascendsim.machine import _gm_bytes, _prepare
from ascendsim.memory import Bytes, LocalTensor, place_in_gm
from ascendsim.record import record, tile
from ascendsim.sample import HOW, Closure, Spans, choose_tiles, execute_sample
from ascendsim.scenario import load_scenario
from ascendsim.terms import HalfOverflow, HardEvent, TPosition

DEVICE = load_device("Ascend910B1")
SCENARIOS = Path(__file__).parent.parent / "scenarios"


def local(name, address, length=32):
    return LocalTensor(name, TPosition.VECCALC, FLOAT, address, length)


A, B, C, ACC = local("a", 0), local("b", 32), local("c", 64), local("acc", 96)


def recorded(kernel, *gm, cores=1):
    """A kernel of GM tensors of (name, elements), recorded."""
    placed = place_in_gm([(name, dtype("float"), (count,)) for name, count in gm])
    recording = record(kernel, DEVICE, cores, placed, ())
    assert recording.complete
    assert recording.findings == ()
    return recording.program


def memories(program, outputs):
    """Inputs 1, 2, 3, ..; outputs unwritten."""
    return tuple(
        Bytes(g.tensor_bytes) if g.name in outputs else Bytes.of(np.arange(1, g.count + 1, dtype=np.float32))
        for g in program.gm
    )


def checked(program, roots, fresh, device=DEVICE):
    """Run a sample and hold it to a full run: its bytes, nothing else of what the program writes, no new finding."""
    full, sampled = fresh(), fresh()
    whole = execute(program, device, full)
    execution, sample = execute_sample(program, device, sampled, roots)
    output = Closure(program, roots).output
    everything = Closure(program, np.ones(len(roots), bool)).output
    before = fresh()
    for g, want, got, old in zip(program.gm, full, sampled, before, strict=True):
        inside, ever = _mask(g, output), _mask(g, everything)
        assert got.content[inside].tobytes() == want.content[inside].tobytes(), g.name
        assert got.written[inside].tolist() == want.written[inside].tolist()
        assert not got.written[ever & ~inside].any()
        assert (got.content[ever & ~inside] == 0xFF).all()
        assert got.content[~ever].tobytes() == old.content[~ever].tobytes()
        assert got.written[~ever].tolist() == old.written[~ever].tolist()
    assert {(f.code, f.where) for f in execution.findings} <= {(f.code, f.where) for f in whole.findings}
    assert sample.calls == len(roots)
    return sample, execution


def _mask(g, spans):
    mask = np.zeros(g.tensor_bytes, bool)
    for start, end in zip(spans.starts - g.base_bytes, spans.ends - g.base_bytes, strict=True):
        mask[max(0, start) : max(0, end)] = True
    return mask


def only_tiles(program, *numbers, core=0):
    calls = program.calls
    return np.isin(calls["tile"], numbers) & (calls["core"] == core)


# ---- choosing -------------------------------------------------------------------------------------------------------


@tile
def double(asc, x, y):
    asc.data_copy(A, x, 8)
    asc.add(B, A, A, 8)
    asc.data_copy(y, B, 8)


@tile
def triple(asc, x, y):
    asc.data_copy(A, x, 8)
    asc.muls(B, A, 3, 8)
    asc.data_copy(y, B, 8)


def doubling(tiles_of_core):
    """A kernel with so many tiles on each core, and the program's GM."""

    def kernel(asc, x, y):
        first = sum(tiles_of_core[: asc.get_block_idx()])
        for i in range(first, first + tiles_of_core[asc.get_block_idx()]):
            double(asc, x[8 * i], y[8 * i])

    count = 8 * max(1, sum(tiles_of_core))
    return recorded(kernel, ("x", count), ("y", count), cores=len(tiles_of_core))


def chosen(program, *how, **more):
    """(core, tile) of the calls chosen."""
    calls = program.calls
    roots = choose_tiles(program, how, **more)
    return sorted(zip(calls["core"][roots].tolist(), calls["tile"][roots].tolist(), strict=True))


def test_each_cores_first_and_last_tile():
    program = doubling([3, 0, 1, 5])
    assert chosen(program, "first") == [(0, 0), (2, 0), (3, 0)]
    assert chosen(program, "tail") == [(0, 2), (2, 0), (3, 4)]
    assert chosen(program, "first", "tail") == [(0, 0), (0, 2), (2, 0), (3, 0), (3, 4)]


def test_the_diagonal_goes_from_the_first_cores_first_tile_on_over_cores_that_have_tiles():
    assert chosen(doubling([8, 8, 8, 8]), "diagonal") == [(0, 0), (1, 2), (2, 4), (3, 6)]
    assert chosen(doubling([3, 0, 1, 5]), "diagonal") == [(0, 0), (2, 0), (3, 3)]


def test_random_tiles_are_frozen_by_their_seed():
    program = doubling([4, 4])
    assert chosen(program, "random", seed=0, count=3) == [(0, 1), (0, 2), (1, 2)]
    assert chosen(program, "random", seed=1, count=3) == [(0, 1), (0, 2), (1, 3)]
    assert len(chosen(program, "random", seed=1, count=100)) == 8


def test_no_way_chooses_nothing():
    assert chosen(doubling([4])) == []


def test_a_program_without_calls_has_no_tiles():
    program = doubling([0, 0])
    assert all(not choose_tiles(program, (h,)).any() for h in HOW)
    roots = choose_tiles(program, HOW)
    assert checked(program, roots, lambda: memories(program, "y"))[0] == Sample((), 0, 0, 0)


def test_functions_are_sampled_apart_and_those_that_write_no_gm_never():
    @tile
    def load(asc, x):
        asc.data_copy(A, x, 8)

    def kernel(asc, x, y):
        for i in range(3):
            load(asc, x)
            double(asc, x[8 * i], y[8 * i])
        triple(asc, x, y[24])

    program = recorded(kernel, ("x", 24), ("y", 32))
    names = np.array([t.name for t in program.templates])[program.calls["template"]]
    roots = choose_tiles(program, ("tail",))
    assert sorted(zip(names[roots], program.calls["tile"][roots], strict=True)) == [("double", 2), ("triple", 0)]
    sample, _ = checked(program, roots, lambda: memories(program, "y"))
    assert sample == Sample((Tile(0, "double", 2), Tile(0, "triple", 0)), 4, 2, 7)


def test_without_a_tile_function_the_calls_that_write_gm_are_the_tiles():
    @tile
    def load(asc, x):
        asc.data_copy(A, x, 8)

    def kernel(asc, x, y):
        for i in range(3):
            load(asc, x[8 * i])
            asc.data_copy(y[8 * i], A, 8)

    program = recorded(kernel, ("x", 24), ("y", 24))
    sample, _ = checked(program, choose_tiles(program, ("tail",)), lambda: memories(program, "y"))
    assert sample == Sample((Tile(0, "body", 2),), 3, 2, 6)


@pytest.mark.parametrize(
    ("how", "count", "text"),
    [
        (("last",), 1, r"^sample 'last': must be among first, diagonal, tail, random$"),
        (("random",), 0, r"^sample_tiles = 0: must be at least 1$"),
    ],
)
def test_what_cannot_be_chosen(how, count, text):
    with pytest.raises(InputError, match=text):
        choose_tiles(doubling([1]), how, 0, count)


# ---- shipped scenarios ----------------------------------------------------------------------------------------------


SHIPPED = {
    ("softmaxgrad_960x960_float", "first"): (48, 240, 96, 528),
    ("softmaxgrad_960x960_float", "diagonal"): (48, 240, 96, 528),
    ("softmaxgrad_960x960_float", "tail"): (48, 240, 96, 528),
    ("softmaxgrad_960x960_float", "random"): (4, 240, 8, 528),
    ("softmaxgrad_half_front", "first"): (40, 80, 80, 200),
    ("softmaxgrad_half_front", "random"): (4, 80, 8, 200),
    ("softmaxgrad_minilm_attention", "tail"): (48, 144, 96, 336),
    ("scaled_softmax_grad", "diagonal"): (4, 16, 4, 20),
    ("scaled_softmax_grad", "random"): (4, 16, 4, 20),
    ("vector_add", "first"): (8, 8, 8, 8),
    ("vector_add", "random"): (4, 8, 4, 8),
}
"""(Tiles, of how many, calls that run, of how many); each tile of the operator is a load and a computation."""


@pytest.mark.parametrize(("name", "how"), SHIPPED)
def test_shipped_scenarios(name, how):
    ready = _prepare(load_scenario(SCENARIOS / f"{name}.toml"), with_data=True)
    program = record(ready.kernel, ready.device, ready.block_dim, ready.gm, (ready.argument,)).program
    roots = choose_tiles(program, (how,), 5, 4)
    sample, execution = checked(program, roots, lambda: tuple(_gm_bytes(g, ready.inputs) for g in ready.gm))
    assert (len(sample.tiles), sample.tiles_there, sample.calls_run, sample.calls) == SHIPPED[name, how]
    assert execution.findings == ()


# ---- what a tile depends on -----------------------------------------------------------------------------------------


@tile
def running_sum(asc, x, y):
    asc.data_copy(A, x, 8)
    asc.add(ACC, ACC, A, 8)
    asc.data_copy(y, ACC, 8)


def test_ub_carried_from_tile_to_tile():
    def kernel(asc, x, y):
        asc.duplicate(ACC, 0.0, 8)
        asc.duplicate(C, 0.0, 8)
        for i in range(6):
            running_sum(asc, x[8 * i], y[8 * i])

    program = recorded(kernel, ("x", 48), ("y", 48))
    for number, calls in ((0, 2), (3, 5), (5, 7)):
        sample, _ = checked(program, only_tiles(program, number), lambda: memories(program, "y"))
        assert sample == Sample((Tile(0, "running_sum", number),), 6, calls, 7)


def test_a_value_that_is_overwritten_before_it_is_read_is_not_needed():
    def kernel(asc, x, y):
        for i in range(6):
            if i == 4:
                asc.duplicate(ACC, 0.0, 8)
            running_sum(asc, x[8 * i], y[8 * i])

    program = recorded(kernel, ("x", 48), ("y", 48))
    assert checked(program, only_tiles(program, 5), lambda: memories(program, "y"))[0].calls_run == 3


@tile
def add_to(asc, x, y):
    asc.data_copy(A, x, 8)
    asc.data_copy(B, y, 8)
    asc.add(B, A, B, 8)
    asc.data_copy(y, B, 8)


@pytest.mark.parametrize("outputs", ["", "y"])
def test_gm_added_to_in_place_over_several_tiles(outputs):
    """The sampled tile's block is final: later tiles that add to it run too."""

    def kernel(asc, x, y):
        for i in range(6):
            add_to(asc, x[8 * i], y[8 * (i % 2)])

    program = recorded(kernel, ("x", 48), ("y", 24))
    for number in range(6):
        sample, _ = checked(program, only_tiles(program, number), lambda: memories(program, outputs))
        assert (sample.calls_run, sample.calls) == (3, 6)


def test_the_last_of_several_writers_counts():
    def kernel(asc, x, y):
        for i in range(6):
            double(asc, x[8 * i], y[8 * (i % 2)])

    program = recorded(kernel, ("x", 48), ("y", 16))
    assert checked(program, only_tiles(program, 0), lambda: memories(program, "y"))[0].calls_run == 2
    assert checked(program, only_tiles(program, 4), lambda: memories(program, "y"))[0].calls_run == 1


def test_writers_that_cover_a_block_in_part():
    def kernel(asc, x, y):
        for i in range(6):
            double(asc, x[8 * i], y[4 * i])

    program = recorded(kernel, ("x", 48), ("y", 28))
    assert checked(program, only_tiles(program, 2), lambda: memories(program, "y"))[0].calls_run == 2


def test_what_another_core_left_in_gm():
    def kernel(asc, x, between, y):
        core = asc.get_block_idx()
        for i in range(4):
            if core == 0:
                double(asc, x[8 * i], between[8 * i])
            if core == 2:
                triple(asc, between[8 * i], y[8 * i])

    program = recorded(kernel, ("x", 32), ("between", 32), ("y", 32), cores=3)
    roots = only_tiles(program, 1, 3, core=2)
    sample, _ = checked(program, roots, lambda: memories(program, ("between", "y")))
    assert sample == Sample((Tile(2, "triple", 1), Tile(2, "triple", 3)), 8, 4, 8)


def test_a_later_core_leaves_nothing_for_an_earlier_one():
    def kernel(asc, x, between, y):
        if asc.get_block_idx() == 0:
            triple(asc, between, y)
        else:
            double(asc, x, between)

    program = recorded(kernel, ("x", 8), ("between", 8), ("y", 8), cores=2)
    sample, _ = checked(program, only_tiles(program, 0), lambda: memories(program, "y"))
    assert sample == Sample((Tile(0, "triple", 0),), 2, 1, 2)


def test_columns_of_a_matrix():
    """Tiles whose rows lie between each other's in GM."""
    wide = local("wide", 0, 128)

    @tile
    def column(asc, x, y):
        asc.data_copy(wide, x, DataCopyParams(4, 1, 2, 0))
        asc.adds(wide, wide, 1.0, 32)
        asc.data_copy(y, wide, DataCopyParams(4, 1, 0, 2))

    def kernel(asc, x, y):
        for i in range(3):
            column(asc, x[8 * i], y[8 * i])

    program = recorded(kernel, ("x", 96), ("y", 96))
    for outputs in ("y", ""):
        sample, _ = checked(program, only_tiles(program, 1), lambda o=outputs: memories(program, o))
        assert sample.calls_run == 1


def test_a_register_and_reinterpreted_bytes():
    @tile
    def spread(asc, x, y):
        asc.data_copy(A, x, 8)
        value = asc.get_value(A, 3)
        asc.duplicate(B, value, 8)
        asc.data_copy(y, B, 8)

    def kernel(asc, x, y):
        for i in range(3):
            spread(asc, x[8 * i], y[8 * i])

    program = recorded(kernel, ("x", 24), ("y", 24))
    assert checked(program, only_tiles(program, 2), lambda: memories(program, "y"))[0].calls_run == 1


def test_the_compare_mask_register_is_carried_from_call_to_call():
    """Only the last of two settings matters to a tile that selects; one of the tiles itself sets it anew."""

    @tile
    def choose(asc, x, y):
        asc.data_copy(A, x, 8)
        asc.set_vector_mask(0, 0xFF)
        asc.select(B, A.reinterpret_cast("uint8_t"), A, 1)
        asc.data_copy(y, B, 8)

    @tile
    def hold(asc, x):
        asc.data_copy(A, x, 8)
        asc.set_cmp_mask(A)

    def kernel(asc, x, y):
        for i in (0, 1):
            hold(asc, x[8 * i])
        for i in (2, 3, 4):
            choose(asc, x[8 * i], y[8 * i])
        hold(asc, x[0])
        choose(asc, x[0], y[0])

    program = recorded(kernel, ("x", 40), ("y", 40))
    names = [program.templates[template].name for template in program.calls["template"]]
    assert [name for name in names if name != "body"] == ["hold", "hold", *["choose"] * 3, "hold", "choose"]
    for at in [i for i, name in enumerate(names) if name == "choose"]:
        roots = np.arange(len(names)) == at
        sample, _ = checked(program, roots, lambda: memories(program, "y"))
        assert sample.calls_run == 2


# ---- flags ----------------------------------------------------------------------------------------------------------


@tile
def late_load(asc, x):
    asc.data_copy(A, x, 8)
    asc.set_flag(HardEvent.MTE2_V, 0)


@tile
def early_compute(asc, y):
    asc.wait_flag(HardEvent.MTE2_V, 0)
    asc.adds(B, A, 100.0, 8)
    asc.set_flag(HardEvent.V_MTE3, 0)
    asc.wait_flag(HardEvent.V_MTE3, 0)
    asc.data_copy(y, B, 8)


def test_a_wait_that_precedes_its_set_reads_what_is_loaded_later():
    def kernel(asc, x, y):
        for i in range(4):
            early_compute(asc, y[8 * i])
            late_load(asc, x[8 * i])

    program = recorded(kernel, ("x", 32), ("y", 32))
    roots = only_tiles(program, 1) & (program.calls["template"] == 0)
    sample, execution = checked(program, roots, lambda: memories(program, "y"))
    assert sample == Sample((Tile(0, "early_compute", 1),), 4, 2, 8)
    assert execution.findings == ()
    assert np.flatnonzero(Closure(program, roots).needed).tolist() == [2, 3]


def test_of_a_call_needed_for_its_first_rows_the_last_ones_are_left_out():
    """Its load runs at once, its sum once the flag comes; what the sum reads is made in between."""

    @tile
    def load_then_wait(asc, x):
        asc.data_copy(A, x, 8)
        asc.wait_flag(HardEvent.MTE2_V, 0)
        asc.add(C, ACC, ACC, 8)

    @tile
    def store(asc, y):
        asc.data_copy(y, A, 8)

    def kernel(asc, x, y):
        load_then_wait(asc, x)
        asc.data_copy(ACC, x[8], 8)
        store(asc, y)
        asc.set_flag(HardEvent.MTE2_V, 0)

    program = recorded(kernel, ("x", 16), ("y", 8))
    sample, execution = checked(program, choose_tiles(program, ("first",)), lambda: memories(program, "y"))
    assert (sample.calls_run, sample.calls) == (2, 4)
    assert execution.findings == ()


def test_flags_between_tiles_are_not_unpaired_by_leaving_tiles_out():
    @tile
    def load(asc, x):
        asc.data_copy(A, x, 8)
        asc.set_flag(HardEvent.MTE2_V, 0)

    @tile
    def compute(asc, y):
        asc.wait_flag(HardEvent.MTE2_V, 0)
        asc.adds(B, A, 100.0, 8)
        asc.data_copy(y, B, 8)

    def kernel(asc, x, y):
        asc.duplicate(A, 0.0, 8)
        asc.set_flag(HardEvent.V_S, 4)
        for i in range(4):
            load(asc, x[8 * i])
            compute(asc, y[8 * i])
        asc.wait_flag(HardEvent.V_S, 4)

    program = recorded(kernel, ("x", 32), ("y", 32))
    sample, execution = checked(program, choose_tiles(program, ("tail",)), lambda: memories(program, "y"))
    assert execution.findings == ()
    assert (sample.calls_run, sample.calls) == (2, 10)


def test_flags_that_do_not_pair_do_not_disturb_a_sample():
    def kernel(asc, x, y):
        for i in range(4):
            asc.set_flag(HardEvent.V_S, i // 2)
            double(asc, x[8 * i], y[8 * i])
        asc.wait_flag(HardEvent.V_S, 0)

    program = recorded(kernel, ("x", 32), ("y", 32))
    full = execute(program, DEVICE, memories(program, "y"))
    sample, execution = checked(program, choose_tiles(program, ("tail",)), lambda: memories(program, "y"))
    assert execution.findings == full.findings == ()
    assert sample.calls_run == 1


def test_a_deadlock_is_one_in_a_sample_too():
    def kernel(asc, x, y):
        double(asc, x, y)
        asc.wait_flag(HardEvent.MTE2_V, 0)

    program = recorded(kernel, ("x", 8), ("y", 8))
    with pytest.raises(Deadlock, match="core 0"):
        execute_sample(program, DEVICE, memories(program, "y"), choose_tiles(program, ("first",)))


def test_progress_is_told_of_every_core():
    told = []
    program = doubling([2, 0, 3])
    roots = choose_tiles(program, ("tail",))
    execute_sample(program, DEVICE, memories(program, "y"), roots, progress=lambda *p: told.append(p))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_the_log_holds_the_rows_that_ran():
    program = doubling([4])
    execution, _ = execute_sample(program, DEVICE, memories(program, "y"), only_tiles(program, 2), log_core=0)
    assert [(row["index"], row["ascendc_api"]) for row in execution.log if row["ascendc_api"]] == [
        ("14", "DataCopy#1"), ("17", "Add#2"), ("20", "DataCopy#3"),
    ]  # fmt: skip


# ---- any program ----------------------------------------------------------------------------------------------------


PLACES = st.integers(0, 6)
STEPS = st.tuples(st.sampled_from(["load", "store", "add", "pad", "wait", "set"]), PLACES, PLACES)
TILES = st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=1, max_size=4)


def random_kernel(tiles, order, flag_ids):
    """Tiles made of these steps, called in this order; UB places are apart, GM places lie half on each other."""
    ub = [local(f"u{i}", 32 * i) for i in range(8)]
    does = {
        "load": lambda asc, g, a, b: asc.data_copy(ub[a], g[4 * b], 8),
        "store": lambda asc, g, a, b: asc.data_copy(g[4 * b], ub[a], 8),
        "add": lambda asc, g, a, b: asc.add(ub[a], ub[a], ub[b], 8),
        "pad": lambda asc, g, a, b: asc.duplicate(ub[a], float(b), (0x0F, 0), 1),
    }
    if flag_ids:
        does["wait"] = lambda asc, g, a, b: asc.wait_flag(HardEvent.MTE2_V, 0)
        does["set"] = lambda asc, g, a, b: asc.set_flag(HardEvent.MTE2_V, 0)

    @tile
    def one(asc, g, number):
        for step, a, b in tiles[number]:
            if step in does:
                does[step](asc, g, a, b)

    def kernel(asc, g):
        for number, place in order:
            one(asc, g[4 * place], number % len(tiles))

    return kernel


@settings(max_examples=150, deadline=None)
@given(
    TILES,
    st.lists(st.tuples(st.integers(0, 3), PLACES), min_size=1, max_size=10),
    st.booleans(),
    st.data(),
)
def test_a_sample_of_any_program_is_what_a_full_run_leaves(tiles, order, has_flags, data):
    kernel = random_kernel(tiles, order, has_flags)
    program = recorded(kernel, ("g", 64), cores=data.draw(st.integers(1, 2)))
    try:
        execute(program, DEVICE, memories(program, ""))
    except Deadlock:
        return
    count = len(program.calls["core"])
    roots = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool)
    outputs = data.draw(st.sampled_from(["", "g"]))
    checked(program, roots, lambda: memories(program, outputs))


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_a_footprint_is_exact(steps, seed):
    """A byte not read changes nothing; a byte not written stays; a fresh byte that is written counts as such."""
    program = recorded(random_kernel([steps], [(0, 1)], flag_ids=False), ("g", 64))
    if not len(program):
        return
    closure = Closure(program, np.zeros(len(program.calls["core"]), bool))
    touched = closure.footprints[0]
    read, written = (_ub_mask(s) for s in (touched.ub_reads, touched.ub_writes))
    rng = np.random.default_rng(seed)
    first, second = (Bytes.of(rng.integers(0, 100, 4096, np.uint8)) for _ in range(2))
    second.content[read] = first.content[read]
    before = [m.content.copy() for m in (first, second)]
    for memory in (first, second):
        gm = memories(program, "")
        machine = Machine(program, gm, memory, program.places({}), HalfOverflow.INF_NAN)
        machine.enter(machine.frame(0, 0))
        for step in machine.prepare(0).work:
            step()
    assert first.content[written].tobytes() == second.content[written].tobytes()
    for memory, old in zip((first, second), before, strict=True):
        assert memory.content[~written].tobytes() == old[~written].tobytes()


def _ub_mask(spans):
    mask = np.zeros(4096, bool)
    for start, end in zip(spans.starts, spans.ends, strict=True):
        mask[start:end] = True
    return mask


RUNS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), max_size=8)


@given(RUNS, RUNS)
def test_spans_are_sets_of_bytes(some, others):
    def spans(runs):
        return Spans.of(np.array([s for s, _ in runs], np.int64), np.array([s + n for s, n in runs], np.int64))

    def members(it):
        found = [b for s, e in zip(it.starts, it.ends, strict=True) for b in range(s, e)]
        assert len(set(found)) == len(found)
        assert (it.starts[1:] > it.ends[:-1]).all()
        return set(found)

    a, b = spans(some), spans(others)
    want_a, want_b = ({x for s, n in runs for x in range(s, s + n)} for runs in (some, others))
    assert members(a) == want_a
    assert members(a | b) == want_a | want_b
    assert members(a - b) == want_a - want_b
    assert a.meets(b) == bool(want_a & want_b)
    assert members(a.shifted(7)) == {x + 7 for x in want_a}
