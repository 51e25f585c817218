"""What a call of a host function of the softmax family gives: the tiling struct, CANN's answer, and the error.

CANN answers some bad input with a log line and a number. A `CannOutcome` reports that answer, whatever it is. The
functions named after CANN's raise `SoftMaxInputError` where CANN logs an error, refuses or crashes; where CANN says
nothing they return its number.
"""

from dataclasses import dataclass
from typing import Final, Literal

from ascendsim.errors import InputError

Status = Literal["ok_silent", "ok_with_log", "rejected", "crash_SIGSEGV", "crash_SIGFPE", "assert_workspace_too_small"]
"""How a call of CANN's function ends. The last is the kernel's only."""

TAIL_FIELDS: Final = "rangeM, tailM, tailSplitSize, tailReduceSize"

Stale = Literal["none", "all", "rangeM", "rangeM, tailM, tailSplitSize, tailReduceSize"]
"""Which fields of a struct passed in keep the value from before the call."""

Kind = Literal["size", "max_min", "tiling", "kernel"]
"""What a function gives: one size, both sizes at once, the host's tiling, or the kernel's."""


@dataclass(frozen=True, slots=True)
class SoftMaxTiling:
    """How a softmax API cuts its rows into tiles: CANN's struct, same fields, same order, each a uint32.

    CANN's LogSoftMaxTiling is a struct of its own with the same fields.
    """

    src_m: int = 0
    """Rows of the whole input, M."""
    src_k: int = 0
    """Elements of one row, K."""
    src_size: int = 0
    """Elements of the whole input."""
    out_max_m: int = 0
    """Rows of the result that has one datablock per row."""
    out_max_k: int = 0
    """Elements of one datablock of the row results' type."""
    out_max_size: int = 0
    """Elements of that result."""
    split_m: int = 0
    """Rows of a full tile; 0 when not one row fits."""
    split_k: int = 0
    """Elements of one row of a tile, always K."""
    split_size: int = 0
    """Elements of a full tile, and the distance from one tile to the next."""
    reduce_m: int = 0
    """Rows of a full tile's row results, equal to split_m."""
    reduce_k: int = 0
    """Elements kept per row result: one datablock of its type."""
    reduce_size: int = 0
    """Elements of a full tile's row results; SoftmaxGrad's temp stores them as floats."""
    range_m: int = 0
    """Full tiles. CANN leaves it alone when split_m is 0."""
    tail_m: int = 0
    """Rows of the last, partial tile; 0 when the full tiles cover everything."""
    tail_split_size: int = 0
    """Elements of the partial tile."""
    tail_reduce_size: int = 0
    """Elements of the partial tile's row results."""


@dataclass(frozen=True, slots=True)
class CannOutcome:
    """What one call of CANN's function does, bad input included."""

    function: str
    """CANN's name of the function."""
    kind: Kind
    """What the function gives."""
    status: Status
    returned_bytes: int | None
    """Return value of a temp-size function; None for other functions and crashes."""
    max_min_bytes: tuple[int, int] | None
    """Maximum and minimum of a function that gives both; None for other functions, crashes and refusals."""
    tiling: SoftMaxTiling | None
    """Content of a fresh struct after the call; None for temp sizes and crashes."""
    fields_left_stale: Stale
    """What a struct that was used before keeps. CANN's plain-struct overload gets zeros there instead."""
    log_codes: tuple[str, ...]
    """Log lines in order, by our short names; W_ is a warning, E_ an error."""
    meaning: str
    """All that is unusual about the call, in words; empty when nothing is."""
    problem: str
    """What is wrong with the input and how to mend it; empty when there is nothing to mend."""
    wrapped: bool
    """True when a value did not fit in its uint32."""

    @property
    def is_error(self) -> bool:
        """True when CANN logs an error, refuses or crashes."""
        return self.status not in {"ok_silent", "ok_with_log"} or any(c.startswith("E_") for c in self.log_codes)

    @property
    def cann_does(self) -> str:
        """CANN's answer as one sentence, without its full stop."""
        most, least = self.max_min_bytes or (0, 0)
        return _CANN_DOES[self.status, self.kind].format(
            logs=f"CANN logs {', '.join(self.log_codes) or 'nothing'}",
            bytes=self.returned_bytes,
            max=most,
            min=least,
            split_m=self.tiling and self.tiling.split_m,
            kept=_KEPT.get(self.fields_left_stale, ""),
        )


class SoftMaxInputError(InputError):
    """Input that CANN logs as an error, refuses or crashes on; `cann` says which."""

    def __init__(self, problem: str, cann: CannOutcome) -> None:
        super().__init__(problem, cann)  # both in args, so that a worker process can send it back
        self.problem = problem
        self.cann = cann

    def __str__(self) -> str:
        return f"{self.cann.function}: {self.problem}. {self.cann.cann_does}."


_KEPT = {"rangeM": " and range_m as it was", TAIL_FIELDS: " and range_m and the tail as they were"}

_FPE = "{logs} and divides by zero: undefined behaviour, SIGFPE on x86"
_SEGV = "CANN reads past the empty list of axes: undefined behaviour, SIGSEGV where it was tried"
_CANN_DOES: dict[tuple[Status, Kind], str] = {
    ("ok_silent", "size"): "{logs} and returns {bytes}",
    ("ok_silent", "max_min"): "{logs} and gives {max} as maximum and {min} as minimum",
    ("ok_silent", "tiling"): "{logs} and fills the struct, split_m with {split_m}{kept}",
    ("ok_silent", "kernel"): "{logs} and fills the struct, split_m with {split_m}",
    ("ok_with_log", "size"): "{logs} and still returns {bytes}",
    ("ok_with_log", "max_min"): "{logs} and still gives {max} as maximum and {min} as minimum",
    ("ok_with_log", "tiling"): "{logs} and still fills the struct, split_m with {split_m}{kept}",
    ("rejected", "size"): "{logs} and returns 0",
    ("rejected", "max_min"): "{logs} and leaves both sizes as they were",
    ("rejected", "tiling"): "{logs}; it leaves an optiling struct as it was and fills a plain struct with zeros",
    ("rejected", "kernel"): "CANN compiles the kernel for half and float only",
    ("crash_SIGSEGV", "size"): _SEGV,
    ("crash_SIGSEGV", "max_min"): _SEGV,
    ("crash_SIGSEGV", "tiling"): _SEGV,
    ("crash_SIGFPE", "size"): _FPE,
    ("crash_SIGFPE", "max_min"): _FPE,
    ("crash_SIGFPE", "tiling"): _FPE,
    ("crash_SIGFPE", "kernel"): "CANN divides by zero: undefined behaviour",
    ("assert_workspace_too_small", "kernel"): "In CANN a debug build asserts and a release build divides by zero",
}


def size_or_raise(outcome: CannOutcome) -> int:
    """Return the size [bytes]; raise SoftMaxInputError where CANN logs an error, refuses or crashes."""
    if outcome.is_error or outcome.returned_bytes is None:
        raise SoftMaxInputError(outcome.problem, outcome)
    return outcome.returned_bytes


def tiling_or_raise(outcome: CannOutcome) -> SoftMaxTiling:
    """Return the tiling; raise SoftMaxInputError where CANN logs an error, refuses or crashes."""
    if outcome.is_error or outcome.tiling is None:
        raise SoftMaxInputError(outcome.problem, outcome)
    return outcome.tiling
