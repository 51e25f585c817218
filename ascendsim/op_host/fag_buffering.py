"""SameAB with another look-ahead, or other numbers of buffers, than the operator has: what a tuner may prescribe.

With a look-ahead of n an AIC makes S and dA of block t + n before it adds up the gradients of block t, so n + 1 blocks
are on their way and S and dA have as many buffers in GM at least. More of them than the operator's two lie behind the
workspace's S and dA, which gets longer. Each of the three flags between an AIC and its AIVs has ids for three rounds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from ascendsim.errors import Finding, Rejected, Rule
from ascendsim.op_host.fag_kernel_tiling import Products
from ascendsim.op_host.fag_kernels import FagKernelTiling
from ascendsim.op_host.fag_parts import BUFFERS, FLOAT_BYTES, ProductBuffers
from ascendsim.op_host.fag_rules import ARCHS
from ascendsim.op_host.fag_same_ab import SameAbTiling, block_products
from ascendsim.op_host.matmul import MatmulTiling

AHEAD: Final = 1
"""Blocks that the operator's AIC is ahead."""
MOST_AHEAD: Final = 2

BUFFERING = Rule(
    "E-FAG-BUFFERING",
    "{operand} = {got}: the flags between an AIC and its AIVs have ids for {wanted} blocks ahead at most",
    "look at most {wanted} blocks ahead",
    "follows from the kernel: three ids for each of its three flags",
    condition="A look-ahead or a number of buffers is prescribed that FlashAttentionScoreGrad's kernel cannot have.",
    archs=ARCHS,
)
FEW_SCORES = BUFFERING.saying(
    "{operand} = {got}: with a look-ahead of {ahead}, {wanted} blocks have their S and dA in GM at the same time",
    "give score_buffers = {wanted} or more, or look less far ahead",
    "follows from the kernel: a block's S and dA live until its gradients are added up",
)
OTHER_TEMPLATE = BUFFERING.saying(
    "{operand} = {got}: only template SameAB (15500) without deterministic sums takes it, and this call is {wanted}",
    "leave it out, or ask for template = 15500",
    "ops-transformer op_kernel, flash_attention_score_grad: loops of the templates",
)
PINNED = BUFFERING.saying(
    "{operand} = {got}: the L1-custom form of this call pins all of L1 and has its own buffers in L0",
    "leave it out, or prescribe score tiles other than 512 x 512",
    "ops-transformer op_kernel, flash_attention_score_grad SameAB, L1-custom",
)
TOO_MANY = BUFFERING.saying(
    "{operand} = {got}: so many buffers of {bytes} B are more than the {wanted} B of {memory}",
    "give at most {most} buffers",
    "sizes of the memories; base blocks of the host tiling",
)


