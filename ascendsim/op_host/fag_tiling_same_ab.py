"""Template SameAB (15500, deterministic 1100): a large score tile for both AIVs of an AIC, main one for long sequences.

Source: ops-transformer op_host, flash_attention_score_grad tiling of S1s2Bn2gs1s2 SameAB.
"""

from typing import Final

from ascendsim.op_host.fag_band import Band, wide_band
from ascendsim.op_host.fag_call import CUBE, FagCall, NotCapableError, RefusedError
from ascendsim.op_host.fag_key import DTYPE_FIELD, KeyFields, encode_key
from ascendsim.op_host.fag_passes import post_pass, pre_pass, row_term_pass
from ascendsim.op_host.fag_result import Accumulators, FagTiles, FagTiling, Matmuls, TileOverride
from ascendsim.op_host.fag_workspace import FLOAT_BYTES, MIB, WorkspaceTerms, slope_bytes
from ascendsim.op_host.matmul_base import BaseBlock, Product, base_block
from ascendsim.terms import align_up, ceil_div

_SYNC_BYTES = 64 * 1024
_RESERVE_BYTES = 20 * MIB
MATMUL_UB_BYTES: Final = 8 * 1024
"""UB that the matmul library takes."""
_DATA_BYTES = 189 * 1024
"""UB of the kernel."""

_TILE = 512
_SMALL_TILE = 256
_LONGEST_TILE = 1024
_LONG_S2 = 4 * _TILE
_VECTOR_GROUPS = 3
"""Gradients that a deterministic call adds up side by side."""

_FEW_VALID = 0.23
_FEW_TILES = 64
_VECTOR_ROWS = 128
_VECTOR_COLUMNS = 256
_VECTOR_ELEMENTS = 8192
_BUFFERS = 2
_NZ_S1 = 128
_NZ_S2 = 128
_NZ_S2_END = 5000
NZ_SPARE: Final = 4
"""Datablocks for each 16 columns that the post pass keeps free when sums lie in NZ."""
NZ_HEAD_SIZES: Final = frozenset({72, 80, 88, 96})
"""D of which the sums of gradients lie in NZ."""
_TND_MEAN = 1024
_TND_LONGEST = 8192


def check_capable(call: FagCall) -> None:
    """Leave the call to the next template if it is none for SameAB.

    Raises:
        NotCapableError: float, or a TND call of short or excluded lengths.
    """
    if call.is_fp32:
        raise NotCapableError("takes fp16 and bf16 only")
    if call.shape.is_tnd and not reaches_tnd_mean(call):
        raise NotCapableError(f"TND needs mean query and key lengths of at least {_TND_MEAN}")
    if call.shape.is_tnd and _is_excluded_tnd(call):
        raise NotCapableError("TND with D = 128, G >= 4 and equal lengths up to 8192 is left to others")


def check_deterministic(call: FagCall) -> None:
    """Leave the call to the next template if it need not be deterministic, or is float.

    Raises:
        NotCapableError: it is, or has rotary parts.
    """
    if not call.params.deterministic:
        raise NotCapableError("for deterministic calls")
    if call.rope_sizes is not None:
        raise NotCapableError("takes no rotary parts")
    if call.is_fp32:
        raise NotCapableError("takes fp16 and bf16 only")


def reaches_tnd_mean(call: FagCall) -> bool:
    """Whether mean query and key length of a TND call are long enough, up to the last batch with a query so far."""
    shape = call.shape
    count = len(shape.q_lens)
    while count and not sum(shape.q_lens[:count]):
        count -= 1
    q_total, kv_total = (sum(lens[:count]) for lens in (shape.q_lens, shape.kv_lens))
    return min(q_total, kv_total) // max(count, 1) >= _TND_MEAN


def _is_excluded_tnd(call: FagCall) -> bool:
    shape, params = call.shape, call.params
    if not (
        shape.d == 128
        and 1 <= shape.b <= 16
        and shape.g >= 4
        and shape.t1 == shape.t2
        and params.sparse_mode in {0, 3}
        and not call.has_drop
        and call.pse is None
        and params.shape_of("dropMask") is None
    ):
        return False
    return shape.q_lens == shape.kv_lens and all(0 < length <= _TND_LONGEST for length in shape.q_lens[1:])


# --- the score tile ---


