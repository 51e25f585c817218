"""From a scenario to a result: host tiling, recording, checks, schedule, values. The one place that composes them."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.analysis import double_sets, peak_ub_bytes
from ascendsim.arrays import load_array
from ascendsim.beside import beside
from ascendsim.builder import SharedTiles
from ascendsim.checks import Quiet, advise, advise_timeline, check_program, idle_cores
from ascendsim.checks.advice import NODB
from ascendsim.checks.advice import RULES as ADVICE
from ascendsim.checks.flags import DEADLOCK, REDUNDANT
from ascendsim.checks.redundant import without
from ascendsim.checks.static import UNDEFINED
from ascendsim.checks.sums import without_consequences
from ascendsim.checks.suppress import Suppression, set_apart, unused
from ascendsim.comparison import Comparison
from ascendsim.computed import Sample
from ascendsim.context import ALIGN_OFFSET, ATOMIC_NOINIT, INDEX_RANGE, MMAD_NAN, OF_UNWRITTEN, OOB_PLACED
from ascendsim.device import Device
from ascendsim.dtypes import FLOAT
from ascendsim.dumps import Dump
from ascendsim.engine import both, compiled, reference
from ascendsim.engine.base import Engine, Keep, Timeline, check_engine_name
from ascendsim.errors import (
    AscendSimError,
    Deadlock,
    EnginesDiffer,
    Finding,
    InputError,
    Rejected,
    Rule,
    Severity,
    Suppressed,
)
from ascendsim.execute import NOBODY, Watcher, dtype_array, execute
from ascendsim.expect import judge
from ascendsim.files import is_file, memory_bytes
from ascendsim.fills import make_fill, round_once
from ascendsim.inspection import Replay, Watch, watch_rows
from ascendsim.kept_values import MOST_VALUES, rows_to_look_at
from ascendsim.memory import Bytes, GlobalTensor, place_in_gm
from ascendsim.operators import Operator
from ascendsim.program import Program, QueInfo
from ascendsim.progress import COMPILING, Progress, silent, stage
from ascendsim.record import Kernel, record
from ascendsim.result import RunResult
from ascendsim.sample import Closure, choose_tiles, execute_closure
from ascendsim.scenario import Scenario, TensorSpec, load_scenario
from ascendsim.schedule_input import schedule_input
from ascendsim.terms import HalfOverflow, KernelType, ceil_div
from ascendsim.user_code import load_function
from ascendsim.window import Window, check_windows, rows_to_keep
from ascendsim.work import Work

Array = NDArray[Any]

ENGINES: dict[str, Engine] = {
    "compiled": compiled.schedule,
    "reference": reference.schedule,
    "both": both.schedule,
}

LONG_ROWS = 3_000_000
"""Rows of a program from which on it is checked and scheduled side by side."""

NUM_NAN = Rule(
    "W-NUM-NAN",
    "{operand} holds {got} NaN or infinite values, the first at element {first}",
    "check the data, or the operation that made them",
    "asc-devkit docs, boundary values of vector instructions",
    condition="An input or an output holds NaN or infinite values.",
)
OUT_UNWRITTEN = Rule(
    "W-MEM-OUTPUT",
    "{got} B of GM tensor {tensor} were never written, the first at byte {first}",
    "check block_dim, the tail, and that every tile is copied out",
    "follows from the program: unwritten bytes carry poison",
    condition="Bytes of an output were never written by the run.",
)
DOUBLE_SET = Rule(
    "W-SYNC-DUPLICATE",
    "flag {operand} id {id} (queue {que}) is set again before the wait for it, {got} times; the hardware has one bit "
    "and leaves this undefined, here both sets count",
    "take buffers of all queues before the first copy, give a queue at most two, or let the pipe that runs ahead wait",
    "asc-devkit docs, SetFlag/WaitFlag page",
    condition="The timeline shows that a flag is set again before the wait for its last set has run.",
)
BLOCKS = Rule(
    "W-CAP-BLOCKS",
    "block_dim {got} is more than the {wanted} {cores} of the device: it runs as several rounds, "
    "which is not simulated",
    "set block_dim to at most that many",
    "asc-devkit docs, precision guide",
    condition="The block_dim is larger than the number of AIVs of the part.",
)


_OF_VALUES = (
    *(rule.code for rule in (NUM_NAN, OUT_UNWRITTEN, INDEX_RANGE, ALIGN_OFFSET, OOB_PLACED, MMAD_NAN, ATOMIC_NOINIT)),
    *OF_UNWRITTEN,
)
"""Codes that may come from computing all values."""
_OF_RUN = (*_OF_VALUES, DOUBLE_SET.code, NODB.code)
"""Codes that may come from a run, not from a check."""
_OF_CHECK = tuple(rule.code for rule in ADVICE)
"""Codes that may come from a check, not from a run."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A scenario made ready: what to record, and the data."""

    scenario: Scenario
    device: Device
    block_dim: int
    kernel_type: KernelType
    kernel: Kernel
    gm: tuple[GlobalTensor, ...]
    argument: object
    inputs: dict[str, Array]
    notes: tuple[Finding, ...]
    work: Work | None


