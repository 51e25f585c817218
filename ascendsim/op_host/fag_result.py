"""What the tiling of FlashAttentionScoreGrad decides, and what a caller may prescribe.

Source: ops-transformer op_host, flash_attention_score_grad tilings.
"""

from dataclasses import dataclass, fields
from typing import Literal

from ascendsim.errors import InputError
from ascendsim.op_host.fag_band import Band
from ascendsim.op_host.fag_key import KeyFields
from ascendsim.op_host.fag_workspace import WorkspaceTerm
from ascendsim.op_host.matmul_base import BaseBlock

TemplateName = Literal[
    "",
    "empty_output",
    "S1s2Bn2_deterministic",
    "basic_tnd",
    "SameAB_deterministic",
    "S1s2Bn2gs1s2_tnd",
    "Ungs1s2_B",
    "Ngs1s2_BN",
    "S1s2Bn2",
    "SameAB",
    "S1s2Bn2gs1s2",
]


@dataclass(frozen=True, slots=True)
class TileOverride:
    """Tile sizes a caller prescribes; None leaves the template's own, the rest follows from them.

    Attributes:
        cv_s1, cv_s2: score tile handed from cube to vector.
        vec_s1, vec_s2: vector tile.
        units: batches (template B) or heads (template N) of one vector pass.
        cv_units: batches or heads whose scores the cube hands over together, a multiple of `units`.
    """

    cv_s1: int | None = None
    cv_s2: int | None = None
    vec_s1: int | None = None
    vec_s2: int | None = None
    units: int | None = None
    cv_units: int | None = None

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            if value < 1:
                raise InputError(f"{name} = {value}: must be at least 1")

    def given(self) -> dict[str, int]:
        """Return what is prescribed, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}

    def only(self, template: str, *names: str) -> None:
        """Refuse what the template has not.

        Raises:
            InputError: something else than `names` is prescribed.
        """
        others = [name for name in self.given() if name not in names]
        if others:
            has = f"it takes {', '.join(names)}" if names else "it takes none"
            raise InputError(f"template {template} has no {', '.join(others)} to prescribe; {has}")


@dataclass(frozen=True, slots=True)
class FagTiles:
    """Tile sizes [rows and columns of scores] and counts; None where the template has no such thing.

    Attributes:
        cv_s1, cv_s2: score tile handed from cube to vector.
        vec_s1, vec_s2: vector tile; for SameAB that of a whole score tile, which the kernel chooses.
        outer_s1, outer_s2: score tiles along S1 and S2.
        used_cores: AIVs that work; AICs in L1-custom of S1s2Bn2.
        is_l1_custom: the cube keeps operands in L1 by itself.
        is_score_nz, is_gradient_nz: S and dA, or dQ, dK and dV, leave the cube in NZ.
        valid_blocks, blocks_per_core: score tiles with work in them, and the most for one core (S1s2Bn2gs1s2).
        row_term_columns: columns of D that the row term takes at a time (S1s2Bn2gs1s2, S1s2Bn2, B and N).
        row_term_rows: rows it takes at a time, None where that is vec_s1.
        is_row_ping_pong: the row term has two buffers (S1s2Bn2gs1s2).
    """

    used_cores: int | None = None
    cv_s1: int | None = None
    cv_s2: int | None = None
    vec_s1: int | None = None
    vec_s2: int | None = None
    outer_s1: int | None = None
    outer_s2: int | None = None
    is_l1_custom: bool = False
    is_score_nz: bool = False
    is_gradient_nz: bool = False
    valid_blocks: int | None = None
    blocks_per_core: int | None = None
    row_term_columns: int | None = None
    row_term_rows: int | None = None
    is_row_ping_pong: bool = False


@dataclass(frozen=True, slots=True)
class UnitSplit:
    """How templates B and N cut batches or heads.

    Attributes:
        axis: what is cut, batches or heads.
        units: of one vector pass.
        cv_units: whose scores the cube hands over together.
        groups: of cv_units, in B over all batches, in N over the heads of one batch.
        s2_aligned: S2 in whole datablocks of 16-bit elements.
        drop_bytes: workspace of the dropout mask, one byte a score.
        api_temp_bytes: UB left for the temp of the library calls.
    """

    axis: Literal["batch", "head"]
    units: int
    cv_units: int
    groups: int
    s2_aligned: int
    drop_bytes: int
    api_temp_bytes: int


@dataclass(frozen=True, slots=True)
class Accumulators:
    """Where the float sums of the gradients start [bytes], None where the output tensor itself is summed into.

    Counted from the start of the user workspace; for basic_tnd from the start of the whole workspace.
    """

    dq: int
    dk: int
    dv: int | None


@dataclass(frozen=True, slots=True)
class Matmuls:
    """Base blocks of the matrix products: S and dA; dK and dV; dQ."""

    scores: BaseBlock
    dk_dv: BaseBlock
    dq: BaseBlock


@dataclass(frozen=True, slots=True)
class PrePass:
    """The pass before the main one: zeroing the sums, and one byte for each bit of the dropout mask.

    Attributes:
        cores: AIVs that take part.
        dq_elements, dk_elements, dv_elements: zeroed by a core, 0 where the template zeroes nothing.
        expands_mask: the dropout mask is expanded.
        mask_elements: mask elements of a core.
        mask_step_elements: mask elements of one step.
        in_bytes, cast_bytes, out_bytes: UB buffers.
    """

    cores: int
    dq_elements: int
    dk_elements: int
    dv_elements: int
    expands_mask: bool
    mask_elements: int
    mask_step_elements: int
    in_bytes: int
    cast_bytes: int
    out_bytes: int


@dataclass(frozen=True, slots=True)
class RowTermPass:
    """The pass of SameAB that reduces dY times O over D.

    Attributes:
        cores: AIVs that take part.
        rows_per_core: rows of each but the last.
        rows_per_step: rows of one step.
        in_bytes, cast_bytes: each of two buffers.
        out_bytes, temp_bytes: the result and the temp of SoftmaxGradFront.
    """

    cores: int
    rows_per_core: int
    rows_per_step: int
    in_bytes: int
    cast_bytes: int
    out_bytes: int
    temp_bytes: int


@dataclass(frozen=True, slots=True)
class PostPass:
    """The pass that scales the sums and casts them.

    Attributes:
        cores: AIVs over which it is dealt.
        buffer_bytes: UB of one buffer.
        step_elements: elements of one step.
    """

    cores: int
    buffer_bytes: int
    step_elements: int


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A template that left the call to the next one, and why."""

    template: TemplateName
    priority: int
    why: str


