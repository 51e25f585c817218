"""FastSoftMaxGrad in scenarios: its tiling from keys and tensors, ragged rows, notes, expected values."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ascendsim.device import Device
from ascendsim.dtypes import DType
from ascendsim.errors import Finding, InputError
from ascendsim.op_host.atb import Refusal, desc_of, soc_of
from ascendsim.op_host.fast_softmax_grad import ROW_SUM, FastSoftMaxGradParam, refusal_of
from ascendsim.op_host.fsg_tiling import BUFFERS, QUEUES, TMP_BYTES, FsgTiling, fsg_tiling
from ascendsim.reference.softmax_grad import softmax_grad
from ascendsim.terms import CoreKind
from ascendsim.work import Work

Array = NDArray[Any]
Shapes = Mapping[str, tuple[tuple[int, ...], DType]]

TENSORS: Final = ("y_input", "y_grad", "x_grad")
QUEUE_NUMS: Final = dict.fromkeys(QUEUES, BUFFERS)
PRECISION: Final = 1e-3
"""How far a value may be off, relative to itself and at least to 1: that of the operation's published kernel test."""
_SPELLED: Final = {
    "qSeqLen": "tiling.q_seq_len", "headNum": "tiling.head_num", "yInput": "tensors.y_input",
    "yGrad": "tensors.y_grad", "output": "tensors.x_grad",
}  # fmt: skip
_FLOP: Final = 4
"""Of an element: y * g, its sum, the difference, the product with y."""


class FsgKeys(BaseModel):
    """Keys of [tiling] of the fast_softmax_grad operator: parameters of the call, and numbers to prescribe."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    head_num: int
    q_seq_len: list[int]
    tile_rows: int | None = Field(default=None, ge=1)
    """Rows of a tile at most, instead of what the host's formula gives."""
    tmp_bytes: int = Field(default=TMP_BYTES, ge=1)
    cores: int | None = Field(default=None, ge=1)
    """Vector cores to take, instead of all."""

    @property
    def params(self) -> FastSoftMaxGradParam:
        """The operation's."""
        return FastSoftMaxGradParam(self.head_num, self.q_seq_len)

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """(rows, their length) of each item of the batch."""
        return tuple((self.head_num * n, n) for n in self.q_seq_len)


def fsg_host(device: Device, shapes: Shapes, keys: FsgKeys, nums: Mapping[str, int]) -> FsgTiling:
    """Return what the kernel takes.

    Raises:
        InputError: the operation refuses the call, or a prescribed number leaves no tile.
    """
    descs = {name: desc_of(element, shape) for name, (shape, element) in shapes.items()}
    refusal = refusal_of(keys.params, (descs["y_input"], descs["y_grad"]), (descs["x_grad"],), soc_of(device))
    if refusal is not None:
        raise InputError(_spelled(refusal))
    cores = device.aiv if keys.cores is None else keys.cores
    if cores > device.aiv:
        raise InputError(f"tiling.cores = {cores}: {device.name} has {device.aiv} AIVs; choose at most that many")
    y_input, y_grad, x_grad = (nums[name] for name in QUEUES)
    return fsg_tiling(
        keys.head_num,
        keys.q_seq_len,
        cores,
        device.ub_bytes,
        tile_rows=keys.tile_rows,
        tmp_bytes=keys.tmp_bytes,
        nums=(y_input, y_grad, x_grad),
    )


def _spelled(refusal: Refusal) -> str:
    """Return a refusal with the argument that it begins with as a scenario spells it."""
    finding = refusal.finding
    word = re.split(r"\W", finding.message, maxsplit=1)[0]
    said = _SPELLED.get(word, word) + finding.message.removeprefix(word)
    return f"{said} ({refusal.stage}: {refusal.error}); to mend it: {finding.hint}"


def fsg_block_dim(tiling: FsgTiling) -> int:
    """Return the vector cores to launch."""
    return tiling.block_dim


def fsg_work(tiling: FsgTiling, block_dim: int) -> Work:
    """Return what the call computes, and how its tiles are dealt to cores."""
    del block_dim  # the tiling's
    return Work(
        flop=_FLOP * tiling.count,
        convention=f"{_FLOP} for each element: y * g, its sum, the difference, the product with y",
        factors="",
        kind=CoreKind.AIV.value,
        blocks=tiling.tiles(),
        block_flop=tuple(_FLOP * count for count in tiling.elements()),
    )


# ---- data ------------------------------------------------------------------------------------------------------------


def fsg_parts(keys: FsgKeys) -> tuple[tuple[int, int], ...]:
    """Return (rows, their length) of each item of the flat tensors."""
    return keys.parts


def _items(keys: FsgKeys, *flat: Array) -> Iterator[tuple[Array, ...]]:
    """Yield the rows of each item of flat tensors."""
    at = 0
    for rows, n in keys.parts:
        yield tuple(x[at : at + rows * n].reshape(rows, n) for x in flat)
        at += rows * n


def fsg_notes(shapes: Shapes, keys: FsgKeys, inputs: Mapping[str, Array]) -> tuple[Finding, ...]:
    """Return what to know of a call that runs: rows of y_input that do not sum to 1.

    Halves that were rounded from a softmax may be off by 2^-11 in sum, and below 2^-14 by 2^-25 each; twice that is let
    pass.
    """
    del shapes
    if "y_input" not in inputs:
        return ()
    sums = [row_sums(y) for (y,) in _items(keys, inputs["y_input"])]
    limits = [2.0**-10 + n * 2.0**-24 for _, n in keys.parts]
    bad = [~(np.abs(x - 1) <= limit) for x, limit in zip(sums, limits, strict=True)]
    count = sum(int(flags.sum()) for flags in bad)
    if not count:
        return ()
    off = np.concatenate([x[flags] for x, flags in zip(sums, bad, strict=True)])
    furthest = off[np.argmax(np.where(np.isfinite(off), np.abs(off - 1), np.inf))]
    fill = {"rows": sum(rows for rows, _ in keys.parts), "furthest": float(furthest)}
    return (ROW_SUM.finding("tensors.y_input", operand="yInput", got=count, wanted=0, fill=fill),)


def row_sums(rows: Array) -> Array:
    """Return the sum of each row in float64."""
    with np.errstate(all="ignore"):  # data may be infinite or NaN: a finding says so
        return np.asarray(rows.sum(axis=1, dtype=np.float64))


def fsg_reference(
    inputs: Mapping[str, Array], keys: FsgKeys, outputs: Mapping[str, DType], device: Device
) -> dict[str, tuple[Array, Array]]:
    """Return (values, how far off each may be) of the result, in float64."""
    del outputs, device
    values = [softmax_grad(g, y).reshape(-1) for y, g in _items(keys, inputs["y_input"], inputs["y_grad"])]
    x_grad = np.concatenate(values)
    return {"x_grad": (x_grad, PRECISION * np.maximum(1, np.abs(x_grad)))}
