"""Where a board's output is wrong: a map of the tensor, how far off it is, and the tiles that wrote it."""

import math

import numpy as np
from numpy.typing import NDArray

from ascendsim.plot.canvas import Box, Line, Look, Picture, Text
from ascendsim.plot.paint import png
from ascendsim.plot.style import (
    FRAME,
    INK,
    LINE,
    LOW,
    OVER,
    PALE,
    SMALL,
    SOFT,
    WIDTH,
    WORDS,
    Entry,
    legend,
    legend_rows,
    shortened,
    title_lines,
)
from ascendsim.result import RunResult
from ascendsim.versus.outputs import TensorErrors, tile_numbers

MOST_ROWS, MOST_COLUMNS = 96, 192
"""Cells of the map; one stands for several elements of a larger tensor."""
FOLD = 256
"""Elements of a row of the map of a tensor with one axis."""
_LEFT, _TOP, _CHART, _HIGH, _LEAST = 0.9, 0.7, 10.6, 5.0, (1.5, 0.4)
"""Inches: left and upper edge of the map, its most and its least width and height."""
_CLASSES = ((2.0, "#c6dbef", "up to 2 times its tolerance"), (10.0, "#6baed6", "up to 10 times"),
            (100.0, "#2171b5", "up to 100 times"), (math.inf, "#08306b", "more than 100 times"))  # fmt: skip
"""Colours of mismatches by how many times over their tolerance they are; light to dark also without colours."""
_WRONG_KIND, _IN_BAD_TILE = "#d55e00", "#fde5d6"
_DENSE = 0.5
"""Where more of the cells begin another tile, lines would hide the cells."""
_BAD_TILE = -0.5
"""Stands in a cell within tolerance for one of a tile that has mismatches."""


def bad_tiles_png(result: RunResult, tensor: TensorErrors) -> bytes:
    """Draw where an output is wrong, as PNG."""
    return png(bad_tiles_picture(result, tensor))


