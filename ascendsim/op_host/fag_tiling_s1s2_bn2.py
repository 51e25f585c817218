"""Template S1s2Bn2 (15000, deterministic 1000): each AIV takes whole key heads; for short sequences.

Source: ops-transformer op_host, flash_attention_score_grad tiling of S1s2Bn2.
"""

from dataclasses import dataclass, replace

from ascendsim.op_host.fag_band import narrow_band
from ascendsim.op_host.fag_call import CUBE, FagCall, NotCapableError
from ascendsim.op_host.fag_key import KeyFields, encode_key
from ascendsim.op_host.fag_passes import post_pass, pre_pass
from ascendsim.op_host.fag_result import Accumulators, FagTiles, FagTiling, Matmuls, PostPass, TileOverride
from ascendsim.op_host.fag_tiling_s1s2_bn2gs1s2 import is_relabelled
from ascendsim.op_host.fag_tiling_same_ab import NZ_HEAD_SIZES, require_base, wide_layout
from ascendsim.op_host.fag_workspace import FLOAT_BYTES, MIB, WorkspaceTerms, slope_bytes
from ascendsim.op_host.matmul_base import Product
from ascendsim.terms import DATABLOCK_BYTES, align_up, ceil_div

_RESERVE_BYTES = 32 * MIB
_LONG = 1024
_LONG_FOR_FEW_HEADS = 768
_TILE_ELEMENTS = 8192
_MOST_ROWS = 128
_MOST_COLUMNS = 512
_REPEAT_LIMIT = 255
_STRIDE_LIMIT = 65535
_SLOPE_ROWS = 128
_NZ_SPARE = 1
_LARGE_L2_BYTES = 96 * MIB
_ROW_STRIP = 256
_LEAST_POST_BYTES = 8 * 1024
_POST_UB_BYTES = 183 * 1024

_CUSTOM_L1_BYTES = 512 * 1024
_CUSTOM_DS_BYTES = 128 * 128 * 2
_CUSTOM_LONGEST_N = 640


def relabelled(call: FagCall) -> FagCall:
    """Return the call with TND taken as BSH where that may be: equal lengths, not deterministic."""
    if call.params.deterministic or not is_relabelled(call):
        return call
    return replace(call, shape=replace(call.shape, layout="BSH"))


def check_capable(call: FagCall) -> None:
    """Leave the call to the next template if it is long, oblong in D, or has too few heads for the cores.

    Raises:
        NotCapableError: it is.
    """
    shape, params = call.shape, call.params
    aiv, heads = call.platform.aiv_cores, call.shape.b * call.shape.n2
    if params.deterministic:
        raise NotCapableError("not for deterministic calls")
    if shape.is_tnd:
        raise NotCapableError("takes TND only where it may be taken as BSH")
    _require_short(call)
    _require_same_d(call)
    if shape.g > 1 and heads * 2 <= aiv:
        raise NotCapableError(
            f"B * N2 = {heads} key heads leave half of {aiv} AIVs idle, and G = {shape.g} could use them"
        )
    if heads < aiv and max(shape.s1, shape.s2) > _LONG_FOR_FEW_HEADS:
        raise NotCapableError(f"B * N2 = {heads} key heads leave AIVs idle, and sequences beyond 768 could use them")
    if (
        shape.d == 128
        and 1 <= shape.b <= 6
        and shape.g >= 4
        and params.sparse_mode in {0, 3}
        and not call.has_drop
        and params.shape_of("pseShift") is None
    ):
        raise NotCapableError("D = 128 with few batches and G >= 4 is left to SameAB")


def check_deterministic(call: FagCall) -> None:
    """Leave the call to the next template if it need not be deterministic, or is long and 16-bit.

    Raises:
        NotCapableError: it is.
    """
    if not call.params.deterministic:
        raise NotCapableError("for deterministic calls")
    _require_same_d(call)
    if not call.is_fp32:
        _require_short(call)


def _require_short(call: FagCall) -> None:
    if max(call.shape.s1, call.shape.s2) >= _LONG:
        raise NotCapableError(f"needs S1 and S2 below {_LONG}")


