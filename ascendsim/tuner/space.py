"""The space that a search looks through: fields of a scenario, the values of each, and all points of their product.

Points are numbered from 1, the last field counting fastest; 0 is the scenario as it stands. A number means the same
point whatever search, executor or order comes to it.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from pydantic import ValidationError

from ascendsim.errors import InputError
from ascendsim.scenario import Scenario

Value = int | bool | str
"""What a field can be."""
Point = Mapping[str, Value]
"""A value for each field."""
DEFAULT = 0
"""The number of the scenario as it stands."""
BUFFER_NUM = "buffer_num"
"""The field that sets all queues of a scenario alike."""
BLOCK_DIM = "block_dim"
MOST_VALUES = 100_000
"""Of one field."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_EXAMPLE = "such as tile_m=8:128:8, cv_s1=64:512:*2 or buffer_num=1,2"


@dataclass(frozen=True, slots=True)
class Field:
    """One field that varies.

    Attributes:
        name: as it was asked for.
        keys: dotted keys of the scenario that it sets.
        values: what it is set to, in this order.
    """

    name: str
    keys: tuple[str, ...]
    values: tuple[Value, ...]

    def read(self, text: str) -> Value:
        """Return the value that is written so.

        Raises:
            KeyError: none is.
        """
        return {value_text(value): value for value in self.values}[text]


@dataclass(frozen=True, slots=True)
class Space:
    """All points of some fields."""

    fields: tuple[Field, ...]

    @property
    def count(self) -> int:
        """How many points there are."""
        return prod(len(field.values) for field in self.fields)

    def point(self, number: int) -> dict[str, Value]:
        """Return the point of a number, 1 to `count`."""
        left, found = number - 1, {}
        for field in reversed(self.fields):
            left, place = divmod(left, len(field.values))
            found[field.name] = field.values[place]
        return {field.name: found[field.name] for field in self.fields}

    def number(self, point: Point) -> int:
        """Return the number of a point."""
        at = 0
        for field in self.fields:
            at = at * len(field.values) + field.values.index(point[field.name])
        return at + 1

    def changes(self, point: Point) -> dict[str, Value]:
        """Return what a point sets, by dotted key of the scenario."""
        return {key: point[field.name] for field in self.fields for key in field.keys}


