"""Template N (11000): some heads of one batch at a time; for very short sequences.

Source: ops-transformer op_host, flash_attention_score_grad tiling of ngs1s2_bn.
"""

from dataclasses import dataclass
from typing import Final

from ascendsim.op_host.fag_band import narrow_band
from ascendsim.op_host.fag_call import CUBE, FagCall, NotCapableError
from ascendsim.op_host.fag_checks import has_mask_form
from ascendsim.op_host.fag_key import DTYPE_FIELD, KeyFields, encode_key
from ascendsim.op_host.fag_passes import post_pass, pre_pass
from ascendsim.op_host.fag_result import Accumulators, FagTiles, FagTiling, Matmuls, TileOverride, UnitSplit
from ascendsim.op_host.fag_workspace import FLOAT_BYTES, GM_ALIGN, MIB, WorkspaceTerms
from ascendsim.op_host.matmul_base import BaseBlock, Product, base_block
from ascendsim.op_host.softmax import get_soft_max_grad_min_tmp_size
from ascendsim.op_host.softmax_family import get_soft_max_min_tmp_size
from ascendsim.terms import align_up, ceil_div

HALF_BYTES: Final = 2
"""Both templates for very short sequences take 16-bit elements only."""

RESERVE_BYTES: Final = 16 * MIB
NZ_ROWS: Final = 4
"""Fewest query rows for which NZ pays."""

SOFTMAX_REMAIN_BYTES: Final = 8 * 1024
DROP_OUT_MIN_BYTES: Final = 512
STRIDE_LIMIT: Final = 65535
NZ_SPARE: Final = 1
API_RESERVE_BYTES: Final = 4 * 1024

_TILE_BYTES = 32 * 1024
_LONGEST_ROW_BYTES = 1536
_RATIO = 4
_NZ_PAD_BYTES = 32
_S1_TEMPLATES: Final = {30: 5, 32: 4, 48: 1, 60: 3, 64: 2}
_TEMPLATE_D = 72
_D_TEMPLATE = 2


# --- shared with template B ---


def require_small(call: FagCall) -> None:
    """Leave the call to the next template if it has what the templates for very short sequences do not know.

    Raises:
        NotCapableError: it has.
    """
    if call.shape.is_tnd:
        raise NotCapableError("does not take layout TND")
    if not 0 < call.keep_prob <= 1:
        raise NotCapableError(f"keep_prob = {call.params.keep_prob} is not in (0, 1]")
    _require_pse(call)
    _require_mask(call)
    if call.is_fp32:
        raise NotCapableError("takes fp16 and bf16 only")
    if call.params.pse_type != 1:
        raise NotCapableError("takes pse_type 1 only")
    if call.params.shape_of("value") != call.params.shape_of("key"):
        raise NotCapableError("needs Dv = D")


def _require_pse(call: FagCall) -> None:
    b, n1, s1, s2 = call.shape.b, call.shape.n1, call.shape.s1, call.shape.s2
    if call.pse is not None and call.pse not in {(b, n1, s1, s2), (b, n1, 1, s2), (1, n1, s1, s2)}:
        raise NotCapableError(f"does not take pse of shape {call.pse}")


def _require_mask(call: FagCall) -> None:
    mask = call.mask
    if call.params.shape_of("attenMask") is not None and call.params.dtype_of("attenMask") not in {"bool", "uint8"}:
        raise NotCapableError(f"does not take attenMask of {call.params.dtype_of('attenMask')}")
    if mask is None:
        return
    if not has_mask_form(call, mask):
        raise NotCapableError(f"does not take attenMask of shape {mask}")
    if call.params.sparse_mode > 3:
        raise NotCapableError("takes sparse modes 0 to 3 only")


def require_mask_size(call: FagCall) -> None:
    """Leave the call to the next template if its mask is too small.

    Raises:
        NotCapableError: it is.
    """
    mask = call.mask
    if mask is None:
        return
    rows, columns = mask[-2:]
    s1, s2 = call.shape.s1, call.shape.s2
    if call.params.sparse_mode not in {2, 3}:
        if rows * columns < s1 * s2:
            raise NotCapableError(f"attenMask has last axes {mask[-2:]}, fewer elements than {s1} x {s2}")
    elif rows != columns or columns < 2 * max(s1, s2):
        raise NotCapableError(f"attenMask has last axes {mask[-2:]}, no square of at least {2 * max(s1, s2)}")


