"""A run on disk: everything a run gives, written whole, and read back."""

import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import tomli_w

from ascendsim import __version__, report, show_dumps, trace, viewer
from ascendsim.arrays import load_npz, npz_bytes, storable
from ascendsim.errors import InputError, PainterError
from ascendsim.files import exists, is_file, is_folder
from ascendsim.painter import Painter
from ascendsim.progress import Progress, silent
from ascendsim.result import RunResult
from ascendsim.stored import SCHEMA, arrays_of, outline_of, record_of, result_of

RUN_FILE = "run.json"
PICTURES = ("timeline.png", "timeline.svg", "memory.png", "balance.png", "roofline.png")
SVGS = ("memory.svg", "balance.svg", "roofline.svg")
"""What else there is if it is asked for."""
DUMPS = "dumps.txt"
UNFINISHED = ".unfinished"
"""Stands in a run's folder while it is written, so that one that was broken off is known and can be written again."""


def write_run(
    result: RunResult,
    folder: str | Path,
    *,
    time: Literal["us", "cycle"] = "us",
    pictures: Sequence[str] = PICTURES,
    painter: Painter | None = None,
    progress: Progress = silent,
) -> tuple[Path, ...]:
    """Write a run into a folder and return the files. All are made before the first is written.

    An old run.json goes first and the new one comes last: a folder that has one holds one whole run.

    Args:
        result: the run.
        folder: a new or empty one, or one that holds a run.
        time: unit of the trace.
        pictures: file names of the pictures, if they have not begun.
        painter: draws the pictures, of this run if it has begun; None starts one for this run.
        progress: told how many files are made.

    Raises:
        InputError: the folder cannot be used.
        PainterError: the pictures could not be drawn; all other files are written.
    """
    target = Path(folder)
    check_folder(target)
    if painter is None:
        with Painter() as own:
            begin_pictures(result, own, pictures)
            return _write(result, target, time, own, progress)
    if not painter.is_begun:
        begin_pictures(result, painter, pictures)
    return _write(result, target, time, painter, progress)


def begin_pictures(result: RunResult, painter: Painter, pictures: Sequence[str] = PICTURES) -> None:
    """Have a run's pictures drawn. Neither values, findings nor expectations are on them."""
    painter.begin(outline_of(result, result.scenario) | {"pictures": tuple(pictures)}, arrays_of(result))


def _write(
    result: RunResult, target: Path, time: Literal["us", "cycle"], painter: Painter, progress: Progress
) -> tuple[Path, ...]:
    contents, failed = _contents(result, target, time, painter, progress)
    try:
        target.mkdir(parents=True, exist_ok=True)
        (target / UNFINISHED).touch()
        for name in (RUN_FILE, DUMPS, *PICTURES, *SVGS):
            (target / name).unlink(missing_ok=True)
        _drop_tables(target)
        for name, content in contents.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(target / name, content)
        (target / UNFINISHED).unlink()
    except OSError as error:
        raise InputError(f"--out {target}: cannot write: {error.strerror}") from None
    if failed is not None:
        raise PainterError(f"{target}: {failed}; the other files are written")
    return tuple(target / name for name in contents)


def _drop_tables(target: Path) -> None:
    """Remove the tables of an earlier run, which may have had other cores."""
    for folder in target.glob("simulator/core*"):
        for table in folder.glob(f"{folder.name}_*_exe.csv"):
            table.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()


def check_folder(target: Path) -> None:
    """Raise InputError unless a run can be written there: into a new or empty folder, or one that holds a run."""
    try:
        names = {path.name for path in target.iterdir()} if target.is_dir() else set()
    except OSError as error:
        raise InputError(f"--out {target}: cannot be used: {error.strerror}") from None
    if names and not names & {RUN_FILE, UNFINISHED}:
        raise InputError(f"--out {target}: the folder holds other files and no run; choose a new or empty one")
    check_place("--out", target)


def check_place(option: str, target: Path) -> None:
    """Raise InputError unless a folder is there or can be made, and files can be written into it."""
    if exists(target) and not target.is_dir():
        raise InputError(f"{option} {target}: is a file; name a folder")
    there = _what_is_there(target)
    if not _takes_files(there):
        raise InputError(f"{option} {target}: nothing can be written into {there}; name another folder")
    for part in target.absolute().relative_to(there).parts:
        try:
            (there / part).stat()
        except FileNotFoundError:
            continue
        except OSError as error:  # such as a name of 300 characters, seen before a folder on the way to it is made
            raise InputError(f"{option} {target}: cannot be used: {error.strerror}") from None


def check_file(option: str, target: Path) -> None:
    """Raise InputError unless a file can be written there."""
    if is_folder(target):
        raise InputError(f"{option} {target}: is a folder; name a file")
    there = _what_is_there(target.parent)
    if not _takes_files(there):
        raise InputError(f"{option} {target}: nothing can be written into {there}; name another file")
    try:
        _temporary(target).stat()
    except FileNotFoundError:
        return
    except OSError as error:  # such as a name of 300 characters
        raise InputError(f"{option} {target}: cannot be written: {error.strerror}") from None