def value_text(value: Value) -> str:
    """Return a value as a user writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def default_value(scenario: Scenario, field: Field) -> Value | None:
    """Return what a field is in the scenario as it stands; None where it leaves that open, or queues differ."""
    found = {_value_at(scenario, key) for key in field.keys}
    return found.pop() if len(found) == 1 else None


def _value_at(scenario: Scenario, key: str) -> Value | None:
    table, _, name = key.partition(".")
    if table == "tiling":
        value = scenario.tiling.get(name)
        return value if isinstance(value, int | bool | str) else None
    if table == "queues":
        return scenario.queues[name.removesuffix(".num")].num
    return scenario.block_dim


def parse_space(texts: Sequence[str], scenario: Scenario) -> Space:
    """Return the space that options such as "tile_m=8:128:8" and "buffer_num=1,2" ask for.

    Args:
        texts: FIELD=VALUES each; VALUES are joined by commas, FIRST:LAST[:STEP] or FIRST:LAST:*FACTOR.
        scenario: whose fields they are.

    Raises:
        InputError: no field, an unknown one, one twice, or values that it cannot have.
    """
    if not texts:
        raise InputError(f"--vary: nothing varies; name at least one field, {_EXAMPLE}")
    fields: list[Field] = []
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise InputError(f"--vary {text}: want FIELD=VALUES, {_EXAMPLE}")
        field = Field(name, _keys_of(name, scenario), _values_of(text, values))
        for other in fields:
            twice = sorted(set(field.keys) & set(other.keys))
            if twice:
                raise InputError(f"--vary {text}: {twice[0]} varies with {other.name} already; name each field once")
        _check_values(text, field, scenario)
        fields.append(field)
    return Space(tuple(fields))


def _keys_of(name: str, scenario: Scenario) -> tuple[str, ...]:
    """The dotted keys that a field sets.

    Raises:
        InputError: the scenario has no such field.
    """
    operator = scenario.find_operator()
    tiling = list(scenario.tiling) if operator is None else list(operator.tiling_model.model_fields)
    queues = tuple(f"queues.{queue}.num" for queue in scenario.queues)
    if name == BUFFER_NUM and BUFFER_NUM not in tiling and queues:
        return queues
    short = {key: f"tiling.{key}" for key in tiling}
    known = [*short.values(), *queues, BLOCK_DIM]
    if name in short or name in known:
        return (short.get(name, name),)
    names = [*tiling, *((BUFFER_NUM,) if queues else ()), *queues, BLOCK_DIM]
    derived = () if operator is None else operator.derived_names
    if name in derived:
        own = "queues, tile and temp" if "split_m" in tiling else "what the scenario sets"
        raise InputError(
            f"--vary {name}: follows from {own} and is derived; the table of results has it, constraints may use it. "
            f"{'Vary split_m, and all others of SoftMaxTiling follow' if 'split_m' in tiling else 'Vary others'}"
        )
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)[0]
    raise InputError(
        f"--vary {name}: {scenario.name} has no such field; the nearest is {near}. It has {', '.join(names)}"
    )


def _values_of(text: str, values: str) -> tuple[Value, ...]:
    found = _range(text, values) if ":" in values else tuple(_value(text, part.strip()) for part in values.split(","))
    if len(set(map(value_text, found))) < len(found):
        seen: set[str] = set()
        twice = next(v for v in map(value_text, found) if v in seen or seen.add(v))  # type: ignore[func-returns-value]
        raise InputError(f"--vary {text}: {twice} comes twice; give each value once")
    return found


def _value(text: str, part: str) -> Value:
    if not part:
        raise InputError(f"--vary {text}: a value is missing; join values with commas, {_EXAMPLE}")
    if part in ("true", "false"):
        return part == "true"
    if _NUMBER.fullmatch(part):
        return int(part)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part):
        raise InputError(f"--vary {text}: {part!r} is no whole number, no word, true or false; {_EXAMPLE}")
    return part


def _range(text: str, values: str) -> tuple[int, ...]:
    parts = [part.strip() for part in values.split(":")]
    is_factor = len(parts) == 3 and parts[2].startswith("*")
    numbers = [part.removeprefix("*") if i == 2 else part for i, part in enumerate(parts)]
    if not 2 <= len(parts) <= 3 or not all(map(_NUMBER.fullmatch, numbers)):
        raise InputError(f"--vary {text}: want FIRST:LAST:STEP or FIRST:LAST:*FACTOR in whole numbers, {_EXAMPLE}")
    first, last, step = (*map(int, numbers), 1)[:3]
    if last < first:
        raise InputError(
            f"--vary {text}: the last value {last} is below the first {first}; write the smaller one first"
        )
    if is_factor and (step < 2 or first < 1):
        raise InputError(f"--vary {text}: *{step} from {first} on does not grow; begin at 1 or more, with *2 or more")
    if step < 1:
        raise InputError(f"--vary {text}: the step {step} must be at least 1")
    found: list[int] = []
    value = first
    while value <= last:
        if len(found) == MOST_VALUES:
            raise InputError(f"--vary {text}: more than {MOST_VALUES} values; take a larger step")
        found.append(value)
        value = value * step if is_factor else value + step
    return tuple(found)


def _check_values(text: str, field: Field, scenario: Scenario) -> None:
    """Refuse values that the field can never have; whether a candidate as a whole is possible comes out later."""
    for value in field.values:
        changed = with_values(scenario, dict.fromkeys(field.keys, value))
        operator = scenario.find_operator()
        try:
            Scenario.model_validate(changed.model_dump(by_alias=True, warnings=False))
            if operator is not None:
                operator.tiling_model.model_validate(changed.tiling)
        except ValidationError as error:
            reason = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise InputError(f"--vary {text}: {field.name} = {value_text(value)}: {reason}") from None


def with_values(scenario: Scenario, changes: Mapping[str, Value]) -> Scenario:
    """Return a scenario with other values of [tiling], [queues] and block_dim; nobody looks whether they can be.

    Args:
        scenario: what is changed.
        changes: by dotted key.
    """
    tiling, queues = dict(scenario.tiling), dict(scenario.queues)
    update: dict[str, object] = {"tiling": tiling, "queues": queues}
    for key, value in changes.items():
        table, _, name = key.partition(".")
        if table == "tiling":
            tiling[name] = value
        elif table == "queues":
            queue = name.removesuffix(".num")
            queues[queue] = queues[queue].model_copy(update={"num": value})
        else:
            update[key] = value
    return scenario.model_copy(update=update)
