"""The answer of `ascendsim fsg`: checks, sizes, tiling and memory of each item, who does how much, and an estimate.

The estimate simulates a few tiles of each item on all cores: the first, and from one to the next once the queues are
filled. A core's time is that of its tiles, one after the other; an item begins as the core has ended the one before.
Bytes of all cores at the full rate of the memory are the least an item takes. The launch is not counted.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from ascendsim import machine
from ascendsim.checks.static import CAP_UB, CAP_UB_HW
from ascendsim.device import Device, Platform
from ascendsim.dtypes import HALF
from ascendsim.engine.base import Kind
from ascendsim.errors import Finding, InputError
from ascendsim.memory import place_in_gm
from ascendsim.op_host.atb import SetupReport, TensorDesc, find_soc
from ascendsim.op_host.fast_softmax_grad import FastSoftMaxGradParam, setup
from ascendsim.op_host.fsg_tiling import BUFFERS, QUEUES, TMP_BYTES, FsgSample, FsgTiling, fsg_tiling
from ascendsim.op_kernel.fast_softmax_grad_operator import fast_softmax_grad
from ascendsim.op_kernel.softmax_grad_checks import NO_TILE
from ascendsim.record import record
from ascendsim.terms import DATABLOCK_BYTES, DEFAULT_SOC, Pipe, align_up

_TILES: Final = 7
_FILLED: Final = 2
"""Tiles of a core that are simulated, and the one from which on each takes the same; buffers alternate between."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Numbers to prescribe; None and the defaults are the operator's.

    Attributes:
        tile_rows: rows of a tile at most.
        tmp_bytes: shared temp.
        cores: vector cores to take.
        buffers: of every queue.
    """

    tile_rows: int | None = None
    tmp_bytes: int = TMP_BYTES
    cores: int | None = None
    buffers: int = BUFFERS

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InputError(f"{name} = {value!r}: must be a whole number of at least 1")

    @classmethod
    def of(cls, changes: Mapping[str, Any]) -> "Chosen":
        """Return what `--set` says.

        Raises:
            InputError: an unknown name, or a number that cannot be.
        """
        names = list(asdict(cls()))
        for name in changes:
            if name not in names:
                raise InputError(f"--set {name}: unknown; it may be {', '.join(names)}")
        try:
            return cls(**changes)
        except InputError as error:
            raise InputError(f"--set {error}") from None


@dataclass(frozen=True, slots=True)
class Area:
    """A part of UB: name, first byte, bytes."""

    name: str
    start_bytes: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ItemEstimate:
    """Cycles of one item of the batch.

    Attributes:
        first: the first tile of a core, from its load to its store.
        tile: one more tile.
        tail: one more tile of the rows that are left over; 0 for none.
        binds: the pipe that works most in a tile, or "memory".
        memory: all bytes at the full rate of the memory.
        cycles: on the core that takes longest.
    """

    first: int
    tile: int
    tail: int
    binds: str
    memory: int
    cycles: int

    def of_core(self, sample: FsgSample, core: int) -> int:
        """Return what a core takes for the item."""
        _, tiles = sample.tiles_of_core(core)
        more = sample.has_tail(core)
        if tiles == 0:
            return self.first if more else 0
        return self.first + (tiles - 1) * self.tile + more * self.tail


@dataclass(frozen=True, slots=True)
class FsgAnswer:
    """Everything that `ascendsim fsg` says.

    Attributes:
        params: of the call.
        report: of the three stages.
        device: the part; None for a refused product that has no single part.
        chosen: what was prescribed.
        tiling: with what was prescribed; None for a refused call.
        findings: what is wrong: the refusal, or what a prescribed number breaks.
        estimate: of each item; () where something is wrong.
    """

    params: FastSoftMaxGradParam
    report: SetupReport[FsgTiling]
    device: Device | None
    chosen: Chosen
    tiling: FsgTiling | None
    findings: tuple[Finding, ...]
    estimate: tuple[ItemEstimate, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether the operation refuses the call, or a prescribed number breaks a rule."""
        return bool(self.findings)

    @property
    def balance(self) -> float:
        """Mean elements of a core against the most; 1 is even."""
        assert self.tiling is not None
        elements = self.tiling.elements()
        return sum(elements) / len(elements) / max(elements)

    def areas(self, sample: FsgSample) -> tuple[Area, ...]:
        """Return what lies where in UB while an item is worked on."""
        assert self.tiling is not None
        found, at = [], 0
        for name, num in zip(QUEUES, self.tiling.nums, strict=True):
            for slot in range(num):
                found.append(Area(f"{name}[{slot}]", at, sample.tile_bytes))
                at += sample.tile_bytes
        return (*found, Area("tmp", at, align_up(self.tiling.tmp_bytes, DATABLOCK_BYTES)))

    @property
    def core_cycles(self) -> tuple[int, ...]:
        """The estimate of each core: its tiles of all items; () without an estimate."""
        if self.tiling is None or not self.estimate:
            return ()
        items = list(zip(self.tiling.samples, self.estimate, strict=True))
        return tuple(sum(e.of_core(s, core) for s, e in items) for core in range(self.tiling.aiv_cores))

    @property
    def cycles(self) -> int:
        """The estimate of the call: cores do not wait for each other between items."""
        return max((*self.core_cycles, sum(item.memory for item in self.estimate)))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        report, t = self.report, self.tiling
        found: dict[str, Any] = {
            "operation": report.operation,
            "device": report.soc,
            "head_num": self.params.head_num,
            "q_seq_len": list(self.params.q_seq_len),
            "n_square_tokens": self.params.n_square_tokens,
            "stage": report.stage.value,
            "error": report.error.value,
            "message": report.message,
            "findings": [f.to_dict() for f in self.findings],
            "notes": list(report.notes),
            "outputs": [asdict(desc) for desc in report.outputs],
            "workspace_bytes": report.workspace_bytes,
        }
        if t is None or self.device is None:
            return found
        tiles, elements = t.tiles(), t.elements()
        return found | {
            "tensor_bytes": HALF.bytes * t.count,
            "block_dim": t.block_dim,
            "tiling_bytes": t.tiling_bytes,
            "tmp_bytes": t.tmp_bytes,
            "ub_bytes": t.ub_bytes,
            "peak_ub_bytes": t.peak_bytes,
            "chosen": asdict(self.chosen),
            "samples": [
                {**asdict(s), "used_bytes": t.used_bytes(s), "areas": [asdict(area) for area in self.areas(s)]}
                for s in t.samples
            ],
            "load": {
                "tiles": list(tiles),
                "elements": list(elements),
                "busiest": int(np.argmax(elements)),
                "idlest": int(np.argmin(elements)),
                "balance": self.balance,
            },
            "estimate": {
                "items": [asdict(item) for item in self.estimate],
                "core_cycles": list(self.core_cycles),
                "cycles": self.cycles if self.estimate else None,
                "us": self.device.microseconds(self.cycles) if self.estimate else None,
            },
        }