@dataclass(frozen=True, slots=True)
class Buffering:
    """What is prescribed; None leaves it to the operator.

    Attributes:
        look_ahead: blocks that an AIC is ahead of its gradients.
        score_buffers: of S and of dA in GM, for each AIC.
        l1_buffers: of A and of B in L1, products of the matmul library's kind.
        l0_buffers: of A in L0A, of B in L0B, and as far as there is room of C in L0C.
    """

    look_ahead: int | None = None
    score_buffers: int | None = None
    l1_buffers: int | None = None
    l0_buffers: int | None = None

    def given(self) -> dict[str, int]:
        """Return what is prescribed, by name."""
        names = ("look_ahead", "score_buffers", "l1_buffers", "l0_buffers")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def buffered(tiling: FagKernelTiling, asked: Buffering) -> FagKernelTiling:
    """Return a tiling with what is prescribed.

    Args:
        tiling: what a kernel takes.
        asked: what is prescribed.

    Raises:
        Rejected: the kernel cannot have it; `findings` holds why.
    """
    if not asked.given():
        return tiling
    if not isinstance(tiling, SameAbTiling) or tiling.private:
        name, kind = tiling.tiling.template, "deterministic" if isinstance(tiling, SameAbTiling) else ""
        raise Rejected(
            OTHER_TEMPLATE.finding(f"tiling.{key}", operand=key, got=value, wanted=kind or f"of template {name}")
            for key, value in asked.given().items()
        )
    found = (*_of_scores(asked), *_of_products(tiling, asked))
    if found:
        raise Rejected(found)
    ahead = AHEAD if asked.look_ahead is None else asked.look_ahead
    scores = max(BUFFERS, ahead + 1) if asked.score_buffers is None else asked.score_buffers
    buffers = ProductBuffers(asked.l1_buffers or BUFFERS, asked.l0_buffers or BUFFERS)
    moved = scores * tiling.call.platform.aic_cores * tiling.tile_floats
    more = max(0, scores - BUFFERS) * 2 * tiling.call.platform.aic_cores * tiling.tile_floats * FLOAT_BYTES
    return replace(
        tiling,
        look_ahead=ahead,
        score_buffers=scores,
        buffers=buffers,
        products=_products(tiling, buffers),
        areas=replace(tiling.areas, scores=tiling.areas.d_a + moved),
        workspace_bytes=tiling.workspace_bytes + more,
    )


def _products(tiling: SameAbTiling, buffers: ProductBuffers) -> Products:
    """The products of a full block with so many buffers."""
    rows, columns = tiling.products.scores.m, tiling.products.scores.n
    return block_products(tiling.call, tiling.tiling, rows, columns, buffers=buffers)


def _of_scores(asked: Buffering) -> Iterator[Finding]:
    """Yield what is wrong with look-ahead and buffers in GM."""
    ahead = AHEAD if asked.look_ahead is None else asked.look_ahead
    if ahead > MOST_AHEAD:
        yield BUFFERING.finding("tiling.look_ahead", operand="look_ahead", got=ahead, wanted=MOST_AHEAD)
    elif asked.score_buffers is not None and asked.score_buffers <= ahead:
        yield FEW_SCORES.finding(
            "tiling.score_buffers",
            operand="score_buffers",
            got=asked.score_buffers,
            wanted=ahead + 1,
            fill={"ahead": ahead},
        )


def _of_products(tiling: SameAbTiling, asked: Buffering) -> Iterator[Finding]:
    """Yield what is wrong with buffers in L1 and L0."""
    for key in ("l1_buffers", "l0_buffers"):
        count = getattr(asked, key)
        if count is None:
            continue
        if tiling.tiling.tiles.is_l1_custom:
            yield PINNED.finding(f"tiling.{key}", operand=key, got=count)
            continue
        for memory, capacity, one in _places(tiling, key):
            if count * one > capacity:
                fill = {"bytes": one, "memory": memory, "most": capacity // one}
                yield TOO_MANY.finding(f"tiling.{key}", operand=key, got=count, wanted=capacity, fill=fill)
                break


def _places(tiling: SameAbTiling, key: str) -> Iterator[tuple[str, int, int]]:
    """Yield (memory, its bytes, bytes of a buffer at least) of A and of B."""
    platform, one = tiling.call.platform, tiling.products.scores
    if key == "l0_buffers":
        yield "L0A", platform.l0a_bytes, one.a2_bytes
        yield "L0B", platform.l0b_bytes, one.b2_bytes
        return
    half = platform.l1_bytes // 2
    yield "half of L1", half, max(_block_bytes(p, p.base_m) for p in _all(tiling))
    yield "half of L1", half, max(_block_bytes(p, p.base_n) for p in _all(tiling))


def _all(tiling: SameAbTiling) -> tuple[MatmulTiling, ...]:
    own = tiling.products
    return own.d_a, own.scores, own.dq, own.dk, own.dv


def _block_bytes(product: MatmulTiling, length: int) -> int:
    return length * product.base_k * product.ab.bytes
