"""Instructions that a user's own file declares, with the forms of the built-in ones.

They stand in no table: a kernel calls those that its own file declares or imports, so that two files may use one name
and a file may be loaded again. Each declaration has an opcode of its own, behind those of the built-in instructions,
so that programs recorded before keep theirs. A stored program holds what a declaration says, without its arithmetic,
so that it can be loaded where the file is gone.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from pydantic import ValidationError

from ascendsim.device import VectorCost
from ascendsim.dtypes import FLOAT, HALF, DType, dtype
from ascendsim.errors import InputError, KernelError
from ascendsim.isa.elementwise import unary
from ascendsim.isa.forms import (
    Form,
    binary,
    scalar_binary,
)
from ascendsim.isa.instruction import BY_OPCODE, TABLE, Array, Check, Declaration, Instruction
from ascendsim.isa.reduce import block_reduction, whole_reduction

Arithmetic = Callable[..., Array]


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of a declared instruction: startup + per_repeat * repeats + partial_repeat + drain.

    Attributes:
        startup: cycles before the first repeat, after a gap or a barrier.
        per_repeat: cycles of each 256 B repeat.
        drain: cycles until whoever waits sees the result.
        min_issue: least cycles between two starts.
        partial_repeat: cycles more, once, where the last repeat has inactive lanes.
        conflict: whether UB banks are looked at for "two_source", "one_source" or "none" of the operands.
        source: where the numbers come from.
    """

    startup: int = 13
    per_repeat: float = 1
    drain: int = 11
    min_issue: int = 3
    partial_repeat: int = 16
    conflict: str = "none"
    source: str = "given with the instruction"


def _block(api: str, mnemonic: str, _allowed: tuple[DType, ...]) -> Callable[[Arithmetic], Form[Any]]:
    return block_reduction(api, mnemonic, lambda d: d.per_datablock)


def _whole(api: str, mnemonic: str, _allowed: tuple[DType, ...]) -> Callable[[Arithmetic], Form[Any]]:
    return whole_reduction(api, mnemonic, lambda d: d.per_repeat)


FORMS: dict[str, Callable[[str, str, tuple[DType, ...]], Callable[[Arithmetic], Form[Any]]]] = {
    "binary": binary,
    "unary": unary,
    "scalar_binary": scalar_binary,
    "block_reduction": _block,
    "whole_reduction": _whole,
}
_PASSING = "declared instruction"
"""Name under which a declaration passes through the table of what is built in, which forms enter it into."""
REDUCTIONS = ("block_reduction", "whole_reduction")
"""Forms whose arithmetic makes [n] of [n, lanes]; they take half and float."""


def instruction(
    form: str,
    api: str,
    *,
    cost: str | Cost,
    dtypes: Iterable[str] = ("half", "float"),
    mnemonic: str = "",
    checks: tuple[Check, ...] = (),
) -> Callable[[Arithmetic], Form[Any]]:
    """Declare an instruction in a kernel's file: `asc.<name of the function>` from then on, in that file's kernels.

    Args:
        form: "binary", "unary", "scalar_binary", "block_reduction" or "whole_reduction": operands, call, rules.
        api: its name in findings and logs, in CamelCase.
        cost: a `Cost`, or the AscendC name of an instruction whose cycles it takes ("Add").
        dtypes: element types it takes, the same for all operands; reductions take half and float.
        mnemonic: its name in instruction logs and traces; the function's if left out.
        checks: rules beyond those of the form.

    The function gets its sources as 1-D arrays of active lanes, and in scalar_binary the scalar; it returns as many
    elements. A reduction gets (values [n, lanes], present [n, lanes] or None, add) and returns [n]. Its docstring says
    what it does and names its source ("Source: ...").

    Raises:
        InputError: an unknown form or dtype, a name that is built in, a docstring without source, a bad cost.
    """
    allowed = tuple(dtype(d) for d in dtypes)

    def make(fn: Arithmetic) -> Form[Any]:
        code = fn.__code__
        file = code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
        said = Declaration(
            name=fn.__name__,
            form=form,
            api=api,
            mnemonic=mnemonic or fn.__name__,
            dtypes=tuple(d.name for d in allowed),
            cost=cost if isinstance(cost, str) else asdict(cost),
            doc=inspect.getdoc(fn) or "",
            where=f"{file}:{code.co_firstlineno}",
        )
        return _enter(said, fn, checks)

    return make


