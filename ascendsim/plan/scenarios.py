"""A scenario's buffers as a plan: what its operator's host side allocates, with the tile as a field to solve for."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from ascendsim.errors import InputError
from ascendsim.operators import SoftmaxGradTiling
from ascendsim.plan.formulas import Plan, compiled
from ascendsim.plan.model import plan_file
from ascendsim.scenario import Scenario

_TEMPS = {"max": "fit", "min": "min", "framework": "framework"}
"""The operator's words for its temp, as a plan has them: its "max" is cut to what UB has left."""


def plan_of_scenario(scenario: Scenario, source: str) -> Plan:
    """Return the plan of a loaded scenario.

    Raises:
        InputError: its operator or tensors cannot be planned.
    """
    if scenario.operator is None or scenario.operator not in _OPERATORS:
        raise InputError(
            f"{source}: plan knows the buffers of these operators: {', '.join(_OPERATORS)}; for a kernel of your own "
            "write a plan file, see docs/plan.md"
        )
    raw = _OPERATORS[scenario.operator](scenario)
    device = scenario.load_device()
    named = {"schema": 1, "name": scenario.name, "device": device.name, "limit": "safe"}
    if scenario.platform is not None:
        named["device"] = "Ascend910B1"
    plan = compiled(plan_file(named | raw, source, {}), source)
    return replace(plan, device=device)


def _softmax_grad(scenario: Scenario) -> dict[str, Any]:
    """Queues, temp and tile of the softmax_grad operator, as `op_host.softmax_grad_operator` sizes them."""
    tiling = SoftmaxGradTiling.model_validate(scenario.tiling)
    src = scenario.tensors["src"]
    m, k = prod(src.shape[:-1]), src.shape[-1]
    tile = f"align(tile_m * k * {src.element.name}, 32)"
    sizes: Mapping[str, tuple[str, str]] = {
        "in_grad": (tile, "VECIN"),
        "in_p": (tile, "VECIN"),
        "out": ("tile_m * 32" if tiling.is_front else tile, "VECOUT"),
    }
    temp = tiling.tmp_bytes
    return {
        "tiling": {"k": k, "tile_m": {"min": 1, "max": m, "value": min(tiling.tile_m, m)}},
        "queues": {
            name: {"bytes": size, "num": scenario.queues[name].num, "position": position}
            for name, (size, position) in sizes.items()
        },
        "apis": {
            "softmax_grad": {
                "api": "softmax_grad",
                "shape": ["tile_m", "k"],
                "dtype": src.element.name,
                "is_front": tiling.is_front,
                "temp": "tmp",
            }
        },
        "temps": {"tmp": {"bytes": _TEMPS[temp] if isinstance(temp, str) else temp}},
    }


_OPERATORS: dict[str, Callable[[Scenario], dict[str, Any]]] = {"softmax_grad": _softmax_grad}
