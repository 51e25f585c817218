"""Cases: files, one of them damaged, and the arguments of a command that reads it. Each follows from its seed."""

import json
import random as randoms
import tomllib
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from fuzz_odd import (
    EXPRESSIONS,
    NUMBERS,
    STRINGS,
    bytes_changed,
    changed,
    mild,
    npy_of,
    npz_of,
    odd,
    odd_array,
    odd_header,
    text_changed,
    toml_of,
)
from fuzz_tune import export as export_case
from fuzz_tune import results as tune_results
from fuzz_tune import tune as tune_case
from fuzz_watch import told_by

ROOT = Path(__file__).parents[2]
KERNELS = ("vector_add.py", "scaled_softmax_grad.py")
_SMALL = {
    "scaled_softmax_grad": {"block_dim": 2, "tiling": {"tile_m": 16}, "shapes": {"dp": [32, 128], "p": [32,
    128], "ds": [32, 128]}},
    "softmaxgrad_960x960_float": {"block_dim": 2, "shapes": {"grad": [16, 64], "src": [16, 64], "dst": [16, 64]}},
    "softmaxgrad_half_front": {"block_dim": 2, "shapes": {"grad": [16, 64], "src": [16, 64], "dst": [16, 16]}},
    "softmaxgrad_minilm_attention": {
        "block_dim": 2,
        "tiling": {"ori_k": 60},
        "shapes": {"grad": [16, 64], "src": [16, 64], "dst": [16, 64]},
    },
    "vector_add": {"block_dim": 2, "tiling": {"tile_length": 64}, "shapes": {"x": [256], "y": [256], "z": [256]}},
}  # fmt: skip
"""The shipped scenarios, made small."""


