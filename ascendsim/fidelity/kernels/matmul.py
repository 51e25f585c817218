"""Whole matmul kernels: from what a measurement states to a schedule, recorded, and scheduled by the engine.

Which tiling a case of the vendor's examples has comes from the examples' sources; the rows name the cases. The scalar
unit's work beside issuing is no instruction: it is a parameter of the library's template, fitted from several rows.
"""

import re
from dataclasses import dataclass, replace

from ascendsim.device import Device
from ascendsim.dtypes import FLOAT, HALF
from ascendsim.fidelity.kernels.matmul_kernel import Schedule, matmul_kernel
from ascendsim.fidelity.kernels.predicted import L2_MODE, Prediction, check_work, extrapolated, prediction_of, recorded
from ascendsim.fidelity.kernels.words import MOST_LENGTH, cores_of
from ascendsim.fidelity.lengths import number_in
from ascendsim.fidelity.measured import MeasuredKernel, Uncovered
from ascendsim.memory import place_in_gm
from ascendsim.program import Program
from ascendsim.terms import KernelType, ceil_div

DOUBLE = 2
"""Buffers of a double-buffered queue."""


@dataclass(frozen=True, slots=True)
class ScalarWork:
    """Cycles of the scalar unit beside issuing instructions.

    Attributes:
        init: before the first load.
        iteration: of each step of base_k.
        load: of each load from GM on top.
    """

    init: int
    iteration: int
    load: int


_INIT, _INIT_CONSTANT = 6550, 4050
"""Until the first load starts: 3.54 us, 2.19 us with constant tiling (asc-devkit guide, constant tiling)."""
NORM = ScalarWork(_INIT, 430, 0)
"""449 cycles an iteration with all it issues, its two loads among it: cases 0 to 3 on a 910B1 (448.8, 448.9, 449.8 and
449.9), cases 0 and 1 on a 950 (458.9 and 459.0)."""
MDL = ScalarWork(_INIT, 185, 210)
"""Cases 4, 5 and 6 on a 910B1: 351, 248 and 297 cycles an iteration with 0.75, 0.375 and 0.375 loads. Cases 5 and 6
issue the same; where the tiling is kept makes the difference, which is not modelled."""
MDL_CONSTANT = ScalarWork(_INIT_CONSTANT, 111, 130)
"""Cases 7 and 8 on a 910B1: 164 and 174 cycles an iteration, split as MDL's."""
BASIC_API = ScalarWork(0, 36, 36)
"""Both scenarios of the basic API on a 910B1: 57 and 58 cycles an iteration with 0.375 loads. PTO's is taken for equal
(assumed)."""


def predict_matmul(row: MeasuredKernel, device: Device) -> Prediction:
    """Return what the model says of a matmul that was measured.

    Raises:
        Uncovered: the row does not state its schedule, or states one that is not rebuilt here.
    """
    found, cores = schedule_of(row, device)
    check_schedule(found, cores, device)
    return predict_schedule(found, cores, device)


def schedule_of(row: MeasuredKernel, device: Device) -> tuple[Schedule, int]:
    """Return the schedule that a row states, and its cores.

    Raises:
        Uncovered: as `predict_matmul`.
    """
    if row.op not in MATMULS:
        raise Uncovered(f"{row.op}: its schedule is not published with the measurement")
    if row.dtype not in ("fp16", "fp16->fp32"):
        raise Uncovered(f"element type {row.dtype}: only half factors are rebuilt")
    cores = cores_of(row)
    start = replace(_start(row, device), is_float=row.dtype.endswith("fp32"))
    return MATMULS[row.op](row, start, cores), cores