def has_drop_mask(call: FagCall) -> bool:
    """Whether a dropout mask is there and used."""
    return call.has_drop and call.drop_mask is not None


def nz_forms(call: FagCall) -> tuple[bool, bool]:
    """Return whether S and dA, and whether the gradients leave the cube in NZ."""
    is_score_nz = call.shape.s1 >= NZ_ROWS
    return is_score_nz, is_score_nz and call.shape.layout == "BNSD"


def whole_heads_tiling(
    call: FagCall,
    key: KeyFields,
    workspace: tuple[WorkspaceTerms, Accumulators],
    used: int,
    row_columns: int,
    split: UnitSplit,
) -> FagTiling:
    """Return the tiling.

    Args:
        call: as the kernel gets it.
        key: fields of the tiling key.
        workspace: its terms, and where the sums start behind the reserve.
        used: AIVs that work.
        row_columns: columns of D that the row term takes at a time.
        split: batches or heads that are worked on together.

    Raises:
        NotCapableError: the matmul library finds no base block.
    """
    (terms, offsets), (is_score_nz, is_gradient_nz) = workspace, nz_forms(call)
    return FagTiling(
        status="ok",
        tiling_key=encode_key(key),
        key_fields=key,
        block_dim=call.platform.launch(used),
        workspace_bytes=terms.size,
        terms=terms.total(),
        tiles=FagTiles(
            used_cores=used,
            is_score_nz=is_score_nz,
            is_gradient_nz=is_gradient_nz,
            row_term_columns=row_columns,
        ),
        split=split,
        offsets=offsets,
        matmuls=_require_matmuls(call),
        band=narrow_band(call),
        pre=pre_pass(call, used, (0, 0, 0), expands_mask=has_drop_mask(call) and call.shape.s2 % CUBE != 0),
        post=post_pass(call, used, call.platform.ub_bytes, nz_spare=NZ_SPARE if is_gradient_nz else 0),
    )


def add_inputs_and_sums(terms: WorkspaceTerms, call: FagCall) -> Accumulators:
    """Add the sums of dQ and dK, and A and dS of all heads; return where the sums start behind the reserve.

    dV leaves the cube in the output's type, so it has no sum.
    """
    shape = call.shape
    dq, dk = (
        terms.add_aligned(f"{name} sums", rows * shape.d_aligned * FLOAT_BYTES, f"rows of {name} * al16(D) * 4 B")
        for name, rows in (("dQ", shape.q_rows), ("dK", shape.kv_rows))
    )
    size = align_up(shape.q_rows * shape.s2_aligned * HALF_BYTES, GM_ALIGN)
    terms.add("A and dS", 4 * size, "B * N1 * S1 * al16(S2) * 2 B in whole 512 bytes, two buffers of each")
    return Accumulators(dq - RESERVE_BYTES, dk - RESERVE_BYTES, None)


def _require_matmuls(call: FagCall) -> Matmuls:
    """Return the base blocks of one head's products; L1 holds all of it.

    Raises:
        NotCapableError: the matmul library finds none.
    """
    s1, s2, d = call.shape.s1, call.shape.s2, call.shape.d
    return Matmuls(
        scores=_base(call, Product(s1, s2, d, HALF_BYTES, b_transposed=True)),
        dk_dv=_base(call, Product(s2, d, s1, HALF_BYTES, a_transposed=True)),
        dq=_base(call, Product(s1, d, s2, HALF_BYTES)),
    )


def _base(call: FagCall, product: Product) -> BaseBlock:
    found = base_block(product, call.platform)
    if found is None:
        raise NotCapableError("the matmul library finds no base block")
    return found


def is_far(call: FagCall) -> bool:
    """Whether the stride of S is beyond what the matmul's copies take."""
    return call.shape.layout == "SBH" and call.shape.b * call.shape.n1 * call.shape.d > STRIDE_LIMIT


