"""Scenario files: a device, an operator or kernel, its tiling, queues and GM tensors, and what to expect.

One TOML file is everything a run needs. It is read, changed by `--set`, checked, and resolved (named tilings inlined)
here; `machine` runs what comes out.
"""

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ascendsim.device import Device, Platform, load_device
from ascendsim.dtypes import DType, dtype
from ascendsim.errors import DeviceError, InputError
from ascendsim.files import is_file, read_toml
from ascendsim.operators import OPERATORS, Operator, find_operator

SCHEMA = 1
TILING_KEYS = frozenset({"schema", "operator", "description", "tiling", "queues", "check"})
"""What a tiling file may hold; [check] says what `ascendsim check` judges it for, which no scenario needs."""
SEEDS = 2**32
"""Seeds of MT19937 are below this."""
HOST_BYTES = 2**47
"""What a program can address on a 64-bit computer; the limit for devices whose GM size is in no document."""
Shape = tuple[int, ...]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class TensorSpec(_Model):
    """One GM tensor: an input has `fill` or `file`, an output neither."""

    role: Literal["input", "output"]
    shape: list[int] = Field(min_length=1)
    dtype: str
    fill: (
        Literal[
            "normal", "uniform", "softmax_rows", "laser_qkv", "arange", "zeros", "ones", "constant", "operator", "array"
        ]
        | None
    ) = None
    seed: int | None = Field(default=None, ge=0, lt=SEEDS)
    scale: float = 1.0
    value: float = 0.0
    range: list[float] | None = Field(default=None, min_length=2, max_length=2)
    """Least and largest value, fill laser_qkv."""
    file: str | None = None
    key: str | None = None

    @field_validator("dtype")
    @classmethod
    def _known_dtype(cls, name: str) -> str:
        try:
            dtype(name)
        except InputError as error:
            raise ValueError(str(error)) from None
        return name

    @model_validator(mode="after")
    def _one_source(self) -> "TensorSpec":
        if any(axis < 1 for axis in self.shape):
            raise ValueError(f"shape {self.shape}: every axis must be at least 1")
        given = [name for name, value in (("fill", self.fill), ("file", self.file)) if value is not None]
        if self.role == "input" and len(given) != 1:
            raise ValueError("an input needs exactly one of fill and file")
        if self.role == "output" and given:
            raise ValueError(f"an output takes no {given[0]}")
        if self.fill in ("normal", "uniform", "softmax_rows", "laser_qkv") and self.seed is None:
            raise ValueError(f"fill = {self.fill!r} needs a seed, so that every run has the same data")
        self._check_range()
        return self

    def _check_range(self) -> None:
        """The range belongs to one fill, which needs it."""
        is_ranged = self.fill == "laser_qkv"
        if is_ranged and self.range is None:
            raise ValueError('fill = "laser_qkv" needs range = [least, largest], such as range = [-2.0, 2.0]')
        if self.range is None:
            return
        if not is_ranged:
            raise ValueError('range belongs to fill = "laser_qkv"; other fills take scale')
        if not self.range[0] <= self.range[1] or not all(map(math.isfinite, self.range)):
            raise ValueError(f"range = {self.range}: must be the least value, then the largest, both finite")

    @property
    def element(self) -> DType:
        """The dtype."""
        return dtype(self.dtype)


class QueueSpec(_Model):
    """Buffers of a queue; 2 is double buffering."""

    num: int = Field(ge=1, le=64)


