"""Expressions of a plan against Python's own arithmetic, and the exact words and columns of what is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.plan.expressions import LARGEST, ExpressionError, parse


def _ceil(a, b):
    if b < 0:
        raise ValueError
    return -(-a // b)


def _align(n, unit):
    if unit < 1:
        raise ValueError
    return n + -n % unit


NAMES = {"rows": 9, "k": 1024 % 61, "tile_m": 0, "half": 2, "_x1": 7}
PYTHON = {"min": min, "max": max, "ceil": _ceil, "align": _align, "__builtins__": {}}


def _python(text):
    """What Python makes of a text, None where it has no value."""
    try:
        return eval(text, PYTHON | NAMES)  # noqa: S307 - texts of this file
    except (ZeroDivisionError, ValueError):
        return None


def _ours(text):
    try:
        return parse(text).value(NAMES)
    except ExpressionError:
        return None


LEAVES = st.integers(0, 60).map(str) | st.sampled_from(sorted(NAMES))
BLANKS = st.sampled_from(["", " ", "  ", "\t"])
WRAPS = st.sampled_from(["{}", "({})", "( {} )", "-{}", "-({})", "- -{}"])


def _deeper(inner):
    operator = st.sampled_from(["+", "-", "*", "//", "%"])
    pair = st.tuples(inner, BLANKS, operator, BLANKS, inner, WRAPS).map(lambda p: p[5].format("".join(p[:5])))
    many = st.tuples(st.sampled_from(["min", "max"]), st.lists(inner, min_size=2, max_size=4))
    two = st.tuples(st.sampled_from(["ceil", "align"]), st.lists(inner, min_size=2, max_size=2))
    return pair | (many | two).map(lambda call: f"{call[0]}({', '.join(call[1])})")


@given(st.recursive(LEAVES, _deeper, max_leaves=8))
def test_every_expression_is_what_python_makes_of_it(text):
    assert _ours(text) == _python(text)


@given(st.text(alphabet="0123 ab+-*/%(),minaxcel_.^é\n", max_size=30))
def test_any_text_is_an_expression_or_refused_at_a_column(text):
    names = {"a": 3, "b": -2, "ab": 5}
    try:
        value = parse(text).value(names)
    except ExpressionError as error:
        assert 1 <= error.column <= len(text) + 1  # noqa: PT017 - the other way round is a success
        return
    plain = re.sub(r"\b0+(?=\d)", "", " ".join(text.split()))
    assert value == eval(plain, PYTHON | names)  # noqa: S307


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("10 - 4 - 3", 3),
        ("64 // 4 // 2", 8),
        ("ceil(7, 2)", 4),
        ("ceil(-7, 2)", -3),
        ("align(33, 32)", 64),
        ("align(0, 32)", 0),
        ("min(3, 1, 2) + max(1, 5)", 6),
        ("007", 7),
        (str(LARGEST), LARGEST),
        (f"-{LARGEST}", -LARGEST),
        ("(((((1)))))", 1),
    ],
)
def test_values(text, value):
    assert parse(text).value({}) == value


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("", 1, "a number, a name or '(' is needed, but the expression ends"),
        ("   ", 4, "a number, a name or '(' is needed, but the expression ends"),
        ("2 +", 4, "a number, a name or '(' is needed, but the expression ends"),
        ("2 + * 3", 5, "a number, a name or '(' is needed, but '*' stands there"),
        ("rows k", 6, "an operator is needed, but 'k' stands there"),
        ("12ab", 3, "an operator is needed, but 'ab' stands there"),
        ("(2 + 3", 7, "')' is needed, but the expression ends"),
        ("2 + 3)", 6, "an operator is needed, but ')' stands there"),
        ("min(1, 2", 9, "')' is needed, but the expression ends"),
        ("min(1 2)", 7, "')' is needed, but '2' stands there"),
        ("min()", 5, "a number, a name or '(' is needed, but ')' stands there"),
        ("1 + min(4)", 5, "min takes at least 2 operands, not 1"),
        ("ceil(1, 2, 3)", 1, "ceil takes 2 operands, not 3"),
        ("rows / 2", 6, "no operator /; write // (rounded down) or ceil(a, b) (rounded up)"),
        ("2 ** 3", 3, "no operator **; write the product out"),
        ("2 ^ 3", 3, "unexpected character '^'"),
        ("1.5", 2, "unexpected character '.'"),
        ("+3", 1, "a number, a name or '(' is needed, but '+' stands there"),
        ("2 * algin(3, 4)", 5, "unknown function 'algin'; did you mean align?"),
        ("sqrt(3)", 1, "unknown function 'sqrt'; known: min, max, ceil, align"),
        ("1 + 9223372036854775808", 5, "the number is beyond 2^63 - 1"),
        ("9" * 900, 1, "the number is beyond 2^63 - 1"),
        ("1" * 1001, 1001, "an expression has at most 1000 characters"),
        ("(" * 51 + "1" + ")" * 51, 51, "nested deeper than 50"),
        ("-" * 51 + "1", 51, "nested deeper than 50"),
    ],
)
def test_what_is_no_expression(text, column, reason):
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert (caught.value.column, caught.value.reason) == (column, reason)


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("8 // (rows - 9)", 3, "division by zero (8 divided by 0)"),
        ("8 % 0", 3, "division by zero (8 divided by 0)"),
        ("ceil(8, tile_m)", 1, "division by zero (8 divided by 0)"),
        ("ceil(8, -1)", 1, "ceil(8, -1): the divisor must be at least 1"),
        ("3 + align(8, tile_m)", 5, "align(8, 0): the unit must be at least 1"),
        ("rows * rwos", 8, "unknown name 'rwos'; did you mean rows?"),
        ("zzz", 1, "unknown name 'zzz'"),
        (f"{LARGEST} + 1", 21, "the result is beyond 2^63 - 1"),
        (f"-{LARGEST} - 1", 22, "the result is beyond 2^63 - 1"),
        (f"{LARGEST} * {LARGEST} // {LARGEST}", 21, "the result is beyond 2^63 - 1"),
    ],
)
def test_what_has_no_value(text, column, reason):
    with pytest.raises(ExpressionError) as caught:
        parse(text).value(NAMES)
    assert (caught.value.column, caught.value.reason) == (column, reason)
    assert str(caught.value) == f"column {column}: {reason}"


def test_a_long_chain_needs_no_deep_stack():
    assert parse("+".join(["1"] * 500)).value({}) == 500


def test_names_with_the_column_of_their_first_place():
    assert parse("rows * k + rows").names == {"rows": 1, "k": 8}
