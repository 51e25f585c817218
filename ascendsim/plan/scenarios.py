"""A scenario's buffers as a plan: what its operator's host side allocates, with the tile as a field to solve for."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from ascendsim.device import Device
from ascendsim.machine import buffers_of
from ascendsim.op_host.matmul import BIAS_BYTES, MatmulTiling, square_side
from ascendsim.operators import Operator, SoftmaxGradTiling
from ascendsim.plan.formulas import Plan, compiled, is_field_name
from ascendsim.plan.model import plan_file
from ascendsim.scenario import Scenario
from ascendsim.terms import Buffer, TPosition, align_up

_TEMPS = {"max": "fit", "min": "min", "framework": "framework"}
"""The operator's words for its temp, as a plan has them: its "max" is cut to what UB has left."""

_TEMP_KEY = "tiling.tmp_bytes"
"""The operator's key for its temp."""
_IN_KERNEL = "queue or TBuf of the kernel"
"""Where a buffer stands that the kernel allocates: no key of the scenario has it."""


def plan_of_scenario(scenario: Scenario, source: str) -> Plan:
    """Return the plan of a loaded scenario; where no host side sizes buffers it is what a recording allocates.

    Raises:
        InputError, KernelError, Rejected: its operator, tensors or kernel cannot be planned.
    """
    device, operator = scenario.load_device(), scenario.find_operator()
    if operator is None or operator.name not in _OPERATORS:
        raw = _of_kernel(scenario, device)
        keys = {f"queues.{name}": _IN_KERNEL for name in raw["queues"]}
    else:
        argument = _host(scenario, operator, device)
        raw = _OPERATORS[operator.name](scenario, argument)
        keys = {f"temps.{name}": _TEMP_KEY for name in raw["temps"]} | {f"apis.{n}": _TEMP_KEY for n in raw["apis"]}
    head = {"schema": 1, "name": scenario.name, "device": device.name}
    return replace(compiled(plan_file(head | raw, source, {}), source, device), keys=keys)


def _host(scenario: Scenario, operator: Operator, device: Device) -> object:
    """What the operator's host side makes of the scenario; what it refuses is refused here, in the same words."""
    shapes = {name: (tuple(spec.shape), spec.element) for name, spec in scenario.tensors.items()}
    nums = {name: queue.num for name, queue in scenario.queues.items()}
    return operator.host(device, shapes, operator.tiling_model.model_validate(scenario.tiling), nums)


def _of_kernel(scenario: Scenario, device: Device) -> dict[str, Any]:
    """Queues and TBufs as recorded, in numbers: what their sizes depend on is known to the kernel only."""
    queues: dict[str, Any] = {}
    for que in buffers_of(scenario):
        name, number = que.name, 1
        while name in queues:
            number += 1
            name = f"{que.name}#{number}"
        place = _place(device, que.position)
        queues[name] = {"bytes": que.buffer_bytes, "num": que.num, "position": que.position, "place": place}
    numbers = {name: value for name, value in scenario.tiling.items() if _is_field(name, value)}
    return {"tiling": numbers, "queues": queues}


def _place(device: Device, position: str) -> str:
    """Return the memory of a position, UB for one that the device does not have."""
    found = device.buffer_of(TPosition(position))
    return "UB" if found is None or found is Buffer.GM else found.name


def _is_field(name: str, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and is_field_name(name)


def _softmax_grad(scenario: Scenario, argument: object) -> dict[str, Any]:
    """Queues, temp and tile of the softmax_grad operator, as `op_host.softmax_grad_operator` sizes them."""
    del argument
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


def _matmul(scenario: Scenario, argument: object) -> dict[str, Any]:
    """Queues and base block of the matmul operators, as `op_host.matmul` sizes them."""
    assert isinstance(argument, MatmulTiling)
    device = scenario.load_device()
    t, ab, acc = argument, argument.ab.name, argument.acc.name
    sizes = {
        "a1": (f"base_m * load_ka * {ab}", t.a1_num, "A1"),
        "b1": (f"load_kb * base_n * {ab}", t.b1_num, "B1"),
        "c1": (f"align(base_n * {acc}, {BIAS_BYTES})", t.c1_num, "C1"),
        "a2": (f"base_m * base_k * {ab}", t.a2_num, "A2"),
        "b2": (f"base_k * base_n * {ab}", t.b2_num, "B2"),
        "c2": (f"align(base_n * {acc}, {BIAS_BYTES})", t.c2_num, "C2"),
        "co1": (f"base_m * base_n * {acc}", t.co1_num, "CO1"),
    }
    unit = square_side(t.ab)
    return {
        "tiling": {
            "base_m": t.base_m,
            "base_k": t.base_k,
            "load_ka": t.load_ka,
            "load_kb": t.load_kb,
            "base_n": {"min": unit, "max": align_up(t.n, unit), "step": unit, "value": t.base_n},
        },
        "queues": {
            name: {"bytes": size, "num": num, "position": position, "place": _place(device, position)}
            for name, (size, num, position) in sizes.items()
            if num
        },
        "apis": {},
        "temps": {},
    }


_OPERATORS: dict[str, Callable[[Scenario, object], dict[str, Any]]] = {
    "softmax_grad": _softmax_grad,
    "matmul": _matmul,
    "matmul_bias": _matmul,
}