def answer(
    params: FastSoftMaxGradParam,
    soc: str | Platform = DEFAULT_SOC,
    *,
    inputs: tuple[TensorDesc, ...] | None = None,
    outputs: tuple[TensorDesc, ...] | None = None,
    chosen: Chosen | None = None,
) -> FsgAnswer:
    """Answer a call.

    Args:
        params: of the operation.
        soc: the part.
        inputs: descriptions of yInput and yGrad; None for those that the parameters imply.
        outputs: of the output; None for what shape inference gives.
        chosen: numbers to prescribe.

    Raises:
        DeviceError: no such part.
        InputError: a prescribed number leaves no tile.
    """
    want = chosen or Chosen()
    report = setup(params, (params.desc,) * 2 if inputs is None else inputs, soc, outputs)
    device = find_soc(soc).device
    if report.tiling is None or device is None:
        return FsgAnswer(params, report, device, want, None, report.findings)
    if want.cores is not None and want.cores > device.aiv:
        raise InputError(f"cores = {want.cores}: {device.name} has {device.aiv} AIVs; choose at most that many")
    tiling = fsg_tiling(
        params.head_num,
        params.q_seq_len,
        want.cores or device.aiv,
        device.ub_bytes,
        tile_rows=want.tile_rows,
        tmp_bytes=want.tmp_bytes,
        nums=(want.buffers, want.buffers, want.buffers),
    )
    broken = tuple(_broken(tiling, device))
    estimate = () if broken else _estimates(tiling, device)
    return FsgAnswer(params, report, device, want, tiling, broken, estimate)


