"""Maps of the memories of an AIV and an AIC in each phase of FlashAttentionScoreGrad, and what does not fit.

UB places are the kernel's own and do not move with the tile: a prescribed tile may be larger than its place. L1 and L0
are shown as far as sources say: the matmul library's own use of L1 is not published, so there its operands are a lower
bound, one base block and the next.

Source: ops-transformer op_kernel, flash_attention_score_grad: InitBuffer and offsets of each template; base blocks of
the host tiling.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ascendsim.device import Device
from ascendsim.errors import Finding, Rule
from ascendsim.op_host import fag_tiling_b, fag_tiling_n
from ascendsim.op_host.fag_call import CUBE, FagCall
from ascendsim.op_host.fag_passes import ND_BUFFERS, NZ_BUFFERS
from ascendsim.op_host.fag_result import FagTiling, PostPass, PrePass, RowTermPass
from ascendsim.op_host.fag_workspace import FLOAT_BYTES
from ascendsim.op_host.matmul_base import BaseBlock
from ascendsim.terms import DATABLOCK_BYTES, Buffer, align_up

KIB: Final = 1024
_HALF_BYTES = 2
_NOT_USED = 0

FIT = Rule(
    "E-FAG-FIT",
    "{operand} needs {got} B, its place has {wanted} B",
    "prescribe a smaller tile, or leave the choice to the operator",
    "ops-transformer op_kernel, flash_attention_score_grad, InitBuffer and offsets",
    condition="A part of a FlashAttentionScoreGrad tile is larger than the place that the kernel keeps for it.",
    archs=(2201,),
)


@dataclass(frozen=True, slots=True)
class Area:
    """A place in a memory.

    Attributes:
        name: what lies there.
        start_bytes, bytes: where, and how large.
        needed_bytes: what this call fills of it; 0 for what the call has not, None where nobody says.
    """

    name: str
    start_bytes: int
    bytes: int
    needed_bytes: int | None

    @property
    def end_bytes(self) -> int:
        """First byte behind it."""
        return self.start_bytes + self.bytes


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """A memory in one phase.

    Attributes:
        phase: pre, row term, main or post, and for L0 the product.
        memory: which.
        capacity_bytes: of it, for UB what the platform query names.
        areas: in the order of their places, without overlap.
        note: what to know.
    """

    phase: str
    memory: Buffer
    capacity_bytes: int
    areas: tuple[Area, ...]
    note: str = ""

    @property
    def used_bytes(self) -> int:
        """Bytes of all areas."""
        return sum(area.bytes for area in self.areas)

    @property
    def free_bytes(self) -> int:
        """Bytes of no area; negative if they are larger than the memory."""
        return self.capacity_bytes - self.used_bytes

    def findings(self) -> Iterator[Finding]:
        """Yield what does not fit."""
        where = f"{self.phase}, {self.memory.name}"
        for area in self.areas:
            if area.needed_bytes is not None and area.needed_bytes > area.bytes:
                yield FIT.finding(where, operand=area.name, got=area.needed_bytes, wanted=area.bytes)
        if self.free_bytes < 0:
            yield FIT.finding(where, operand="all of it", got=self.used_bytes, wanted=self.capacity_bytes)


@dataclass(frozen=True, slots=True)
class _Tile:
    """Bytes that parts of a vector sub-tile fill; 0 for what the call has not.

    Float tiles are stored as they are, and where the kernel puts a float pse is not published.
    """

    score: int
    plain: int
    narrow: int
    pse: int
    mask: int
    drop: int
    row: int
    """One statistic of all rows."""


def _tile(call: FagCall, tiling: FagTiling) -> _Tile:
    """Return the bytes of a full sub-tile; NZ has a gap of a datablock behind each 16 columns."""
    tiles = tiling.tiles
    has_bytes = call.mask is not None or call.has_drop
    rows = tiles.vec_s1 or 0
    width = align_up(tiles.vec_s2 or 0, DATABLOCK_BYTES if has_bytes else CUBE)
    gap = width // CUBE * DATABLOCK_BYTES if tiles.is_score_nz else 0
    return _Tile(
        score=rows * width * FLOAT_BYTES + gap,
        plain=rows * width * FLOAT_BYTES,
        narrow=_NOT_USED if call.is_fp32 else rows * width * call.element_bytes + gap,
        pse=rows * width * _HALF_BYTES if call.pse is not None and not call.is_fp32 else _NOT_USED,
        mask=rows * width if call.mask is not None else _NOT_USED,
        drop=rows * width if call.has_drop else _NOT_USED,
        row=rows * DATABLOCK_BYTES,
    )


Places = tuple[tuple[str, int, int | None], ...]
"""(what, KiB, bytes needed), one behind the other."""


def _placed(places: Places, start_bytes: int = 0) -> tuple[Area, ...]:
    """Return areas that follow one another."""
    areas = []
    for name, size, needed in places:
        areas.append(Area(name, start_bytes, size * KIB, needed))
        start_bytes += size * KIB
    return tuple(areas)


# --- UB of the main phase ---


def _same_ab_ub(call: FagCall, tiling: FagTiling) -> tuple[Area, ...]:
    t = _tile(call, tiling)
    return _placed(
        (
            ("S", 33, t.score),
            ("pse, then A", 17, max(t.pse, t.narrow)),
            ("attenMask", 8, t.mask),
            ("sum, max", 8, 2 * t.row),
            ("dropMask for A", 8, t.drop),
            ("P", 33, t.plain),
            ("dA, then dS", 33, t.score),
            ("dropMask for dA", 8, t.drop),
            ("temp of select, softmax, dropout, NZ", 33, t.score),
            ("row term D", 8, t.row),
        )
    )


def _basic_ub(call: FagCall, tiling: FagTiling) -> tuple[Area, ...]:
    t = _tile(call, tiling)
    corner = 128 * 128 if call.mask is not None else _NOT_USED
    return _placed(
        (
            ("S", 33, t.score),
            ("A", 17, t.narrow),
            ("attenMask, its corner", 16, corner),
            ("sum, max", 8, 2 * t.row),
            ("P", 33, t.plain),
            ("dA, then dS", 33, t.score),
            ("not used", 8, _NOT_USED),
            ("temp of select, softmax", 33, t.score),
            ("row term D", 8, t.row),
        )
    )


def _last_ub(call: FagCall, tiling: FagTiling) -> tuple[Area, ...]:
    """Ping and pong of 75 KiB each; dA comes on the places of pse, A, mask and statistics, used up by then."""
    t = _tile(call, tiling)
    half: Places = (
        ("S, then P", 33, t.score),
        ("pse, A; later dA", 18, max(t.pse, t.narrow)),
        ("attenMask; later dA", 8, t.mask),
        ("sum, max", 8, 2 * t.row),
        ("dropMask", 8, t.drop),
    )
    ping, pong = (tuple((f"{side} {name}", size, needed) for name, size, needed in half) for side in ("ping", "pong"))
    return _placed((*ping, *pong, ("temp", 33, t.score), ("row term D", 8, t.row)))


def _bn2_ub(call: FagCall, tiling: FagTiling) -> tuple[Area, ...]:
    t = _tile(call, tiling)
    rows = (tiling.tiles.row_term_rows or 0) * DATABLOCK_BYTES
    half: Places = (
        ("attenMask; later dA", 9, t.mask),
        ("pse, A; later dA", 17, max(t.pse, t.narrow)),
        ("sum", 4, t.row),
        ("max", 4, t.row),
        ("dropMask", 8, t.drop),
        ("S, then P", 33, t.score),
    )
    ping, pong = (tuple((f"{side} {name}", size, needed) for name, size, needed in half) for side in ("ping", "pong"))
    return _placed((("temp", 33, t.score), *ping, *pong, ("row term D", 8, rows)))


def _row_by_row(areas: tuple[tuple[str, int], ...], temp_bytes: int) -> tuple[Area, ...]:
    placed, start = [], 0
    for name, size in (*areas, ("temp of API calls", temp_bytes)):
        if size:
            placed.append(Area(name, start, size, None))
        start += size
    return tuple(placed)


def _n_ub(call: FagCall, tiling: FagTiling) -> tuple[Area, ...]:
    assert tiling.split is not None
    return _row_by_row(fag_tiling_n.ub_areas(call, tiling.split.units), tiling.split.api_temp_bytes)


def _b_ub(call: FagCall, tiling: FagTiling) -> tuple[Area, ...]:
    assert tiling.split is not None
    return _row_by_row(fag_tiling_b.ub_areas(call, tiling.split.units), tiling.split.api_temp_bytes)


_MAIN_UB: Final[dict[str, Callable[[FagCall, FagTiling], tuple[Area, ...]]]] = {
    "SameAB": _same_ab_ub,
    "SameAB_deterministic": _same_ab_ub,
    "basic_tnd": _basic_ub,
    "S1s2Bn2gs1s2": _last_ub,
    "S1s2Bn2gs1s2_tnd": _last_ub,
    "S1s2Bn2": _bn2_ub,
    "S1s2Bn2_deterministic": _bn2_ub,
    "Ngs1s2_BN": _n_ub,
    "Ungs1s2_B": _b_ub,
}


# --- UB of the other phases ---


def _in_bytes(*areas: tuple[str, int, int | None]) -> tuple[Area, ...]:
    placed, start = [], 0
    for name, size, needed in areas:
        placed.append(Area(name, start, size, needed))
        start += size
    return tuple(placed)


def _pre_ub(passed: PrePass) -> tuple[Area, ...]:
    step = passed.mask_step_elements
    return _in_bytes(
        ("mask bits", passed.in_bytes, step // 8),
        ("as half", passed.cast_bytes, step * _HALF_BYTES),
        ("as bytes", passed.out_bytes, step),
    )


def row_term_ub(call: FagCall, passed: RowTermPass) -> tuple[Area, ...]:
    """Return the places in UB of SameAB's row-term pass."""
    elements = passed.rows_per_step * call.shape.dv_aligned
    narrow, wide = elements * call.element_bytes, elements * FLOAT_BYTES
    return _in_bytes(
        ("dY", passed.in_bytes, narrow),
        ("O", passed.in_bytes, narrow),
        ("dY in float", passed.cast_bytes, wide),
        ("O in float", passed.cast_bytes, wide),
        ("D", align_up(passed.out_bytes, DATABLOCK_BYTES), passed.rows_per_step * DATABLOCK_BYTES),
        ("temp of SoftmaxGradFront", passed.temp_bytes, None),
    )


