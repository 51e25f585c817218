"""Template basic (1001): TND in blocks of 128 x 128, for plain and causal calls of equal lengths.

Source: ops-transformer op_host, flash_attention_score_grad tiling of S1s2Bn2gs1s2 basic.
"""

from ascendsim.op_host.fag_band import wide_band
from ascendsim.op_host.fag_call import CUBE, FagCall, NotCapableError
from ascendsim.op_host.fag_key import KeyFields, encode_key
from ascendsim.op_host.fag_params import LANES
from ascendsim.op_host.fag_result import FagTiles, FagTiling, TileOverride
from ascendsim.op_host.fag_tiling_same_ab import add_sums, sum_elements
from ascendsim.op_host.fag_workspace import FLOAT_BYTES, MIB, WorkspaceTerms

_RESERVE_BYTES = 16 * MIB
_BLOCK = 128
_BLOCKS_PER_ROUND = 16
_BUFFERS = 2
_LARGEST_D = 128
_LONGEST = 32768
_MASK_SIDE = 2048
_CAUSAL_MODES = frozenset({2, 3})


def check_capable(call: FagCall) -> None:
    """Leave the call to the next template unless it is a plain or causal TND call of equal lengths.

    Raises:
        NotCapableError: it is not.
    """
    shape, params = call.shape, call.params
    mask = params.shape_of("attenMask")
    if mask is not None and (len(mask) != 2 or _MASK_SIDE not in mask):
        raise NotCapableError("takes a mask of 2048 x 2048 only")
    if not shape.is_tnd:
        raise NotCapableError("takes layout TND only")
    if params.shape_of("qStartIdx") is not None or params.shape_of("kvStartIdx") is not None:
        raise NotCapableError("takes no start index")
    if call.is_fp32 or params.deterministic:
        raise NotCapableError("takes fp16 and bf16 only, and is not deterministic")
    if params.shape_of("pseShift") is not None or params.pse_type != 1:
        raise NotCapableError("takes no pse")
    if params.shape_of("dropMask") is not None or call.has_drop:
        raise NotCapableError("drops no scores")
    if params.sparse_mode not in {0} | _CAUSAL_MODES or (params.sparse_mode == 0) != (mask is None):
        raise NotCapableError("takes sparse mode 0 without a mask, 2 and 3 with one")
    if shape.d != shape.dv or shape.d > _LARGEST_D or shape.d % CUBE:
        raise NotCapableError(f"needs D = Dv, a multiple of {CUBE} and at most {_LARGEST_D}")
    if shape.t1 != shape.t2 or shape.q_lens != shape.kv_lens or shape.s2 > _LONGEST:
        raise NotCapableError(f"needs equal query and key lengths of at most {_LONGEST}")


def tile_call(call: FagCall, override: TileOverride) -> FagTiling:
    """Return the tiling.

    Raises:
        InputError: a tile is prescribed; this template's are fixed.
    """
    override.only("basic_tnd")
    key = KeyFields(ub_axis_0=6, ub_axis_1=6, core_axis=6, dtype=2 if call.params.dtype == "bf16" else 3)
    terms = WorkspaceTerms()
    terms.add("system reserve", _RESERVE_BYTES, "16 MiB")
    dq, dk, _ = sum_elements(call, is_nz=False)
    offsets = add_sums(terms, (dq, dk, dk))
    terms.add_stepped("row term", call.shape.q_rows * LANES * FLOAT_BYTES, "T1 * N1 rows * 8 * 4 B")
    scores = call.platform.aic_cores * _BLOCKS_PER_ROUND * _BLOCK * _BLOCK * FLOAT_BYTES * _BUFFERS
    for name in ("S", "dA"):
        terms.add_stepped(name, scores, "AICs * 16 blocks of 128 * 128 * 4 B * 2")
    terms.add("second reserve", _RESERVE_BYTES, "16 MiB")
    return FagTiling(
        status="ok",
        tiling_key=encode_key(key),
        key_fields=key,
        block_dim=call.platform.aic_cores,
        workspace_bytes=terms.size,
        terms=terms.total(),
        tiles=FagTiles(cv_s1=_BLOCK, cv_s2=_BLOCK, vec_s1=_BLOCK // 2, vec_s2=_BLOCK),
        offsets=offsets,
        band=wide_band(call, prefix_is_causal=False),
    )
