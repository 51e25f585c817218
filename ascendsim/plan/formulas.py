"""A plan whose expressions are parsed and whose names are checked: what can be evaluated for any tiling."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from ascendsim.device import Device, load_device
from ascendsim.dtypes import DTYPES
from ascendsim.errors import DeviceError, InputError
from ascendsim.plan.expressions import FUNCTIONS, Expression, ExpressionError, near_name, parse
from ascendsim.plan.model import POLICIES, ApiSpec, BufferSpec, Limit, Place, PlanFile, QueueSpec, RangeSpec
from ascendsim.tmpsize.apis import APIS

CONSTANTS: dict[str, int] = {d.name: d.bytes for d in DTYPES} | {"KiB": 1024}
"""Names that every expression may use: element types stand for their bytes."""
FLAGS = ("is_front", "is_update", "is_basic_block", "is_flash_output_brc")
_ARGUMENTS = {"sum_dtype": "sum_element"} | {flag: flag for flag in FLAGS}
"""Optional arguments of an API by their key in a plan, as `tmpsize.apis` calls them."""


def is_field_name(name: str) -> bool:
    """Whether an expression can use this name for a tiling field."""
    return name.isidentifier() and name.isascii() and name not in CONSTANTS and name not in FUNCTIONS


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression and where it stands."""

    file: str
    key: str
    expression: Expression

    def value(self, names: Mapping[str, int]) -> int:
        """Return its value.

        Raises:
            InputError: it has none; names file, key and column.
        """
        try:
            return self.expression.value(names)
        except ExpressionError as error:
            raise self.error(error.column, error.reason) from None

    def value_in(self, names: Mapping[str, int], least: int, most: int | None, what: str) -> int:
        """Return its value, which must be in least..most.

        Raises:
            InputError: it is not; names file, key, column and the values that the expression looks at.
        """
        value = self.value(names)
        if value < least or (most is not None and value > most):
            seen = ", ".join(f"{name} = {names[name]}" for name in self.expression.names if name not in CONSTANTS)
            wanted = f"at least {least}" if most is None else f"{least}..{most}"
            raise self.error(1, f"gives {value}{' with ' + seen if seen else ''}; {what} must be {wanted}")
        return value

    def error(self, column: int, reason: str) -> InputError:
        """Return an error at a column of the expression."""
        return InputError(f'{self.file}: {self.key}: column {column} of "{self.expression.text}": {reason}')


@dataclass(frozen=True, slots=True)
class Row:
    """Rows of a buffer: elements wide, bytes of an element, and the element type's name."""

    width: Formula
    element_bytes: Formula


@dataclass(frozen=True, slots=True)
class Unit:
    """A queue or buffer."""

    name: str
    kind: str
    place: Place
    bytes: Formula
    num: Formula
    row: Row | None
    steps: tuple[int, int] | None
    position: str


@dataclass(frozen=True, slots=True)
class Api:
    """A call that needs temp; `bytes` for one with a size of its own, then `api` is its name."""

    name: str
    api: str
    temp: str
    bytes: Formula | None
    shape: tuple[Formula, ...]
    element_bytes: Formula
    sum_element_bytes: Formula
    flags: Mapping[str, Formula]


