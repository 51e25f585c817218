"""A run on disk: everything a run gives, written whole, and read back."""

import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tomli_w

from ascendsim import __version__, plot, report, trace
from ascendsim.arrays import load_npz, npz_bytes, storable
from ascendsim.device import Device
from ascendsim.engine.base import TIMELINE_COLUMNS, Timeline
from ascendsim.errors import Finding, InputError
from ascendsim.program import from_arrays, to_arrays
from ascendsim.progress import Progress, silent
from ascendsim.result import Expectation, RunResult

SCHEMA = 1
RUN_FILE = "run.json"
UNFINISHED = ".unfinished"
"""Stands in a run's folder while it is written, so that one that was broken off is known and can be written again."""


def write_run(
    result: RunResult, folder: str | Path, *, time: Literal["us", "cycle"] = "us", progress: Progress = silent
) -> tuple[Path, ...]:
    """Write a run into a folder and return the files. All are made before the first is written.

    An old run.json goes first and the new one comes last: a folder that has one holds one whole run.

    Raises:
        InputError: the folder cannot be used.
    """
    target = Path(folder)
    check_folder(target)
    contents = _contents(result, target, time, progress)
    try:
        target.mkdir(parents=True, exist_ok=True)
        (target / UNFINISHED).touch()
        (target / RUN_FILE).unlink(missing_ok=True)
        for name, content in contents.items():
            write_whole(target / name, content)
        (target / UNFINISHED).unlink()
    except OSError as error:
        raise InputError(f"--out {target}: cannot write: {error.strerror}") from None
    return tuple(target / name for name in contents)


def check_folder(target: Path) -> None:
    """Raise InputError unless a run may be written there: a new or empty folder, or one that holds a run."""
    try:
        names = {path.name for path in target.iterdir()} if target.is_dir() else set()
        is_file = target.exists() and not target.is_dir()
    except OSError as error:
        raise InputError(f"--out {target}: cannot be used: {error.strerror}") from None
    if names and not names & {RUN_FILE, UNFINISHED}:
        raise InputError(f"--out {target}: the folder holds other files and no run; choose a new or empty one")
    if is_file:
        raise InputError(f"--out {target}: is a file; name a folder")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name beside it, then rename it, so that nobody sees half of it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _contents(result: RunResult, target: Path, time: Literal["us", "cycle"], progress: Progress) -> dict[str, bytes]:
    makers: dict[str, Callable[[], bytes]] = {
        "report.md": lambda: report.markdown(result).encode(),
        "timeline.png": lambda: plot.timeline_png(result),
        "timeline.svg": lambda: plot.timeline_svg(result),
        "memory.png": lambda: plot.memory_png(result),
        "trace.json": lambda: trace.trace_json(result, time).encode(),
        "outputs.npz": lambda: npz_bytes(storable(result.outputs)),
        "findings.json": lambda: _json([f.to_dict() for f in result.findings]),
        "scenario.toml": lambda: tomli_w.dumps(_relocated(result, target)).encode(),
        "run.npz": lambda: npz_bytes(
            to_arrays(result.program) | _timeline_arrays(result.timeline) | _log_arrays(result.log)
        ),
        RUN_FILE: lambda: _json(_record_of(result, target)),
    }
    contents = {}
    for done, (name, make) in enumerate(makers.items()):
        progress("pictures and files", done, len(makers))
        contents[name] = make()
    progress("pictures and files", len(makers), len(makers))
    return contents


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=False, ensure_ascii=False) + "\n").encode()


def _timeline_arrays(timeline: Timeline) -> dict[str, np.ndarray[Any, Any]]:
    return {f"timeline.{name}": timeline[name] for name in TIMELINE_COLUMNS}


def _log_arrays(log: tuple[dict[str, str], ...]) -> dict[str, np.ndarray[Any, Any]]:
    """The instruction log as JSON text; nothing where the program tells it all."""
    return {"log": np.frombuffer(json.dumps(log).encode(), np.uint8)} if log else {}