def _require_same_d(call: FagCall) -> None:
    if call.params.shape_of("value") != call.params.shape_of("key"):
        raise NotCapableError("needs Dv = D")


# --- tiles ---


def custom_tile(call: FagCall) -> tuple[int, int] | None:
    """Return (singleM, singleN) of L1-custom, None where it does not apply.

    L1 holds singleN rows of K and V and, with two buffers, singleM rows of Q and dY, beside a block of dS.
    """
    shape = call.shape
    suits = (
        call.params.dtype == "bf16"
        and not shape.is_tnd
        and call.pse is None
        and call.mask is None
        and not call.has_drop
        and call.params.sparse_mode == 0
        and min(shape.s1, shape.s2) > (500 if shape.d == 128 else 256)
        and shape.d in {72, 88, 128}
    )
    if not suits:
        return None
    unit, longest = (128, _CUSTOM_LONGEST_N) if shape.d == 128 else (64, shape.s2 + 128)
    single_n = min(align_up(shape.s2, 128), longest)
    room = _CUSTOM_L1_BYTES - _CUSTOM_DS_BYTES - single_n * shape.d_aligned * 4
    single_m = room // (8 * shape.d_aligned) // unit * unit
    return min(single_m, align_up(shape.s1, unit)), single_n


def vector_tile(call: FagCall) -> tuple[int, int]:
    """Return (rows, columns) of the vector tile, of at most 8192 elements."""
    s1, s2 = call.shape.s1, call.shape.s2
    if call.shape.d <= 64 and s2 >= 256:
        return 32, 256
    rows, columns = 64, 128
    if s2 < columns and s1 > rows:
        columns = align_up(s2, CUBE)
        rows = _TILE_ELEMENTS // columns // CUBE * CUBE
        rows = 224 if rows > _REPEAT_LIMIT else rows
    elif s2 > columns and s1 < rows:
        rows = s1
        columns = _TILE_ELEMENTS // rows // CUBE * CUBE
    rows, columns = min(rows, _MOST_ROWS), min(columns, _MOST_COLUMNS)
    if call.has_drop or call.mask is not None:
        columns = align_up(columns, DATABLOCK_BYTES)
        rows = min(_TILE_ELEMENTS // columns, _MOST_ROWS)
        columns = min(columns, _MOST_COLUMNS)
    return rows, columns


@dataclass(frozen=True, slots=True)
class _CubeTile:
    """The base block prescribed for the score products, and how many of them make a score tile."""

    base_m: int
    base_n: int
    s1_ratio: int
    s2_ratio: int
    is_fixed: bool = False
    """The base block of dK and dV is prescribed, too."""


def _cube_tile(call: FagCall) -> _CubeTile:
    shape = call.shape
    base_m, base_n = (128, 256) if shape.d <= 64 and shape.s2 >= 256 else (128, 128)
    ratio, is_fixed = 4, False
    if shape.layout == "SBH" and shape.b * shape.n2 * shape.d > _STRIDE_LIMIT:
        return _CubeTile(base_m, base_n, 1, ratio)
    if shape.d > 64 and shape.s2 < 512:
        base_m, base_n = min(256, shape.s1_aligned), min(128, shape.s2_aligned)
        is_fixed = True
    elif shape.d > 64 and 512 < shape.s2 < _LONG and call.platform.l2_bytes > _LARGE_L2_BYTES:
        ratio = 8
    s2_ratio = min(ceil_div(shape.s2, base_n), ratio)
    s1_ratio = ratio // s2_ratio
    if s1_ratio * base_m > shape.s1:
        s1_ratio = ceil_div(shape.s1, base_m)
    return _CubeTile(base_m, base_n, max(s1_ratio, 1), max(s2_ratio, 1), is_fixed)


def _tiles(call: FagCall, override: TileOverride, used_cores: int) -> FagTiles:
    shape = call.shape
    custom, cube = custom_tile(call), _cube_tile(call)
    own_s1, own_s2 = custom or (cube.base_m * cube.s1_ratio, cube.base_n * cube.s2_ratio)
    cv_s1, cv_s2 = override.cv_s1 or own_s1, override.cv_s2 or own_s2
    rows, columns = vector_tile(call)
    d_aligned = align_up(shape.d, DATABLOCK_BYTES // call.element_bytes)
    strip = min(_ROW_STRIP, cv_s1 // 2 if custom else cv_s1)
    return FagTiles(
        used_cores=used_cores,
        cv_s1=cv_s1,
        cv_s2=cv_s2,
        vec_s1=override.vec_s1 or rows,
        vec_s2=override.vec_s2 or columns,
        outer_s1=ceil_div(shape.s1, cv_s1),
        outer_s2=ceil_div(shape.s2, cv_s2),
        is_l1_custom=custom is not None,
        is_score_nz=not call.is_fp32 and not shape.is_tnd,
        is_gradient_nz=not call.is_fp32 and not shape.is_tnd and shape.d in NZ_HEAD_SIZES,
        row_term_columns=d_aligned,
        row_term_rows=min(_TILE_ELEMENTS // d_aligned, strip),
    )


@dataclass(frozen=True, slots=True)
class _Cores:
    """Cores that take heads, AIVs of the passes around, and slices the launch is for."""

    used: int
    around: int
    slices: int


def _cores(call: FagCall) -> _Cores:
    """Return the cores; few short heads use no more than there are heads."""
    shape, aiv = call.shape, call.platform.aiv_cores
    is_custom = custom_tile(call) is not None
    main = call.platform.aic_cores if is_custom else aiv
    heads = shape.b * shape.n2
    if heads >= aiv:
        return _Cores(main, aiv, aiv)
    few = min(heads, main)
    if shape.is_tnd:
        return _Cores(few, heads, aiv)
    if heads * min(shape.s1, shape.s2) * shape.d // aiv * FLOAT_BYTES < _LEAST_POST_BYTES:
        return _Cores(few, heads, few * 2 if is_custom else few)
    return _Cores(main, aiv, aiv)


# --- the tiling ---


def tile_call(call: FagCall, override: TileOverride) -> FagTiling:
    """Return the tiling.

    Raises:
        InputError: a prescribed tile this template has not.
        RefusedError: the matmul library finds no base block.
    """
    override.only("S1s2Bn2", "cv_s1", "cv_s2", "vec_s1", "vec_s2")
    cores = _cores(call)
    tiles = _tiles(call, override, cores.used)
    key = _key(call, tiles)
    drop_bytes = _drop_bytes(call, tiles)
    terms, offsets = _workspace(call, tiles, drop_bytes)
    return FagTiling(
        status="ok",
        tiling_key=encode_key(key),
        key_fields=key,
        block_dim=call.platform.launch(cores.slices),
        workspace_bytes=terms.size,
        terms=terms.total(),
        tiles=tiles,
        offsets=offsets,
        matmuls=_matmuls(call, tiles),
        band=narrow_band(call),
        pre=pre_pass(call, cores.around, (0, 0, 0), expands_mask=drop_bytes > 0),
        post=_post(call, tiles, cores.around),
    )


def _key(call: FagCall, tiles: FagTiles) -> KeyFields:
    shape = call.shape
    is_far = shape.layout == "SBH" and shape.b * shape.n1 * shape.d > _STRIDE_LIMIT
    return KeyFields(
        ub_axis_0=4,
        ub_axis_1=3,
        core_axis=1,
        dtype={"bf16": 2, "fp16": 0, "fp32": 1}[call.params.dtype],
        layout=wide_layout(call),
        matmul_config=int(is_far),
        score_nz=int(tiles.is_score_nz),
        gradient_nz=int(tiles.is_gradient_nz),
        drop=int(call.has_drop),
        pse=int(call.pse is not None),
        mask=int(call.mask is not None),
        l1_reuse=int(tiles.is_l1_custom),
        deterministic=int(call.params.deterministic),
    )


def _drop_bytes(call: FagCall, tiles: FagTiles) -> int:
    """Return the bytes of the expanded dropout mask: none where the vector tile's columns divide every key length."""
    shape = call.shape
    lengths = shape.kv_lens[: shape.b] if shape.is_tnd else (shape.s2,)
    if not call.has_drop or all(length % (tiles.vec_s2 or 1) == 0 for length in lengths):
        return 0
    return align_up(shape.scores, DATABLOCK_BYTES)


def _workspace(call: FagCall, tiles: FagTiles, drop_bytes: int) -> tuple[WorkspaceTerms, Accumulators]:
    terms = WorkspaceTerms()
    used = tiles.used_cores or 0
    tile = (tiles.cv_s1 or 0) * (tiles.cv_s2 or 0)
    score_bytes, half_bytes = align_up(tile * FLOAT_BYTES, 512), align_up(tile * call.element_bytes, 512)
    groups = used * 2 if tiles.is_l1_custom else used
    terms.add("system reserve", _RESERVE_BYTES, "32 MiB")
    terms.add_aligned("dropout mask", drop_bytes, "B * N1 * S1 * S2 bytes in whole datablocks")
    terms.add("S and dA", 2 * score_bytes * groups, "2 * singleM * singleN * 4 B in whole 512 bytes * cores")
    terms.add("A and dS", 4 * half_bytes * used, "4 * singleM * singleN * element bytes in whole 512 bytes * cores")
    starts = [
        terms.add_aligned(f"{name} sums", elements * FLOAT_BYTES, f"elements of {name}, D in whole fractals, * 4 B")
        for name, elements in zip(("dQ", "dK", "dV"), _sums(call), strict=True)
    ]
    slopes = slope_bytes(call, _SLOPE_ROWS, tnd_has_own=False)
    terms.add("inner pse", slopes * used, "tile of 16-bit elements in whole 512 bytes * cores")
    dq, dk, dv = (start - _RESERVE_BYTES for start in starts)
    return terms, Accumulators(dq, dk, dv)


def _sums(call: FagCall) -> tuple[int, int, int]:
    shape = call.shape
    d = shape.d if shape.is_tnd else shape.d_aligned
    return shape.q_rows * d, shape.kv_rows * d, shape.kv_rows * d


def _post(call: FagCall, tiles: FagTiles, cores: int) -> PostPass:
    """Return the post pass of TND; elsewhere heads are scaled and cast in the main loop, from a UB of 183 KiB."""
    if call.shape.is_tnd:
        return post_pass(call, cores, call.platform.ub_bytes, nz_spare=0)
    per_element = 8 if tiles.is_gradient_nz or call.is_fp32 else 6
    return PostPass(cores, _POST_UB_BYTES, _POST_UB_BYTES // per_element)


def _matmuls(call: FagCall, tiles: FagTiles) -> Matmuls:
    """Return the base blocks; no golden row holds those of this template."""
    shape, size = call.shape, call.element_bytes
    cv_s1, cv_s2 = tiles.cv_s1 or 0, tiles.cv_s2 or 0
    cube, custom = _cube_tile(call), tiles.is_l1_custom
    rows, columns = (128, 128) if custom else (min(cube.base_m, cv_s1), min(cube.base_n, cv_s2))
    fixed_m, fixed_n = None, None
    if tiles.is_gradient_nz:
        fixed_n = min(256, shape.d_aligned)
    if cube.is_fixed:
        fixed_m = min(256, shape.s2_aligned, cv_s2)
        fixed_n = fixed_n or min(128, shape.d_aligned)
    if custom:
        fixed_m, fixed_n = 128, None
    return Matmuls(
        scores=require_base(
            call, Product(cv_s1, cv_s2, shape.d, size, b_transposed=True, fixed_m=rows, fixed_n=columns)
        ),
        dk_dv=require_base(
            call, Product(cv_s2, shape.d, cv_s1, size, a_transposed=True, fixed_m=fixed_m, fixed_n=fixed_n)
        ),
        dq=require_base(call, Product(cv_s1, shape.d, cv_s2, size, fixed_m=128 if custom else None)),
    )
