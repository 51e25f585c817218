"""Random kernels, written as a user would: queues, tiles, own flags, barriers, waits of the scalar unit."""

from dataclasses import dataclass

from hypothesis import strategies as st

from ascendsim.device import load_device
from ascendsim.dtypes import dtype
from ascendsim.memory import place_in_gm
from ascendsim.program import Program
from ascendsim.record import record, tile
from ascendsim.terms import HardEvent, Pipe, RoundMode, TPosition

DEVICE = load_device("Ascend910B1")
LENGTHS = (8, 64, 200, 1024, 2048)
CORES = (1, 2, 3, 4, 5, 6, 7, 8, 40)
"""Few, and so many that they are in each other's way."""


@dataclass(frozen=True)
class Plan:
    """What a kernel does.

    Attributes:
        buffers: of the two input queues and the output queue.
        ahead: tiles that are loaded before the first is computed.
        shared: whether all cores load the same input.
        steps: of computing a tile.
        after: of each core at the end.
    """

    cores: int
    tiles: int
    length: int
    buffers: tuple[int, int, int]
    ahead: int
    shared: bool
    is_tile: bool
    steps: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Kernel:
    """A recorded kernel, and what is in it."""

    plan: Plan
    program: Program
    features: frozenset[str]


def flag_and_wait(asc, event, event_id, times=1):
    for call in (asc.set_flag, asc.wait_flag):
        for _ in range(times):
            call(event, event_id)


def scalar_wait(asc, z, x, count):
    flag_and_wait(asc, HardEvent.V_S, asc.fetch_event_id(HardEvent.V_S))
    asc.muls(z, x, asc.get_value(x, 0), count)


DO = {
    "add": lambda asc, z, x, y, tmp, count: asc.add(z, x, y, count),
    "mul": lambda asc, z, x, y, tmp, count: asc.mul(z, x, y, count),
    "muls": lambda asc, z, x, y, tmp, count: asc.muls(z, x, 1.5, count),
    "duplicate": lambda asc, z, x, y, tmp, count: asc.duplicate(z, 2.0, count),
    "cast": lambda asc, z, x, y, tmp, count: asc.cast(tmp.get("half"), x, RoundMode.CAST_RINT, count),
    "copy": lambda asc, z, x, y, tmp, count: asc.data_copy(tmp.get("float"), x, count),
    "barrier on V": lambda asc, *_: asc.pipe_barrier(Pipe.V),
    "barrier on all": lambda asc, *_: asc.pipe_barrier(Pipe.ALL),
    "scalar wait": lambda asc, z, x, y, tmp, count: scalar_wait(asc, z, x, count),
    "own flag": lambda asc, *_: flag_and_wait(asc, HardEvent.V_V, asc.fetch_event_id(HardEvent.V_V)),
    "flags set ahead": lambda asc, *_: flag_and_wait(asc, HardEvent.S_V, 5, 3),
}
"""Steps of computing a tile."""
STEPS = tuple(DO)
FEATURES = (*STEPS, "tile", "no tile", *(f"{count} buffers" for count in (1, 2, 3, 4)), "look ahead", "shared input",
            *(f"{cores} cores" for cores in (1, 8, 40)))  # fmt: skip


def load(asc, x, y, in_x, in_y, count):
    for que, source in ((in_x, x), (in_y, y)):
        local = que.alloc_tensor(source.dtype)
        asc.data_copy(local, source, count)
        que.enque(local)


def compute(asc, z, in_x, in_y, out, tmp, count, steps):
    x, y, result = in_x.deque(z.dtype), in_y.deque(z.dtype), out.alloc_tensor(z.dtype)
    for name in steps:
        DO[name](asc, result, x, y, tmp, count)
    out.enque(result)
    in_x.free_tensor(x)
    in_y.free_tensor(y)


def store(asc, z, out, count):
    result = out.deque(z.dtype)
    asc.data_copy(z, result, count)
    out.free_tensor(result)


LOAD, COMPUTE, STORE = tile(load), tile(compute), tile(store)


def kernel(asc, x, y, z, plan):
    pipe = asc.t_pipe()
    in_x, in_y = asc.t_que(TPosition.VECIN, 4, "in_x"), asc.t_que(TPosition.VECIN, 4, "in_y")
    out, tmp = asc.t_que(TPosition.VECOUT, 4, "out"), asc.t_buf(TPosition.VECCALC, "tmp")
    tile_bytes = plan.length * x.dtype.bytes
    for que, buffers in zip((in_x, in_y, out), plan.buffers, strict=True):
        pipe.init_buffer(que, buffers, tile_bytes)
    pipe.init_buffer(tmp, 1, tile_bytes)
    do_load, do_compute, do_store = (LOAD, COMPUTE, STORE) if plan.is_tile else (load, compute, store)
    first = plan.tiles * plan.length * asc.get_block_idx()
    starts = range(first, first + plan.tiles * plan.length, plan.length)
    loaded = 0
    for number, at in enumerate(starts):
        for ahead in starts[loaded : number + 1 + plan.ahead]:
            begin = ahead - first if plan.shared else ahead
            do_load(asc, x[begin], y[begin], in_x, in_y, plan.length)
            loaded += 1
        do_compute(asc, z[at], in_x, in_y, out, tmp, plan.length, plan.steps)
        do_store(asc, z[at], out, plan.length)
    local = tmp.get(x.dtype)
    for name in plan.after:
        DO[name](asc, local, local, local, tmp, plan.length)


@st.composite
def plans(draw) -> Plan:
    buffers = draw(st.tuples(*[st.integers(1, 4)] * 3))
    return Plan(
        cores=draw(st.sampled_from(CORES)),
        tiles=draw(st.integers(1, 7)),
        length=draw(st.sampled_from(LENGTHS)),
        buffers=buffers,
        ahead=draw(st.integers(0, min(buffers[:2]) - 1)),
        shared=draw(st.booleans()),
        is_tile=draw(st.booleans()),
        steps=tuple(draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=6))),
        after=tuple(draw(st.lists(st.sampled_from(STEPS), max_size=3))),
    )


@st.composite
def kernels(draw) -> Kernel:
    plan = draw(plans())
    count = plan.cores * plan.tiles * plan.length
    gm = place_in_gm([(name, dtype("float"), (count,)) for name in "xyz"])
    recording = record(kernel, DEVICE, plan.cores, gm, (plan,))
    assert recording.complete, recording.findings
    features = {*plan.steps, *plan.after, "tile" if plan.is_tile else "no tile", f"{plan.cores} cores"}
    features |= {f"{number} buffers" for number in plan.buffers}
    features |= {name for name, there in (("look ahead", plan.ahead), ("shared input", plan.shared)) if there}
    return Kernel(plan, recording.program, frozenset(features))