def _relocated(result: RunResult, target: Path) -> dict[str, Any]:
    """The resolved scenario, file names relative to the run folder, so that it runs from there."""
    scenario: dict[str, Any] = json.loads(json.dumps(dict(result.scenario)))
    places = [*scenario.get("tensors", {}).values(), *scenario.get("expect", {}).get("values", {}).values()]
    for table in places:
        if "file" in table:
            table["file"] = _from(target, result.folder / table["file"])
        if ":" in table.get("reference", ""):
            table["reference"] = _from(target, result.folder / table["reference"])
    if "kernel" in scenario:
        scenario["kernel"] = _from(target, result.folder / scenario["kernel"])
    return scenario


def _from(target: Path, path: Path) -> str:
    return Path(os.path.relpath(path, target)).as_posix()


def _record_of(result: RunResult, target: Path) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "ascendsim": __version__,
        "summary": result.summary(),
        "findings": [f.to_dict() for f in result.findings],
        "expectations": [[e.what, e.wanted, e.got, e.met] for e in result.expectations],
        "scenario": _relocated(result, target),
        "device": json.loads(result.device.model_dump_json(by_alias=True)),
    }


def load_run(folder: str | Path) -> RunResult:
    """Read a run folder back.

    Raises:
        InputError: no run there, a damaged one, files of two runs, or one of a newer version.
    """
    place = Path(folder)
    record = _read_record(place)
    arrays, outputs = load_npz(place / "run.npz"), load_npz(place / "outputs.npz")
    try:
        result = _result_of(record, arrays, outputs, place)
        _check_whole(record, result, place)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise InputError(
            f"{place}: the run is damaged ({type(error).__name__}: {error}); run the scenario again"
        ) from None
    return result


def _check_whole(record: Mapping[str, Any], result: RunResult, place: Path) -> None:
    """Refuse a folder whose run.json and run.npz come from two runs."""
    found_values: dict[str, object] = {"makespan_cycles": result.makespan_cycles}
    if record["ascendsim"] == __version__:  # another version may count other things into its digest
        found_values["digest"] = result.digest
    for key, found in found_values.items():
        stored = record["summary"][key]
        if stored != found:
            raise InputError(
                f"{place}: {RUN_FILE} and run.npz are of two different runs: summary.{key} in {RUN_FILE} is {stored}, "
                f"run.npz gives {found}; run the scenario again"
            )


def _read_record(place: Path) -> dict[str, Any]:
    file = place / RUN_FILE
    if not file.is_file() and (place / UNFINISHED).is_file():
        raise InputError(f"{place}: writing this run was broken off ({RUN_FILE} is missing); run the scenario again")
    if not file.is_file():
        raise InputError(
            f"{place}: no run there ({RUN_FILE} is missing); make one with ascendsim run SCENARIO --out {place}"
        )
    try:
        record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        schema = record["schema"]
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{file}: not a run file; run the scenario again") from None
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise InputError(f"{file}: schema = {schema!r}; this version reads schema {SCHEMA}; run the scenario again")
    if schema > SCHEMA:
        raise InputError(
            f"{file}: schema = {schema} is newer than this version of ascendsim, which reads up to {SCHEMA}"
        )
    return record


def _result_of(
    record: Mapping[str, Any], arrays: Mapping[str, Any], outputs: Mapping[str, Any], place: Path
) -> RunResult:
    findings = [{k: v for k, v in f.items() if k != "severity"} for f in record["findings"]]
    program = from_arrays({k: v for k, v in arrays.items() if not k.startswith("timeline.")})
    return RunResult(
        name=record["summary"]["name"],
        device=Device.model_validate(record["device"]),
        program=program,
        timeline=Timeline({name: arrays[f"timeline.{name}"] for name in TIMELINE_COLUMNS}),
        outputs=dict(outputs),
        findings=tuple(Finding(**f) for f in findings),
        scenario=record["scenario"],
        log=tuple(json.loads(arrays["log"].tobytes())) if "log" in arrays else (),
        despite_findings=record["summary"]["despite_findings"],
        expectations=tuple(Expectation(*e) for e in record["expectations"]),
        folder=place,
    )
