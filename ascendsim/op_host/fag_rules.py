"""What can be wrong with a call of FlashAttentionScoreGrad, as rules. A rule says nothing of the status: `Reason` does.

Where one code stands for several mistakes the variants say which. Which status goes with which is beside the check, in
fag_interface, fag_below and fag_versions. What the tiling refuses it says in its own words; the argument that they
start with tells the code.
"""

from dataclasses import dataclass
from typing import Final

from ascendsim.errors import Finding, Rule

PAGE: Final = "ops-transformer docs, aclnnFlashAttentionScoreGrad page"
OP_API: Final = "ops-transformer, op_api of flash_attention_score_grad"
TILING: Final = "ops-transformer, host tiling of flash_attention_score_grad"
ARCHS: Final = (2201,)

NULL = Rule(
    "E-FAG-NULL",
    "{operand} is null",
    "pass the tensor",
    f"{OP_API}; {PAGE}, return codes",
    condition="A tensor that FlashAttentionScoreGrad cannot do without is a null pointer.",
    archs=ARCHS,
)
NULL_ROPE = NULL.saying(
    "{operand} is null, but the other of queryRope and keyRope is given", "pass both or none", OP_API
)
NULL_ROPE_MASK = NULL.saying(
    "queryRope and keyRope are given, but attenMask is {got}", "pass the mask: rotary parts need one", OP_API
)

DTYPE = Rule(
    "E-FAG-DTYPE",
    "{operand} has type {got}; the {version} interface takes {wanted}",
    "convert the tensor",
    f"{PAGE}, return codes",
    condition="A tensor of FlashAttentionScoreGrad has a type or a format that its interface does not take, or types "
    "that do not go together.",
    archs=ARCHS,
)
FORMAT = DTYPE.saying("{operand} has format {got}; the {version} interface takes {wanted}")
UNEQUAL = DTYPE.saying(
    "{operand} has type {got}, query has {wanted}: no kernel is registered for the pair",
    "give both the same type",
    "ops-transformer, definition of flash_attention_score_grad: one type for all; the status is inferred",
)
ROPE_DTYPE = DTYPE.saying(
    "{operand} has type {got}; with queryRope and keyRope it must be {wanted}", "use BFLOAT16", OP_API
)

PARAM = Rule(
    "E-FAG-PARAM",
    "headNum = {got}: must be positive",
    "pass the number of heads of query",
    OP_API,
    condition="An argument of FlashAttentionScoreGrad that is no tensor has a value that the interface refuses.",
    archs=ARCHS,
)
NOT_TND = PARAM.saying(
    "inputLayout = {got}: {operand} belongs to an interface that takes {wanted} only",
    "use layout TND, or leave the argument out",
)
SOFTMAX_LAYOUT = PARAM.saying(
    'softmaxInLayout = "{got}": must be "same_as_input" or empty', 'pass "same_as_input" or nothing'
)
MIXED = PARAM.saying(
    "softmaxInLayout and {operand} are given: no version of the interface takes both",
    "leave one out",
    "ops-transformer docs, V2 to V4 pages: their parameter lists",
)

SHAPE = Rule(
    "E-FAG-SHAPE",
    "{operand} = {got}: outside the limits of the {version} interface, {wanted}",
    "stay inside the limits, or say which version is meant",
    f"{PAGE}, constraints",
    condition="A dimension of a call of FlashAttentionScoreGrad is outside what its interface or its tiling takes, or "
    "does not go with another.",
    archs=ARCHS,
)
RANK = SHAPE.saying("{operand} has {got} axes, at least {wanted} are needed", "give it the axes of the layout", OP_API)
RANK_LAYOUT = SHAPE.saying(
    "{operand} has {got} axes, layout {layout} needs {wanted}", "give it the axes of the layout", OP_API
)
NO_D = SHAPE.saying(
    "head size D = {h} // headNum {heads} = 0", "headNum must not be larger than the last axis of query", OP_API
)
KEY_D = SHAPE.saying(
    "head size of key {got} differs from that of query {wanted}", "give query and key the same D", OP_API
)
VALUE_D = SHAPE.saying(
    "head size of value {got} is above that of key {wanted}", "give value a head size of at most D", OP_API
)
ROPE_D = SHAPE.saying(
    "head size of {operand} {got} is above that of query {wanted}", "give it a head size of at most D", OP_API
)
NO_PAD_OF_192 = SHAPE.saying(
    "D = 192 with Dv = 128 keeps its value unpadded, but query and key are padded to {wanted} for the transpose",
    "use layout BNSD, or an S-stride of at most 65535 elements",
    f"{OP_API}: the reshape or the view copy of value then fails; inferred",
)
RATIO = SHAPE.saying(
    "{got} query heads are no multiple of {wanted} key heads", "let the number of key heads divide that of query heads"
)
OUTPUT = SHAPE.saying(
    "{operand} is {got}, the gradient is {wanted}",
    "give it the shape of its tensor",
    f"{OP_API}: the copy into the caller's tensor fails; inferred",
)

MASK = Rule(
    "E-FAG-MASK",
    "prefix of batch {operand} is {got}, should be {wanted}",
    "keep the prefix inside the keys",
    f"{PAGE}, constraints on prefix",
    condition="Mask, dropout, position bias or softmax statistics of a call of FlashAttentionScoreGrad do not go with "
    "each other or with the scores.",
    archs=ARCHS,
)

ROPE = Rule(
    "E-FAG-ROPE",
    "queryRope and keyRope with {what}",
    "leave one out",
    OP_API,
    condition="FlashAttentionScoreGrad gets rotary parts beside something that it does not take with them.",
    archs=ARCHS,
)

PRODUCT = Rule(
    "E-FAG-PRODUCT",
    "FlashAttentionScoreGrad has no kernel for {got}; it has for {wanted}",
    "pick a part of architecture 2201",
    "ops-transformer, definition of flash_attention_score_grad: ascend910b and ascend910_93",
    condition="The part has an architecture for which FlashAttentionScoreGrad is not registered.",
)


_AS_IT_SAYS: Final = "change it as the message says"

TILED_NULL = NULL.saying("{what}", _AS_IT_SAYS, TILING)
TILED_SHAPE = SHAPE.saying("{what}", _AS_IT_SAYS, TILING)
TILED_DTYPE = DTYPE.saying("{what}", _AS_IT_SAYS, TILING)
TILED_PARAM = PARAM.saying("{what}", _AS_IT_SAYS, TILING)
TILED_MASK = MASK.saying("{what}", _AS_IT_SAYS, TILING)


@dataclass(frozen=True, slots=True)
class Reason:
    """One violated rule of a call.

    Attributes:
        finding: which rule, where, what was found and what was wanted, how to mend it, and who says so.
        status: what a call answers that breaks this rule alone; None for a limit of the page that it ties to no return
            code: the call goes on.
    """

    finding: Finding
    status: int | None

    @property
    def code(self) -> str:
        """Code word of the rule, such as "E-FAG-NULL"."""
        return self.finding.code

    @property
    def what(self) -> str:
        """What is wrong."""
        return self.finding.message

    @property
    def where(self) -> str:
        """The function and its argument."""
        return self.finding.where

    @property
    def got(self) -> str:
        """What was found."""
        return self.finding.got

    @property
    def wanted(self) -> str:
        """What would be right."""
        return self.finding.wanted

    @property
    def source(self) -> str:
        """Public document that states the rule."""
        return self.finding.source

    def __str__(self) -> str:
        return f"{self.status or 'no code'} {self.finding}"
