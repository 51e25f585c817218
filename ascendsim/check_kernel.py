"""A kernel file as a target of `ascendsim check`: the scenario that its options make."""

import ast
import difflib
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ascendsim.errors import InputError
from ascendsim.files import is_file
from ascendsim.scenario import SCHEMA, Scenario, scenario_from
from ascendsim.terms import DEFAULT_SOC

_TENSOR = re.compile(r"(\w+)=(\d+(?:[x,]\d+)*):(\w+)(?::(input|output))?")
_SYNTAX = "NAME=SHAPE:DTYPE or NAME=SHAPE:DTYPE:ROLE, such as x=64x128:half or z=8192:float:output"


def is_kernel(target: str) -> bool:
    """Whether a target names a Python file, with or without a function."""
    return re.search(r"\.py(:|$)", target) is not None


def kernel_scenario(
    target: str, tensors: Sequence[str], changes: Mapping[str, Any], soc: str | None, block_dim: int | None
) -> tuple[Scenario, Path]:
    """Return a scenario that names the kernel and holds its tensors, and the kernel's file.

    Raises:
        InputError: no such file or function, or its tensors are not those that are given.
    """
    head, _, function = target.rpartition(".py")
    file = Path(f"{head}.py")
    if not is_file(file):
        raise InputError(f"{file}: no such kernel file")
    found = _function(file, function.removeprefix(":"))
    given = dict(_tensor(text) for text in tensors)
    names = _names(found)
    _check_signature(found, given, file)
    _check_tensors(f"{file}:{found.name}", names, given, file)
    raw: dict[str, Any] = {
        "schema": SCHEMA,
        "name": file.stem,
        "device": soc or DEFAULT_SOC,
        "kernel": f"{file.name}:{found.name}",
        "tensors": given if names is None else {name: given[name] for name in names},
        "tiling": {},
        "queues": {},
    }
    if block_dim is not None:
        raw["block_dim"] = block_dim
    return scenario_from(raw, file, _own_keys(raw, changes)), file


def _own_keys(raw: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Set [tiling] and [queues], where a kernel's names are free; return the other changes."""
    rest = {}
    for key, value in changes.items():
        *tables, last = key.split(".")
        if not tables or tables[0] not in ("tiling", "queues"):
            rest[key] = value
            continue
        table = raw
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise InputError(f"--set {key}: {name} is set to {table!r}, which is no table")
        table[last] = value
    return rest


def _functions(file: Path) -> list[ast.FunctionDef]:
    """Kernels of a file: its functions that take the core's handle first and are no parts of another."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not Python: {error}") from None
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def _function(file: Path, name: str) -> ast.FunctionDef:
    functions = _functions(file)
    if name:
        found = [f for f in functions if f.name == name]
        if not found:
            known = ", ".join(f.name for f in functions) or "none"
            raise InputError(f"{file}:{name}: the file has no function {name}; its functions: {known}")
        return found[0]
    kernels = [f for f in functions if not f.decorator_list and f.args.args and f.args.args[0].arg == "asc"]
    chosen = [f for f in kernels if f.name == "main"] or kernels
    if len(chosen) != 1:
        known = ", ".join(f"{file}:{f.name}" for f in kernels or functions) or "it has none"
        raise InputError(f"{file}: name the kernel's function, FILE.py:FUNCTION; {known}")
    return chosen[0]


def _names(function: ast.FunctionDef) -> list[str] | None:
    """Names of the tensors a kernel takes, between the core's handle and the tiling; None for *tensors."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return None if function.args.vararg else names[1:-1]


def _check_signature(function: ast.FunctionDef, given: Mapping[str, Any], file: Path) -> None:
    """The last parameter takes the tiling: without one the last tensor would be taken for it."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if function.args.vararg is None and (len(names) < 2 or names[-1] in given):
        called = f"{function.name}(asc, tensors, t)"
        raise InputError(
            f"{file}:{function.lineno}: {function.name}({', '.join(names)}) is called as {called}: give it a last "
            "parameter for the tiling, used or not"
        )


def _tensor(text: str) -> tuple[str, dict[str, Any]]:
    found = _TENSOR.fullmatch(text.replace(" ", ""))
    if found is None:
        raise InputError(f"--tensor {text}: want {_SYNTAX}")
    name, shape, element, role = found.groups()
    spec: dict[str, Any] = {
        "role": role or "input",
        "shape": [int(n) for n in re.split("[x,]", shape)],
        "dtype": element,
    }
    return name, spec | ({} if role == "output" else {"fill": "zeros"})


def _check_tensors(kernel: str, names: list[str] | None, given: Mapping[str, Any], file: Path) -> None:
    if names is None and given:
        return
    for name in given:
        if names is not None and name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
            nearest = f"; the nearest is {near[0]}" if near else ""
            raise InputError(f"--tensor {name}: {kernel} takes {', '.join(names) or 'no tensors'}{nearest}")
    missing = [name for name in names or ["x"] if name not in given] if names != [] else []
    if missing:
        takes = "GM tensors" if names is None else f"the GM tensors {', '.join(names)}"
        options = " ".join(f"--tensor {name}=SHAPE:DTYPE" for name in missing)
        beside = _scenarios_of(file)
        other = f"; or check a scenario that names it: {', '.join(map(shlex.quote, beside))}" if beside else ""
        raise InputError(f"{kernel} takes {takes}: add {options}{other}")


def _scenarios_of(file: Path) -> list[str]:
    """Scenarios beside a kernel that name it."""
    found = []
    for path in sorted(file.parent.glob("*.toml")):
        try:
            kernel = tomllib.loads(path.read_text(encoding="utf-8")).get("kernel")
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError):
            continue
        if isinstance(kernel, str) and kernel.partition(":")[0] == file.name:
            found.append(str(path))
    return found
