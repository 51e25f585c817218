"""Host tiling of LaserAttentionGrad: tiling id, workspace, what is cleared at launch, the pass behind the kernel.

The workspace holds, in this order: the system's 16 MiB; float sums of dQ, dK and dV; S and dP, twice 16 blocks for each
AIC; bf16 copies of Q, K, V, O and dO for layout SBH, which BNSD pays for, too; 10 MiB behind all.

Source: ascend-transformer-boost, laser_attention_grad host tiling (sizes, fields), kernel entry (order of the areas).
"""

from dataclasses import dataclass
from typing import Final

from ascendsim.device import Device
from ascendsim.op_host.fag_workspace import FLOAT_BYTES, MIB, WorkspaceTerm, WorkspaceTerms
from ascendsim.op_host.lag_blocks import BLOCK, BLOCKS_PER_CORE, BlockMap, block_map
from ascendsim.op_host.lag_params import NARROW_D, WIDE_D, WIDE_KEY_D, LagCall
from ascendsim.terms import ceil_div

BAND_ID: Final = 3
"""Tiling id of the kernels for no mask, the whole triangle, and heads of 192."""
WINDOW_ID: Final = 2
"""Tiling id of the kernels for the trapezoid."""
TILING_BYTES: Final = 512
"""Size of the struct that the kernel gets."""
SYSTEM_BYTES: Final = 16 * MIB
END_BYTES: Final = 10 * MIB

_TWICE: Final = 2
"""Areas of S, and of dP: rounds alternate."""
_NARROW_BYTES: Final = 2
_UINT32: Final = 2**32
_LAUNCHED: Final = {25: 24}
"""Blocks launched where a chip reports so many AICs; of other counts all."""
_UB_RESERVED: Final = 1024
_UB_SHARES: Final = 6
"""Bytes of an element of the pass behind the kernel: a float and 2 bytes."""
_POST_UNIT: Final = 16


@dataclass(frozen=True, slots=True)
class LagPlatform:
    """What the tiling asks the platform for: core counts, and UB [bytes] as the hardware has it."""

    aic_cores: int
    aiv_cores: int
    ub_bytes: int


def lag_platform(device: Device) -> LagPlatform:
    """Return the device as the tiling sees it."""
    return LagPlatform(device.aic, device.aiv, device.ub_bytes)


@dataclass(frozen=True, slots=True)
class PostSplit:
    """How the pass behind the kernel deals one gradient to AIVs.

    Attributes:
        front_cores: AIVs with front_data elements; those behind have tail_data.
        front_data, tail_data: elements.
    """

    front_cores: int
    front_data: int
    tail_data: int

    def share(self, core: int) -> tuple[int, int]:
        """Return (first element, elements) of an AIV."""
        front = min(core, self.front_cores)
        first = front * self.front_data + (core - front) * self.tail_data
        return first, self.front_data if core < self.front_cores else self.tail_data


@dataclass(frozen=True, slots=True)
class LagTiling:
    """All that the tiling decides; names are those of the golden columns.

    Attributes:
        tiling_id: 2 for the trapezoid, else 3.
        block_dim: AI Cores to launch.
        td_block_dim: AICs that the chip reports, by which the kernel places dP and the copies.
        blocks_per_core: blocks of a core in a round.
        is_triangle, sparse_mode, atten_type: whether there is a mask, a window, and fewer key heads than query heads.
        head_group_size: query heads of a key head.
        window_len: keys before its own that a query sees, 0 without a mask.
        mask_seq_length: rows of the mask, 0 without.
        dq_elems, dk_elems, dv_elems: floats of the sums, as far as 32 bits hold their bytes.
        post_base_num: elements of one step of the pass behind.
        post_dq, post_dk, post_dv: how it deals them.
        terms: parts of the workspace.
        workspace_bytes: their sum.
        memset_bytes: cleared at launch, from the start of the workspace on.
        output_workspace_offset_f32: a field that no kernel reads [floats].
        uint32_wrap: bytes of a sum that were to be cleared do not fit 32 bits.
        blocks: the map of blocks.
    """

    tiling_id: int
    block_dim: int
    td_block_dim: int
    blocks_per_core: int
    is_triangle: bool
    atten_type: int
    sparse_mode: int
    head_group_size: int
    window_len: int
    mask_seq_length: int
    dq_elems: int
    dk_elems: int
    dv_elems: int
    post_base_num: int
    post_dq: PostSplit
    post_dk: PostSplit
    post_dv: PostSplit
    terms: tuple[WorkspaceTerm, ...]
    workspace_bytes: int
    memset_bytes: int
    output_workspace_offset_f32: int
    uint32_wrap: bool
    blocks: BlockMap

    def fields(self) -> dict[str, int]:
        """Return the golden columns, those of the block map as derived_*."""
        names = (
            "tiling_id", "block_dim", "workspace_bytes", "memset_bytes", "td_block_dim", "blocks_per_core",
            "is_triangle", "atten_type", "sparse_mode", "head_group_size", "window_len", "mask_seq_length",
            "dq_elems", "dk_elems", "dv_elems", "post_base_num",
        )  # fmt: skip
        found = {name: int(getattr(self, name)) for name in names}
        for name in ("dq", "dk", "dv"):
            split: PostSplit = getattr(self, f"post_{name}")
            found |= {
                f"post_{name}_front_cores": split.front_cores,
                f"post_{name}_front_data": split.front_data,
                f"post_{name}_tail_data": split.tail_data,
            }
        return found | {
            "output_workspace_offset_f32": self.output_workspace_offset_f32,
            "tiling_bytes": TILING_BYTES,
            "uint32_wrap": int(self.uint32_wrap),
            "derived_rows": self.blocks.rows,
            "derived_cols": self.blocks.columns,
            "derived_total_blocks": self.blocks.total_blocks,
            "derived_rounds": self.blocks.rounds,
        }


