"""A candidate of a search as files: a scenario that runs it, and a tiling header for the operator's host side.

The header declares a tiling class in the way of BEGIN_TILING_DATA_DEF and fills it: fields that the scenario sets,
then what AscendC derives of them, with SoftMaxTiling as a struct of its own. Source of the macros' names and of what
they generate (set_FIELD, get_FIELD): asc-devkit docs, page on tiling data structures.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from ascendsim.errors import InputError
from ascendsim.machine import host_argument
from ascendsim.op_host.softmax_grad_operator import SoftmaxGradOperatorTiling
from ascendsim.op_host.softmax_outcome import SoftMaxTiling
from ascendsim.runfolder import check_place, relocated, write_files
from ascendsim.terms import ascendc_field
from ascendsim.tuner.evaluation import Cells, Setup, derived_of
from ascendsim.tuner.space import value_text

SOFT_MAX_TILING = "SoftMaxTiling"
_STRUCT_FIELD = "softMaxTilingData"
_UINT32 = range(2**32)


@dataclass(frozen=True, slots=True)
class Member:
    """A field of the tiling class.

    Attributes:
        name: as AscendC spells it.
        kind: its C++ type.
        value: a number, or numbers of an array.
    """

    name: str
    kind: str
    value: int | float | bool | tuple[int, ...]


def number_of(row: Cells) -> int:
    """Return a candidate's number."""
    number = row["candidate"]
    assert isinstance(number, int)
    return number


def chosen(ranked: Sequence[Cells], number: int | None) -> Cells:
    """Return the row to export: the best one, or that of a number.

    Args:
        ranked: candidates that were timed, best first.
        number: of the one that is wanted, None for the best.

    Raises:
        InputError: no candidate has the number, or none was timed.
    """
    if not ranked:
        raise InputError("export: no candidate of these results was timed, so there is nothing to export")
    if number is None:
        return ranked[0]
    row = next((row for row in ranked if row["candidate"] == number), None)
    if row is None:
        raise InputError(
            f"--candidate {number}: no candidate with this number was timed; the table of ascendsim tune has them"
        )
    return row


def write_candidate(setup: Setup, row: Cells, folder: Path) -> tuple[Path, ...]:
    """Write a candidate's scenario and tiling header into a folder; return both files.

    Args:
        setup: of the search.
        row: the candidate's.
        folder: made if need be; other files in it stay.

    Raises:
        InputError: nothing can be written there.
    """
    check_place("--out", folder)
    scenario = setup.scenario_of(number_of(row))
    stem = f"{setup.scenario.name}_tuned"
    contents = {
        f"{stem}.toml": scenario_toml(setup, row, relocated(scenario.resolved(), scenario.folder, folder)),
        f"{stem}_tiling.h": tiling_header(setup, row).encode(),
    }
    write_files(folder, contents)
    return tuple(folder / name for name in contents)


def scenario_toml(setup: Setup, row: Cells, relocated: Mapping[str, Any]) -> bytes:
    """Return a scenario that runs a candidate.

    Args:
        setup: of the search.
        row: the candidate's.
        relocated: the resolved scenario of it, file names from where it will lie.
    """
    head = [
        f"# {_said(setup, row)}: {row['cycles']} cycles predicted.",
        f"# Candidate {row['candidate']} of a search of {setup.space.count} by ascendsim tune.",
    ]
    return ("\n".join(head) + "\n" + tomli_w.dumps(dict(relocated))).encode()


def point_text(setup: Setup, row: Cells) -> str:
    """Return what the fields of a candidate are, in words."""
    return ", ".join(f"{f.name} = {_word(row[f.name])}" for f in setup.space.fields)


def _said(setup: Setup, row: Cells) -> str:
    return f"{setup.scenario.name}, {point_text(setup, row)}"


def _word(cell: object) -> str:
    return value_text(cell) if isinstance(cell, int | str) else str(cell)


def class_name(setup: Setup) -> str:
    """Return the name of the tiling class: that of the scenario as a C++ name."""
    words = re.findall(r"[A-Za-z0-9]+", setup.scenario.name)
    name = "".join(word[:1].upper() + word[1:] for word in words) or "Tuned"
    return f"{name if name[0].isalpha() else 'Tuned' + name}TilingData"


