"""What the kernel of template N is given: places in UB, the products of some heads of a batch, and who computes what.

Two queues of rows, one of masks, two work tiles, where D is cut a cast buffer, and temps: the areas are the host's,
what lies in which is inferred. dA and S come in NZ to the queues and go on into the work tiles as rows.

Source: ops-transformer op_kernel, flash_attention_score_grad ngs1s2_bn.
"""

from ascendsim.op_host.fag_call import FagCall
from ascendsim.op_host.fag_map import main_ub
from ascendsim.op_host.fag_result import FagTiling
from ascendsim.op_host.fag_whole_heads import WholeHeadsTiling, WholeHeadsUb, drop_bytes, whole_heads_kernel
from ascendsim.terms import DATABLOCK_BYTES, align_up


def n_kernel(call: FagCall, tiling: FagTiling, names: tuple[str, ...]) -> WholeHeadsTiling:
    """Return what the kernel takes.

    Args:
        call: that template N took.
        tiling: of it.
        names: the GM tensors that the kernel is called with.

    Raises:
        InputError: what this kernel does not do yet.
    """
    assert tiling.split is not None
    return whole_heads_kernel(call, tiling, names, _places(call, tiling), tiling.split.cv_units)


def _places(call: FagCall, tiling: FagTiling) -> WholeHeadsUb:
    """Return the places; the dropout mask takes the first bytes of the temps."""
    assert tiling.split is not None
    at = {area.name: area.start_bytes for area in main_ub(call, tiling)}
    end = main_ub(call, tiling)[-1].end_bytes
    rows_1, rows_2, bytes_at = at["rows 1"], at["rows 2"], at["mask, bias"]
    work_1, work_2 = at["work tile 1"], at["work tile 2"]
    drop = align_up(at["temp of API calls"], DATABLOCK_BYTES)
    temp = drop + drop_bytes(call, tiling.split.units * call.shape.s1)
    is_cut = "cast" in at
    return WholeHeadsUb(
        rows_dy=rows_2,
        rows_out=rows_1,
        wide_dy=at["cast"] if is_cut else work_2,
        wide_out=work_1,
        partial=work_2,
        row_term=bytes_at,
        nz_d_a=rows_2,
        nz_scores=rows_1,
        d_a=work_1,
        scores=work_2,
        maxima=rows_1,
        sums=rows_2,
        bias=bytes_at,
        mask=bytes_at,
        drop=drop,
        temp=temp,
        temp_bytes=(end - temp) // DATABLOCK_BYTES * DATABLOCK_BYTES,
        end=end,
    )
