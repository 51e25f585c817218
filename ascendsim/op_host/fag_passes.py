"""The passes around the main one of FlashAttentionScoreGrad: pre, row term and post.

Source: ops-transformer op_host, flash_attention_score_grad tilings, pre, post and row-term tiling.
"""

from ascendsim.op_host.fag_call import CUBE, FagCall
from ascendsim.op_host.fag_result import PostPass, PrePass, RowTermPass
from ascendsim.terms import DATABLOCK_BYTES, align_up, ceil_div

_KIB = 1024
_MASK_IN_BYTES = 4 * _KIB
_MASK_CAST_BYTES = 60 * _KIB
_MASK_OUT_BYTES = 30 * _KIB
_HALF_BYTES = 2

_ROW_IN_BYTES = 24 * _KIB
_ROW_CAST_BYTES = 48 * _KIB
_ROW_TEMP_BYTES = 40 * _KIB
_ROW_RESULT_BYTES = 8
"""Bytes reserved for a row of the result, as many rows as a cast buffer has elements of Dv."""

_POST_UNIT = 256
ND_BUFFERS = 3
NZ_BUFFERS = 10
"""UB buffers of the post pass, for sums in ND and in NZ."""


def pre_pass(call: FagCall, cores: int, sums: tuple[int, int, int], *, expands_mask: bool) -> PrePass:
    """Return the pre pass.

    Args:
        call: the call.
        cores: AIVs over which the mask is dealt.
        sums: elements of the sums of dQ, dK, dV that are zeroed.
        expands_mask: the dropout mask is expanded to bytes.
    """
    mask = align_up(call.shape.scores, DATABLOCK_BYTES)
    per_core = align_up(ceil_div(mask, cores), DATABLOCK_BYTES)
    used = ceil_div(mask, per_core) if per_core else 0
    dq, dk, dv = (ceil_div(elements, used) if used else 0 for elements in sums)
    return PrePass(
        cores=used,
        dq_elements=dq,
        dk_elements=dk,
        dv_elements=dv,
        expands_mask=expands_mask,
        mask_elements=per_core,
        mask_step_elements=_MASK_CAST_BYTES // _HALF_BYTES,
        in_bytes=_MASK_IN_BYTES,
        cast_bytes=_MASK_CAST_BYTES,
        out_bytes=_MASK_OUT_BYTES,
    )


def row_term_pass(call: FagCall, cores: int) -> RowTermPass:
    """Return the row-term pass of SameAB, dealt over so many AIVs."""
    dv, rows = call.shape.dv_aligned, call.shape.q_rows
    per_core = ceil_div(rows, cores)
    out_bytes = ceil_div(_ROW_CAST_BYTES, dv) * _ROW_RESULT_BYTES
    return RowTermPass(
        cores=ceil_div(rows, per_core),
        rows_per_core=per_core,
        rows_per_step=_ROW_IN_BYTES // call.element_bytes // dv,
        in_bytes=_ROW_IN_BYTES,
        cast_bytes=_ROW_CAST_BYTES,
        out_bytes=out_bytes,
        temp_bytes=_ROW_TEMP_BYTES - out_bytes,
    )


def post_pass(call: FagCall, cores: int, ub_bytes: int, *, nz_spare: int) -> PostPass:
    """Return the post pass.

    Args:
        call: the call.
        cores: AIVs over which it is dealt.
        ub_bytes: UB it may use.
        nz_spare: datablocks kept free for each 16 columns of D when the sums lie in NZ, 0 for ND.
    """
    d, d_aligned = call.shape.d, call.shape.d_aligned
    reserved = d_aligned // CUBE * DATABLOCK_BYTES * nz_spare
    buffers = NZ_BUFFERS if nz_spare else ND_BUFFERS
    buffer_bytes = (ub_bytes - 2 * reserved) // buffers // _POST_UNIT * _POST_UNIT
    elements = buffer_bytes // call.element_bytes
    return PostPass(cores, buffer_bytes, elements // d_aligned * d if nz_spare else elements)
