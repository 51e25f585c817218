"""LaserAttentionGrad: an AIC and its two AIVs share blocks of scores, the AIC up to two rounds ahead.

    AIV    zeros; [transposes of SBH]; SyncAll; round after round P and dS; SyncAll; scale, round, store
    AIC    one round: cube 1, then, behind the vector, cube 3 and cube 2
           more: cube 1 of rounds 0 and 1, and from then on, for each round r: wait for the vector of r - 2, let it do
           r - 1, cube 3 and 2 of r - 2, cube 1 of r; the last two rounds drain in the same way

S and dP have two areas each in the workspace, by the round's parity. The vector waits for flag 2 and sets flag 3 in
every round, whether its core has blocks or not. Sums of the gradients are zeroed by the launch; here that is the AIVs'
first step, and the first sums are added behind a flag that an AIV sets behind SyncAll.
Source: ascend-transformer-boost, laser_attention_grad kernel: order, flags, places.
"""

from dataclasses import dataclass

from ascendsim.dtypes import BFLOAT16, HALF
from ascendsim.memory import GlobalTensor
from ascendsim.op_host.lag_blocks import BLOCK, BLOCKS_PER_CORE, Segment
from ascendsim.op_host.lag_kernel import AIV_PER_AIC, BLOCK_FLOATS, LagKernelTiling
from ascendsim.op_kernel.attention import tell, turns, wait_for, wrong_block_dim
from ascendsim.op_kernel.fag_passes import zero
from ascendsim.op_kernel.laser_cube import (
    AIV_ROWS,
    CubeBuffers,
    Rows,
    Scores,
    Turns,
    column_sums,
    end_cube,
    init_cube,
    line_sums,
    score_blocks,
)
from ascendsim.op_kernel.laser_passes import Heads, Sums, post, transpose_back, transpose_in
from ascendsim.op_kernel.laser_vector import MaskForm, Places, block_at, block_tiles, end_line, line_terms
from ascendsim.record import AiCore
from ascendsim.terms import Pipe, TPosition

SCORES_ARE_THERE = 2
"""Flag of the AIC: the vector may do a round."""
TILES_ARE_THERE = 3
"""Flag of the AIVs: P and dS of a round are in GM; for SBH, before all rounds, the copies are."""
AREAS = 2
"""Areas of S and of dP."""
PART = 128
"""Columns of dQ and dK that are made at a time."""


@dataclass(frozen=True, slots=True)
class LaserTensors:
    """GM tensors; those that a call may leave out are None. dpse is never written, softmax_in never read."""

    query: GlobalTensor
    key: GlobalTensor
    value: GlobalTensor
    attention_out_grad: GlobalTensor
    softmax_max: GlobalTensor
    softmax_sum: GlobalTensor
    attention_in: GlobalTensor
    query_grad: GlobalTensor
    key_grad: GlobalTensor
    value_grad: GlobalTensor
    workspace: GlobalTensor
    atten_mask: GlobalTensor | None = None
    softmax_in: GlobalTensor | None = None
    dpse: GlobalTensor | None = None


@dataclass(frozen=True, slots=True)
class Operands:
    """Q, K, V, O and dO as [B,N,S,D]: the tensors, or for layout SBH their copies in the workspace."""

    query: GlobalTensor
    key: GlobalTensor
    value: GlobalTensor
    out: GlobalTensor
    d_out: GlobalTensor


def laser_attention_grad(asc: AiCore, *arguments: GlobalTensor | LagKernelTiling) -> None:
    """Run on one core.

    Args:
        asc: the core.
        arguments: the tensors that the tiling names, then the tiling.

    Raises:
        KernelError: block_dim is not the tiling's.
    """
    *given, t = arguments
    assert isinstance(t, LagKernelTiling)
    gm = LaserTensors(**{name: x for name, x in zip(t.names, given, strict=True) if isinstance(x, GlobalTensor)})
    if asc.get_block_num() != t.block_dim:
        raise asc.fail(wrong_block_dim(asc, t.block_dim, "blocks"))
    operands = _operands(gm, t)
    if asc.is_aic:
        _Cube(asc, gm, operands, t).run()
    else:
        _vector(asc, gm, operands, t)


def _operands(gm: LaserTensors, t: LagKernelTiling) -> Operands:
    if t.call.layout == "BNSD":
        return Operands(gm.query, gm.key, gm.value, gm.attention_in, gm.attention_out_grad)
    copies, at = gm.workspace.reinterpret_cast(BFLOAT16), t.areas
    return Operands(*(copies[begin] for begin in (at.q_copy, at.k_copy, at.v_copy, at.o_copy, at.d_o_copy)))


def _area_at(area: int, turn: int, core: int, t: LagKernelTiling) -> int:
    """Return where a core's blocks of a round begin [floats]."""
    return area + (turn % AREAS * t.blocks.cores + core) * BLOCKS_PER_CORE * BLOCK_FLOATS


