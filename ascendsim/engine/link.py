"""The shared links and L2 of the contract in base.py, on a SimPy clock."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import simpy

from ascendsim.engine.base import UNITS_PER_BYTE, L2Info, LinkInfo


class EndOfCycle(simpy.Event):
    """An event that comes after everything else that happens in this cycle."""

    def __init__(self, env: simpy.Environment, then: Callable[[], None]) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        assert self.callbacks is not None
        self.callbacks.append(lambda _event: then())
        env.schedule(self, priority=2)  # type: ignore[arg-type]


@dataclass(slots=True)
class Transfer:
    """A transfer in its data phase."""

    row: int
    place: tuple[int, int]
    """Core and pipe."""
    cap_units: int
    left_units: int
    done: simpy.Event
    joined: int = 0
    rival: int = -1
    """The transfer that left the link last while this one was on it."""


class FairLink:
    """One link: its active transfers share the capacity in whole units per cycle."""

    def __init__(self, env: simpy.Environment, info: LinkInfo) -> None:
        self._env = env
        self.capacity_units = info.capacity_units
        self._active: list[Transfer] = []
        self._since = 0
        self._version = 0
        self._dirty = False

    def join(self, transfer: Transfer) -> None:
        """Enter the data phase in this cycle."""
        self._advance()
        transfer.joined = int(self._env.now)
        self._active.append(transfer)
        self._touch()

    def cycles_alone(self, length_bytes: int, cap_units: int) -> int:
        """Cycles of a data phase that shares the link with nobody."""
        return -(-length_bytes * UNITS_PER_BYTE // max(1, min(cap_units, self.capacity_units)))

    def _touch(self) -> None:
        """Shares change once all completions and starts of this cycle are in."""
        if not self._dirty:
            self._dirty = True
            EndOfCycle(self._env, self._settle)

    def _share(self, transfer: Transfer) -> int:
        return max(1, min(transfer.cap_units, self.capacity_units // len(self._active)))

    def _advance(self) -> None:
        """Serve everybody up to now with the shares that held since the last change."""
        passed = int(self._env.now) - self._since
        self._since = int(self._env.now)
        if passed:
            for transfer in self._active:
                transfer.left_units -= passed * self._share(transfer)

    def _settle(self) -> None:
        self._dirty = False
        self._version += 1
        if self._active:
            soonest = min(-(-t.left_units // self._share(t)) for t in self._active)
            wake = self._env.timeout(max(1, soonest))
            version = self._version
            assert wake.callbacks is not None
            wake.callbacks.append(lambda _event: self._complete(version))

    def _complete(self, version: int) -> None:
        if version != self._version:
            return
        self._advance()
        finished = sorted((t for t in self._active if t.left_units <= 0), key=lambda t: (t.place, t.row))
        self._active = [t for t in self._active if t.left_units > 0]
        for other in self._active:
            if other.joined < self._env.now:
                other.rival = finished[0].row
        for transfer in finished:
            transfer.done.succeed()
        self._touch()


@dataclass(frozen=True, slots=True)
class Box:
    """Bytes of GM: so many rows of a length, a pitch apart."""

    first: int
    rows: int
    length: int
    pitch: int


class L2:
    """Which lines are resident, and which of them were written; least recently used segments go first."""

    def __init__(self, info: L2Info) -> None:
        self._info = info
        self._segments: OrderedDict[int, tuple[int, int]] = OrderedDict()
        """Bit masks of resident and of written lines."""
        self._room = info.bytes // info.line_bytes
        self._resident = 0

    def line(self, byte: int) -> int:
        """Return the line that a byte of GM is in."""
        return byte // self._info.line_bytes

    def touch(self, box: Box, *, writes: bool) -> tuple[bool, int]:
        """Touch a box; return whether all its lines were resident, and the bytes written back for it."""
        resident_before, written_back = True, 0
        for segment, lines in self._lines(box).items():
            resident, written = self._segments.pop(segment, (0, 0))
            resident_before = resident_before and (lines & ~resident) == 0
            self._segments[segment] = resident | lines, written | (lines if writes else 0)
            self._resident += (lines & ~resident).bit_count()
            while self._resident > self._room and len(self._segments) > 1:
                _, (gone, dropped) = self._segments.popitem(last=False)
                self._resident -= gone.bit_count()
                written_back += dropped.bit_count()
        return resident_before, written_back * self._info.line_bytes

    def _lines(self, box: Box) -> dict[int, int]:
        """Bit masks of the lines touched in each segment, in ascending order."""
        first, rows, length, pitch = box.first, box.rows, box.length, box.pitch
        if length <= 0 or rows <= 0:
            return {}
        line_bytes, per_segment = self._info.line_bytes, self._info.segment_bytes // self._info.line_bytes
        if pitch == length:
            rows, length = 1, length * rows
        masks: dict[int, int] = {}
        for row in range(rows):
            begin = first + row * pitch
            line, last = begin // line_bytes, (begin + length - 1) // line_bytes
            while line <= last:
                segment = line // per_segment
                upto = min(last, segment * per_segment + per_segment - 1)
                masks[segment] = masks.get(segment, 0) | ((1 << (upto - line + 1)) - 1) << line % per_segment
                line = upto + 1
        return dict(sorted(masks.items()))
