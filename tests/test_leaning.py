"""Which numbers of a device file a run used, and the cycles that rest on each."""

import copy

import numpy as np
import pytest

import ascendsim as asc
from ascendsim.cost import _SHAPES
from ascendsim.device import Device, load_device
from ascendsim.dtypes import FLOAT, HALF
from ascendsim.leaning import _COEFFICIENTS, _FLAGS, Charge, Figure, Leaning, _divided, charges_of, leanings
from ascendsim.machine import schedule
from ascendsim.memory import LocalTensor, place_in_gm
from ascendsim.record import record
from ascendsim.terms import CoreKind, HardEvent, Pipe, TPosition

DEVICE = load_device("Ascend910B1")
SMALL = {f"tensors.{name}.shape": [96, 64] for name in ("grad", "src", "dst")}
SECTIONS = ("scalar", "vector", "vector_function", "cube", "local", "transfer", "link", "sync")


def _local(address, count, dtype=FLOAT, position=TPosition.VECCALC):
    return LocalTensor(f"t{address}", position, dtype, address, count * dtype.bytes)


def _lean(kernel, shapes=(), l2_mode="model", device=DEVICE):
    """{path: (busy, waited)} of a kernel on one core."""
    program = record(kernel, device, 1, place_in_gm(shapes), ()).program
    used = leanings(charges_of(program, schedule(program, device, l2_mode=l2_mode), device))
    return {u.figure.path: (u.busy_cycles, u.waited_cycles) for u in used}


# ---- single kernels, by hand -------------------------------------------------------------------------------------


def _add(a, repeats=64):
    a.add(_local(0x20000, 4096), _local(0, 4096), _local(0x10100, 4096), 64 * repeats)


ADD = DEVICE.vector["Add"]["float"]


def test_an_add():
    """64 repeats without a conflict, start-up and drain; four mask rows and the dispatch on the scalar unit."""
    used = _lean(_add)
    assert used == {
        "vector.Add.float": (ADD.startup + 64 * ADD.per_repeat + ADD.drain, 0),
        "scalar.mask_cycles": (4, 0),
        "scalar.dispatch_cycles": (1, 0),
    }


def test_streaming_rows_count_until_the_next_starts():
    """The drain of the first Add overlaps the second."""

    def kernel(a):
        _add(a)
        _add(a)

    used = _lean(kernel)
    assert used["vector.Add.float"] == (ADD.startup + 2 * 64 * ADD.per_repeat + ADD.drain, 0)
    assert used["scalar.dispatch_cycles"] == (2, 0)


def test_the_key_is_the_one_that_charged():
    def kernel(a):
        a.cast(_local(0x20000, 4096, HALF), _local(0, 4096), asc.RoundMode.CAST_RINT, 4096)
        a.duplicate(_local(0, 64, HALF), 1.0, 64)

    assert {"vector.Cast.float->half", "vector.Duplicate.b16"} <= set(_lean(kernel))


def test_scalar_rows_flags_and_barriers():
    def kernel(a):
        value = _local(0, 8)
        a.duplicate(value, 1.0, 8)
        a.pipe_barrier(Pipe.V)
        a.set_flag(HardEvent.V_S, 0)
        a.wait_flag(HardEvent.V_S, 0)
        a.get_value(value, 0)
        a.pipe_barrier(Pipe.ALL)

    used = _lean(kernel)
    assert used["scalar.barrier_cycles"] == (0, 0)
    assert used["scalar.set_flag_cycles"] == (1, 0)
    assert used["scalar.wait_flag_cycles"] == (1, 0)
    assert used["scalar.get_value_cycles"] == (10, 0)
    assert used["scalar.barrier_all_cycles"] == (1, 0)
    assert used["scalar.dispatch_cycles"] == (3, 0)  # Duplicate, its barrier, its flag; the rest is the scalar unit's


def test_scalar_work_rests_on_what_the_kernel_states():
    assert _lean(lambda a: a.scalar_work(1000)) == {"instruction scalar_work": (1000, 0)}


def _copy_in(times):
    def kernel(a, x):
        local = _local(0, 4096)
        for _ in range(times):
            a.data_copy(local, x, 4096)

    return kernel


