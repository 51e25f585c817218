"""TransDataTo5HD: small worked examples, and the cases of its rules."""

import numpy as np
from lane_harness import DEVICE, Ground, local

from ascendsim.checks import check_rows
from ascendsim.execute import execute
from ascendsim.isa import transpose
from ascendsim.isa.transpose import TransDataTo5HDParams
from ascendsim.record import record

A, B = local("a", "float", 0, 4096), local("b", "float", 0x2000, 4096)
H, G = local("h", "half", 0, 4096), local("g", "half", 0x2000, 4096)
U, V = local("u", "uint8_t", 0, 4096), local("v", "uint8_t", 0x2000, 4096)


def blocks(tensor, step=None):
    """Sixteen datablocks of a tensor, one behind the other or `step` elements apart."""
    step = step or tensor.dtype.per_datablock
    return [tensor[i * step] for i in range(16)]


def run(kernel, *start):
    """UB after one core's kernel; `start` are (tensor, array) pairs."""
    ground = Ground()
    for tensor, values in start:
        ground.write(tensor, values)
    recording = record(kernel, DEVICE, 1, (), ())
    assert recording.findings == check_rows(recording.program, DEVICE) == ()
    assert execute(recording.program, DEVICE, (), ub=ground.ub).findings == ()
    return ground.ub


def array(ub, tensor, count):
    raw = ub.content[tensor.start_bytes : tensor.start_bytes + count * tensor.dtype.bytes]
    return raw.view(tensor.dtype.numpy)


def words_become_rows_of_sixteen():
    """Source datablock i is [10 i, 10 i + 1, .., 10 i + 7]; row j is element j of each: [j, 10 + j, .., 150 + j]."""
    values = (10 * np.arange(16)[:, None] + np.arange(8)).astype(np.float32)
    ub = run(lambda asc: asc.trans_data_to5hd(blocks(B), blocks(A)), (A, values))
    want = [[10 * i + j for i in range(16)] for j in range(8)]
    assert array(ub, B, 128).reshape(8, 16).tolist() == want


def halves_are_a_square():
    values = np.arange(256, dtype=np.float16).reshape(16, 16)
    ub = run(lambda asc: asc.trans_data_to5hd(blocks(G), blocks(H)), (H, values))
    assert array(ub, G, 256).reshape(16, 16).tolist() == values.T.tolist()


def bytes_move_between_halves():
    """The high half of each source datablock becomes the low half of each destination datablock."""
    values = np.arange(512, dtype=np.uint16).astype(np.uint8).reshape(16, 32)
    params = TransDataTo5HDParams(dst_high_half=False, src_high_half=True)
    ub = run(lambda asc: asc.trans_data_to5hd(blocks(V), blocks(U), params), (U, values))
    assert array(ub, V, 512).reshape(16, 32)[:, :16].tolist() == values[:, 16:].T.tolist()
    assert not ub.written[V.start_bytes + 16 : V.start_bytes + 32].any()


def repeats_move_on_by_their_strides():
    """Two repeats: the second reads 16 datablocks further and writes 16 datablocks further."""
    values = np.arange(256, dtype=np.float32)
    params = TransDataTo5HDParams(False, False, 2, 16, 16)
    ub = run(lambda asc: asc.trans_data_to5hd(blocks(B), blocks(A), params), (A, values))
    got = array(ub, B, 256).reshape(2, 8, 16)
    assert got.tolist() == values.reshape(2, 16, 8).transpose(0, 2, 1).tolist()


def in_place_reads_before_it_writes():
    values = np.arange(128, dtype=np.float32)
    ub = run(lambda asc: asc.trans_data_to5hd(blocks(A), blocks(A)), (A, values))
    assert array(ub, A, 128).reshape(8, 16).tolist() == values.reshape(16, 8).T.tolist()


EXAMPLES = {
    "set_va_reg_sb": [words_become_rows_of_sixteen],
    "trans_data_to5hd": [
        words_become_rows_of_sixteen,
        halves_are_a_square,
        bytes_move_between_halves,
        repeats_move_on_by_their_strides,
        in_place_reads_before_it_writes,
    ],
}

CASES = [
    (
        transpose.ALIGN_LIST,
        lambda asc, *_: asc.trans_data_to5hd(blocks(B), blocks(A[1])),
        (
            "TransDataTo5HD: address 0x4 of the list is 4 B past a 32 B boundary",
            "TransDataTo5HD: address 0x104 of the list is 4 B past a 32 B boundary",
        ),
        lambda asc, *_: asc.trans_data_to5hd(blocks(B), blocks(A[8])),
    ),
    (
        transpose.REPEAT_ONE,
        lambda asc, *_: asc.trans_data_to5hd(blocks(B), blocks(A), TransDataTo5HDParams(False, False, 1, 16, 8)),
        (
            "TransDataTo5HD dst stride 16 with one repeat moves the start of the list by as much",
            "TransDataTo5HD src0 stride 8 with one repeat moves the start of the list by as much",
        ),
        lambda asc, *_: asc.trans_data_to5hd(blocks(B), blocks(A), TransDataTo5HDParams(False, False, 2, 16, 16)),
    ),
    (
        transpose.HIGH_HALF,
        lambda asc, *_: asc.trans_data_to5hd(blocks(G), blocks(H), TransDataTo5HDParams(src_high_half=True)),
        ("TransDataTo5HD: high halves exist for 8-bit types only, the type is half",),
        lambda asc, *_: asc.trans_data_to5hd(blocks(V), blocks(U), TransDataTo5HDParams(src_high_half=True)),
    ),
    (
        transpose.OVERLAP_LISTS,
        lambda asc, *_: asc.trans_data_to5hd(blocks(A[8]), blocks(A)),
        ("TransDataTo5HD cannot be in place: dst overlaps src without being the same addresses",),
        (
            lambda asc, *_: asc.trans_data_to5hd(blocks(A), blocks(A)),
            lambda asc, *_: asc.trans_data_to5hd(blocks(A[128]), blocks(A)),
        ),
    ),
]
"""(rule, kernel that breaks it, its messages, kernels that just keep it)."""
