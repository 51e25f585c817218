"""Cases of `ascendsim tune` and `ascendsim export`: options with mistakes, and results that are damaged."""

import csv
import io
import json
from functools import cache

from fuzz_odd import EXPRESSIONS, NUMBERS, STRINGS, bytes_changed, changed, odd, text_changed
from fuzz_watch import told_by

VARY = {
    "v.toml": (
        "tile_length=32,64",
        "buffer_num=1:2",
        "block_dim=1:4:*2",
        "queues.in_x.num=1,2",
        "tiling.tile_length=64",
    ),
    "s.toml": ("tile_m=2,4", "tmp_bytes=min,max", "buffer_num=1,2", "split_m=1:2", "is_front=false", "block_dim=1,2"),
}
"""Right ones, by scenario."""
_ODD_VARY = (
    "tile_length", "tile_length=", "=1", "", "=", "tile_length=1,,2", "tile_length=1:2:0", "tile_length=2:1",
    "tile_length=1:2:*1", "tile_length=0:4:*2", "tile_length=1:2:3:4", "tile_length=:", "tile_length=64:", "a.b.c=1",
    "tile_length=" + "9" * 30, "tile_length=-5", "tile_length=0", "tile_length=true", "tile_length=64,true",
    "tile_length=64,64", "tile_length=x", "tile_length=1.5", "tile_length=½", "tile_length=٣", "buffer_num=0",
    "block_dim=0", "block_dim=999", "queues.nix.num=1", "tiling.nix=1", "tail_m=1", "tile_m=0", "tile_m=600",
    "tmp_bytes=min,max,framework,fit", "tmp_bytes=1:2", "tile_length=1:100000000",
    "is_front=true,false", "split_m=0", "split_m=99", "tile_m = 2 , 4", "tile_m=2=4", "buffer_num=1,2,x",
    "folder=1", "operator=x", "kernel=x", "name=y", "data_format=NZ,ND",
)  # fmt: skip
_WHERE = (
    "block_dim < 3", "buffer_num * 2 <= 4", "block_dim", "1 < 2 < 3", "<", "1 <", "< 1", "x < 1", "block_dim // 0 > 1",
    "64 // (buffer_num - 1) > 0", "block_dim < 0", "split_m >= 1", "tail_m == 0", "temp_bytes < 1", "tmp_bytes > 1",
    "1 == " + "9" * 5000, "(" * 60 + "1 < 2", "block_dim = 1", "block_dim => 1", "block_dim <> 1", "'a' == 'a'",
    "__import__ == 1", "1 != 2", "align(1, 0) < 1", "min() < 1", "KiB > 1", "9" * 30 + " > 1", "½ < 1", "", " ",
)  # fmt: skip
_VALUES = {
    "--vary": _ODD_VARY,
    "--where": _WHERE,
    "--objective": ("cycles", "peak_ub", "peak_l1", "workspace", "Cycles", "peak", "cycles,peak_ub", ""),
    "--search": ("exhaustive", "random", "random", "guided", "best", ""),
    "--samples": ("1", "2", "0", "-1", "9" * 30, "1e3", "x"),
    "--seed": ("0", "7", "-1", "9" * 30, "x"),
    "--executor": ("processes", "dask://", "dask://127.0.0.1", "dask://127.0.0.1:x", "dask://h:0", "slurm", ""),
    "--workers": ("1", "0", "-1", "x", "1.5", ""),
    "--out": (
        "r.csv", "a/b/r.csv", "s.toml", "v.toml/x.csv", "/dev/null", "o", "..", ".", ".csv", "r.CSV", "r.csv/", "d.csv",
        "/dev/null/x.csv", "/proc/x.csv", "../up.csv", "n" * 300 + ".csv", "a\nb.csv", "\udcff.csv", "r.parquet",
    ),
    "--picture": ("p.png", "p.jpg", ".", "s.toml/p.png", "a/p.png", ".png", "d.png", "r.csv", "n" * 300 + ".png"),
    "--top": ("1", "99", "0", "-1", "9" * 30, "x"),
    "--candidate": ("1", "2", "3", "0", "-1", "99", "9" * 30, "x"),
    "--set": ("tiling.tile_m=2", "machine.l2=warm", "tiling.nix=1", "device=Ascend310P3", "block_dim=0", "name=a/b"),
}  # fmt: skip
_OPTIONS = {
    "tune": (
        "--vary", "--vary", "--vary", "--where", "--where", "--objective", "--search", "--samples", "--seed",
        "--executor", "--workers", "--out", "--picture", "--top", "--set", "--json",
    ),
    "export": ("--candidate", "--out", "--objective", "--json"),
}  # fmt: skip
_FOLDERS = ("o", ".", "..", "s.toml", "s.toml/x", "a/b", "/dev/null", "r.csv", "d.csv", "/proc/x")
"""Where candidates are exported to."""


