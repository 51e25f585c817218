"""The head of a file of results: what the search is, as plain values. A file belongs to a search that has the same."""

import hashlib
import json
import os
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ascendsim import __version__
from ascendsim.errors import AscendSimError, InputError
from ascendsim.scenario import Scenario, scenario_from
from ascendsim.tuner.constraints import check_names
from ascendsim.tuner.evaluation import Setup
from ascendsim.tuner.space import DEFAULT, Space
from ascendsim.tuner.space import Field as SpaceField

SCHEMA = 1
DAMAGE = (ValueError, LookupError, TypeError, OverflowError, RecursionError)
"""What reading damaged files raises."""
AGAIN = "remove the file and search again"


def head_of(setup: Setup, place: Path) -> dict[str, Any]:
    """Return what a search is, as plain values: a file belongs to it if it says the same.

    Args:
        setup: of the search.
        place: the folder of its results, from where the files of the scenario are named.
    """
    scenario = setup.scenario
    names_files = scenario.kernel is not None or any(spec.file is not None for spec in scenario.tensors.values())
    return {
        "schema": SCHEMA,
        "ascendsim": __version__,
        "setup": setup_digest(setup),
        "where": list(setup.where),
        "space": [
            {"field": field.name, "keys": list(field.keys), "values": list(field.values)}
            for field in setup.space.fields
        ],
        "folder": Path(os.path.relpath(scenario.folder, place)).as_posix() if names_files else ".",
        "scenario": scenario.resolved(),
    }


def setup_digest(setup: Setup) -> str:
    """Return SHA-256 over what rows are a function of beside the point: scenario, device, and a kernel's own file."""
    scenario = setup.scenario
    h = hashlib.sha256(json.dumps(scenario.resolved(), sort_keys=True).encode())
    h.update(scenario.load_device().model_dump_json(by_alias=True).encode())
    h.update(kernel_digest(scenario).encode())
    return h.hexdigest()


def kernel_digest(scenario: Scenario) -> str:
    """Return SHA-256 of the file of a user's own kernel, "" where there is none.

    Raises:
        InputError: the file is not there.
    """
    if scenario.kernel is None:
        return ""
    path = scenario.folder / scenario.kernel.partition(":")[0]
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"kernel = {scenario.kernel!r}: {path} cannot be read: {error.strerror}") from None


class _FieldHead(BaseModel):
    """A field of a space as a head has it."""

    model_config = ConfigDict(strict=True, extra="forbid")
    field: str
    keys: list[str]
    values: list[int | bool | str]


class _Head(BaseModel):
    """What a head must be to be read; `head_of` writes it."""

    model_config = ConfigDict(strict=True, extra="forbid")
    number: int = Field(alias="schema")
    ascendsim: str
    setup: str
    where: list[str]
    space: list[_FieldHead] = Field(min_length=1)
    folder: str
    scenario: dict[str, Any]


def setup_of(head: Mapping[str, Any], file: Path) -> Setup:
    """Return the setup that the head of a file describes.

    Raises:
        InputError: it describes none.
    """
    try:
        found = _Head.model_validate(head)
        space = Space(tuple(SpaceField(f.field, tuple(f.keys), tuple(f.values)) for f in found.space))
        scenario = scenario_from(deepcopy(found.scenario), file.parent / found.folder / file.name)
        setup = Setup(scenario, space, tuple(found.where))
        check_setup(setup)
        setup.values(DEFAULT)
    except (AscendSimError, *DAMAGE) as error:
        what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise InputError(f"{file}: damaged: its first line describes no search ({what}); {AGAIN}") from None
    return setup


def check_schema(file: Path, head: Mapping[str, Any]) -> None:
    """Refuse a head of another schema than this version's.

    Raises:
        InputError: names the file and its schema.
    """
    schema = head.get("schema") if isinstance(head, dict) else None
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        what = "is newer than this version of ascendsim; upgrade" if newer else "is no schema of results"
        raise InputError(f"{file}: schema = {schema!r} {what}; this version reads schema {SCHEMA}")


def difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Return what another search is, in words."""
    before, now = there.get("ascendsim"), here["ascendsim"]
    if before != now:
        return f"a search of ascendsim {before}, whose numbers may differ from those of {now}"
    if there.get("space") != here["space"]:
        fields = ", ".join(f"{f['field']} ({len(f['values'])} values)" for f in there.get("space", []))
        return f"a search of another space: {fields or 'none'}"
    if there.get("where") != here["where"]:
        return f"a search under other constraints: {'; '.join(there.get('where', [])) or 'none'}"
    return "a search of another scenario, device or kernel file"


def check_setup(setup: Setup) -> None:
    """Refuse constraints over names that nothing has.

    Raises:
        InputError: names the constraint and its column.
    """
    numbers = [*(f.name for f in setup.space.fields), *setup.given, *setup.derived_names]
    check_names(setup.constraints, dict.fromkeys(numbers), setup.words)
