"""Tables and numbers as plain text, which is what a comparison's `str` is made of."""

from collections.abc import Sequence

from ascendsim.aligned import columns


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Return the lines of a table: the first `left` columns begin, the others end below each other."""
    return list(columns([heads, *rows], range(left)))


def number(value: float) -> str:
    """Return a whole number with its thousands apart, any other with three decimals."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def signed(value: float) -> str:
    """Return a difference with its sign; none has none."""
    return number(value) if value == 0 else ("+" if value > 0 else "-") + number(abs(value))


def percent(part: float, whole: float) -> str:
    """Return a signed share, "" of nothing."""
    return f"{part / whole:+.1%}" if whole else ""


def left_out(count: int, what: str) -> list[str]:
    """Return a line that says how many more there are, if any."""
    return [f"  {count:,} more {what}: --json has all"] if count > 0 else []


def indented(lines: Sequence[str]) -> list[str]:
    """Return lines two columns to the right."""
    return [f"  {line}" for line in lines]
