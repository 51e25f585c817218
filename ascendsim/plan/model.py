"""Plan files: a device, tiling fields, and the buffers, queues and APIs that need room. Read and checked here."""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from ascendsim.errors import InputError

SCHEMA = 1
Place = Literal["UB", "L1", "L0A", "L0B", "L0C", "BT", "FB"]
"""A physical buffer of a core."""
PLACES: tuple[Place, ...] = get_args(Place)
Limit = Literal["safe", "visible", "hardware"]
"""One of the three ends of UB."""
LIMITS: tuple[Limit, ...] = get_args(Limit)
ApiName = Literal[
    "softmax_grad", "soft_max", "soft_max_flash", "soft_max_flash_v2", "soft_max_flash_v3", "log_soft_max"
]
POLICIES = ("fit", "min", "max", "framework")
"""How big a temp is, instead of an expression."""
_SCENARIO_KEYS = ("operator", "kernel", "tensors")


def _cell(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r}: must be a whole number or an expression in quotes")  # noqa: TRY004 - for pydantic
    return value


def _flag(value: object) -> object:
    return int(value) if isinstance(value, bool) else _cell(value)


Cell = Annotated[int | str, BeforeValidator(_cell)]
"""A whole number, or an expression over the tiling fields."""
Flag = Annotated[int | str, BeforeValidator(_flag)]
"""true, false, or an expression that is not 0 for true."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RangeSpec(_Model):
    """A tiling field to solve for: min, min + step, ... up to max; `value` is used while another one is solved for."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    min: int
    max: int
    step: int = Field(default=1, ge=1)
    value: int | None = None

    @model_validator(mode="after")
    def _ordered(self) -> "RangeSpec":
        if self.max < self.min:
            raise ValueError(f"max = {self.max} is below min = {self.min}")
        return self

    @property
    def count(self) -> int:
        """How many values it has."""
        return (self.max - self.min) // self.step + 1

    @property
    def values(self) -> range:
        """Every value of the field."""
        return range(self.min, self.max + 1, self.step)


FieldSpec = Annotated[
    Annotated[RangeSpec, Tag("range")] | Annotated[Cell, Tag("cell")],
    Discriminator(lambda value: "range" if isinstance(value, dict | RangeSpec) else "cell"),
]


class RowSpec(_Model):
    """What a buffer's rows must be: whole datablocks. `width` in elements of `dtype`."""

    width: Cell
    dtype: Cell


class _Sized(_Model):
    """Something with bytes in a place."""

    place: Place = "UB"
    bytes: Cell
    num: Cell = 1
    row: RowSpec | None = None
    steps: tuple[int, int] | None = None
    """First and last step in which it is alive; left out: always."""

    @model_validator(mode="after")
    def _steps_in_order(self) -> "_Sized":
        if self.steps is not None and self.steps[1] < self.steps[0]:
            raise ValueError(f"steps = {list(self.steps)}: the last step is before the first")
        return self


class QueueSpec(_Sized):
    """A TQue: `num` buffers of `bytes`."""

    position: Literal["VECIN", "VECOUT", "VECCALC", "A1", "B1", "A2", "B2", "C1", "C2", "CO1", "CO2"] | None = None


class BufferSpec(_Sized):
    """A TBuf, or `num` slots of one."""


class ApiSpec(_Model):
    """A call that needs temp: an API of the softmax family, or anything with a size of its own."""

    api: ApiName | None = None
    shape: list[Cell] = Field(default_factory=list)
    dtype: Cell = "float"
    sum_dtype: Cell = "float"
    is_front: Flag = 0
    is_update: Flag = 0
    is_basic_block: Flag = 0
    is_flash_output_brc: Flag = 0
    bytes: Cell | None = None
    temp: str | None = None
    """Name of its temp; APIs that name the same one share it."""

    @model_validator(mode="after")
    def _one_kind(self) -> "ApiSpec":
        if (self.api is None) == (self.bytes is None):
            raise ValueError("give exactly one of api (with shape and dtype) and bytes")
        if self.api is not None and not self.shape:
            raise ValueError("shape is missing; it has the axes of the tensor in UB, such as [rows, k]")
        return self


class TempSpec(_Model):
    """How big a temp is: "fit", "min", "max", "framework", or an expression."""

    bytes: Cell = "fit"
    steps: tuple[int, int] | None = None


