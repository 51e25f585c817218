"""What goes wrong in files: odd values, and changes to tables, text, bytes and arrays. All follows from a seed."""

import datetime as dt
import io
import struct
import zipfile

import numpy as np
import tomli_w

STRINGS = (
    "", " ", "\x00", "a\x00b", "\n", "\t", "é", "名前", "💥", "\u202e", "\x1b[31m", "a" * 300, "x" * 5000, "..",
    ".", "/",
    "../x", "a/b", "a\\b", "~", "[b]x[/b]", "[/]", "[/x]", "%s%d", "{0}{x}{", "$HOME", "nan", "inf", "-1", "1e999",
    "None", "true", "'", '"', "a.b.c", "x:y", ":", "x.py:main", "k.py:", "k.py:nix", "k.py:main", "half", "float",
    "float64", "min", "max", "framework", "fit", "operator", "input", "output", "MTE2,V", "V,V", ",", "x*y", "1//0",
    "a" * 250 + ".toml", "data.npz", "missing.npy", "t.toml", "s.toml", "9" * 30, "rows", "k", "(" * 60, "0x10",
    "½", "²",
)  # fmt: skip
NUMBERS = (
    0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, 255, 256, -1, -2, -32, 2**40, 2**47, 2**53 + 1, 2**62,
    2**63 - 1, 2**63, 2**64, -(2**63), -(2**64), 10**30, 10**400,
)  # fmt: skip
FLOATS = (0.0, -0.0, 0.5, 1.0, -1.5, 1e-320, 1e30, 1e308, float("nan"), float("inf"), float("-inf"))
OTHERS = (
    True,
    False,
    dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    dt.date(1, 1, 1),
    dt.time(23, 59),
)
EXPRESSIONS = (
    "rows * k", "rows // 0", "align(rows, 0)", "align(rows, -32)", "ceil(rows, 0)", "ceil(1, -1)", "min()",
    "max(1)", "rows +",
    "-" * 60 + "1", "((((rows))))", "rows ** 2", "rows / 2", "9223372036854775807 + 1", "elements", "m + n", "k % rows",
    "KiB", "half", "rows * rows * rows * rows * rows * rows * rows * rows * 1000000", "0 - rows", "fit",
    "1 +" * 400 + " 1",
    "rows rows", "9" * 5000, "a" * 1001, "min(rows, k, 1)", "blocks", "tmp", "³", "x", "１",
)  # fmt: skip


def odd(random, depth=0):  # noqa: PLR0911 - one return for each kind
    """A value that is likely to be wrong where it comes to stand."""
    pick = random.random()
    if pick < 0.3:
        return random.choice(STRINGS)
    if pick < 0.6:
        return random.choice(NUMBERS)
    if pick < 0.7:
        return random.choice(FLOATS)
    if pick < 0.78:
        return random.choice(OTHERS)
    if pick < 0.86:
        return random.choice(EXPRESSIONS)
    if depth > 2:
        return []
    if pick < 0.93:
        return [odd(random, depth + 1) for _ in range(random.randrange(4))]
    return {random.choice(STRINGS): odd(random, depth + 1) for _ in range(random.randrange(3))}


def places(tree, path=()):
    """Every (table or list, key) of a tree."""
    found = []
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        found.append((tree, key))
        if isinstance(value, dict | list):
            found += places(value, (*path, key))
    return found


def changed(random, tree, times=None):
    """Change a tree of tables in some places."""
    for _ in range(times or random.choice((1, 1, 1, 2, 3))):
        found = places(tree)
        if not found:
            return tree
        where, key = random.choice(found)
        _change(random, tree, where, key)
    return tree


def _change(random, tree, where, key):  # noqa: C901 - one case for each change
    value = where[key]
    match random.randrange(12):
        case 0:
            del where[key]
        case 1 if isinstance(where, dict):
            where[random.choice(STRINGS)] = where.pop(key)
        case 2 if isinstance(where, dict):
            name = key[:-1] + random.choice("xyz_é") if random.random() < 0.5 else key.upper()
            where[name] = where.pop(key)
        case 3 if isinstance(where, dict):
            where[random.choice((*STRINGS, "name", "device", "value", "min", "file", "num", "temp"))] = odd(random)
        case 4:
            where[key] = [value]
        case 5:
            where[key] = {random.choice(("x", "min", "num", "")): value}
        case 6:
            other, name = random.choice(places(tree))
            where[key] = _copied(other[name])
        case 7 if isinstance(value, int | float):
            where[key] = random.choice(
                (-value, value + 1, value - 1, float(value) if abs(value) < 2**60 else 0, str(value))
            )
        case 8 if isinstance(value, str):
            at = random.randrange(len(value) + 1)
            where[key] = value[:at] + random.choice(STRINGS[:24]) + value[at + random.randrange(2) :]
        case 9 if isinstance(value, list):
            value.append(odd(random))
        case _:
            where[key] = odd(random)


