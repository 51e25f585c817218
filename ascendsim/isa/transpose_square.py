"""Transpose of 16 rows of 16 elements."""

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import HALF, INT16, UINT16
from ascendsim.errors import Finding
from ascendsim.isa import rules
from ascendsim.isa.compare import counter_ignored
from ascendsim.isa.forms import Call, Form, declare
from ascendsim.isa.instruction import Context, Row, Step, TensorRef, finds
from ascendsim.isa.overlap import OVERLAP
from ascendsim.memory import Lanes, LocalTensor
from ascendsim.terms import Pipe

TRANSPOSE_OVERLAP = OVERLAP.saying(
    "Transpose: dst and src overlap without being the same",
    hint="separate buffers",
    source="asc-devkit docs, general constraints",
)
SIDE = 16
"""Rows and columns of a Transpose."""


class TransposeCall(Call):
    """dst, src: 16 rows of 16 elements each."""

    def __call__(self, dst: LocalTensor, src: LocalTensor) -> None:
        """Record the call."""
        self.locals(dst=dst, src=src)
        self.asc.emit(self.op, dst=dst, src0=src, params=(1,))


def _touch_transpose(row: Row) -> tuple[tuple[str, int, int], ...]:
    assert row.dst is not None
    length = SIDE * SIDE * row.dst.dtype.bytes
    return (("dst", 0, length), ("src0", 0, length))


def _run_transpose(ctx: Context, row: Row) -> Step:
    """A move of bits: the source is read whole, so it may be the destination."""
    assert row.dst is not None
    assert row.src0 is not None
    width = row.dst.dtype.bytes
    turned = np.arange(SIDE * SIDE).reshape(SIDE, SIDE).T.reshape(-1)
    size = turned.size
    return ctx.mover(row.dst, Lanes.run(size).of_bytes(width), row.src0, Lanes.at(turned).of_bytes(width))


@finds(TRANSPOSE_OVERLAP)
def _same_or_apart(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Dst is src, or meets none of it."""
    del device
    dst, src = (rules.tensor_of(o, tensors).address_bytes + o.offset_bytes for _, o in row.operands)
    length = row.touched[0][2]
    if dst == src or abs(dst - src) >= length:
        return []
    return [TRANSPOSE_OVERLAP.finding(where, operand="dst", got="overlaps src", wanted="the same or apart")]


class SquareTransposeInstructions:
    """Transpose."""

    transpose = Form(
        declare(
            "transpose",
            """dst[16i + j] = src[16j + i] for 16 rows of 16 elements; half, int16_t, uint16_t.

            Source: asc-devkit docs, Transpose page, ND2ND_B16.
            """,
            api="Transpose",
            mnemonic="vtranspose",
            pipe=Pipe.V,
            params=("repeat",),
            cost="vector",
            family="Transpose",
            execute=_run_transpose,
            touch=_touch_transpose,
            checks=(
                rules.dtypes((HALF, INT16, UINT16), "dst", "src0"),
                rules.same_dtype,
                rules.aligned("dst", "src0"),
                _same_or_apart,
                counter_ignored,
                rules.in_bounds,
            ),
            uses_mask=False,
        ),
        TransposeCall,
    )
