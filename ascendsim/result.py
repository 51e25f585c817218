"""What one run gives. Reports, traces, pictures and the CLI are functions of this and compute nothing anew."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args, overload

from numpy.typing import NDArray

from ascendsim import analysis, late, leaning, tuning
from ascendsim.comparison import Comparison, Figures
from ascendsim.computed import Sample
from ascendsim.conflicts import BankLoss, bank_losses
from ascendsim.critical import PathShares, Step, critical_path, path_shares
from ascendsim.device import Device, Status
from ascendsim.dumps import Dump
from ascendsim.engine.base import Timeline, Wait
from ascendsim.error_bar import ErrorBar, error_bar
from ascendsim.errors import Finding, InputError, Severity, Suppressed
from ascendsim.inspection import Chosen, Replay, RowView, TensorView, look_at_rows, look_at_tensor, row_of_core
from ascendsim.inspection.views import MOST_VALUES
from ascendsim.known_errors import read_errors
from ascendsim.leaning import Charge, Leaning
from ascendsim.program import SINGLE_KIND, Program
from ascendsim.roofline import Roofline, roofline_of
from ascendsim.run_timeline import RunTimeline
from ascendsim.terms import CoreKind, Pipe
from ascendsim.what_if import WhatIf, what_if
from ascendsim.work import Work

Array = NDArray[Any]

MOST_PLACES = 10
"""Lines and instructions of the critical path that reports and the summary name."""


@dataclass(frozen=True)
class Expectation:
    """One line of a scenario's [expect], judged; `met` is None for values that were not computed."""

    what: str
    wanted: str
    got: str
    met: bool | None


