"""DataCopy on the paths of the Cube side: bursts byte by byte, and where there is no path."""

import pytest
from cube_harness import A1, A2, B1, C1, C2, CO1, check_moves, check_ranges, in_gm, on_chip, random_source, run
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.device import load_device
from ascendsim.isa.move import DataCopyParams
from ascendsim.terms import KernelType, TPosition

FB = TPosition.C2PIPE2GM
PATHS = {
    "GM to L1": (None, A1, "data_copy_gm_to_l1", "MTE2"),
    "GM to L1 as B": (None, B1, "data_copy_gm_to_l1", "MTE2"),
    "L1 to GM": (A1, None, "data_copy_l1_to_gm", "MTE3"),
}
LENGTH = 1 << 13


def moves(p):
    """Bytes of bursts: block_len datablocks each, gaps from tail to head."""
    return {
        i * (p.block_len + p.dst_gap) * 32 + byte: i * (p.block_len + p.src_gap) * 32 + byte
        for i in range(p.block_count)
        for byte in range(p.block_len * 32)
    }


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_byte(path, data):
    start, end, name, pipe = PATHS[path]
    kind, width = data.draw(st.sampled_from([("half", 2), ("float", 4), ("int8_t", 1), ("bfloat16_t", 2)]))
    p = DataCopyParams(*(data.draw(st.integers(0, 6)) for _ in range(4)))
    gm = in_gm(("g", kind, LENGTH // width))
    src = gm[0] if start is None else on_chip(start, kind, LENGTH // width, 64)
    dst = gm[0] if end is None else on_chip(end, kind, LENGTH // width, 96)
    source, written = random_source(data.draw(st.integers(0, 99)), LENGTH)
    ran = run(lambda asc, g: asc.data_copy(dst, src, p), [(src, source, written)], gm)
    moved = moves(p)
    check_moves(ran, dst, source, written, moved)
    check_ranges(ran, moved)
    assert (ran.row.op.name, ran.row.pipe.name, ran.recorded) == (name, pipe, ())
    reads = set(moved.values())
    unwritten = sum(not written[at] for at in reads)
    found = [(f.code, f.got) for f in ran.findings]
    assert found == ([("W-MEM-UNINIT", str(unwritten))] if end is None and unwritten else [])


@pytest.mark.parametrize(
    ("place", "name", "pipe"), [(C2, "data_copy_l1_to_bt", "MTE1"), (FB, "data_copy_l1_to_fb", "FIX")]
)
def test_biases_and_scales(place, name, pipe):
    """The form that counts elements."""
    l1, to = on_chip(C1, "float", 256, 32), on_chip(place, "float", 256)
    source, written = random_source(3, 1024)
    ran = run(lambda asc: asc.data_copy(to, l1[32], 64), [(l1, source, written)])
    check_moves(ran, to, source[128:], written[128:], {i: i for i in range(256)})
    check_ranges(ran, {i: i for i in range(256)})
    assert (ran.row.op.name, ran.row.pipe.name, ran.findings, ran.recorded) == (name, pipe, (), ())


@pytest.mark.parametrize(
    ("soc", "place", "unit"),
    [("Ascend910B1", C2, 64), ("Ascend910B1", FB, 128), ("Ascend950PR_9579", C2, 32), ("Ascend950PR_9579", FB, 64)],
)
def test_bursts_of_biases_and_scales_have_a_unit_of_their_own(soc, place, unit):
    l1, to = on_chip(C1, "float", 256), on_chip(place, "float", 256)
    source, written = random_source(3, 1024)
    ran = run(lambda asc: asc.data_copy(to, l1, DataCopyParams(1, 2)), [(l1, source, written)], (), load_device(soc))
    check_ranges(ran, {i: i for i in range(2 * unit)})


def test_from_ub_to_l1_on_a_combined_core():
    ub, l1 = on_chip(TPosition.VECOUT, "half", 256), on_chip(A1, "half", 256, 32)
    source, written = random_source(3, 512)
    device = load_device("Ascend310P1")
    ran = run(lambda asc: asc.data_copy(l1, ub, 256), [(ub, source, written)], (), device, KernelType.AICORE)
    check_moves(ran, l1, source, written, {i: i for i in range(512)})
    assert (ran.row.op.name, ran.row.pipe.name) == ("data_copy_ub_to_l1", "MTE3")


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [(A1, A2, "L1 to L0A"), (CO1, A1, "L0C to L1"), (A2, A1, "L0A to L1"), (A1, B1, "L1 to L1")],
)
def test_where_there_is_no_path(start, end, text):
    ran = run(lambda asc: asc.data_copy(on_chip(end, "half", 64), on_chip(start, "half", 64, 512), 64), [])
    assert [(f.code, f.message) for f in ran.recorded] == [("E-PATH", f"DataCopy: there is no path from {text}")]