def _kv_row(segment: Segment, t: LagKernelTiling) -> int:
    """Return the row of all keys at which a segment's first column begins."""
    call = t.call
    head = segment.batch * call.Nkv + segment.head // call.head_group_size
    return head * call.Skv + segment.column * BLOCK


def _q_row(segment: Segment, t: LagKernelTiling) -> int:
    """Return the row of all queries at which a segment's first line begins."""
    return (segment.batch * t.call.Nq + segment.head) * t.call.Sq + segment.row * BLOCK


# ---- AIC -------------------------------------------------------------------------------------------------------------


class _Cube:
    """An AIC: its rounds, and whose turn it is in L1 and L0."""

    def __init__(self, asc: AiCore, gm: LaserTensors, operands: Operands, t: LagKernelTiling) -> None:
        self.asc, self.gm, self.operands, self.t = asc, gm, operands, t
        self.core = asc.get_block_idx()
        self.turns = Turns()
        self.buffers: CubeBuffers = init_cube(asc, asc.t_pipe())

    def run(self) -> None:
        """Run all rounds; the last two are drained behind the others."""
        rounds = self.t.blocks.rounds
        if self.t.call.layout == "SBH":
            wait_for(self.asc, TILES_ARE_THERE)
        for begun, back in turns(rounds, AREAS):
            if back is not None:
                wait_for(self.asc, TILES_ARE_THERE)
                if back + 1 < rounds:
                    self._let()
                self._gradients(back)
            if begun is not None:
                self._scores(begun)
            if begun == 0:
                self._let()
        end_cube(self.asc)
        self.asc.sync_all(is_aiv_only=False)

    def _let(self) -> None:
        """Let the vector do its next round."""
        tell(self.asc, Pipe.FIX, SCORES_ARE_THERE)

    def _scores(self, turn: int) -> None:
        """Cube 1: S of all segments, then dP."""
        call, operands, areas = self.t.call, self.operands, self.t.areas
        depths = (PART,) if call.Dq == PART else (PART, call.Dq - PART)
        for name, left, right, area, parts, width in (
            ("S", operands.query, operands.key, areas.scores, depths, call.Dk),
            ("dP", operands.d_out, operands.value, areas.d_p, (PART,), call.Dv),
        ):
            with self.asc.trace(name):
                for segment in self.t.blocks.segments(turn, self.core):
                    self._score_segment(segment, turn, left, right, area, parts, width)

    def _score_segment(
        self,
        segment: Segment,
        turn: int,
        left: GlobalTensor,
        right: GlobalTensor,
        area: int,
        depths: tuple[int, ...],
        width: int,
    ) -> None:
        if not segment.computed_blocks:
            return
        size = sum(depths)
        lines = Rows(left[_q_row(segment, self.t) * size], size, size)
        columns = Rows(right[_kv_row(segment, self.t) * width], width, width)
        out = Scores(self._slot(area, turn, segment), segment)
        self.turns = score_blocks(self.asc, lines, columns, out, self.buffers, self.turns, depths)

    def _slot(self, area: int, turn: int, segment: Segment) -> GlobalTensor:
        at = _area_at(area, turn, self.core, self.t) + segment.slot * BLOCK_FLOATS
        return self.gm.workspace[at]

    def _gradients(self, turn: int) -> None:
        """Cube 3, dV and then dK, and cube 2, dQ."""
        call, operands, areas, workspace = self.t.call, self.operands, self.t.areas, self.gm.workspace
        segments = [one for one in self.t.blocks.segments(turn, self.core) if one.computed_blocks]
        parts = [(at, min(PART, call.Dq - at)) for at in range(0, call.Dq, PART)]
        with self.asc.trace("dV"):
            sums = workspace[areas.dv]
            self._columns(segments, turn, areas.scores, operands.d_out, sums, (0, PART), call.Dv, call.Dv)
        with self.asc.trace("dK"):
            for part in parts:
                sums = workspace[areas.dk]
                self._columns(segments, turn, areas.d_p, operands.query, sums, part, call.Dq, call.Dk)
        with self.asc.trace("dQ"):
            for part in parts:
                self._lines(segments, turn, part)

    def _columns(
        self,
        segments: list[Segment],
        turn: int,
        area: int,
        right: GlobalTensor,
        sums: GlobalTensor,
        part: tuple[int, int],
        pitch: int,
        out_pitch: int,
    ) -> None:
        first, columns = part
        for segment in segments:
            left = Scores(self._slot(area, turn, segment).reinterpret_cast(BFLOAT16), segment)
            rows = Rows(right[_q_row(segment, self.t) * pitch + first], columns, pitch)
            out = Rows(sums[_kv_row(segment, self.t) * out_pitch + first], columns, out_pitch)
            self.turns = column_sums(self.asc, left, rows, out, self.buffers, self.turns)

    def _lines(self, segments: list[Segment], turn: int, part: tuple[int, int]) -> None:
        call, areas, (first, columns) = self.t.call, self.t.areas, part
        sums = self.gm.workspace[areas.dq]
        for segment in segments:
            left = Scores(self._slot(areas.d_p, turn, segment).reinterpret_cast(BFLOAT16), segment)
            keys = Rows(self.operands.key[_kv_row(segment, self.t) * call.Dk + first], columns, call.Dk)
            out = Rows(sums[_q_row(segment, self.t) * call.Dq + first], columns, call.Dq)
            self.turns = line_sums(self.asc, left, keys, out, self.buffers, self.turns)