FILE_NAMES = (
    "[b].toml", "[/x].toml", "名.toml", "s", "-s.toml", "a b.toml", "\udcff.toml", "a\nb.toml", "💥.toml",
    "%s{0}.toml", "s.txt",
    "a/s.toml", "n" * 240 + ".toml", "\u202e.toml", "\x1b[31m.toml", ".toml", "..toml",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One case: what is asked for, and the files that are there."""

    kind: str
    argv: list[str]
    files: dict[str, bytes]

    def write(self, folder):
        """Write its files."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


@cache
def scenarios():
    """The shipped scenarios, made small."""
    trees = []
    for name, small in _SMALL.items():
        tree = tomllib.loads((ROOT / "scenarios" / f"{name}.toml").read_text())
        tree["block_dim"] = small["block_dim"]
        if isinstance(tree["tiling"], dict):
            tree["tiling"] |= small.get("tiling", {})
        for tensor, shape in small["shapes"].items():
            tree["tensors"][tensor]["shape"] = shape
            if "file" in tree["tensors"][tensor]:
                tree["tensors"][tensor]["file"] = "data.npz"
            tree["tensors"][tensor] |= {"scale": 1.0, "value": 0.0}
        tree["machine"] = {"engine": "compiled", "values": "all"}
        trees.append(tree)
    return tuple(trees)


@cache
def plans():
    """The shipped plans; ranges are short, because each of their values is tried."""
    trees = []
    for file in sorted((ROOT / "tilings").glob("plan_*.toml")):
        tree = tomllib.loads(file.read_text())
        for value in tree["tiling"].values():
            if isinstance(value, dict):
                value["max"] = value["min"] + 2 * value.get("step", 1)
        trees.append(tree)
    return tuple(trees)


@cache
def data_files():
    """The files that every scenario may name."""
    values = np.linspace(0, 1, 16 * 64, dtype=np.float32).reshape(16, 64)
    kernels = {name: (ROOT / "scenarios" / name).read_bytes() for name in KERNELS}
    return kernels | {"data.npz": npz_of({"grad": values, "p": values})}


def _files_of(tree):
    """Those of the data files that a scenario names: fewer files, faster cases."""
    text = str(tree)
    return {name: content for name, content in data_files().items() if name in text}


def scenario(random):
    """A scenario with a mistake."""
    tree = deepcopy(random.choice(scenarios()))
    files = _files_of(tree)
    tree.setdefault("machine", {})["engine"] = random.choice(("compiled", "compiled", "compiled", "both", "reference"))
    if random.random() < 0.2:
        tree["machine"] |= {"values": random.choice(("sample", "sample", "none"))}
        if tree["machine"]["values"] == "sample" and random.random() < 0.5:
            tree["machine"] |= {"sample": ["first", "random"], "sample_tiles": 2, "sample_seed": 0}
    if random.random() < 0.15 and "device" in tree:
        del tree["device"]
        tree["platform"] = {"aic_cores": 2, "aiv_cores": 4, "ub_bytes": 65536, "l2_bytes": 4096, "clock_mhz": 1000}
    if random.random() < 0.15:
        tree["expect"] = tree.get("expect", {}) | {
            "us": {"min": 1.0, "max": 9.0},
            "cycles": {"max": 9},
            "peak_ub_bytes": {"min": 1},
        }
    name = _file_name(random, "s.toml")
    command = random.choice(("run", "run", "run", "check", "plan"))
    argv = [command, name, *_options(random, command, 0.3)]
    return Case("scenario", argv, files | {name: _toml_changed(random, tree)})


def _file_name(random, usual):
    return usual if random.random() < 0.9 else random.choice(FILE_NAMES)


def _toml_changed(random, tree):
    """A tree with a mistake as TOML, or one with other values that may be right."""
    pick = random.random()
    if pick < 0.45:
        return toml_of(changed(random, tree))
    if pick < 0.8:
        return toml_of(mild(random, tree))
    return text_changed(random, toml_of(tree))


def plan(random):
    """A plan with a mistake."""
    tree = deepcopy(random.choice(plans()))
    if random.random() < 0.3:
        tables = [tree[key] for key in ("queues", "buffers", "tiling", "apis", "temps") if tree.get(key)]
        table = random.choice(tables)
        name = random.choice(list(table))
        if isinstance(table[name], dict):
            table[name][random.choice(("bytes", "bytes", "num"))] = random.choice(EXPRESSIONS)
        else:
            table[name] = random.choice(EXPRESSIONS)
    name = _file_name(random, "p.toml")
    text = toml_of(tree) if random.random() < 0.2 else _toml_changed(random, tree)
    command = "plan" if random.random() < 0.8 else "check"
    argv = [command, name, *_options(random, command, 0.4)]
    if random.random() < 0.01:
        argv += ["--out", _value(random, "--out")]
    return Case("plan", argv, {name: text})


def tiling(random):
    """A tiling file with a mistake."""
    tree = tomllib.loads(
        (
            ROOT / "tilings" / random.choice(("softmaxgrad_front_small.toml", "softmaxgrad_64x128_float.toml"))
        ).read_text()
    )
    tree["tiling"]["tile_m"] = 4
    text = _toml_changed(random, tree)
    named = deepcopy(scenarios()[2])
    named["tiling"] = "t.toml" if random.random() < 0.9 else random.choice(STRINGS)
    if random.random() < 0.5:
        named["queues"] = {"out": {"num": random.choice((1, 2, 0, "x"))}}
    target = random.choice(("run", "check", "plan", "tiling"))
    if target == "tiling":
        argv = ["check", "t.toml", *_options(random, "check", 0.3)]
    else:
        argv = [target, "s.toml", *_options(random, "plan" if target == "run" else target, 0.2)]
    return Case("tiling", argv, {"s.toml": toml_of(named), "t.toml": text})


def data(random):
    """A data file that is not what the scenario says."""
    tree = deepcopy(scenarios()[3])
    suffix = random.choice(("npz", "npz", "npy", "bin"))
    for name in ("grad", "src"):
        tree["tensors"][name] = {"role": "input", "shape": [16, 64], "dtype": "float", "file": f"d.{suffix}"}
    if suffix == "npz" and random.random() < 0.8:
        tree["tensors"]["grad"]["key"], tree["tensors"]["src"]["key"] = "grad", "p"
    if random.random() < 0.2:
        tree["expect"]["values"]["dst"] = {
            "file": f"d.{suffix}",
            "key": "p",
            "rtol": random.choice((0.1, 0, -1, float("nan"))),
        }
    if random.random() < 0.2:
        random.choice((changed, mild))(random, tree["tensors"], 1)
    if random.random() < 0.1:
        tree["expect"]["values"]["dst"]["rtol"] = random.choice((0.0, float("inf"), 1e308))
    engine = random.choice(("compiled", "reference"))
    argv = ["run", "s.toml", "--engine", engine, *(["--json"] if random.random() < 0.3 else [])]
    return Case("data", argv, {"s.toml": toml_of(tree), f"d.{suffix}": _data(random, suffix)})


def _data(random, suffix):
    good = np.linspace(0, 1, 16 * 64, dtype=np.float32).reshape(16, 64)
    if suffix == "bin":
        return random.choice(
            (good.tobytes(), good.tobytes()[:-1], b"", b"\xff" * good.nbytes, random.randbytes(good.nbytes))
        )
    if suffix == "npy":
        whole = npy_of(good)
        return random.choice((whole, bytes_changed(random, whole), npy_of(odd_array(random)), odd_header(random)))
    arrays = {"grad": good, "p": good}
    match random.randrange(5):
        case 0:
            arrays[random.choice(("grad", "p"))] = odd_array(random)
        case 1:
            arrays[random.choice(("grad", "p"))] = odd_header(random)
        case 2:
            arrays[random.choice(("grad.dtype", "p.dtype", *STRINGS[:24]))] = random.choice(
                (np.array("bfloat16_t"), np.array("x"), np.array("half"), np.zeros(3), good, odd_array(random))
            )
        case 3:
            return bytes_changed(random, bytes_changed(random, npz_of(arrays)))
        case _:
            return bytes_changed(random, npz_of(arrays))
    return npz_of({name.replace("\x00", "0"): array for name, array in arrays.items()})


@cache
def run_folder(place):
    """The files of a good run, made once."""
    folder = place
    folder.mkdir(parents=True)
    (folder / "s.toml").write_bytes(toml_of(scenarios()[1]))
    told = told_by(["run", str(folder / "s.toml"), "--out", str(folder / "r")])
    assert told.code in (0, 3), told
    names = ("run.json", "run.npz", "outputs.npz")
    arrays = np.load(folder / "r" / "run.npz")
    return {name: (folder / "r" / name).read_bytes() for name in names}, {n: arrays[n] for n in arrays.files}


def folder(random, place):
    """A run's folder with damage."""
    files = _damaged(random, place)
    argv = ["why", "r", *_options(random, "why", 0.3)]
    if random.random() < 0.3:
        argv = ["inspect", "r", "--row", str(random.randrange(60)), *_options(random, "inspect", 0.2)]
    return Case("folder", argv, {f"r/{name}": content for name, content in files.items()})


def compare(random, place):
    """A run beside a damaged run, a damaged trace, or damaged dumps."""
    good = run_folder(place)[0]
    files, argv = {f"r/{name}": content for name, content in good.items()}, ["compare", "r"]
    match random.randrange(4):
        case 0:
            files |= {f"q/{name}": content for name, content in _damaged(random, place).items()}
            argv += ["q"] if random.random() < 0.8 else ["r"]
        case 1 | 2:
            files["t.json"] = _trace_changed(random, (place / "r" / "trace.json").read_bytes())
            argv += ["t.json"]
        case _:
            content = random.randbytes(16 * 64 * 4)
            files["d/dst.bin"] = random.choice((content, content, content[:-1], b"", content * 2))
            argv += ["--outputs", "d"]
    if random.random() < 0.02:
        argv += ["--out", "o"]
    return Case("compare", [*argv, *_options(random, "compare", 0.1)], files)


def _trace_changed(random, text):
    tree = json.loads(text)
    match random.randrange(3):
        case 0:
            return json.dumps(changed(random, tree), default=str).encode()
        case 1:
            event = random.choice(tree["traceEvents"])
            event |= {random.choice(("ph", "ts", "dur", "pid", "tid", "id", "name", "args")): odd(random)}
            return json.dumps(tree, default=str).encode()
        case _:
            return text_changed(random, text)


def _damaged(random, place):
    """The files of a run's folder with damage."""
    good, arrays = run_folder(place)
    files = dict(good)
    match random.randrange(6):
        case 0:
            files["run.json"] = json.dumps(changed(random, json.loads(files["run.json"])), default=str).encode()
        case 1:
            files["run.json"] = text_changed(random, files["run.json"])
        case 2 | 3:
            some = dict(arrays)
            for _ in range(random.choice((1, 1, 2))):
                name = random.choice(sorted(some))
                some[name] = _array_changed(random, some[name])
            files["run.npz"] = npz_of(some)
        case 4:
            name = random.choice(sorted(files))
            files[name] = bytes_changed(random, files[name])
        case _:
            del files[random.choice(sorted(files))]
            if random.random() < 0.3:
                files[".unfinished"] = b""
    return files


def _array_changed(random, array):  # noqa: PLR0911 - one return for each change
    if isinstance(array, bytes):
        return bytes_changed(random, array)
    match random.randrange(7):
        case 0:
            return odd_array(random)
        case 1:
            return array[:-1] if array.ndim else array
        case 2:
            return array.reshape(-1)[::2]
        case 3:
            return np.concatenate([array, array]) if array.ndim else array
        case 4 if array.dtype.kind in "iuf" and array.size:
            found = array.copy()
            with np.errstate(all="ignore"):
                at = random.randrange(array.size)
                found.reshape(-1)[at] = np.array(random.choice((-1, 2**31 - 1, 2**62, 99))).astype(array.dtype)
            return found
        case 5 if array.dtype.kind in "iuf":
            return array.astype(random.choice(("<f8", "<i2", "<u8", "<U5")))
        case _:
            return bytes_changed(random, npy_of(array))


# ---- arguments ------------------------------------------------------------------------------------------------------

KERNEL = b"""
from ascendsim import HardEvent, TPosition


def main(asc, x, z, t):
    pipe = asc.t_pipe()
    buf = asc.t_buf(TPosition.VECCALC, "buf")
    pipe.init_buffer(buf, 1, 1024)
    a = buf.get(x.dtype)
    asc.data_copy(a, x, 64)
    asc.set_flag(HardEvent.MTE2_MTE3, 0)
    asc.wait_flag(HardEvent.MTE2_MTE3, 0)
    asc.data_copy(z, a, 64)
"""
_GOOD = {
    "run": [["s.toml"], ["v.toml"], ["s.toml", "--out", "o"], ["s.toml", "--out", "r"], ["v.toml", "--engine", "both"]],
    "check": [
        ["s.toml"], ["v.toml", "--json"], ["p.toml"], ["t.toml"], ["t.toml", "--shape", "64,64", "--dtype", "half"],
        ["k.py", "--tensor", "x=256:float", "--tensor", "z=256:float:output", "--block-dim", "1"],
        ["s.toml", "--sarif", "-"], ["s.toml", "--select", "W-"], ["--list"], ["--explain", "E-ALIGN-UB"],
    ],
    "devices": [[], ["Ascend910B1"], ["Ascend950PR_9579"], ["Ascend310P"], ["Atlas A2"], ["--json"]],
    "tmpsize": [
        ["softmaxgrad", "--shape", "8,64", "--dtype", "half"],
        ["softmax", "--shape", "8,64", "--dtype", "float", "--arch", "2201"],
        ["softmaxflashv2", "--shape", "8,64", "--dtype", "half", "--sum-dtype", "float", "--update"],
        ["softmaxgrad", "--shape", "8,64", "--dtype", "half", "--beside", "in=4096x2", "--export", "o"],
        ["softmaxgrad", "--shape", "8,64", "--dtype", "float", "--arch", "2201", "--temp", "4096"],
        ["softmaxflashv3", "--shape", "8,64", "--dtype", "half", "--json"],
    ],
    "plan": [["p.toml"], ["s.toml"], ["p.toml", "--solve", "elements"], ["p.toml", "--json"], ["s.toml",
    "--solve", "tile_m"]],
    "why": [["r"], ["r", "--pipes", "MTE2,V"], ["r", "--json"]],
    "compare": [["r", "r"], ["r", "r", "--equal"], ["s.toml", "r"], ["r", "--outputs", "."], ["r", "r", "--json"]],
    "inspect": [
        ["r", "--row", "8"], ["r", "--cycle", "900", "--tensor", "dst"], ["v.toml", "--row", "3", "--elements", "0:9"],
        ["r", "--row", "2", "--core", "0", "--json"],
        ["s.toml", "--cycle", "0", "--tensor", "grad", "--dtype", "int8_t"],
    ],
    "": [["--version"], ["--help"], [], ["--nix"]],
}  # fmt: skip
"""Arguments that are right, by command."""
_OPTIONS = {
    "run": ("--out", "--set", "--engine", "--trace-window", "--despite-findings", "--time", "--json"),
    "check": (
        "--set", "--json", "--select", "--ignore", "--sarif", "--tensor", "--shape", "--dtype", "--soc", "--block-dim",
        "--list", "--explain",
    ),
    "devices": ("--json",),
    "tmpsize": (
        "--shape", "--dtype", "--sum-dtype", "--front", "--update", "--basic-block", "--brc", "--format",
        "--reuse-source",
        "--beside", "--temp", "--within", "--curve", "--export", "--soc", "--arch", "--json",
    ),
    "plan": ("--solve", "--set", "--json"),
    "why": ("--pipes", "--json"),
    "compare": (
        "--outputs", "--set", "--set-b", "--clock-mhz", "--core", "--alias", "--atol", "--rtol", "--ulp", "--equal",
        "--json",
    ),
    "inspect": ("--row", "--cycle", "--tensor", "--core", "--elements", "--dtype", "--set", "--json"),
    "": ("--version", "--help"),
}  # fmt: skip
_FLAGS = {
    "--curve",
    "--despite-findings",
    "--equal",
    "--json",
    "--front",
    "--update",
    "--basic-block",
    "--brc",
    "--reuse-source",
    "--version",
    "--help",
    "--list",
}
_KEYS = (
    "tiling.tile_m", "tiling.tmp_bytes", "block_dim", "machine.engine", "machine.values", "queues.out.num",
    "tensors.src.shape",
    "tensors.src.fill", "tensors.src.seed", "expect.findings", 'expect.overlap."MTE2,V".min', "expect.us.max",
    "name", "device",
    "tiling", "tensors", "machine", "platform.ub_bytes", "schema", "tiling.elements", "queues.in_x.bytes",
    "limit", "x.y.z", "",
    ".", "tiling.", ".tiling", "tiling.is_front", "machine.sample", "expect.values.dst.rtol", "tensors.x.file",
    "kernel", "folder",
    "operator", "tensors.grad.scale", "description", "tensors.grad.value", "machine.sample.x",
    "tiling.elements.min", "a" * 400,
)  # fmt: skip
_VALUES = {
    "--out": ("o", "r", "s.toml", "s.toml/x", "a/b/c", ".", "..", "/dev/null", "/dev/null/x", "/proc/x", "../up"),
    "--export": ("o", "s.toml", "s.toml/x", "a/b", "/dev/null", "../up"),
    "--engine": ("compiled", "reference", "both", "fast"),
    "--trace-window": (
        "0:10", "1us:2us", "5:1", "nan:inf", "0us:infus", "1e3:2", "9" * 30 + ":" + "9" * 31, ":", "-1:5",
        "1:1e400us",
    ),
    "--time": ("us", "cycle", "ms"),
    "--shape": (
        "8,64", "1", "8,8,8", "0,64", "-1,64", "8,,64", "1e3", "8,65", "9" * 30 + ",64", "1_0,64", "8, 64", "½",
        "16,16",
    ),
    "--dtype": ("half", "float", "bfloat16_t", "double", "int8_t"),
    "--sum-dtype": ("half", "float", "double"),
    "--format": ("ND", "NZ", "nd", "x"),
    "--beside": (
        "in=4096", "in=4096x2", "in=", "=5", "in=x2", "in=-1", "in=1x0", "in=4096x2x3", "a b=32",
        "in=" + "9" * 30, "in=1x99999",
    ),
    "--temp": ("0", "-1", "4096", "4097", "9" * 30, "1e3", "nan", "196608"),
    "--within": ("0", "5", "-1", "nan", "inf", "1e400", "x", "100"),
    "--soc": ("Ascend910B1", "Ascend310P3", "Ascend950PR_9579", "Ascend310B1", "Ascend910", "x"),
    "--arch": ("2201", "2002", "3002", "3510", "0", "-1", "220", "9" * 30, "x"),
    "--select": ("E-", "W-,I-", "E-RACE", "e-cap", "X-", ",", "", "E-ALIGN-UB,W-NIX"),
    "--ignore": ("E-", "W-", "W-BANK,W-ALIGN", "nix", ",,"),
    "--sarif": ("-", "o.sarif", "a/b.sarif", "s.toml/x", "/dev/null/x", "."),
    "--tensor": (
        "x=256:float", "z=8x32:half:output", "x=0:float", "x=-1:float", "x=9x:half", "=8:half", "x=8", "x=8:half:both",
        "y=" + "9" * 30 + ":float", "x=8:double", "a b=8:half", "x=8:half:input:output", ":", "",
    ),
    "--block-dim": ("1", "48", "0", "-1", "49", "9" * 30, "x"),
    "--explain": ("E-CAP-UB", "e-race-gm", "E-MMAD-K", "E-", "", "nix"),
    "--outputs": ("d", "r", ".", "x"),
    "--clock-mhz": ("1850", "1", "0", "-1", "9" * 30, "1e3", "x"),
    "--core": ("core0.veccore0", "core0", "veccore0", "x"),
    "--alias": ("VMUL=VADD", "MOV_OUT_TO_UB=MOV", "=", "A=", "=B", "A", "A=B=C"),
    "--atol": ("0", "1e-3", "-1", "nan", "inf", "1e400", "x"),
    "--rtol": ("0", "1e-3", "-1", "nan", "inf", "x"),
    "--ulp": ("0", "1", "-1", "9" * 30, "1.5"),
    "--solve": ("elements", "tile_m", "rows", "k", "x"),
    "--pipes": ("MTE2,V", "V", "ALL", "mte2", "V,,V", ",", "S,V,M,MTE1,MTE2,MTE3,FIX"),
}  # fmt: skip


def _value(random, option):
    if option in ("--set", "--set-b"):
        value = odd(random)
        text = toml_of({"v": value}).decode().partition("=")[2].strip() if not isinstance(value, dict) else "{x = 1}"
        key, equals = random.choice(_KEYS), random.choice(("=", "=", "=", "=", "", " = "))
        word = random.choice(STRINGS)
        return f"{key}{equals}{random.choice((text, text, word))}"
    if random.random() < 0.75 and option in _VALUES:
        return random.choice(_VALUES[option])
    if option in ("--out", "--export"):  # nothing above the case's folder
        return random.choice([text for text in STRINGS if "/" not in text])
    return str(random.choice((*STRINGS, *NUMBERS[:-1])))


def _options(random, command, share):
    """Some odd options of a command."""
    options = []
    while random.random() < share:
        name = random.choice(_OPTIONS[command])
        options += [name] if name in _FLAGS else [name, _value(random, name)]
    return options


@cache
def _good_texts():
    """Of two scenarios and a plan."""
    return toml_of(scenarios()[1]), toml_of(scenarios()[4]), toml_of(plans()[1])


def arguments(random, place):
    """Arguments with mistakes."""
    command = random.choice((*_GOOD, "tmpsize", "plan", "run"))
    argv = ([command] if command else []) + random.choice(_GOOD[command]) + _options(random, command, 0.6)
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        at = random.randrange(len(argv) + 1)
        match random.randrange(4):
            case 0 if argv[at - 1 : at] not in (["--out"], ["--export"]):
                argv.insert(
                    at,
                    random.choice((*STRINGS, "--json", "--", "-", "--x", "-x", "\udcff", "run", "--set=", "--out=o")),
                )
            case 1 if (
                at < len(argv) and argv[at] not in ("--out", "--export") and argv[at - 1] not in ("--out", "--export")
            ):
                argv[at] = random.choice((*STRINGS, "\udcff.toml"))
            case 2 if at < len(argv):
                del argv[at]
            case _:
                argv.insert(at, random.choice(("--json", "--help", "--json=1", "--set", "--")))
    files = {"s.toml": _good_texts()[0], "p.toml": _good_texts()[2]}
    if command == "check":
        files |= {"t.toml": (ROOT / "tilings/softmaxgrad_64x128_float.toml").read_bytes(), "k.py": KERNEL}
    if command in ("plan", "tmpsize") and random.random() < 0.02:
        argv += ["--out", _value(random, "--out")]
    if "v.toml" in argv:
        files |= {"v.toml": _good_texts()[1], "vector_add.py": data_files()["vector_add.py"]}
    if "r" in argv or command in ("why", "compare", "inspect"):
        files |= {f"r/{name}": content for name, content in run_folder(place)[0].items()}
    argv = [text.replace("\x00", "0") for text in argv]  # a system hands no such argument over
    return Case("arguments", argv, files)


def tune(random, place):
    """A search with mistakes, or an export of results with damage."""
    small, add, _ = _good_texts()
    kernel = {"vector_add.py": data_files()["vector_add.py"]}
    if random.random() < 0.6:
        argv, files = tune_case(random, {"s.toml": small, "v.toml": add}, kernel)
    else:
        argv, files = export_case(random, tune_results(place.with_name("tuned"), add, tuple(kernel.items())))
    return Case("tune", [text.replace("\x00", "0") for text in argv], files)


KINDS = {
    "scenario": 32,
    "plan": 23,
    "tiling": 11,
    "data": 8,
    "folder": 5,
    "compare": 4,
    "arguments": 12,
    "tune": 5,
}
"""Kinds of cases and their share in percent."""


def case_of(seed, number, place, kinds=tuple(KINDS)):
    """The case with a number in a series; `place` is where a good run may be made."""
    random = randoms.Random(f"{seed}/{number}")
    kind = random.choices(kinds, [KINDS[k] for k in kinds])[0]
    if kind in ("folder", "compare", "tune"):
        return {"folder": folder, "compare": compare, "tune": tune}[kind](random, place)
    if kind == "arguments":
        return arguments(random, place)
    return {"scenario": scenario, "plan": plan, "tiling": tiling, "data": data}[kind](random)