def tune(random, texts, kernel):
    """Arguments and files of a search: `texts` are the scenarios by their names, `kernel` the file of one."""
    scenario = random.choice(sorted(VARY))
    argv = ["tune", scenario, "--workers", "1"]
    for text in random.sample(VARY[scenario], random.choice((0, 1, 1, 1, 2))):
        argv += ["--vary", text]
    argv += _options(random, "tune", 0.6)
    files = {scenario: texts[scenario], "d.csv/x": b"", "d.png/x": b"", **(kernel if scenario == "v.toml" else {})}
    return argv, files


def export(random, good):
    """Arguments and files of an export, or of a search that goes on: `good` is a file of results, and what made it."""
    argv, files = list(good["argv"]), dict(good["files"])
    name = random.choice(("r.csv", "r.csv", "r.csv", "r.csv.journal"))
    content = files.pop("r.csv")
    if name == "r.csv" and random.random() < 0.1:
        files["r.csv.journal"] = good["journal"]
    files[name] = damaged(random, content if name == "r.csv" else good["journal"], name == "r.csv")
    if random.random() < 0.4:
        return [*argv, *_options(random, "tune", 0.2)], files
    return ["export", "r.csv", "--out", "o", *_options(random, "export", 0.4)], files


def damaged(random, content, is_table):
    """Results, or the journal of a search, with damage."""
    match random.randrange(5):
        case 0:
            return bytes_changed(random, content)
        case 1:
            return text_changed(random, content)
        case 2 | 3:
            return _with_another_head(random, content, is_table)
        case _:
            return _with_another_cell(random, content, is_table)


def _with_another_head(random, content, is_table):
    first, _, rest = content.partition(b"\n")
    start = first.index(b"{")
    tree = changed(random, json.loads(first[start:]))
    return first[:start] + json.dumps(tree, default=str).encode() + b"\n" + rest


def _with_another_cell(random, content, is_table):
    lines = content.splitlines(keepends=True)
    at = random.randrange(1, len(lines))
    if is_table:
        (cells,) = csv.reader([lines[at].decode()])
    else:
        cells = json.loads(lines[at])
    match random.randrange(4):
        case 0:
            del cells[random.randrange(len(cells))]
        case 1:
            cells.append(odd(random))
        case _:
            cells[random.randrange(len(cells))] = random.choice((odd(random), "", "0", "1", "64", "timed", "dropped"))
    text = io.StringIO()
    if is_table:
        csv.writer(text, lineterminator="\n").writerow(cells)
    else:
        text.write(json.dumps(cells, default=str) + "\n")
    lines[at] = text.getvalue().encode("utf-8", "replace")
    return b"".join(lines)


@cache
def results(place, text, kernel):
    """Results of a good search, made once: the file, what its journal was, and what goes on with it."""
    place.mkdir(parents=True)
    files = {"v.toml": text, **dict(kernel)}
    for name, content in files.items():
        (place / name).write_bytes(content)
    argv = ["--workers", "1", "--vary", "tile_length=32,64", "--vary", "buffer_num=1,2", "--where", "block_dim < 9"]
    told = told_by(["tune", str(place / "v.toml"), *argv, "--out", str(place / "r.csv")])
    assert told.code == 0, told
    table = (place / "r.csv").read_bytes()
    first, columns, *rows = table.decode().splitlines()
    head = json.loads(first[first.index("{") :])
    lines = [json.dumps({"head": head, "columns": columns.split(",")})]
    lines += [json.dumps([cell or None for cell in cells]) for cells in csv.reader(rows)]
    journal = "".join(f"{line}\n" for line in lines).encode()
    return {
        "argv": ["tune", "v.toml", *argv, "--out", "r.csv"],
        "files": files | {"r.csv": table},
        "journal": journal,
    }


def _options(random, command, share):
    found = []
    while random.random() < share:
        name = random.choice(_OPTIONS[command])
        found += [name] if name == "--json" else [name, _value(random, command, name)]
    return found


def _value(random, command, name):
    if command == "export" and name == "--out":
        return random.choice(_FOLDERS)
    if random.random() < 0.8 or name in ("--out", "--executor", "--workers", "--picture"):
        return random.choice(_VALUES[name])
    if name == "--vary":
        return f"{random.choice(('tile_length', 'tile_m', 'buffer_num'))}={random.choice((*STRINGS, *NUMBERS[:-1]))}"
    if name == "--where":
        sign = random.choice(("<", "<=", "==", "!="))
        return f"{random.choice((*EXPRESSIONS, 'block_dim'))} {sign} {random.choice(EXPRESSIONS)}"
    return str(random.choice((*STRINGS, *NUMBERS[:-1])))
