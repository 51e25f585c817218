"""Template B (10000): all heads of some batches at a time; for the shortest sequences.

Source: ops-transformer op_host, flash_attention_score_grad tiling of bngs1s2_b.
"""

from typing import Final

from ascendsim.op_host.fag_call import CUBE, FagCall, NotCapableError
from ascendsim.op_host.fag_key import DTYPE_FIELD, KeyFields
from ascendsim.op_host.fag_result import Accumulators, FagTiling, TileOverride, UnitSplit
from ascendsim.op_host.fag_tiling_n import (
    API_RESERVE_BYTES,
    DROP_OUT_MIN_BYTES,
    HALF_BYTES,
    NZ_ROWS,
    RESERVE_BYTES,
    SOFTMAX_REMAIN_BYTES,
    add_inputs_and_sums,
    has_drop_mask,
    is_compiled_layout,
    is_far,
    nz_forms,
    require_mask_size,
    require_small,
    whole_heads_tiling,
)
from ascendsim.op_host.fag_workspace import FLOAT_BYTES, WorkspaceTerms
from ascendsim.op_host.softmax_family import get_soft_max_min_tmp_size
from ascendsim.terms import DATABLOCK_BYTES, align_up, ceil_div

_SYNC_BYTES = 3200
_TILE_ELEMENTS = 8192
_NZ_TILE_ELEMENTS = 6144
_RATIO = 2
_L1_BYTES = 512 * 1024
_NZ_PAD_BYTES = 32
_S1_TEMPLATES: Final = {(72, 15): 3, (72, 16): 1, (88, 16): 1}
_D_TEMPLATES: Final = {72: 2, 88: 3}
_LAYOUTS: Final = {"BSH": 0, "SBH": 1, "BNSD": 2, "BSND": 3}


def _tile_elements(call: FagCall) -> int:
    """Return the scores of one vector pass; NZ keeps a quarter of UB free."""
    return _NZ_TILE_ELEMENTS if call.shape.s1 >= NZ_ROWS else _TILE_ELEMENTS


def check_capable(call: FagCall) -> None:
    """Leave the call to the next template if the scores of one batch are too many.

    Raises:
        NotCapableError: they are.
    """
    require_small(call)
    shape, most = call.shape, _tile_elements(call)
    if shape.n1 * shape.s1_aligned * shape.s2_aligned > most:
        raise NotCapableError(f"needs N1 * al16(S1) * al16(S2) of at most {most}")


