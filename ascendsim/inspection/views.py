"""What looking into a run needs, and what it gives."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ascendsim.device import Device
from ascendsim.dtypes import DType
from ascendsim.engine.base import Timeline
from ascendsim.errors import InputError
from ascendsim.execute import Moment, moments
from ascendsim.memory import Bytes
from ascendsim.program import Program
from ascendsim.terms import HalfOverflow

Array = NDArray[Any]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_VALUES = 32
"""Elements of an operand that are kept unless more are asked for."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What executing a run again needs. Executing changes `gm` and `ub`, so each serves once."""

    program: Program
    device: Device
    gm: tuple[Bytes, ...]
    overflow: HalfOverflow | None = None
    ub: Bytes | None = None

    def moments(self, wanted: Mapping[int, Sequence[int]]) -> Iterator[Moment]:
        """Execute, and stop in front of some rows and behind them."""
        return moments(self.program, self.device, self.gm, wanted, overflow=self.overflow, ub=self.ub)


class Run(Protocol):
    """The parts of a result that are looked at."""

    @property
    def program(self) -> Program:
        """What ran."""

    @property
    def timeline(self) -> Timeline:
        """When it ran."""

    @property
    def values(self) -> str:
        """Which values were computed: "all", "sample" or "none"."""

    @property
    def replay(self) -> Callable[[], Replay] | None:
        """What makes the run ready to be executed again."""


def ready(run: Run) -> Replay:
    """Return a run ready to be executed again.

    Raises:
        InputError: its values were not all computed, or nothing says how to.
    """
    if run.values != "all":
        what = "no values" if run.values == "none" else "only a sample of values"
        raise InputError(
            f'the run computed {what} (machine.values = "{run.values}"), so there is nothing to look into; run it '
            "again with --set machine.values=all"
        )
    if run.replay is None:
        raise InputError("this result does not know how to be executed again; look into one of run or load_run")
    return run.replay()


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which elements are kept: those from `first` on and before `last`, at most `most` of them."""

    first: int = 0
    last: int | None = None
    most: int | None = MOST_VALUES

    def __post_init__(self) -> None:
        if self.first < 0 or (self.last is not None and self.last <= self.first):
            raise InputError(f"elements {self.first}:{self.last}: want FIRST:LAST, FIRST at least 0 and below LAST")

    def of(self, elements: Ints) -> Ints:
        """Return the places of the kept ones among some ascending elements."""
        inside = elements >= self.first
        if self.last is not None:
            inside &= elements < self.last
        return np.flatnonzero(inside)[: self.most]


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Elements of a tensor before and after something.

    Attributes:
        role: which operand it is ("dst", "src0", ...); "" for a tensor at a cycle.
        tensor: name of the tensor.
        memory: where it lies: UB, L1, L0A, ..., GM.
        address_bytes: address of element 0.
        dtype: element type.
        is_written: whether these elements are written.
        count: how many are touched; more than `elements` if only some are kept.
        changed: how many of all have other bytes, or count as written, only afterwards.
        elements: which are kept, ascending, counted from `address_bytes`.
        before: their values, 1-D.
        after: the same behind it.
        known_before: for each, whether all its bytes were ever written.
        known_after: the same behind it.
    """

    role: str
    tensor: str
    memory: str
    address_bytes: int
    dtype: DType
    is_written: bool
    count: int
    changed: int
    elements: Ints
    before: Array
    after: Array
    known_before: Flags
    known_after: Flags

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it: NaN and infinities as text, None for what was never written."""
        plain = ("role", "tensor", "memory", "address_bytes", "is_written", "count", "changed")
        return {name: getattr(self, name) for name in plain} | {
            "dtype": self.dtype.name,
            "elements": self.elements.tolist(),
            "before": _plain(self.before, self.known_before),
            "after": _plain(self.after, self.known_after),
        }


def _plain(found: Array, known: Flags) -> list[int | float | str | None]:
    """Values as JSON can hold them."""
    with np.errstate(invalid="ignore"):  # a NaN stays one
        wide = found if found.dtype.kind in "iu" else found.astype(np.float64)
    kept = (v if isinstance(v, int) or np.isfinite(v) else str(v) for v in wide.tolist())
    return [value if is_known else None for value, is_known in zip(kept, known.tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class Held:
    """What elements hold at a moment: bytes, [elements, bytes of one], and which of them were ever written."""

    content: NDArray[np.uint8]
    written: Flags

    def values_to(self, after: "Held", element: DType, elements: Ints, chosen: Chosen) -> dict[str, Any]:
        """Return the fields of `Values` that say what they hold now and later."""
        differs = (self.content != after.content) | (self.written != after.written)
        kept = chosen.of(elements)
        return {
            "count": len(elements),
            "changed": int(differs.any(axis=1).sum()),
            "elements": elements[kept],
            "before": _seen(self.content[kept], element),
            "after": _seen(after.content[kept], element),
            "known_before": np.logical_and.reduce(self.written[kept], axis=1),
            "known_after": np.logical_and.reduce(after.written[kept], axis=1),
        }


def _seen(content: NDArray[np.uint8], element: DType) -> Array:
    return np.ascontiguousarray(content).reshape(-1).view(element.numpy)


@dataclass(frozen=True, slots=True)
class Times:
    """When a row ran, in cycles; what it waited for in words."""

    dispatched: int
    start: int
    end: int
    waited_for: str
    wait_cycles: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class RowView:
    """An instruction: what it is, when it ran, what its operands held before and after.

    Attributes:
        number: of the row, over the whole program, as in the timeline.
        core_number: rows of its core before it.
        params: its parameters by name.
        mask: its mask in words, "" for a row without.
        scalar: its scalar operand, an immediate or what its register held; None for a row without.
        result: what it has put into a register; None for a row that does not.
        times: None for a row of a long run that was not kept.
    """

    number: int
    core: int
    core_name: str
    core_number: int
    api: str
    instr: str
    dtype: str
    pipe: str
    line: str
    step: str
    params: Mapping[str, int]
    mask: str
    note: str
    scalar: str | None
    result: str | None
    times: Times | None
    operands: tuple[Values, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        own = {name: getattr(self, name) for name in self.__slots__ if name not in ("params", "times", "operands")}
        times = None if self.times is None else self.times.to_dict()
        operands = [values.to_dict() for values in self.operands]
        return own | {"params": dict(self.params), "times": times, "operands": operands}


@dataclass(frozen=True, slots=True)
class Writer:
    """A row that writes a tensor, with its times in cycles."""

    number: int
    instr: str
    line: str
    start: int
    end: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor at a cycle.

    Attributes:
        core: whose it is; None for a GM tensor, which all cores share.
        core_name: what reports call that core; "all cores" for GM.
        last: of the rows that write it and are complete, the one that was complete last; None where there is none.
        in_flight: rows that write it, have started, and are not complete.
        values: before: what complete rows have left; after: with those in flight done.
    """

    cycle: int
    core: int | None
    core_name: str
    last: Writer | None
    in_flight: tuple[Writer, ...]
    values: Values

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        last = None if self.last is None else self.last.to_dict()
        in_flight = [writer.to_dict() for writer in self.in_flight]
        own = {"cycle": self.cycle, "core": self.core, "core_name": self.core_name}
        return own | {"last": last, "in_flight": in_flight, "values": self.values.to_dict()}
