"""Input data by name and seed. Streams are MT19937 ones, which NumPy has frozen: the same seed gives the same bits."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ascendsim.dtypes import DType, cast
from ascendsim.errors import InputError
from ascendsim.scenario import TensorSpec
from ascendsim.terms import RoundMode

Array = NDArray[Any]

WIDEST_EVEN: Final = 100.0
"""Ranges within plus and minus this are drawn from evenly, fill laser_qkv."""
_DEVIATIONS: Final = (1.0, 25.0)
"""Deviations of the others."""


def make_fill(spec: TensorSpec, where: str, parts: Sequence[tuple[int, int]] = ()) -> Array:
    """Return the array of an input with a `fill`.

    normal: mean 0, deviation `scale`. uniform: -scale .. scale. softmax_rows: softmax over the last axis of normal
    values with deviation `scale`. laser_qkv: over `range` as LaserAttentionGrad's page says. arange: 0, 1, 2, ...
    times `scale`. constant: `value`.

    Args:
        spec: of the tensor.
        where: its key.
        parts: (rows, their length) of each part of a flat tensor, whose rows softmax_rows is about; () for none.

    Raises:
        InputError: the spec has no fill, or its array is larger than this computer's memory.
    """
    try:
        with np.errstate(all="ignore"):  # a scale may be infinite or too large: a finding says what comes of it
            return _filled(spec, where, parts)
    except MemoryError:
        raise InputError(
            f"{where}.shape = {spec.shape}: this computer has too little memory for that many elements; make it smaller"
        ) from None


def _filled(spec: TensorSpec, where: str, parts: Sequence[tuple[int, int]]) -> Array:
    shape = tuple(spec.shape)
    match spec.fill:
        case "normal" | "uniform" | "softmax_rows" | "laser_qkv":
            wide = _drawn(spec, parts)
        case "arange":
            wide = np.arange(np.prod(shape), dtype=np.float64).reshape(shape) * spec.scale
        case "zeros":
            wide = np.zeros(shape)
        case "ones":
            wide = np.ones(shape)
        case "constant":
            wide = np.full(shape, spec.value)
        case "operator":
            raise InputError(f'{where}.fill = "operator": a kernel of one\'s own makes no inputs; choose another fill')
        case "array":
            raise InputError(
                f'{where}.fill = "array": its values come with a call (ascendsim.run(..., arrays=)); choose another '
                "fill or a file"
            )
        case _:
            raise InputError(f"{where}: no fill given")
    return round_once(wide, spec.element)


def _drawn(spec: TensorSpec, parts: Sequence[tuple[int, int]]) -> Array:
    """Return random values, not rounded."""
    shape = tuple(spec.shape)
    random = np.random.RandomState(spec.seed)
    if spec.fill == "laser_qkv":
        return _laser_qkv(spec, random)
    if spec.fill == "uniform":
        return np.asarray((random.random_sample(shape) * 2 - 1) * spec.scale)
    wide = np.asarray(random.standard_normal(shape) * spec.scale)
    return _softmax_rows(wide, parts) if spec.fill == "softmax_rows" else wide


def _laser_qkv(spec: TensorSpec, random: np.random.RandomState) -> Array:
    """Return query, key or value as the page of LaserAttentionGrad makes them.

    A range within [-100, 100] is drawn from evenly. For any other, values are normal: their mean is drawn from
    [-100, 100], their deviation from [1, 25]. Source: LaserAttentionGradOperation page.
    """
    shape = tuple(spec.shape)
    assert spec.range is not None
    low, high = spec.range
    if low >= -WIDEST_EVEN and high <= WIDEST_EVEN:
        return low + random.random_sample(shape) * (high - low)
    mean = (random.random_sample() * 2 - 1) * WIDEST_EVEN
    least, most = _DEVIATIONS
    deviation = least + random.random_sample() * (most - least)
    return mean + random.standard_normal(shape) * deviation


def _softmax_rows(x: Array, parts: Sequence[tuple[int, int]]) -> Array:
    """Softmax over the last axis, or over the rows of each part of a flat array."""
    if not parts:
        return _softmax(x)
    ends = np.cumsum([rows * length for rows, length in parts])
    split = zip(np.split(x, ends[:-1]), parts, strict=True)
    return np.concatenate([_softmax(part.reshape(shape)).reshape(-1) for part, shape in split])


def _softmax(x: Array) -> Array:
    """Softmax over the last axis in float64, so that one rounding gives the same float everywhere."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def round_once(wide: Array, to: DType) -> Array:
    """Round float64 values to a dtype once, to nearest even."""
    with np.errstate(over="ignore"):
        return wide.astype(np.float32) if to.name == "float" else cast(wide, to, RoundMode.CAST_RINT)
