"""Template S1s2Bn2gs1s2 (16000, for TND 2000): score tiles dealt one by one to AIVs; whatever no other template takes.

Source: ops-transformer op_host, flash_attention_score_grad tilings of S1s2Bn2gs1s2 and of unpadded attention.
"""

from ascendsim.errors import InputError
from ascendsim.op_host.fag_band import Band, wide_band
from ascendsim.op_host.fag_blocks import valid_blocks
from ascendsim.op_host.fag_call import CUBE, TND_BAND_MODES, FagCall, NotCapableError, RefusedError
from ascendsim.op_host.fag_key import DTYPE_FIELD, KeyFields, encode_key
from ascendsim.op_host.fag_passes import post_pass, pre_pass
from ascendsim.op_host.fag_result import Accumulators, FagTiles, FagTiling, Matmuls, TileOverride
from ascendsim.op_host.fag_tiling_same_ab import (
    MATMUL_UB_BYTES,
    NZ_HEAD_SIZES,
    NZ_SPARE,
    add_sums,
    expands_mask,
    reaches_tnd_mean,
    require_base,
    sum_elements,
    wide_layout,
)
from ascendsim.op_host.fag_workspace import FLOAT_BYTES, MIB, WorkspaceTerms, slope_bytes
from ascendsim.op_host.matmul_base import Product
from ascendsim.terms import ceil_div

_SYNC_BYTES = 16 * 1024
_RESERVE_BYTES = 20 * MIB
_VECTOR_ROWS = 128
_VECTOR_COLUMNS = 64
_BUFFERS = 2
_NZ_S2 = 128
_NZ_S2_END = 5000
_NZ_LARGEST_D = 256
_TND_LONG_QUERY = 2048
_TND_SHORT_KEY = 256


def check_tnd(call: FagCall) -> None:
    """Leave the call to the next template if it is no TND call of short and unequal lengths.

    Raises:
        NotCapableError: it is not.
    """
    if not call.shape.is_tnd:
        raise NotCapableError("takes layout TND only")
    if is_relabelled(call):
        raise NotCapableError("all batches have the same length S1 = S2, so later templates take the call as BSH")
    if reaches_tnd_mean(call):
        raise NotCapableError("leaves long sequences to SameAB")


def is_relabelled(call: FagCall) -> bool:
    """Whether later templates may take a TND call as BSH: equal lengths, no pse, no band mode of TND."""
    given = call.params.shape_of("pseShift")
    return call.shape.has_equal_lengths and given is None and call.params.sparse_mode not in TND_BAND_MODES


# --- tiles ---


def cube_ratios(call: FagCall) -> tuple[int, int]:
    """Return (r1, r2): vector tiles along S1 and S2 that make a score tile."""
    shape = call.shape
    ratios = (1, 8)
    if shape.d == 64:
        ratios = (4, 2) if shape.s1 >= 256 and shape.s2 <= 128 else (1, 16)
    if not shape.is_tnd or call.is_fp32 or shape.d > 128:
        return ratios
    s1_mean, s2_mean = ceil_div(shape.t1, shape.b), ceil_div(shape.t2, shape.b)
    if s1_mean < _TND_LONG_QUERY or s2_mean > _TND_SHORT_KEY:
        return ratios
    return (4, 2) if s2_mean < 70 or 80 <= s2_mean <= 128 else (4, 4)


def vector_tile(call: FagCall) -> tuple[int, int]:
    """Return (rows, columns) of the vector tile: 128 x 64 or what S1 and S2 fill, less where UB or L0C is short.

    The library calls' temps are left out: for tiles of at most 8192 elements they fit the 33 KiB kept for them.
    """
    rows = min(_VECTOR_ROWS, call.shape.s1_aligned)
    columns = min(_VECTOR_COLUMNS, call.shape.s2_aligned)
    room = min(call.platform.ub_bytes - MATMUL_UB_BYTES, call.platform.l0c_bytes)
    cut_rows = True
    while rows * columns * FLOAT_BYTES > room and min(rows, columns) > CUBE:
        rows, columns = (rows - CUBE, columns) if cut_rows else (rows, columns - CUBE)
        cut_rows = not cut_rows
    return rows, columns


def _tiles(call: FagCall, band: Band, override: TileOverride) -> FagTiles:
    shape = call.shape
    own_rows, own_columns = vector_tile(call)
    v1, v2 = override.vec_s1 or own_rows, override.vec_s2 or own_columns
    r1, r2 = cube_ratios(call)
    cv_s1 = _multiple("cv_s1", override.cv_s1 or v1 * r1, v1)
    cv_s2 = _multiple("cv_s2", override.cv_s2 or v2 * r2, v2)
    blocks = valid_blocks(call, band, cv_s1, cv_s2)
    if blocks == 0:
        raise RefusedError("no tile of scores holds work: the band of tokens, or the lengths, leave nothing to compute")
    per_core = ceil_div(blocks, call.platform.aiv_cores)
    is_ping_pong = cv_s1 != v1 and shape.is_tnd and not call.is_fp32 and call.pse is None and call.mask is None
    row_columns = min(v2, shape.dv, _VECTOR_COLUMNS)
    is_narrow = not call.is_fp32
    return FagTiles(
        used_cores=ceil_div(blocks, per_core),
        cv_s1=cv_s1,
        cv_s2=cv_s2,
        vec_s1=v1,
        vec_s2=v2,
        outer_s1=ceil_div(shape.s1, cv_s1),
        outer_s2=ceil_div(shape.s2, cv_s2),
        is_score_nz=is_narrow and shape.s2 % _NZ_S2 != 0 and shape.s2 < _NZ_S2_END and shape.d <= _NZ_LARGEST_D,
        is_gradient_nz=is_narrow and shape.d in NZ_HEAD_SIZES,
        valid_blocks=blocks,
        blocks_per_core=per_core,
        row_term_columns=shape.dv_aligned if is_ping_pong else row_columns,
        is_row_ping_pong=is_ping_pong,
    )