@dataclass(frozen=True, slots=True)
class FagTiling:
    """The tiling of one call.

    Attributes:
        status: "ok", or "failed" with `reasons` and nothing else.
        template, template_priority: the template that took the call; priority None for empty outputs.
        tiling_key, key_fields: fields None for empty outputs.
        block_dim: blocks to launch.
        workspace_bytes: the sum of `terms`.
        terms: parts of the workspace.
        tiles: tile sizes and counts.
        split: of templates B and N.
        offsets: of the float sums.
        matmuls: base blocks of the matrix products.
        band: which scores are computed.
        pre, row_term, post: the passes around the main one.
        reasons: why the call fails, each with how to mend it.
        passed_over: the templates asked before.
    """

    status: Literal["ok", "failed"]
    template: TemplateName = ""
    template_priority: int | None = None
    tiling_key: int | None = None
    key_fields: KeyFields | None = None
    block_dim: int | None = None
    workspace_bytes: int | None = None
    terms: tuple[WorkspaceTerm, ...] = ()
    tiles: FagTiles = FagTiles()
    split: UnitSplit | None = None
    offsets: Accumulators | None = None
    matmuls: Matmuls | None = None
    band: Band | None = None
    pre: PrePass | None = None
    row_term: RowTermPass | None = None
    post: PostPass | None = None
    reasons: tuple[str, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
