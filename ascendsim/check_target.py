"""What `ascendsim check` judges: a scenario, plan, tiling, call or kernel file, told apart and judged by the rules."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from ascendsim import check_fag, check_lag
from ascendsim.check_call import JudgedCall
from ascendsim.check_kernel import is_kernel, kernel_scenario
from ascendsim.check_tiling import TilingSizes, odd_rows, tiling_scenario
from ascendsim.errors import Finding, InputError, KernelError, Suppressed
from ascendsim.files import exists, is_file, read_toml
from ascendsim.machine import NO_TILING, Examined, examine, in_order
from ascendsim.places import Place, place_of
from ascendsim.plan.answer import answer, load_plan
from ascendsim.rule_codes import is_chosen, parse_codes, rules_by_code
from ascendsim.scenario import TILING_KEYS, Scenario, load_scenario, shipped

_NEAREST = 3
"""Shipped names that are told instead of an unknown one."""
_PLAN_KEYS = frozenset({"queues", "buffers", "apis", "temps"})
_KINDS = "a scenario, plan, tiling or call (.toml), or a kernel (.py)"
_CALLS: Mapping[str, Callable[[Path, Mapping[str, Any], Mapping[str, Any], str | None], JudgedCall]] = {
    "fag": check_fag.judge_call,
    "lag": check_lag.judge_call,
}
"""Who judges a call, by the table that it stands under."""
_ASCENDC = (".cpp", ".cc", ".cxx", ".h", ".hpp", ".cce", ".asc")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says beside the target; "" and None for what it leaves out.

    Attributes:
        changes: --set.
        tensors: --tensor, of a kernel.
        block_dim, soc: of any target that has them.
        shape, element: of a tiling's data.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    tensors: tuple[str, ...] = ()
    block_dim: int | None = None
    soc: str | None = None
    shape: tuple[int, ...] | None = None
    element: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A judged target.

    Attributes:
        file: the target's file.
        findings: those that count, errors first.
        suppressed: those that the scenario accepts.
        sources: the files that each kernel line was seen in.
        lines: what there is to say beside the findings.
        facts: the same for JSON.
    """

    file: Path
    findings: tuple[Finding, ...]
    suppressed: tuple[Suppressed, ...] = ()
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def place(self, finding: Finding) -> Place | None:
        """Where a finding stands, None if that is not sure."""
        return place_of(finding, self.file, self.sources)

    def chosen(self, select: str | None, ignore: str | None) -> "Judged":
        """Return only findings with these codes.

        Raises:
            InputError: a code that no rule has.
        """
        rules = rules_by_code()
        wanted = () if select is None else parse_codes("--select", select, rules)
        left_out = () if ignore is None else parse_codes("--ignore", ignore, rules)
        return replace(
            self,
            findings=tuple(f for f in self.findings if is_chosen(f.code, wanted, left_out)),
            suppressed=tuple(s for s in self.suppressed if is_chosen(s.finding.code, wanted, left_out)),
        )


def judge(target: str, asked: Asked) -> Judged:
    """Judge a target.

    Raises:
        InputError, DeviceError, KernelError: the target cannot be used; the text says what, where, why, and how to
            mend it.
    """
    if is_kernel(target):
        return _kernel(target, asked)
    file = _find(target)
    raw = read_toml(file)
    kind = _kind(raw, file)
    _refuse("--tensor", asked.tensors or None, f"{file} is a {kind}; only a kernel file takes it")
    if kind == "tiling":
        return _tiling(raw, file, asked)
    _refuse("--shape", asked.shape, f"{file} is a {kind}; only a tiling takes it")
    _refuse("--dtype", asked.element, f"{file} is a {kind}; only a tiling takes it")
    if kind == "call":
        return _call(raw, file, asked)
    return _plan(file, asked) if kind == "plan" else _scenario(file, asked)


def _refuse(option: str, value: object, why: str) -> None:
    if value is not None:
        raise InputError(f"{option}: {why}")


def _find(target: str) -> Path:
    """Return the target's file: one that is there, or a shipped one by name."""
    file = Path(target)
    if exists(file) and file.is_dir():
        inside = "; check the scenario.toml in it" if is_file(file / "run.json") else ""
        raise InputError(f"{target}: is a folder, want {_KINDS}{inside}")
    if is_file(file):
        _check_ending(file)
        return file
    named = [shipped(kind, target) for kind in ("scenarios", "tilings")] if file.parent == Path() else []
    found = next((path for path in named if path is not None), None)
    if found is None:
        near = ", ".join(difflib.get_close_matches(file.stem, _shipped_names(), n=_NEAREST, cutoff=0.0))
        raise InputError(f"{target}: no such file, want {_KINDS}; the nearest names that come with the package: {near}")
    return found


def _check_ending(file: Path) -> None:
    if file.suffix.lower() in _ASCENDC:
        raise InputError(f"{file}: AscendC source is not read; write the kernel in Python (docs/writing-a-kernel.md)")
    if file.suffix != ".toml":
        raise InputError(f"{file}: ends in {file.suffix!r}, want {_KINDS}")


