"""Arrays in and out of files: .npy, .npz and raw .bin, with bfloat16_t surviving the way there and back.

NumPy's formats have no bfloat16: its bits are stored as uint16, and an .npz says so in an extra entry NAME.dtype.
"""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.dtypes import BFLOAT16, DType, dtype
from ascendsim.errors import InputError

Array = NDArray[Any]
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)


def npz_bytes(arrays: Mapping[str, Array]) -> bytes:
    """Return the bytes of an .npz of these arrays; the same content gives the same bytes on every day."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", _FIXED_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, member.getvalue())
    return out.getvalue()


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
    try:
        with np.load(path, allow_pickle=False) as archive:
            return restored({name: archive[name] for name in archive.files})
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: {_why_unreadable(error)}") from None


def _why_unreadable(error: Exception) -> str:
    if "pickle" in str(error).lower():
        return (
            "holds pickled Python objects, which are not loaded because they can run code; "
            "save plain numeric arrays with numpy.save(..., allow_pickle=False)"
        )
    return f"cannot be read as a NumPy file ({error})"


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
    if not path.is_file():
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
        return np.asarray(np.load(path, allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{where}: file {path} {_why_unreadable(error)}") from None


def _npz_entry(path: Path, key: str | None, where: str) -> Array:
    arrays = load_npz(path)
    if key is None and len(arrays) == 1:
        return next(iter(arrays.values()))
    if key not in arrays:
        wanted = "give key = one of" if key is None else f"has no entry {key!r}; it has"
        raise InputError(f"{where}: file {path} {wanted} {', '.join(arrays)}")
    return arrays[key]


def _load_bin(path: Path, want: DType, shape: tuple[int, ...], where: str) -> Array:
    raw = path.read_bytes()
    count = int(np.prod(shape, dtype=np.int64))
    if len(raw) != count * want.bytes:
        raise InputError(f"{where}: file {path} has {len(raw)} bytes, {want} {list(shape)} needs {count * want.bytes}")
    return np.frombuffer(raw, want.numpy).reshape(shape).copy()