def _enter(said: Declaration, fn: Arithmetic, checks: tuple[Check, ...] = ()) -> Form[Any]:
    """Build the instruction by its form and give it an opcode, outside of the table of what is built in."""
    where = f"instruction {said.name} ({said.where})"
    if said.form not in FORMS:
        raise InputError(f"{where}: unknown form {said.form!r}; known: {', '.join(FORMS)}")
    if said.name in TABLE and not said.is_stored:
        raise InputError(f"{where}: {said.name} is built in; give yours another name")
    if not said.is_stored and any(said.api == known.api for known in TABLE.values()):
        raise InputError(f"{where}: {said.api} is the AscendC name of one that is built in; give yours another")
    if said.form in REDUCTIONS and set(said.dtypes) != {HALF.name, FLOAT.name}:
        raise InputError(f"{where}: a {said.form} takes half and float; leave dtypes out")
    if "Source:" not in said.doc:
        raise InputError(f'{where}: its docstring names no source; end it with "Source: ..."')
    own_cost = None if isinstance(said.cost, str) else _vector_cost(where, said.cost)
    body = partial(_guarded, fn, where, is_reduction=said.form in REDUCTIONS)
    body.__name__, body.__doc__ = _PASSING, said.doc  # type: ignore[attr-defined]
    made = FORMS[said.form](said.api, said.mnemonic, tuple(dtype(d) for d in said.dtypes))(cast("Arithmetic", body))
    del TABLE[_PASSING]
    family = said.cost if isinstance(said.cost, str) else said.api
    op = replace(
        made.op,
        name=said.name,
        family=family,
        own_cost=own_cost,
        declared=said,
        checks=(*made.op.checks, *checks),
    )
    BY_OPCODE[op.opcode] = op
    return Form(op, made.call)


def _vector_cost(where: str, given: dict[str, Any]) -> VectorCost:
    try:
        return VectorCost.model_validate(given | {"status": "assumed"})
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{where}: cost {first['loc'][0]} = {first['input']!r}: {first['msg']}") from None


def _guarded(fn: Arithmetic, where: str, *values: Any, is_reduction: bool) -> Array:
    """Run the user's arithmetic; what it raises, or a result of the wrong shape, names the declaration."""
    try:
        result = np.asarray(fn(*values))
    except InputError:
        raise
    except Exception as error:
        raise KernelError(f"{where} raised {type(error).__name__}: {error}") from error
    source = np.asarray(values[0])
    wanted = source.shape[:1] if is_reduction else source.shape
    if result.shape != wanted:
        raise KernelError(f"{where} returned an array of shape {list(result.shape)}, wanted {list(wanted)}")
    return result.astype(source.dtype, copy=False)


def declared_by(kernel: object) -> dict[str, Form[Any]]:
    """Return by name the instructions that a kernel can call beside the built-in ones: those its file knows."""
    while isinstance(kernel, partial):
        kernel = kernel.func
    function = inspect.unwrap(cast("Callable[..., Any]", kernel))
    known = getattr(function, "__globals__", None) or getattr(type(function).__call__, "__globals__", {})
    forms = [it for it in known.values() if isinstance(it, Form) and it.op.declared is not None]
    return {form.op.name: form for form in forms}


def without_arithmetic(said: Declaration) -> Instruction:
    """Return a stored program's instruction of which only the declaration is known: all but its values.

    The same declaration gives the same instruction.
    """
    for op in BY_OPCODE[len(TABLE) :]:
        if op.declared == replace(said, is_stored=True):
            return op

    def missing(*_: object) -> Array:
        raise InputError(
            f"instruction {said.name}: its arithmetic stands in {said.where}, which is not part of a stored run; run "
            "the scenario again to compute values"
        )

    form: Form[Any] = _enter(replace(said, is_stored=True), missing)
    return form.op