def tiling_header(setup: Setup, row: Cells) -> str:
    """Return the header of a candidate."""
    scenario = setup.scenario_of(number_of(row))
    argument = host_argument(scenario)
    struct = argument.soft_max_tiling if isinstance(argument, SoftmaxGradOperatorTiling) else None
    derived = derived_of(scenario, argument)
    members, left = _members(scenario.tiling)
    members += [Member(ascendc_field(f"{n}_num"), "uint32_t", q.num) for n, q in scenario.queues.items()]
    own = _struct_fields(struct)
    known = {member.name for member in members}
    members += [
        Member(ascendc_field(name), "uint32_t", value)
        for name, value in derived.items()
        if value is not None and name not in own and ascendc_field(name) not in known
    ]
    name = class_name(setup)
    return "\n".join(_lines(name, _said(setup, row), row, scenario.block_dim, members, left, own)) + "\n"


def _members(tiling: Mapping[str, Any]) -> tuple[list[Member], list[str]]:
    """Fields for what is a number in [tiling], and comments for what is none."""
    found: list[Member] = []
    left: list[str] = []
    for key, value in tiling.items():
        name = ascendc_field(key)
        if isinstance(value, bool):
            found.append(Member(name, "bool", value))
        elif isinstance(value, int):
            found.append(Member(name, "uint32_t" if value in _UINT32 else "int64_t", value))
        elif isinstance(value, float):
            found.append(Member(name, "float", value))
        elif isinstance(value, list) and value and all(isinstance(v, int) and v in _UINT32 for v in value):
            found.append(Member(name, "uint32_t", tuple(value)))
        else:
            left.append(f"{name}: {_word(value)}")
    return found, left


def _struct_fields(struct: SoftMaxTiling | None) -> dict[str, int]:
    return {} if struct is None else {name: getattr(struct, name) for name in struct.__dataclass_fields__}


def _lines(
    name: str,
    said: str,
    row: Cells,
    block_dim: int | None,
    members: list[Member],
    left: list[str],
    struct: Mapping[str, int],
) -> Iterator[str]:
    guard = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper() + "_H"
    yield from (f"// {said}: {row['cycles']} cycles predicted by ascendsim tune.",)
    yield from (f"// Not a number: {text}" for text in left)
    yield from (f"#ifndef {guard}", f"#define {guard}", "#include <cstdint>", '#include "register/tilingdata_base.h"')
    if struct:
        yield '#include "tiling/tiling_api.h"'
    yield from ("", "namespace optiling {", f"BEGIN_TILING_DATA_DEF({name})")
    yield from (_declared(member) for member in members)
    if struct:
        yield f"  TILING_DATA_FIELD_DEF_STRUCT({SOFT_MAX_TILING}, {_STRUCT_FIELD});"
    yield "END_TILING_DATA_DEF;"
    yield ""
    if block_dim is not None:
        yield f"constexpr uint32_t {name}BlockDim = {block_dim};"
        yield ""
    yield f"inline void Fill{name}({name} &tiling)"
    yield "{"
    for member in members:
        yield from _filled(member)
    yield from (f"  tiling.{_STRUCT_FIELD}.set_{ascendc_field(key)}({value});" for key, value in struct.items())
    yield from ("}", "}  // namespace optiling", f"#endif  // {guard}")


def _declared(member: Member) -> str:
    if isinstance(member.value, tuple):
        return f"  TILING_DATA_FIELD_DEF_ARR({member.kind}, {len(member.value)}, {member.name});"
    return f"  TILING_DATA_FIELD_DEF({member.kind}, {member.name});"


def _filled(member: Member) -> Iterator[str]:
    value = member.value
    if isinstance(value, tuple):
        numbers = ", ".join(map(str, value))
        yield f"  const {member.kind} {member.name}Values[{len(value)}] = {{{numbers}}};"
        yield f"  tiling.set_{member.name}({member.name}Values);"
    else:
        text = _word(value) if isinstance(value, int) else f"{value!r}f"
        yield f"  tiling.set_{member.name}({text});"
