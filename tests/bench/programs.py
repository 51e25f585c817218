"""Programs of any length for the benchmarks: the shipped SoftmaxGrad operator on as many rows of data as it takes."""

from dataclasses import dataclass
from functools import cache

from ascendsim.device import Device
from ascendsim.engine.base import ScheduleInput
from ascendsim.machine import _prepare
from ascendsim.program import Program
from ascendsim.record import record
from ascendsim.scenario import load_scenario
from ascendsim.schedule_input import schedule_input

SCENARIO = "softmaxgrad_960x960_float"
K = 960


@dataclass(frozen=True)
class Size:
    """A length of program: rows of data, and what comes out of them."""

    m: int
    rows: int
    makespan_cycles: int


# One core has nobody to share links with; 48 contend for them.
ONE_CORE = {
    10**4: Size(240, 9_180, 135_697),
    10**5: Size(2_612, 99_909, 1_465_204),
    10**6: Size(26_140, 999_855, 14_652_659),
    10**7: Size(261_438, 10_000_074, 146_537_962),
    10**8: Size(2_614_378, 100_000_029, 1_465_360_833),
}
ALL_CORES = {
    10**4: Size(288, 14_400, 6_383),
    10**5: Size(2_688, 102_816, 33_837),
    10**6: Size(26_208, 1_005_840, 333_331),
    10**7: Size(261_504, 10_002_528, 3_726_089),
    10**8: Size(2_614_464, 100_003_248, 37_416_673),
}
CORES = {1: ONE_CORE, 48: ALL_CORES}


def prepared(m: int, cores: int, values: str = "none"):
    """The operator on [m, 960] float, ready to be recorded."""
    changes = {f"tensors.{name}.shape": [m, K] for name in ("grad", "src", "dst")}
    changes |= {"block_dim": cores, "machine.values": values}
    return _prepare(load_scenario(SCENARIO, changes), with_data=values != "none")


def recorded(m: int, cores: int) -> tuple[Program, Device]:
    """The operator's program."""
    ready = prepared(m, cores)
    return record(ready.kernel, ready.device, ready.block_dim, ready.gm, (ready.argument,)).program, ready.device


@cache
def program_input(m: int, cores: int) -> tuple[Program, ScheduleInput]:
    """The operator's program, and what an engine sees of it."""
    program, device = recorded(m, cores)
    return program, schedule_input(program, device, "model")
