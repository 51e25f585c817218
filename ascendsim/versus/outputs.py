"""A board's output tensors beside those of a run: how far they are apart, where, and who wrote what is wrong.

The run's outputs stand as the reference. Dumps are NAME.bin: the tensor's elements in its dtype, row by row, nothing
else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ascendsim.dtypes import BFLOAT16, DTYPES, FLOAT, HALF, DType, from_numpy
from ascendsim.errors import InputError
from ascendsim.files import is_folder
from ascendsim.memory import POISON, GlobalTensor
from ascendsim.reference.relative_errors import RelativeErrors, relative_errors
from ascendsim.result import RunResult
from ascendsim.versus.table import indented, left_out, number, table
from ascendsim.versus.writers import NOBODY, Owners, Written, owners_of, tile_name, written

Array = NDArray[Any]

TOLERANCE: Final = {HALF.name: 1e-3, FLOAT.name: 1e-4, BFLOAT16.name: 2.0**-7}
"""Relative and absolute tolerance by dtype where none is given; integers have none. Of bfloat16_t no document says one:
it is one unit in the last place at most. Source: asc-devkit docs, Reciprocal page (half, float)."""
_MOST_TILES, _MOST_FILES = 10, 8
"""Lines of the text; plain data have all."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What counts as equal: |board - run| <= atol + rtol * |run|, or at most so many units in the last place.

    Attributes:
        atol, rtol: None for those of the dtype.
        ulp: 0 for none.
    """

    atol: float | None = None
    rtol: float | None = None
    ulp: int = 0

    def of(self, kind: DType) -> "Tolerance":
        """Return it with the numbers of a dtype filled in."""
        own = TOLERANCE.get(kind.name, 0.0)
        return Tolerance(own if self.atol is None else self.atol, own if self.rtol is None else self.rtol, self.ulp)

    def __str__(self) -> str:
        ulp = f", or {self.ulp} ulp" if self.ulp else ""
        return f"atol {self.atol:g}, rtol {self.rtol:g}{ulp}"


@dataclass(frozen=True, slots=True)
class TileErrors:
    """Mismatches in what one use of a @tile function wrote; of a kernel without tiles, in what one instruction wrote.

    Attributes:
        tile: its name, or the kernel line of the instruction; "nobody" for elements that nobody wrote.
        elements, mismatches: how many it wrote, and how many of them are wrong.
        worst_abs: the largest difference of two finite values.
        first: the first mismatch, its index along each axis.
    """

    core: str
    tile: str
    elements: int
    mismatches: int
    worst_abs: float
    first: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One element that is wrong: index along each axis, values, units in the last place, and who wrote it."""

    index: tuple[int, ...]
    board: float
    run: float
    ulp: int | None
    written: Written | None


@dataclass(frozen=True)
class TensorErrors:
    """One output of a board beside the run's.

    Attributes:
        compared: elements that the run has values of.
        mismatches: of them, those outside the tolerance.
        max_abs, max_ulp: over pairs of which both are finite; 0 without any.
        relative: MARE, MERE and RMSE, NaN and infinities taken as 0 (see `reference.relative_errors`).
        not_finite: pairs of which just one is finite, or that are not the same otherwise.
        tiles: where mismatches are, most first.
        first: the first mismatch in row-major order.
        excess: [shape] how many times over its tolerance each element is; 0 for those within, inf for `not_finite`.
        owners: who wrote each element; None without mismatches.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    tolerance: Tolerance
    compared: int
    mismatches: int
    max_abs: float
    max_ulp: int
    relative: RelativeErrors
    not_finite: int
    tiles: tuple[TileErrors, ...]
    first: Mismatch | None
    excess: Array = field(repr=False)
    owners: Owners | None = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return it in plain numbers, ready for JSON; what is not finite there becomes text."""
        first = None if self.first is None else asdict(self.first)
        if first is not None:
            first |= {name: _plain(first[name]) for name in ("board", "run")}
        return {
            "name": self.name,
            "dtype": self.dtype.name,
            "shape": list(self.shape),
            "tolerance": asdict(self.tolerance),
            "compared": self.compared,
            "mismatches": self.mismatches,
            "max_abs": self.max_abs,
            "max_ulp": self.max_ulp,
            **asdict(self.relative),
            "not_finite": self.not_finite,
            "tiles": [asdict(tile) for tile in self.tiles],
            "first": first,
        }


