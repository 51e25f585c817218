"""The measured matmul kernels in recorded instructions: what the Matmul library issues, and in which order.

A core makes blocks of base_m x base_n of its part of C, along M first. Along K it goes in steps of base_k. A load
brings step_ka (step_kb) of them to L1 at once, into the next of its buffers; each step goes on to one of two halves of
L0A and L0B and is added to the block in L0C, which Fixpipe stores. Loads are issued when their first step comes up: how
far they run ahead is up to the queues.

Source: asc-devkit, matmul_high_performance and matmul_basic_api_high_performance examples, and the docs of the Norm and
MDL templates: Norm loads one base block of A and of B an iteration, MDL several at once; pto-isa, gemm_performance.
"""

from dataclasses import dataclass
from functools import lru_cache

from ascendsim.dtypes import FLOAT, HALF
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.load import LoadData2DParams, LoadData3DParamsV2
from ascendsim.isa.mmad import MmadParams
from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.record import AiCore, tile
from ascendsim.terms import CUBE_SIDE, HardEvent, QuantMode, TPosition, align_up, ceil_div

L0_HALVES = 2
"""Mmad works on one half of L0A and L0B while MTE1 fills the other."""
L0_HALF_BYTES = 32768
UNIT_KEEP, UNIT_HAND_OVER = 2, 3
"""Values of unit_flag: of all Mmads of a block but the last, and of the last and Fixpipe (unit flag page)."""
FIRST_OF_B = 2
"""Event ids of B's buffers in L1 begin here, those of A's at 0."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a measured matmul [m, k] x [n, k] was cut and ordered.

    Attributes:
        m, n, k: of the whole product.
        cores_m: parts of M that lie on different cores; cores go along M first.
        single_m, single_n: the part of C that a core makes at once.
        passes: how often a core makes such a part, m / passes apart.
        base_m, base_n, base_k: what one Mmad multiplies.
        step_ka, step_kb: steps of base_k that a load of A, of B brings.
        buffers_a, buffers_b: of A and of B in L1.
        unit_flag: whether Fixpipe follows the Mmads by the unit flag and not by event flags.
        is_float: whether C is float, not half.
        b_is_kn: whether B lies as [k, n], not as [n, k].
        init_cycles: scalar work before the first load.
        iteration_cycles: scalar work of an iteration beside issuing its instructions.
        load_cycles: scalar work of a load from GM beside issuing it.
    """

    m: int
    n: int
    k: int
    cores_m: int
    single_m: int
    single_n: int
    passes: int
    base_m: int
    base_n: int
    base_k: int
    step_ka: int
    step_kb: int
    buffers_a: int
    buffers_b: int
    unit_flag: bool
    is_float: bool
    b_is_kn: bool
    init_cycles: int
    iteration_cycles: int
    load_cycles: int

    @property
    def a_bytes(self) -> int:
        """Bytes of one buffer of A in L1."""
        return self.base_m * self.base_k * self.step_ka * HALF.bytes

    @property
    def b_bytes(self) -> int:
        """Bytes of one buffer of B in L1."""
        return self.base_n * self.base_k * self.step_kb * HALF.bytes


@dataclass(frozen=True, slots=True)
class Part:
    """A block of C: its lengths, and which buffers it begins with.

    Attributes:
        m, n: lengths.
        a_at, b_at, l0_at: buffer of A, of B in L1 and half of L0 that its first step uses.
    """

    m: int
    n: int
    a_at: int
    b_at: int
    l0_at: int


def matmul_kernel(asc: AiCore, a: GlobalTensor, b: GlobalTensor, c: GlobalTensor, s: Schedule) -> None:
    """C = A B, A [m, k] and B [n, k] or [k, n] half, C [m, n] half or float; each core its part."""
    core_m, core_n = asc.get_block_idx() % s.cores_m, asc.get_block_idx() // s.cores_m
    _open(asc, s)
    steps = ceil_div(s.k, s.base_k)
    loads_a, loads_b = ceil_div(steps, s.step_ka), ceil_div(steps, s.step_kb)
    for number, (m_at, n_at, m, n) in enumerate(blocks(s, core_m, core_n)):
        part = Part(m, n, number * loads_a % s.buffers_a, number * loads_b % s.buffers_b, number * steps % L0_HALVES)
        _multiply(asc, a[m_at * s.k], b[n_at if s.b_is_kn else n_at * s.k], part, s)
        _store(asc, c[m_at * s.n + n_at], part, s)
    _close(asc, s)