def run(
    scenario: str | Path | Scenario,
    engine: str | None = None,
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the public name, as --set
    windows: Sequence[Window] = (),
    despite_findings: bool = False,
    arrays: Mapping[str, Array] | None = None,
    compare: bool = False,
    on_timeline: Callable[[RunResult], None] | None = None,
    progress: Progress = silent,
) -> RunResult:
    """Run a scenario and return its result.

    Args:
        scenario: a file, the name of a shipped one, or a loaded one.
        engine: overrides the scenario's: "compiled", "reference", or "both" to compare the two.
        set: changes to the file, {"tiling.tile_m": 32}.
        windows: (first, last) cycles of which all rows are kept if the run is too long to keep them all. Those that
            lie behind its end are left out.
        despite_findings: simulate although there are findings of severity E, where that has a meaning.
        arrays: values of the tensors with fill = "array".
        compare: also time the operator's own tiling where the scenario prescribes another.
        on_timeline: given the result as soon as there is a timeline, without outputs, findings and expectations, so
            that it can be drawn while values are computed. The run may still be rejected, or its result be marked as
            simulated despite findings.
        progress: told of each stage how much is done.

    Raises:
        InputError, DeviceError, KernelError: the input cannot be used.
        Rejected: findings of severity E; `findings` holds them all.
        Deadlock: pipes wait for flags that are never set.
        EnginesDiffer: with engine="both", the engines do not agree.
    """
    check_windows(windows)
    loaded = loaded_scenario(scenario, set)
    how = loaded.machine
    ready = _prepare(loaded, with_data=how.values != "none", arrays=arrays or {})
    engine_name = how.engine if engine is None else engine
    check_engine_name(engine_name, tuple(ENGINES))
    recorded = _record(ready, progress)
    program, accepts = recorded.program, suppressions_of(loaded)

    def plan(told: Progress) -> Timeline:
        return schedule(program, ready.device, engine_name, how.l2, told, rows_to_keep(program, windows))

    def check_first() -> tuple[Finding, ...]:
        checked = _check(ready, recorded)
        stop_on_errors(
            _that_may_stop(checked.findings, accepts, checked.complete), despite_findings and checked.complete
        )
        return checked.findings

    try:
        if recorded.complete and engine_name == "compiled" and len(program) > LONG_ROWS:
            with beside(plan, progress) as planned:
                findings = check_first()
                timeline = planned.result()
        else:
            findings = check_first()
            timeline = plan(progress)
    except (Deadlock, EnginesDiffer):
        _compute_or_stop(ready, program, accepts, despite_findings, progress)  # what computing says comes first
        raise
    begun = RunResult(
        name=loaded.name,
        device=ready.device,
        program=program,
        timeline=timeline,
        outputs={},
        findings=(),
        scenario=loaded.resolved(),
        folder=loaded.folder,
        engine=engine_name,
        windows=tuple((first, last) for first, last in windows if first < timeline.makespan_cycles),
        values=how.values,
        work=ready.work,
        replay=partial(replay_of, loaded, dict(arrays or {}), program),
    )
    if on_timeline is not None:
        on_timeline(begun)
    of_timeline = _of_timeline(program, timeline, ready.device)
    watch = _watch(begun, (*findings, *of_timeline))
    values = _compute_or_stop(ready, program, accepts, despite_findings, progress, watch or NOBODY)
    known = {(f.code, f.where, f.operand) for f in findings}
    findings += tuple(f for f in values.findings if (f.code, f.where, f.operand) not in known)
    findings += of_timeline
    operator = loaded.find_operator()
    unwritten = operator.unwritten if operator is not None else frozenset[str]()
    findings += tuple(f for name in values.outputs if name not in unwritten for f in _of_output(name, values))
    kept, suppressed = set_apart(findings, accepts)
    kept += unused(accepts, findings, _OF_CHECK if how.values == "all" else (*_OF_CHECK, *_OF_VALUES))
    result = replace(
        begun,
        outputs=values.outputs,
        findings=in_order(kept),
        sample=values.sample,
        dumps=values.dumps,
        looked_at=dict(sorted(watch.found.items())) if watch else {},
        despite_findings=despite_findings and any(f.severity is Severity.ERROR for f in kept),
        suppressed=suppressed,
        comparison=_comparison(loaded, progress) if compare else None,
        sources=_texts(recorded.sources),
    )
    return judge(result, loaded, ready.inputs, values.computed)


