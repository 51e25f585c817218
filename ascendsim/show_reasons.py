"""What is said about a call for the terminal, as lines: findings with what mends them, notes."""

from collections.abc import Iterator, Sequence

from ascendsim.errors import Finding


def finding_lines(word: str, finding: Finding) -> Iterator[str]:
    """Yield a finding and all that it says, behind an empty line; `word` stands before its code."""
    yield ""
    yield f"{word} {finding.code} {finding.message}"
    yield f"  where: {finding.where}; got {finding.got}, wanted {finding.wanted}"
    if finding.hint:
        yield f"  to mend it: {finding.hint}"
    yield f"  source: {finding.source}"


def note_lines(notes: Sequence[str]) -> Iterator[str]:
    """Yield notes, if any, behind an empty line."""
    if notes:
        yield ""
    yield from (f"note: {note}" for note in notes)