@dataclass(frozen=True)
class OutputComparison:
    """A board's outputs beside a run's.

    Attributes:
        name: what the run is called.
        folder: of the dumps.
        tensors: those that were dumped.
        missing: outputs without a dump.
        others: files of the folder that end in .bin and are no output's.
    """

    result: RunResult = field(repr=False)
    name: str
    folder: Path
    tensors: tuple[TensorErrors, ...]
    missing: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def mismatches(self) -> int:
        """Elements outside their tolerance, of all tensors."""
        return sum(tensor.mismatches for tensor in self.tensors)

    def to_dict(self) -> dict[str, Any]:
        """Return it in plain numbers, ready for JSON."""
        return {
            "run": self.name,
            "outputs": str(self.folder),
            "mismatches": self.mismatches,
            "missing": list(self.missing),
            "others": list(self.others),
            "tensors": [tensor.to_dict() for tensor in self.tensors],
        }

    def __str__(self) -> str:
        return "\n".join(_text(self))


def compare_with_dumps(
    result: RunResult, folder: Path, tolerance: Tolerance | None = None, name: str = ""
) -> OutputComparison:
    """Return a board's dumps beside the outputs of a run.

    Raises:
        InputError: a run without values, no folder, no dump of any output, or one of the wrong length.
    """
    if result.values == "none":
        raise InputError(
            f'{name or result.name}: the run computed no values (machine.values = "none"), so there is nothing to '
            'compare with; run it with machine.values = "all"'
        )
    if not is_folder(folder):
        raise InputError(f"--outputs {folder}: no such folder; want one with NAME.bin for each output")
    files = sorted(path.name for path in folder.iterdir() if path.suffix == ".bin")
    there = [output for output in result.outputs if f"{output}.bin" in files]
    if not there:
        holds = ", ".join(files[:_MOST_FILES]) or "no .bin file"
        wanted = ", ".join(f"{output}.bin" for output in result.outputs) or "none, as the run has no outputs"
        raise InputError(f"--outputs {folder}: holds {holds}; want {wanted}")
    tensors = {tensor.name: tensor for tensor in result.program.gm}
    found = tuple(
        _compared(result, tensors[output], read_dump(folder / f"{output}.bin", output, result.outputs[output]),
                  tolerance or Tolerance())
        for output in there
    )  # fmt: skip
    return OutputComparison(
        result=result,
        name=name or result.name,
        folder=folder,
        tensors=found,
        missing=tuple(output for output in result.outputs if output not in there),
        others=tuple(file for file in files if file.removesuffix(".bin") not in result.outputs),
    )