def score_tile(call: FagCall, band: Band) -> tuple[int, int]:
    """Return (cvS1, cvS2), the score tile handed from cube to vector.

    512 x 512; smaller where a deterministic call's sums would not fit UB; shaped after S1 and S2 where nothing is
    skipped and S2 is short; half as many rows where little of an oblong is computed.
    """
    s1, s2, d = call.shape.s1, call.shape.s2, call.shape.d
    if call.params.deterministic and _overflows_sums(call):
        return _SMALL_TILE, _SMALL_TILE
    if not band.is_sparse and s2 < _LONG_S2:
        if d == 64 and s1 >= _TILE and s2 >= _TILE:
            return _TILE, _TILE
        return _shaped_tile(call)
    few = ceil_div(s1, _TILE) * ceil_div(s2, _TILE) < _FEW_TILES
    if s1 != s2 and few and valid_share(call, band) - _FEW_VALID <= 1e-6:
        return _SMALL_TILE, _TILE
    return _TILE, _TILE


def _overflows_sums(call: FagCall) -> bool:
    rows = ceil_div(_TILE, max(call.platform.aiv_cores // _VECTOR_GROUPS, 1))
    return rows * call.shape.d_aligned * FLOAT_BYTES * _BUFFERS > _DATA_BYTES


def _shaped_tile(call: FagCall) -> tuple[int, int]:
    s1, s2 = call.shape.s1, call.shape.s2
    parts, rest = divmod(s2, _TILE)
    parts = max(parts + (2 * rest > _TILE), 1)
    columns = align_up(ceil_div(s2, parts), CUBE)
    rows = min(_whole_cubes(_TILE * _TILE // columns), _LONGEST_TILE)
    tiles = ceil_div(s1, rows)
    if s1 % tiles == 0:
        rows = align_up(s1 // tiles, CUBE)
    if rows > call.shape.s1_aligned:
        rows = call.shape.s1_aligned
        columns = max(columns, _whole_cubes(_TILE * _TILE // rows))
    return rows, min(columns, _LONGEST_TILE)


def _whole_cubes(length: int) -> int:
    return length // CUBE * CUBE


def valid_share(call: FagCall, band: Band) -> float:
    """Return the share of scores computed, as the tiling estimates it."""
    s1, s2, mode = call.shape.s1, call.shape.s2, call.params.sparse_mode
    if mode == 2:
        return 1 - 0.5 * s2 / s1 if s1 >= s2 else 0.5 * s1 / s2
    if mode == 3:
        return 0.5 * s2 / s1 if s1 >= s2 else 1 - 0.5 * s1 / s2
    if mode not in {0, 4}:
        return 1.0
    pre, after = band.pre_tokens, band.next_tokens
    if pre >= 0 and after >= 0:
        return (min(pre, s1) + min(after, s2)) / (s1 + s2)
    if after >= 0:
        return (min(after, s2) + pre) / s2
    return (min(pre, s1) + after) / s1


def vector_tile(
    cv_s1: int, columns: int, *, is_nz: bool, has_mask_or_drop: bool, elements: int = _VECTOR_ELEMENTS
) -> tuple[int, int]:
    """Return (rows, columns) of the vector sub-tiles of a score tile.

    Args:
        cv_s1: rows of score tiles.
        columns: columns of this one, at most cvS2.
        is_nz: the scores lie in NZ.
        has_mask_or_drop: bytes of an attention or dropout mask are loaded.
        elements: of a sub-tile, at most.

    Source: ops-transformer op_kernel, flash_attention_score_grad SameAB.
    """
    width = min(_VECTOR_COLUMNS, columns)
    if is_nz and CUBE < columns < _TILE:
        width = align_up(ceil_div(columns, 2), CUBE)
    padded = align_up(width, 32 if has_mask_or_drop else CUBE)
    return min(elements // padded, cv_s1, _VECTOR_ROWS), width


def _is_l1_custom(call: FagCall, tile: tuple[int, int]) -> bool:
    shape = call.shape
    suits = (
        call.params.dtype == "bf16"
        and not shape.is_tnd
        and min(shape.s1, shape.s2) >= _TILE
        and call.pse is None
        and not call.has_drop
        and not call.params.deterministic
        and tile == (_TILE, _TILE)
    )
    if not suits:
        return False
    if 128 < shape.d <= 256:
        return shape.layout == "BNSD" and call.mask is not None
    return shape.d == 128 or (shape.d == 64 and call.mask is None)


def _nz(call: FagCall, *, is_l1_custom: bool) -> tuple[bool, bool]:
    """Return whether the scores, and whether the gradients, leave the cube in NZ."""
    shape = call.shape
    if is_l1_custom:
        return True, shape.d == 128
    score = not shape.is_tnd and shape.s2 % _NZ_S2 != 0 and shape.s2 < _NZ_S2_END
    return score, shape.d in NZ_HEAD_SIZES and shape.s1 >= _NZ_S1


# --- the tiling ---


def tile_call(call: FagCall, override: TileOverride) -> FagTiling:
    """Return the tiling.

    Raises:
        InputError: a prescribed tile this template has not.
        RefusedError: no score to compute, or no base block.
    """
    override.only("SameAB", "cv_s1", "cv_s2", "vec_s1", "vec_s2")
    if call.shape.scores == 0:
        raise RefusedError("no batch has both queries and keys: there is no score to compute")
    band = wide_band(call, prefix_is_causal=True)
    tiles = _tiles(call, band, override)
    key = _key(call, tiles)
    terms, offsets = _workspace(call, tiles)
    platform, sums = call.platform, _sums(call, tiles)
    ub_bytes = platform.ub_bytes - MATMUL_UB_BYTES
    return FagTiling(
        status="ok",
        tiling_key=encode_key(key),
        key_fields=key,
        block_dim=platform.launch(platform.aiv_cores),
        workspace_bytes=terms.size,
        terms=terms.total(),
        tiles=tiles,
        offsets=offsets,
        matmuls=_matmuls(call, tiles),
        band=band,
        pre=pre_pass(call, platform.aiv_cores, sums, expands_mask=expands_mask(call)),
        row_term=row_term_pass(call, platform.aiv_cores),
        post=post_pass(call, platform.aiv_cores, ub_bytes, nz_spare=NZ_SPARE if tiles.is_gradient_nz else 0),
    )


def expands_mask(call: FagCall) -> bool:
    """Whether the dropout mask is expanded to bytes: some row of it does not end at a byte."""
    shape = call.shape
    lengths = shape.kv_lens[: shape.b] if shape.is_tnd else (shape.s2,)
    return call.has_drop and any(length % 8 for length in lengths)


def _tiles(call: FagCall, band: Band, override: TileOverride) -> FagTiles:
    own_s1, own_s2 = score_tile(call, band)
    cv_s1, cv_s2 = override.cv_s1 or own_s1, override.cv_s2 or own_s2
    is_l1_custom = _is_l1_custom(call, (cv_s1, cv_s2))
    is_score_nz, is_gradient_nz = _nz(call, is_l1_custom=is_l1_custom)
    vec_s1, vec_s2 = vector_tile(
        cv_s1, cv_s2, is_nz=is_score_nz, has_mask_or_drop=call.mask is not None or call.has_drop
    )
    return FagTiles(
        used_cores=call.platform.aiv_cores,
        cv_s1=cv_s1,
        cv_s2=cv_s2,
        vec_s1=override.vec_s1 or vec_s1,
        vec_s2=override.vec_s2 or vec_s2,
        outer_s1=ceil_div(call.shape.s1, cv_s1),
        outer_s2=ceil_div(call.shape.s2, cv_s2),
        is_l1_custom=is_l1_custom,
        is_score_nz=is_score_nz,
        is_gradient_nz=is_gradient_nz,
    )


def _tile(tiles: FagTiles) -> tuple[int, int]:
    return tiles.cv_s1 or 0, tiles.cv_s2 or 0


def _key(call: FagCall, tiles: FagTiles) -> KeyFields:
    cv_s1, cv_s2 = _tile(tiles)
    shape = call.shape
    fits = shape.s1 <= cv_s1 and shape.s2 <= cv_s2 and shape.g == 1
    is_custom = int(tiles.is_l1_custom)
    return KeyFields(
        ub_axis_0=4,
        ub_axis_1=3,
        core_axis=4,
        is_same_ab=1,
        dtype=DTYPE_FIELD[call.params.dtype],
        layout=wide_layout(call),
        score_nz=int(tiles.is_score_nz),
        gradient_nz=int(tiles.is_gradient_nz),
        drop=int(call.has_drop),
        pse=int(call.pse is not None),
        mask=int(call.mask is not None),
        s1_template=is_custom,
        s2_template=is_custom,
        d_template=_d_template(shape.d) if is_custom else 0,
        deterministic=int(call.params.deterministic and not fits),
        rope=int(call.rope_sizes is not None),
    )


def wide_layout(call: FagCall) -> int:
    """Return the layout field of the key, as most templates fill it."""
    return {"BSH": 0, "BSND": 0, "SBH": 1, "BNSD": 2, "TND": 3}[call.shape.layout]


def _d_template(d: int) -> int:
    if d == 64:
        return 1
    return 4 if d == 128 else 5


def _sums(call: FagCall, tiles: FagTiles) -> tuple[int, int, int]:
    """Return the elements of the sums of dQ, dK and dV; in NZ a row has whole fractals."""
    return sum_elements(call, is_nz=tiles.is_gradient_nz)


def sum_elements(call: FagCall, *, is_nz: bool) -> tuple[int, int, int]:
    """Return the elements of the sums of dQ, dK and dV; in NZ a row has whole fractals."""
    shape = call.shape
    d, dv = (shape.d_aligned, shape.dv_aligned) if is_nz else (shape.d, shape.dv)
    return shape.q_rows * d, shape.kv_rows * d, shape.kv_rows * dv


def _workspace(call: FagCall, tiles: FagTiles) -> tuple[WorkspaceTerms, Accumulators]:
    terms = WorkspaceTerms()
    aiv = call.platform.aiv_cores
    cv_s1, cv_s2 = _tile(tiles)
    terms.add("sync area", _SYNC_BYTES, "64 KiB")
    offsets = add_sums(terms, _sums(call, tiles), _rope_sums(call, is_nz=tiles.is_gradient_nz))
    if expands_mask(call):
        terms.add_stepped("dropout mask", call.shape.scores, "B * N1 * S1 * S2 bytes")
    terms.add_aligned("row term", call.shape.q_rows * 8 * FLOAT_BYTES, "B * N1 * S1 rows * 8 * 4 B")
    scores = aiv * cv_s1 * cv_s2 * FLOAT_BYTES * _BUFFERS
    terms.add_stepped("S and dA", scores, "AIVs * cvS1 * cvS2 * 4 B * 2")
    terms.add("system reserve", _RESERVE_BYTES, "20 MiB")
    slopes = slope_bytes(call, min(_VECTOR_ROWS, call.shape.s1_aligned), tnd_has_own=True)
    terms.add("inner pse", slopes * aiv, "tile of 16-bit elements in whole 512 bytes * AIVs")
    if call.params.deterministic:
        _add_private_sums(terms, call, cv_s1, cv_s2)
    return terms, offsets


def _rope_sums(call: FagCall, *, is_nz: bool) -> tuple[int, int]:
    """Return the elements of the sums of dqRope and dkRope, 0 without rotary parts."""
    if call.rope_sizes is None:
        return 0, 0
    q, k = (align_up(size, CUBE) if is_nz else size for size in call.rope_sizes)
    return call.shape.q_rows * q, call.shape.kv_rows * k


def add_sums(terms: WorkspaceTerms, sums: tuple[int, int, int], rope: tuple[int, int] = (0, 0)) -> Accumulators:
    """Add the float sums of dQ, dK and dV, rotary ones behind those of their tensor; return where they start."""
    names = ("dQ", "dqRope", "dK", "dkRope", "dV")
    elements = (sums[0], rope[0], sums[1], rope[1], sums[2])
    starts = {
        name: terms.add_stepped(f"{name} sums", count * FLOAT_BYTES, f"elements of {name} * 4 B")
        for name, count in zip(names, elements, strict=True)
        if count or name not in ("dqRope", "dkRope")
    }
    return Accumulators(starts["dQ"], starts["dK"], starts["dV"])


def _add_private_sums(terms: WorkspaceTerms, call: FagCall, cv_s1: int, cv_s2: int) -> None:
    aic, shape = call.platform.aic_cores, call.shape
    for name, rows, columns, words in (
        ("dQ", cv_s1, shape.d_aligned, "cvS1 * al16(D)"),
        ("dK", cv_s2, shape.d_aligned, "cvS2 * al16(D)"),
        ("dV", cv_s2, shape.dv_aligned, "cvS2 * al16(Dv)"),
    ):
        size = rows * columns * FLOAT_BYTES * aic * _BUFFERS
        terms.add_aligned(f"private {name} tiles", size, f"{words} * 4 B * AICs * 2")


def _matmuls(call: FagCall, tiles: FagTiles) -> Matmuls:
    cv_s1, cv_s2 = _tile(tiles)
    d, d_aligned, size = call.shape.d, call.shape.d_aligned, call.element_bytes
    custom = tiles.is_l1_custom
    rows = min(cv_s1, 128)
    columns = 128 if d > 64 else 256
    scores = require_base(
        call, Product(cv_s1, cv_s2, d, size, b_transposed=True, fixed_m=rows, fixed_n=min(cv_s2, columns))
    )
    if custom and 128 < d <= 256:
        scores = BaseBlock(scores.m, scores.n, align_up(d // 2, CUBE))
    dk_dv = Product(
        m=cv_s2,
        n=d,
        k=cv_s1,
        element_bytes=size,
        a_transposed=True,
        fixed_m=rows if custom else None,
        fixed_n=min(128 if custom else 256, d_aligned),
    )
    dq = Product(cv_s1, d, cv_s2, size, fixed_m=rows, fixed_n=min(128, d_aligned))
    return Matmuls(scores, require_base(call, dk_dv), require_base(call, dq))


def require_base(call: FagCall, product: Product) -> BaseBlock:
    """Return the base block of a product.

    Raises:
        RefusedError: the matmul library finds none.
    """
    found = base_block(product, call.platform)
    if found is None:
        raise RefusedError(
            f"no base block for a product of {product.m} x {product.n} x {product.k}; choose other tile sizes"
        )
    return found
