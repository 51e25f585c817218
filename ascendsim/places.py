"""Where a finding stands: the file on this disk, its line and columns, and the line's text."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ascendsim.errors import Finding
from ascendsim.files import is_file

_LINE = re.compile(r"[\w.-]+:\d+")
_END = re.compile(r"(?<![\w.-])end of kernel(?!\w)")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file.

    Attributes:
        file: the file.
        line: from 1; None where the finding is about the whole file.
        column, end_column: of the call, from 1, the end behind it; None without a line.
        text: the line.
        what: what `where` says beyond file and line, such as "DataCopy, core 7" or "queues.in_p".
    """

    file: Path
    line: int | None = None
    column: int | None = None
    end_column: int | None = None
    text: str = ""
    what: str = ""

    @property
    def shown(self) -> str:
        """File, line and column, the file from the working folder on if it lies there."""
        numbers = "" if self.line is None else f":{self.line}:{self.column}"
        return f"{from_here(self.file)}{numbers}"


def from_here(file: Path) -> str:
    """Return a file's name from the working folder on, or from the root if it lies elsewhere."""
    absolute, here = file.resolve(), Path.cwd().resolve()
    return absolute.relative_to(here).as_posix() if absolute.is_relative_to(here) else absolute.as_posix()


def place_of(finding: Finding, target: Path, sources: Mapping[str, tuple[str, ...]]) -> Place | None:
    """Return the place of a finding; None where no file can be told for sure.

    Args:
        finding: what was found.
        target: the file that was checked.
        sources: the files that each kernel line, "file.py:31", was seen in.
    """
    keys = [key for key in sources if _position(key, finding.where) >= 0]
    if keys:
        key = min(keys, key=lambda k: (_position(k, finding.where), -len(k)))
        return _in_kernel(finding, key, sources[key])
    if re.search(r"\.py:\d", finding.where):
        return None
    return _in_table(finding.where, target)


def named_lines(finding: Finding, lines: Sequence[str]) -> list[int]:
    """Return which of a program's kernel lines a finding names."""
    named = (*_LINE.findall(finding.where), *_END.findall(finding.where))
    return [lines.index(line) for line in named if line in lines]


def _position(key: str, where: str) -> int:
    """Where a kernel line is named, as a whole; -1 if it is not."""
    found = re.search(rf"(?<![\w.-]){re.escape(key)}(?!\d)", where)
    return -1 if found is None else found.start()


def _in_kernel(finding: Finding, key: str, files: tuple[str, ...]) -> Place | None:
    number = int(key.rpartition(":")[2])
    there = [file for file in map(Path, files) if is_file(file)]
    api = finding.where.partition(" (")[0] if "(" in finding.where else finding.message.partition(" ")[0]
    if len(there) > 1:  # files of one name: the one where such a call stands
        there = [file for file in there if _call(file, number, api) is not None]
    if len(there) != 1:
        return None
    file = there[0]
    text = _line(file, number)
    start, end = _call(file, number, api) or _call(file, number, "") or _whole(text)
    return Place(file, number, start + 1, end + 1, text, _beyond(finding.where, key))


def _beyond(where: str, key: str) -> str:
    """What `where` says beside a kernel line."""
    rest = where.replace(f" ({key})", ",").replace(key, "")
    return ", ".join(part.strip() for part in rest.split(",") if part.strip())


def _whole(text: str) -> tuple[int, int]:
    """Start and end of what stands in a line."""
    return len(text) - len(text.lstrip()), len(text.rstrip())


def _lines(file: Path) -> tuple[str, ...]:
    return tuple(file.read_text(encoding="utf-8", errors="replace").splitlines())


def _line(file: Path, number: int) -> str:
    lines = _lines(file)
    return lines[number - 1] if number <= len(lines) else ""


def _calls(file: Path) -> tuple[ast.Call, ...]:
    try:
        tree = ast.parse("\n".join(_lines(file)))
    except SyntaxError:
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _call(file: Path, number: int, api: str) -> tuple[int, int] | None:
    """Start and end of the called name in a line: the first call of an API, of any for ""."""
    wanted = _plain(api)
    at = [c.func for c in _calls(file) if c.func.lineno == c.func.end_lineno == number]
    named = [func for func in at if not api or _plain(_name(func)) == wanted]
    if not named:
        return None
    first = min(named, key=lambda func: func.col_offset)
    raw = _line(file, number).encode()
    return len(raw[: first.col_offset].decode()), len(raw[: first.end_col_offset].decode())


def _name(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _plain(name: str) -> str:
    """A name as AscendC and Python both spell it: DataCopy and data_copy are datacopy."""
    return re.sub(r"[^0-9a-z]", "", name.lower())


# ---- keys of TOML files -----------------------------------------------------------------------------------------


def _in_table(where: str, file: Path) -> Place:
    """The line where a key is set; the whole file if no line sets it."""
    numbered = re.fullmatch(r"(\w+)\[(\d+)\]", where)
    tensor = re.fullmatch(r"(?:input|output) (.+)", where)
    key = f"tensors.{tensor[1]}" if tensor else where
    wanted, skip = (numbered[1], int(numbered[2])) if numbered else (key.partition(",")[0], 0)
    parts = wanted.split(".")
    if file.suffix != ".toml":
        return Place(file, what=where)
    there = [
        (number, line, is_header)
        for number, (line, path, is_header) in enumerate(_keys(file), start=1)
        if path[: len(parts)] == parts and (is_header or not numbered)
    ]
    if not there and parts[0] == "temps":
        there = _uses_of_temp(file, parts[-1])
    if len(there) <= skip:
        return Place(file, what=where)
    number, line, is_header = there[skip]
    start, end = _whole(line) if is_header else (_whole(line)[0], len(line.partition("=")[0].rstrip()))
    return Place(file, number, start + 1, end + 1, line, where)


def _uses_of_temp(file: Path, name: str) -> list[tuple[int, str, bool]]:
    """Lines of a plan where an API names its temp: a temp may have no table of its own."""
    found = enumerate(_keys(file), start=1)
    return [
        (n, line, header) for n, (line, _, header) in found if re.search(rf"\btemp\s*=\s*\"{re.escape(name)}\"", line)
    ]


def _keys(file: Path) -> Iterator[tuple[str, list[str], bool]]:
    """Each line with the dotted key that it sets, and whether it opens a table; [] for other lines."""
    table: list[str] = []
    for line in _lines(file):
        header = re.match(r"\s*\[\[?([^\]\"]+)\]", line)
        assignment = re.match(r"\s*([\w.\"-]+)\s*=", line)
        if header:
            table = [part.strip() for part in header[1].split(".")]
            yield line, table, True
        else:
            yield line, [*table, *assignment[1].replace('"', "").split(".")] if assignment else [], False