def bad_tiles_picture(result: RunResult, tensor: TensorErrors) -> Picture:
    """Draw where an output is wrong; lines stand where another tile begins."""
    excess, tiles = _as_map(tensor.excess), _tile_map(result, tensor)
    bad = np.unique(tiles[excess > 0])
    rows, columns = excess.shape
    high, wide = -(-rows // MOST_ROWS), -(-columns // MOST_COLUMNS)
    cells, tiles = _cells(excess, high, wide), tiles[::high, ::wide]
    cells = np.where((cells == 0) & np.isin(tiles, bad), _BAD_TILE, cells)
    side = min(_CHART / cells.shape[1], _HIGH / cells.shape[0])
    across, down = max(side, _LEAST[0] / cells.shape[1]), max(side, _LEAST[1] / cells.shape[0])
    box = (_LEFT, _TOP, _LEFT + across * cells.shape[1], _TOP + down * cells.shape[0])
    entries = _entries(cells)
    room = WIDTH - _LEFT - 0.3
    has_borders = any(_changes(tiles, axis).any() for axis in (0, 1))
    notes = ["lines: another tile begins"] * has_borders + _notes(tensor, high, wide)
    foot = 0.5 + (legend_rows(entries, room) + len(notes)) * LINE + 0.15
    picture = Picture(WIDTH, box[3] + foot)
    _draw_cells(picture, cells, box, (across, down))
    if has_borders:
        _draw_borders(picture, tiles, (across, down))
    _draw_frame(picture, box, (rows, columns))
    legend(picture, entries, _LEFT, box[3] + 0.45, room)
    for i, note in enumerate(reversed(notes)):
        y = picture.height - 0.15 - i * LINE
        picture.add(Text(_LEFT, y, shortened(note, room, SMALL), SMALL, SOFT, side="left"), WORDS)
    share = f"{tensor.mismatches:,} of {tensor.compared:,} elements outside {tensor.tolerance}"
    facts = [f"{result.device.name}, {tensor.dtype} {list(tensor.shape)}", share, f"max {tensor.max_ulp:,} ulp"]
    title_lines(picture, f"{result.name}: output {tensor.name}, board against run", facts)
    return picture


def _as_map(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A tensor as rows of its last axis; of one axis folded, what is missing of the last row NaN."""
    if values.ndim > 1:
        return values.reshape(-1, values.shape[-1])
    flat = values.reshape(-1)
    width = min(FOLD, max(1, flat.size))
    folded = np.full(-(-flat.size // width) * width, np.nan)
    folded[: flat.size] = flat
    return folded.reshape(-1, width)


def _tile_map(result: RunResult, tensor: TensorErrors) -> NDArray[np.float64]:
    """The number of the tile that wrote each element, as `_as_map`."""
    if tensor.owners is None:
        return np.zeros_like(_as_map(tensor.excess))
    numbers = tile_numbers(result, tensor.owners).numbers.astype(np.float64)
    return _as_map(numbers.reshape(tensor.shape))


def _cells(excess: NDArray[np.float64], high: int, wide: int) -> NDArray[np.float64]:
    """The worst of the elements of each cell; NaN where there are none."""
    rows, columns = (-(-n // each) for n, each in zip(excess.shape, (high, wide), strict=True))
    padded = np.full((rows * high, columns * wide), -1.0)
    padded[: excess.shape[0], : excess.shape[1]] = np.nan_to_num(excess, nan=-1.0, posinf=np.inf)
    return np.asarray(padded.reshape(rows, high, columns, wide).max(axis=(1, 3)))


def _colour(value: float) -> str:
    if value < 0:
        return _IN_BAD_TILE if value == _BAD_TILE else ""
    if value == 0:
        return PALE
    return _WRONG_KIND if math.isinf(value) else next(colour for most, colour, _ in _CLASSES if value <= most)


def _draw_cells(picture: Picture, cells: NDArray[np.float64], box: Box, pitch: tuple[float, float]) -> None:
    """Boxes of each colour; neighbours in a row are one box."""
    of_colour: dict[str, list[Box]] = {}
    for i, row in enumerate(cells):
        colours = [_colour(value) for value in row.tolist()]
        start = 0
        for j in range(1, len(colours) + 1):
            if j == len(colours) or colours[j] != colours[start]:
                top = box[1] + i * pitch[1]
                place = (box[0] + start * pitch[0], top, box[0] + j * pitch[0], top + pitch[1])
                of_colour.setdefault(colours[start], []).append(place)
                start = j
    for colour, boxes in of_colour.items():
        if colour:
            picture.boxes(boxes, Look(fill=colour), LOW)


def _draw_borders(picture: Picture, tiles: NDArray[np.float64], pitch: tuple[float, float]) -> None:
    """Lines between neighbouring cells of different tiles."""
    for axis in (0, 1):
        for i, j in np.argwhere(_changes(tiles, axis)).tolist():
            x, y = _LEFT + j * pitch[0], _TOP + i * pitch[1]
            if axis == 0:
                ends = ((x, y + pitch[1]), (x + pitch[0], y + pitch[1]))
            else:
                ends = ((x + pitch[0], y), (x + pitch[0], y + pitch[1]))
            picture.add(Line(*ends, SOFT, 0.4), OVER)


def _changes(tiles: NDArray[np.float64], axis: int) -> NDArray[np.bool_]:
    """Where the next cell along an axis is of another tile; nowhere if tiles are too small to be told apart."""
    differs = np.diff(tiles, axis=axis) != 0
    differs &= ~np.isnan(np.take(tiles, range(1, tiles.shape[axis]), axis))
    return differs if differs.size and differs.mean() <= _DENSE else np.zeros_like(differs)


def _draw_frame(picture: Picture, box: Box, shape: tuple[int, int]) -> None:
    corners = [(box[0], box[1]), (box[2], box[1]), (box[2], box[3]), (box[0], box[3])]
    for start, end in zip(corners, [*corners[1:], corners[0]], strict=True):
        picture.add(Line(start, end, "#000000", FRAME), OVER)
    for value, x, side in ((0, box[0], "left"), (shape[1], box[2], "right")):
        picture.add(Text(x, box[3] + 0.13, f"{value:,}", SMALL, INK, side=side), WORDS)
    picture.add(Text((box[0] + box[2]) / 2, box[3] + 0.28, "column (element)", SMALL, INK), WORDS)
    for value, y in ((0, box[1] + 0.06), (shape[0], box[3] - 0.06)):
        picture.add(Text(box[0] - 0.08, y, f"{value:,}", SMALL, INK, side="right"), WORDS)
    picture.add(Text(0.3, (box[1] + box[3]) / 2, "row", SMALL, INK, upright=True), WORDS)


def _entries(cells: NDArray[np.float64]) -> list[Entry]:
    there = {_colour(value) for value in np.unique(cells).tolist()}
    entries = [Entry("within tolerance", Look(fill=PALE, edge="#c0c0c0"))]
    if _IN_BAD_TILE in there:
        entries.append(Entry("within tolerance, of a tile with mismatches", Look(fill=_IN_BAD_TILE, edge="#c0c0c0")))
    entries += [Entry(text, Look(fill=colour)) for _, colour, text in _CLASSES if colour in there]
    if _WRONG_KIND in there:
        entries.append(Entry("NaN or infinite on one side, or no tolerance", Look(fill=_WRONG_KIND)))
    return entries


def _notes(tensor: TensorErrors, high: int, wide: int) -> list[str]:
    notes = []
    if high * wide > 1:
        notes.append(f"a cell is the worst of {high} x {wide} elements")
    if len(tensor.shape) == 1 and tensor.compared > FOLD:
        notes.append(f"the tensor has one axis and is folded at {FOLD} elements")
    if tensor.first is not None:
        notes.append(f"first mismatch {list(tensor.first.index)}: {tensor.first.written or 'nobody wrote it'}")
    return notes