def _multiple(name: str, length: int, unit: int) -> int:
    if length % unit:
        raise InputError(f"{name} = {length}: must be a multiple of the vector tile's {unit}")
    return length


# --- the tiling ---


def tile_call(call: FagCall, override: TileOverride) -> FagTiling:
    """Return the tiling.

    Raises:
        InputError: a prescribed tile this template has not, or one that is not whole vector tiles.
        RefusedError: no score to compute, or no base block.
    """
    override.only("S1s2Bn2gs1s2", "cv_s1", "cv_s2", "vec_s1", "vec_s2")
    band = wide_band(call, prefix_is_causal=False)
    tiles = _tiles(call, band, override)
    key = KeyFields(
        ub_axis_0=4,
        ub_axis_1=3,
        core_axis=4,
        dtype=DTYPE_FIELD[call.params.dtype],
        layout=wide_layout(call),
        score_nz=int(tiles.is_score_nz),
        gradient_nz=int(tiles.is_gradient_nz),
        drop=int(call.has_drop),
        pse=int(call.pse is not None),
        mask=int(call.mask is not None),
    )
    terms, offsets = _workspace(call, tiles)
    cores = tiles.used_cores or 0
    sums = sum_elements(call, is_nz=tiles.is_gradient_nz)
    ub_bytes = call.platform.ub_bytes - MATMUL_UB_BYTES
    return FagTiling(
        status="ok",
        tiling_key=encode_key(key),
        key_fields=key,
        block_dim=call.platform.launch(cores),
        workspace_bytes=terms.size,
        terms=terms.total(),
        tiles=tiles,
        offsets=offsets,
        matmuls=_matmuls(call, tiles),
        band=band,
        pre=pre_pass(call, cores, sums, expands_mask=expands_mask(call)),
        post=post_pass(call, cores, ub_bytes, nz_spare=NZ_SPARE if tiles.is_gradient_nz else 0),
    )


def _workspace(call: FagCall, tiles: FagTiles) -> tuple[WorkspaceTerms, Accumulators]:
    terms = WorkspaceTerms()
    aiv = call.platform.aiv_cores
    tile = aiv * (tiles.cv_s1 or 0) * (tiles.cv_s2 or 0)
    terms.add("sync area", _SYNC_BYTES, "16 KiB")
    offsets = add_sums(terms, sum_elements(call, is_nz=tiles.is_gradient_nz))
    if expands_mask(call):
        terms.add_stepped("dropout mask", call.shape.scores, "B * N1 * S1 * S2 bytes")
    terms.add_stepped("S and dA", tile * FLOAT_BYTES * 2, "AIVs * r1 * r2 * v1 * v2 * 4 B * 2")
    for name in ("A", "dS"):
        size = tile * call.element_bytes * _BUFFERS
        terms.add_stepped(name, size, "AIVs * r1 * r2 * v1 * v2 * element bytes * 2")
    terms.add("system reserve", _RESERVE_BYTES, "20 MiB")
    slopes = slope_bytes(call, min(_VECTOR_ROWS, call.shape.s1_aligned), tnd_has_own=True)
    terms.add("inner pse", slopes * aiv, "tile of 16-bit elements in whole 512 bytes * AIVs")
    return terms, offsets


def _matmuls(call: FagCall, tiles: FagTiles) -> Matmuls:
    cv_s1, cv_s2 = tiles.cv_s1 or 0, tiles.cv_s2 or 0
    d, size = call.shape.d, call.element_bytes
    fixed: tuple[int | None, int | None] = (None, None)
    if cv_s2 > 128:
        fixed = (min(cv_s1, 256), 128) if d > 64 else (min(cv_s1, 128), 256)
    whole_d = min(call.shape.d_aligned, 256)
    dk_dv_n = whole_d if tiles.is_gradient_nz and call.shape.is_tnd else None
    dq_n = whole_d if tiles.is_score_nz and tiles.is_gradient_nz else None
    return Matmuls(
        scores=require_base(
            call, Product(cv_s1, cv_s2, d, size, b_transposed=True, fixed_m=fixed[0], fixed_n=fixed[1])
        ),
        dk_dv=require_base(call, Product(cv_s2, d, cv_s1, size, a_transposed=True, fixed_n=dk_dv_n)),
        dq=require_base(call, Product(cv_s1, d, cv_s2, size, fixed_n=dq_n)),
    )
