"""The table of all codes, part 7: calls of ATB operations."""

from dataclasses import replace

import numpy as np
from codes_harness import A310P, B2, entry

from ascendsim import atb
from ascendsim.fsg_operator import FsgKeys, fsg_notes

CALL = atb.FastSoftMaxGradParam(2, [16, 32])


def found(params=CALL, inputs=None, soc=B2, outputs=None):
    return atb.setup(params, [CALL.desc] * 2 if inputs is None else inputs, soc, outputs).findings


def calls(code, trigger, *texts):
    """A line of a call, given by what differs from the ordinary one, which is the neighbour."""
    entry(code, lambda: found(**trigger), found, *texts)


calls(
    "E-ATB-PARAM",
    {"params": replace(CALL, headNum=0)},
    ("headNum = 0: must be greater than 0", "pass the number of heads"),
)
calls("E-ATB-PARAM", {"soc": A310P})
calls(
    "E-ATB-INNUM",
    {"inputs": [CALL.desc]},
    ("1 input tensors: FastSoftMaxGradOperation takes 2, yInput, yGrad", "pass these"),
)
calls(
    "E-ATB-INI",
    {"inputs": [CALL.desc, replace(CALL.desc, dtype="float")]},
    ("yGrad is float nd: FastSoftMaxGradOperation takes float16 nd", "convert the tensor"),
)
calls(
    "E-ATB-DIMNUM",
    {"inputs": [replace(CALL.desc, dims=(2, 1280)), CALL.desc]},
    (
        "yInput has 2 axes [2, 1280]: must have one, [nSquareTokens]",
        "flatten it: items one behind the other, each [headNum, n, n]",
    ),
)
calls("E-ATB-DIM", {"inputs": [replace(CALL.desc, dims=(16,)), CALL.desc]})
calls(
    "E-ATB-SIZE",
    {"outputs": [replace(CALL.desc, dims=(16,))]},
    ("output has 16 elements, yInput 2560", "give it yInput's size"),
)
LARGE = atb.FastSoftMaxGradParam(8, [4096] * 32)
calls("E-ATB-KERNEL", {"params": LARGE, "inputs": [LARGE.desc] * 2})


def noted(value):
    """What is told of rows that all hold one value."""
    y = np.repeat(value, [16, 64]).astype(np.float16)
    return fsg_notes({}, FsgKeys(head_num=1, q_seq_len=[4, 8]), {"y_input": y})


entry("I-FSG-ROWSUM", lambda: noted([0.25, 0.25]), lambda: noted([0.25, 0.125]))