def mild(random, tree, times=None):
    """Change some numbers, words and flags of a tree to others of their kind, which may well be right."""
    for _ in range(times or random.choice((1, 2, 3))):
        found = [(where, key) for where, key in places(tree) if not isinstance(where[key], dict)]
        if not found:
            return tree
        where, key = random.choice(found)
        value = where[key]
        if isinstance(value, bool):
            where[key] = not value
        elif isinstance(value, int):
            where[key] = random.choice(
                (1, 2, 3, 4, 8, 16, 17, 32, 48, 64, 96, 128, 256, 4096, value * 2, value // 2, value + 1)
            )
        elif isinstance(value, float):
            where[key] = random.choice(FLOATS)
        elif isinstance(value, str):
            same = [other[name] for other, name in places(tree) if isinstance(other[name], str)]
            where[key] = random.choice((*same, *_WORDS))
    return tree


_WORDS = (
    "half", "float", "bfloat16_t", "int32_t", "int8_t", "uint8_t", "int64_t", "float16", "zeros", "ones", "arange",
    "constant",
    "uniform", "normal", "softmax_rows", "Ascend910B1", "Ascend310P3", "Ascend950PR_9579", "Ascend310B1", "sample",
    "none",
    "reference", "both", "hit", "miss", "min", "max", "framework", "fit", "UB", "L1", "L0C", "VECIN", "VECOUT",
    "softmax_grad",
    "soft_max_flash_v2", "log_soft_max", "safe", "hardware", "saturate",
)  # fmt: skip


def _copied(value):
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    return [_copied(v) for v in value] if isinstance(value, list) else value


def toml_of(tree):
    """The bytes of a tree as TOML."""
    return tomli_w.dumps(tree).encode()


_LINES = (
    b"a = " + b"[" * 3000 + b"]" * 3000, b"b = " + b"9" * 5000, b"c = 1979-99-99", b"[a.b]", b"[[tensors]]",
    b"[tiling]",
    b"schema = 1", b"schema = 2", b"= 3", b"x", b'd = "', b"e = '''", b"\xff\xfe", b"\xef\xbb\xbf", b"\x00",
    b"f = {a = 1",
    b"g = " + b"{x = " * 500 + b"1" + b"}" * 500, b"h." * 2000 + b"h = 1", b"i = 0x" + b"f" * 5000, b"j = 1e400",
    b"# \x7f",
    b"[" + b"k." * 1500 + b"k]", b"l = 99:99:99", b"m = -0", b"n = +nan", b'"" = 1', b'o = "\\ud800"', b"p = 1__0",
    b"\r",
)  # fmt: skip


def text_changed(random, text):
    """Change a text file in its lines and bytes."""
    for _ in range(random.choice((1, 1, 2, 4))):
        lines = text.split(b"\n")
        match random.randrange(7):
            case 0:
                lines.insert(random.randrange(len(lines) + 1), random.choice(_LINES))
            case 1:
                lines.insert(0, random.choice(_LINES))
            case 2:
                del lines[random.randrange(len(lines))]
            case 3:
                lines.insert(random.randrange(len(lines)), random.choice(lines))
            case 4:
                random.shuffle(lines)
            case _:
                lines = [bytes_changed(random, text)]
        text = b"\n".join(lines)
    return text


def bytes_changed(random, content):
    """Change a file in its bytes."""
    at, length = random.randrange(len(content) + 1), random.choice((1, 1, 2, 8, 64))
    match random.randrange(6):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + random.randbytes(length) + content[at + length :]
        case 2:
            return content[:at] + content[at + length :]
        case 3:
            return content[:at] + random.randbytes(length) + content[at:]
        case 4:
            return random.choice(
                (b"", b"\x00" * 100, b"\x93NUMPY", b"PK\x03\x04", b"{}", b"[]", b"null", b"\x80\x04N.")
            )
        case _:
            bit = at % max(1, len(content))
            return (
                content[:bit] + bytes([content[bit] ^ 1 << random.randrange(8)]) + content[bit + 1 :]
                if content
                else b"x"
            )


_DTYPES = (
    "<f4", ">f4", "<f2", "<f8", "<i4", "<u2", "|b1", "<c8", "<U3", "|S3", "|V4", "<M8[s]", "|i1", "<i8", "|O",
)  # fmt: skip
_SHAPES = ((), (0,), (1,), (16, 64), (64, 16), (1024,), (16, 64, 1), (256,), (0, 5), (1, 16, 64), (16,))


def odd_array(random):
    """An array of a wrong dtype, shape or content."""
    element, shape = random.choice(_DTYPES), random.choice(_SHAPES)
    if element == "|O":
        return np.empty(shape, object)
    array = np.zeros(shape, element)
    if element[1] == "f" and random.random() < 0.3:
        array = array + np.array(random.choice((np.nan, np.inf, -np.inf, 65504)), element)
    if random.random() < 0.1:
        array = np.zeros(random.choice(((16,), (1,))), [("a", "<f4"), ("b", "<i2")])
    return np.asfortranarray(array) if random.random() < 0.2 else array


def npy_of(array):
    """The bytes of an .npy."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=array.dtype.hasobject)
    return out.getvalue()


def npz_of(arrays):
    """The bytes of an .npz; entries may have any names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", array if isinstance(array, bytes) else npy_of(array))
    return out.getvalue()


_HEADERS = (
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 64), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (16.5, 64), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (16, 64), 'x': 1}",
    "{'descr': 'nonsense', 'fortran_order': False, 'shape': (16, 64), }",
    "{'descr': [('a', '<f4'), ('a', '<f4')], 'fortran_order': False, 'shape': (16,), }",
    "{'descr': '<f4,(1000000000,)<f8', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (True, True), }",
    "{'descr': '<f4', 'fortran_order': 7, 'shape': (16, 64), }",
    "{'descr': '|V0', 'fortran_order': False, 'shape': (16, 64), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': 16 * 64, }",
    "[" * 200, "{", "", "__import__('os')", "(" * 5000, "-" * 5000 + "1", "{1: 2}", "'descr'", "9" * 5000,
)  # fmt: skip


def odd_header(random):
    """An .npy whose header claims something odd."""
    header = random.choice(_HEADERS).encode() + b"\n"
    version = random.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00", b"\x00\x00"))
    claimed = random.choice((len(header),) * 6 + (0, 65535))
    length = struct.pack("<H", min(claimed, 65535)) if version == b"\x01\x00" else struct.pack("<I", claimed)
    return b"\x93NUMPY" + version + length + header + b"\x00" * random.choice((0, 4, 4096))
