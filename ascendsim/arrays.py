"""Arrays in and out of files: .npy, .npz and raw .bin, with bfloat16_t surviving the way there and back.

NumPy's formats have no bfloat16: its bits are stored as uint16, and an .npz says so in an extra entry NAME.dtype.
"""

import io
import pickletools
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.dtypes import BFLOAT16, UINT8, DType, dtype
from ascendsim.errors import InputError
from ascendsim.files import is_file

Array = NDArray[Any]
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_LEVEL, _PIECES, _PIECE = 3, 16, 1 << 12
"""How hard an .npz is compressed; how many pieces, and of how many bytes, say whether at all."""
_NPY_START = b"\x93NUMPY"
_ZIP_START = b"PK"
_PICKLED = (
    "holds pickled Python objects, which are not loaded because they can run code; "
    "save plain numeric arrays with numpy.save(..., allow_pickle=False)"
)


def npz_bytes(arrays: Mapping[str, Array]) -> bytes:
    """Return the bytes of an .npz of these arrays; the same content gives the same bytes on every day."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", _FIXED_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED if _shrinks(member.getvalue()) else zipfile.ZIP_STORED
            archive.writestr(info, member.getvalue(), compresslevel=_LEVEL)
    return out.getvalue()


def _shrinks(content: bytes) -> bool:
    """Whether compressing is worth the time, by pieces from all over: random numbers hardly get shorter.

    The pieces are not equally far apart, because what an array holds often repeats.
    """
    step = max(_PIECE, len(content) // _PIECES)
    starts = (at + at * 5 // 8 % step for at in range(0, len(content), step))
    some = b"".join(content[at : at + _PIECE] for at in starts)
    return len(zlib.compress(some, 1)) < 0.8 * len(some)


def storable(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays that .npz can hold: bfloat16 as uint16 bits plus NAME.dtype."""
    stored: dict[str, Array] = {}
    for name, array in arrays.items():
        if array.dtype == BFLOAT16.numpy:
            stored[name] = array.view(np.uint16)
            stored[f"{name}.dtype"] = np.array(BFLOAT16.name)
        else:
            stored[name] = array
    return stored


