"""Offsets and counts known only when the program runs: what leaves a tensor is found, and the run goes on."""

import numpy as np
from lane_harness import DEVICE, Ground, gm_tensors, local

from ascendsim.checks import check_rows
from ascendsim.execute import execute
from ascendsim.isa.gather_mask import GatherMaskParams
from ascendsim.memory import Bytes
from ascendsim.record import record, tile
from ascendsim.sample import choose_tiles, execute_sample
from ascendsim.terms import CmpMode, HardEvent, SelMode

A, D = local("a", "float", 0, 4096), local("d", "float", 8192, 4096)
OFFSETS = local("o", "uint32_t", 20480, 4096)


def found(kernel, **start):
    """(code, message, operand) of what the run found, and UB afterwards."""
    ground = Ground()
    for where, values in start.values():
        ground.write(where, values)
    recording = record(kernel, DEVICE, 1, (), ())
    assert (*recording.findings, *check_rows(recording.program, DEVICE)) == ()
    done = execute(recording.program, DEVICE, (), ub=ground.ub)
    return [(f.code, f.message, f.operand) for f in done.findings], ground.ub.content


def elements(content, tensor, count):
    return content[tensor.start_bytes :][: count * tensor.dtype.bytes].view(tensor.dtype.numpy).tolist()


def test_an_offset_outside_of_the_source_is_found_and_reads_0():
    a = local("a", "float", 0, 64)
    got, ub = found(
        lambda asc: asc.gather(D, a, OFFSETS, 8, 4),
        a=(a, np.arange(1, 17, dtype=np.float32)), o=(OFFSETS, np.uint32([0, 56, 52, 2**32 - 4])),
    )  # fmt: skip
    assert got == [("E-INDEX-RANGE", "Gather src0: offset 64 B lies outside the 64 B of a behind the base", "src0")]
    assert elements(ub, D, 4) == [3, 0, 16, 0]


def test_an_offset_inside_an_element_is_found():
    got, _ = found(
        lambda asc: asc.gather(D, A, OFFSETS, 0, 2), a=(A, np.ones(8, np.float32)), o=(OFFSETS, np.uint32([4, 6]))
    )
    assert got == [("E-ALIGN-OFFSET", "Gather src0: offset 6 B into a is no multiple of 4 B", "src0")]


def test_gatherb_takes_whole_datablocks_only():
    u, v = local("u", "uint32_t", 0, 256), local("v", "uint32_t", 1024, 512)
    got, _ = found(
        lambda asc: asc.gatherb(v, u, OFFSETS, 1),
        u=(u, np.arange(64, dtype=np.uint32)), o=(OFFSETS, np.uint32([0, 32, 48, 224, 256, 0, 0, 0])),
    )  # fmt: skip
    assert got == [
        ("E-ALIGN-OFFSET", "Gatherb src0: offset 48 B into u is no multiple of 32 B", "src0"),
        ("E-INDEX-RANGE", "Gatherb src0: offset 256 B lies outside the 256 B of u behind the base", "src0"),
    ]


def test_more_selected_elements_than_the_destination_holds_are_found():
    d = local("d", "float", 8192, 32)
    got, ub = found(
        lambda asc: asc.gather_mask(d, A, OFFSETS, True, 12),
        a=(A, np.arange(64, dtype=np.float32)), o=(OFFSETS, np.uint32([0xFFF])),
    )  # fmt: skip
    assert got == [("E-OOB-LOCAL", "GatherMask dst: 48 B were selected, d has 32 B left", "dst")]
    assert elements(ub, d, 8) == list(range(8))


# ---- a sample ---------------------------------------------------------------------------------------------------


@tile
def chooses(asc, x, y):
    """What reaches y depends on data in every way there is; D keeps what the tile before left behind the gathered."""
    asc.data_copy(A, x, 64)
    asc.set_flag(HardEvent.MTE2_V, 0)
    asc.wait_flag(HardEvent.MTE2_V, 0)
    bits = OFFSETS[512].reinterpret_cast("uint8_t")
    asc.compares(bits, A, 8, CmpMode.GE, 64)
    asc.select(A, bits, A, 1.0, SelMode.VSEL_TENSOR_SCALAR_MODE, 64)
    asc.gather(D[128], A, OFFSETS, 0, 64)
    asc.gather_mask(D, D[128], bits.reinterpret_cast("uint32_t"), True, 64, GatherMaskParams(1, 1, 8, 0))
    asc.set_flag(HardEvent.V_MTE3, 0)
    asc.wait_flag(HardEvent.V_MTE3, 0)
    asc.data_copy(y, D, 64)
    asc.set_flag(HardEvent.MTE3_MTE2, 0)
    asc.wait_flag(HardEvent.MTE3_MTE2, 0)


def test_a_sample_leaves_what_a_full_run_leaves():
    """Each tile writes as many elements of D as it keeps, so the last one needs all that came before."""
    gm = gm_tensors(("o", "uint32_t", 64), ("x", "float", 256), ("y", "float", 256))

    def kernel(asc, o, x, y):
        asc.data_copy(OFFSETS, o, 64)
        asc.duplicate(D, -1, 64)
        for i in range(4):
            chooses(asc, x[64 * i], y[64 * i])

    rng = np.random.default_rng(5)
    contents = [rng.permutation(64).astype(np.uint32) * 4, rng.integers(0, 16, 256).astype(np.float32)]
    contents[1][200:] = 0  # the last tile keeps few
    program = record(kernel, DEVICE, 1, gm, ()).program

    def memories():
        return (*(Bytes.of(c) for c in contents), Bytes(1024))

    full = execute(program, DEVICE, memories()).gm
    sample, _ = execute_sample(program, DEVICE, memories(), choose_tiles(program, ("tail",)))
    assert sample.gm[2].content[768:].tolist() == full[2].content[768:].tolist()
    assert -1 not in full[2].content.view(np.float32)[:16]
