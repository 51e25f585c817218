"""Passes of LaserAttentionGrad on vector cores behind and around the main phase: gradients' types, transposes of SBH.

    post           of dQ, dK and dV in turn: load, [scale], 16 bits, store; two halves of UB, the second one first
    transpose in   Q, K, V, O, dO from [S,B,N*D] to [B,N,S,D] in the workspace, some rows of a head at a time
    transpose back  sums from [B,N,S,D] to [S,B,N*D], scaled and of 16 bits, in place of post

How the original deals rows to cores in its transposes is not published: here strips go round the cores.
Source: ascend-transformer-boost, laser_attention_grad kernel: steps of post; that there are transposes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ascendsim.dtypes import BFLOAT16, FLOAT
from ascendsim.isa.move import DataCopyExtParams
from ascendsim.memory import GlobalTensor, LocalTensor
from ascendsim.op_host.lag_kernel import LagKernelTiling
from ascendsim.op_kernel.attention import pass_on
from ascendsim.record import AiCore, tile
from ascendsim.terms import HardEvent, Pipe, RoundMode
from ascendsim.tpipe import TBuf

HALVES = 2
STRIP_ROWS = 64
"""Rows of a head that a transpose moves at a time."""
BACK_ROWS = 32
MOST_COLUMNS = 256
"""Of a head; buffers of transposes are as large for all, so that tensors follow one another."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of a gradient: where they begin in the workspace [floats], the gradient, and the factor."""

    at: int
    dst: GlobalTensor
    scale: float | None


# ---- post ------------------------------------------------------------------------------------------------------------


def post(
    asc: AiCore, gradients: tuple[Sums, Sums, Sums], workspace: GlobalTensor, ub: TBuf, t: LagKernelTiling
) -> None:
    """Scale sums, round and store them, this core's share of each gradient.

    Args:
        asc: the core.
        gradients: dQ, dK and dV.
        workspace: where the sums are.
        ub: from its start on taken over.
        t: the tiling.
    """
    base, half = t.tiling.post_base_num, 1
    with asc.trace("post"):
        for one, split in zip(gradients, t.post, strict=True):
            _open_halves(asc)
            first, count = split.share(asc.get_block_idx())
            for at in range(first, first + count, base):
                part = min(base, first + count - at)
                _step(asc, one.dst[at], workspace[one.at + at], ub, part, base, half, one.scale)
                half = 1 - half
            _close_halves(asc)


def _open_halves(asc: AiCore) -> None:
    for half in range(HALVES):
        asc.set_flag(HardEvent.V_MTE2, half)
        asc.set_flag(HardEvent.MTE3_V, half)


def _close_halves(asc: AiCore) -> None:
    for half in range(HALVES):
        asc.wait_flag(HardEvent.V_MTE2, half)
        asc.wait_flag(HardEvent.MTE3_V, half)


@tile
def _step(
    asc: AiCore,
    dst: GlobalTensor,
    sums: GlobalTensor,
    ub: TBuf,
    count: int,
    base: int,
    half: int,
    scale: float | None,
) -> None:
    """One step: floats of both halves, then what they become."""
    wide = ub.get_with_offset(FLOAT, count, half * base * FLOAT.bytes)
    narrow = ub.get_with_offset(BFLOAT16, count, HALVES * base * FLOAT.bytes + half * base * BFLOAT16.bytes)
    asc.wait_flag(HardEvent.V_MTE2, half)
    asc.data_copy_pad(wide, sums, DataCopyExtParams(1, count * FLOAT.bytes, 0, 0))
    _round(asc, narrow, wide, count, scale, half)
    asc.data_copy_pad(dst, narrow, DataCopyExtParams(1, count * BFLOAT16.bytes, 0, 0))
    asc.set_flag(HardEvent.MTE3_V, half)


def _round(asc: AiCore, narrow: LocalTensor, wide: LocalTensor, count: int, scale: float | None, half: int) -> None:
    """Scale sums that are being loaded, and round them as soon as what was there before is stored."""
    pass_on(asc, HardEvent.MTE2_V, half)
    asc.wait_flag(HardEvent.MTE3_V, half)
    if scale is not None:
        asc.muls(wide, wide, scale, count)
        asc.pipe_barrier(Pipe.V)
    asc.cast(narrow, wide, RoundMode.CAST_RINT, count)
    asc.set_flag(HardEvent.V_MTE2, half)
    pass_on(asc, HardEvent.V_MTE3, half)


