"""One library call on tensors in UB: record, check, run, and its instructions as short text."""

from dataclasses import dataclass

import numpy as np

from ascendsim.checks import check_program
from ascendsim.checks.sums import without_consequences
from ascendsim.device import load_device
from ascendsim.dtypes import dtype
from ascendsim.errors import Rejected
from ascendsim.execute import execute
from ascendsim.isa.log import mnemonic
from ascendsim.memory import Bytes, LocalTensor
from ascendsim.record import record
from ascendsim.terms import MaskMode, Pipe, TPosition

DEVICES = {2201: load_device("Ascend910B1"), 2002: load_device("Ascend310P3")}
NAMES = {"float32": "float", "float16": "half"}
"""Element types of the package by NumPy's names, where these differ by more than _t."""


def local(name, kind, address, length):
    """A tensor of `length` bytes at a UB address."""
    return LocalTensor(name, TPosition.VECCALC, dtype(kind), address, length)


def place(start=0, **arrays):
    """Tensors for these arrays (or for (type, bytes) without content), one behind the other, each on 512 B."""
    tensors, at = {}, start
    for name, array in arrays.items():
        if isinstance(array, tuple):
            kind, length = array
        else:
            kind, length = NAMES.get(str(array.dtype), f"{array.dtype}_t"), array.nbytes
        tensors[name] = local(name, kind, at, length)
        at += -(-length // 512) * 512
    return tensors


@dataclass(frozen=True)
class Ran:
    """What a call left.

    Attributes:
        ub: all bytes of UB.
        findings: of recording, of the rules, and of the run.
        program: what was recorded.
    """

    ub: Bytes
    findings: tuple
    program: object

    def array(self, tensor, like):
        """A tensor's elements in the shape and type of an array."""
        raw = self.ub.content[tensor.start_bytes : tensor.start_bytes + like.nbytes]
        return raw.view(like.dtype).reshape(like.shape)


def run(kernel, tensors, arch=2201, holes=(), **arrays):
    """Record kernel(asc), check it and run it on a UB that holds these arrays and nothing else.

    `holes` are (tensor, first byte, end) that nobody has written.
    """
    device = DEVICES[arch]
    recording = record(kernel, device, 1, (), ())
    assert recording.complete
    program = recording.program
    checked = check_program(program, device, is_complete=True, with_lifetimes=False, known=recording.findings)
    ub = Bytes(device.ub_bytes)
    for name, array in arrays.items():
        start = tensors[name].start_bytes
        ub.content[start : start + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        ub.written[start : start + array.nbytes] = True
    for name, first, end in holes:
        ub.written[tensors[name].start_bytes + first : tensors[name].start_bytes + end] = False
    execution = execute(program, device, (), ub=ub, log_core=0)
    return Ran(ub, (*recording.findings, *checked, *execution.findings), program)


def found(kernel, device):
    """Findings that a user sees, also where the call ends the recording: what follows from them is left out."""
    recording = record(kernel, device, 1, (), ())
    checked = check_program(
        recording.program, device, is_complete=recording.complete, with_lifetimes=False, known=recording.findings
    )
    findings = (*recording.findings, *without_consequences(recording.findings, checked))
    return tuple((f.code, f.message, f.hint) for f in findings)


def same(got, want):
    """Whether two arrays have the same bits, NaN as NaN."""
    unsigned = f"u{want.dtype.itemsize}"
    return bool(((got.view(unsigned) == want.view(unsigned)) | (np.isnan(got) & np.isnan(want))).all())


# ---- instructions as text -------------------------------------------------------------------------------------------


def sequence(kernel, tensors, arch=2201):
    """Each instruction of kernel(asc) as one line of text; see `_line`."""
    recording = record(kernel, DEVICES[arch], 1, (), ())
    assert recording.findings == ()
    (template,) = recording.program.templates
    return [_line(row, template.tensors) for row in template.rows]


def _line(row, tensors):
    """`vsub n512 x1 1,1,0/8,8,1 dst+64 src+64 max+0`: mask (n: a count, m: lanes), repeat, strides, operands.

    Operands are tensor and elements from its start. Barriers are "barrier", mask setters "count", "norm" and "mask".
    """
    short = {"set_mask_count": "count", "set_mask_norm": "norm", "pipe_barrier": "barrier"}
    name = row.op.name
    if name == "pipe_barrier":
        assert row.pipe is Pipe.V
    if name in short:
        return short[name]
    if name == "set_vector_mask":
        return f"mask {_mask(row)}"
    words = [mnemonic(row)]
    if row.op.uses_mask or row.op.api == "GatherMask":
        words.append(_mask(row))
    words.append(f"x{row.param('repeat')}")
    strides = [p for p in row.op.params if p.endswith("_stride")]
    if strides:
        blocks = ",".join(str(row.param(p)) for p in strides if p.endswith("blk_stride"))
        repeats = ",".join(str(row.param(p)) for p in strides if p.endswith("rep_stride"))
        words.append(f"{blocks}/{repeats}")
    if "pattern" in row.op.params:
        words.append(f"pattern{row.param('pattern')}")
    words += [f"{tensors[o.tensor].name}+{o.offset_bytes // o.dtype.bytes}" for _, o in row.operands]
    if row.op.takes_scalar:
        words.append(f"={np.asarray(row.scalar_bits, f'u{row.scalar_dtype.bytes}').view(row.scalar_dtype.numpy):g}")
    return " ".join(words)


def _mask(row):
    if row.mask_mode is MaskMode.COUNTER:
        return f"n{row.mask_lo}"
    bits = row.mask_lo | row.mask_hi << 64
    assert bits & (bits + 1) == 0, "not the first lanes"
    return "all" if bits == (1 << 128) - 1 else f"m{bits.bit_length()}"


__all__ = ["DEVICES", "Rejected", "found", "local", "place", "run", "same", "sequence"]