def row_term_in_main(call: FagCall, tiling: FagTiling) -> tuple[Area, ...]:
    """Return the places in UB of the row term inside the main loop, before the tiles take the same places.

    Float rows need no copy (inferred).
    """
    tiles = tiling.tiles
    columns = align_up(tiles.row_term_columns or 0, DATABLOCK_BYTES // call.element_bytes)
    is_last = tiling.template.startswith("S1s2Bn2gs1s2")
    rows = (tiles.vec_s1 if is_last else tiles.row_term_rows) or 0
    wide = rows * columns * FLOAT_BYTES
    narrow = _NOT_USED if call.is_fp32 else rows * columns * call.element_bytes
    inputs: Places = (("dY", 16, narrow), ("O", 16, narrow))
    copies: Places = (("dY in float", 32, wide), ("O in float", 32, wide))
    if is_last:
        return _placed((*copies, *inputs, ("temp", 32, None), ("partial D", 8, rows * DATABLOCK_BYTES)))
    return _placed((*inputs, *copies, ("temp", 64, None)))


def _post_ub(call: FagCall, tiling: FagTiling, passed: PostPass) -> tuple[Area, ...]:
    """Return the buffers of the post pass; how NZ uses its ten is not published."""
    base, step = passed.buffer_bytes, passed.step_elements
    if _is_bn2(tiling) and not call.shape.is_tnd:
        return _in_bytes(("sums, result", base, None))
    if tiling.tiles.is_gradient_nz:
        return _in_bytes(*((f"buffer {number}", base, None) for number in range(NZ_BUFFERS)))
    if call.is_fp32:
        return _in_bytes(*((f"buffer {number}", base, step * FLOAT_BYTES) for number in range(ND_BUFFERS)))
    return _in_bytes(("sums", 2 * base, step * FLOAT_BYTES), ("result", base, step * call.element_bytes))


def _is_bn2(tiling: FagTiling) -> bool:
    return tiling.template in ("S1s2Bn2", "S1s2Bn2_deterministic")


# --- L1 and L0 ---


def _l1(call: FagCall, tiling: FagTiling) -> tuple[tuple[Area, ...], str]:
    """Return the areas of L1 and a note."""
    tiles, shape = tiling.tiles, call.shape
    size = call.element_bytes
    if tiling.template == "basic_tnd":
        block = 128 * shape.d_aligned * size
        names = ("A ping", "A pong", "B ping", "B pong")
        return _placed(tuple((name, 128, max(block, 128 * 128 * size)) for name in names)), ""
    if tiles.is_l1_custom and tiling.template == "S1s2Bn2":
        row = shape.d_aligned * size
        keys, queries = 2 * (tiles.cv_s2 or 0) * row, 4 * (tiles.cv_s1 or 0) * row
        block = 128 * 128 * size
        return _in_bytes(("K, V", keys, keys), ("Q, dY, twice", queries, queries), ("dS", block, block)), ""
    if tiles.is_l1_custom:
        return _custom_l1(call, tiling), "L1-custom: operands pinned by the kernel"
    least = max((_operands(block, size) for block in _products(tiling).values()), default=0)
    return _in_bytes(("a base block and the next, A and B", least, least)), "the matmul library keeps more as it likes"


def _custom_l1(call: FagCall, tiling: FagTiling) -> tuple[Area, ...]:
    """Operands that SameAB keeps: which of them share a place depends on D."""
    d, size = call.shape.d_aligned, call.element_bytes
    rows, columns = tiling.tiles.cv_s1 or 0, tiling.tiles.cv_s2 or 0
    if call.shape.d == 64:
        most = 14 * 128 * 128 * size
        return _placed((("K", 64, columns * d * size), ("Q, dY, V, blocks of A and dS", 448, most)))
    if call.shape.d == 128:
        slice_bytes = 256 * rows * size
        return _placed(
            (("Q, dY", 128, rows * d * size), ("K, V", 128, columns * d * size), ("A, dS", 256, slice_bytes))
        )
    return _placed((("left operands", 256, 256 * d * size), ("right operands", 256, 256 * d * size)))


def _products(tiling: FagTiling) -> dict[str, BaseBlock]:
    if tiling.matmuls is not None:
        return {"S and dA": tiling.matmuls.scores, "dQ": tiling.matmuls.dq, "dK and dV": tiling.matmuls.dk_dv}
    return {}


def _operands(block: BaseBlock, size: int) -> int:
    return 2 * (block.m + block.n) * block.k * size


def _l0(call: FagCall, tiling: FagTiling) -> Iterator[MemoryMap]:
    """L0A, L0B and L0C of each product: the base block, twice where two fit."""
    platform, size = call.platform, call.element_bytes
    products = _products(tiling) or {"all": BaseBlock(128, 128, min(128, call.shape.d_aligned))}
    for block in dict.fromkeys(products.values()):
        name = "; ".join(name for name, its in products.items() if its == block)
        for memory, capacity, needed in (
            (Buffer.L0A, platform.l0a_bytes, block.m * block.k * size),
            (Buffer.L0B, platform.l0b_bytes, block.n * block.k * size),
            (Buffer.L0C, platform.l0c_bytes, block.m * block.n * FLOAT_BYTES),
        ):
            what = f"{block.m} x {block.k}" if memory is Buffer.L0A else f"{block.k} x {block.n}"
            what = f"{block.m} x {block.n}" if memory is Buffer.L0C else what
            copies = ("ping", "pong") if 2 * needed <= capacity else ("one",)
            areas = _in_bytes(*((f"{what} {copy}", needed, needed) for copy in copies))
            yield MemoryMap(f"main, {name}", memory, capacity, areas)


# --- all of it ---


def main_ub(call: FagCall, tiling: FagTiling) -> tuple[Area, ...]:
    """Return the places in UB of the main phase; arguments as `memory_maps`, of a template that has a kernel."""
    return _MAIN_UB[tiling.template](call, tiling)


def memory_maps(call: FagCall, tiling: FagTiling, device: Device) -> tuple[MemoryMap, ...]:
    """Return the maps of all phases.

    Args:
        call: as the kernel gets it.
        tiling: of it, not refused.
        device: the part; L1 counts whole, although the platform query names less.
    """
    if tiling.template not in _MAIN_UB:
        return ()
    ub = call.platform.ub_bytes
    maps = []
    if tiling.pre is not None and tiling.pre.expands_mask:
        maps.append(MemoryMap("pre", Buffer.UB, ub, _pre_ub(tiling.pre), "bits of the dropout mask to bytes"))
    if tiling.row_term is not None:
        maps.append(MemoryMap("row term", Buffer.UB, ub, row_term_ub(call, tiling.row_term)))
    elif tiling.template.startswith("S1s2Bn2"):
        maps.append(MemoryMap("row term", Buffer.UB, ub, row_term_in_main(call, tiling), "inside the main phase"))
    maps.append(MemoryMap("main", Buffer.UB, ub, main_ub(call, tiling)))
    areas, note = _l1(call, tiling)
    maps.append(MemoryMap("main", Buffer.L1, device.buffer_bytes(Buffer.L1), areas, note))
    maps += _l0(call, tiling)
    if tiling.post is not None:
        maps.append(MemoryMap("post", Buffer.UB, ub, _post_ub(call, tiling, tiling.post)))
    return tuple(maps)