def check_schedule(s: Schedule, cores: int, device: Device) -> None:
    """Refuse a schedule that no device runs, or that cannot be simulated in a minute.

    Raises:
        Uncovered: it is one.
    """
    lengths = (s.cores_m, s.single_m, s.single_n, s.base_m, s.base_n, s.base_k, s.step_ka, s.step_kb)
    if min(lengths) < 1 or not {s.buffers_a, s.buffers_b} <= {1, DOUBLE} or cores % s.cores_m:
        raise Uncovered("its parts, blocks or buffers do not divide the product among the cores")
    memory = device.memory
    held = {
        "L1": (s.buffers_a * s.a_bytes + s.buffers_b * s.b_bytes, memory.l1_bytes.value),
        "L0A": (DOUBLE * s.base_m * s.base_k * HALF.bytes, memory.l0a_bytes.value),
        "L0B": (DOUBLE * s.base_n * s.base_k * HALF.bytes, memory.l0b_bytes.value),
        "L0C": (s.base_m * s.base_n * FLOAT.bytes, memory.l0c_bytes.value),
    }
    for name, (wanted, most) in held.items():
        if wanted > most:
            raise Uncovered(f"its blocks take {wanted} B of {name}, which holds {most} B")
    rows = _MANY * s.base_m * s.cores_m * s.passes if _is_scaled(s, cores, device) else s.m
    blocks = ceil_div(rows, s.base_m) * ceil_div(s.n, s.base_n)
    check_work(blocks, blocks * ceil_div(s.k, s.base_k), _bytes(s, s.m, s.n), device)


def _start(row: MeasuredKernel, device: Device) -> Schedule:
    """One core, no part of it: base 128 x 256 x 64, 256 rows where L0C holds them (matmul_high_performance example)."""
    m, n, k = _shape(row.shape)
    if device.npu_arch not in _BASE_M:
        raise Uncovered(f"the example is not made for architecture {device.npu_arch}")
    base_m = _BASE_M[device.npu_arch]
    return Schedule(
        m=m, n=n, k=k, cores_m=1, single_m=m, single_n=n, passes=1, base_m=base_m, base_n=256, base_k=64,
        step_ka=1, step_kb=1, buffers_a=1, buffers_b=1, unit_flag=False, is_float=False, b_is_kn=False,
        init_cycles=0, iteration_cycles=0, load_cycles=0,
    )  # fmt: skip


_BASE_M = {2201: 128, 3510: 256}
_STEP_KA = {2201: 8, 3510: 4}
_OWN_STEPS = {2201: (2, 4)}
"""step_ka and step_kb that the library's tiling chooses in case 4: depthA1 4, depthB1 8, double-buffered."""
_EXAMPLE_CORES_M = 4


def _shape(text: str) -> tuple[int, int, int]:
    """Read "M=N=K=8192" or "M=128 K=1024 N=30720"."""
    lengths: dict[str, int] = {}
    for names, value in re.findall(r"((?:[MNK]=)+)(\d+)", text):
        lengths |= dict.fromkeys(names.rstrip("=").split("="), number_in(value, MOST_LENGTH, "shape"))
    if 0 in lengths.values():
        raise Uncovered(f"shape {text!r} is empty")
    if set(lengths) != set("MNK"):
        raise Uncovered(f"shape {text!r} does not give M, N and K")
    return lengths["M"], lengths["N"], lengths["K"]


def _norm(s: Schedule) -> Schedule:
    """The Norm template: the unit flag is on unless switched off (MatmulConfig page)."""
    return _with_work(replace(s, unit_flag=True), NORM)


def _double(s: Schedule, work: ScalarWork) -> Schedule:
    """Two buffers of A and of B in L1."""
    return _with_work(replace(s, buffers_a=DOUBLE, buffers_b=DOUBLE), work)


def _with_work(s: Schedule, work: ScalarWork) -> Schedule:
    return replace(s, init_cycles=work.init, iteration_cycles=work.iteration, load_cycles=work.load)


# ---- the vendor's example of the library ---------------------------------------------------------------------------


