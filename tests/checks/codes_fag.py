"""The table of all codes, part 6: calls of FlashAttentionScoreGrad."""

from dataclasses import replace

from codes_harness import A310P, B2, entry

from ascendsim.fag_answer import answer
from ascendsim.fag_request import Request
from ascendsim.op_host import flash_attention_score_grad as fag
from ascendsim.op_host.fag_result import TileOverride

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
