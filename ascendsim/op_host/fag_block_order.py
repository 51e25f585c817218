"""Blocks of SameAB dealt otherwise than the operator deals them: a row of score tiles of all heads to one core.

So the operator of the vendor's tuning case dealt them before its cores were balanced: of a causal mask the first rows
are short and the last ones long. Source: asc-devkit docs, FlashAttention tuning case.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from ascendsim.errors import InputError
from ascendsim.op_host.fag_dealing import Dealing, Run
from ascendsim.op_host.fag_kernels import FagKernelTiling
from ascendsim.op_host.fag_same_ab import SameAbTiling

BlockOrder = Literal["blocks", "rows"]
"""What goes to a core at a time: a block, as the operator has it, or a row of blocks of all heads of a batch."""


def dealt(tiling: FagKernelTiling, order: BlockOrder, cores: int | None) -> FagKernelTiling:
    """Return a tiling with its blocks dealt in this order, to so many AICs.

    Args:
        tiling: what a kernel takes.
        order: the order.
        cores: how many take blocks, None for all; the passes before and behind stay with all AIVs.

    Raises:
        InputError: another template than SameAB has the call, its sums are deterministic and go round by round, or
            there are fewer cores.
    """
    if order == "blocks" and cores is None:
        return tiling
    if not isinstance(tiling, SameAbTiling) or tiling.call.params.deterministic:
        raise InputError(
            "tiling.block_order and tiling.block_cores: only template SameAB (15500) without deterministic sums deals "
            "its blocks otherwise; leave them out"
        )
    if cores is not None and cores > tiling.dealing.cores:
        raise InputError(f"tiling.block_cores = {cores}: there are {tiling.dealing.cores} AICs; give at most so many")
    dealing = by_rows(tiling.dealing) if order == "rows" else tiling.dealing
    return replace(tiling, dealing=replace(dealing, cores=cores or dealing.cores))


def by_rows(dealing: Dealing) -> Dealing:
    """Return a dealing that gives rows of blocks to the cores in turn, each with those of all heads of a batch."""
    runs = tuple(row for run in dealing.runs for row in _rows_of(run))
    order = "s2 fastest in a row of blocks, then g, n2; one such row of all heads to each AIC in turn, then s1, b"
    return replace(dealing, runs=runs, by_group=True, order=order)


def _rows_of(run: Run) -> Iterator[Run]:
    """Yield the rows of a run, batch after batch, as groups that come once."""
    count = len(run.group)
    for first in range(0, run.times, run.heads):
        heads = np.repeat(np.arange(min(run.heads, run.times - first)), count)
        blocks = run.group.picked(np.tile(np.arange(count), len(heads) // count))
        blocks = replace(blocks, n2=blocks.n2 + heads // run.g, g=blocks.g + heads % run.g)
        for s1 in np.unique(blocks.s1):
            row = blocks.picked(np.flatnonzero(blocks.s1 == s1))
            yield Run(row, 1, run.b + first // run.heads * run.b_step, run.heads, run.b_step)