# ---- transposes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heads:
    """A tensor as [S,B,N*D] on one side and [B,N,S,D] on the other."""

    batches: int
    heads: int
    rows: int
    columns: int

    @property
    def pitch(self) -> int:
        """From row to row of a head in [S,B,N*D] [elements]."""
        return self.batches * self.heads * self.columns

    def strips(self, rows: int) -> Iterator[tuple[int, int]]:
        """Yield where strips of so many rows begin, in [S,B,N*D] and in [B,N,S,D]; lengths are whole strips."""
        for batch in range(self.batches):
            for head in range(self.heads):
                for row in range(0, self.rows, rows):
                    apart = row * self.pitch + (batch * self.heads + head) * self.columns
                    yield apart, ((batch * self.heads + head) * self.rows + row) * self.columns


def transpose_in(
    asc: AiCore, moved: tuple[tuple[GlobalTensor, GlobalTensor, Heads], ...], ub: TBuf, t: LagKernelTiling
) -> None:
    """Copy tensors from [S,B,N*D] to [B,N,S,D]: (source, destination, heads) of each."""
    strips = [
        (src[apart], dst[at], heads)
        for src, dst, heads in moved
        for apart, at in heads.strips(STRIP_ROWS)
    ]  # fmt: skip
    own = strips[asc.get_block_idx() :: t.aivs]
    with asc.trace("transpose in"):
        for half in range(HALVES):
            asc.set_flag(HardEvent.MTE3_MTE2, half)
        for i, (src, dst, heads) in enumerate(own):
            _move(asc, dst, src, ub, heads, i % HALVES)
        for half in range(HALVES):
            asc.wait_flag(HardEvent.MTE3_MTE2, half)


@tile
def _move(asc: AiCore, dst: GlobalTensor, src: GlobalTensor, ub: TBuf, heads: Heads, half: int) -> None:
    count, row = STRIP_ROWS * heads.columns, heads.columns * BFLOAT16.bytes
    local = ub.get_with_offset(BFLOAT16, count, half * STRIP_ROWS * MOST_COLUMNS * BFLOAT16.bytes)
    asc.wait_flag(HardEvent.MTE3_MTE2, half)
    asc.data_copy_pad(local, src, DataCopyExtParams(STRIP_ROWS, row, heads.pitch * BFLOAT16.bytes - row, 0))
    pass_on(asc, HardEvent.MTE2_MTE3, half)
    asc.data_copy(dst, local, count)
    asc.set_flag(HardEvent.MTE3_MTE2, half)


def transpose_back(
    asc: AiCore,
    gradients: tuple[tuple[Sums, Heads], ...],
    workspace: GlobalTensor,
    ub: TBuf,
    t: LagKernelTiling,
) -> None:
    """Scale sums, round them, and store them as [S,B,N*D]."""
    strips = [
        (one.dst[apart], workspace[one.at + at], heads, one.scale)
        for one, heads in gradients
        for apart, at in heads.strips(BACK_ROWS)
    ]  # fmt: skip
    with asc.trace("transpose back"):
        _open_halves(asc)
        for i, (dst, sums, heads, scale) in enumerate(strips[asc.get_block_idx() :: t.aivs]):
            _move_back(asc, dst, sums, ub, heads, scale, i % HALVES)
        _close_halves(asc)


@tile
def _move_back(
    asc: AiCore, dst: GlobalTensor, sums: GlobalTensor, ub: TBuf, heads: Heads, scale: float | None, half: int
) -> None:
    count, row = BACK_ROWS * heads.columns, heads.columns * BFLOAT16.bytes
    most = BACK_ROWS * MOST_COLUMNS
    wide = ub.get_with_offset(FLOAT, count, half * most * FLOAT.bytes)
    narrow = ub.get_with_offset(BFLOAT16, count, HALVES * most * FLOAT.bytes + half * most * BFLOAT16.bytes)
    asc.wait_flag(HardEvent.V_MTE2, half)
    asc.data_copy(wide, sums, count)
    _round(asc, narrow, wide, count, scale, half)
    asc.data_copy_pad(dst, narrow, DataCopyExtParams(BACK_ROWS, row, 0, heads.pitch * BFLOAT16.bytes - row))
    asc.set_flag(HardEvent.MTE3_V, half)
