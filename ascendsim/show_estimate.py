"""Estimates of the time for the terminal, as lines, alike for every command that makes one."""

from collections.abc import Iterator, Sequence

from ascendsim.aligned import aligned
from ascendsim.device import Device
from ascendsim.op_host.estimates import MATMULS
from ascendsim.op_host.fag_estimate import Estimate
from ascendsim.op_host.lag_estimate import LagEstimate


def opening(title: str, command: str, device: Device) -> Iterator[str]:
    """Yield what heads an estimate: what it rests on, the command's page, what is to know of the part."""
    yield ""
    yield f"{title} (docs/{command}.md says which way it errs)"
    if device.caution:
        yield f"  {device.caution}"


def stages(rows: Sequence[tuple[str, int]], binds: str) -> Iterator[str]:
    """Yield stages with their cycles, and which of them binds."""
    yield from (f"  {line}" for line in aligned(rows))
    yield f"  what binds: {binds}"


def totals(found: Estimate | LagEstimate, counted: str, device: Device) -> Iterator[str]:
    """Yield phases, time and work; `counted` says which scores the work counts."""
    yield from aligned([(phase.name, phase.cycles, phase.binds) for phase in found.phases], frozenset({0, 2}))
    yield f"  head and tail of main: {found.head_tail_cycles:,} cycles"
    yield in_all(found.cycles, device)
    yield f"  {found.flop:,} FLOP ({MATMULS} products of {counted}): {found.tflops:.1f} TFLOP/s"


def in_all(cycles: int, device: Device) -> str:
    """Return the whole time."""
    return f"  in all {cycles:,} cycles, {device.microseconds(cycles):,.1f} us at {device.clock_mhz} MHz"
