"""What is told of a call of FlashAttentionScoreGrad that runs, as rules; what its phase one refuses is in fag_rules."""

from ascendsim.errors import Rule
from ascendsim.op_host.fag_rules import ARCHS, OP_API, PAGE, TILING

WORKSPACE = Rule(
    "E-CAP-WORKSPACE",
    "the workspace has {got} B, phase one asked for {wanted} B: {operand} of it would lie behind its end",
    "allocate what phase one answers: workspace_bytes={wanted}",
    f"{PAGE}: phase two takes the workspace that phase one asks for",
    condition="The GM workspace handed to a FlashAttentionScoreGrad call is smaller than its first phase asked for.",
    archs=ARCHS,
)

TILE = Rule(
    "E-FAG-TILE",
    "{operand} = {got}: must be a multiple of {wanted}, rows and columns of a fractal",
    "prescribe a multiple of {wanted}, or leave the choice to the operator",
    "ops-transformer op_kernel, flash_attention_score_grad: score tiles are products of the Cube",
    condition="A score tile is prescribed to FlashAttentionScoreGrad that is not made of whole fractals.",
    archs=ARCHS,
)

IGNORED = Rule(
    "I-FAG-IGNORED",
    "{operand} is given: the operator does not read it",
    "leave it out",
    f"{OP_API} and kernels",
    condition="A call of FlashAttentionScoreGrad has an argument that the operator accepts and does not read.",
    archs=ARCHS,
)
IGNORED_PRECISION = IGNORED.saying(
    "innerPrecise = {got}: no tiling and no kernel of the backward reads it; rows all of whose keys are hidden stay as "
    "they are",
    "leave it at 0",
    f"{TILING}; kernels; the seed page gives 0 and 1 a meaning, {PAGE} 2",
)
IGNORED_DROP = IGNORED.saying(
    "dropMask is given, and keepProb is 1: nothing is dropped", "leave the mask out, or give keepProb below 1", TILING
)
IGNORED_PREFIX = IGNORED.saying(
    "prefix is given: sparseMode {got} does not read it, only 5 and 6 do", "leave it out", TILING
)
DPSE = Rule(
    "I-FAG-DPSE",
    "dpse is given: the operator never writes it",
    "leave it out; the gradient of pseShift is dS, times scaleValue for pseType 1, summed over where pseShift goes",
    f"{PAGE}: the output is not used yet; no kernel stores it",
    condition="A call of FlashAttentionScoreGrad has a tensor for dpse, which stays as it is.",
    archs=ARCHS,
)
GRAPH = Rule(
    "I-FAG-GRAPH",
    "the interface pads or transposes {operand} around the kernel, in {got} B beside its workspace: values are there, "
    "the cycles are the kernel's alone",
    "give tensors as the kernel takes them: D in whole 16, from 128 on in whole 128, and short strides",
    OP_API,
    condition="Operators that pad or transpose stand around the kernel of a FlashAttentionScoreGrad call.",
    archs=ARCHS,
)
HIDDEN = Rule(
    "W-FAG-HIDDEN",
    "all keys of {got} rows are hidden: their P is 1/{keys} = {p:.4g} in the blocks that the kernel computes, and 0 in "
    "a reference that leaves such rows out; {rows}",
    "let each query see a key, or take no notice of these rows' dq and of what they add to dk and dv",
    "ops-transformer op_kernel, flash_attention_score_grad: a hidden score is the lowest float, in every template",
    condition="A mask hides all keys of a query from FlashAttentionScoreGrad, which then weighs them all alike.",
    archs=ARCHS,
)
