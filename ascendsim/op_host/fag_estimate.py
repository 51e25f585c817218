"""How long FlashAttentionScoreGrad takes, from a device's figures: per block, per phase and in all. No simulation.

A block is done in three stages: cube 1 (dA, then S), vector, cube 2 (dQ, dK, dV). They overlap, so on the busiest core

    main phase = sum of the periods of its blocks + head and tail: what nothing overlaps of the largest block

    period = max(cube 1 + cube 2, vector, memory)
        where an AIC works a block ahead of its AIVs: SameAB, basic_tnd, S1s2Bn2 in its L1-custom form
    period = max(2 * (cube 1 + cube 2), cube 1 + vector, memory)
        where two AIVs with blocks of their own share an AIC: the others

Approximations, and which way each errs:

* Fast: no bank conflicts of two-source vector instructions (up to twice the time of Sub, Mul, Div, Select); each
  operand of a product is read once from GM, and from L2, but for the row term and a first reading of all inputs from
  HBM; full rate whatever the alignment; no start of a transfer, no scalar work, no launch; SyncAll is two cross-core
  flags; atomic additions cost what plain stores do.
* Slow: each Mmad pays its whole start; each vector instruction pays start and drain, none streams; a block
  that the band cuts takes its mask everywhere; all cores that work share GM evenly all the time; what S1s2Bn2 scales
  and casts in its main loop counts as a phase of its own.
* Either: softmax counts as Sub, Exp, Div of the whole tile.

Source: order of stages and instructions from ops-transformer op_kernel of the operator; rates from the device file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ascendsim.device import Device
from ascendsim.dtypes import FLOAT
from ascendsim.op_host.estimates import MATMULS, Phase, instruction_cycles, pass_phase, product_cycles, rate, score_flop
from ascendsim.op_host.fag_call import COMPRESSED_MASK_MODES, CUBE, FagCall
from ascendsim.op_host.fag_dealing import AIV_PER_AIC, Dealing, Group, shares, vector_step
from ascendsim.op_host.fag_result import FagTiling
from ascendsim.op_host.fag_workspace import FLOAT_BYTES
from ascendsim.op_host.matmul_base import BaseBlock
from ascendsim.terms import DATABLOCK_BYTES, REPEAT_BYTES, CoreKind, align_up, ceil_div

_LANES = REPEAT_BYTES // FLOAT_BYTES
_MASK_LANES = 128
"""Masks are compared as half."""


@dataclass(frozen=True, slots=True)
class Stages:
    """Cycles of one block.

    Attributes:
        cube_1, vector, cube_2: the stages; vector is the slower of two AIVs that share the block.
        memory: the path that takes longest.
        path: that path.
        period: from one block to the next of the same core.
        binds: what the period is.
    """

    cube_1: int
    vector: int
    cube_2: int
    memory: int
    path: str
    period: int
    binds: str

    @property
    def alone(self) -> int:
        """Cycles of a block that nothing overlaps."""
        return self.cube_1 + self.vector + self.cube_2


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate.

    Attributes:
        rows, columns, heads: of the largest block.
        block: its stages.
        phases: in their order.
        head_tail_cycles: of the main phase, what does not overlap, cross-core flags included.
        flop: 5 products of the scores in all blocks; left-out blocks do not count.
        cycles: of all phases.
        us: the same.
    """

    rows: int
    columns: int
    heads: int
    block: Stages
    phases: tuple[Phase, ...]
    head_tail_cycles: int
    flop: int
    cycles: int
    us: float

    @property
    def tflops(self) -> float:
        """10^12 floating-point operations a second."""
        return self.flop / self.us / 1e6


FLOP_CONVENTION: Final = (
    f"{MATMULS} products, 2 * scores * (3 D + 2 Dv); hidden scores inside a block count, skipped blocks do not"
)


def flop_per_score(call: FagCall) -> int:
    """Return the floating-point operations of a score in the five products, head sizes as the kernel gets them."""
    return score_flop(call.shape.d, call.shape.dv)


