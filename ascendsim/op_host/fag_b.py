"""What the kernel of template B is given: places in UB, products of all heads of some batches, and who computes what.

Two input buffers, two work tiles, row term, maxima and sums, dropout mask, and temps: the areas are the host's, what
lies in which is inferred. dA and S come in NZ to the temps and go on into the work tiles as rows.

Source: ops-transformer op_kernel, flash_attention_score_grad bngs1s2_b.
"""

from ascendsim.op_host.fag_call import FagCall
from ascendsim.op_host.fag_map import main_ub
from ascendsim.op_host.fag_result import FagTiling
from ascendsim.op_host.fag_whole_heads import WholeHeadsTiling, WholeHeadsUb, drop_bytes, whole_heads_kernel
from ascendsim.terms import DATABLOCK_BYTES, align_up


def b_kernel(call: FagCall, tiling: FagTiling, names: tuple[str, ...]) -> WholeHeadsTiling:
    """Return what the kernel takes.

    Args:
        call: that template B took.
        tiling: of it.
        names: the GM tensors that the kernel is called with.

    Raises:
        InputError: what this kernel does not do yet.
    """
    assert tiling.split is not None
    return whole_heads_kernel(call, tiling, names, _places(call, tiling), tiling.split.cv_units * call.shape.n1)


def _places(call: FagCall, tiling: FagTiling) -> WholeHeadsUb:
    """Return the places; a dropout mask whose padded rows are longer than its area runs on into the temps."""
    assert tiling.split is not None
    at = {area.name: area.start_bytes for area in main_ub(call, tiling)}
    end = main_ub(call, tiling)[-1].end_bytes
    rows = tiling.split.units * call.shape.n1 * call.shape.s1
    statistics = at["max and sum"]
    temp = align_up(max(at["temp of API calls"], at["dropout mask"] + drop_bytes(call, rows)), DATABLOCK_BYTES)
    return WholeHeadsUb(
        rows_dy=at["input 2"],
        rows_out=at["input 1"],
        wide_dy=at["work tile 2"],
        wide_out=at["work tile 1"],
        partial=statistics,
        row_term=at["row term"],
        nz_d_a=temp,
        nz_scores=temp,
        d_a=at["work tile 1"],
        scores=at["work tile 2"],
        maxima=statistics,
        sums=statistics + rows * DATABLOCK_BYTES,
        bias=at["input 1"],
        mask=at["input 2"],
        drop=at["dropout mask"],
        temp=temp,
        temp_bytes=(end - temp) // DATABLOCK_BYTES * DATABLOCK_BYTES,
        end=end,
    )