def tile_call(call: FagCall, override: TileOverride) -> FagTiling:
    """Return the tiling.

    Raises:
        InputError: a prescribed tile this template has not.
        NotCapableError: the batches do not fit the buffers, or the mask is too small.
    """
    override.only("Ungs1s2_B", "units", "cv_units")
    shape, platform = call.shape, call.platform
    batch_bytes = shape.n1 * shape.s1 * shape.s2_aligned * FLOAT_BYTES
    batches = override.units or min(_tile_elements(call) * FLOAT_BYTES // batch_bytes, shape.b)
    cv_batches = override.cv_units or (batches * _RATIO if batches * _RATIO <= shape.b else batches)
    _require_l1(call, cv_batches)
    left = _ub_left(call, batches)
    groups = ceil_div(shape.b, cv_batches)
    used = ceil_div(groups, ceil_div(groups, platform.aiv_cores))
    require_mask_size(call)
    drop_bytes = align_up(shape.scores, DATABLOCK_BYTES) if has_drop_mask(call) else 0
    split = UnitSplit("batch", batches, cv_batches, groups, shape.s2_aligned, drop_bytes, left + API_RESERVE_BYTES)
    workspace = _workspace(call, cv_batches, used, drop_bytes)
    return whole_heads_tiling(call, _key(call), workspace, used, _row_columns(call, batches), split)


def _require_l1(call: FagCall, batches: int) -> None:
    """Leave the call to the next template if L1 does not hold the two largest operands of so many batches."""
    shape = call.shape
    s1, s2, d = shape.s1_aligned, shape.s2_aligned, shape.d_aligned
    sizes = sorted(batches * shape.n1 * elements * HALF_BYTES for elements in (s1 * d, s2 * d, s1 * s2))
    if sizes[1] + sizes[2] >= _L1_BYTES:
        raise NotCapableError(f"operands of {sizes[1] + sizes[2]} bytes, {batches} batches, do not fit L1")
    if shape.layout not in {"SBH", "BNSD"}:
        return
    most = max((shape.s1 + shape.s2) * shape.d, shape.s1 * (shape.s2 + shape.d), shape.s2 * (shape.s1 + shape.d))
    if batches * shape.n1 * most * HALF_BYTES > call.platform.l1_bytes:
        raise NotCapableError(f"the matmul library does not fit {batches} batches into L1")


def ub_areas(call: FagCall, batches: int) -> tuple[tuple[str, int], ...]:
    """Return the areas of UB before the API temps, (what, bytes): two input queues, two work tiles, and so on."""
    shape = call.shape
    tile = _tile_elements(call) * FLOAT_BYTES
    pad = batches * shape.n1 * shape.s2_aligned // CUBE * _NZ_PAD_BYTES if shape.s1 >= NZ_ROWS else 0
    return (
        ("input 1", tile // 2),
        ("input 2", tile // 2),
        ("work tile 1", tile + pad),
        ("work tile 2", tile + pad),
        ("row term", tile // 2),
        ("max and sum", tile),
        ("dropout mask", tile // 4),
    )


def _ub_left(call: FagCall, batches: int) -> int:
    """Return the UB bytes left beside the areas and the least API temps."""
    shape = call.shape
    rows = batches * shape.n1 * shape.s1
    temp = max(
        get_soft_max_min_tmp_size((rows, shape.s2_aligned), FLOAT_BYTES, call.platform.npu_arch), DROP_OUT_MIN_BYTES
    )
    queues = sum(size for _, size in ub_areas(call, batches))
    left = call.platform.ub_bytes - queues - temp - SOFTMAX_REMAIN_BYTES
    if left < 0:
        raise NotCapableError(f"{batches} batches do not fit UB by {-left} bytes")
    return left


def _row_columns(call: FagCall, batches: int) -> int:
    """Return the columns of D that the row term takes at a time."""
    rows = batches * call.shape.n1 * call.shape.s1
    return max(align_up(_tile_elements(call) // rows, CUBE) - CUBE, CUBE)


def _key(call: FagCall) -> KeyFields:
    shape, (is_score_nz, is_gradient_nz) = call.shape, nz_forms(call)
    s_template = _S1_TEMPLATES.get((shape.d, shape.s1), 0) if is_compiled_layout(call) else 0
    return KeyFields(
        ub_axis_0=6,
        ub_axis_1=6,
        core_axis=0,
        dtype=DTYPE_FIELD[call.params.dtype],
        layout=_LAYOUTS[shape.layout],
        sparse=1,
        matmul_config=int(is_far(call)),
        score_nz=int(is_score_nz),
        gradient_nz=int(is_gradient_nz),
        s1_template=s_template,
        s2_template=s_template,
        d_template=_D_TEMPLATES[shape.d] if s_template else 0,
        deterministic=int(call.params.deterministic),
    )


def _workspace(call: FagCall, cv_batches: int, used: int, drop_bytes: int) -> tuple[WorkspaceTerms, Accumulators]:
    terms = WorkspaceTerms()
    shape = call.shape
    terms.add("system reserve", RESERVE_BYTES, "16 MiB")
    terms.add("sync area", _SYNC_BYTES, "3200 B")
    terms.add("dropout mask", drop_bytes, "B * N1 * S1 * S2 bytes in whole datablocks")
    scores = cv_batches * shape.n1 * shape.s1 * shape.s2_aligned * FLOAT_BYTES * used
    terms.add("S and dA", 2 * scores, "2 * bIn * ratio * N1 * S1 * al16(S2) * 4 B * AIVs")
    return terms, add_inputs_and_sums(terms, call)