def estimate(call: FagCall, tiling: FagTiling, dealt: Dealing, device: Device) -> Estimate:
    """Return the estimate.

    Args:
        call: as the kernel gets it.
        tiling: of it, not refused.
        dealt: its blocks, at least one.
        device: the part.
    """
    model = _Model(call, tiling, dealt, device)
    group = max((run.group for run in dealt.runs if len(run.group)), key=lambda g: int(g.scores.max()))
    largest = int(np.argmax(group.scores))
    rows, columns, heads, is_edge = (
        int(array[largest]) for array in (group.rows, group.columns, group.heads, group.is_edge)
    )
    block = model.stages(rows, columns, heads, is_edge)
    busiest = float(dealt.per_core(model.periods).max())
    flags = 2 * device.sync.cross_core_cycles.value
    head_tail = max(0, block.alone - block.period) + flags
    least = model.input_bytes / device.link_bytes_per_cycle("hbm_read")
    main = Phase("main", ceil(max(busiest + head_tail, least)), block.binds if least < busiest else "inputs from HBM")
    phases = (*model.before(), main, *model.behind())
    cycles = sum(phase.cycles for phase in phases) + flags * (len(phases) - 1)
    flop = dealt.scores * flop_per_score(call)
    return Estimate(rows, columns, heads, block, phases, head_tail, flop, cycles, device.microseconds(cycles))