def test_a_load_that_misses_and_one_that_hits():
    """16 KiB: the first brings the lines that the second finds."""
    shapes = [("x", FLOAT, (4096,))]
    miss, hit = _lean(_copy_in(1), shapes), _lean(_copy_in(1), shapes, l2_mode="hit")
    assert set(miss) == {
        "transfer.gm_to_ub_miss",
        "link.hbm_read.bytes_per_cycle_per_aiv",
        "scalar.dispatch_cycles",
    }
    assert set(hit) == {"transfer.gm_to_ub_hit", "link.l2_read.bytes_per_cycle_per_aiv", "scalar.dispatch_cycles"}
    assert miss["link.hbm_read.bytes_per_cycle_per_aiv"] == hit["link.l2_read.bytes_per_cycle_per_aiv"] == (0, 0)
    for used, name, l2_mode in ((miss, "miss", "model"), (hit, "hit", "hit")):
        timeline = schedule(record(_copy_in(1), DEVICE, 1, place_in_gm(shapes), ()).program, DEVICE, l2_mode=l2_mode)
        assert used[f"transfer.gm_to_ub_{name}"] == (timeline.makespan_cycles - 1, 0)  # but for its dispatch
    assert miss["transfer.gm_to_ub_miss"] > hit["transfer.gm_to_ub_hit"]


def test_a_row_that_misses_first_and_hits_later_is_divided():
    """A loop of one template: by the time of its rows."""

    def kernel(a, x):
        local = _local(0, 4096)
        for _ in range(3):
            step(a, local, x)

    @asc.tile
    def step(a, local, x):
        a.data_copy(local, x, 4096)
        a.pipe_barrier(Pipe.MTE2)

    used = _lean(kernel, [("x", FLOAT, (4096,))])
    shapes = [("x", FLOAT, (4096,))]
    assert used["transfer.gm_to_ub_miss"] == _lean(_copy_in(1), shapes)["transfer.gm_to_ub_miss"]
    one_hit = _lean(_copy_in(1), shapes, l2_mode="hit")["transfer.gm_to_ub_hit"][0]
    assert used["transfer.gm_to_ub_hit"] == (2 * one_hit, 0)


def test_a_full_queue_is_waited_for():
    """Of 128 repeats: one at work, 32 behind it; the scalar unit holds the 34th until the second begins."""

    def kernel(count):
        def body(a):
            for _ in range(count):
                a.add(_local(0x20000, 64), _local(0, 64), _local(0x100, 64), 64, 128, asc.BinaryRepeatParams())

        return body

    assert "scalar.queue_depth.V" not in _lean(kernel(33))
    meanwhile = 32 * 2 + 1  # the others with a mask each, and the mask of the 34th
    assert _lean(kernel(34))["scalar.queue_depth.V"] == (0, ADD.startup + 128 - meanwhile)


# ---- whole runs --------------------------------------------------------------------------------------------------


RUNS = {
    "softmaxgrad": ("softmaxgrad_960x960_float", SMALL | {"block_dim": 4}),
    "half": ("softmaxgrad_half_front", {}),
    "micro": ("softmaxgrad_960x960_float", SMALL | {"block_dim": 4, "device": "Ascend950PR_9589"}),
    "mixed": ("matmul_plus_one", {}),
    "matmul": ("matmul_512x512x512_half", {"machine.values": "none"}),
    "shared link": ("vector_add", {"block_dim": 32} | {f"tensors.{name}.shape": [524288] for name in "xyz"}),
}


@pytest.fixture(scope="module", params=RUNS)
def run(request):
    name, changes = RUNS[request.param]
    return asc.run(name, set={"machine.values": "none"} | changes)


def test_every_busy_cycle_rests_on_one_number(run):
    """What rows spent, and on the scalar unit what it was busy; flags stand beside it."""
    flags = ("scalar.set_flag_cycles", "scalar.wait_flag_cycles", "scalar.barrier_all_cycles", "scalar.barrier_cycles")
    totals = run.timeline.totals
    of_pipes = sum(c.busy_cycles for c in run._charges if c.pipe is not Pipe.S and c.figure.path not in flags)
    assert of_pipes == totals.spent_cycles.sum()
    of_scalar = sum(c.busy_cycles for c in run._charges if c.pipe is Pipe.S and c.figure.path not in flags)
    assert of_scalar == totals.busy_cycles[:, Pipe.S].sum()


