"""A run as plain data, arrays and what JSON can hold, and back: what a run folder stores and what a painter is sent."""

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, fields
from pathlib import Path
from typing import Any

import numpy as np

from ascendsim import __version__
from ascendsim.comparison import Comparison, Figures
from ascendsim.computed import Sample, Tile
from ascendsim.device import Device
from ascendsim.dtypes import dtype
from ascendsim.dumps import Dump
from ascendsim.engine.base import TIMELINE_COLUMNS, Skip, Timeline, Totals, Wait
from ascendsim.errors import Finding, Suppressed
from ascendsim.program import Program, from_arrays, to_arrays
from ascendsim.result import Expectation, RunResult
from ascendsim.work import Work

SCHEMA = 4
"""2: what all rows add up to stands beside the rows, of which a long run keeps only some. 3: devices say whether their
cycles rest on figures of their own architecture; instructions are numbered by use. 4: totals say what each pipe lost to
which cause, and operators what they compute."""

Arrays = dict[str, np.ndarray[Any, Any]]


def arrays_of(result: RunResult) -> Arrays:
    """Return program, timeline, log and dumps of a run as named arrays."""
    rest = _log_arrays(result.log) | _dump_arrays(result.dumps)
    return to_arrays(result.program) | _timeline_arrays(result.timeline) | rest