def _library(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    if not re.fullmatch(r"Case \d+", row.conditions):
        return _stated(row, start)
    case = _CASES.get(row.tiling)
    if case is None:
        raise Uncovered(f"{row.conditions} ({row.tiling}) is no case of the example that is rebuilt here")
    return case(row, start, cores)


def _base_64(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    del row, cores
    return _norm(replace(start, base_m=64, base_n=64))


def _one_core(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    del row, cores
    return _norm(start)


def _split_2(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    return _norm(_split(row, start, cores, 2))


def _split_4(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    return _norm(_split(row, start, cores, _EXAMPLE_CORES_M))


def _mdl(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    if row.arch not in _OWN_STEPS:
        raise Uncovered(f"the steps of the library's own tiling are not published for arch {row.arch}")
    step_ka, step_kb = _OWN_STEPS[row.arch]
    return _double(replace(_split(row, start, cores, _EXAMPLE_CORES_M), step_ka=step_ka, step_kb=step_kb), MDL)


def _l1_reuse(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    s = _split(row, start, cores, _EXAMPLE_CORES_M)
    return _double(replace(s, step_ka=_STEP_KA[row.arch], step_kb=4), MDL)


def _l2_split(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    s = _l1_reuse(row, start, cores)
    return replace(s, passes=2, single_m=s.single_m // 2)


def _constant_tiling(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    return _double(_l2_split(row, start, cores), MDL_CONSTANT)


def _unit_flag(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    return replace(_constant_tiling(row, start, cores), unit_flag=True)


_CASES = {
    "1 core, base 64x64x64": _base_64,
    "1 core, base 128x256x64": _one_core,
    "all cores, split 2x12": _split_2,
    "all cores, split 4x6": _split_4,
    "MDL template": _mdl,
    "+ L1 reuse": _l1_reuse,
    "+ L2 split": _l2_split,
    "+ constant tiling": _constant_tiling,
    "+ unit flag (fixpipe time then includes waits)": _unit_flag,
}
"""Cases of matmul_high_performance. On a 950 base_m is 256 and 32 cores are split 2x16 and 4x8, whatever a row says."""


def _split(row: MeasuredKernel, s: Schedule, cores: int, cores_m: int) -> Schedule:
    """Cut C for so many cores along M, the others along N.

    The example gives each core whole blocks along N, so that the last cores have less; but with two parts along M it
    gives all the same.
    """
    if cores % cores_m:
        raise Uncovered(f"{cores} cores are not {cores_m} parts of M for each part of N ({row.tiling})")
    equal = ceil_div(s.n, cores // cores_m)
    whole = ceil_div(equal, s.base_n) * s.base_n
    single_n = whole if cores_m == _EXAMPLE_CORES_M else equal
    return replace(s, cores_m=cores_m, single_m=s.m // cores_m, single_n=single_n)


def _stated(row: MeasuredKernel, start: Schedule) -> Schedule:
    """The docs' tuning cases: "single 128x1024x1280, base 128x64x256, step 1/1/4/4, depth 8/8" (m x k x n, M/N/Ka/Kb).

    Their B is [K, N] (shapes of the pages).
    """
    single, base = _lengths("single", row.tiling), _lengths("base", row.tiling)
    step = re.search(r"step 1/1/(\d+)/(\d+)", row.tiling)
    depth = re.search(r"depth (\d+)/(\d+)", row.tiling)
    if not (single and base and step and depth and min(*single, *base) > 0):
        raise Uncovered(f"tiling {row.tiling!r} does not give single, base, step (1 along M and N) and depth")
    s = replace(start, cores_m=start.m // single[0], single_m=single[0], single_n=single[2], b_is_kn=True)
    s = replace(s, base_m=base[0], base_k=base[1], base_n=base[2])
    depth_a, depth_b = (number_in(text, _MOST_DEPTH, "depth") for text in depth.groups())
    if row.conditions == "Norm template":
        return replace(_norm(s), buffers_a=min(depth_a, DOUBLE), buffers_b=min(depth_b, DOUBLE))
    if row.conditions in ("MDL", "MDL template"):
        step_a, step_b = (max(1, number_in(text, _MOST_DEPTH, "step")) for text in step.groups())
        s = _double(replace(s, step_ka=step_a, step_kb=step_b), MDL)
        return replace(s, buffers_a=depth_a // step_a, buffers_b=depth_b // step_b)
    raise Uncovered(f"{row.conditions or 'no conditions'}: neither the plain Norm nor the plain MDL template")


def _lengths(what: str, text: str) -> tuple[int, int, int] | None:
    found = re.search(rf"{what} (\d+)x(\d+)x(\d+)", text)
    if found is None:
        return None
    first, second, third = (number_in(text, MOST_LENGTH, what) for text in found.groups())
    return first, second, third


_MOST_DEPTH = 1 << 10
"""Blocks in L1: more than it holds of the least, 16 x 16 halves."""


# ---- kernels of basic instructions -----------------------------------------------------------------------------------


def _basic(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    """As the library's unit flag case, once without and once with the second pass over M."""
    s = replace(_split(row, start, cores, _EXAMPLE_CORES_M), step_ka=_STEP_KA[row.arch], step_kb=4)
    s = replace(_double(s, BASIC_API), unit_flag=True)
    if row.tiling == "Scenario 1":
        return s
    if row.tiling == "Scenario 2":
        return replace(s, passes=2, single_m=s.single_m // 2)
    raise Uncovered(f"{row.tiling} is no scenario of the basic API example")


def _fused(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    """The product of the fused example alone: the basic example's first scenario with float results."""
    if row.tiling != "Matmul alone":
        raise Uncovered(f"{row.tiling}: the vector cores' part of a fused kernel is not rebuilt")
    return _basic(replace(row, tiling="Scenario 1"), start, cores)


def _pto(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    """PTO's GEMM: 4 parts along M, 6 along N, all alike; event flags between Mmads and stores."""
    if row.tiling != "base 128x64x256, step 1/1/4/4":
        raise Uncovered(f"tiling {row.tiling!r} is not that of PTO's example")
    s = replace(_split(row, start, cores, _EXAMPLE_CORES_M), step_ka=4, step_kb=4)
    return _double(replace(s, single_n=ceil_div(s.n, cores // _EXAMPLE_CORES_M)), BASIC_API)


MATMULS = {
    "Matmul (high-level API)": _library,
    "Matmul (basic API)": _basic,
    "Matmul+Gelu": _fused,
    "GEMM (PTO)": _pto,
}
"""What is covered, by the source's name of the kernel."""


# ---- what the engine makes of it -------------------------------------------------------------------------------------


def predict_schedule(s: Schedule, cores: int, device: Device) -> Prediction:
    """Return the times of a schedule on so many AI Cores.

    Of long ones a few blocks along M are recorded, and their time is scaled. While L2 keeps all of A from one column
    of blocks to the next, each block along M adds the same: loads of A that miss in the first column and hit in the
    others, loads of B that hit. What a column's first block pays for B stays.
    """
    steps, l2_mode = s.single_m // s.base_m, _l2_mode(s, cores, device)
    if not _is_scaled(s, cores, device):
        return prediction_of(_recorded(s, cores, device), device, l2_mode)
    programs = {n: _recorded(replace(s, single_m=n * s.base_m), cores, device) for n in (_FEW, _MANY)}
    return extrapolated(programs, steps, device, l2_mode)


def _is_scaled(s: Schedule, cores: int, device: Device) -> bool:
    """Whether a few blocks along M stand for all."""
    return s.single_m // s.base_m > _MANY and not s.single_m % s.base_m and (cores == 1 or _keeps_a(s, cores, device))


_FEW, _MANY = 1, 3
"""Blocks along M that are recorded of long schedules."""


def _l2_mode(s: Schedule, cores: int, device: Device) -> str:
    """How L2 begins: with the matrices where all fit, else empty, because it keeps the last bytes only.

    One core alone always hits: it waits for latencies, not for bandwidth, and loads A and B as fast on a 910B, which
    keeps A, as on a 950, which does not (cases 0 and 1).
    """
    if cores == 1:
        return "hit"
    fits = _bytes(s, s.m, s.n) <= device.memory.l2_bytes.value
    return L2_MODE if fits else "model"


def _keeps_a(s: Schedule, cores: int, device: Device) -> bool:
    """Whether A, a column of blocks of all cores and what they read of B fit in L2."""
    columns = min(s.n, cores // s.cores_m * s.base_n)
    return _bytes(s, s.m // s.passes, columns) <= device.memory.l2_bytes.value


def _bytes(s: Schedule, rows: int, columns: int) -> int:
    """Bytes of so many rows of A, columns of B and what they make of C."""
    result_bytes = FLOAT.bytes if s.is_float else HALF.bytes
    return (rows + columns) * s.k * HALF.bytes + rows * columns * result_bytes


def _recorded(s: Schedule, cores: int, device: Device) -> Program:
    gm = place_in_gm(
        [
            ("a", HALF, (s.m, s.k)),
            ("b", HALF, (s.k, s.n) if s.b_is_kn else (s.n, s.k)),
            ("c", FLOAT if s.is_float else HALF, (s.m, s.n)),
        ]
    )
    return recorded(matmul_kernel, device, cores, gm, (s,), KernelType.AIC_ONLY)
