"""Whole matmul kernels: from what a measurement states to a schedule, recorded, and scheduled by the engine.

Which tiling a case of the vendor's examples has comes from the examples' sources; the rows name the cases. The scalar
unit's work beside issuing is no instruction: it is a parameter of the library's template, fitted from several rows.
"""

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ascendsim.device import Device
from ascendsim.dtypes import FLOAT, HALF
from ascendsim.engine.base import Keep, Timeline
from ascendsim.fidelity.kernels.matmul_kernel import Schedule, matmul_kernel
from ascendsim.fidelity.kernels.predicted import Prediction, bottleneck_of
from ascendsim.fidelity.measured import MeasuredKernel, Uncovered
from ascendsim.fidelity.target import device_of
from ascendsim.machine import schedule
from ascendsim.memory import place_in_gm
from ascendsim.program import Program
from ascendsim.record import record
from ascendsim.terms import KernelType, Pipe, ceil_div

LIBRARY = "Matmul (high-level API)"
BASIC = "Matmul (basic API)"
FUSED = "Matmul+Gelu"
PTO = "GEMM (PTO)"
DOUBLE = 2
"""Buffers of a double-buffered queue."""


@dataclass(frozen=True, slots=True)
class ScalarWork:
    """Cycles of the scalar unit beside issuing instructions.

    Attributes:
        iteration: of each step of base_k.
        load: of each load from GM on top.
    """

    iteration: int
    load: int


NORM = ScalarWork(430, 0)
"""449 cycles an iteration with all it issues, its two loads among it: cases 0 to 3 on a 910B1 (448.8, 448.9, 449.8 and
449.9), cases 0 and 1 on a 950 (458.9 and 459.0)."""
MDL = ScalarWork(185, 210)
"""Cases 4, 5 and 6 on a 910B1: 351, 248 and 297 cycles an iteration with 0.75, 0.375 and 0.375 loads. Cases 5 and 6
issue the same; where the tiling is kept makes the difference, which is not modelled."""
MDL_CONSTANT = ScalarWork(111, 130)
"""Cases 7 and 8 on a 910B1: 164 and 174 cycles an iteration, split as MDL's."""
BASIC_API = ScalarWork(36, 36)
"""Both scenarios of the basic API on a 910B1: 57 and 58 cycles an iteration with 0.375 loads. PTO's as this (assumed)."""


def predict(row: MeasuredKernel) -> Prediction:
    """Return what the model predicts for a matmul that was measured.

    Raises:
        Uncovered: the row does not state its schedule, or states one that is not rebuilt here.
    """
    device = device_of(row)
    found, cores = schedule_of(row, device)
    return predict_schedule(found, cores, device)


def schedule_of(row: MeasuredKernel, device: Device) -> tuple[Schedule, int]:
    """Return the schedule that a row states, and its cores.

    Raises:
        Uncovered: as `predict`.
    """
    covered = _COVERED.get(row.op)
    if covered is None:
        raise Uncovered(f"{row.op}: its schedule is not published with the measurement")
    if row.dtype not in ("fp16", "fp16->fp32"):
        raise Uncovered(f"element type {row.dtype}: only half factors are rebuilt")
    if not row.cores.isdigit():
        raise Uncovered(f"cores {row.cores!r} is no number of AI Cores")
    start = replace(_start(row, device), is_float=row.dtype.endswith("fp32"))
    return covered(row, start, int(row.cores)), int(row.cores)


def _start(row: MeasuredKernel, device: Device) -> Schedule:
    """One core, no part of it: base 128 x 256 x 64, 256 rows where L0C holds them (matmul_high_performance example)."""
    m, n, k = _shape(row.shape)
    base_m = _BASE_M[device.npu_arch]
    return Schedule(
        m=m, n=n, k=k, cores_m=1, single_m=m, single_n=n, passes=1, base_m=base_m, base_n=256, base_k=64,
        step_ka=1, step_kb=1, buffers_a=1, buffers_b=1, unit_flag=False, is_float=False, b_is_kn=False,
        iteration_cycles=0, load_cycles=0,
    )  # fmt: skip


_BASE_M = {2201: 128, 3510: 256}
_STEP_KA = {2201: 8, 3510: 4}
_CORES_M = {"all cores, split 2x12": 2, "all cores, split 4x6": 4}
_EXAMPLE_CORES_M = 4


def _shape(text: str) -> tuple[int, int, int]:
    """Read "M=N=K=8192" or "M=128 K=1024 N=30720"."""
    lengths: dict[str, int] = {}
    for names, value in re.findall(r"((?:[MNK]=)+)(\d+)", text):
        lengths |= dict.fromkeys(names.rstrip("=").split("="), int(value))
    if set(lengths) != set("MNK"):
        raise Uncovered(f"shape {text!r} does not give M, N and K")
    return lengths["M"], lengths["N"], lengths["K"]


def _norm(s: Schedule) -> Schedule:
    """The Norm template: the unit flag is on unless switched off (MatmulConfig page)."""
    return replace(s, unit_flag=True, iteration_cycles=NORM.iteration, load_cycles=NORM.load)


def _double(s: Schedule, work: ScalarWork, *, unit_flag: bool = False) -> Schedule:
    return replace(
        s,
        buffers_a=DOUBLE,
        buffers_b=DOUBLE,
        unit_flag=unit_flag,
        iteration_cycles=work.iteration,
        load_cycles=work.load,
    )


# ---- the vendor's example of the library ---------------------------------------------------------------------------