class MachineSpec(_Model):
    """How to simulate."""

    engine: Literal["compiled", "reference", "both"] = "compiled"
    l2: Literal["model", "warm", "hit", "miss"] = "model"
    half_overflow: Literal["inf_nan", "saturate"] | None = None
    auto_sync: bool = True
    """The compiler adds barriers between vector instructions, and waits of the scalar unit: false where it is told
    not to. What it adds is a warning with, and an error without."""
    values: Literal["all", "sample", "none"] = "all"
    """Which values to compute."""
    sample: list[Literal["first", "diagonal", "tail", "random"]] | None = Field(default=None, min_length=1)
    """With values = "sample": which tiles."""
    sample_tiles: int | None = Field(default=None, ge=1)
    """How many random ones."""
    sample_seed: int | None = Field(default=None, ge=0, lt=SEEDS)

    @model_validator(mode="before")
    @classmethod
    def _default_sample(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and raw.get("values") == "sample":
            return {"sample": ["first", "diagonal", "tail"], "sample_tiles": 1, "sample_seed": 0, **raw}
        return raw

    @model_validator(mode="after")
    def _sample_is_used(self) -> "MachineSpec":
        given = [name for name in ("sample", "sample_tiles", "sample_seed") if getattr(self, name) is not None]
        if given and self.values != "sample":
            raise ValueError(f'{given[0]} says which tiles to compute; it needs values = "sample"')
        if self.sample is not None and "random" not in self.sample:
            for name, default in (("sample_tiles", 1), ("sample_seed", 0)):
                if getattr(self, name) != default:
                    raise ValueError(f'{name} is about random tiles; it needs "random" in sample')
        return self


class PlatformSpec(_Model):
    """A part that is in no list."""

    aic_cores: int = Field(ge=1)
    aiv_cores: int = Field(ge=1)
    ub_bytes: int = Field(default=196608, ge=1)
    l1_bytes: int = Field(default=524288, ge=1)
    l2_bytes: int = Field(default=201326592, ge=1, le=HOST_BYTES)
    clock_mhz: int = Field(default=1850, ge=1)


class Range(_Model):
    """A number must lie in here."""

    min: float | None = None
    max: float | None = None


class ValueSpec(_Model):
    """What an output must be close to."""

    reference: str | None = None
    """"operator" (the operator's float64 reference) or "my_reference.py:function"."""
    file: str | None = None
    key: str | None = None
    bound: Literal["operator"] | None = None
    """"operator": the elementwise error bound that comes with the operator's reference."""
    rtol: float = 0.0
    atol: float = 0.0


class PeakSpec(_Model):
    """How far on-chip memories may be used; one that nothing lies in has 0."""

    UB: Range | None = None
    L1: Range | None = None
    L0A: Range | None = None
    L0B: Range | None = None
    L0C: Range | None = None
    BT: Range | None = None
    FB: Range | None = None


class ExpectSpec(_Model):
    """What makes the run a success; anything given here sets the exit code."""

    us: Range | None = None
    cycles: Range | None = None
    peak_ub_bytes: Range | None = None
    peak_bytes: PeakSpec | None = None
    overlap: dict[str, Range] = Field(default_factory=dict)
    findings: list[str] | None = None
    """Exactly these codes, in any order and number; [] for none. Left out: not looked at."""
    values: dict[str, ValueSpec] = Field(default_factory=dict)


class SuppressSpec(_Model):
    """A finding that is accepted, and why."""

    code: str = Field(pattern=r"^[EWI]-[A-Z0-9]+(-[A-Z0-9]+)*$")
    reason: str
    line: int | str | None = None
    """Its kernel line: 31, or "kernel.py:31"."""
    where: str | None = None
    """Text that its place holds."""
    operand: str | None = None

    @field_validator("reason")
    @classmethod
    def _not_empty(cls, reason: str) -> str:
        if not reason.strip():
            raise ValueError("is empty; say why the finding is accepted")
        return reason


class Scenario(_Model):
    """One scenario, resolved."""

    schema_: Literal[1] = Field(alias="schema")
    name: str
    description: str = ""
    device: str | None = None
    platform: PlatformSpec | None = None
    operator: str | None = None
    kernel: str | None = None
    kernel_type: Literal["AIV_ONLY", "AIC_ONLY", "MIX_AIC_1_1", "MIX_AIC_1_2", "AICORE"] | None = None
    """Which cores run a kernel of the user's own; None for vector cores, or the combined ones of the part."""
    block_dim: int | None = Field(default=None, ge=1)
    tiling: dict[str, Any] = Field(default_factory=dict)
    queues: dict[str, QueueSpec] = Field(default_factory=dict)
    tensors: dict[str, TensorSpec]
    machine: MachineSpec = MachineSpec()
    expect: ExpectSpec = ExpectSpec()
    suppress: list[SuppressSpec] = Field(default_factory=list)
    """Findings that are accepted."""
    folder: Path = Field(default=Path(), exclude=True)
    """Where relative file names start; not part of the resolved file."""

    @field_validator("suppress", mode="before")
    @classmethod
    def _one_table_each(cls, value: object) -> object:
        if isinstance(value, dict):
            raise ValueError("write [[suppress]] in double brackets, once for each finding")  # noqa: TRY004 - for pydantic
        return value

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if name in ("", ".", "..") or any(c in "/\\" or not c.isprintable() for c in name):
            raise ValueError(f"{name!r} names the run's folder, so it must be a plain file name without / and \\")
        return name

    @model_validator(mode="after")
    def _consistent(self) -> "Scenario":
        if (self.device is None) == (self.platform is None):
            raise ValueError("give exactly one of device and [platform]")
        if (self.operator is None) == (self.kernel is None):
            raise ValueError("give exactly one of operator and kernel")
        if self.operator is not None and self.kernel_type is not None:
            raise ValueError("kernel_type belongs to a kernel; an operator knows its own")
        return self

    def load_device(self) -> Device:
        """Return the device."""
        if self.platform is not None:
            return load_device(Platform(**self.platform.model_dump()))
        assert self.device is not None
        return load_device(self.device)

    def find_operator(self) -> Operator | None:
        """Return the shipped operator, or None for a kernel of the user's own."""
        return None if self.operator is None else find_operator(self.operator)

    def resolved(self) -> dict[str, Any]:
        """Return the scenario as plain values that can be written and read again."""
        plain = self.model_dump(by_alias=True, exclude_none=True, mode="json")
        if not self.suppress:
            del plain["suppress"]
        return plain


def shipped(kind: Literal["scenarios", "tilings"], name: str) -> Path | None:
    """Return a file that comes with the package (or stands beside it in the repository), by name, or None."""
    file_name = name if name.endswith(".toml") else f"{name}.toml"
    package = Path(str(resources.files("ascendsim")))
    for folder in (package / "data" / kind, package.parent / kind):
        if is_file(folder / file_name):
            return folder / file_name
    return None


def load_scenario(path: str | Path, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Read a scenario file, or a shipped one by name, and apply changes such as {"tiling.tile_m": 32}.

    Raises:
        InputError: names file, key, what is wrong and what would be right.
    """
    file = _find(path)
    return scenario_from(read_toml(file), file, changes)


def scenario_from(raw: dict[str, Any], file: Path, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Return the scenario that a table describes, as if it stood in a file; `raw` is changed.

    Raises:
        InputError: names file, key, what is wrong and what would be right.
    """
    _check_schema(raw, file)
    raw.setdefault("name", file.stem)
    _inline_tiling(raw, file)
    _check_tables(raw, file)
    _fill_defaults(raw)
    for key, value in (changes or {}).items():
        _apply(raw, key, value, file)
    scenario = _validated(raw, file)
    _check_names(scenario, file)
    _check_roles(scenario, file)
    _check_size(scenario, _device_of(scenario, file), file)
    _check_files(scenario, file)
    return scenario


def _validated(raw: dict[str, Any], file: Path) -> Scenario:
    above = ""
    try:
        scenario = Scenario.model_validate({**raw, "folder": file.parent})
        operator = scenario.find_operator()
        if operator is None:
            return scenario
        above = "tiling"
        tiling = operator.tiling_model.model_validate(scenario.tiling)
        return scenario.model_copy(update={"tiling": tiling.model_dump(exclude_none=True)})
    except ValidationError as error:
        raise InputError(f"{file}: {_described(error, above)}") from None
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _device_of(scenario: Scenario, file: Path) -> Device:
    try:
        return scenario.load_device()
    except DeviceError as error:
        # Counts and sizes below 1 were refused before; what is left of a platform is a UB that is too small.
        key = "platform.ub_bytes" if scenario.device is None else "device"
        raise DeviceError(f"{file}: {key}: {error}") from None


def _find(path: str | Path) -> Path:
    file = Path(path)
    if is_file(file):
        return file
    named = shipped("scenarios", str(path)) if file.parent == Path() else None
    if named is None:
        raise InputError(f"{path}: no such scenario file")
    return named


def _check_schema(raw: dict[str, Any], file: Path) -> None:
    schema = raw.get("schema")
    if schema is None:
        raise InputError(f"{file}: schema is missing; start the file with schema = {SCHEMA}")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise InputError(f"{file}: schema = {schema!r}; this version reads schema {SCHEMA}")
    if schema > SCHEMA:
        raise InputError(
            f"{file}: schema = {schema} is newer than this version of ascendsim, which reads up to {SCHEMA}; upgrade"
        )


def _inline_tiling(raw: dict[str, Any], file: Path) -> None:
    """Replace `tiling = "NAME"` by the tables of that tiling file; queues of the scenario win."""
    name = raw.get("tiling")
    if not isinstance(name, str):
        return
    path = file.parent / name
    found = path if is_file(path) else shipped("tilings", name)
    if found is None:
        raise InputError(f"{file}: tiling = {name!r}: no such file beside the scenario, and no shipped tiling")
    tiling = read_toml(found)
    _check_schema(tiling, found)
    unknown = set(tiling) - TILING_KEYS
    if unknown:
        raise InputError(f"{found}: unknown key {min(unknown)}; a tiling has operator, tiling, queues and check")
    if tiling.get("operator") != raw.get("operator"):
        got, want = tiling.get("operator"), raw.get("operator")
        raise InputError(f"{file}: tiling {found.name} is for operator {got!r}, the scenario runs {want!r}")
    _check_tables(tiling, found)
    _check_tables({"queues": raw.get("queues", {})}, file)
    raw["tiling"] = tiling.get("tiling", {})
    raw["queues"] = tiling.get("queues", {}) | raw.get("queues", {})


_EXAMPLES = {
    "tiling": "a table [tiling], or the name of a tiling file",
    "queues": "a table with one table a queue, such as queues.in_x.num = 2",
    "tensors": "a table with one table a tensor, such as [tensors.x]",
    "machine": "a table [machine]",
    "expect": "a table [expect]",
    "platform": "a table [platform]",
}


def _check_tables(raw: dict[str, Any], file: Path) -> None:
    """What the schema has as tables must be tables in the file; everything up to validation relies on it."""
    for key, wanted in _EXAMPLES.items():
        table = raw.get(key, {})
        if not isinstance(table, dict):
            raise InputError(f"{file}: {key} = {table!r}: must be {wanted}")
        if key in ("queues", "tensors"):
            for name, value in table.items():
                if not isinstance(value, dict):
                    raise InputError(f"{file}: {key}.{name} = {value!r}: must be a table; {key} is {wanted}")


def _operator_of(raw: Mapping[str, Any]) -> Operator | None:
    """Return the operator that a file names, None where it names none that is known."""
    name = raw.get("operator")
    return OPERATORS.get(name) if isinstance(name, str) else None


def _fill_defaults(raw: dict[str, Any]) -> None:
    """Name an operator's queues with their defaults, so that --set can change them."""
    operator = _operator_of(raw)
    if operator is None:
        return
    queues = raw.setdefault("queues", {})
    for name, num in operator.queues.items():
        queues.setdefault(name, {}).setdefault("num", num)


def _apply(raw: dict[str, Any], key: str, value: Any, file: Path) -> None:
    """Set one dotted key. It must exist in the file, or be one that the schema knows."""
    parts = [part.strip('"') for part in key.split(".")]
    _check_path(raw, parts, key, file)
    known = _known_keys(raw, parts)
    if ".".join(parts) not in known:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
        raise InputError(f"{file}: --set {key}: unknown key; the nearest is {near[0]}")
    table = raw
    for part in parts[:-1]:
        table = table.setdefault(part, {})
    table[parts[-1]] = value.item() if isinstance(value, np.generic) else value


def _check_path(raw: dict[str, Any], parts: list[str], key: str, file: Path) -> None:
    """Refuse a key below something that is no table."""
    here: Any = raw
    for depth, part in enumerate(parts[:-1], start=1):
        here = here.get(part, {})
        if not isinstance(here, dict):
            above = ".".join(parts[:depth])
            raise InputError(f"{file}: --set {key}: {above} = {here!r} is no table; set {above} itself")


def _known_keys(raw: dict[str, Any], parts: list[str]) -> list[str]:
    """Dotted keys of all leaves of the file, and of those that may be added; `parts` is the key that is looked for."""
    operator = _operator_of(raw)
    names = {
        "tensors": list(raw.get("tensors", {})),
        "queues": list(raw.get("queues", {})),
        "expect.values": list(raw.get("tensors", {})),
        "expect.overlap": parts[2:3] if parts[:2] == ["expect", "overlap"] else [],
    }
    keys = {*_leaves(raw, ""), *_model_keys(Scenario, "", names)}
    if operator is not None:
        keys |= {f"tiling.{field}" for field in operator.tiling_model.model_fields}
    return sorted(keys)


def _model_keys(model: type[BaseModel], path: str, names: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Dotted keys of all leaves of a model; `names` says what tables with free names hold."""
    for name, field in model.model_fields.items():
        here = f"{path}{field.alias or name}"
        below = _model_in(field.annotation)
        free_names = get_origin(field.annotation) is dict
        if below is not None and get_origin(field.annotation) is not list:
            for table in [f"{here}.{free}" for free in names.get(here, ())] if free_names else [here]:
                yield from _model_keys(below, f"{table}.", names)
        elif not free_names and not field.exclude:
            yield here


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that an annotation such as `Range | None` or `dict[str, Range]` holds, None if there is none."""
    kinds = (annotation, *get_args(annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _leaves(tree: dict[str, Any], path: str) -> list[str]:
    found = []
    for name, value in tree.items():
        here = f"{path}{name}"
        found += _leaves(value, f"{here}.") if isinstance(value, dict) else [here]
    return found


_MODELS: dict[str, type[BaseModel]] = {
    "": Scenario,
    "machine": MachineSpec,
    "expect": ExpectSpec,
    "platform": PlatformSpec,
    "tensors": TensorSpec,
    "queues": QueueSpec,
    "suppress": SuppressSpec,
}


def _described(error: ValidationError, above: str = "") -> str:
    """Describe what pydantic refused in the table `above`, with full keys; an unknown key gets the nearest one."""
    lines = []
    for e in error.errors():
        loc = (above, *e["loc"]) if above else e["loc"]
        reason = e["msg"].removeprefix("Value error, ")
        if e["type"] == "extra_forbidden":
            near = difflib.get_close_matches(str(loc[-1]), _siblings(loc), n=1, cutoff=0.4)
            reason = "unknown key" + (f"; did you mean {near[0]}?" if near else "")
        path = ".".join(str(part) for part in loc)
        lines.append(f"{path}: {reason}" if path else reason)
    return "; ".join(lines)


def _siblings(loc: tuple[int | str, ...]) -> list[str]:
    """Names that would be right where `loc` stands."""
    if loc[0] == "tiling":
        return [f for op in OPERATORS.values() for f in op.tiling_model.model_fields]
    model = _MODELS.get(str(loc[0]) if len(loc) > 1 else "", Scenario)
    return [f.alias or n for n, f in model.model_fields.items() if not f.exclude]


def _check_names(scenario: Scenario, file: Path) -> None:
    """Tensors and queues are those that the operator knows."""
    operator = scenario.find_operator()
    if operator is None:
        return
    for what, given, wanted in (
        ("tensors", list(scenario.tensors), list(operator.tensors)),
        ("queues", list(scenario.queues), list(operator.queues)),
    ):
        for name in given:
            if name not in wanted:
                near = difflib.get_close_matches(name, wanted, n=1, cutoff=0.0)[0]
                raise InputError(
                    f"{file}: {what}.{name}: operator {operator.name} has {', '.join(wanted)}; the nearest is {near}"
                )
        missing = [name for name in wanted if name not in given and name not in operator.optional]
        if missing:
            raise InputError(f"{file}: {what}.{missing[0]} is missing; operator {operator.name} needs it")


def _check_roles(scenario: Scenario, file: Path) -> None:
    """What an operator reads is an input, what it writes an output."""
    operator = scenario.find_operator()
    if operator is None:
        return
    for name, spec in scenario.tensors.items():
        wanted = "output" if name in operator.outputs else "input"
        if spec.role != wanted:
            raise InputError(
                f'{file}: tensors.{name}.role = "{spec.role}": operator {operator.name} has {name} as an {wanted}; '
                f'write role = "{wanted}"'
            )
        if spec.fill == "operator" and name not in operator.makes:
            raise InputError(
                f'{file}: tensors.{name}.fill = "operator": {operator.name} makes '
                f"{', '.join(sorted(operator.makes)) or 'none of its inputs'}; choose another fill or a file"
            )


def _check_size(scenario: Scenario, device: Device, file: Path) -> None:
    """All tensors together fit into GM."""
    sizes = {name: math.prod(spec.shape) * spec.element.bytes for name, spec in scenario.tensors.items()}
    known = device.memory.gm_bytes
    limit = HOST_BYTES if known is None else known.value
    total = sum(sizes.values())
    if total <= limit:
        return
    largest = max(sizes, key=lambda name: sizes[name])
    has = f"GM of {device.name} has {limit} B" if known else f"a computer can address {limit} B"
    raise InputError(
        f"{file}: tensors.{largest}.shape = {scenario.tensors[largest].shape}: all tensors take {total} B, {has}; "
        "make them smaller"
    )


def _check_files(scenario: Scenario, file: Path) -> None:
    """Every data file is there; what it holds is seen when it is loaded."""
    specs: list[tuple[str, str | None]] = [(f"tensors.{n}.file", spec.file) for n, spec in scenario.tensors.items()]
    specs += [(f"expect.values.{n}.file", spec.file) for n, spec in scenario.expect.values.items()]
    for key, name in specs:
        if name is not None and not is_file(scenario.folder / name):
            path = scenario.folder / name
            raise InputError(f"{file}: {key} = {name!r}: {path} does not exist; names start at the scenario's folder")
