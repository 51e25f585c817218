"""What the LaserAttentionGrad kernel is given: the call, its tiling, and where areas of the workspace begin."""

from dataclasses import dataclass

from ascendsim.dtypes import BFLOAT16, FLOAT
from ascendsim.errors import Finding
from ascendsim.op_host.fag_result import PrePass
from ascendsim.op_host.lag_blocks import BLOCK, BLOCKS_PER_CORE, BlockMap
from ascendsim.op_host.lag_params import NARROW_D, WIDE_D, WIDE_KEY_D, LagCall
from ascendsim.op_host.lag_tiling import SYSTEM_BYTES, LagTiling, PostSplit
from ascendsim.terms import align_up, ceil_div

BLOCK_FLOATS = BLOCK * BLOCK
"""Elements of a block of S or dP."""
AIV_PER_AIC = 2
POST_BYTES = FLOAT.bytes + BFLOAT16.bytes
"""Of an element in UB in the pass behind."""
UB_BYTES = 180 * 1024
"""UB of the main phase: 164 KiB, and 16 KiB more for masks of the window."""
_ZERO_BYTES = 64 * 1024
_ZERO_UNIT = 64


@dataclass(frozen=True, slots=True)
class Areas:
    """Where areas of the workspace begin: sums, S and dP in floats, copies in 16-bit elements."""

    dq: int
    dk: int
    dv: int
    scores: int
    d_p: int
    q_copy: int
    k_copy: int
    v_copy: int
    o_copy: int
    d_o_copy: int


@dataclass(frozen=True, slots=True)
class LagKernelTiling:
    """What the kernel takes.

    Attributes:
        call: the call.
        tiling: of it.
        blocks: its blocks, the tiling's or in another order.
        areas: of the workspace.
        names: of the GM tensors, in the kernel's order.
        aivs: AIVs that run.
        vendor_quirks: the known defects of the original are there.
        workspace_bytes: of all.
        told: what to know of the call.
    """

    call: LagCall
    tiling: LagTiling
    blocks: BlockMap
    areas: Areas
    names: tuple[str, ...]
    aivs: int
    vendor_quirks: bool
    workspace_bytes: int
    told: tuple[Finding, ...]

    @property
    def block_dim(self) -> int:
        """AI Cores to launch."""
        return self.tiling.block_dim

    @property
    def sum_counts(self) -> tuple[int, int, int]:
        """Floats of the sums of dQ, dK and dV."""
        return self.tiling.dq_elems, self.tiling.dk_elems, self.tiling.dv_elems

    @property
    def ub_bytes(self) -> int:
        """UB that the kernel takes: the main phase's, or two steps of the pass behind."""
        return max(UB_BYTES, 2 * self.tiling.post_base_num * POST_BYTES)

    @property
    def memset(self) -> PrePass:
        """Clearing of the sums, dealt to AIVs: the launch does it, here the kernel's own first step."""
        dq, dk, dv = (align_up(ceil_div(count, self.aivs), _ZERO_UNIT) for count in self.sum_counts)
        return PrePass(
            cores=self.aivs,
            dq_elements=dq,
            dk_elements=dk,
            dv_elements=dv,
            expands_mask=False,
            mask_elements=0,
            mask_step_elements=0,
            in_bytes=0,
            cast_bytes=0,
            out_bytes=_ZERO_BYTES,
        )

    @property
    def post(self) -> tuple[PostSplit, PostSplit, PostSplit]:
        """How the pass behind deals dQ, dK and dV; the original takes the number of front cores of dQ elsewhere."""
        tiling = self.tiling
        dq = tiling.post_dq
        if self.vendor_quirks:
            dq = PostSplit(tiling.post_base_num, dq.front_data, dq.tail_data)
        return dq, tiling.post_dk, tiling.post_dv


def lag_kernel(
    call: LagCall,
    tiling: LagTiling,
    blocks: BlockMap,
    names: tuple[str, ...],
    aivs: int,
    told: tuple[Finding, ...],
    *,
    vendor_quirks: bool,
) -> LagKernelTiling:
    """Return what the kernel takes.

    Args:
        call: the call.
        tiling: of it.
        blocks: its blocks.
        names: GM tensors that the kernel is called with.
        aivs: of the part.
        told: what to know of the call.
        vendor_quirks: with the known defects of the original.
    """
    launched = aivs * tiling.block_dim // tiling.td_block_dim
    return LagKernelTiling(
        call, tiling, blocks, areas_of(call, tiling), names, launched, vendor_quirks, tiling.workspace_bytes, told
    )


def areas_of(call: LagCall, tiling: LagTiling) -> Areas:
    """Return where areas begin; dP and the copies go by the AICs that the chip reports, launched or not."""
    area = 2 * tiling.td_block_dim * BLOCKS_PER_CORE * BLOCK_FLOATS
    dq = SYSTEM_BYTES // FLOAT.bytes
    dk = dq + tiling.dq_elems
    dv = dk + tiling.dk_elems
    scores = dv + tiling.dv_elems
    d_p = scores + area
    q_copy = (d_p + area) * FLOAT.bytes // BFLOAT16.bytes
    query, key = call.B * call.Nq * call.Sq, call.B * call.Nkv * call.Skv
    k_copy = q_copy + query * WIDE_D
    v_copy = k_copy + key * WIDE_KEY_D
    o_copy = v_copy + key * NARROW_D
    return Areas(dq, dk, dv, scores, d_p, q_copy, k_copy, v_copy, o_copy, o_copy + query * NARROW_D)