def _larger(table):
    """A table of a device file with every number in it larger."""
    if isinstance(table, dict):
        return {key: _larger(value) for key, value in table.items()}
    if isinstance(table, list | tuple):
        return [_larger(value) for value in table]
    if isinstance(table, bool | str) or table is None:
        return table
    return table + 1 if isinstance(table, int) else table * 1.25


def _paths(tree, path=()):
    """Where numbers stand that say how sure they are."""
    if not isinstance(tree, dict):
        return []
    if "status" in tree:
        return [path]
    return [found for key, value in tree.items() for found in _paths(value, (*path, key))]


def _with(raw, paths):
    changed = copy.deepcopy(raw)
    for path in paths:
        table = changed
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = _larger(table[path[-1]])
    return Device.model_validate(changed)


def _times(program, device):
    timeline = schedule(program, device)
    return np.stack([timeline[name] for name in ("dispatched", "start", "occupied", "end")])


def test_times_depend_on_the_numbers_that_are_listed_and_on_no_others(run):
    """Of all costs in the device file. A number with cycles on it matters; all that are not listed together do not."""
    raw = run.device.model_dump(by_alias=True, mode="json")
    known = [(section, *path) for section in SECTIONS for path in _paths(raw[section] or {})]
    known = [path for path in known if path[0] != "sync" or path[1] == "cross_core_cycles"]
    used = {u.figure.path: u for u in run.leanings}
    assert set(used) <= {".".join(path) for path in known}
    times = _times(run.program, run.device)
    others = [path for path in known if ".".join(path) not in used]
    assert len(others) > 40
    assert np.array_equal(times, _times(run.program, _with(raw, others)))
    for path in known:
        found = used.get(".".join(path))
        if found is not None and found.busy_cycles + found.waited_cycles:
            assert not np.array_equal(times, _times(run.program, _with(raw, [path]))), path


def test_status_and_source_are_those_of_the_device_file(run):
    raw = run.device.model_dump(by_alias=True, mode="json")
    said = {".".join(path): _at(raw, path) for path in _paths(raw)}
    for used in run.leanings:
        told = said[used.figure.path]
        assert (used.figure.status, used.figure.source) == (told["status"], told["source"])


def _at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def test_kinds_of_cores_in_a_mixed_kernel():
    run = asc.run("matmul_plus_one", set={"machine.values": "none"})
    kinds = {(c.kind, c.pipe) for c in run._charges if c.busy_cycles and c.pipe is not Pipe.S}
    assert kinds == {lane for lane in run.lane_use if lane[1] is not Pipe.S}
    way = next(u for u in run.leanings if u.figure.path == "sync.cross_core_cycles")
    flags = run.timeline.totals.wait_count[:, 7].sum()
    assert 0 < way.waited_cycles <= 220 * flags


def test_what_both_kinds_call_is_divided_by_their_calls():
    calls = {CoreKind.AIC: 1, CoreKind.AIV: 2}
    assert _divided(10, calls) == {CoreKind.AIC: 3, CoreKind.AIV: 7}
    assert _divided(9, calls) == {CoreKind.AIC: 3, CoreKind.AIV: 6}
    assert _divided(9, {CoreKind.AIC: 4}) == {CoreKind.AIC: 9}


# ---- shapes, sums ------------------------------------------------------------------------------------------------


def test_every_cost_shape_is_known():
    assert set(_SHAPES) == {*_COEFFICIENTS, *_FLAGS, "transfer", "scalar", "barrier"}


def test_numbers_with_most_busy_cycles_come_first():
    a, b, c, d = (Figure(name, "assumed", "s") for name in "abcd")
    charges = (
        Charge(CoreKind.AIV, Pipe.S, d, 0, 5),
        Charge(CoreKind.AIV, Pipe.S, c, 0, 5),
        Charge(CoreKind.AIV, Pipe.V, b, 3),
        Charge(CoreKind.AIV, Pipe.V, a, 2),
        Charge(CoreKind.AIC, Pipe.V, a, 2),
    )
    assert leanings(charges) == (Leaning(a, 4, 0), Leaning(b, 3, 0), Leaning(c, 0, 5), Leaning(d, 0, 5))
