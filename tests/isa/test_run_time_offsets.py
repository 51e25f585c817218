"""Offsets and counts known only when the program runs: what leaves a tensor is found, and the run goes on."""

import numpy as np
from lane_harness import DEVICE, Ground, local

from ascendsim.checks import check_program
from ascendsim.execute import execute
from ascendsim.record import record

A, D = local("a", "float", 0, 4096), local("d", "float", 8192, 4096)
OFFSETS = local("o", "uint32_t", 20480, 4096)


def found(kernel, **start):
    """(code, message, operand) of what the run found, and UB afterwards."""
    ground = Ground()
    for where, values in start.values():
        ground.write(where, values)
    recording = record(kernel, DEVICE, 1, (), ())
    assert (*recording.findings, *check_program(recording.program, DEVICE)) == ()
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
