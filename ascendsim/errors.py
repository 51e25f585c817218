"""What can go wrong, as data: rules and findings for kernels and tilings, exceptions for bad input.

A user's mistake in a kernel or tiling is a `Finding`; the run goes on as far as meaning is defined. An exception is
for input that cannot be read, for a device that does not exist, and for a kernel that cannot be recorded further.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum


class Severity(Enum):
    """How sure a finding is that something breaks. The letter is the first of its code."""

    ERROR = "E"
    """The kernel refuses, hangs, or is undefined."""
    WARNING = "W"
    """Likely a mistake, or slow."""
    INFO = "I"
    """Advice."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One violated rule: which, where, by how much, and how to mend it."""

    code: str
    """Stable code such as "E-CAP-UB"."""
    message: str
    hint: str = ""
    where: str = ""
    """Instruction and kernel line, or the scenario key."""
    operand: str = ""
    got: str = ""
    wanted: str = ""
    source: str = ""
    """Public document that states the rule."""
    count: int = 1
    """How many times the same rule broke at the same place."""
    level: str = ""
    """Severity letter where it is not the first letter of the code."""

    @property
    def severity(self) -> Severity:
        """Severity: the first letter of the code, unless the rule is reported as another."""
        return Severity(self.level or self.code[0])

    def to_dict(self) -> dict[str, str | int]:
        """Return a plain dict for JSON, severity included."""
        return {"severity": self.severity.value, **asdict(self)}

    def __str__(self) -> str:
        parts = [self.code]
        if self.where:
            parts.append(f"{self.where}:")
        parts.append(self.message)
        if self.hint:
            parts.append(f"(to mend it: {self.hint})")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that the scenario accepts, and why."""

    finding: Finding
    reason: str

    def to_dict(self) -> dict[str, str | int]:
        """Return a plain dict for JSON: the finding's, and the reason."""
        return {**self.finding.to_dict(), "suppressed": self.reason}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that findings refer to. Declared once, next to what it checks.

    `message` holds {names} that `finding` fills in.
    """

    code: str
    message: str
    hint: str
    source: str
    level: str = ""
    """Severity letter where it is not the first letter of the code (codes are stable, severities may be graded)."""
    condition: str = ""
    """When it is found: one sentence that holds for all its messages."""
    archs: tuple[int, ...] = ()
    """Architectures it holds on, such as 2201; () for all."""
    is_variant: bool = False
    """Made by `saying`: the same rule in other words."""

    def saying(self, message: str, hint: str = "", source: str = "", level: str = "") -> "Rule":
        """Return the same rule with another message; hint, source and level stay where they are not given."""
        return replace(
            self,
            message=message,
            hint=hint or self.hint,
            source=source or self.source,
            level=level or self.level,
            is_variant=True,
        )

    def finding(
        self,
        where: str = "",
        *,
        operand: str = "",
        got: object = "",
        wanted: object = "",
        hint: str = "",
        fill: Mapping[str, object] | None = None,
    ) -> Finding:
        """Return a finding of this rule; `fill` holds {names} of message and hint beside operand, got and wanted."""
        values = {"operand": operand, "got": got, "wanted": wanted, **(fill or {})}
        return Finding(
            code=self.code,
            message=self.message.format(**values),
            hint=hint or self.hint.format(**values),
            where=where,
            operand=operand,
            got=str(got),
            wanted=str(wanted),
            source=self.source,
            level=self.level,
        )


class AscendSimError(Exception):
    """Base of every error a user can cause. Its text says what, where, why, and how to mend it."""


class InputError(AscendSimError):
    """A file, key or value that cannot be used."""


class DeviceError(AscendSimError):
    """A device name that names no single known part."""


class KernelError(AscendSimError):
    """A kernel that cannot be recorded; the text starts with the kernel's file and line."""


class UnknownNameError(KernelError, AttributeError):
    """A kernel asks the core's handle for a name it does not have: an instruction not modelled, or a typo."""


class Rejected(AscendSimError):
    """Findings of severity E that end the recording or stop the run before simulation."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings: tuple[Finding, ...] = tuple(findings)
        super().__init__("\n".join(str(f) for f in self.findings))


class PainterError(AscendSimError):
    """The pictures of a run could not be drawn; everything else of it is there."""


class EnginesDiffer(AscendSimError):
    """The two engines gave different timelines for one program: an error of this package, not of the user."""


class Deadlock(AscendSimError):
    """No pipe can move. The text lists every waiting pipe, its flag, and the last cycle anything moved.

    `cycle` is None when values were being computed, which knows no time.
    """

    def __init__(self, text: str, cycle: int | None = None) -> None:
        self.cycle = cycle
        super().__init__(text)
