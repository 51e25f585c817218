"""The table of all codes, part 6: calls of FlashAttentionScoreGrad."""

from dataclasses import replace

from codes_harness import A310P, B2, entry

from ascendsim.device import load_device
from ascendsim.errors import InputError, Rejected
from ascendsim.fag import of_graph, run
from ascendsim.fag_answer import answer
from ascendsim.fag_notes import notes
from ascendsim.fag_request import Request
from ascendsim.op_host import flash_attention_score_grad as fag
from ascendsim.op_host.fag_buffering import Buffering, buffered
from ascendsim.op_host.fag_call import FagCall, read_shape
from ascendsim.op_host.fag_kernels import kernel_tiling
from ascendsim.op_host.fag_platform import fag_platform
from ascendsim.op_host.fag_result import TileOverride
from ascendsim.op_host.fag_tiling import fag_tiling

CALL = fag.FagParams("bf16", "BNSD", B=1, N2=8, S1=2048, S2=2048, D=128)
TND = fag.FagParams(
    *("bf16", "TND"), N2=8, D=128, q_lens=(2048,), kv_lens=(2048,), atten_mask=(2048, 2048), sparse_mode=3,
    query_rope="[T1,N1,64]", key_rope="[T2,N2,64]",
)  # fmt: skip
"""With rotary parts."""


def found(params, soc=B2):
    return tuple(reason.finding for reason in fag.get_workspace_size(params, soc).reasons)


def calls(code, trigger, *texts, of=CALL, soc=B2):
    """A line of a call, given by what differs from the ordinary one, which is the neighbour."""
    entry(code, lambda: found(replace(of, **trigger), soc), lambda: found(of), *texts)


calls("E-FAG-NULL", {"tensors": {"query": None}}, ("query is null", "pass the tensor"))
calls(
    "E-FAG-DTYPE",
    {"drop_mask": "[B,N1,S1,S2]", "keep_prob": 0.9, "tensors": (fag.TensorGiven("dropMask", dtype="fp16"),)},
    ("dropMask has type FLOAT16; the current interface takes UINT8", "convert the tensor"),
)
calls("E-FAG-PARAM", {"head_num": 0}, ("headNum = 0: must be positive", "pass the number of heads of query"))
calls(
    "E-FAG-SHAPE",
    {"tensors": {"dy": (2048, 1024)}},
    ("dy has 2 axes, at least 3 are needed", "give it the axes of the layout"),
)
calls(
    "E-FAG-MASK",
    {"keep_prob": 1.5},
    ("keep_prob = 1.5: must be above 0 and at most 1", "change it as the message says"),
)
calls("E-FAG-ROPE", {"drop_mask": (8,)}, ("queryRope and keyRope with dropMask", "leave one out"), of=TND)
calls(
    "E-FAG-PRODUCT",
    {},
    (
        "FlashAttentionScoreGrad has no kernel for Ascend310P3 (arch 2002); it has for arch 2201",
        "pick a part of architecture 2201",
    ),
    soc=A310P,
)


def prescribed(rows):
    """What does not fit with vector sub-tiles of so many rows."""
    return answer(Request(CALL, B2, "current", TileOverride(vec_s1=rows))).findings


SMALLER = "prescribe a smaller tile, or leave the choice to the operator"
entry(
    "E-FAG-FIT",
    lambda: prescribed(33),
    lambda: prescribed(32),
    ("S needs 34304 B, its place has 33792 B", SMALLER),
    ("dA, then dS needs 34304 B, its place has 33792 B", SMALLER),
    ("temp of select, softmax, dropout, NZ needs 34304 B, its place has 33792 B", SMALLER),
)


def kernel_of(priority=15500, tile=512, **asked):
    """What is told of a call whose kernel gets this score tile and these buffers."""
    call = replace(CALL, D=64)
    platform = fag_platform(load_device(B2))
    tiling = fag_tiling(call, load_device(B2), priority=priority, override=TileOverride(cv_s1=tile, cv_s2=256))
    try:
        buffered(kernel_tiling(FagCall(call, read_shape(call), platform), tiling, ()), Buffering(**asked))
    except Rejected as error:
        return error.findings
    return ()


entry(
    "E-FAG-BUFFERING",
    lambda: kernel_of(look_ahead=2, score_buffers=2, l0_buffers=5),
    lambda: kernel_of(look_ahead=2, score_buffers=3, l0_buffers=2),
    (
        "score_buffers = 2: with a look-ahead of 2, 3 blocks have their S and dA in GM at the same time",
        "give score_buffers = 3 or more, or look less far ahead",
    ),
    ("l0_buffers = 5: so many buffers of 32768 B are more than the 65536 B of L0A", "give at most 2 buffers"),
)
entry(
    "E-FAG-TILE",
    lambda: kernel_of(tile=200),
    lambda: kernel_of(tile=208),
    (
        "cv_s1 = 200: must be a multiple of 16, rows and columns of a fractal",
        "prescribe a multiple of 16, or leave the choice to the operator",
    ),
)


# ---- calls that run ------------------------------------------------------------------------------------------------


def noted(given, **changes):
    """What is told of a call that has these tensors."""
    return tuple(notes(replace(CALL, **changes), given, None))


entry(
    "I-FAG-IGNORED",
    lambda: noted(("query", "padding_mask")),
    lambda: noted(("query",)),
    ("paddingMask is given: the operator does not read it", "leave it out"),
)
entry(
    "I-FAG-DPSE",
    lambda: noted(("query", "dpse")),
    lambda: noted(("query",)),
    (
        "dpse is given: the operator never writes it",
        "leave it out; the gradient of pseShift is dS, times scaleValue for pseType 1, summed over where pseShift goes",
    ),
)
entry(
    "W-FAG-HIDDEN",
    lambda: noted(("atten_mask",), S1=2050, sparse_mode=3),
    lambda: noted(("atten_mask",), S1=2048, sparse_mode=3),
    (
        (
            "all keys of 16 rows are hidden: their P is 1/2048 = 0.0004883 in the blocks that the kernel computes, and "
            "0 in a reference that leaves such rows out; every batch and head: rows 0..1"
        ),
        "let each query see a key, or take no notice of these rows' dq and of what they add to dk and dv",
    ),
)


def handed(missing_bytes):
    """What phase two says to a workspace that lacks so many bytes; without a kernel it goes no further."""
    report = fag.get_workspace_size(CALL, B2)
    try:
        run(report, {}, report.workspace_bytes - missing_bytes)
    except Rejected as error:
        return error.findings
    except InputError:
        return ()


entry(
    "E-CAP-WORKSPACE",
    lambda: handed(1),
    lambda: handed(0),
    (
        "the workspace has 147392511 B, phase one asked for 147392512 B: 1 B of it would lie behind its end",
        "allocate what phase one answers: workspace_bytes=147392512",
    ),
)


def around(d):
    """What is told of operators around the kernel."""
    return tuple(of_graph(fag.get_workspace_size(replace(CALL, D=d), B2)))


entry(
    "I-FAG-GRAPH",
    lambda: around(120),
    lambda: around(128),
    (
        (
            "the interface pads or transposes query, key, value, dy, attentionIn, dq, dk, dv around the kernel, in "
            "33554432 B beside its workspace: values are there, the cycles are the kernel's alone"
        ),
        "give tensors as the kernel takes them: D in whole 16, from 128 on in whole 128, and short strides",
    ),
)