def blocks(s: Schedule, core_m: int, core_n: int) -> list[tuple[int, int, int, int]]:
    """Return the blocks of C (m_at, n_at, m, n) that a core makes, in order."""
    n_from, n_to = core_n * s.single_n, min(s.n, (core_n + 1) * s.single_n)
    found = []
    for again in range(s.passes):
        m_from = again * (s.m // s.passes) + core_m * s.single_m
        m_to = min(s.m, m_from + s.single_m)
        found += [
            (m, n, min(s.base_m, m_to - m), min(s.base_n, n_to - n))
            for n in range(n_from, n_to, s.base_n)
            for m in range(m_from, m_to, s.base_m)
        ]
    return found


@tile
def _open(asc: AiCore, s: Schedule) -> None:
    """Every buffer is free at first."""
    asc.scalar_work(s.init_cycles)
    for i in _buffer_ids(s):
        asc.set_flag(HardEvent.MTE1_MTE2, i)
    for i in range(L0_HALVES):
        asc.set_flag(HardEvent.M_MTE1, i)
    if not s.unit_flag:
        asc.set_flag(HardEvent.FIX_M, 0)


@tile
def _close(asc: AiCore, s: Schedule) -> None:
    """Wait for the flags that are left."""
    for i in _buffer_ids(s):
        asc.wait_flag(HardEvent.MTE1_MTE2, i)
    for i in range(L0_HALVES):
        asc.wait_flag(HardEvent.M_MTE1, i)
    if not s.unit_flag:
        asc.wait_flag(HardEvent.FIX_M, 0)


def _buffer_ids(s: Schedule) -> tuple[int, ...]:
    """Event ids of all buffers in L1."""
    return (*range(s.buffers_a), *range(FIRST_OF_B, FIRST_OF_B + s.buffers_b))


@tile
def _multiply(asc: AiCore, a: GlobalTensor, b: GlobalTensor, part: Part, s: Schedule) -> None:
    """Make a block of C in L0C: all its steps along K."""
    steps = ceil_div(s.k, s.base_k)
    if not s.unit_flag:
        asc.wait_flag(HardEvent.FIX_M, 0)
    for i in range(steps):
        asc.scalar_work(s.iteration_cycles)
        a_id = (part.a_at + i // s.step_ka) % s.buffers_a
        b_id = (part.b_at + i // s.step_kb) % s.buffers_b
        if i % s.step_ka == 0:
            _load(asc, _a1(a_id, s), a[i * s.base_k], (part.m, s.step_ka * s.base_k, s.k), a_id, s)
        if i % s.step_kb == 0:
            _load_b(asc, b, i, b_id, part, s)
        _step(asc, i, steps, (a_id, b_id, (part.l0_at + i) % L0_HALVES), part, s)


def _load_b(asc: AiCore, b: GlobalTensor, i: int, b_id: int, part: Part, s: Schedule) -> None:
    depth = s.step_kb * s.base_k
    if s.b_is_kn:
        _load(asc, _b1(b_id, s), b[i * s.base_k * s.n], (depth, part.n, s.n), FIRST_OF_B + b_id, s)
    else:
        _load(asc, _b1(b_id, s), b[i * s.base_k], (part.n, depth, s.k), FIRST_OF_B + b_id, s)


def _load(
    asc: AiCore, l1: LocalTensor, gm: GlobalTensor, box: tuple[int, int, int], event_id: int, s: Schedule
) -> None:
    """Bring a box (rows, columns, pitch) to L1 as NZ when the buffer is free."""
    rows, columns, pitch = box
    asc.scalar_work(s.load_cycles)
    asc.wait_flag(HardEvent.MTE1_MTE2, event_id)
    asc.data_copy(l1, gm, Nd2NzParams(1, rows, columns, 0, pitch, align_up(rows, CUBE_SIDE), 1, 0))
    asc.set_flag(HardEvent.MTE2_MTE1, event_id)


def _step(asc: AiCore, i: int, steps: int, ids: tuple[int, int, int], part: Part, s: Schedule) -> None:
    """Bring one base_k of A and of B to L0 and add their product to the block."""
    a_id, b_id, half = ids
    at_a, at_b = i % s.step_ka, i % s.step_kb
    if at_a == 0:
        asc.wait_flag(HardEvent.MTE2_MTE1, a_id)
    if at_b == 0:
        asc.wait_flag(HardEvent.MTE2_MTE1, FIRST_OF_B + b_id)
    asc.wait_flag(HardEvent.M_MTE1, half)
    _to_l0(asc, _a1(a_id, s), _b1(b_id, s), (at_a, at_b, half), part, s)
    asc.set_flag(HardEvent.MTE1_M, half)
    if at_a + 1 == s.step_ka or i + 1 == steps:
        asc.set_flag(HardEvent.MTE1_MTE2, a_id)
    if at_b + 1 == s.step_kb or i + 1 == steps:
        asc.set_flag(HardEvent.MTE1_MTE2, FIRST_OF_B + b_id)
    asc.wait_flag(HardEvent.MTE1_M, half)
    ends = i + 1 == steps
    unit = 0 if not s.unit_flag else UNIT_HAND_OVER if ends else UNIT_KEEP
    params = MmadParams(m=part.m, n=part.n, k=s.base_k, unit_flag=unit, cmatrix_init_val=i == 0)
    asc.mmad(_co1(s), _a2(half), _b2(half), params)
    asc.set_flag(HardEvent.M_MTE1, half)


def _to_l0(asc: AiCore, a1: LocalTensor, b1: LocalTensor, at: tuple[int, int, int], part: Part, s: Schedule) -> None:
    """A by one LoadData 3D, as the basic matmul example; fractals of B as [n, k] lie one behind the other."""
    at_a, at_b, half = at
    rows, columns = align_up(part.m, CUBE_SIDE), align_up(part.n, CUBE_SIDE)
    window = LoadData3DParamsV2(l1_h=1, l1_w=rows, channel_size=s.base_k, k_extension=s.base_k, m_extension=rows)
    asc.load_data(_a2(half), a1[at_a * rows * s.base_k], window)
    across, down = columns // CUBE_SIDE, s.base_k // CUBE_SIDE
    if not s.b_is_kn:
        asc.load_data(_b2(half), b1[at_b * columns * s.base_k], LoadData2DParams(0, across * down, 1))
        return
    for row in range(down):
        turned = LoadData2DParams(at_b * down + row, across, s.step_kb * down, 0, 0, True)
        asc.load_data(_b2(half)[row * columns * CUBE_SIDE], b1, turned)


@tile
def _store(asc: AiCore, c: GlobalTensor, part: Part, s: Schedule) -> None:
    """Bring a block from L0C to GM."""
    if not s.unit_flag:
        asc.set_flag(HardEvent.M_FIX, 0)
        asc.wait_flag(HardEvent.M_FIX, 0)
    params = FixpipeParamsV220(
        n_size=part.n,
        m_size=part.m,
        src_stride=align_up(part.m, CUBE_SIDE),
        dst_stride=s.n,
        quant_pre=QuantMode.NO_QUANT if s.is_float else QuantMode.F322F16,
        unit_flag=UNIT_HAND_OVER if s.unit_flag else 0,
    )
    asc.fixpipe(c, _co1(s), params)
    if not s.unit_flag:
        asc.set_flag(HardEvent.FIX_M, 0)


@lru_cache(maxsize=64)
def _a1(number: int, s: Schedule) -> LocalTensor:
    return LocalTensor("a1", TPosition.A1, HALF, number * s.a_bytes, s.a_bytes)


@lru_cache(maxsize=64)
def _b1(number: int, s: Schedule) -> LocalTensor:
    return LocalTensor("b1", TPosition.B1, HALF, s.buffers_a * s.a_bytes + number * s.b_bytes, s.b_bytes)


def _a2(half: int) -> LocalTensor:
    return LocalTensor("a2", TPosition.A2, HALF, half * L0_HALF_BYTES, L0_HALF_BYTES)


def _b2(half: int) -> LocalTensor:
    return LocalTensor("b2", TPosition.B2, HALF, half * L0_HALF_BYTES, L0_HALF_BYTES)


def _co1(s: Schedule) -> LocalTensor:
    return LocalTensor("co1", TPosition.CO1, FLOAT, 0, s.base_m * s.base_n * FLOAT.bytes)