def _broken(tiling: FsgTiling, device: Device) -> list[Finding]:
    """What a prescribed number breaks."""
    largest = max(tiling.samples, key=tiling.used_bytes)
    used, fill = (
        tiling.peak_bytes,
        {"parts": f"queues {tiling.nums} x {largest.tile_bytes} B, tmp {tiling.tmp_bytes} B"},
    )
    found = []
    if used > device.ub_bytes:
        found.append(CAP_UB_HW.finding("UB", got=used, wanted=device.ub_bytes, fill=fill))
    elif used > device.ub.visible_bytes.value:
        found.append(CAP_UB.finding("UB", got=used, wanted=device.ub.visible_bytes.value, fill=fill))
    for index, sample in enumerate(tiling.samples):
        if sample.main.split_m == 0:
            found.append(NO_TILE.finding(f"item {index}", operand="tiling", got=0, wanted="at least 1"))
    return found


@dataclass(frozen=True, slots=True)
class _Course:
    """Cycles of tiles of one size on a core: the first, one more, and the pipe that works most."""

    first: int
    each: int
    binds: str


def _estimates(tiling: FsgTiling, device: Device) -> tuple[ItemEstimate, ...]:
    known: dict[FsgSample, ItemEstimate] = {}
    for sample in tiling.samples:
        alike = replace(sample, data_offset_elems=0)
        if alike not in known:
            known[alike] = _estimated(tiling, alike, device)
    return tuple(known[replace(sample, data_offset_elems=0)] for sample in tiling.samples)


def _estimated(tiling: FsgTiling, sample: FsgSample, device: Device) -> ItemEstimate:
    course, tail = _course(tiling, sample, device), 0
    if sample.tail is not None:
        rest = replace(sample, tile_rows=sample.tail_tile_rows, main=sample.tail)
        tail = _course(tiling, rest, device).each
    item_bytes = HALF.bytes * sample.data_length_elems
    read, written = (device.link_bytes_per_cycle(name) for name in ("hbm_read", "gm_write"))
    memory = round(max(2 * item_bytes / read, item_bytes / written))
    found = ItemEstimate(course.first, course.each, tail, course.binds, memory, 0)
    longest = max(found.of_core(sample, core) for core in (0, sample.cores - 1))  # most tiles; the rows left over
    return replace(found, binds="memory" if memory > longest else found.binds, cycles=max(memory, longest))


def _course(tiling: FsgTiling, sample: FsgSample, device: Device) -> _Course:
    """Return what whole tiles of an item take, from some that are simulated on every core that has one."""
    cores = sample.former_cores if sample.latter_tiles == 0 else sample.cores
    rows = _TILES * cores * sample.tile_rows
    alike = replace(
        sample,
        data_length_elems=rows * sample.seq,
        outer_rows=rows,
        tail_tile_rows=0,
        former_cores=cores,
        latter_cores=0,
        former_tiles=_TILES,
        latter_tiles=_TILES - 1,
        tail=None,
    )
    gm = place_in_gm([(name, HALF, (alike.data_length_elems,)) for name in QUEUES])
    call = replace(tiling, samples=(alike,), aiv_cores=cores)
    timeline = machine.schedule(record(fast_softmax_grad, device, cores, gm, (call,)).program, device)
    stores = (timeline["pipe"] == Pipe.MTE3) & (timeline["kind"] == Kind.TRANSFER)
    done = [timeline["end"][stores & (timeline["core"] == core)] for core in range(cores)]
    each = round(sum(int(ends[-1] - ends[_FILLED]) for ends in done) / (_TILES - 1 - _FILLED) / cores)
    busy = timeline.totals.busy_cycles.max(axis=0).copy()
    busy[Pipe.S] = 0
    return _Course(timeline.makespan_cycles - (_TILES - 1) * each, each, Pipe(int(busy.argmax())).name)