@dataclass(frozen=True, slots=True)
class Temp:
    """A temp buffer: a policy, or with policy "" an expression."""

    name: str
    policy: str
    bytes: Formula | None
    steps: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan, ready to be evaluated.

    Attributes:
        fields: tiling fields with a value or expression, each behind those it needs.
        ranges: tiling fields to solve for.
        source: where it comes from, for messages.
        keys: where a finding stands in that source, for keys of the plan that it does not have.
    """

    source: str
    name: str
    device: Device
    limit: Limit
    fields: Mapping[str, Formula]
    ranges: Mapping[str, RangeSpec]
    units: tuple[Unit, ...]
    apis: tuple[Api, ...]
    temps: tuple[Temp, ...]
    keys: Mapping[str, str] = field(default_factory=dict)

    def names(self, chosen: Mapping[str, int]) -> dict[str, int]:
        """Return the value of every name; `chosen` has those of the ranges.

        Raises:
            InputError: a field without a value.
        """
        names = CONSTANTS | {name: chosen[name] for name in self.ranges}
        for name, formula in self.fields.items():
            names[name] = formula.value(names)
        return names

    def depends_on(self, name: str) -> set[str]:
        """Names of the fields that change with one."""
        found = {name}
        for other, formula in self.fields.items():
            if found & set(formula.expression.names):
                found.add(other)
        return found


def compiled(spec: PlanFile, file: str, device: Device | None = None) -> Plan:
    """Return a plan with its expressions parsed.

    Args:
        spec: what the file says.
        file: its name, for messages.
        device: the part, None for the one that the file names.

    Raises:
        InputError, DeviceError: names file and key, of an expression also the column.
    """
    plan = _Compiler(spec, file, device).plan()
    known = CONSTANTS | dict.fromkeys(plan.fields, 0) | dict.fromkeys(plan.ranges, 0)
    for formula in _formulas(plan):
        for name, column in formula.expression.names.items():
            if name not in known:
                raise formula.error(column, f"unknown name {name!r}{_instead(plan, formula, name, known)}")
    return plan


def _instead(plan: Plan, formula: Formula, name: str, known: Mapping[str, int]) -> str:
    """Return what an unknown name may be meant for; a temp's only name may be one of POLICIES."""
    sizes = [temp.bytes for temp in plan.temps]
    if formula not in sizes or formula.expression.text.strip() != name:
        return near_name(name, known)
    fields = [*plan.fields, *plan.ranges]
    return near_name(name, [*POLICIES, *fields]) or f"; want {', '.join(POLICIES)} or an expression"


def _formulas(plan: Plan) -> Iterator[Formula]:
    for unit in plan.units:
        yield from (unit.bytes, unit.num)
        if unit.row is not None:
            yield from (unit.row.width, unit.row.element_bytes)
    for api in plan.apis:
        yield from (*api.shape, api.element_bytes, api.sum_element_bytes, *api.flags.values())
        if api.bytes is not None:
            yield api.bytes
    for temp in plan.temps:
        if temp.bytes is not None:
            yield temp.bytes


