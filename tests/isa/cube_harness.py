"""Run one instruction of the Cube side on memories of known content, and hold bytes moved to a table of them."""

from dataclasses import dataclass

import numpy as np

from ascendsim.device import load_device
from ascendsim.dtypes import dtype
from ascendsim.execute import execute
from ascendsim.looker import Looker
from ascendsim.memory import POISON, Bytes, LocalTensor, place_in_gm
from ascendsim.record import record
from ascendsim.terms import Buffer, KernelType, TPosition

DEVICE = load_device("Ascend910B1")
NEW_DEVICE = load_device("Ascend950PR_9589")
ZERO = -1
"""Where a byte comes from that the instruction makes up: a padding of zeros."""


def on_chip(position, kind, elements, address=0):
    """A tensor in the memory of a position."""
    element = dtype(kind)
    return LocalTensor(f"{position.value.lower()}_{address}", position, element, address, elements * element.bytes)


def in_gm(*specs):
    """(name, type, elements) of each GM tensor."""
    return place_in_gm([(name, dtype(kind), (count,)) for name, kind, count in specs])


@dataclass
class Ran:
    """What a run left."""

    program: object
    places: object
    local: Bytes
    gm: tuple
    findings: tuple
    recorded: tuple

    def _window(self, tensor):
        if not isinstance(tensor, LocalTensor):
            return self.gm[tensor.index], slice(tensor.offset_bytes, tensor.tensor_bytes)
        start = start_of(self.places, self.program, tensor)
        return self.local, slice(start, start + tensor.allocation_bytes - tensor.offset_bytes)

    def content(self, tensor):
        """Bytes from a tensor's start to its end."""
        memory, at = self._window(tensor)
        return memory.content[at]

    def written(self, tensor):
        """Which of them are written."""
        memory, at = self._window(tensor)
        return memory.written[at]

    def values(self, tensor):
        """Elements from a tensor's start to its end."""
        return self.content(tensor).view(tensor.dtype.numpy)

    @property
    def row(self):
        """The last row."""
        return self.program.templates[-1].rows[-1]


def start_of(places, program, tensor):
    """Where a tensor's window begins among the memories of a core."""
    refs = [ref for t in program.templates for ref in t.tensors if ref.name == tensor.name]
    base = places.bases[refs[0].buffer] if refs else None
    assert base is not None, f"the kernel does not use {tensor.name}"
    return base + tensor.start_bytes


def run(kernel, contents, gm=(), device=DEVICE, kernel_type=KernelType.AIC_ONLY):
    """Record `kernel(asc, *gm)` for one core and execute it.

    Args:
        kernel: what to run.
        contents: (tensor, bytes or array, written flags or None for all) of what is there before.
        gm: GM tensors.
        device: the part.
        kernel_type: one with a single core.
    """
    recording = record(kernel, device, 1, tuple(gm), (), None, kernel_type)
    assert recording.complete
    program = recording.program
    places = program.places({b: device.buffer_bytes(b) for b in Buffer if b is not Buffer.GM})
    ran = Ran(
        program,
        places,
        Bytes(places.length_bytes),
        tuple(Bytes(g.tensor_bytes) for g in gm),
        (),
        recording.findings,
    )
    for tensor, values, written in contents:
        raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        flags = np.ones(raw.size, np.bool_) if written is None else written
        ran.content(tensor)[: raw.size] = np.where(flags, raw, POISON)
        ran.written(tensor)[: raw.size] = flags
    ran.findings = execute(program, device, ran.gm, ub=ran.local).findings
    return ran


def random_source(seed, count):
    """Random bytes, and flags of which one in sixteen says unwritten."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, count, np.uint8), rng.integers(0, 16, count) > 0


def check_moves(ran, dst, source, written, moved):
    """Hold the destination to `moved`: its bytes by offset, with the offset in the source each comes from, or ZERO."""
    want = np.full(ran.content(dst).size, POISON, np.uint8)
    flags = np.zeros(want.size, np.bool_)
    for to, at in moved.items():
        if at == ZERO:
            want[to], flags[to] = 0, True
        elif written[at]:
            want[to], flags[to] = source[at], True
    assert np.flatnonzero(ran.written(dst) != flags).tolist() == []
    assert np.flatnonzero(ran.content(dst) != want).tolist() == []


def hull(offsets):
    """(first, end) of byte offsets."""
    return (min(offsets), max(offsets) + 1) if offsets else (0, 0)


def noted(ran):
    """Bytes that a row reads and writes by role, as the looker sees them."""
    looker = Looker(ran.program.templates[-1].tensors)
    looker.look(ran.row)
    found = {}
    for note in looker.notes:
        role = next(role for role, operand in ran.row.operands if operand is note.operand)
        found.setdefault((role, note.writes), set()).update(note.at.offsets.tolist())
    return found


def touched(ran):
    """(first, end) by role, as the row's `touch` says."""
    return {role: (first, end) for role, first, end in ran.row.op.touch(ran.row)}


def check_ranges(ran, moved):
    """The row touches exactly these bytes."""
    reads = {at for at in moved.values() if at != ZERO}
    assert touched(ran) == {"dst": hull(moved), "src0": hull(reads)}
    assert noted(ran).get(("dst", True), set()) == set(moved)
    assert noted(ran).get(("src0", False), set()) == reads


A1, B1, C1, A2, B2, C2, CO1 = (TPosition[name] for name in ("A1", "B1", "C1", "A2", "B2", "C2", "CO1"))