def lag_tiling(call: LagCall, platform: LagPlatform) -> LagTiling:
    """Return the tiling of a call that the operator takes."""
    cores = _LAUNCHED.get(platform.aic_cores, platform.aic_cores)
    whole = {"dQ": call.q_elements, "dK": call.k_elements, "dV": call.v_elements}
    held = {name: elements * FLOAT_BYTES % _UINT32 for name, elements in whole.items()}
    terms = _terms(call, cores, held)
    base = (platform.ub_bytes - _UB_RESERVED) // _UB_SHARES // _TWICE
    scores = 2 * _TWICE * _area_bytes(cores)
    return LagTiling(
        tiling_id=WINDOW_ID if call.is_sparse else BAND_ID,
        block_dim=cores,
        td_block_dim=platform.aic_cores,
        blocks_per_core=BLOCKS_PER_CORE,
        is_triangle=call.has_mask,
        atten_type=int(call.Nq != call.Nkv),
        sparse_mode=int(call.is_sparse),
        head_group_size=call.head_group_size,
        window_len=call.window_len,
        mask_seq_length=call.Sq if call.has_mask else 0,
        dq_elems=held["dQ"] // FLOAT_BYTES,
        dk_elems=held["dK"] // FLOAT_BYTES,
        dv_elems=held["dV"] // FLOAT_BYTES,
        post_base_num=base // _POST_UNIT * _POST_UNIT,
        post_dq=_split(held["dQ"] // FLOAT_BYTES, platform.aiv_cores),
        post_dk=_split(held["dK"] // FLOAT_BYTES, platform.aiv_cores),
        post_dv=_split(held["dV"] // FLOAT_BYTES, platform.aiv_cores),
        terms=tuple(terms.terms),
        workspace_bytes=terms.size,
        memset_bytes=SYSTEM_BYTES + sum(held.values()),
        output_workspace_offset_f32=(scores + SYSTEM_BYTES + END_BYTES) // FLOAT_BYTES,
        uint32_wrap=any(elements * FLOAT_BYTES != held[name] for name, elements in whole.items()),
        blocks=block_map(call, cores),
    )


def _area_bytes(cores: int) -> int:
    """Bytes of S, or dP, of one round."""
    return cores * BLOCKS_PER_CORE * BLOCK * BLOCK * FLOAT_BYTES


def _split(elements: int, cores: int) -> PostSplit:
    return PostSplit(elements % cores, ceil_div(elements, cores), elements // cores)


def _terms(call: LagCall, cores: int, held: dict[str, int]) -> WorkspaceTerms:
    terms = WorkspaceTerms()
    terms.add("system", SYSTEM_BYTES, "16 MiB")
    shapes = {"dQ": ("Nq", "Sq", call.Dq), "dK": ("Nkv", "Skv", call.Dk), "dV": ("Nkv", "Skv", call.Dv)}
    for name, (heads, length, size) in shapes.items():
        terms.add(f"{name} sums", held[name], f"4 * B * {heads} * {length} * {size}, modulo 2^32")
    for name in ("S", "dP"):
        terms.add(name, _TWICE * _area_bytes(cores), "2 * block_dim * 16 * 128 * 128 * 4")
    query, key = call.B * call.Nq * call.Sq, call.B * call.Nkv * call.Skv
    for name, rows, formula in (
        ("Q copy", query * WIDE_D, "2 * B * Nq * Sq * 192"),
        ("K copy", key * WIDE_KEY_D, "2 * B * Nkv * Skv * 256"),
        ("V copy", key * NARROW_D, "2 * B * Nkv * Skv * 128"),
        ("O copy", query * NARROW_D, "2 * B * Nq * Sq * 128"),
        ("dO copy", query * NARROW_D, "2 * B * Nq * Sq * 128"),
    ):
        terms.add(name, _NARROW_BYTES * rows, formula)
    terms.add("end", END_BYTES, "10 MiB")
    return terms