def read_dump(file: Path, name: str, like: Array) -> Array:
    """Read a dump of a tensor with the dtype and shape of an array.

    Raises:
        InputError: it cannot be read, or has another length; the text names dtypes that would fit it.
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    if len(raw) != like.nbytes:
        kind, shape = from_numpy(like.dtype), list(like.shape)
        fitting = [str(d) for d in DTYPES if like.size and d.bytes * like.size == len(raw)]
        hint = f"; it would fit {' or '.join(fitting)}: convert it" if fitting else ""
        raise InputError(
            f"{file}: {len(raw)} B; output {name} is {kind} {shape}, row-major, which is {like.nbytes} B{hint}"
        )
    return np.frombuffer(raw, like.dtype).reshape(like.shape)


def ulp_distance(a: Array, b: Array) -> NDArray[np.uint64]:
    """Return how many numbers of their dtype two arrays are apart, element by element; -0 is 0. NaN has no meaning."""
    places = [_place(x) for x in (a, b)]
    low, high = np.minimum(*places), np.maximum(*places)
    return high.view(np.uint64) - low.view(np.uint64)  # modulo 2**64, which the distance of int64 needs


def _place(x: Array) -> NDArray[np.int64]:
    """The how-many-th number of its dtype each element is, 0 being the 0th."""
    if x.dtype.kind in "iu":
        return x.astype(np.int64)
    bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}").astype(np.int64)
    least = -(1 << (8 * x.dtype.itemsize - 1))
    return np.where(bits < 0, least - bits, bits)


def _compared(result: RunResult, tensor: GlobalTensor, board: Array, asked: Tolerance) -> TensorErrors:
    run, kind = result.outputs[tensor.name], from_numpy(result.outputs[tensor.name].dtype)
    tolerance, there = asked.of(kind), _computed(result, run)
    assert tolerance.atol is not None
    assert tolerance.rtol is not None
    with np.errstate(invalid="ignore"):  # a NaN that signals is one all the same
        a, g = board.astype(np.float64), run.astype(np.float64)
    is_pair = np.isfinite(a) & np.isfinite(g) & there
    ulp = np.where(is_pair, ulp_distance(board, run), np.uint64(0))
    with np.errstate(invalid="ignore"):
        off = np.where(is_pair, np.abs(a - g), 0.0)
        is_same = (a == g) | (np.isnan(a) & np.isnan(g)) | ~there
    with np.errstate(over="ignore"):  # a tolerance of any number
        allowed = np.where(is_pair, tolerance.atol + tolerance.rtol * np.abs(np.where(is_pair, g, 0.0)), 0.0)
    is_within = is_same | (is_pair & ((off <= allowed) | (ulp <= tolerance.ulp)))
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(is_within, 0.0, np.where(is_pair, off / allowed, np.inf))
    bad = np.flatnonzero(~is_within)
    owners = owners_of(result.program, tensor) if len(bad) else None
    return TensorErrors(
        name=tensor.name,
        dtype=kind,
        shape=run.shape,
        tolerance=tolerance,
        compared=int(there.sum()),
        mismatches=len(bad),
        max_abs=float(off.max(initial=0.0)),
        max_ulp=int(ulp.max(initial=0)),
        relative=relative_errors(a[there], g[there]),
        not_finite=int((~is_pair & ~is_same).sum()),
        tiles=() if owners is None else tuple(_tiles(result, owners, bad, off.reshape(-1), run.shape)),
        first=None if owners is None else _mismatch(result, tensor, owners, int(bad[0]), (board, run, ulp, is_pair)),
        excess=excess,
        owners=owners,
    )


def _computed(result: RunResult, run: Array) -> NDArray[np.bool_]:
    """Which elements hold values: all, or in a sample those that are not poison from first byte to last."""
    if result.values == "all":
        return np.ones(run.shape, np.bool_)
    raw = np.ascontiguousarray(run).view(np.uint8).reshape(*run.shape, run.itemsize)
    return np.asarray((raw != POISON).any(axis=-1))


def _mismatch(
    result: RunResult, tensor: GlobalTensor, owners: Owners, at: int, arrays: tuple[Array, Array, Array, Array]
) -> Mismatch:
    board, run, ulp, is_pair = (x.reshape(-1)[at] for x in arrays)
    index = _index(at, arrays[1].shape)
    return Mismatch(index, float(board), float(run), int(ulp) if is_pair else None, written(result, tensor, owners, at))


def _index(at: int, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(at, tuple(shape)))


def _tiles(result: RunResult, owners: Owners, bad: Array, off: Array, shape: Sequence[int]) -> Iterator[TileErrors]:
    """Mismatches by tile, most first."""
    tiles = tile_numbers(result, owners)
    keys, numbers = tiles.keys, tiles.numbers
    elements, wrong = (np.bincount(x, minlength=len(keys)) for x in (numbers, numbers[bad]))
    worst = np.zeros(len(keys))
    first: dict[int, int] = {}
    np.maximum.at(worst, numbers[bad], off[bad])
    for at in bad[::-1].tolist():
        first[int(numbers[at])] = at
    for number_ in sorted(first, key=lambda n: (-wrong[n], first[n])):
        core, tile = keys[number_]
        yield TileErrors(
            core,
            tile,
            int(elements[number_]),
            int(wrong[number_]),
            float(worst[number_]),
            _index(first[number_], shape),
        )


@dataclass(frozen=True, slots=True)
class TileNumbers:
    """The tile of each element: (core, tile) of each number, and the number of each element."""

    keys: list[tuple[str, str]]
    numbers: NDArray[np.int64]


def tile_numbers(result: RunResult, owners: Owners) -> TileNumbers:
    """Return which tile wrote each element, numbered in the order of calls and rows."""
    rows = int(owners.rows.max(initial=0)) + 2  # so that one number stands for both, `NOBODY` being -1
    both, inverse = np.unique((owners.calls + 1) * rows + owners.rows + 1, return_inverse=True)
    known: dict[tuple[int, ...], int] = {}
    keys: list[tuple[str, str]] = []
    number_of = []
    for both_number in both.tolist():
        index, row = divmod(both_number, rows)
        place, name = _tile_of(result, index - 1, row - 1)
        if place not in known:
            known[place] = len(keys)
            keys.append(name)
        number_of.append(known[place])
    return TileNumbers(keys, np.array(number_of, np.int64)[inverse.reshape(-1)])


def _tile_of(result: RunResult, index: int, row: int) -> tuple[tuple[int, ...], tuple[str, str]]:
    """What tells a tile from others, and its (core, name)."""
    if index == NOBODY:
        return (NOBODY,), ("", "nobody")
    program = result.program
    call = program.call(index)
    template, core = program.templates[call.template], program.core_name(call.core)
    if call.tile >= 0:
        function = program.templates.index(next(t for t in program.templates if t.name == template.name))
        return (call.core, function, call.tile), (core, tile_name(template.name, call.tile))
    return (call.core, index, row, 0), (core, f"row {row} of call {index}, {program.lines[template.rows[row].line]}")


def _plain(value: float) -> float | str:
    """A number as JSON has it."""
    return value if np.isfinite(value) else str(value)


# ---- text -------------------------------------------------------------------------------------------------------


def _text(found: OutputComparison) -> Iterator[str]:
    result = found.result
    yield f"run:     {result.name} on {result.device.name} ({found.name})"
    yield f"outputs: {found.folder}"
    if result.values == "sample":
        yield "note: the run computed a sample of tiles; only their values are compared"
    for names, what in ((found.missing, "no dump of"), (found.others, "no output is called as")):
        if names:
            yield f"note: {what} {', '.join(names[:_MOST_FILES])}{' and more' * (len(names) > _MOST_FILES)}"
    yield ""
    columns = ("output", "dtype", "compared", "mismatches", "max abs", "max ulp", "MARE", "MERE", "RMSE", "tolerance")
    yield from table(columns, [_cells(tensor) for tensor in found.tensors], left=2)
    for tensor in found.tensors:
        if tensor.first is not None:
            yield ""
            yield from _mismatch_text(tensor, tensor.first)
    if not found.mismatches:
        yield ""
        yield "all compared values are within tolerance"


def _cells(tensor: TensorErrors) -> tuple[str, ...]:
    errors = tensor.relative
    figures = (f"{x:.3g}" for x in (errors.mare, errors.mere, errors.rmse))
    counts = number(tensor.compared), number(tensor.mismatches), f"{tensor.max_abs:.3g}", number(tensor.max_ulp)
    return tensor.name, tensor.dtype.name, *counts, *figures, str(tensor.tolerance)


def _mismatch_text(tensor: TensorErrors, first: Mismatch) -> Iterator[str]:
    ulp = "" if first.ulp is None else f", {first.ulp:,} ulp apart"
    yield f"{tensor.name}: first mismatch at {list(first.index)}: board {first.board:.9g}, run {first.run:.9g}{ulp}"
    yield f"  {first.written}" if first.written is not None else "  nobody wrote it in the run"
    if tensor.not_finite:
        yield f"  {tensor.not_finite:,} mismatches are NaN or infinite on one side"
    rows = [
        (t.core, t.tile, number(t.mismatches), number(t.elements), f"{t.worst_abs:.3g}", str(list(t.first)))
        for t in tensor.tiles
    ]
    columns = ("core", "tile", "mismatches", "of", "max abs", "first at")
    yield from indented(table(columns, rows[:_MOST_TILES], left=2))
    yield from left_out(len(rows) - _MOST_TILES, "tiles")
