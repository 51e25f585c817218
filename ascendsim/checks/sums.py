"""What advice adds up before it speaks: one finding for each rule, kernel line and pair of operands."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from ascendsim.device import Device
from ascendsim.errors import Finding, Rule, Severity
from ascendsim.isa.instruction import Row
from ascendsim.library import is_library
from ascendsim.program import Program


@dataclass(frozen=True, slots=True)
class Words:
    """What the text of a finding needs beside its sums."""

    got: object = ""
    wanted: object = ""
    hint: str = ""
    fill: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class Noted:
    """One place where a rule holds: its words, and what is added up over templates and calls."""

    rule: Rule
    where: str
    operand: str
    words: Words
    sums: dict[str, float]
    names: tuple[str, ...] = ()
    """Of a pair of operands that meet: their buffers."""
    count: int = 0


@dataclass(slots=True)
class Notes:
    """Places by rule, line and operands; the first that is noted gives the words."""

    places: dict[tuple[str, str, str], Noted] = field(default_factory=dict)

    def add(
        self,
        rule: Rule,
        where: str,
        operand: str,
        calls: int,
        words: Callable[[], Words],
        names: tuple[str, ...] = (),
        **sums: float,
    ) -> None:
        """Note a place of a template that is used `calls` times; `sums` are those of one use."""
        key = (rule.code, where, operand)
        noted = self.places.get(key)
        if noted is None:
            noted = self.places[key] = Noted(rule, where, operand, words(), dict.fromkeys(sums, 0.0), names)
        noted.count += calls
        for name, value in sums.items():
            noted.sums[name] += value * calls

    def findings(self) -> Iterator[Finding]:
        """A finding of each place, its sums as whole numbers in the text."""
        for n in self.places.values():
            w, sums = n.words, {name: round(value) for name, value in n.sums.items()}
            fill = w.fill | sums | {"count": n.count}
            found = n.rule.finding(n.where, operand=n.operand, got=w.got, wanted=w.wanted, hint=w.hint, fill=fill)
            yield replace(found, count=n.count)


def holds_on(rule: Rule, device: Device) -> bool:
    """Whether a rule is known to hold on a device's architecture."""
    return not rule.archs or device.npu_arch in rule.archs


def place_of(program: Program, row: Row) -> str:
    """Instruction and kernel line of a row."""
    return f"{row.op.api} ({program.lines[row.line]})"


def without_consequences(recorded: Iterable[Finding], found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return what was found, less the inside of library calls if one was called wrongly, which was found recording it.

    Rows of such a call do not fit its tensors: that follows from the arguments, which are what there is to mend.
    """
    is_wrong = any(f.severity is Severity.ERROR and is_library(f.where.rpartition(", in ")[2]) for f in recorded)
    return tuple(f for f in found if not (is_wrong and is_library(f.where.partition("(")[2].partition(")")[0])))
