"""What an engine sees of a program on a device: schedule columns, links, L2, queues, cross-core modes."""

from ascendsim.cost import links_of, template_schedules
from ascendsim.cross import groups_of
from ascendsim.device import Device
from ascendsim.engine.base import CrossMode, L2Info, ScheduleInput
from ascendsim.program import Program
from ascendsim.terms import CrossMode as FlagMode
from ascendsim.terms import Pipe


def _cross_modes(program: Program) -> tuple[CrossMode, ...]:
    """Who sets and who waits in each mode; none where no core waits for another."""
    if not program.is_cross:
        return ()
    modes = []
    for mode in FlagMode:
        groups = groups_of(mode, program.kernel_type, program.block_dim)
        modes.append(CrossMode(str(mode.value), tuple(g[0] for g in groups), tuple(g[1] for g in groups)))
    return tuple(modes)


def schedule_input(program: Program, device: Device, l2_mode: str) -> ScheduleInput:
    """Return what an engine sees of a program on a device."""
    depth: dict[Pipe, int] = {p: device.scalar.depth(p) for p in Pipe if p not in (Pipe.S, Pipe.ALL)}
    l2 = L2Info(l2_mode, device.memory.l2_bytes.value, device.l2.line_bytes.value, device.l2.segment_bytes.value)
    return ScheduleInput(
        templates=template_schedules(program, device),
        call_core=program.calls["core"],
        call_template=program.calls["template"],
        call_slot_start=program.calls["slot_start"],
        slot_base_bytes=program.slot_base_bytes,
        core_count=program.core_count,
        queue_depth=depth,
        dispatch_cycles=device.scalar.dispatch_cycles.value,
        event_ids=device.sync.event_ids.value,
        links=links_of(device),
        l2=l2,
        cross_modes=_cross_modes(program),
        cross_cycles=device.sync.cross_core_cycles.value,
        block_cores=program.block_cores,
    )
