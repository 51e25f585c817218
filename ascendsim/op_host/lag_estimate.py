"""How long LaserAttentionGrad takes, from a device's figures: per round of a core, per phase and in all. No simulation.

In a round a core does up to 16 blocks of 128 x 128 in the stages cube 1 (S, dP), vector (P, dS), cube 3 (dV, dK) and
cube 2 (dQ). The AIC is two rounds ahead of what it takes back, so stages of neighbouring rounds overlap, and on the
busiest core

    main phase = sum over its rounds of max(cube 1 + cube 3 + cube 2, vector, memory)
                 + head and tail: what nothing overlaps of the fullest round

Approximations, and which way each errs:

* Fast: no bank conflicts; a block of a product is read from L2; no start of a transfer, no scalar work, no launch;
  atomic additions cost what plain stores do; a round is never held up by another that takes longer.
* Slow: each vector instruction pays start and drain, none streams; all cores that work share GM evenly all the time.
* Either: clearing the workspace counts as stores of all AIVs, although the launch does it; transposes of layout SBH
  count as reads and writes alone.

Source: ascend-transformer-boost, laser_attention_grad kernel (order of stages, instructions); rates from the device
file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Final

from ascendsim.device import CubeCost, Device
from ascendsim.dtypes import BFLOAT16, FLOAT
from ascendsim.op_host.estimates import Phase, instruction_cycles, pass_phase, product_cycles, rate, score_flop
from ascendsim.op_host.lag_blocks import BLOCK, BlockMap, Segment
from ascendsim.op_host.lag_params import WIDE_D, LagCall
from ascendsim.op_host.lag_tiling import LagTiling
from ascendsim.op_host.matmul_base import BaseBlock
from ascendsim.terms import REPEAT_BYTES

_BASE: Final = BaseBlock(BLOCK, BLOCK, BLOCK)
"""Rows, columns and depth of one Mmad."""
_HALF_REPEATS: Final = 64
"""Repeats of an instruction over half of an AIV's share of a block: 32 x 128 floats."""
_COLUMN_REPEATS: Final = 32
"""Repeats of one over 64 columns of it."""
_HALVES: Final = 2
_AIVS: Final = 2
"""AIVs that share a block, half of its rows each."""
_ROW_STATISTICS: Final = 8
"""Bytes of a row's largest score and sum."""
_SPREAD: Final = f"{BFLOAT16}->float"
_NARROW: Final = f"float->{BFLOAT16}"


@dataclass(frozen=True, slots=True)
class RoundStages:
    """Cycles of a core's round.

    Attributes:
        cube_1, vector, cube_3, cube_2: the stages; vector of one AIV, they are alike.
        memory: the path that takes longest.
        path: that path.
        period: from one round to the next.
        binds: what the period is.
    """

    cube_1: int
    vector: int
    cube_3: int
    cube_2: int
    memory: int
    path: str
    period: int
    binds: str

    @property
    def alone(self) -> int:
        """Cycles of a round that nothing overlaps."""
        return self.cube_1 + self.vector + self.cube_3 + self.cube_2


@dataclass(frozen=True, slots=True)
class LagEstimate:
    """The estimate.

    Attributes:
        blocks: computed in the fullest round of a core.
        block_vector: cycles of an AIV for its half of a block that has no mask.
        round: stages of that round.
        phases: in their order.
        head_tail_cycles: of the main phase, what does not overlap, cross-core flags included.
        flop: the five products of all blocks that are computed.
        cycles: of all phases.
        us: the same.
    """

    blocks: int
    block_vector: int
    round: RoundStages
    phases: tuple[Phase, ...]
    head_tail_cycles: int
    flop: int
    cycles: int
    us: float

    @property
    def tflops(self) -> float:
        """10^12 floating-point operations a second."""
        return self.flop / self.us / 1e6