def outline_of(result: RunResult, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return as `record_of` what a timeline and its pictures need: neither findings, expectations nor the summary."""
    return {
        "summary": {"name": result.name, "despite_findings": result.despite_findings},
        "findings": [],
        "engine": result.engine,
        "windows": [list(window) for window in result.windows],
        "values": result.values,
        "sample": None if result.sample is None else asdict(result.sample),
        "work": None if result.work is None else asdict(result.work),
        "expectations": [],
        "scenario": scenario,
        "device": json.loads(result.device.model_dump_json(by_alias=True)),
    }


def record_of(result: RunResult, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rest of a run, with a scenario whose file names are right where the record will stand."""
    known = {
        "summary": result.summary(),
        "findings": [f.to_dict() for f in result.findings],
        "expectations": [[e.what, e.wanted, e.got, e.met] for e in result.expectations],
        "comparison": None if result.comparison is None else asdict(result.comparison),
        "sources": dict(result.sources),
    }
    record = {"schema": SCHEMA, "ascendsim": __version__} | outline_of(result, scenario) | known
    return record | ({"suppressed": [s.to_dict() for s in result.suppressed]} if result.suppressed else {})


def result_of(
    record: Mapping[str, Any], arrays: Mapping[str, Any], outputs: Mapping[str, Any], place: Path
) -> RunResult:
    """Undo `arrays_of` and `record_of`, or `outline_of`; `place` is where the scenario's file names start."""
    program = from_arrays({k: v for k, v in arrays.items() if not k.startswith(("timeline", "totals."))})
    timeline = _timeline_of(arrays)
    _check_rows(program, timeline)
    return RunResult(
        name=record["summary"]["name"],
        device=Device.model_validate(record["device"]),
        program=program,
        timeline=timeline,
        outputs=dict(outputs),
        findings=tuple(_finding_of(f) for f in record["findings"]),
        scenario=record["scenario"],
        dumps=_dumps_of(arrays) if "dumps.heads" in arrays else (),
        log=tuple(json.loads(arrays["log"].tobytes())) if "log" in arrays else (),
        despite_findings=record["summary"]["despite_findings"],
        expectations=tuple(Expectation(*e) for e in record["expectations"]),
        folder=place,
        engine=record["engine"],
        windows=tuple((first, last) for first, last in record["windows"]),
        values=record["values"],
        sample=_sample_of(record["sample"]),
        work=_work_of(record["work"]),
        comparison=_comparison_of(record.get("comparison")),
        sources={str(name): str(text) for name, text in record.get("sources", {}).items()},
        suppressed=tuple(Suppressed(_finding_of(f), f["suppressed"]) for f in record.get("suppressed", ())),
    )


def _finding_of(record: Mapping[str, Any]) -> Finding:
    """Undo `Finding.to_dict`."""
    return Finding(**{k: v for k, v in record.items() if k not in ("severity", "suppressed")})


def _sample_of(record: Mapping[str, Any] | None) -> Sample | None:
    if record is None:
        return None
    return Sample(**{**record, "tiles": tuple(Tile(**tile) for tile in record["tiles"])})


def _work_of(record: Mapping[str, Any] | None) -> Work | None:
    if record is None:
        return None
    lists = {name: tuple(record[name]) for name in ("blocks", "block_flop")}
    return Work(**{**record, **lists})


def _comparison_of(record: Mapping[str, Any] | None) -> Comparison | None:
    if record is None:
        return None
    default = None if record["default"] is None else Figures(**record["default"])
    return Comparison(record["prescribed"], default, record["reason"])


def _timeline_arrays(timeline: Timeline) -> dict[str, np.ndarray[Any, Any]]:
    """The rows that were kept, what all rows add up to, and what was not simulated."""
    rows = {f"timeline.{name}": timeline[name] for name in TIMELINE_COLUMNS}
    totals = {f"totals.{f.name}": np.asarray(getattr(timeline.totals, f.name)) for f in fields(Totals)}
    skipped = np.array([astuple(skip) for skip in timeline.skipped], np.int64).reshape(-1, len(fields(Skip)))
    size = np.array([timeline.row_count, timeline.makespan_cycles])
    return rows | totals | {"timeline_size": size, "timeline_skipped": skipped}


def _timeline_of(arrays: Mapping[str, Any]) -> Timeline:
    """Undo `_timeline_arrays`.

    Raises:
        ValueError: columns that are not whole numbers, or not of one length.
    """
    columns = {name: arrays[f"timeline.{name}"] for name in TIMELINE_COLUMNS}
    count = len(columns["number"])
    for name, column in columns.items():
        if column.shape != (count,):
            raise ValueError(f"timeline.{name} has shape {list(column.shape)}, timeline.number has {count} rows")
        if column.dtype.kind not in "iub":
            raise ValueError(f"timeline.{name} is {column.dtype}, want whole numbers")
    totals = {f.name: arrays[f"totals.{f.name}"] for f in fields(Totals)}
    row_count, makespan = arrays["timeline_size"].tolist()
    return Timeline(
        columns,
        row_count,
        makespan,
        Totals(**totals | {"bin_cycles": int(totals["bin_cycles"])}),
        tuple(Skip(*skip) for skip in arrays["timeline_skipped"].tolist()),
    )


def _check_rows(program: Program, timeline: Timeline) -> None:
    """Raise ValueError unless the rows of a timeline are rows of the program."""
    number, firsts = timeline["number"], program.first_rows
    if timeline.row_count != len(program):
        raise ValueError(f"the timeline is one of {timeline.row_count} rows, the program has {len(program)}")
    if (np.diff(number) <= 0).any() or (number < 0).any() or (number >= len(program)).any():
        raise ValueError(f"timeline.number does not ascend within the program's {len(program)} rows")
    call = np.searchsorted(firsts, number, side="right") - 1
    row, template = number - firsts[call], program.calls["template"][call]
    pipes = np.concatenate([np.zeros(0, np.int8), *(t.columns["pipe"] for t in program.templates)])
    starts = np.cumsum([0, *map(len, program.templates)])
    known = {"call": call, "row": row, "core": program.calls["core"][call], "pipe": pipes[starts[template] + row]}
    for name, column in known.items():
        if (timeline[name] != column).any():
            raise ValueError(f"timeline.{name} is not that of the program's rows")
    if not ((timeline["released_by"] >= -1) & (timeline["released_by"] < len(program))).all():
        raise ValueError("timeline.released_by names rows that the program has not")
    if not np.isin(timeline["waited_for"], list(Wait)).all():
        raise ValueError("timeline.waited_for has unknown causes")


def _log_arrays(log: tuple[dict[str, str], ...]) -> dict[str, np.ndarray[Any, Any]]:
    """The instruction log as JSON text; nothing where the program tells it all."""
    return {"log": np.frombuffer(json.dumps(log).encode(), np.uint8)} if log else {}


_DUMP_HEAD = ("core", "core_name", "number", "line", "desc", "tensor", "memory", "address_bytes", "count", "is_dropped")


def _dump_arrays(dumps: tuple[Dump, ...]) -> Arrays:
    """What DumpTensor has shown: heads as JSON text, then all values' bytes one behind the other; nothing without."""
    if not dumps:
        return {}
    heads = [
        {name: getattr(dump, name) for name in _DUMP_HEAD}
        | {"dtype": dump.dtype.name, "shape": list(dump.shape), "values": len(dump.values)}
        for dump in dumps
    ]
    return {
        "dumps.heads": np.frombuffer(json.dumps(heads).encode(), np.uint8),
        "dumps.content": np.concatenate([np.ascontiguousarray(d.values).view(np.uint8) for d in dumps]),
        "dumps.written": np.concatenate([d.written for d in dumps]),
    }


def _dumps_of(arrays: Mapping[str, Any]) -> tuple[Dump, ...]:
    """Undo `_dump_arrays`."""
    dumps, at, value = [], 0, 0
    for head in json.loads(arrays["dumps.heads"].tobytes()):
        element, count = dtype(head["dtype"]), head["values"]
        end = at + count * element.bytes
        rest = {
            "dtype": element,
            "shape": tuple(head["shape"]),
            "values": arrays["dumps.content"][at:end].view(element.numpy),
            "written": arrays["dumps.written"][value : value + count],
        }
        dumps.append(Dump(**{name: head[name] for name in _DUMP_HEAD}, **rest))
        at, value = end, value + count
    return tuple(dumps)
