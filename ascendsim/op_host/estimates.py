"""What estimates of attention kernels are made of: products, vector instructions, passes, by a device's figures."""

from dataclasses import dataclass
from math import ceil
from typing import Final

from ascendsim.device import CubeCost, Device
from ascendsim.op_host.matmul_base import BaseBlock
from ascendsim.terms import pieces

MATMULS: Final = 5
"""Matrix products of the backward pass, which count as work: S, dA (or dP), dQ, dK, dV."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Cycles of a phase on its busiest core.

    Attributes:
        name: pre, row term, main or post.
        cycles: in all.
        binds: what takes longest in it.
    """

    name: str
    cycles: int
    binds: str


def score_flop(d: int, dv: int) -> int:
    """Return the floating-point operations of a score in these products, for head sizes of query and value."""
    return 2 * (3 * d + 2 * dv)


def product_cycles(m: int, n: int, k: int, base: BaseBlock, cost: CubeCost) -> int:
    """Return the cycles of a product cut into base blocks: one Mmad with its whole start for each."""
    return sum(
        (cost.startup + cost.occupancy_cycles(rows, columns, depth)) * down * across * deep
        for rows, down in pieces(m, base.m)
        for columns, across in pieces(n, base.n)
        for depth, deep in pieces(k, base.k)
    )


def rate(device: Device, path: str) -> float:
    """Return the bytes per cycle of long transfers on a path by itself."""
    return min(line.bytes_per_cycle for line in device.transfer[path].lines)


def instruction_cycles(device: Device, family: str, types: str, repeats: float) -> int:
    """Return the cycles of a vector instruction by itself, without bank conflicts."""
    cost = device.vector[family][types]
    return cost.startup + max(cost.min_issue, ceil(cost.per_repeat * ceil(repeats))) + cost.drain


def pass_phase(device: Device, name: str, cores: int, read: float, written: float, vector: int, link: str) -> Phase:
    """Return a phase of so many AIVs that read and write so many bytes together, and compute so long each."""
    load = min(rate(device, "gm_to_ub_hit"), device.link_bytes_per_cycle(link) / cores)
    store = min(rate(device, "ub_to_gm"), device.link_bytes_per_cycle("gm_write") / cores)
    bounds = {"reads": ceil(read / cores / load), "writes": ceil(written / cores / store), "vector": vector}
    binds, cycles = max(bounds.items(), key=lambda item: item[1])
    return Phase(name, cycles, binds)