class _Compiler:
    """Parses one plan file."""

    def __init__(self, spec: PlanFile, file: str, device: Device | None) -> None:
        self._spec = spec
        self._file = file
        self._given = device

    def plan(self) -> Plan:
        """Return the plan."""
        spec = self._spec
        self._check_names()
        apis = tuple(self._api(name, api) for name, api in spec.apis.items())
        return Plan(
            source=self._file,
            name=spec.name,
            device=self._device(),
            limit=spec.limit,
            fields=self._fields(),
            ranges={name: field for name, field in spec.tiling.items() if isinstance(field, RangeSpec)},
            units=(
                *(self._unit("queues", name, queue) for name, queue in spec.queues.items()),
                *(self._unit("buffers", name, buffer) for name, buffer in spec.buffers.items()),
            ),
            apis=apis,
            temps=self._temps(apis),
        )

    def _device(self) -> Device:
        if self._given is not None:
            return self._given
        try:
            return load_device(self._spec.device)
        except DeviceError as error:
            raise DeviceError(f"{self._file}: device: {error}") from None

    def _parsed(self, key: str, text: int | str) -> Formula:
        try:
            return Formula(self._file, key, parse(str(text)))
        except ExpressionError as error:
            raise InputError(f'{self._file}: {key}: column {error.column} of "{text}": {error.reason}') from None

    def _check_names(self) -> None:
        spec = self._spec
        for name in spec.tiling:
            if not name.isidentifier() or not name.isascii():
                raise InputError(f"{self._file}: tiling.{name}: must be a plain name, or no expression could use it")
            if name in CONSTANTS or name in FUNCTIONS:
                raise InputError(f"{self._file}: tiling.{name}: expressions have this name already; choose another")
        seen: dict[str, str] = {}
        for table, names in (("queues", spec.queues), ("buffers", spec.buffers), ("temps", spec.temps)):
            for name in names:
                if name in seen:
                    raise InputError(f"{self._file}: {table}.{name}: {seen[name]}.{name} has the same name")
                seen[name] = table

    def _fields(self) -> dict[str, Formula]:
        tiling = self._spec.tiling
        parsed = {n: self._parsed(f"tiling.{n}", v) for n, v in tiling.items() if not isinstance(v, RangeSpec)}
        for formula in parsed.values():
            for name, column in formula.expression.names.items():
                if name not in tiling and name not in CONSTANTS:
                    near = near_name(name, [*tiling, *CONSTANTS])
                    raise formula.error(column, f"unknown name {name!r}{near}")
        needs = {name: [n for n in f.expression.names if n in parsed] for name, f in parsed.items()}
        try:
            order = list(TopologicalSorter(needs).static_order())
        except CycleError as error:
            ring = list(reversed(error.args[1]))
            formula, needed = parsed[ring[0]], ring[1]
            raise formula.error(
                formula.expression.names[needed], f"fields in a circle: {' needs '.join(ring)}"
            ) from None
        return {name: parsed[name] for name in order}

    def _unit(self, table: str, name: str, spec: QueueSpec | BufferSpec) -> Unit:
        key = f"{table}.{name}"
        row = None
        if spec.row is not None:
            width, element = self._parsed(f"{key}.row.width", spec.row.width), spec.row.dtype
            row = Row(width, self._parsed(f"{key}.row.dtype", element))
        return Unit(
            name=name,
            kind="queue" if isinstance(spec, QueueSpec) else "buffer",
            place=spec.place,
            bytes=self._parsed(f"{key}.bytes", spec.bytes),
            num=self._parsed(f"{key}.num", spec.num),
            row=row,
            steps=spec.steps,
            position=(spec.position or "") if isinstance(spec, QueueSpec) else "",
        )

    def _check_arguments(self, key: str, spec: ApiSpec) -> None:
        """Refuse optional arguments that belong to other APIs."""
        if spec.api is None:
            takes, title = frozenset[str](), "a call with bytes of its own"
        else:
            known = APIS[spec.api.replace("_", "")]
            takes, title = known.takes, known.title
        has = ", ".join(argument for argument, name in _ARGUMENTS.items() if name in takes) or "none"
        for argument, name in _ARGUMENTS.items():
            if argument in spec.model_fields_set and name not in takes:
                raise InputError(f"{self._file}: {key}.{argument}: {title} has no such argument; it has {has}")

    def _api(self, name: str, spec: ApiSpec) -> Api:
        key = f"apis.{name}"
        self._check_arguments(key, spec)
        return Api(
            name=name,
            api=spec.api or name,
            temp=spec.temp or f"{name}_tmp",
            bytes=None if spec.bytes is None else self._parsed(f"{key}.bytes", spec.bytes),
            shape=tuple(self._parsed(f"{key}.shape.{i}", axis) for i, axis in enumerate(spec.shape)),
            element_bytes=self._parsed(f"{key}.dtype", spec.dtype),
            sum_element_bytes=self._parsed(f"{key}.sum_dtype", spec.sum_dtype),
            flags={flag: self._parsed(f"{key}.{flag}", getattr(spec, flag)) for flag in FLAGS},
        )

    def _temps(self, apis: tuple[Api, ...]) -> tuple[Temp, ...]:
        spec, used = self._spec, {api.temp for api in apis}
        temps = {name: self._temp(name, temp.bytes, temp.steps) for name, temp in spec.temps.items()}
        for api in apis:
            temps.setdefault(api.temp, Temp(api.temp, "fit", None, None))
            if api.temp in spec.queues or api.temp in spec.buffers:
                raise InputError(
                    f"{self._file}: apis.{api.name}: its temp {api.temp} is already the name of a queue or buffer"
                )
        for temp in temps.values():
            if temp.policy and temp.name not in used:
                raise InputError(
                    f'{self._file}: temps.{temp.name}: no API says temp = "{temp.name}", so it needs bytes of its own'
                )
        if sum(temp.policy == "framework" for temp in temps.values()) > 1:
            raise InputError(f"{self._file}: temps: only one can be the framework's; it hands out all that is left")
        return tuple(temps.values())

    def _temp(self, name: str, size: int | str, steps: tuple[int, int] | None) -> Temp:
        if size in POLICIES:
            return Temp(name, str(size), None, steps)
        return Temp(name, "", self._parsed(f"temps.{name}.bytes", size), steps)