def _what_is_there(target: Path) -> Path:
    """A folder, or what is there on the way to it."""
    return next(path for path in (target.absolute(), *target.absolute().parents) if exists(path))


def _takes_files(there: Path) -> bool:
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def check_png(option: str, target: Path) -> None:
    """Raise InputError unless a picture can be written there; its name says what it is."""
    if target.suffix != ".png":
        raise InputError(f"{option} {target}: want a name that ends in .png")
    check_file(option, target)


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files into a folder, each whole; the folder is made if need be, other files in it stay.

    Raises:
        InputError: the folder cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_whole(folder / name, content)
    except OSError as error:
        raise InputError(f"--out {folder}: cannot write: {error.strerror}") from None


def write_file(option: str, target: Path, content: bytes) -> None:
    """Write a file whole; its folder is made if need be.

    Raises:
        InputError: it cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, content)
    except OSError as error:
        raise InputError(f"{option} {target}: cannot be written: {error.strerror}") from None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name beside it, then rename it, so that nobody sees half of it."""
    temporary = _temporary(path)
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    """A name beside a file's that nothing has."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def _contents(
    result: RunResult, target: Path, time: Literal["us", "cycle"], painter: Painter, progress: Progress
) -> tuple[dict[str, bytes], PainterError | None]:
    """Every file's content, and why there are no pictures if there are none. They are drawn meanwhile."""
    record, arrays = record_of(result, relocated(result.scenario, result.folder, target)), arrays_of(result)
    makers: dict[str, Callable[[], bytes]] = {
        "report.md": lambda: report.markdown(result).encode(),
        "report.html": lambda: viewer.report_html(result).encode(),
        "trace.json": lambda: trace.trace_json(result, time).encode(),
        "memory_info.json": lambda: trace.memory_info(result).encode(),
        "outputs.npz": lambda: npz_bytes(storable(result.outputs)),
        "findings.json": lambda: _json([f.to_dict() for f in result.findings]),
        "scenario.toml": lambda: tomli_w.dumps(record["scenario"]).encode(),
        **({DUMPS: lambda: show_dumps.text(result).encode()} if result.dumps else {}),
        "run.npz": lambda: npz_bytes(arrays),
    }
    contents = {name: text.encode() for name, text in trace.tables(result).items()}
    for done, (name, make) in enumerate(makers.items()):
        progress("pictures and files", done, len(makers) + 1)
        contents[name] = make()
    failed = None
    try:
        contents |= painter.pictures()
    except PainterError as error:
        failed = error
    progress("pictures and files", len(makers) + 1, len(makers) + 1)
    return contents | {RUN_FILE: _json(record)}, failed


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=False, ensure_ascii=False) + "\n").encode()


def relocated(plain: Mapping[str, Any], folder: Path, target: Path) -> dict[str, Any]:
    """Return a resolved scenario with file names relative to another folder, so that it runs from there.

    Args:
        plain: the scenario as plain values.
        folder: where its file names start.
        target: where they shall start.
    """
    scenario: dict[str, Any] = json.loads(json.dumps(dict(plain)))
    places = [*scenario.get("tensors", {}).values(), *scenario.get("expect", {}).get("values", {}).values()]
    for table in places:
        if "file" in table:
            table["file"] = _from(target, folder / table["file"])
        if ":" in table.get("reference", ""):
            table["reference"] = _from(target, folder / table["reference"])
    if "kernel" in scenario:
        scenario["kernel"] = _from(target, folder / scenario["kernel"])
    return scenario


def _from(target: Path, path: Path) -> str:
    return Path(os.path.relpath(path, target)).as_posix()


def load_run(folder: str | Path) -> RunResult:
    """Read a run folder back.

    Raises:
        InputError: no run there, a damaged one, files of two runs, or one of a newer version.
    """
    place = Path(folder)
    record = _read_record(place)
    arrays, outputs = load_npz(place / "run.npz"), load_npz(place / "outputs.npz")
    try:
        result = result_of(record, arrays, outputs, place)
        _check_whole(record, result, place)
        # What stands in the arrays must refer to what is there.
        _ = result.pipe_use, result.overlaps, result.causes, result.path_shares
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, StopIteration) as error:
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
    if not is_file(file) and is_file(place / UNFINISHED):
        raise InputError(f"{place}: writing this run was broken off ({RUN_FILE} is missing); run the scenario again")
    if not is_file(file):
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
    if schema < SCHEMA:
        raise InputError(f"{file}: schema = {schema} is of an older version of ascendsim; run the scenario again")
    if schema > SCHEMA:
        raise InputError(
            f"{file}: schema = {schema} is newer than this version of ascendsim, which reads up to {SCHEMA}"
        )
    return record
