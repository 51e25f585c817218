"""Constraints of a search: two whole-number expressions over fields and a comparison, "tile_m * buffer_num <= 64".

The expressions are those of plans (`plan.expressions`). Names are the fields that vary, the numbers of the scenario's
[tiling], block_dim, and what the host side derives (of softmax_grad the fields of SoftMaxTiling, such as split_m). A
constraint over given names alone is judged before a candidate goes anywhere; one over derived names behind the host
side, before the kernel is recorded.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ascendsim.errors import InputError
from ascendsim.plan.expressions import Expression, ExpressionError, near_name, parse
from ascendsim.plan.formulas import CONSTANTS

_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_SIGN = re.compile(r"<=|>=|==|!=|<|>")


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint.

    Attributes:
        text: as it was written.
        left, right: what is compared.
        sign: how.
    """

    text: str
    left: Expression
    right: Expression
    sign: str

    @property
    def names(self) -> dict[str, int]:
        """The names in it but constants, with the column where each stands first."""
        offset = _SIGN.search(self.text)
        assert offset is not None
        found = dict(self.left.names)
        for name, column in self.right.names.items():
            found.setdefault(name, column + offset.end())
        return {name: column for name, column in found.items() if name not in CONSTANTS}

    def holds(self, names: Mapping[str, int]) -> bool:
        """Whether it holds.

        Raises:
            InputError: an expression has no value with these numbers.
        """
        known = CONSTANTS | dict(names)
        try:
            return _COMPARE[self.sign](self.left.value(known), self.right.value(known))
        except ExpressionError as error:
            seen = ", ".join(f"{name} = {known[name]}" for name in self.names if name in known)
            raise InputError(f'--where "{self.text}": {error.reason}{" with " + seen if seen else ""}') from None


def parse_constraints(texts: Sequence[str]) -> tuple[Constraint, ...]:
    """Return the constraints that options are.

    Raises:
        InputError: one is none; names the column.
    """
    return tuple(_parsed(text) for text in texts)


def _parsed(text: str) -> Constraint:
    signs = list(_SIGN.finditer(text))
    if len(signs) != 1:
        found = "no comparison" if not signs else f"{len(signs)} comparisons"
        raise InputError(
            f'--where "{text}": {found}; want two expressions with one of {", ".join(_COMPARE)} between them, such as '
            '"tile_m * buffer_num <= 64"'
        )
    sign = signs[0]
    left = _side(text, text[: sign.start()], 0)
    return Constraint(text, left, _side(text, text[sign.end() :], sign.end()), sign.group())


def _side(text: str, part: str, offset: int) -> Expression:
    try:
        return parse(part)
    except ExpressionError as error:
        raise InputError(f'--where "{text}": column {error.column + offset}: {error.reason}') from None


def check_names(constraints: Iterable[Constraint], numbers: Iterable[str], words: Iterable[str]) -> None:
    """Refuse constraints over names that nothing has.

    Args:
        constraints: what is looked at.
        numbers: names that stand for whole numbers.
        words: names of fields that are words for some candidate.

    Raises:
        InputError: names the column, and the nearest name.
    """
    known, not_numbers = list(numbers), set(words)
    for constraint in constraints:
        for name, column in constraint.names.items():
            where = f'--where "{constraint.text}": column {column}'
            if name in not_numbers:
                raise InputError(f"{where}: {name} has words among its values; constrain fields of whole numbers")
            if name not in known:
                raise InputError(
                    f"{where}: unknown name {name!r}{near_name(name, known)}; there are {', '.join(known)}"
                )
