"""A tiling alone as a target of `ascendsim check`: the scenario it is judged in, and its sizes in words and numbers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascendsim.device import Device
from ascendsim.dtypes import dtype
from ascendsim.errors import Finding, InputError, Severity
from ascendsim.machine import Examined
from ascendsim.op_host.softmax import get_soft_max_grad_max_tmp_size, get_soft_max_grad_min_tmp_size
from ascendsim.op_host.softmax_grad_operator import Share, SoftmaxGradOperatorTiling, queue_bytes, shares
from ascendsim.operators import find_operator
from ascendsim.plan.layout import ROW
from ascendsim.scenario import Scenario, scenario_from
from ascendsim.terms import DATABLOCK_BYTES, DEFAULT_SOC, align_up, ceil_div

_CHECK_KEYS = ("device", "block_dim", "shape", "dtype")


def tiling_scenario(
    raw: Mapping[str, Any],
    file: Path,
    changes: Mapping[str, Any],
    shape: tuple[int, ...] | None,
    element: str | None,
    soc: str | None,
    block_dim: int | None,
) -> Scenario:
    """Return a scenario with the tiling and tensors of a shape; what is None comes from the file's [check].

    Raises:
        InputError: the shape is not known, or something cannot be used.
    """
    check = _check_table(raw, file)
    axes, name = shape or check.get("shape"), element or check.get("dtype")
    if axes is None or name is None:
        missing = "--shape and --dtype" if axes is None and name is None else "--shape" if axes is None else "--dtype"
        raise InputError(
            f"{file}: a tiling alone does not say for which tensors; add {missing}, such as --shape 960,960 --dtype "
            'float, or write into the file: [check], shape = [960, 960], dtype = "float"'
        )
    operator_name = raw["operator"]
    if not isinstance(operator_name, str):
        raise InputError(f"{file}: operator = {operator_name!r}: must be a name in quotes")
    operator, tiling = find_operator(operator_name), raw.get("tiling", {})
    data_type = dtype(name)
    changed = {**(tiling if isinstance(tiling, dict) else {}), **_of_table("tiling", changes)}
    if operator.shapes is None:
        raise InputError(
            f"{file}: a tiling of {operator_name} alone cannot be judged: its tensors have several shapes and types; "
            "check a scenario that names it"
        )
    shapes = operator.shapes(_axes(axes, file), data_type, changed)
    scenario: dict[str, Any] = {
        "schema": raw.get("schema"),
        "name": file.stem,
        "device": soc or check.get("device") or DEFAULT_SOC,
        "operator": operator_name,
        "tiling": tiling,
        "queues": raw.get("queues", {}),
        "tensors": {
            tensor: {"shape": list(axes), "dtype": name, **_role(tensor in operator.outputs)}
            for tensor, axes in shapes.items()
        },
    }
    cores = block_dim or check.get("block_dim")
    return scenario_from(scenario | ({} if cores is None else {"block_dim": cores}), file, changes)


def odd_rows(scenario: Scenario, where: str) -> Finding | None:
    """Return a finding if a row of the data is not whole datablocks: then the host functions give no sizes."""
    src = scenario.tensors["src"]
    width, size = src.shape[-1], src.element.bytes
    if width * size % DATABLOCK_BYTES == 0:
        return None
    per_datablock = src.element.per_datablock
    fill = {"width": width, "next": ceil_div(width, per_datablock) * per_datablock}
    return ROW.finding(where, operand="src", got=width * size, wanted=DATABLOCK_BYTES, fill=fill)


def _check_table(raw: Mapping[str, Any], file: Path) -> Mapping[str, Any]:
    table = raw.get("check", {})
    if not isinstance(table, dict):
        raise InputError(f"{file}: check = {table!r}: must be a table [check]")
    unknown = [key for key in table if key not in _CHECK_KEYS]
    if unknown:
        raise InputError(f"{file}: check.{unknown[0]}: unknown key; [check] has {', '.join(_CHECK_KEYS)}")
    if not isinstance(table.get("dtype", ""), str):
        raise InputError(f'{file}: check.dtype = {table["dtype"]!r}: must be a name in quotes, such as "float"')
    return table


def _axes(value: object, file: Path) -> tuple[int, ...]:
    axes = tuple(value) if isinstance(value, list | tuple) else ()
    if not axes or not all(isinstance(axis, int) and not isinstance(axis, bool) and axis > 0 for axis in axes):
        raise InputError(f"{file}: shape {value!r}: want axes of at least 1, such as [960, 960]")
    return axes


def _of_table(table: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key.partition(".")[2]: value for key, value in changes.items() if key.startswith(f"{table}.")}


def _role(is_output: bool) -> dict[str, str]:
    return {"role": "output"} if is_output else {"role": "input", "fill": "zeros"}


@dataclass(frozen=True, slots=True)
class TilingSizes:
    """What a tiling of the softmax_grad operator comes to.

    Attributes:
        title: operator, shape and dtype.
        device: the part.
        tiling: what the host side has made of it.
        shares: rows over cores.
        temp_range: least bytes of temp that the API takes, and the most it can use.
        queue_bytes: UB of the queues.
        ub_bytes: UB in use, temp included.
        errors: codes of severity E.
    """

    title: str
    device: Device
    tiling: SoftmaxGradOperatorTiling
    shares: tuple[Share, ...]
    temp_range: tuple[int, int]
    queue_bytes: int
    ub_bytes: int
    errors: tuple[str, ...]

    @classmethod
    def of(cls, scenario: Scenario, found: Examined) -> "TilingSizes":
        """Return the sizes of a scenario that was examined."""
        tiling, device, src = found.argument, scenario.load_device(), scenario.tensors["src"]
        assert isinstance(tiling, SoftmaxGradOperatorTiling)
        tile, data_type = (tiling.tile_m, tiling.k), src.element
        queues = queue_bytes(tile, data_type, tiling.is_front, (tiling.in_grad_num, tiling.in_p_num, tiling.out_num))
        asked = (tile, data_type.bytes, tiling.is_front, device.npu_arch)
        shape = "x".join(map(str, src.shape))
        return cls(
            title=f"{scenario.operator} {shape} {data_type}{' front' if tiling.is_front else ''}",
            device=device,
            tiling=tiling,
            shares=shares(tiling.m, tiling.tile_m, found.block_dim),
            temp_range=(get_soft_max_grad_min_tmp_size(*asked), get_soft_max_grad_max_tmp_size(*asked)),
            queue_bytes=queues,
            ub_bytes=max(found.ub_bytes, queues + align_up(tiling.tmp_bytes, DATABLOCK_BYTES)),
            errors=tuple(dict.fromkeys(f.code for f in found.findings if f.severity is Severity.ERROR)),
        )

    @property
    def fits(self) -> bool:
        """Whether UB holds it."""
        return not any(code.startswith("E-CAP") for code in self.errors)

    @property
    def loops(self) -> int | None:
        """How often the API goes through a whole tile; None if it has no row at a time."""
        split_m = self.tiling.soft_max_tiling.split_m
        return ceil_div(self.tiling.tile_m, split_m) if split_m else None

    def lines(self) -> Iterator[str]:
        """Yield the sizes as text."""
        tiling = self.tiling
        broken = ", ".join(self.errors)
        verdict = ("fits" if self.fits else "does not fit") + (f"; broken rules: {broken}" if broken else "")
        yield f"{self.title} on {self.device.name}: {verdict}"
        busy = sum(share.cores for share in self.shares if share.rows)
        yield f"cores: {busy} of {self.device.aiv} work, tiles of {tiling.tile_m} x {tiling.k}"
        for share in self.shares:
            if share.rows:
                yield f"  {_share_text(share, tiling.tile_m)}"
        ub = self.device.ub
        limits = (
            ("safe", ub.safe_bytes.value),
            ("visible", ub.visible_bytes.value),
            ("hardware", self.device.ub_bytes),
        )
        left = ", ".join(f"{limit - self.ub_bytes} B of {limit} ({name})" for name, limit in limits)
        yield f"UB: {self.ub_bytes} B used, {self.queue_bytes} B by queues; left {left}"
        temp = f"{tiling.tmp_bytes} B" if tiling.tmp_bytes else "the framework's"
        rows = f"{tiling.soft_max_tiling.split_m} rows at once"
        loops = "none, so nothing is computed" if self.loops is None else f"{self.loops} for a tile"
        tail = tiling.soft_max_tiling.tail_m
        yield (
            f"temp: {temp} (least {self.temp_range[0]} B, most {self.temp_range[1]} B); {rows}, loops: {loops}"
            + (f", the last of {tail} rows" if tail else "")
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the sizes as plain values."""
        tiling = self.tiling
        return {
            "title": self.title,
            "device": self.device.name,
            "fits": self.fits,
            "tile_m": tiling.tile_m,
            "k": tiling.k,
            "shares": [{"cores": s.cores, "rows": s.rows, "tiles": s.tiles, "tail_m": s.tail_m} for s in self.shares],
            "queue_bytes": self.queue_bytes,
            "ub_bytes": self.ub_bytes,
            "temp_bytes": tiling.tmp_bytes,
            "least_temp_bytes": self.temp_range[0],
            "most_temp_bytes": self.temp_range[1],
            "split_m": tiling.soft_max_tiling.split_m,
            "loops": self.loops,
            "tail_m": tiling.soft_max_tiling.tail_m,
        }


def _share_text(share: Share, tile_m: int) -> str:
    """One share in words."""
    cores = "1 core" if share.cores == 1 else f"{share.cores} cores"
    rows = "1 row" if share.rows == 1 else f"{share.rows} rows"
    if share.tiles == 1:
        return f"{cores}: {rows}, 1 tile"
    tail = f", the last of {share.tail_m}" if share.tail_m else f" of {tile_m}, no tail"
    return f"{cores}: {rows}, {share.tiles} tiles{tail}"