def _library(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    case = row.conditions
    if not re.fullmatch(r"Case \d+", case):
        return _stated(row, start)
    if row.tiling == "1 core, base 64x64x64":
        return _norm(replace(start, base_m=64, base_n=64))
    if row.tiling == "1 core, base 128x256x64":
        return _norm(start)
    if row.tiling in _CORES_M:
        return _norm(_split(row, start, cores, _CORES_M[row.tiling]))
    s = _split(row, start, cores, _EXAMPLE_CORES_M)
    reuse = replace(s, step_ka=_STEP_KA[row.arch], step_kb=4)
    if row.tiling == "MDL template":
        if row.arch != 2201:
            raise Uncovered("the steps of the library's own tiling are published for arch 2201 only")
        return _double(replace(s, step_ka=2, step_kb=4), MDL)
    if row.tiling == "+ L1 reuse":
        return _double(reuse, MDL)
    halves = replace(reuse, passes=2, single_m=s.single_m // 2)
    if row.tiling == "+ L2 split":
        return _double(halves, MDL)
    if row.tiling == "+ constant tiling":
        return _double(halves, MDL_CONSTANT)
    if row.tiling.startswith("+ unit flag"):
        return _double(halves, MDL_CONSTANT, unit_flag=True)
    raise Uncovered(f"{case} ({row.tiling}) is no case of the example that is rebuilt here")


def _split(row: MeasuredKernel, s: Schedule, cores: int, cores_m: int) -> Schedule:
    """Cut C for so many cores along M, the others along N.

    The example gives each core whole blocks along N, so that the last cores have less, but with two parts along M, where
    it gives all the same.
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
    if not (single and base and step and depth):
        raise Uncovered(f"tiling {row.tiling!r} does not give single, base, step (1 along M and N) and depth")
    s = replace(start, cores_m=start.m // single[0], single_m=single[0], single_n=single[2], b_is_kn=True)
    s = replace(s, base_m=base[0], base_k=base[1], base_n=base[2])
    depth_a, depth_b = (int(text) for text in depth.groups())
    if row.conditions == "Norm template":
        return replace(_norm(s), buffers_a=min(depth_a, DOUBLE), buffers_b=min(depth_b, DOUBLE))
    if row.conditions in ("MDL", "MDL template"):
        step_a, step_b = (int(text) for text in step.groups())
        s = _double(replace(s, step_ka=step_a, step_kb=step_b), MDL)
        return replace(s, buffers_a=depth_a // step_a, buffers_b=depth_b // step_b)
    raise Uncovered(f"{row.conditions or 'no conditions'}: neither the plain Norm nor the plain MDL template")


def _lengths(what: str, text: str) -> tuple[int, int, int] | None:
    found = re.search(rf"{what} (\d+)x(\d+)x(\d+)", text)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


# ---- kernels of basic instructions -----------------------------------------------------------------------------------


def _basic(row: MeasuredKernel, start: Schedule, cores: int) -> Schedule:
    """As the library's unit flag case, once without and once with the second pass over M."""
    s = replace(_split(row, start, cores, _EXAMPLE_CORES_M), step_ka=_STEP_KA[row.arch], step_kb=4)
    s = _double(s, BASIC_API, unit_flag=True)
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


_COVERED = {LIBRARY: _library, BASIC: _basic, FUSED: _fused, PTO: _pto}


# ---- what the engine makes of it --------------------------------------------------------------------------------------


def predict_schedule(s: Schedule, cores: int, device: Device) -> Prediction:
    """Record a schedule for so many AI Cores and return its times.

    One core alone finds everything in L2: its loads from HBM are below 1 % of all (128 MiB of 16 GiB and more), and
    without them the engine need not follow what L2 holds and skips what repeats.
    """
    gm = place_in_gm(
        [
            ("a", HALF, (s.m, s.k)),
            ("b", HALF, (s.k, s.n) if s.b_is_kn else (s.n, s.k)),
            ("c", FLOAT if s.is_float else HALF, (s.m, s.n)),
        ]
    )
    program = record(matmul_kernel, device, cores, gm, (s,), None, KernelType.AIC_ONLY).program
    last = _last_calls(program)
    timeline = schedule(program, device, l2_mode="hit" if cores == 1 else "model", keep=Keep(last))
    pipe_us = {f"aic_{name}_time": us for name, us in _busy_us(timeline, device).items()}
    pipe_us["aicore_time"] = device.microseconds(int(_ends(program, timeline).mean()))
    return Prediction(device.microseconds(timeline.makespan_cycles), pipe_us, bottleneck_of(pipe_us))


_PROFILED = {"mac": Pipe.M, "scalar": Pipe.S, "mte1": Pipe.MTE1, "mte2": Pipe.MTE2, "fixpipe": Pipe.FIX}


def _busy_us(timeline: Timeline, device: Device) -> dict[str, float]:
    """Means over the cores."""
    busy = timeline.totals.busy_cycles.mean(axis=0)
    return {name: device.microseconds(int(busy[pipe])) for name, pipe in _PROFILED.items()}


def _last_calls(program: Program) -> NDArray[np.bool_]:
    """Which calls are the last of their cores."""
    core = program.calls["core"]
    last = np.zeros(len(core), bool)
    for number in range(program.core_count):
        last[np.flatnonzero(core == number)[-1]] = True
    return last


def _ends(program: Program, timeline: Timeline) -> NDArray[np.int64]:
    """Cycle at which each core is through: it waits for all its flags at the end."""
    return np.array([timeline["end"][timeline["core"] == number].max() for number in range(program.core_count)])
