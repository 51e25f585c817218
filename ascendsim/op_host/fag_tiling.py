"""Host side of FlashAttentionScoreGrad: which template takes a call, its tiling key, tiles and workspace.

Templates are asked in ascending priority. One may refuse the whole call, leave it to the next, or take it. So a call
meets the checks of every template before the one that takes it.

Source: ops-transformer op_host, flash_attention_score_grad tiling and its templates.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from ascendsim.device import Device
from ascendsim.op_host import (
    fag_tiling_b,
    fag_tiling_basic,
    fag_tiling_n,
    fag_tiling_s1s2_bn2,
    fag_tiling_s1s2_bn2gs1s2,
    fag_tiling_same_ab,
)
from ascendsim.op_host.fag_call import FagCall, NotCapableError, RefusedError, read_shape
from ascendsim.op_host.fag_checks import (
    entry_reasons,
    keep_prob_reasons,
    mask_size_reasons,
    narrow_reasons,
    refuse,
    shape_reasons,
    wide_reasons,
)
from ascendsim.op_host.fag_key import EMPTY_KEY
from ascendsim.op_host.fag_params import FagParams
from ascendsim.op_host.fag_platform import FagPlatform, fag_platform
from ascendsim.op_host.fag_result import FagTiling, PassedOver, TemplateName, TileOverride
from ascendsim.op_host.fag_workspace import EMPTY_BYTES, WorkspaceTerm

__all__ = ["NO_OVERRIDE", "TEMPLATES", "Template", "fag_tiling"]

NO_OVERRIDE: Final = TileOverride()


@dataclass(frozen=True, slots=True)
class Template:
    """A tiling template.

    Attributes:
        priority: the lower, the earlier it is asked.
        name: of the template.
        ask: refuses the call, or leaves it to the next template, or does nothing.
        tile: makes the tiling; may still do the same.
    """

    priority: int
    name: TemplateName
    ask: Callable[[FagCall], None]
    tile: Callable[[FagCall, TileOverride], FagTiling]


def _ask_bn2_deterministic(call: FagCall) -> None:
    refuse(narrow_reasons(call))
    fag_tiling_s1s2_bn2.check_deterministic(call)


def _ask_bn2(call: FagCall) -> None:
    refuse(narrow_reasons(call))
    fag_tiling_s1s2_bn2.check_capable(fag_tiling_s1s2_bn2.relabelled(call))


def _tile_bn2(call: FagCall, override: TileOverride) -> FagTiling:
    refuse(mask_size_reasons(call))
    return fag_tiling_s1s2_bn2.tile_call(fag_tiling_s1s2_bn2.relabelled(call), override)


def _ask_basic(call: FagCall) -> None:
    refuse(keep_prob_reasons(call))
    if call.shape.is_tnd:
        refuse(shape_reasons(call))
    fag_tiling_basic.check_capable(call)


def _ask_same_ab_deterministic(call: FagCall) -> None:
    refuse(wide_reasons(call, prefix_is_causal=True))
    fag_tiling_same_ab.check_deterministic(call)


def _ask_same_ab(call: FagCall) -> None:
    refuse(wide_reasons(call, prefix_is_causal=True))
    fag_tiling_same_ab.check_capable(call)


def _ask_tnd(call: FagCall) -> None:
    refuse(wide_reasons(call, prefix_is_causal=False))
    fag_tiling_s1s2_bn2gs1s2.check_tnd(call)


def _ask_last(call: FagCall) -> None:
    refuse(wide_reasons(call, prefix_is_causal=False))


def _ask_b(call: FagCall) -> None:
    refuse(shape_reasons(call))
    fag_tiling_b.check_capable(call)


def _ask_n(call: FagCall) -> None:
    refuse(shape_reasons(call))
    fag_tiling_n.check_capable(call)


TEMPLATES: Final = (
    Template(1000, "S1s2Bn2_deterministic", _ask_bn2_deterministic, _tile_bn2),
    Template(1001, "basic_tnd", _ask_basic, fag_tiling_basic.tile_call),
    Template(1100, "SameAB_deterministic", _ask_same_ab_deterministic, fag_tiling_same_ab.tile_call),
    Template(2000, "S1s2Bn2gs1s2_tnd", _ask_tnd, fag_tiling_s1s2_bn2gs1s2.tile_call),
    Template(10000, "Ungs1s2_B", _ask_b, fag_tiling_b.tile_call),
    Template(11000, "Ngs1s2_BN", _ask_n, fag_tiling_n.tile_call),
    Template(15000, "S1s2Bn2", _ask_bn2, _tile_bn2),
    Template(15500, "SameAB", _ask_same_ab, fag_tiling_same_ab.tile_call),
    Template(16000, "S1s2Bn2gs1s2", _ask_last, fag_tiling_s1s2_bn2gs1s2.tile_call),
)
"""The templates of arch 2201, in the order they are asked."""


def fag_tiling(
    params: FagParams, device: Device, *, priority: int | None = None, override: TileOverride = NO_OVERRIDE
) -> FagTiling:
    """Return the tiling of a call; one that the operator refuses has status "failed" and reasons.

    Args:
        params: the call.
        device: the part.
        priority: ask only the template of this priority, and fail when it leaves the call; None asks all.
        override: tile sizes to prescribe to the template that takes the call.

    Raises:
        InputError: a device of another architecture, or a prescribed tile that the template has not.

    Source: ops-transformer op_host, flash_attention_score_grad tiling.
    """
    platform = fag_platform(device)
    asked = [t for t in TEMPLATES if priority in {None, t.priority}]
    if not asked:
        known = ", ".join(str(t.priority) for t in TEMPLATES)
        return FagTiling(status="failed", reasons=(f"no template has priority {priority}; known: {known}",))
    try:
        refuse(entry_reasons(params))
        if _has_empty_output(params):
            return _empty_tiling(params, platform)
        call = FagCall(params, read_shape(params), platform)
    except RefusedError as error:
        return FagTiling(status="failed", reasons=error.reasons)
    return _choose(call, asked, override)


def _choose(call: FagCall, asked: list[Template], override: TileOverride) -> FagTiling:
    passed: list[PassedOver] = []
    for template in asked:
        try:
            template.ask(call)
            tiling = template.tile(call, override)
        except NotCapableError as left:
            passed.append(PassedOver(template.name, template.priority, str(left)))
        except RefusedError as error:
            return FagTiling(status="failed", reasons=error.reasons, passed_over=tuple(passed))
        else:
            name, priority = template.name, template.priority
            return replace(tiling, template=name, template_priority=priority, passed_over=tuple(passed))
    reasons = tuple(f"template {p.template}: {p.why}" for p in passed)
    return FagTiling(status="failed", reasons=reasons, passed_over=tuple(passed))


# --- empty outputs ---


def _has_empty_output(params: FagParams) -> bool:
    shapes = [params.shape_of(name) for name in ("dq", "dk", "dv")]
    return None not in shapes and any(prod(shape) == 0 for shape in shapes if shape is not None)


def _empty_tiling(params: FagParams, platform: FagPlatform) -> FagTiling:
    """Return the tiling that only writes zeros to what output is not empty."""
    outputs = [params.shape_of(name) for name in ("dq", "dk", "dpse")]
    most = max(0 if shape is None else prod(shape) for shape in outputs)
    return FagTiling(
        status="ok",
        template="empty_output",
        tiling_key=EMPTY_KEY,
        block_dim=platform.launch(min(most, platform.aiv_cores)),
        workspace_bytes=EMPTY_BYTES,
        terms=(WorkspaceTerm("reserve", EMPTY_BYTES, EMPTY_BYTES, "100 MiB"),),
    )