def _shipped_names() -> list[str]:
    package = Path(str(resources.files("ascendsim")))
    folders = [folder / kind for folder in (package / "data", package.parent) for kind in ("scenarios", "tilings")]
    return sorted({file.stem for folder in folders for file in folder.glob("*.toml")})


def _kind(raw: Mapping[str, Any], file: Path) -> str:
    if "operator" in raw and set(raw) <= TILING_KEYS and not isinstance(raw.get("tiling"), str):
        return "tiling"
    if raw.keys() & _CALLS.keys():
        return "call"
    if raw.keys() & {"operator", "kernel", "tensors"}:
        return "scenario"
    if raw.keys() & _PLAN_KEYS:
        return "plan"
    has = ", ".join(raw) or "nothing"
    calls = " or ".join(f"[{table}]" for table in _CALLS)
    raise InputError(
        f"{file}: has {has}, which makes neither a scenario (device, operator or kernel, [tensors]), nor a plan "
        "(device, [queues], [buffers], [apis]), nor a tiling (operator, [tiling]), nor a call ("
        f"{calls}); see docs/checking.md"
    )


def _with_options(asked: Asked, names: Mapping[str, object]) -> dict[str, Any]:
    """The changes, with those options that are keys of the file."""
    return {**asked.changes, **{key: value for key, value in names.items() if value is not None}}


def _scenario(file: Path, asked: Asked) -> Judged:
    changes = _with_options(asked, {"device": asked.soc, "block_dim": asked.block_dim})
    scenario = load_scenario(file, changes)
    _check_suppressions(scenario, file)
    return _judged(examine(scenario), file)


def _judged(found: Examined, file: Path, lines: tuple[str, ...] = (), facts: Mapping[str, Any] | None = None) -> Judged:
    return Judged(file, found.findings, found.suppressed, found.sources, lines, facts or {})


def _check_suppressions(scenario: Scenario, file: Path) -> None:
    known = rules_by_code()
    for number, spec in enumerate(scenario.suppress):
        if spec.code not in known:
            near = ", ".join(difflib.get_close_matches(spec.code, known, n=_NEAREST, cutoff=0.0))
            raise InputError(f"{file}: suppress.{number}.code = {spec.code!r}: no such code; the nearest are {near}")


def _plan(file: Path, asked: Asked) -> Judged:
    _refuse("--block-dim", asked.block_dim, f"{file} is a plan of one core's buffers")
    found = answer(load_plan(file, _with_options(asked, {"device": asked.soc})))
    names = (*found.plan.ranges, *found.plan.fields)
    values = {name: found.layout.names[name] for name in names}
    verdict = "fits" if found.fits else "does not fit"
    lines = (
        f"{found.plan.name} on {found.plan.device.name}: {verdict}",
        *([", ".join(f"{name} = {value}" for name, value in values.items())] if values else []),
    )
    facts = {"plan": found.plan.name, "fits": found.fits, "tiling": values}
    return Judged(file, in_order(found.layout.findings), lines=lines, facts=facts)


def _call(raw: Mapping[str, Any], file: Path, asked: Asked) -> Judged:
    _refuse("--block-dim", asked.block_dim, f"{file} is a call; its operator chooses the cores")
    table = next(table for table in _CALLS if table in raw)
    found = _CALLS[table](file, raw, asked.changes, asked.soc)
    return Judged(file, in_order(found.findings), lines=found.lines, facts=found.facts)


def _tiling(raw: dict[str, Any], file: Path, asked: Asked) -> Judged:
    scenario = tiling_scenario(raw, file, asked.changes, asked.shape, asked.element, asked.soc, asked.block_dim)
    narrow = odd_rows(scenario, "check.shape" if asked.shape is None else "--shape")
    if narrow is not None:
        return Judged(file, (narrow,), lines=(f"{scenario.operator} on {scenario.device}: not sized",))
    found = examine(scenario)
    sizes = TilingSizes.of(scenario, found)
    return _judged(found, file, tuple(sizes.lines()), {"sizes": sizes.to_dict()})


def _kernel(target: str, asked: Asked) -> Judged:
    _refuse("--shape", asked.shape, f"{target} is a kernel file; give its tensors with --tensor")
    _refuse("--dtype", asked.element, f"{target} is a kernel file; give its tensors with --tensor")
    scenario, file = kernel_scenario(target, asked.tensors, asked.changes, asked.soc, asked.block_dim)
    try:
        return _judged(examine(scenario), file)
    except KernelError as error:
        if NO_TILING not in str(error):
            raise
        how = "--set tiling.NAME=VALUE, --set queues.NAME.num=VALUE"
        raise KernelError(f"{error}; the kernel's last argument holds what is given with {how}") from error


def places(judged: Judged) -> Iterator[tuple[Finding, Place | None, str | None]]:
    """Every finding with its place, then those that are accepted, with their reasons."""
    for finding in judged.findings:
        yield finding, judged.place(finding), None
    for accepted in judged.suppressed:
        yield accepted.finding, judged.place(accepted.finding), accepted.reason