class _Model:
    """What a block and the passes around cost, for one call on one device."""

    def __init__(self, call: FagCall, tiling: FagTiling, dealt: Dealing, device: Device) -> None:
        self.call, self.tiling, self.dealt, self.device = call, tiling, dealt, device
        self.element = call.params.element
        self.is_ahead = dealt.kind is CoreKind.AIC
        self._working = min(dealt.cores, max(1, dealt.count))
        self._known: dict[tuple[int, ...], Stages] = {}

    # --- blocks ---

    def periods(self, group: Group) -> NDArray[np.float64]:
        """Return the period of each block of a group."""
        sizes = (group.rows, group.columns, group.heads, group.is_edge)
        key = np.zeros(len(group), np.int64)
        for array in sizes:  # one number for each size: numpy finds equal numbers faster than equal rows
            key = key * (int(array.max(initial=0)) + 1) + array
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        kinds = zip(*(array[first].tolist() for array in sizes), strict=True)
        cycles = np.array([self.stages(*kind).period for kind in kinds], np.float64)
        return np.asarray(cycles[which.reshape(-1)])

    def stages(self, rows: int, columns: int, heads: int, is_edge: int) -> Stages:
        """Return the stages of a block of this size."""
        key = rows, columns, heads, is_edge
        if key not in self._known:
            self._known[key] = self._stages(*key)
        return self._known[key]

    def _stages(self, rows: int, columns: int, heads: int, is_edge: int) -> Stages:
        cube_1, cube_2 = (heads * cycles for cycles in self._cube(rows, columns))
        has_mask = self.call.mask is not None and (
            bool(is_edge) or self.call.params.sparse_mode not in COMPRESSED_MASK_MODES
        )
        vector = self._vector(rows, columns, heads, has_mask=has_mask)
        path, memory = max(self._memory(rows, columns, heads, has_mask).items(), key=lambda item: item[1])
        if self.is_ahead:
            bounds = {"cube 1 + cube 2": cube_1 + cube_2, "vector": vector, f"memory ({path})": memory}
        else:
            bounds = {
                "cube 1 + cube 2 of both AIVs": AIV_PER_AIC * (cube_1 + cube_2),
                "cube 1, then vector": cube_1 + vector,
                f"memory ({path})": memory,
            }
        binds, period = max(bounds.items(), key=lambda item: item[1])
        return Stages(cube_1, vector, cube_2, memory, path, period, binds)

    def _cube(self, rows: int, columns: int) -> tuple[int, int]:
        """Cycles of the products of one head, with the base blocks of the tiling; without any, 128 x 128 x D."""
        shape, cost = self.call.shape, self.device.cube["Mmad"][self.element.name]
        matmuls = self.tiling.matmuls
        plain = BaseBlock(128, 128, min(128, shape.d_aligned))
        scores, dq, dk_dv = (plain,) * 3 if matmuls is None else (matmuls.scores, matmuls.dq, matmuls.dk_dv)
        first = sum(product_cycles(rows, columns, d, scores, cost) for d in (shape.dv, shape.d))
        second = product_cycles(rows, shape.d, columns, dq, cost)
        second += sum(product_cycles(columns, d, rows, dk_dv, cost) for d in (shape.d, shape.dv))
        return first, second

    def _vector(self, rows: int, columns: int, heads: int, *, has_mask: bool) -> int:
        """Cycles of pipe V of the slower AIV."""
        if self.tiling.split is not None:  # whole heads in passes of some
            width = self.tiling.split.s2_aligned
            in_pass = min(self._heads_in_pass(), heads)
            passes = ceil_div(heads, in_pass)
            return passes * (self._sub_tile(rows * in_pass, width, has_mask) + self._row_term(rows * in_pass))
        parts = shares(rows, columns, self.dealt.cut, *vector_step(self.call, self.tiling, columns))
        unit = DATABLOCK_BYTES if self.call.mask is not None or self.call.has_drop else CUBE
        totals = [
            sum(count * self._sub_tile(r, align_up(w, unit), has_mask) for r, w, count in share.sizes())
            for share in parts
        ]
        own_row_term = self.tiling.row_term is None and self.tiling.template != "basic_tnd"
        return max(totals) + (self._row_term(rows // len(parts)) if own_row_term else 0)

    def _heads_in_pass(self) -> int:
        """Heads of one vector pass; template B counts batches."""
        split = self.tiling.split
        assert split is not None
        return split.units * (self.call.shape.n1 if split.axis == "batch" else 1)

    def _sub_tile(self, rows: int, width: int, has_mask: bool) -> int:
        """Steps A and B of a sub-tile with so many padded columns."""
        return sum(instruction_cycles(self.device, *step) for step in self._steps(rows * width, rows, has_mask))

    def _steps(self, elements: int, rows: int, has_mask: bool) -> Iterator[tuple[str, str, float]]:
        """Yield (family, types, repeats) of the instructions of a sub-tile."""
        repeats = elements / _LANES
        narrow = f"float->{self.element}"
        is_nz = self.tiling.tiles.is_score_nz
        moves = (("DataCopyUB", "b8", repeats), ("Copy", "b32", repeats)) if is_nz else ()
        drop = (("Select", "float", repeats), ("Muls", "float", repeats)) if self.call.has_drop else ()
        yield from moves
        if self.call.pse is not None:
            yield from (("Cast", f"{self.element}->float", repeats), ("Add", "float", repeats))
        yield "Muls", "float", repeats
        if has_mask:
            of_half = elements / _MASK_LANES
            yield from (("Duplicate", "b32", 1), ("SetCmpMask", "b8", 1))
            yield from (("Cast", "uint8_t->half", of_half), ("Compares", "half", of_half), ("Select", "float", repeats))
        yield from (("Sub", "float", repeats), ("Exp", "float", repeats), ("Div", "float", repeats))
        yield from drop
        if self.element is not FLOAT:
            yield from (("Cast", narrow, repeats), ("Cast", narrow, repeats))
        if is_nz:
            yield from (("Copy", "b16", repeats / 2), ("Copy", "b16", repeats / 2))
        yield from moves
        yield from drop
        yield from (("Sub", "float", max(repeats, rows)), ("Mul", "float", repeats))

    def _row_term(self, rows: int) -> int:
        """Sum of dY times O over D, for so many rows."""
        repeats = rows * self.call.shape.dv_aligned / _LANES
        steps = [("Mul", "float", repeats), ("Add", "float", repeats), ("BlockReduceSum", "float", rows / 8)]
        steps += [("BlockReduceSum", "float", rows / 8), ("Brcb", "b32", rows / 8)]
        if self.element is not FLOAT:
            steps += [("Cast", f"{self.element}->float", repeats)] * 2
        return sum(instruction_cycles(self.device, *step) for step in steps)

    # --- memory ---

    def _memory(self, rows: int, columns: int, heads: int, has_mask: bool) -> dict[str, int]:
        """Cycles of each path to GM for one block, the links shared by all cores that work."""
        shape, size = self.call.shape, self.call.element_bytes
        scores = rows * columns * heads
        operands = heads * size * (2 * rows * (shape.d + shape.dv) + columns * (2 * shape.d + shape.dv))
        cube_in = operands + scores * size * (3 if not self.tiling.tiles.is_l1_custom else 2)
        cube_out = 2 * scores * FLOAT_BYTES
        cube_out += heads * FLOAT_BYTES * (rows * shape.d + columns * (shape.d + shape.dv))
        bytes_a_score = int(has_mask) + self._pse_bytes() + (0 if not self.call.has_drop else 2)
        vector_in = scores * (2 * FLOAT_BYTES + bytes_a_score) + 3 * heads * rows * DATABLOCK_BYTES
        vector_out = 2 * scores * size
        halves = AIV_PER_AIC if self.is_ahead else 1
        alone = {name: rate(self.device, name) for name in ("gm_to_l1_hit", "l0c_to_gm", "gm_to_ub_hit", "ub_to_gm")}
        share = {name: self.device.link_bytes_per_cycle(name) / self._working for name in ("l2_read", "gm_write")}
        served = 1 if self.is_ahead else AIV_PER_AIC
        return {
            "reads from L2": ceil((cube_in + vector_in) / share["l2_read"]),
            "writes to GM": ceil((cube_out + vector_out) / share["gm_write"]),
            "MTE2 of the AIC": ceil(served * cube_in / alone["gm_to_l1_hit"]),
            "FIX": ceil(served * cube_out / alone["l0c_to_gm"]),
            "MTE2 of an AIV": ceil(vector_in / halves / alone["gm_to_ub_hit"]),
            "MTE3 of an AIV": ceil(vector_out / halves / alone["ub_to_gm"]),
        }

    def _pse_bytes(self) -> int:
        return 0 if self.call.pse is None else self.call.element_bytes

    @property
    def input_bytes(self) -> int:
        """Bytes of query, key, value and dy, each once."""
        shape, size = self.call.shape, self.call.element_bytes
        return size * (shape.d + shape.dv) * (shape.q_rows + shape.kv_rows)

    # --- the passes around ---

    def before(self) -> tuple[Phase, ...]:
        """Return pre and row term, as far as the tiling has them."""
        found = []
        pre, row_term = self.tiling.pre, self.tiling.row_term
        zeroed = 0 if pre is None else pre.cores * (pre.dq_elements + pre.dk_elements + pre.dv_elements)
        if pre is not None and (zeroed or pre.expands_mask):
            expanded = pre.cores * pre.mask_elements if pre.expands_mask else 0
            found.append(
                pass_phase(self.device, "pre", pre.cores, expanded / 8, zeroed * FLOAT_BYTES + expanded, 0, "hbm_read")
            )
        if row_term is not None:
            rows = self.call.shape.q_rows
            steps = ceil_div(row_term.rows_per_core, row_term.rows_per_step)
            vector = steps * self._row_term(min(row_term.rows_per_step, row_term.rows_per_core))
            read = 2 * rows * self.call.shape.dv * self.call.element_bytes
            found.append(
                pass_phase(self.device, "row term", row_term.cores, read, rows * DATABLOCK_BYTES, vector, "hbm_read"),
            )
        return tuple(found)

    def behind(self) -> tuple[Phase, ...]:
        """Return post, scaling and casting all sums."""
        post = self.tiling.post
        if post is None:
            return ()
        shape, has_dv = self.call.shape, self.tiling.offsets is not None and self.tiling.offsets.dv is not None
        elements = (shape.q_rows + shape.kv_rows) * shape.d + (shape.kv_rows * shape.dv if has_dv else 0)
        per_core = ceil_div(elements, post.cores)
        steps, repeats = ceil_div(per_core, post.step_elements), min(per_core, post.step_elements) / _LANES
        vector = steps * instruction_cycles(self.device, "Muls", "float", repeats)
        if self.element is not FLOAT:
            vector += steps * instruction_cycles(self.device, "Cast", f"float->{self.element}", repeats)
        read, written = elements * FLOAT_BYTES, elements * self.call.element_bytes
        return (pass_phase(self.device, "post", post.cores, read, written, vector, "l2_read"),)