def restored(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Undo `storable`."""
    plain = {}
    for name, array in arrays.items():
        if name.removesuffix(".dtype") in arrays and name.endswith(".dtype"):
            continue
        tag = arrays.get(f"{name}.dtype")
        plain[name] = array if tag is None else array.view(dtype(str(tag)).numpy)
    return plain


def load_npz(path: Path) -> dict[str, Array]:
    """Return all arrays of an .npz.

    Raises:
        InputError: not there, not an .npz, or with pickled objects inside.
    """
    if not is_file(path):
        raise InputError(f"{path}: no such file")
    try:
        return _read_npz(path)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _read_npz(path: Path) -> dict[str, Array]:
    """Return all arrays of an .npz; messages do not name the file."""
    _check_start(path, _ZIP_START)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return restored({name: _array(archive[name], name) for name in archive.files})
    except InputError:
        raise
    except Exception as error:  # NumPy, zipfile and tokenize raise anything for a file that is damaged
        raise InputError(_why_unreadable(error)) from error


def _array(found: object, name: str) -> Array:
    if not isinstance(found, np.ndarray):
        raise InputError(f"entry {name!r} is no NumPy array; save arrays with numpy.savez")
    return found


def _check_start(path: Path, start: bytes) -> None:
    """Refuse a file that does not begin as its name promises."""
    kinds = {_NPY_START: ".npy", _ZIP_START: ".npz"}
    try:
        with path.open("rb") as file:
            found = file.read(len(_NPY_START))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from None
    if found.startswith(start):
        return
    if not found:
        raise InputError("cannot be read as a NumPy file: it is empty; save the array again")
    for other, kind in kinds.items():
        if found.startswith(other):
            raise InputError(f"holds {kind} data, but its name says {kinds[start]}; rename it to {kind}")
    if _is_pickle(path):
        raise InputError(_PICKLED)
    raise InputError("cannot be read as a NumPy file: it does not begin like one; save the array with numpy.save")


def _is_pickle(path: Path) -> bool:
    """Whether a file is a pickle from end to end. Looks at it only; nothing in it is run."""
    try:
        with path.open("rb") as file:
            for _ in pickletools.genops(file):
                pass
            return file.read(1) == b""
    except (ValueError, OSError, EOFError, IndexError):
        return False


def _why_unreadable(error: Exception) -> str:
    if "allow_pickle" in str(error):  # only object arrays come here: what does not begin like a NumPy file is refused
        return _PICKLED
    if isinstance(error, MemoryError):
        return "says it holds more than this computer's memory; it is damaged, or must be smaller"
    return f"cannot be read as a NumPy file: it is cut off or damaged ({type(error).__name__}: {error}); save it again"


def load_array(path: Path, key: str | None, want: DType, shape: tuple[int, ...], where: str) -> Array:
    """Load one tensor from a .npy, .npz or .bin file and hold it to its declared dtype and shape.

    Args:
        path: the file.
        key: the entry of an .npz; None where it has only one.
        want: declared dtype.
        shape: declared shape.
        where: scenario key for messages, such as "tensors.grad".

    Raises:
        InputError: names the file, what it holds, and what was declared.
    """
    if not is_file(path):
        raise InputError(f"{where}: file {path} does not exist")
    if path.suffix == ".bin":
        return _load_bin(path, want, shape, where)
    if path.suffix == ".npz":
        array = _npz_entry(path, key, where)
    elif path.suffix == ".npy":
        array = _load_npy(path, where)
    else:
        raise InputError(f"{where}: file {path} must end in .npy, .npz or .bin")
    if want is BFLOAT16 and array.dtype == np.uint16:
        array = array.view(BFLOAT16.numpy)
    if want is UINT8 and array.dtype == np.bool_:
        array = array.view(UINT8.numpy)
    if array.dtype != want.numpy:
        raise InputError(
            f"{where}: file {path} holds {array.dtype}, declared is {want} ({want.numpy}); convert the file or the "
            "declaration, values are never converted silently"
        )
    if array.shape != shape:
        raise InputError(f"{where}: file {path} holds shape {list(array.shape)}, declared is {list(shape)}")
    return array


def _load_npy(path: Path, where: str) -> Array:
    try:
        _check_start(path, _NPY_START)
        with path.open("rb") as file:
            return np.asarray(np.load(file, allow_pickle=False))
    except InputError as error:
        raise InputError(f"{where}: file {path} {error}") from None
    except Exception as error:
        raise InputError(f"{where}: file {path} {_why_unreadable(error)}") from error


def _npz_entry(path: Path, key: str | None, where: str) -> Array:
    try:
        arrays = _read_npz(path)
    except InputError as error:
        raise InputError(f"{where}: file {path} {error}") from None
    if not arrays:
        raise InputError(f"{where}: file {path} holds no arrays; save some with numpy.savez")
    if key is None and len(arrays) == 1:
        return next(iter(arrays.values()))
    if key not in arrays:
        wanted = "give key = one of" if key is None else f"has no entry {key!r}; it has"
        raise InputError(f"{where}: file {path} {wanted} {', '.join(arrays)}")
    return arrays[key]


def _load_bin(path: Path, want: DType, shape: tuple[int, ...], where: str) -> Array:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{where}: file {path} cannot be read: {error.strerror}") from None
    count = int(np.prod(shape, dtype=np.int64))
    if len(raw) != count * want.bytes:
        raise InputError(f"{where}: file {path} has {len(raw)} bytes, {want} {list(shape)} needs {count * want.bytes}")
    return np.frombuffer(raw, want.numpy).reshape(shape).copy()
