"""Stores that add to GM: the mode, and the additions."""

from collections.abc import Callable
from typing import cast

import numpy as np

from ascendsim.dtypes import DType, dtype, saturate
from ascendsim.errors import Rule
from ascendsim.isa.forms import declare_setter
from ascendsim.isa.instruction import Array, Context, Operand, Recorder
from ascendsim.memory import Lanes

DTYPE_ATOMIC = Rule(
    "E-DTYPE-ATOMIC",
    "{api}: arch {arch} does not add {got} in GM; it adds {wanted}",
    "cast first, or add on chip",
    "asc-devkit docs, SetAtomicAdd page",
    condition="SetAtomicAdd is given an element type that the product does not add in GM, or another one than "
    "the store that follows.",
)
DTYPE_OTHER = DTYPE_ATOMIC.saying(
    "{api} {operand}: SetAtomicAdd was set for {wanted}, the store writes {got}",
    "call set_atomic_add with the type that is stored",
)
ATOMIC_REPORTS = (DTYPE_ATOMIC, DTYPE_OTHER)
"""What SetAtomicAdd, and the stores behind it, report."""


_ADD = declare_setter(
    "set_atomic_add", "Stores to GM add. Source: asc-devkit docs, SetAtomicAdd page.", api="SetAtomicAdd"
)
_NONE = declare_setter(
    "set_atomic_none", "Stores to GM replace. Source: asc-devkit docs, SetAtomicNone page.", api="SetAtomicNone"
)


def adder(ctx: Context, operand: Operand, at: Lanes) -> Callable[[Array], None]:
    """Return what adds elements to those of an operand in GM, rounded once to the type; integers wrap.

    Elements that lie on the same address count as if only the last one was added.
    """
    read, write = ctx.reader(operand, at), ctx.writer(operand, at)

    def add(values: Array) -> None:
        before = read()
        if before.dtype.kind in "iu":
            write(before + values)
            return
        wide = before.astype(np.float32) + values.astype(np.float32)
        write(saturate(wide.astype(before.dtype), ctx.overflow))

    return add


def is_adding(asc: Recorder, api: str, stored: DType) -> bool:
    """Whether a store that is being recorded adds; another type than that of the mode is found."""
    if asc.atomic is None:
        return False
    if asc.atomic is not stored:
        asc.report(DTYPE_OTHER, operand="dst", got=stored, wanted=asc.atomic, api=api)
    return True


class AtomicInstructions:
    """SetAtomicAdd, SetAtomicNone."""

    def set_atomic_add(self, element: DType | str) -> None:
        """Let stores to GM add, in this element type, until set_atomic_none (SetAtomicAdd<T>)."""
        asc = cast("Recorder", self)
        kind = dtype(element)
        known = asc.device.arithmetic.atomic_types.value
        if kind.name not in known:
            arch = asc.device.npu_arch
            asc.report(DTYPE_ATOMIC, operand="T", got=kind, wanted=", ".join(known), api="SetAtomicAdd", arch=arch)
            return
        asc.atomic = kind
        asc.emit(_ADD)

    def set_atomic_none(self) -> None:
        """Let stores to GM replace again (SetAtomicNone)."""
        asc = cast("Recorder", self)
        asc.atomic = None
        asc.emit(_NONE)
