"""Advice: what makes a correct kernel slow. Static rules need the program, others the timeline.

Every piece of advice is true and can be followed: a rule is silent where it would cost UB that is not there, where it
concerns the inside of a library call, or where it would gain next to nothing. The thresholds stand with the rules, with
their source. One finding for each rule, kernel line and pair of operands, with what it sums up to.

W-BANK-SUBBANK has no rule: on arch 3510 it concerns gather and scatter, whose offsets are data that a program does not
know.
"""

from collections.abc import Iterator

from ascendsim.analysis import causes, peak_ub_bytes
from ascendsim.checks import banks, barriers, cube_advice, merging, static, traffic
from ascendsim.device import Device
from ascendsim.engine.base import Timeline, Wait
from ascendsim.errors import Finding, Rule
from ascendsim.program import Program
from ascendsim.terms import Pipe

NODB = Rule(
    "W-NODB",
    "{operand} has one buffer and {pipe} is the critical pipe ({busy} % busy): {got} cycles of waiting for that "
    "buffer, {percent} % of the run, on an average core",
    "num = 2",
    "asc-devkit docs, performance guide",
    condition="MTE2 or MTE3 is the busiest pipe, and waiting for the only buffer of a queue on its side takes "
    "over 5 % of the time.",
)
RULES: tuple[Rule, ...] = (
    static.GM_UNALIGNED,
    *banks.RULES,
    *traffic.RULES,
    *merging.RULES,
    *barriers.RULES,
    *cube_advice.RULES,
    NODB,
)
"""Every rule of this package's advice."""

WAIT_SHARE = 0.05
"""Share of the run that waiting for the only buffer has to take; ours."""
_SIDE = {Pipe.MTE2: "VECIN", Pipe.MTE3: "VECOUT"}


def advise(program: Program, device: Device) -> Iterator[Finding]:
    """Advice that follows from the program alone."""
    traffic_found = tuple(traffic.traffic_advice(program, device))
    tails = {f.where for f in traffic_found if f.code == traffic.TAIL.code}
    yield from (f for f in static.gm_alignment(program, device) if f.where not in tails)  # the tail says more
    yield from banks.bank_advice(program, device)
    yield from traffic_found
    yield from merging.vector_advice(program, device)
    yield from barriers.barrier_advice(program, device)
    yield from cube_advice.cube_advice(program)


def advise_timeline(program: Program, timeline: Timeline, device: Device) -> Iterator[Finding]:
    """Advice that needs to know which pipe is critical."""
    busy = timeline.totals.busy_cycles.max(axis=0)
    pipe = Pipe(int(busy.argmax()))
    makespan, cores = timeline.makespan_cycles, max(1, program.core_count)
    if pipe not in _SIDE or not makespan:
        return
    waits: dict[str, int] = {}
    for cause in causes(program, timeline):
        if cause.wait is Wait.BUFFER:
            waits[cause.name] = waits.get(cause.name, 0) + cause.cycles // cores
    room = device.ub.visible_bytes.value - peak_ub_bytes(program)
    for que in program.ques:
        cycles = waits.get(que.name, 0)
        if que.num != 1 or que.position != _SIDE[pipe] or cycles < WAIT_SHARE * makespan:
            continue
        fits = room >= que.buffer_bytes
        hint = f"num = 2: {que.buffer_bytes} B more, {max(0, room)} B are free" + ("" if fits else "; halve the tile")
        fill = {
            "pipe": pipe.name,
            "busy": round(100 * int(busy[pipe]) / makespan),
            "percent": round(100 * cycles / makespan),
        }
        yield NODB.finding("InitBuffer", operand=que.name, got=cycles, wanted=2, hint=hint, fill=fill)
