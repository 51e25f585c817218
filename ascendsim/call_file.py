"""What commands that answer for one call of an operator have in common: the call from a TOML file, options, or both."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ascendsim.errors import InputError
from ascendsim.files import is_file, read_toml
from ascendsim.scenario import shipped

_NEAREST: Final = 3
_UNION_PARTS: Final = ("str", "list[int]")
"""What pydantic puts into the place of an error to say which of several types it tried."""


class CallModel(BaseModel):
    """A table of a file with a call; a key that it does not have is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CallFile(CallModel):
    """A file with a call; who reads one adds the table of the call."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    name: str = ""


Spec = TypeVar("Spec", bound=CallModel)


def joined_numbers(example: str) -> Callable[[object], object]:
    """Return what turns whole numbers that are joined by commas into a list and lets pass what is no text.

    Args:
        example: of such numbers.
    """

    def numbers(value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return [int(part) for part in value.split(",")]
        except ValueError:
            raise ValueError(f"{value!r}: want whole numbers joined by commas, such as {example}") from None

    return numbers


def name_and_how(text: str) -> tuple[str, str]:
    """Split NAME=HOW or NAME:HOW; HOW is "" where the text is neither."""
    places = [place for place in (text.find("="), text.find(":")) if place > 0]
    at = min(places, default=len(text))
    return text[:at].strip(), text[at + 1 :].strip()


def read_call(name: str, model: type[CallFile], table: str) -> dict[str, Any]:
    """Return the table of a call, from a file or a shipped one by name.

    Args:
        name: path of a TOML file, or the name of a shipped one.
        model: of the file.
        table: its key for the call; also the name of the command and of its page.

    Raises:
        InputError: no such file, or one with other keys.
    """
    file = Path(name)
    if not is_file(file):
        named = shipped("tilings", name) if file.parent == Path() else None
        if named is None:
            raise InputError(f"{name}: no such file, want a .toml with a call under [{table}] (docs/{table}.md)")
        file = named
    raw = read_toml(file)
    try:
        return dict(getattr(model.model_validate(raw), table))
    except ValidationError as error:
        raise InputError("; ".join(_file_text(e, name, model, table) for e in error.errors())) from None


def _file_text(error: Mapping[str, Any], name: str, model: type[CallFile], table: str) -> str:
    path = ".".join(map(str, error["loc"]))
    if error["type"] == "missing":
        return f"{name}: no [{path}]; a call stands under it (docs/{table}.md)"
    return f"{name}: {path}: {_reason(error, model)}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A call as a user asks for it; an option counts more than the file's key.

    Attributes:
        table: where the call stands in a file.
        file: the file, None for options alone.
        found: what stands there in it.
        options: those that were given, by the file's keys.
        inner: tables of the call whose keys are given one by one, and the option that gives one.
    """

    table: str
    file: str | None
    found: Mapping[str, Any]
    options: Mapping[str, Any]
    inner: Mapping[str, str]

    @property
    def given(self) -> dict[str, Any]:
        """What file and options say together."""
        merged = {**self.found, **self.options}
        for name in self.inner:
            found, given = self.found.get(name), self.options.get(name)
            if isinstance(found, Mapping) and isinstance(given, Mapping):
                merged[name] = {**found, **given}
        return merged

    def spec(self, model: type[Spec]) -> Spec:
        """Return the call.

        Raises:
            InputError: a key or value that cannot be used; says which, where it was said, and why.
        """
        try:
            return model.model_validate(self.given)
        except ValidationError as error:
            raise InputError("; ".join(self._described(e, model) for e in error.errors())) from None

    def _described(self, error: Mapping[str, Any], model: type[CallModel]) -> str:
        """Return what is wrong with the place where it was said: an option, or a key of the file."""
        first, *rest = (str(part) for part in error["loc"])
        inside = rest if first in self.inner else [part for part in rest if part not in _UNION_PARTS]
        said = "" if error["type"] in ("missing", "extra_forbidden") else str(error["input"])
        reason = _reason(error, _model_of(first, model))
        if self._is_option(first, inside):
            return f"{' '.join(filter(None, (*self._option(first, inside), said)))}: {reason}"
        key = ".".join((self.table, first, *inside))
        return f"{self.file}: {' = '.join(filter(None, (key, said)))}: {reason}"

    def _is_option(self, first: str, inside: list[str]) -> bool:
        value = self.options.get(first)
        return inside[0] in value if inside and isinstance(value, Mapping) else first in self.options

    def _option(self, first: str, inside: list[str]) -> tuple[str, ...]:
        """Return the words of the option that gives a key."""
        return (self.inner[first], *inside[:1]) if first in self.inner else (f"--{first.replace('_', '-')}",)


def _model_of(key: str, model: type[CallModel]) -> type[CallModel]:
    """Return the model of an inner table, the call's own for any other key."""
    field = model.model_fields.get(key)
    kind = None if field is None else field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, CallModel) else model


def _reason(error: Mapping[str, Any], model: type[CallModel]) -> str:
    """Return what is wrong in words: the nearest keys, or what is wanted."""
    if error["type"] == "extra_forbidden":
        names = [field.alias or name for name, field in model.model_fields.items()]
        near = difflib.get_close_matches(str(error["loc"][-1]), names, n=_NEAREST, cutoff=0.0)
        return f"unknown key; the nearest are {', '.join(near)}"
    if error["type"] == "missing":
        return "not given"
    text = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    return text if error["type"] == "value_error" else f"want {text}"
