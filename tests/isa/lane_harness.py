"""Run one kernel twice, on the library and on the lane oracle, and compare every byte of UB and GM."""

from dataclasses import dataclass

import numpy as np
from lane_oracle import LaneOracle, Memory
from number_oracle import FLOATS, SIZE, is_nan

from ascendsim.checks import check_rows
from ascendsim.device import load_device
from ascendsim.dtypes import dtype
from ascendsim.execute import execute
from ascendsim.memory import Bytes, LocalTensor, place_in_gm
from ascendsim.record import record
from ascendsim.terms import HalfOverflow, TPosition

DEVICE = load_device("Ascend910B1")
UB_BYTES = 65536
ADVICE = ("W-ALIGN-GM", "W-NUM-RECIP", "W-NUM-HALFREDUCE", "W-OOB-MASKED")
"""What costs time or precision on hardware, or might: values are right all the same."""

OVERLAPS = ("E-OVERLAP", "E-OVERLAP-WIDEN", "E-COUNTER-COPY", "W-MASK-MODE")
"""Random kernels overlap on purpose, and leave counter mode on: what the model does then is held to the oracle, too."""


def without_advice(findings):
    """Findings about what a kernel computes."""
    return tuple(f for f in findings if f.code not in ADVICE)


def local(name, kind, address, length):
    """A tensor of `length` bytes at a UB address."""
    return LocalTensor(name, TPosition.VECCALC, dtype(kind), address, length)


def gm_tensors(*specs):
    """(name, type, elements) of each; elements may be a shape."""
    return place_in_gm([(n, dtype(k), (c,) if isinstance(c, int) else c) for n, k, c in specs])


class Ground:
    """Content of UB and GM before a run. UB starts unwritten; `write` makes parts of it known."""

    def __init__(self, gm=(), ub_bytes=UB_BYTES):
        self.gm = gm
        self.ub = Bytes(ub_bytes)
        self.gm_bytes = [Bytes(g.tensor_bytes) for g in gm]

    def write(self, tensor, values):
        """Put raw bytes or an array at the start of a tensor."""
        raw = np.frombuffer(values, np.uint8) if isinstance(values, bytes) else np.ascontiguousarray(values).view("u1")
        raw = raw.reshape(-1)
        memory = self.ub if isinstance(tensor, LocalTensor) else self.gm_bytes[tensor.index]
        start = tensor.start_bytes if isinstance(tensor, LocalTensor) else tensor.offset_bytes
        memory.content[start : start + raw.size] = raw
        memory.written[start : start + raw.size] = True
        return self


@dataclass
class Both:
    """What the two runs left."""

    ub: Bytes
    gm: tuple
    oracle: LaneOracle
    findings: tuple
    static: tuple

    def array(self, tensor, count):
        """Elements of a tensor after the library's run."""
        memory = self.ub if isinstance(tensor, LocalTensor) else self.gm[tensor.index]
        start = tensor.start_bytes if isinstance(tensor, LocalTensor) else tensor.offset_bytes
        raw = memory.content[start : start + count * tensor.dtype.bytes]
        return raw.view(tensor.dtype.numpy).copy()


def run_both(kernel, ground, saturate=False):
    """Record and execute `kernel(asc, *gm)`, run it on the oracle, and return both ends."""
    oracle = LaneOracle(as_memory(ground.ub), [as_memory(g) for g in ground.gm_bytes], saturate)
    recording = record(kernel, DEVICE, 1, tuple(ground.gm), ())
    assert recording.complete
    static = without_advice((*recording.findings, *check_rows(recording.program, DEVICE)))
    mode = HalfOverflow.SATURATE if saturate else HalfOverflow.INF_NAN
    gm = tuple(ground.gm_bytes)
    done = execute(recording.program, DEVICE, gm, overflow=mode, ub=ground.ub, log_core=0)
    kernel(oracle, *ground.gm)
    return Both(ground.ub, gm, oracle, done.findings, static)


def as_memory(memory):
    return Memory(memory.content.tobytes(), memory.written.astype(np.uint8).tobytes())


def compare(kernel, ground, saturate=False, clean=True):
    """Run both and hold every byte to the oracle; with `clean`, no static rule may object but those of overlap."""
    both = run_both(kernel, ground, saturate)
    if clean:
        assert [f for f in both.static if f.code not in OVERLAPS] == []
    same_memory("UB", both.ub, both.oracle.ub)
    for i, memory in enumerate(both.gm):
        same_memory(f"GM {i}", memory, both.oracle.gm[i])
    found = {(f.where.split(" ")[0], f.operand) for f in both.findings if f.code == "W-MEM-UNINIT"}
    assert found == set(both.oracle.unwritten)
    return both


def same_memory(what, ours, want):
    """Bit for bit; a NaN need only be a NaN of the same type, and its bytes may move about as they like."""
    content, written = ours.content.tobytes(), ours.written.astype(np.uint8).tobytes()
    assert written == bytes(want.written), f"{what}: first written flag that differs: {differ(written, want.written)}"
    for at, (kind, i) in want.nan.items():
        whole = all(want.nan.get(at - i + j) == (kind, j) for j in range(SIZE[kind]))
        if whole and i == 0:
            bits = int.from_bytes(content[at : at + SIZE[kind]], "little")
            assert is_nan(bits, kind), f"{what} byte {at}: {bits:#x} is no NaN"
    if want.nan:
        masked, known = bytearray(content), bytearray(want.data)
        for at in want.nan:
            masked[at] = known[at] = 0
        content, want_data = bytes(masked), bytes(known)
    else:
        want_data = bytes(want.data)
    assert content == want_data, f"{what}: first byte that differs: {differ(content, want_data)}"


def differ(a, b):
    return next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)


def random_bytes(rng, kind, count):
    """Bytes of `count` elements that are mostly ordinary, with specials, subnormals and NaNs mixed in."""
    if kind not in FLOATS:
        return rng.integers(0, 256, count * SIZE[kind], np.uint8)
    bits = rng.integers(0, 1 << (8 * SIZE[kind]), count, np.uint64)
    plain = (rng.standard_normal(count) * 8).astype(np.float32)
    ordinary = plain.astype(dtype(kind).numpy).view(f"u{SIZE[kind]}")
    pick = rng.integers(0, 4, count) > 0
    return np.where(pick, ordinary, bits.astype(f"u{SIZE[kind]}")).astype(f"u{SIZE[kind]}").view(np.uint8)