def lag_estimate(call: LagCall, tiling: LagTiling, blocks: BlockMap, device: Device) -> LagEstimate:
    """Return the estimate.

    Args:
        call: as the kernel gets it.
        tiling: of it.
        blocks: its blocks, the tiling's or in another order.
        device: the part.
    """
    model = _Model(call, tiling, blocks, device)
    busiest = float(blocks.per_core(lambda segments: model.stages(segments).period).max())
    fullest = max(
        (blocks.chunk(number) for number in range(min(blocks.period, blocks.chunks))),
        key=lambda segments: model.stages(segments).period,
    )
    stages = model.stages(fullest)
    flags = 2 * device.sync.cross_core_cycles.value
    head_tail = max(0, stages.alone - stages.period) + flags
    main = Phase("main", ceil(busiest + head_tail), stages.binds)
    phases = (*model.before(), main, model.behind())
    cycles = sum(phase.cycles for phase in phases) + flags * (len(phases) - 1)
    computed = int(blocks.per_core(computed_blocks).sum())
    return LagEstimate(
        blocks=computed_blocks(fullest),
        block_vector=model.block_vector,
        round=stages,
        phases=phases,
        head_tail_cycles=head_tail,
        flop=computed * flop_per_block(call),
        cycles=cycles,
        us=device.microseconds(cycles),
    )


def computed_blocks(segments: tuple[Segment, ...]) -> int:
    """Return how many blocks of some segments are computed."""
    return sum(segment.computed_blocks for segment in segments)


def flop_per_block(call: LagCall) -> int:
    """Return the floating-point operations of a block in the five products; of a wide key 192 columns are read."""
    return BLOCK * BLOCK * score_flop(call.Dq, call.Dv)