# ---- AIV -------------------------------------------------------------------------------------------------------------


def _vector(asc: AiCore, gm: LaserTensors, operands: Operands, t: LagKernelTiling) -> None:
    buffer = asc.t_buf(TPosition.VECCALC, "ub")
    asc.t_pipe().init_buffer(buffer, 1, t.ub_bytes)
    areas = t.areas
    zero(asc, (gm.workspace[areas.dq], gm.workspace[areas.dk], gm.workspace[areas.dv]), t.sum_counts, buffer, t.memset)
    asc.pipe_barrier(Pipe.ALL)
    if t.call.layout == "SBH":
        transpose_in(asc, _moved(gm, operands, t), buffer, t)
    asc.sync_all()
    if t.call.layout == "SBH":
        tell(asc, Pipe.MTE3, TILES_ARE_THERE)
    ub = Places(buffer)
    for turn in range(t.blocks.rounds):
        wait_for(asc, SCORES_ARE_THERE)
        for segment in t.blocks.segments(turn, asc.get_block_idx() // AIV_PER_AIC):
            _segment(asc, gm, operands, segment, turn, ub, t)
        tell(asc, Pipe.MTE3, TILES_ARE_THERE)
    asc.sync_all(is_aiv_only=False)
    gradients = (
        Sums(areas.dq, gm.query_grad, t.call.scale),
        Sums(areas.dk, gm.key_grad, t.call.scale),
        Sums(areas.dv, gm.value_grad, None),
    )
    if t.call.layout == "SBH":
        transpose_back(asc, tuple(zip(gradients, _heads(t), strict=True)), gm.workspace, buffer, t)
    else:
        post(asc, gradients, gm.workspace, buffer, t)


def _heads(t: LagKernelTiling) -> tuple[Heads, Heads, Heads]:
    """Return query, key and value as heads."""
    call = t.call
    return (
        Heads(call.B, call.Nq, call.Sq, call.Dq),
        Heads(call.B, call.Nkv, call.Skv, call.Dk),
        Heads(call.B, call.Nkv, call.Skv, call.Dv),
    )


def _moved(
    gm: LaserTensors, operands: Operands, t: LagKernelTiling
) -> tuple[tuple[GlobalTensor, GlobalTensor, Heads], ...]:
    query, key, value = _heads(t)
    out = Heads(t.call.B, t.call.Nq, t.call.Sq, t.call.Dv)
    return (
        (gm.query, operands.query, query),
        (gm.key, operands.key, key),
        (gm.value, operands.value, value),
        (gm.attention_in, operands.out, out),
        (gm.attention_out_grad, operands.d_out, out),
    )


def _segment(
    asc: AiCore, gm: LaserTensors, operands: Operands, segment: Segment, turn: int, ub: Places, t: LagKernelTiling
) -> None:
    """Make P and dS of this AIV's rows of a segment, line by line."""
    core, half = asc.get_block_idx() // AIV_PER_AIC, asc.get_sub_block_idx()
    scores, d_p = (gm.workspace[_area_at(area, turn, core, t)] for area in (t.areas.scores, t.areas.d_p))
    form = MaskForm(BFLOAT16 if t.vendor_quirks else HALF, t.tiling.mask_seq_length)
    corner = _corner(gm, half * AIV_ROWS * form.pitch, t)
    for line in range(segment.lines):
        if not segment.computed(line):
            continue
        row = _q_row(segment, t) + line * BLOCK + half * AIV_ROWS
        at = row * t.call.Dv
        line_terms(asc, operands.out[at], operands.d_out[at], gm.softmax_max[row], gm.softmax_sum[row], ub)
        for index in range(segment.computed(line)):
            block = segment.block(line, index)
            place = block_at(block, half)
            diagonal = corner if block.has_diagonal else None
            left_edge = corner[1] if corner and block.has_left_edge else None
            block_tiles(asc, scores[place], d_p[place], diagonal, left_edge, ub, form, t.call.scale)
        end_line(asc)


def _corner(gm: LaserTensors, at: int, t: LagKernelTiling) -> GlobalTensor | None:
    """Return the mask's first block from a row on, which serves every block at an edge; None without a mask."""
    if gm.atten_mask is None:
        return None
    mask = gm.atten_mask.reinterpret_cast(BFLOAT16) if t.vendor_quirks else gm.atten_mask
    return mask[at]
