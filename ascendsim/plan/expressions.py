"""Whole-number expressions of a plan, such as "align(rows * k * float, 32)".

    sum     = product { ("+" | "-") product }
    product = sign { ("*" | "//" | "%") sign }
    sign    = "-" sign | atom
    atom    = number | name | function "(" sum { "," sum } ")" | "(" sum ")"

Division rounds down and a remainder has the divisor's sign, as in Python. An expression is kept as steps of a stack
machine, so that evaluating it needs no recursion and can be done often.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ascendsim.terms import align_up, ceil_div

LARGEST = 2**63 - 1
"""No number of an expression, given or computed, may be larger or below its negative."""
MOST_CHARACTERS = 1000
MOST_NESTED = 50
"""Parentheses, function calls and signs inside each other."""


class ExpressionError(ValueError):
    """What is wrong with an expression, and at which column, counted from 1."""

    def __init__(self, column: int, reason: str) -> None:
        super().__init__(f"column {column}: {reason}")
        self.column = column
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    column: int


@dataclass(frozen=True, slots=True)
class _Step:
    """Push a number or a name's value, or replace the last `operands` values by what `work` makes of them."""

    column: int
    number: int = 0
    name: str = ""
    work: Callable[..., int] | None = None
    operands: int = 0


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression.

    Attributes:
        text: as it was written.
        steps: what the stack machine does.
    """

    text: str
    steps: tuple[_Step, ...]

    @property
    def names(self) -> dict[str, int]:
        """The names in it, with the column where each stands first."""
        found: dict[str, int] = {}
        for step in self.steps:
            if step.name:
                found.setdefault(step.name, step.column)
        return found

    def value(self, names: Mapping[str, int]) -> int:
        """Return its value.

        Raises:
            ExpressionError: an unknown name, a division by zero, a number that is too large.
        """
        stack: list[int] = []
        for step in self.steps:
            if step.work is not None:
                operands = stack[-step.operands :]
                del stack[-step.operands :]
                stack.append(_worked(step, operands))
            elif step.name:
                stack.append(_looked_up(step, names))
            else:
                stack.append(step.number)
        return stack[0]


def parse(text: str) -> Expression:
    """Return the expression that a text is.

    Raises:
        ExpressionError: it is none; the column is that of the first character that cannot stand there.
    """
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(MOST_CHARACTERS + 1, f"an expression has at most {MOST_CHARACTERS} characters")
    return Expression(text, _Parser(_tokens(text), len(text) + 1).parsed())


def near_name(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" with the nearest known name, or nothing if none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""


# ---- values -----------------------------------------------------------------------------------------------------


def _worked(step: _Step, operands: list[int]) -> int:
    assert step.work is not None
    try:
        value = step.work(*operands)
    except ZeroDivisionError:
        raise ExpressionError(step.column, f"division by zero ({operands[0]} divided by 0)") from None
    except ValueError as error:
        raise ExpressionError(step.column, str(error)) from None
    if abs(value) > LARGEST:
        raise ExpressionError(step.column, "the result is beyond 2^63 - 1")
    return value


def _looked_up(step: _Step, names: Mapping[str, int]) -> int:
    if step.name not in names:
        raise ExpressionError(step.column, f"unknown name {step.name!r}{near_name(step.name, names)}")
    return names[step.name]


def _ceil(a: int, b: int) -> int:
    if b < 0:
        raise ValueError(f"ceil({a}, {b}): the divisor must be at least 1")
    return ceil_div(a, b)


def _align(n: int, unit: int) -> int:
    if unit < 1:
        raise ValueError(f"align({n}, {unit}): the unit must be at least 1")
    return align_up(n, unit)


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
_FUNCTIONS: dict[str, tuple[Callable[..., int], int, int]] = {
    "min": (min, 2, MOST_CHARACTERS),
    "max": (max, 2, MOST_CHARACTERS),
    "ceil": (_ceil, 2, 2),
    "align": (_align, 2, 2),
}
"""Work, and least and most operands."""
FUNCTIONS = tuple(_FUNCTIONS)


# ---- parsing ----------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\s*(?:([0-9]+|[A-Za-z_][A-Za-z0-9_]*|//|\*\*|[-+*/%(),])|(\S))")


def _tokens(text: str) -> list[_Token]:
    tokens = []
    for found in _TOKEN.finditer(text):
        token = _Token(found[1] or found[2], found.start(1 if found[1] else 2) + 1)
        if found[2]:
            raise ExpressionError(token.column, f"unexpected character {token.text!r}")
        if token.text == "/":
            raise ExpressionError(token.column, "no operator /; write // (rounded down) or ceil(a, b) (rounded up)")
        if token.text == "**":
            raise ExpressionError(token.column, "no operator **; write the product out")
        tokens.append(token)
    return tokens


def _negated(value: int) -> int:
    return -value


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, tokens: list[_Token], end: int) -> None:
        self._tokens = [*tokens, _Token("", end)]
        self._at = 0
        self._nested = 0
        self._steps: list[_Step] = []

    def parsed(self) -> tuple[_Step, ...]:
        """Return the steps of the whole text."""
        self._sum()
        if self._next.text:
            self._refuse("an operator")
        return tuple(self._steps)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _refuse(self, wanted: str) -> None:
        found = f"{self._next.text!r} stands there" if self._next.text else "the expression ends"
        raise ExpressionError(self._next.column, f"{wanted} is needed, but {found}")

    def _expect(self, text: str) -> None:
        if self._next.text != text:
            self._refuse(f"'{text}'")
        self._take()

    def _deeper(self) -> None:
        self._nested += 1
        if self._nested > MOST_NESTED:
            raise ExpressionError(self._next.column, f"nested deeper than {MOST_NESTED}")

    def _sum(self) -> None:
        self._chain(self._product, ("+", "-"))

    def _product(self) -> None:
        self._chain(self._sign, ("*", "//", "%"))

    def _chain(self, part: Callable[[], None], operators: tuple[str, ...]) -> None:
        part()
        while self._next.text in operators:
            operator = self._take()
            part()
            self._steps.append(_Step(operator.column, work=_OPERATORS[operator.text], operands=2))

    def _sign(self) -> None:
        if self._next.text != "-":
            self._atom()
            return
        self._deeper()
        minus = self._take()
        self._sign()
        self._steps.append(_Step(minus.column, work=_negated, operands=1))
        self._nested -= 1

    def _atom(self) -> None:
        token = self._next
        if token.text == "(":
            self._deeper()
            self._take()
            self._sum()
            self._expect(")")
            self._nested -= 1
        elif token.text[:1].isdigit():
            self._steps.append(_Step(token.column, number=_number(self._take())))
        elif token.text[:1].isalpha() or token.text[:1] == "_":
            self._take()
            if self._next.text == "(":
                self._call(token)
            else:
                self._steps.append(_Step(token.column, name=token.text))
        else:
            self._refuse("a number, a name or '('")

    def _call(self, function: _Token) -> None:
        name = function.text
        if name not in _FUNCTIONS:
            near = near_name(name, FUNCTIONS)
            raise ExpressionError(
                function.column, f"unknown function {name!r}{near or '; known: ' + ', '.join(FUNCTIONS)}"
            )
        self._deeper()
        self._take()
        self._sum()
        count = 1
        while self._next.text == ",":
            self._take()
            self._sum()
            count += 1
        self._expect(")")
        self._nested -= 1
        work, least, most = _FUNCTIONS[name]
        if not least <= count <= most:
            wanted = f"{least}" if least == most else f"at least {least}"
            raise ExpressionError(function.column, f"{name} takes {wanted} operands, not {count}")
        self._steps.append(_Step(function.column, work=work, operands=count))


def _number(token: _Token) -> int:
    digits = token.text.lstrip("0") or "0"
    if len(digits) > len(str(LARGEST)) or int(digits) > LARGEST:
        raise ExpressionError(token.column, "the number is beyond 2^63 - 1")
    return int(digits)