def _watch(begun: RunResult, findings: Sequence[Finding]) -> Watch | None:
    """What looks at some rows while values are computed; None for a long run, and one without all values."""
    if begun.values != "all" or not begun.timeline.is_whole:
        return None
    rows = rows_to_look_at(begun.program, begun.critical_path, findings)
    return watch_rows(begun.program, begun.timeline, rows, MOST_VALUES)


def replay_of(scenario: Scenario, arrays: Mapping[str, Array], program: Program | None = None) -> Replay:
    """Make a scenario ready to be executed row by row.

    Args:
        scenario: the scenario.
        arrays: as of `run`.
        program: what was recorded of it, None to record it now.
    """
    ready = _prepare(scenario, with_data=True, arrays=arrays)
    if program is None:
        program = _record_and_check(ready, silent).program
    gm = tuple(_gm_bytes(g, ready.inputs) for g in ready.gm)
    return Replay(program, ready.device, gm, _half_overflow(scenario))


def _half_overflow(scenario: Scenario) -> HalfOverflow | None:
    how = scenario.machine.half_overflow
    return None if how is None else HalfOverflow(how)


def _texts(sources: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The text of every file that kernel lines stand in, by its name; a name that several files have is left out."""
    files = {Path(file) for seen in sources.values() for file in seen}
    names = Counter(file.name for file in files)
    return {
        file.name: file.read_text(encoding="utf-8", errors="replace")
        for file in sorted(files)
        if names[file.name] == 1 and is_file(file)
    }


def _comparison(scenario: Scenario, progress: Progress) -> Comparison | None:
    """Time the operator's own tiling; None where the scenario prescribes nothing."""
    operator = scenario.find_operator()
    if operator is None:
        return None
    defaults = {name: field.default for name, field in operator.tiling_model.model_fields.items()}
    given = {
        name: scenario.tiling[name]
        for name in sorted(operator.prescribed & set(scenario.tiling))
        if scenario.tiling[name] != defaults[name]
    }
    if not given:
        return None
    own = {name: value for name, value in scenario.tiling.items() if name not in given}
    try:
        return Comparison(given, _timed(scenario.model_copy(update={"tiling": own}), progress).figures)
    except AscendSimError as error:
        return Comparison(given, None, str(error))


def _timed(scenario: Scenario, progress: Progress) -> RunResult:
    """Record a scenario and schedule it, without a check, values or rows."""
    ready = _prepare(scenario, with_data=False)
    recording = record(
        ready.kernel,
        ready.device,
        ready.block_dim,
        ready.gm,
        (ready.argument,),
        stage(progress, "record the default"),
        ready.kernel_type,
    )
    if not recording.complete:
        raise Rejected(recording.findings)
    return _without_rows(ready, recording.program, progress)


def _without_rows(ready: _Prepared, program: Program, progress: Progress) -> RunResult:
    """Schedule a program; the result has totals, but neither rows nor values."""
    scenario = ready.scenario
    keep = Keep(np.zeros(len(program.calls["core"]), np.bool_))
    timeline = schedule(program, ready.device, l2_mode=scenario.machine.l2, progress=progress, keep=keep)
    return RunResult(
        name=scenario.name,
        device=ready.device,
        program=program,
        timeline=timeline,
        outputs={},
        findings=(),
        scenario=scenario.resolved(),
        values="none",
        work=ready.work,
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """A scenario recorded and judged by the rules, ready to be timed.

    Attributes:
        program: what was recorded.
        device: what it runs on.
        argument: what the host side has made of the tiling.
        findings: those that count, errors first; one of severity E, beside a deadlock, stops the scenario.
        is_complete: the kernel was recorded to its end.
    """

    program: Program
    device: Device
    argument: object
    findings: tuple[Finding, ...]
    is_complete: bool
    _ready: _Prepared

    def timed(self) -> RunResult:
        """Return a run with totals and the findings, without rows and values.

        Raises:
            Deadlock: pipes wait for flags that are never set.
        """
        return replace(_without_rows(self._ready, self.program, silent), findings=self.findings)

    @property
    def stoppers(self) -> tuple[Finding, ...]:
        """The findings that a run would stop for."""
        return tuple(f for f in self.findings if f.severity is Severity.ERROR)


def host_argument(scenario: Scenario) -> object:
    """Return what the host side makes of a scenario's tiling.

    Raises:
        InputError: it refuses the call.
        Rejected: it refuses what is prescribed.
    """
    return _prepare(scenario, with_data=False).argument


class Series:
    """What scenarios of one shipped operator and device share that are judged one after the other.

    It spares work and changes no answer. A kernel of the user's own may read what is no argument of its tiles.

    Args:
        device: theirs.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._tiles = SharedTiles(device)
        self._quiet = Quiet(device)

    def tiles(self) -> SharedTiles:
        """Return the tiles recorded so far, not too many."""
        if self._tiles.is_full:
            self._tiles = SharedTiles(self._device)
        return self._tiles

    def quiet(self) -> Quiet:
        """Return what is known to be quiet, not too much."""
        if self._quiet.is_full:
            self._quiet = Quiet(self._device)
        return self._quiet


def judged(scenario: Scenario, series: Series | None = None) -> Judged:
    """Record a scenario and judge it as a run does before it simulates.

    Args:
        scenario: the scenario.
        series: what it shares with those before; None for a kernel of the user's own.

    Raises:
        InputError, KernelError: the input cannot be used.
        Rejected: the host side refuses the call.
    """
    ready = _prepare(scenario, with_data=False)
    if series is None:
        checked = _record_and_check(ready, silent)
    else:
        checked = _check(ready, _record(ready, silent, series.tiles()), series.quiet())
    findings = in_order(_that_may_stop(checked.findings, suppressions_of(scenario), checked.complete))
    return Judged(checked.program, ready.device, ready.argument, findings, checked.complete, ready)


@dataclass(frozen=True, slots=True)
class _Values:
    """What computing a program gave.

    Attributes:
        outputs: by name.
        written: for each output, which of its bytes were written.
        findings: of the computation.
        sample: which tiles, None for all.
        dumps: what DumpTensor has shown.
    """

    outputs: dict[str, Array]
    written: dict[str, NDArray[np.bool_]]
    findings: tuple[Finding, ...]
    sample: Sample | None
    dumps: tuple[Dump, ...] = ()

    @property
    def computed(self) -> dict[str, NDArray[np.bool_]] | None:
        """For each output, which elements hold values; None where all should."""
        if self.sample is None:
            return None
        return {
            name: np.reshape(self.written[name].reshape(-1, array.itemsize).all(axis=1), array.shape)
            for name, array in self.outputs.items()
        }


def _compute_or_stop(
    ready: _Prepared,
    program: Program,
    accepts: Sequence[Suppression],
    despite_findings: bool,
    progress: Progress,
    watcher: Watcher = NOBODY,
) -> _Values:
    """Compute as `_compute`, and raise as `stop_on_errors` for what that finds."""
    values = _compute(ready, program, progress, watcher)
    stop_on_errors(_that_may_stop(values.findings, accepts), despite_findings)
    return values


def _compute(ready: _Prepared, program: Program, progress: Progress, watcher: Watcher = NOBODY) -> _Values:
    """Compute all values, those of a sample of tiles, or none, as the scenario says; only of all are rows looked at."""
    how = ready.scenario.machine
    if how.values == "none":
        return _Values({}, {}, (), None)
    overflow = _half_overflow(ready.scenario)
    sample, told = None, stage(progress, "values")
    if how.sample is not None:
        closure = Closure(program, _sampled(ready, program, tuple(how.sample)))
        inputs = ready.inputs | _made_where_read(ready, closure)
        gm = tuple(_gm_bytes(g, inputs) for g in ready.gm)
        execution, sample = execute_closure(closure, ready.device, gm, overflow=overflow, progress=told)
    else:
        gm = tuple(_gm_bytes(g, ready.inputs) for g in ready.gm)
        execution = execute(program, ready.device, gm, overflow=overflow, watcher=watcher, progress=told)
    named = {g.name: (g, memory) for g, memory in zip(ready.gm, gm, strict=True)}
    outputs = {n: named[n] for n, spec in ready.scenario.tensors.items() if spec.role == "output"}
    return _Values(
        {name: dtype_array(memory, g.dtype, g.shape) for name, (g, memory) in outputs.items()},
        {name: memory.written for name, (_, memory) in outputs.items()},
        execution.findings,
        sample,
        execution.dumps if sample is None else (),
    )


def _sampled(ready: _Prepared, program: Program, ways: tuple[str, ...]) -> NDArray[np.bool_]:
    """Which calls write the sample: tiles of the outputs, not of what cores hand each other."""
    how, tensors = ready.scenario.machine, ready.scenario.tensors
    outputs = frozenset(g.index for g in ready.gm if g.name in tensors and tensors[g.name].role == "output")
    return choose_tiles(program, ways, how.sample_seed or 0, how.sample_tiles or 1, outputs or None)


def _made_where_read(ready: _Prepared, closure: Closure) -> dict[str, Array]:
    """Inputs that the operator makes, where a sample reads them."""
    scenario, operator = ready.scenario, ready.scenario.find_operator()
    late = _to_make(scenario, operator, with_parts=True).keys() - ready.inputs.keys()
    if operator is None or not late:
        return {}
    read = {g.name: closure.read_of(g) for g in ready.gm if g.name in late}
    return _made(scenario, operator, ready.inputs, tuple(late), read)


def check(
    scenario: str | Path | Scenario,
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the public name, as --set
) -> tuple[Finding, ...]:
    """Record a scenario and return what the rules find and it does not suppress, without computing values or time."""
    return examine(loaded_scenario(scenario, set)).findings


@dataclass(frozen=True, slots=True)
class Examined:
    """What a check gives.

    Attributes:
        findings: those that count, errors first.
        suppressed: those that the scenario accepts.
        sources: the files that each kernel line, "file.py:31", was seen in.
        block_dim: cores that run the kernel.
        argument: what the host side has made of the tiling.
        ub_bytes: the highest byte of UB in use, plus one.
    """

    findings: tuple[Finding, ...]
    suppressed: tuple[Suppressed, ...]
    sources: Mapping[str, tuple[str, ...]]
    block_dim: int
    argument: object
    ub_bytes: int


def examine(scenario: Scenario) -> Examined:
    """Record a scenario and judge it by the rules, without computing values or time."""
    ready = _prepare(scenario, with_data=False)
    checked = _record_and_check(ready, silent)
    found = checked.findings
    if checked.complete and not any(f.severity is Severity.ERROR for f in found):
        found += tuple(advise(checked.program, ready.device))
    accepts = suppressions_of(scenario)
    kept, suppressed = set_apart(in_order(found), accepts)
    if checked.complete:
        kept += unused(accepts, found, _OF_RUN)
    return Examined(
        in_order(kept), suppressed, checked.sources, ready.block_dim, ready.argument, peak_ub_bytes(checked.program)
    )


def suppressions_of(scenario: Scenario) -> tuple[Suppression, ...]:
    """What the scenario accepts."""
    return tuple(
        Suppression(s.code, s.reason, "" if s.line is None else str(s.line), s.where or "", s.operand or "")
        for s in scenario.suppress
    )


def buffers_of(scenario: Scenario) -> tuple[QueInfo, ...]:
    """Record a scenario and return its queues and TBufs with their places in UB, in the order of their InitBuffer.

    Raises:
        Rejected: findings of severity E that end the recording.
    """
    checked = _record_and_check(_prepare(scenario, with_data=False), silent)
    if not checked.complete:
        raise Rejected(checked.findings)
    return tuple(sorted((q for q in checked.program.ques if q.num), key=lambda q: q.address_bytes))


def loaded_scenario(scenario: str | Path | Scenario, changes: Mapping[str, Any] | None) -> Scenario:
    """Return the scenario of a file or of a shipped name, changed; one that is loaded as it is.

    Raises:
        InputError: as `load_scenario`; changes to one that is loaded.
    """
    if isinstance(scenario, Scenario):
        if changes:
            raise InputError("set changes a scenario file; give the file's path, not a loaded Scenario")
        return scenario
    return load_scenario(scenario, changes)


def _prepare(scenario: Scenario, *, with_data: bool, arrays: Mapping[str, Array] | None = None) -> _Prepared:
    device = scenario.load_device()
    operator = scenario.find_operator()
    specs = [(name, spec.element, tuple(spec.shape)) for name, spec in scenario.tensors.items()]
    if operator is not None:
        by_name = {name: (name, element, shape) for name, element, shape in specs}
        specs = [by_name[name] for name in operator.tensors if name in by_name]
        shapes = {name: (shape, element) for name, element, shape in specs}
        nums = {name: q.num for name, q in scenario.queues.items()}
        tiling = operator.tiling_model.model_validate(scenario.tiling)
        argument = operator.host(device, shapes, tiling, nums)
        kernel = operator.kernel
        if operator.workspace_bytes is not None:
            specs.append(("workspace", FLOAT, (ceil_div(operator.workspace_bytes(argument), FLOAT.bytes),)))
    else:
        argument = _namespace({**scenario.tiling, "queues": {n: {"num": q.num} for n, q in scenario.queues.items()}})
        kernel = _user_kernel(scenario)
    gm = place_in_gm(specs)
    if with_data:
        _check_memory(scenario, gm)
    inputs = _inputs(scenario, operator, arrays or {}) if with_data else {}
    kind = _kernel_type(scenario, device, operator)
    block_dim = scenario.block_dim or _block_dim(operator, argument) or device.most_blocks(kind)
    work = None if operator is None or operator.work is None else operator.work(argument, block_dim)
    told = () if operator is None or operator.told is None else operator.told(argument)
    notes = (*told, *_notes(scenario, operator, inputs))
    return _Prepared(scenario, device, block_dim, kind, kernel, gm, argument, inputs, notes, work)


def _notes(scenario: Scenario, operator: Operator | None, inputs: Mapping[str, Array]) -> tuple[Finding, ...]:
    """What an operator says of the call beside what it refuses."""
    if operator is None or operator.notes is None:
        return ()
    shapes = {name: (tuple(spec.shape), spec.element) for name, spec in scenario.tensors.items()}
    return operator.notes(shapes, operator.tiling_model.model_validate(scenario.tiling), inputs)


def _block_dim(operator: Operator | None, argument: object) -> int | None:
    """What the operator's host side launches; None where it leaves that open."""
    return operator.block_dim(argument) if operator is not None and operator.block_dim is not None else None


def _kernel_type(scenario: Scenario, device: Device, operator: Operator | None) -> KernelType:
    """Which cores run a scenario's kernel.

    Raises:
        InputError: the device has no such cores.
    """
    have = device.kernel_types()
    named = None if scenario.kernel_type is None else KernelType[scenario.kernel_type]
    asked = named if operator is None else operator.kernel_type
    if asked is None or (operator is not None and asked not in have):
        return have[0]
    if asked not in have:
        names = ", ".join(t.name for t in have)
        raise InputError(f"kernel_type {asked.name}: {device.name} has no such cores; it runs {names}")
    return asked


def _check_memory(scenario: Scenario, gm: tuple[GlobalTensor, ...]) -> None:
    """Refuse data that this computer has no room for: systems promise more memory than they have.

    A byte of GM stands beside whether it was written; a fill is made as float64 first.
    """
    sizes = {name: math.prod(spec.shape) * spec.element.bytes for name, spec in scenario.tensors.items()}
    fills = (8 * math.prod(spec.shape) for spec in scenario.tensors.values() if spec.fill is not None)
    need, has = 2 * sum(tensor.tensor_bytes for tensor in gm) + max(fills, default=0), memory_bytes()
    if has is not None and need > has:
        largest = max(sizes, key=lambda name: sizes[name])
        raise InputError(
            f"tensors.{largest}.shape = {scenario.tensors[largest].shape}: computing values takes at least {need} B of "
            f'memory, this computer has {has} B; make it smaller, or set machine.values = "none"'
        )


NO_TILING = "the scenario's tiling has no"
"""How the text of a missing tiling field begins."""


class Tiling(SimpleNamespace):
    """[tiling] of a user's kernel as attributes: t.tile_m, t.queues.in_x.num."""

    if not TYPE_CHECKING:  # to mypy every attribute would exist

        def __getattr__(self, name: str) -> object:
            """Say what there is instead of a name that is not there."""
            there = ", ".join(sorted(vars(self))) or "nothing"
            raise AttributeError(f"{NO_TILING} {name!r} here; it has {there}")


def _namespace(table: Mapping[str, Any]) -> Tiling:
    return Tiling(**{k: _namespace(v) if isinstance(v, Mapping) else v for k, v in table.items()})


def _user_kernel(scenario: Scenario) -> Kernel:
    assert scenario.kernel is not None
    kernel: Kernel = load_function(scenario.kernel, scenario.folder, "kernel")
    return kernel


def _inputs(scenario: Scenario, operator: Operator | None, arrays: Mapping[str, Array]) -> dict[str, Array]:
    inputs: dict[str, Array] = {}
    parts = _parts(scenario, operator)
    to_make = _to_make(scenario, operator, with_parts=scenario.machine.values != "sample")
    for name, spec in scenario.tensors.items():
        where = f"tensors.{name}"
        if spec.file is not None:
            path = scenario.folder / spec.file
            inputs[name] = load_array(path, spec.key, spec.element, tuple(spec.shape), where)
        elif spec.fill == "array" and name in arrays:
            inputs[name] = _handed_over(arrays[name], spec, where)
        elif spec.role == "input" and (operator is None or spec.fill != "operator"):
            inputs[name] = make_fill(spec, where, parts)
    if to_make and operator is not None:
        inputs |= _made(scenario, operator, inputs, tuple(to_make), None)
    return inputs


def _parts(scenario: Scenario, operator: Operator | None) -> tuple[tuple[int, int], ...]:
    """(rows, their length) of each part of an operator's flat inputs; () for one without."""
    if operator is None or operator.parts is None:
        return ()
    return operator.parts(operator.tiling_model.model_validate(scenario.tiling))


def _to_make(scenario: Scenario, operator: Operator | None, *, with_parts: bool) -> dict[str, TensorSpec]:
    """Inputs that the operator is to make; without those that are made where a sample reads them, if so asked."""
    if operator is None:
        return {}
    later = frozenset[str]() if with_parts else operator.makes_part
    return {n: s for n, s in scenario.tensors.items() if s.fill == "operator" and n not in later}


def _made(
    scenario: Scenario,
    operator: Operator,
    inputs: Mapping[str, Array],
    names: Sequence[str],
    read: Mapping[str, Array] | None,
) -> dict[str, Array]:
    assert operator.made is not None
    specs = {name: scenario.tensors[name] for name in names}
    shapes = {name: (tuple(spec.shape), spec.element) for name, spec in specs.items()}
    made = operator.made(inputs, operator.tiling_model.model_validate(scenario.tiling), shapes, read)
    return {name: round_once(made[name], spec.element) for name, spec in specs.items()}


def _handed_over(array: Array, spec: TensorSpec, where: str) -> Array:
    if (array.dtype, array.shape) != (spec.element.numpy, tuple(spec.shape)):
        raise InputError(f"{where}: the array is {array.dtype} {list(array.shape)}, must be {spec.dtype} {spec.shape}")
    return array


def _gm_bytes(tensor: GlobalTensor, inputs: Mapping[str, Array]) -> Bytes:
    return Bytes.of(inputs[tensor.name]) if tensor.name in inputs else Bytes(tensor.tensor_bytes)


@dataclass(frozen=True, slots=True)
class _Checked:
    """A recorded program with what the static rules find; `complete` and `sources` as in a Recording."""

    program: Program
    findings: tuple[Finding, ...]
    complete: bool
    sources: Mapping[str, tuple[str, ...]]


def _record_and_check(ready: _Prepared, progress: Progress) -> _Checked:
    return _check(ready, _record(ready, progress))


def _record(ready: _Prepared, progress: Progress, shared: SharedTiles | None = None) -> _Checked:
    """Record a scenario's kernel; the findings are those that need no look at the program."""
    device, block_dim = ready.device, ready.block_dim
    most = device.most_blocks(ready.kernel_type)
    if block_dim > most:
        found = BLOCKS.finding("block_dim", got=block_dim, wanted=most, fill={"cores": ready.kernel_type.block_word})
        raise InputError(f"{found.message}; set block_dim={most} or less")
    told = stage(progress, "record")
    recording = record(ready.kernel, device, block_dim, ready.gm, (ready.argument,), told, ready.kernel_type, shared)
    return _Checked(recording.program, recording.findings, recording.complete, recording.sources)


def _check(ready: _Prepared, recorded: _Checked, quiet: Quiet | None = None) -> _Checked:
    """Judge a recorded program."""
    device, program = ready.device, recorded.program
    findings = [*ready.notes, *(f for n, a in ready.inputs.items() for f in non_finite(f"input {n}", a))]
    findings += recorded.findings
    checked = check_program(
        program,
        device,
        auto_sync=ready.scenario.machine.auto_sync,
        is_complete=recorded.complete,
        known=recorded.findings,
        quiet=quiet,
    )
    findings += without_consequences(recorded.findings, checked)
    if recorded.complete:
        findings = [_with_cycles(f, program, device) for f in findings]
    if recorded.complete and not any(f.severity is Severity.ERROR for f in findings):
        findings += idle_cores(program)
    return replace(recorded, findings=tuple(findings))


def _with_cycles(finding: Finding, program: Program, device: Device) -> Finding:
    """A flag or barrier that orders nothing, with the cycles that the program takes less without it."""
    less = without(program, finding.where, finding.operand) if finding.code == REDUNDANT.code else None
    if less is None:
        return finding
    try:
        cycles = predict_cycles(program, device) - predict_cycles(less, device)
    except Deadlock:  # of unit flags that do not fit each other, which has a finding of its own
        return finding
    return replace(finding, message=f"{finding.message}; without it the program takes {cycles} cycles less")


def _of_timeline(program: Program, timeline: Timeline, device: Device) -> tuple[Finding, ...]:
    """What only the timeline shows: flags that are set twice, single buffers that hold up the critical pipe."""
    twice = (
        DOUBLE_SET.finding(
            d.line, operand=d.event, got=d.count, wanted=0, fill={"id": d.event_id, "que": d.que or "none"}
        )
        for d in double_sets(program, timeline)
    )
    return (*twice, *advise_timeline(program, timeline, device))


def _of_output(name: str, values: _Values) -> tuple[Finding, ...]:
    """What is wrong with an output: bytes nobody wrote, else values that are not finite."""
    what, array = f"output {name}", values.outputs[name]
    if values.computed is not None:
        return non_finite(what, np.where(values.computed[name], array, np.zeros((), array.dtype)))
    missing = np.flatnonzero(~values.written[name])
    if missing.size == 0:
        return non_finite(what, array)
    fill = {"first": int(missing[0]), "tensor": name}
    return (OUT_UNWRITTEN.finding(what, operand=what, got=missing.size, wanted=0, fill=fill),)


def non_finite(what: str, array: Array) -> tuple[Finding, ...]:
    """Return a warning if an array holds NaN or infinities; integers never do."""
    if array.dtype.kind in "iu":
        return ()
    bad = ~np.isfinite(array.astype(np.float32))
    count = int(bad.sum())
    if count == 0:
        return ()
    first = [int(i) for i in np.argwhere(bad)[0]]
    return (NUM_NAN.finding(what, operand=what, got=count, wanted=0, fill={"first": first}),)


def stop_on_errors(findings: tuple[Finding, ...], despite_findings: bool) -> None:
    """Raise Rejected for findings of severity E, unless they are to be ignored and leave execution with a meaning.

    A deadlock is left to the run itself, which ends in it and tells more.
    """
    errors = [f for f in findings if f.severity is Severity.ERROR and f.code != DEADLOCK.code]
    if errors and (not despite_findings or any(map(_is_undefined, errors))):
        raise Rejected(in_order(findings))


def _is_undefined(finding: Finding) -> bool:
    """Whether executing has no meaning after this."""
    is_undefined = finding.code in UNDEFINED or finding.code.startswith(("E-QUE", "E-BUF", "E-SYNC-EXHAUST"))
    return is_undefined and finding.severity is Severity.ERROR


def _that_may_stop(
    findings: tuple[Finding, ...], accepts: Sequence[Suppression], complete: bool = True
) -> tuple[Finding, ...]:
    """The findings that a run looks at: no reason gives a meaning to what has none, or a rest to half a recording."""
    kept, suppressed = set_apart(findings, accepts)
    is_hard = [s.finding for s in suppressed if _is_undefined(s.finding) or not complete]
    return (*kept, *is_hard)


def in_order(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Errors first, then warnings, then advice; otherwise as found."""
    rank = {severity: i for i, severity in enumerate(Severity)}
    return tuple(sorted(findings, key=lambda f: rank[f.severity]))


def schedule(
    program: Program,
    device: Device,
    engine: str = "compiled",
    l2_mode: str = "model",
    progress: Progress = silent,
    keep: Keep | None = None,
) -> Timeline:
    """Return when every row of a program runs on a device; of a long one only what is to be kept."""
    if engine != "reference" and not compiled.is_ready():
        progress(COMPILING, 0, 1)
    return ENGINES[engine](schedule_input(program, device, l2_mode), stage(progress, "schedule"), keep)


def predict_cycles(program: Program, device: Device) -> int:
    """Return the makespan of a program and nothing else."""
    return compiled.makespan_cycles(schedule_input(program, device, "model"))
