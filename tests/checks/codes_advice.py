"""The table of all codes, part 5: what makes a correct kernel slow, and suppressions."""

from codes_harness import A950, checked, entry, flagged, kernels, local, ran

from ascendsim import tile
from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.isa.move import DataCopyParams
from ascendsim.terms import HardEvent, Pipe, TPosition

FLOATS = 16384
"""Bytes of 4096 floats."""

# ---- banks --------------------------------------------------------------------------------------------------------


def adding(src0, src1, dst, params=BinaryRepeatParams()):
    """One Add of 64 repeats on three tensors at these addresses."""

    def kernel(asc, *_):
        tensors = [local(name, "float", at, FLOATS) for name, at in (("x", src0), ("y", src1), ("z", dst))]
        for number, tensor in enumerate(tensors[:2]):
            asc.duplicate(tensor, float(number), 4096)
        asc.pipe_barrier(Pipe.V)
        asc.add(tensors[2], tensors[0], tensors[1], 64, 64, params)

    return kernel


kernels("W-BANK-RR", adding(0x0, 0x4000, 0x10000), adding(0x0, 0x4100, 0x10000))
kernels("W-BANK-RW", adding(0x0, 0x10100, 0x4020), adding(0x0, 0x10100, 0x4100))
kernels("W-BANK-3510", adding(0x0, 0x4000, 0x8000), adding(0x0, 0x4000, 0x8100), soc=A950)


def scattered(stride):
    """A Duplicate of this block stride."""
    return lambda asc, *_: asc.duplicate(local("z", "float", 0, 160000), 0.0, 64, 64, stride, 1)


kernels("W-BANK-WW", scattered(16), scattered(17))

# ---- GM -----------------------------------------------------------------------------------------------------------

WIDE = {"x": ("float", 65536)}


def copying(count, times):
    """Copies of `count` floats one behind the other, each to its own place."""

    def kernel(asc, x):
        for i in range(times):
            asc.data_copy(local("u", "float", 0, 4 * count * times)[i * count], x[i * count], count)

    return kernel


kernels("W-MTE-SMALL", copying(1024, 8), copying(4096, 2), gm=WIDE)