class PlanFile(_Model):
    """One plan file."""

    schema_: Literal[1] = Field(alias="schema")
    name: str
    description: str = ""
    device: str
    limit: Limit = "safe"
    tiling: dict[str, FieldSpec] = Field(default_factory=dict)
    queues: dict[str, QueueSpec] = Field(default_factory=dict)
    buffers: dict[str, BufferSpec] = Field(default_factory=dict)
    apis: dict[str, ApiSpec] = Field(default_factory=dict)
    temps: dict[str, TempSpec] = Field(default_factory=dict)


_MODELS: dict[str, type[BaseModel]] = {
    "queues": QueueSpec,
    "buffers": BufferSpec,
    "apis": ApiSpec,
    "temps": TempSpec,
    "tiling": RangeSpec,
}


def is_scenario(raw: Mapping[str, Any]) -> bool:
    """Whether a TOML file is a scenario rather than a plan."""
    return any(key in raw for key in _SCENARIO_KEYS)


def plan_file(raw: Mapping[str, Any], file: str, changes: Mapping[str, Any]) -> PlanFile:
    """Return a plan that a TOML file holds, after changes such as {"tiling.rows": 8}.

    Raises:
        InputError: names file, key, what is wrong and what would be right.
    """
    whole = _copied(dict(raw))
    _check_schema(whole, file)
    whole.setdefault("name", Path(file).stem)
    for key, value in changes.items():
        _apply(whole, key, value, file)
    try:
        return PlanFile.model_validate(whole)
    except ValidationError as error:
        raise InputError(f"{file}: {_described(error)}") from None


def _check_schema(raw: Mapping[str, Any], file: str) -> None:
    schema = raw.get("schema")
    if schema is None:
        raise InputError(f"{file}: schema is missing; start the file with schema = {SCHEMA}")
    if schema != SCHEMA or isinstance(schema, bool):
        raise InputError(f"{file}: schema = {schema!r}; this version reads schema {SCHEMA} of plans")


def _copied(table: dict[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, dict) else value for key, value in table.items()}


def _apply(raw: dict[str, Any], key: str, value: Any, file: str) -> None:
    """Set one dotted key: one that the file has, a tiling field, or one that the schema knows below a table it has."""
    known = [*_leaves(raw, ""), *_free_keys(raw)]
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
        raise InputError(f"{file}: --set {key}: unknown key; the nearest is {near[0]}")
    *tables, last = key.split(".")
    for name in tables:
        raw = raw.setdefault(name, {})
    raw[last] = value


def _leaves(tree: Mapping[str, Any], path: str) -> list[str]:
    """Dotted keys of all leaves; a range of a tiling field is one, too."""
    found = []
    for name, value in tree.items():
        here = f"{path}{name}"
        if isinstance(value, dict):
            found += _leaves(value, f"{here}.")
        if not isinstance(value, dict) or path == "tiling.":
            found.append(here)
    return found


def _free_keys(raw: Mapping[str, Any]) -> list[str]:
    """Keys of the schema that the file leaves out."""
    keys = ["device", "limit", "name", "description"]
    for table, model in _MODELS.items():
        named = raw.get(table, {})
        for name in named if isinstance(named, dict) else ():
            if isinstance(named[name], dict):
                keys += [f"{table}.{name}.{field}" for field in model.model_fields if field != "row"]
    return keys


def _described(error: ValidationError) -> str:
    """What pydantic refused as "path: reason", an unknown key with the nearest one."""
    lines = []
    for e in error.errors():
        loc = [part for i, part in enumerate(e["loc"]) if not (e["loc"][0] == "tiling" and i == 2)]
        reason = e["msg"].removeprefix("Value error, ")
        if e["type"] == "extra_forbidden":
            near = difflib.get_close_matches(str(loc[-1]), _siblings(loc), n=1, cutoff=0.4)
            reason = "unknown key" + (f"; did you mean {near[0]}?" if near else "")
        if e["type"] == "literal_error" and isinstance(e["input"], str):
            near = difflib.get_close_matches(e["input"], re.findall(r"'([^']*)'", e["ctx"]["expected"]), n=1)
            reason += f"; did you mean {near[0]}?" if near else ""
        path = ".".join(str(part) for part in loc)
        lines.append(f"{path}: {reason}" if path else reason)
    return "; ".join(lines)


def _siblings(loc: list[int | str]) -> list[str]:
    model = _MODELS.get(str(loc[0]), PlanFile) if len(loc) > 1 else PlanFile
    if "row" in loc[1:-1]:
        model = RowSpec
    return [field.alias or name for name, field in model.model_fields.items()]