class _Model:
    """What rounds and passes cost, for one call on one device."""

    def __init__(self, call: LagCall, tiling: LagTiling, blocks: BlockMap, device: Device) -> None:
        self.call, self.tiling, self.device = call, tiling, device
        self._working = min(blocks.cores, blocks.chunks)
        self._known: dict[tuple[int, ...], RoundStages] = {}
        self._rates = {name: rate(device, name) for name in ("gm_to_l1_hit", "l0c_to_gm", "gm_to_ub_hit", "ub_to_gm")}
        links = ("l2_read", "gm_write")
        self._shares = {name: device.link_bytes_per_cycle(name) / self._working for name in links}
        cost = device.cube["Mmad"][BFLOAT16.name]
        self._cube_1 = self._mmad(cost, BLOCK, call.Dq) + self._mmad(cost, BLOCK, call.Dv)
        self._cube_3 = self._mmad(cost, call.Dv, BLOCK) + self._mmad(cost, call.Dq, BLOCK)
        self._cube_2 = self._mmad(cost, call.Dq, BLOCK)
        self.block_vector = _HALVES * self._sum((*self._score_half(), *self._gradient_half()))
        self._mask_vector = _HALVES * self._sum(self._mask_half())
        self._edge_vector = self._mask_vector + _HALVES * self._sum(self._inverted_half())
        self._line_vector = self._sum(self._row_term())

    # --- rounds ---

    def stages(self, segments: tuple[Segment, ...]) -> RoundStages:
        """Return the stages of a round with these segments."""
        counts = (
            sum(segment.computed_blocks for segment in segments),
            sum(segment.computed_columns for segment in segments),
            sum(segment.lines for segment in segments),
            sum(segment.diagonals for segment in segments),
            sum(segment.left_edges for segment in segments),
        )
        if counts not in self._known:
            self._known[counts] = self._stages(*counts)
        return self._known[counts]

    def _stages(self, blocks: int, columns: int, lines: int, diagonals: int, left_edges: int) -> RoundStages:
        cube_1, cube_3, cube_2 = blocks * self._cube_1, blocks * self._cube_3, blocks * self._cube_2
        vector = blocks * self.block_vector + lines * self._line_vector
        vector += diagonals * self._mask_vector + left_edges * self._edge_vector
        paths = self._memory(blocks, columns, lines, diagonals + left_edges)
        path, memory = max(paths.items(), key=lambda item: item[1])
        bounds = {"cube 1 + cube 3 + cube 2": cube_1 + cube_3 + cube_2, "vector": vector, f"memory ({path})": memory}
        binds, period = max(bounds.items(), key=lambda item: item[1])
        return RoundStages(cube_1, vector, cube_3, cube_2, memory, path, period, binds)

    @staticmethod
    def _mmad(cost: CubeCost, columns: int, depth: int) -> int:
        return product_cycles(BLOCK, columns, depth, _BASE, cost)

    def _sum(self, steps: tuple[tuple[str, str, float], ...]) -> int:
        return sum(instruction_cycles(self.device, *step) for step in steps)

    # --- vector: (family, types, repeats) of an AIV's instructions ---

    @staticmethod
    def _score_half() -> tuple[tuple[str, str, float], ...]:
        return (
            ("Muls", "float", _HALF_REPEATS),
            *(("Sub", "float", _COLUMN_REPEATS),) * 2,
            ("Exp", "float", _HALF_REPEATS),
            ("Cast", _NARROW, _HALF_REPEATS),
        )

    @staticmethod
    def _gradient_half() -> tuple[tuple[str, str, float], ...]:
        return (
            *(("Sub", "float", _COLUMN_REPEATS),) * 2,
            ("Mul", "float", _HALF_REPEATS),
            ("Cast", _NARROW, _HALF_REPEATS),
        )

    @staticmethod
    def _mask_half() -> tuple[tuple[str, str, float], ...]:
        return (
            ("Cast", "half->float", _HALF_REPEATS),
            ("Muls", "float", _HALF_REPEATS),
            ("Add", "float", _HALF_REPEATS),
        )

    @staticmethod
    def _inverted_half() -> tuple[tuple[str, str, float], ...]:
        return (("Muls", "float", _HALF_REPEATS), ("Adds", "float", _HALF_REPEATS))

    @staticmethod
    def _row_term() -> tuple[tuple[str, str, float], ...]:
        half = (
            *(("Cast", _SPREAD, _HALF_REPEATS),) * 2,
            ("Mul", "float", _HALF_REPEATS),
            *(("Add", "float", _COLUMN_REPEATS),) * 4,
            ("BlockReduceSum", "float", 8),
        )
        of_rows = (("Brcb", "b32", 8), ("Ln", "float", 1), ("Add", "float", 1), ("Brcb", "b32", 8))
        return (*half * _HALVES, *of_rows)

    # --- memory ---

    def _memory(self, blocks: int, columns: int, lines: int, masked: int) -> dict[str, int]:
        """Cycles of each path to GM for a round, the links shared by all cores that work."""
        call, scores = self.call, blocks * BLOCK * BLOCK
        rows = (2 * (call.Dq + call.Dv) * lines + (2 * call.Dk + call.Dv) * columns) * BLOCK
        cube_in = BFLOAT16.bytes * (rows + 3 * scores)
        sums = columns * (call.Dq + call.Dv) + lines * call.Dq
        cube_out = FLOAT.bytes * (2 * scores + BLOCK * sums)
        of_rows = lines * BLOCK * (2 * BFLOAT16.bytes * call.Dv + _ROW_STATISTICS)
        vector_in = 2 * FLOAT.bytes * scores + of_rows + masked * BFLOAT16.bytes * BLOCK * BLOCK
        vector_out = 2 * BFLOAT16.bytes * scores
        return {
            "reads from L2": ceil((cube_in + vector_in) / self._shares["l2_read"]),
            "writes to GM": ceil((cube_out + vector_out) / self._shares["gm_write"]),
            "MTE2 of the AIC": ceil(cube_in / self._rates["gm_to_l1_hit"]),
            "FIX": ceil(cube_out / self._rates["l0c_to_gm"]),
            "MTE2 of an AIV": ceil(vector_in / _AIVS / self._rates["gm_to_ub_hit"]),
            "MTE3 of an AIV": ceil(vector_out / _AIVS / self._rates["ub_to_gm"]),
        }

    # --- the passes around ---

    def before(self) -> Iterator[Phase]:
        """Yield clearing the workspace and, for layout SBH, transposing the inputs."""
        aivs = self.device.aiv
        yield pass_phase(self.device, "memset", aivs, 0, self.tiling.memset_bytes, 0, "hbm_read")
        if self.call.layout == "SBH":
            call = self.call
            rows = call.B * call.Nq * call.Sq
            moved = BFLOAT16.bytes * (rows * (WIDE_D + 2 * call.Dv) + call.k_elements + call.v_elements)
            yield pass_phase(self.device, "transpose in", aivs, moved, moved, 0, "hbm_read")

    def behind(self) -> Phase:
        """Return what scales the sums and casts them, for layout SBH transposing them, too."""
        tiling, aivs = self.tiling, self.device.aiv
        elements = tiling.dq_elems + tiling.dk_elems + tiling.dv_elems
        repeats = elements / aivs / (REPEAT_BYTES // FLOAT.bytes)
        vector = self._sum((("Muls", "float", repeats), ("Cast", _NARROW, repeats)))
        name = "transpose back" if self.call.layout == "SBH" else "post"
        read, written = elements * FLOAT.bytes, elements * BFLOAT16.bytes
        return pass_phase(self.device, name, aivs, read, written, vector, "l2_read")
