"""Parameter structs of calls: their class, and the types of their fields, as C++ would hold a call to them."""

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, TypeVar

from ascendsim.isa.instruction import Recorder, need_int

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ParamsT = TypeVar("ParamsT", bound="DataclassInstance")


def need_bool(asc: Recorder, api: str, arg: str, value: object) -> None:
    """Raise a KernelError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise asc.fail(f"{api}: {arg} must be True or False, got {value!r}")


def need_params(asc: Recorder, api: str, value: object, kind: type[ParamsT]) -> ParamsT:
    """Return a parameter struct; raise a KernelError for another class, or for a field of another type."""
    if not isinstance(value, kind):
        raise asc.fail(f"{api}: its parameters must be {kind.__name__}(...), got {value!r}")
    for name, need in _needs(kind):
        need(asc, api, f"{kind.__name__}.{name}", getattr(value, name))
    return value


@cache
def _needs(kind: type["DataclassInstance"]) -> tuple[tuple[str, Callable[[Recorder, str, str, object], None]], ...]:
    """Return what to ask of the fields of a parameter struct: those that are neither int nor bool take numbers."""
    by_type = {int: need_int, bool: need_bool}
    return tuple((f.name, by_type.get(f.type, need_number)) for f in fields(kind))  # type: ignore[arg-type]


def need_number(asc: Recorder, api: str, arg: str, value: object) -> None:
    """Raise a KernelError unless `value` is a number."""
    if not isinstance(value, Real):
        raise asc.fail(f"{api}: {arg} must be a number, got {value!r}")