@dataclass(frozen=True, repr=False)
class RunResult:
    """One run of one scenario.

    Attributes:
        name: the scenario's.
        outputs: name to array, in the tensors' dtypes and shapes; bytes nobody wrote are 0xFF.
        timeline: when every row ran.
        findings: violated rules, errors first.
        scenario: the resolved scenario as plain values.
        log: instruction log of core 0 with its data columns, for single API calls.
        despite_findings: simulated although findings of severity E were there.
        expectations: the scenario's [expect], judged.
        folder: where the scenario's file names start.
        engine: which engine made the timeline; "both" if two agreed on it.
        windows: stretches of time that were asked for, (first, last) cycles.
        values: "all", "sample" or "none": which values were computed.
        sample: which tiles, if only some; what else is in the outputs is 0xFF.
        suppressed: findings that the scenario accepts, with its reasons; not among `findings`.
        work: what the operator says of its own work; None for those that say nothing.
        dumps: what DumpTensor has shown, in the order in which it ran; none unless all values were computed.
        looked_at: what some rows found and left, by number; none of a long run, nor unless all values were computed.
            They are not stored.
        replay: makes it ready to be executed again; None for one that knows not how.
        comparison: with the operator's own tiling, where the scenario prescribes something and it was asked for.
        sources: text of the files that kernel lines stand in, by name; without those whose name several files have.
    """

    name: str
    device: Device
    program: Program
    timeline: Timeline
    outputs: Mapping[str, Array]
    findings: tuple[Finding, ...]
    scenario: Mapping[str, Any]
    log: tuple[dict[str, str], ...] = ()
    despite_findings: bool = False
    expectations: tuple[Expectation, ...] = field(default=())
    folder: Path = Path()
    engine: str = "compiled"
    windows: tuple[tuple[int, int], ...] = ()
    values: str = "all"
    sample: Sample | None = None
    suppressed: tuple[Suppressed, ...] = ()
    work: Work | None = None
    dumps: tuple[Dump, ...] = ()
    looked_at: Mapping[int, RowView] = field(default_factory=dict, compare=False)
    replay: Callable[[], Replay] | None = field(default=None, compare=False)
    comparison: Comparison | None = None
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        own = RunTimeline.of(self.timeline, self.plot_timeline, self._timeline_html)
        object.__setattr__(self, "timeline", own)

    def plot_timeline(self, cores: tuple[int, ...] | None = None, window: tuple[int, int] | None = None) -> Any:
        """Draw the timeline as a matplotlib Figure; arguments and errors as `timeline.plot`."""
        return late.figures().timeline_figure(self, cores, window)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        page: str = late.pages().result_html(self)
        return page

    def _timeline_html(self) -> str:
        page: str = late.pages().timeline_html(self)
        return page

    def __repr__(self) -> str:
        """One line; the parts are arrays and programs of any length."""
        what = f"{self.name} on {self.device.name}: {self.makespan_cycles} cycles"
        return f"RunResult({what}, outputs {', '.join(self.outputs) or 'none'}, {len(self.findings)} findings)"

    @overload
    def inspect(
        self, *, row: int, core: int | None = None, elements: tuple[int, int] | None = None, most: int | None = ...
    ) -> RowView: ...
    @overload
    def inspect(
        self,
        *,
        cycle: int,
        tensor: str,
        core: int | None = None,
        elements: tuple[int, int] | None = None,
        most: int | None = ...,
        element: str | None = None,
    ) -> TensorView: ...
    def inspect(
        self,
        *,
        row: int | None = None,
        cycle: int | None = None,
        tensor: str | None = None,
        core: int | None = None,
        elements: tuple[int, int] | None = None,
        most: int | None = MOST_VALUES,
        element: str | None = None,
    ) -> RowView | TensorView:
        """Execute the run again, and look at what a row found and left, or at what a tensor held at a cycle.

        Args:
            row: number over the whole program, as in the timeline; with `core` the how-many-th row of that core.
            cycle: instead of a row: when.
            tensor: with `cycle`: its name; of one on chip `core` says whose, 0 unless told.
            core: see `row` and `tensor`.
            elements: (first, last) of each operand, or of the tensor; None for all.
            most: so many are kept at most, None for all.
            element: with `cycle`: the element type to read the tensor as.

        Raises:
            InputError: neither or both, something that is not there, or values that were not computed.
        """
        first, last = elements or (0, None)
        chosen = Chosen(first, last, most)
        if row is not None and cycle is None and tensor is None and element is None:
            number = row if core is None else row_of_core(self.program, core, row)
            return look_at_rows(self, [number], chosen)[number]
        if row is None and cycle is not None and tensor is not None:
            return look_at_tensor(self, cycle, tensor, core or 0, element=element, chosen=chosen)
        raise InputError("inspect: give a row, or a cycle and a tensor")

    @property
    def makespan_cycles(self) -> int:
        """Cycles from the first dispatch to the last completion, launch not included."""
        return self.timeline.makespan_cycles

    @property
    def makespan_us(self) -> float:
        """Makespan at the device's clock."""
        return self.device.microseconds(self.makespan_cycles)

    @property
    def task_us(self) -> float:
        """What a profiler would call the task's duration: the makespan, and what launching so many cores takes."""
        return self.makespan_us + self.device.launch_us(self.program.kernel_type, self.program.block_dim)

    @cached_property
    def peak_bytes(self) -> dict[str, int]:
        """Highest byte in use of each on-chip memory, plus one; those that are not used are left out."""
        return {buffer.name: peak for buffer, peak in analysis.peak_bytes(self.program).items()}

    @cached_property
    def memories(self) -> tuple[analysis.MemoryUse, ...]:
        """How far each on-chip memory is used, and what it has."""
        peaks = analysis.peak_bytes(self.program)
        return tuple(analysis.MemoryUse(b, peak, self.device.buffer_bytes(b)) for b, peak in peaks.items())

    def lane_name(self, pipe: Pipe, kind: CoreKind | None) -> str:
        """Return what reports call a pipe: its name, in a mixed kernel with the kind of its cores; None for both."""
        return f"{kind.name} {pipe.name}" if self.program.kernel_type.is_mix and kind is not None else pipe.name

    @cached_property
    def lane_use(self) -> dict[tuple[CoreKind, Pipe], tuple[analysis.PipeUse, ...]]:
        """The use of every pipe that has work on each kind of core, in the order of kinds and pipes."""
        found: dict[tuple[CoreKind, Pipe], list[analysis.PipeUse]] = {}
        for use in self.pipe_use:
            found.setdefault((self.program.core_kind(use.core), use.pipe), []).append(use)
        kinds = list(dict.fromkeys(self.program.kernel_type.kinds))
        ordered = sorted(found, key=lambda lane: (kinds.index(lane[0]), lane[1]))
        return {lane: tuple(found[lane]) for lane in ordered}

    @cached_property
    def digest(self) -> str:
        """SHA-256 over device, program and how L2 is modelled: what the timeline is a function of.

        The engine is not in it, because all engines give one timeline; the data are not, because no time depends on it.
        """
        h = hashlib.sha256(self.device.model_dump_json(by_alias=True).encode())
        h.update(self.program.digest.encode())
        h.update(self.l2_mode.encode())
        return h.hexdigest()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings of severity E."""
        return tuple(f for f in self.findings if f.severity is Severity.ERROR)

    @cached_property
    def pipe_use(self) -> tuple[analysis.PipeUse, ...]:
        """Busy, stalled and idle cycles of every pipe of every core."""
        return analysis.all_pipe_use(self.timeline)

    @cached_property
    def overlaps(self) -> tuple[analysis.Overlap, ...]:
        """Every pair of pipes with work."""
        return analysis.overlaps(self.timeline)

    @cached_property
    def causes(self) -> tuple[analysis.Cause, ...]:
        """What was waited for, most cycles first."""
        return analysis.causes(self.program, self.timeline)

    @property
    def top_causes(self) -> tuple[analysis.Cause, ...]:
        """The five largest causes on pipes that work on data.

        The scalar unit's own waits are left out: it runs ahead of the pipes and is meant to wait for them. Where that
        costs something, another pipe waits for dispatch. Waits for other cores are no such waits.
        """
        return tuple(c for c in self.causes if c.pipe is not Pipe.S or c.wait is Wait.CROSS_CORE)[:5]

    @cached_property
    def bank_losses(self) -> tuple[BankLoss, ...]:
        """What kernel lines lose to UB bank conflicts, over all cores, most cycles first."""
        return bank_losses(self.program, self.device)

    @cached_property
    def bubbles(self) -> tuple[tuning.Bubbles, ...]:
        """Where the cycles of every pipe went."""
        return tuning.bubbles(self.program, self.timeline)

    @cached_property
    def bubble_places(self) -> tuple[tuning.Place, ...]:
        """Where most of what each pipe lost to each cause was lost, most cycles first."""
        return tuning.places(self.bubbles, self.causes)

    @cached_property
    def balances(self) -> tuple[tuning.Balance, ...]:
        """How evenly the work of every pipe but S lies on its cores."""
        return tuning.balances(self.program, self.timeline)

    @cached_property
    def critical_path(self) -> tuple[Step, ...]:
        """The stretches of rows that make the run as long as it is; they tile [0, makespan)."""
        return critical_path(self.program, self.timeline, self.device)

    @cached_property
    def path_shares(self) -> PathShares:
        """What pipes, edges, lines and instructions have of the critical path."""
        return path_shares(self.program, self.timeline, self.critical_path)

    @cached_property
    def what_if(self) -> tuple[WhatIf, ...]:
        """What the run would take with each of its pipes free; schedules it once for each."""
        return what_if(self.program, self.device, self.l2_mode)

    @property
    def l2_mode(self) -> str:
        """How L2 is modelled: "model", "warm", "hit" or "miss"."""
        return str(self.scenario.get("machine", {}).get("l2", "model"))

    @cached_property
    def unit_use(self) -> tuple[tuning.UnitUse, ...]:
        """For each AI Core, how long its Cube and Vector units work at once; empty where it has not both."""
        return tuning.unit_use(self.program, self.timeline)

    @cached_property
    def bounds(self) -> tuple[tuple[CoreKind, Pipe, int, float], ...]:
        """The pipes that are busiest on some AI Core: (kind, pipe, on how many, share of the makespan)."""
        return tuning.bounds(self.program, self.timeline)

    @cached_property
    def traffic(self) -> tuple[tuning.Traffic, ...]:
        """Bytes between GM and each pipe by phase, most first."""
        tensors = self.scenario.get("tensors", {})
        roles = {name: spec["role"] for name, spec in tensors.items() if "role" in spec}
        return tuning.traffic(self.program, self.timeline, roles)

    @cached_property
    def roofline(self) -> Roofline:
        """Operations for each byte of GM, and the device's roofs above them."""
        return roofline_of(self.program, self.device, self.traffic, self.makespan_us)

    @property
    def tflops(self) -> float | None:
        """10^12 floating-point operations a second of the makespan, as the operator counts them."""
        return self.work.flop / self.makespan_us / 1e6 if self.work and self.makespan_cycles else None

    @property
    def peak_tflops(self) -> float | None:
        """What all Cube cores of the device do at most with the operator's factors."""
        peak = self.device.cube_peak_flop(self.work.factors) if self.work else None
        return None if peak is None else peak / 1e12

    @cached_property
    def step_cycles(self) -> dict[str, int]:
        """Cycles of each marked step, over all cores."""
        return analysis.step_cycles(self.program, self.timeline)

    @cached_property
    def _lane_busy(self) -> dict[tuple[CoreKind, Pipe], float]:
        """Busy cycles of each pipe but S, the mean of the cores of its kind."""
        return {
            (kind, pipe): sum(use.busy_cycles for use in uses) / self.program.cores_of_kind(kind)
            for (kind, pipe), uses in self.lane_use.items()
            if pipe is not Pipe.S
        }

    @property
    def bottleneck(self) -> str:
        """The pipe with the most busy cycles for each core of its kind; "none" for an empty program."""
        busy = self._lane_busy
        if not busy:
            return "none"
        kind, pipe = max(busy, key=lambda lane: busy[lane])
        return self.lane_name(pipe, kind)

    @cached_property
    def _charges(self) -> tuple[Charge, ...]:
        """The cycles of each pipe by the numbers that they rest on."""
        return leaning.charges_of(self.program, self.timeline, self.device)

    @cached_property
    def leanings(self) -> tuple[Leaning, ...]:
        """The numbers of the device file that the schedule used, those with most busy cycles first."""
        return leaning.leanings(self._charges)

    @property
    def uncertain_leanings(self) -> tuple[Leaning, ...]:
        """Those that are inferred or assumed."""
        return tuple(used for used in self.leanings if used.figure.status in leaning.UNCERTAIN)

    @property
    def busy_cycles(self) -> int:
        """Busy cycles of all pipes of all cores, one of a flag or barrier among them."""
        return sum(used.busy_cycles for used in self.leanings)

    @property
    def status_shares(self) -> dict[Status, float]:
        """Of all busy cycles, the part that rests on numbers of each status; those without are left out."""
        total = max(1, self.busy_cycles)
        cycles = {
            status: sum(used.busy_cycles for used in self.leanings if used.figure.status == status)
            for status in get_args(Status)
        }
        return {status: part / total for status, part in cycles.items() if part}

    @cached_property
    def error_bar(self) -> ErrorBar | None:
        """What the errors measured on the instruction mix imply for the makespan.

        None where nothing was measured of the mix, and on a device whose cycles do not rest on figures of its own.
        """
        busy = self._lane_busy
        if not busy or not self.device.calibrated.value:
            return None
        lane = max(busy, key=lambda lane: busy[lane])
        share = busy[lane] / max(1, self.makespan_cycles)
        return error_bar(self.makespan_cycles, self._charges, lane, share, self.device.npu_arch, read_errors())

    def instruction_log(self) -> list[dict[str, str]]:
        """Return the instruction log of core 0; data columns are filled if the run kept them (single API calls do)."""
        return [dict(row) for row in self.log] if self.log else self.program.instruction_log()

    def summary(self) -> dict[str, Any]:
        """Return the run in plain numbers, ready for JSON."""
        pipes: dict[str, dict[str, int]] = {}
        for (kind, pipe), uses in self.lane_use.items():
            pipes[self.lane_name(pipe, kind)] = {
                "busy_cycles": sum(use.busy_cycles for use in uses),
                "stalled_cycles": sum(use.stalled_cycles for use in uses),
                "idle_cycles": sum(use.idle_cycles for use in uses),
                "rows": sum(use.rows for use in uses),
            }
        return {
            "name": self.name,
            "device": self.device.name,
            "calibrated": self.device.calibrated.value,
            "digest": self.digest,
            "block_dim": self.program.block_dim,
            **self._cube_summary(),
            "makespan_cycles": self.makespan_cycles,
            "makespan_us": round(self.makespan_us, 6),
            "task_us": round(self.task_us, 3),
            "error_bar": self._error_bar_summary(),
            "clock_mhz": self.device.clock_mhz,
            "bottleneck": self.bottleneck,
            "engine": self.engine,
            "values": self.values,
            "rows": self.timeline.row_count,
            "rows_kept": len(self.timeline),
            "rows_repeated": sum(skip.rows for skip in self.timeline.skipped),
            "templates": len(self.program.templates),
            "calls": len(self.program.calls["core"]),
            "pipes": pipes,
            "overlap": {f"{o.first.name},{o.second.name}": round(o.share, 6) for o in self.overlaps},
            "peak_bytes": self.peak_bytes,
            "bytes_moved": analysis.bytes_moved(self.program),
            **self._tuning_summary(),
            "critical_path": self._path_summary(),
            "step_cycles": self.step_cycles,
            "waits": [
                {"pipe": self.lane_name(c.pipe, c.kind), "cause": c.wait.words, "name": c.name, "line": c.line,
                 "count": c.count, "cycles": c.cycles}
                for c in self.top_causes
            ],
            "status_shares": {status: round(part, 6) for status, part in self.status_shares.items()},
            "leans_on": [
                {"number": used.figure.path, "status": used.figure.status, "busy_cycles": used.busy_cycles,
                 "waited_cycles": used.waited_cycles, "source": used.figure.source}
                for used in self.uncertain_leanings
            ],
            "findings": {s.name.lower(): sum(f.severity is s for f in self.findings) for s in Severity},
            "expectations_met": all(e.met is not False for e in self.expectations),
            "despite_findings": self.despite_findings,
        }  # fmt: skip

    @cached_property
    def has_dumps(self) -> bool:
        """Whether the kernel calls DumpTensor."""
        return any(row.op.name == "dump_tensor" for template in self.program.templates for row in template.rows)

    @property
    def outgrows_l2(self) -> bool:
        """Whether L2 is modelled and has no room for all GM tensors, so that it matters how it drops lines."""
        return (
            self.l2_mode in ("model", "warm")
            and sum(t.tensor_bytes for t in self.program.gm) > self.device.memory.l2_bytes.value
        )

    @property
    def has_cube(self) -> bool:
        """Whether Cube cores of their own run the kernel, so that there is more than UB and its pipes."""
        return self.program.kernel_type not in SINGLE_KIND

    @property
    def memory_title(self) -> str:
        """What the picture of the memory map is called."""
        return "on-chip memory over time" if self.has_cube else "UB over time"

    def _error_bar_summary(self) -> dict[str, Any] | None:
        """What the summary has of the error bar."""
        bar = self.error_bar
        if bar is None:
            return None
        return {
            "low_cycles": bar.low_cycles,
            "high_cycles": bar.high_cycles,
            "median_error": round(bar.median_error, 6),
            "p90_error": round(bar.p90_error, 6),
            "unmeasured_share": round(bar.unmeasured_share, 6),
            "family_shares": {errors.family.name: round(part, 6) for errors, part in bar.family_shares},
        }

    def _tuning_summary(self) -> dict[str, Any]:
        """What the summary has for those who tune."""
        hits = tuning.read_hit_share(self.traffic)
        return {
            "work": self._work_summary(),
            "comparison": None if self.comparison is None else asdict(self.comparison),
            "bound": [
                {"pipe": self.lane_name(pipe, kind), "ai_cores": count, "share": round(share, 6)}
                for kind, pipe, count, share in self.bounds
            ],
            "balance": {
                self.lane_name(b.pipe, b.kind): {
                    "busy_cycles": list(b.busy), "end_cycles": list(b.ends), "worst_core": b.worst,
                    "worst_over_mean": round(b.ratio, 6),
                }
                for b in self.balances
            },
            "cube_and_vector": [asdict(use) for use in self.unit_use],
            "bubbles": {
                self.lane_name(b.pipe, b.kind): {
                    "cores": b.cores, "busy": b.busy, "of_it_shared_bandwidth": b.shared,
                    **{wait.words: cycles for wait, cycles in b.lost.items()}, "no work": b.rest,
                }
                for b in self.bubbles
            },
            "l2_read_hit_share": None if hits is None else round(hits, 6),
            "gm_traffic": [
                {"phase": t.phase, "pipe": self.lane_name(t.pipe, t.kind), "way": t.way, "input_bytes": t.input_bytes,
                 "output_bytes": t.output_bytes, "workspace_bytes": t.workspace_bytes, "l2_hit_bytes": t.hit_bytes}
                for t in self.traffic
            ],
        }  # fmt: skip

    def _path_summary(self) -> dict[str, Any]:
        """What the summary has of the critical path; of pipes that are free only where all rows are kept."""
        shares = self.path_shares
        free = self.what_if if self.timeline.is_whole else ()
        return {
            "steps": len(self.critical_path),
            "unknown_cycles": shares.unknown_cycles,
            "pipes": {
                self.lane_name(pipe, kind): {edge.value: cycles for edge, cycles in edges.items()}
                for (kind, pipe), edges in shares.lanes.items()
            },
            "edges": {edge.value: cycles for edge, cycles in shares.edges.items()},
            "lines": dict(list(shares.lines.items())[:MOST_PLACES]),
            "instructions": [
                {"pipe": self.lane_name(place.pipe, place.kind), "name": place.name, "line": place.line,
                 "count": place.count, "cycles": place.cycles}
                for place in shares.places[:MOST_PLACES]
            ],
            "if_free": {
                self.lane_name(one.pipe, one.kind): {
                    "makespan_cycles": one.makespan_cycles, "gain_cycles": one.gain_cycles
                }
                for one in free
            },
        }  # fmt: skip

    @cached_property
    def figures(self) -> Figures:
        """What is compared with another run."""
        lanes = {self.lane_name(b.pipe, b.kind): b for b in self.bubbles if b.pipe is not Pipe.S}
        total = len(self.unit_use) * self.makespan_cycles
        return Figures(
            makespan_cycles=self.makespan_cycles,
            tflops=self.tflops,
            busy_cycles={name: b.busy / b.cores for name, b in lanes.items()},
            shared_cycles={name: b.shared / b.cores for name, b in lanes.items()},
            read_hit_share=tuning.read_hit_share(self.traffic),
            gm_bytes=sum(t.bytes for t in self.traffic),
            both_share=sum(use.both for use in self.unit_use) / total if total else None,
        )

    def _work_summary(self) -> dict[str, Any] | None:
        """Floating-point operations and who does them, None where the operator does not say."""
        if self.work is None or self.tflops is None:
            return None
        peak = self.peak_tflops
        return {
            "flop": self.work.flop,
            "convention": self.work.convention,
            "tflops": round(self.tflops, 6),
            "cube_peak_tflops": None if peak is None else round(peak, 6),
            "share_of_cube_peak": None if not peak else round(self.tflops / peak, 6),
            "blocks_of": self.work.kind,
            "blocks": list(self.work.blocks),
            "block_flop": list(self.work.block_flop),
        }

    def _cube_summary(self) -> dict[str, Any]:
        """What the summary has of kernels with Cube cores: their type, and every memory."""
        if not self.has_cube:
            return {}
        return {
            "kernel_type": self.program.kernel_type.name,
            "memories": {
                m.buffer.name: {
                    "peak_bytes": m.peak_bytes, "capacity_bytes": m.capacity_bytes, "free_bytes": m.free_bytes
                }
                for m in self.memories
            },
        }  # fmt: skip