def is_compiled_layout(call: FagCall) -> bool:
    """Whether kernels compiled for one size exist for type and layout."""
    nz_scores = call.shape.s1 >= NZ_ROWS
    return nz_scores and call.params.dtype == "bf16" and call.shape.layout in {"BSH", "BSND"}


# --- template N ---


@dataclass(frozen=True, slots=True)
class _Ub:
    """Columns of D that the row term takes, and UB left beside the queues [bytes]."""

    row_columns: int
    left_bytes: int


def check_capable(call: FagCall) -> None:
    """Leave the call to the next template if its heads are grouped or its scores too many.

    Raises:
        NotCapableError: they are.
    """
    require_small(call)
    shape = call.shape
    row_bytes = shape.s2_aligned * FLOAT_BYTES
    if shape.g != 1:
        raise NotCapableError("needs G = 1")
    if row_bytes > _LONGEST_ROW_BYTES or shape.s1 * row_bytes > _TILE_BYTES:
        raise NotCapableError(f"needs the scores of a head in {_TILE_BYTES} bytes, a row in {_LONGEST_ROW_BYTES}")


def _heads(call: FagCall, override: TileOverride) -> int:
    """Return the heads of one vector pass."""
    head_bytes = call.shape.s1 * call.shape.s2_aligned * FLOAT_BYTES
    return override.units or min(_TILE_BYTES // head_bytes, call.shape.n2)


def ub_areas(call: FagCall, heads: int) -> tuple[tuple[str, int], ...]:
    """Return the areas of UB before the API temps, (what, bytes).

    Two queues of rows, one of masks and bias, two work tiles, and a cast buffer where D is cut.
    """
    shape = call.shape
    s2, rows, is_nz = shape.s2_aligned, heads * shape.s1, shape.s1 >= NZ_ROWS
    row_columns = _row_columns(call)
    pad = heads * s2 // CUBE * _NZ_PAD_BYTES if is_nz else 0
    is_wide_in = is_nz or (call.pse is not None and call.pse[2] == 1)
    row_in = max(s2 * (FLOAT_BYTES if is_wide_in else HALF_BYTES), row_columns * HALF_BYTES)
    rows_in = rows * row_in + pad
    work = rows * FLOAT_BYTES * max(s2, row_columns) + pad
    cast = rows * row_columns * FLOAT_BYTES if row_columns < shape.d_aligned else 0
    return (
        ("rows 1", rows_in),
        ("rows 2", rows_in),
        ("mask, bias", rows * s2 * HALF_BYTES),
        ("work tile 1", work),
        ("work tile 2", work),
        ("cast", cast),
    )


def _row_columns(call: FagCall) -> int:
    return align_up(min(call.shape.s2_aligned, call.shape.d), CUBE)


def _ub(call: FagCall, heads: int) -> _Ub:
    """Return how UB is filled beside the least API temps."""
    rows = heads * call.shape.s1
    temp = max(
        get_soft_max_min_tmp_size((rows, call.shape.s2_aligned), FLOAT_BYTES, call.platform.npu_arch),
        DROP_OUT_MIN_BYTES,
    )
    used = sum(size for _, size in ub_areas(call, heads)) + temp + SOFTMAX_REMAIN_BYTES
    return _Ub(_row_columns(call), call.platform.ub_bytes - used)


def _require_fit(call: FagCall, heads: int, ub: _Ub) -> None:
    shape, platform = call.shape, call.platform
    s2, d = shape.s2_aligned, ub.row_columns
    l0c = max(shape.s1 * d, s2 * d, shape.s1 * s2) * FLOAT_BYTES
    l0a = max(max(shape.s1, s2) * d, shape.s1 * s2) * HALF_BYTES
    if ub.left_bytes < 0 or l0c > platform.l0c_bytes or l0a > platform.l0a_bytes or not _fits_l1(call, heads):
        raise NotCapableError(f"{heads} heads do not fit UB, L0 or L1")
    rows = heads * shape.s1
    least = max(
        get_soft_max_min_tmp_size((rows, s2), FLOAT_BYTES, platform.npu_arch),
        get_soft_max_grad_min_tmp_size((rows, d), FLOAT_BYTES, is_front=True, npu_arch=platform.npu_arch),
    )
    if ub.left_bytes < least:
        raise NotCapableError(f"{heads} heads leave {ub.left_bytes} bytes of UB, the softmax calls need {least}")


def _fits_l1(call: FagCall, heads: int) -> bool:
    """Return whether L1 holds both operands of each product of so many heads."""
    s1, s2, d = call.shape.s1_aligned, call.shape.s2_aligned, call.shape.d_aligned
    most = max((s1 + s2) * d, (d + s2) * s1, (s1 + d) * s2)
    return heads * most * HALF_BYTES <= call.platform.l1_bytes


def _cv_heads(call: FagCall, heads: int, override: TileOverride) -> int:
    """Return the heads whose scores the cube hands over together: up to four passes, fewer where L1 is short."""
    if override.cv_units:
        return override.cv_units
    ratio = _RATIO
    cv_heads = heads * ratio
    if cv_heads > call.shape.n2:
        cv_heads, ratio = call.shape.n2, ceil_div(call.shape.n2, heads)
    while ratio > 1 and not _fits_l1(call, cv_heads):
        ratio -= 1
        cv_heads = heads * ratio
    return cv_heads


def tile_call(call: FagCall, override: TileOverride) -> FagTiling:
    """Return the tiling.

    Raises:
        InputError: a prescribed tile this template has not.
        NotCapableError: the heads do not fit the buffers, or the mask is too small.
    """
    override.only("Ngs1s2_BN", "units", "cv_units")
    shape, platform = call.shape, call.platform
    heads = _heads(call, override)
    ub = _ub(call, heads)
    _require_fit(call, heads, ub)
    cv_heads = _cv_heads(call, heads, override)
    groups = ceil_div(shape.n2, cv_heads)
    units = shape.b * groups
    used = ceil_div(units, ceil_div(units, platform.aiv_cores))
    require_mask_size(call)
    drop_bytes = align_up(shape.scores, GM_ALIGN) if has_drop_mask(call) else 0
    left = ub.left_bytes + API_RESERVE_BYTES
    split = UnitSplit("head", heads, cv_heads, groups, shape.s2_aligned, drop_bytes, left)
    workspace = _workspace(call, cv_heads, used, drop_bytes)
    return whole_heads_tiling(call, _key(call), workspace, used, ub.row_columns, split)


def _key(call: FagCall) -> KeyFields:
    shape, (is_score_nz, is_gradient_nz) = call.shape, nz_forms(call)
    compiled = is_compiled_layout(call) and shape.d == _TEMPLATE_D
    s_template = _S1_TEMPLATES.get(shape.s1, 0) if compiled else 0
    return KeyFields(
        ub_axis_0=6,
        ub_axis_1=6,
        core_axis=1,
        dtype=DTYPE_FIELD[call.params.dtype],
        layout={"SBH": 1, "BNSD": 2}.get(shape.layout, 0),
        matmul_config=int(is_far(call)),
        score_nz=int(is_score_nz),
        gradient_nz=int(is_gradient_nz),
        s1_template=s_template,
        s2_template=s_template,
        d_template=_D_TEMPLATE if s_template else 0,
        deterministic=int(call.params.deterministic),
    )


def _workspace(call: FagCall, cv_heads: int, used: int, drop_bytes: int) -> tuple[WorkspaceTerms, Accumulators]:
    terms = WorkspaceTerms()
    shape = call.shape
    terms.add("system reserve", RESERVE_BYTES, "16 MiB")
    terms.add("dropout mask", drop_bytes, "B * N1 * S1 * S2 bytes in whole 512 bytes")
    scores = align_up(cv_heads * shape.g * shape.s1 * shape.s2_aligned * FLOAT_BYTES, GM_ALIGN)
    terms.add("S and dA", 2 * scores * used, "2 * nCv * G * S1 * al16(S2) * 4 B in whole 512 bytes * AIVs")
    return terms, add_inputs_and_sums(terms, call)
