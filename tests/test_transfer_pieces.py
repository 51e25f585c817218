"""Bytes that GM transfers are charged for: the aligned pieces that their bursts touch."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.cost import pieces_bytes, template_schedule
from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT, HALF
from ascendsim.isa.move import DataCopyExtParams
from ascendsim.memory import LocalTensor, place_in_gm
from ascendsim.record import record
from ascendsim.terms import TPosition

DEVICE, A5 = load_device("Ascend910B1"), load_device("Ascend950PR_9589")


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    piece=st.sampled_from([32, 64, 128, 512]),
    first=st.integers(0, 511),
    count=st.integers(0, 9),
    length=st.integers(0, 700),
    pitch=st.one_of(st.integers(0, 1500), st.integers(0, 12).map(lambda n: 128 * n)),
    once=st.booleans(),
)
def test_pieces_are_counted_one_by_one(piece, first, count, length, pitch, once):
    spans = [(first + i * pitch, first + i * pitch + length) for i in range(count)]
    if pitch == length:
        spans = [(first, first + count * length)]
    before, want = set(), 0
    for begin, end in spans:
        touched = {byte // piece for byte in range(begin, end)}
        want += len(touched - before) if once else len(touched)
        before = touched
    assert pieces_bytes(piece, first, count, length, pitch, once=once) == want * piece


def columns(device, count, length, stride, *, store, kind=HALF):
    """Schedule columns of a DataCopyPad of bursts of `length` bytes, `stride` bytes apart."""
    x = place_in_gm([("x", kind, (1 << 20,))])
    ub = LocalTensor("ub", TPosition.VECOUT if store else TPosition.VECIN, kind, 0, 1 << 17)

    def kernel(asc, x):
        if store:
            asc.data_copy_pad(x, ub, DataCopyExtParams(count, length, 0, stride))
        else:
            asc.data_copy_pad(ub, x, DataCopyExtParams(count, length, stride, 0))

    template = record(kernel, device, 1, x, ()).program.templates[0]
    return {name: int(column[-1]) for name, column in template_schedule(template, device).columns.items()}


@pytest.mark.parametrize(("device", "ratio"), [(DEVICE, 1.28), (A5, 1.02)])
def test_an_odd_pitch_takes_longer(device, ratio):
    """64 rows of 2 KiB of a matrix of 12287 against 12288 halves (asc-devkit docs, data_copy example, both devices)."""
    even, odd = (columns(device, 64, 2048, 2 * c - 2048, store=False)["bytes"] for c in (12288, 12287))
    assert even == 64 * 2048
    assert odd / even == pytest.approx(ratio, rel=0.03)


def test_better_pitches_cost_less():
    """Catlass ranks multiples of 256, 128, 64 and 16 halves and others; multiples of 64, 128 B, cost alike here."""
    pitches = (4096, 4096 + 128, 4096 + 64, 4096 + 16, 4096 + 1)
    charged = [columns(DEVICE, 64, 512, 2 * pitch - 512, store=False)["bytes"] for pitch in pitches]
    assert charged[0] == charged[1] == charged[2] == 64 * 512
    assert charged[2] < charged[3] < charged[4]


@pytest.mark.parametrize(("stride", "piece"), [(24448, 128), (24448 + 32, 512)])
def test_short_rows_miss_by_lines_unless_aligned(stride, piece):
    """Bursts that keep to 128 B come from HBM as such (measured: as fast as long rows), others in pieces of 512 B."""
    got = columns(DEVICE, 64, 128, stride, store=False)
    starts = [(128 + stride) * i for i in range(64)]
    missed, hit = (
        sum(len({byte // n for byte in range(start, start + 128)}) for start in starts) for n in (piece, 128)
    )
    assert (got["bytes"], got["bytes_hit"]) == (missed * piece, hit * 128)


@pytest.mark.parametrize(
    ("count", "length", "odd"), [(1, 4, 1), (64, 4, 64), (8, 64, 0), (3, 510, 3), (3, 514, 1), (3, 544, 0)]
)
def test_bursts_that_end_within_a_datablock_cost_more_on_their_way_out(count, length, odd):
    stored, even = (
        columns(DEVICE, c, n, 512, store=True) for c, n in ((count, length), (count, -(-length // 32) * 32))
    )
    assert stored["startup"] - even["startup"] == 96 * odd
    assert columns(DEVICE, count, length, 512, store=False)["startup"] in (250, 25)


def test_one_element_is_charged_a_piece():
    got = columns(DEVICE, 1, 4, 0, store=True, kind=FLOAT)
    assert (got["bytes"], got["startup"]) == (128, 142 + 96)