def rows_of(length, pitch):
    """64 rows of `length` bytes, `pitch` bytes apart in GM."""
    params = DataCopyParams(64, length // 32, (pitch - length) // 32, 0)
    return lambda asc, x: asc.data_copy(local("u", "float", 0, 64 * length), x, params)


kernels("W-MTE-TAIL", rows_of(992, 992), rows_of(1024, 1024), gm=WIDE)


def walking(start):
    """Cores that load four tiles of 16 KiB; core c begins at tile start(c)."""

    def kernel(asc, x):
        for i in range(4):
            place = local("u", "float", i * FLOATS, FLOATS)
            asc.data_copy(place, x[(i + start(asc.get_block_idx())) % 4 * 4096], 4096)

    return kernel


kernels("W-GM-SAMEADDR", walking(lambda _: 0), walking(lambda core: core), gm={"x": ("float", 16384)}, cores=4)

TILES = 4000  # of 64 KiB: 250 MiB, L2 has 192
SUM = local("sum", "float", 65536 + 256, 65536)


@tile
def load(asc, part):
    u = local("u", "float", 0, 65536)
    asc.data_copy(u, part, 16384)
    flagged(asc, HardEvent.MTE2_V)
    asc.pipe_barrier(Pipe.V)
    asc.add(SUM, SUM, u, 16384)
    flagged(asc, HardEvent.V_MTE2)


def passes(order):
    """Loads of the tiles in this order."""

    def kernel(asc, x):
        asc.duplicate(SUM, 0.0, 16384)
        for i in order:
            load(asc, x[i * 16384])

    return kernel


kernels(
    "W-GM-L2",
    passes([*range(TILES)] * 2),
    passes([i // 2 for i in range(2 * TILES)]),
    gm={"x": ("float", TILES * 16384)},
)

# ---- vector calls -------------------------------------------------------------------------------------------------


def adds_at(places, count=64):
    """One Adds at each of these elements."""

    def kernel(asc, *_):
        x, z = local("x", "float", 0, 65536), local("z", "float", 0x10000, 65536)
        asc.duplicate(x, 0.0, 16384)
        asc.pipe_barrier(Pipe.V)
        for i in places:
            asc.adds(z[i], x[i], 1.0, count)

    return kernel


kernels("W-VEC-SHORT", adds_at(range(0, 384, 64)), adds_at((0, 64, 192, 256, 384, 448)))
kernels("W-VEC-TAIL", adds_at((0,), 1000), adds_at((0,), 1024))


def two_steps(first):
    """A sum of 256 floats by two reductions."""

    def kernel(asc, *_):
        x, t, z = (local(name, "float", at, 1024) for name, at in (("x", 0), ("t", 0x10000), ("z", 0x11000)))
        asc.duplicate(x, 1.0, 256)
        asc.pipe_barrier(Pipe.V)
        if first == "whole":
            asc.whole_reduce_sum(t, x, 64, 4, 1, 1, 8)
        else:
            asc.block_reduce_sum(t, x, 4, 64, 1, 1, 8)
        asc.pipe_barrier(Pipe.V)
        asc.whole_reduce_sum(z, t, 4 if first == "whole" else 32, 1, 1, 1, 8)

    return kernel


kernels("W-RED-WHOLE", two_steps("whole"), two_steps("block"))


def values(count):
    """GetValue of so many elements."""

    def kernel(asc, *_):
        x = local("x", "float", 0, 1024)
        asc.duplicate(x, 1.0, 256)
        flagged(asc, HardEvent.V_S)
        for i in range(count):
            asc.get_value(x, i)

    return kernel


kernels("W-SCALAR", values(32), values(31))

# ---- cores and buffers --------------------------------------------------------------------------------------------


def spread(tiles_of):
    """Core c loads tiles_of(c) tiles of 16 KiB."""

    def kernel(asc, x):
        core = asc.get_block_idx()
        for i in range(tiles_of(core)):
            asc.data_copy(local("u", "float", i * FLOATS, FLOATS), x[(core * 4 + i) * 4096], 4096)

    return kernel


kernels("W-TILE-IDLE", spread(lambda core: 2 * (core < 3)), spread(lambda core: 2), gm=WIDE, cores=4)


def buffered(num):
    """Kernel of a queue for loads with `num` buffers, and an addition a tile."""

    def kernel(asc, x):
        pipe, que = asc.t_pipe(), asc.t_que(TPosition.VECIN, 1, "in_x")
        pipe.init_buffer(que, num, FLOATS)
        sums = local("sums", "float", 0x8100, 8 * FLOATS)
        for i in range(8):
            a = que.alloc_tensor(x.dtype)
            asc.data_copy(a, x[i * 4096], 4096)
            que.enque(a)
            a = que.deque(x.dtype)
            asc.adds(sums[i * 4096], a, 1.0, 4096)
            que.free_tensor(a)

    return kernel


entry("W-NODB", lambda: ran(buffered(1), WIDE), lambda: ran(buffered(2), WIDE))

# ---- suppressions -------------------------------------------------------------------------------------------------

ACCEPTED = {"suppress": [{"code": "W-NUM-RECIP", "reason": "1e-4 is enough"}]}


def one_over(call):
    """A reciprocal."""

    def kernel(asc, *_):
        x, one = local("x", "float", 0, 1024), local("one", "float", 0x500, 1024)
        asc.duplicate(local("ub", "float", 0, 0x900), 1.0, 0x240)
        asc.pipe_barrier(Pipe.V)
        call(asc, local("z", "float", 0x10000, 1024), one, x)

    return kernel


entry(
    "W-SUPPRESS-UNUSED",
    lambda: checked(one_over(lambda asc, z, one, x: asc.div(z, one, x, 256)), **ACCEPTED),
    lambda: checked(one_over(lambda asc, z, one, x: asc.reciprocal(z, x, 256)), **ACCEPTED),
    (
        "suppression of W-NUM-RECIP matches no finding",
        "delete it, or correct its code, line, where or operand",
    ),
)
