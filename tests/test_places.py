"""Where memories of a core lie in a program, and programs with a third source or many parameters as arrays."""

import numpy as np
import pytest

from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT, HALF
from ascendsim.execute import execute
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.instruction import TensorRef
from ascendsim.isa.load import LoadData3DParamsV2
from ascendsim.isa.mmad import MmadParams
from ascendsim.machine import schedule
from ascendsim.memory import Bytes, LocalTensor, place_in_gm
from ascendsim.program import MAX_PARAMS, from_arrays, to_arrays
from ascendsim.record import record
from ascendsim.terms import Buffer, KernelType, Pipe, TPosition

DEVICE = load_device("Ascend910B1")
STEP = 4096


def local(position, kind, address, length):
    return LocalTensor(f"{position.value}@{address}", position, kind, address, length)


def recorded(kernel, kernel_type=KernelType.AIC_ONLY, blocks=1, gm=()):
    return record(kernel, DEVICE, blocks, gm, (), None, kernel_type).program


L1 = local(TPosition.A1, HALF, 32, 8000)
A = local(TPosition.A2, HALF, 0, 8192)
B = local(TPosition.B2, HALF, 0, 512)
C = local(TPosition.CO1, FLOAT, 1024, 4096)
BIAS = local(TPosition.C2, FLOAT, 128, 64)
Y = place_in_gm([("y", FLOAT, (256,))])


def product(asc, y):
    asc.load_data(
        A, L1, LoadData3DParamsV2(l1_h=16, l1_w=1, channel_size=16, k_extension=16, m_extension=16, pad_top=1)
    )
    asc.mmad(C, A, B, MmadParams(16, 16, 16), BIAS)
    asc.fixpipe(y, C, FixpipeParamsV220(16, 16, 16, 16))


# ---- places ---------------------------------------------------------------------------------------------------------


def test_memories_lie_one_behind_the_other_on_whole_steps():
    places = recorded(product, gm=Y).places({})
    assert places.bases == {
        Buffer.UB: 0, Buffer.L1: 0, Buffer.L0A: 2 * STEP,
        Buffer.L0B: 4 * STEP, Buffer.L0C: 5 * STEP, Buffer.BT: 7 * STEP,
    }  # fmt: skip
    assert places.length_bytes == 8 * STEP


def test_memories_are_as_long_as_the_part_has_them():
    capacity = {b: DEVICE.buffer_bytes(b) for b in Buffer if b is not Buffer.GM}
    places = recorded(product, gm=Y).places(capacity)
    at = 0
    for buffer in (Buffer.UB, Buffer.L1, Buffer.L0A, Buffer.L0B, Buffer.L0C, Buffer.BT):
        assert places.bases[buffer] == at
        at += -(-capacity[buffer] // STEP) * STEP
    assert places.length_bytes == at
    assert Buffer.FB not in places.bases


def test_an_allocation_behind_the_end_makes_its_memory_longer():
    ub = local(TPosition.VECCALC, FLOAT, 3 * STEP, 32)
    program = recorded(lambda asc: asc.duplicate(ub, 1.0, 8), KernelType.AIV_ONLY)
    assert program.places({Buffer.UB: STEP}).length_bytes == 4 * STEP
    assert program.places({Buffer.UB: 9 * STEP}).length_bytes == 9 * STEP


def test_an_allocations_address():
    places = recorded(product, gm=Y).places({})
    assert places.of(TensorRef("c", Buffer.L0C, "CO1", 1024, 4096)) == 5 * STEP + 1024


def test_ub_is_always_there():
    places = recorded(lambda asc: None, KernelType.AIV_ONLY).places({})
    assert (places.bases, places.length_bytes) == ({Buffer.UB: 0}, 0)


def test_the_same_address_in_two_memories_is_two_places():
    """L1, L0A and L0B all have a byte 0; what is loaded into one leaves the others alone."""
    gm = place_in_gm([("x", HALF, (256,))])
    l1, l0a, l0b = (local(p, HALF, 0, 512) for p in (TPosition.A1, TPosition.A2, TPosition.B2))

    def kernel(asc, x):
        asc.data_copy(l1, x, 256)
        asc.data_copy(x, l1, 256)
        asc.mmad(local(TPosition.CO1, FLOAT, 0, 1024), l0a, l0b, MmadParams(16, 16, 16))

    done = execute(recorded(kernel, gm=gm), DEVICE, (Bytes.of(np.ones(256, np.float16)),))
    assert [(f.operand, f.got) for f in done.findings] == [("src0", "512"), ("src1", "512")]


# ---- as arrays ------------------------------------------------------------------------------------------------------


def test_a_third_source_and_many_parameters_come_back():
    program = recorded(product, gm=Y)
    load, mmad, fixpipe = program.templates[0].rows
    assert len(load.params) > MAX_PARAMS
    assert len(fixpipe.params) > MAX_PARAMS
    assert mmad.src2 is not None
    again = from_arrays(to_arrays(program))
    assert again.digest == program.digest
    assert again.templates[0].tensors == program.templates[0].tensors
    for row, other in zip(program.templates[0].rows, again.templates[0].rows, strict=True):
        assert (other.op, other.pipe, other.params, other.operands) == (row.op, row.pipe, row.params, row.operands)
    assert again.high_water_bytes == program.high_water_bytes
    assert again.places({}) == program.places({})


def test_templates_without_a_third_source_have_no_columns_of_it():
    ub = local(TPosition.VECCALC, FLOAT, 0, 256)
    program = recorded(lambda asc: asc.duplicate(ub, 1.0, 8), KernelType.AIV_ONLY)
    assert [name for name in program.templates[0].columns if name.startswith("src2")] == []
    assert program.templates[0].columns["params"].shape[1] == MAX_PARAMS


@pytest.mark.parametrize("kind", [k for k in KernelType if k is not KernelType.AICORE])
def test_the_kernel_type_comes_back(kind):
    def kernel(asc):
        if asc.is_aiv:
            asc.duplicate(local(TPosition.VECCALC, FLOAT, 0, 256), 1.0, 8)

    program = recorded(kernel, kind, 2)
    again = from_arrays(to_arrays(program))
    assert (again.kernel_type, again.core_count, again.digest) == (kind, 2 * len(kind.kinds), program.digest)
    assert schedule(again, DEVICE, "compiled")["end"].tolist() == schedule(program, DEVICE, "compiled")["end"].tolist()


def test_mixes_of_other_kinds_have_other_digests():
    """A program of no rows at all differs by nothing but its kernel type."""
    digests = {kind: recorded(lambda asc: None, kind).digest for kind in KernelType if kind is not KernelType.AICORE}
    assert len(set(digests.values())) == 4


def test_the_pipe_of_a_wait_is_part_of_the_digest():
    def waiting(pipe):
        return recorded(lambda asc: asc.cross_core_set_flag(0, pipe, 1), KernelType.MIX_AIC_1_1).digest

    assert waiting(Pipe.MTE2) != waiting(Pipe.MTE3)
