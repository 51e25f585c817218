"""FastSoftMaxGradOperation of ATB: parameters, checks in the operation's order, and its answer.

For each item i of the batch, of length n_i, each head and each of the n_i rows:
    xGrad = y * (g - sum_j y_j * g_j),   y a row of yInput, g the row of yGrad.
Items lie one behind the other as [headNum, n_i, n_i] without padding: nSquareTokens = headNum * sum_i n_i^2 elements.

Source: FastSoftMaxGradOperation page (ATB train_op_params); ascend-transformer-boost, ops_train/fast_soft_max_grad
(checks), mixkernels/fastsoftmaxgrad (what the kernel repeats), published cases of the operation.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ascendsim.device import Platform
from ascendsim.errors import Finding, InputError, Rule
from ascendsim.op_host.atb import (
    ATB_ARCHS,
    DIM,
    DIM_NUM,
    INT32_END,
    INT64_MAX,
    KERNEL,
    PARAM,
    RSV,
    SIZE,
    UINT32_MAX,
    OperationIni,
    Refusal,
    SetupReport,
    Soc,
    Stage,
    TensorDesc,
    TensorIni,
    find_soc,
    first_refusal,
    in_num_reasons,
    ini_reasons,
    out_num_reasons,
    product_reasons,
    rsv_bytes,
    rsv_reasons,
    shape_reasons,
    whole_number,
    whole_numbers,
)
from ascendsim.op_host.fsg_tiling import FsgTiling, fsg_tiling
from ascendsim.terms import DEFAULT_SOC

NAME: Final = "FastSoftMaxGradOperation"
MAX_ITEMS: Final = 32
"""Items of qSeqLen (page)."""
MAX_LENGTH: Final = 4096
"""Longest item; the page does not say it, creation and kernel do."""
_PAGE: Final = f"{NAME} page"
_OP: Final = "ascend-transformer-boost, ops_train/fast_soft_max_grad"

INI: Final = OperationIni(
    NAME,
    inputs=(TensorIni("yInput", ("float16",), ("nd",)), TensorIni("yGrad", ("float16",), ("nd",))),
    outputs=(TensorIni("output", ("float16",), ("nd",)),),
)

NO_ITEM = PARAM.saying(
    "qSeqLen is empty: must have 1 .. {wanted} lengths", "pass the length of each item of the batch", f"{_PAGE}; {_OP}"
)
MANY_ITEMS = PARAM.saying(
    "qSeqLen has {got} lengths: at most {wanted}", "cut the batch into several calls", f"{_PAGE}; {_OP}"
)
NOT_POSITIVE = PARAM.saying("qSeqLen[{index}] = {got}: must be greater than 0", "leave the item out", f"{_PAGE}; {_OP}")
TOO_LONG = PARAM.saying(
    "qSeqLen[{index}] = {got}: at most {wanted}, a limit that the page does not name",
    "split longer sequences before; the operation takes none above that",
    f"{_OP}: upper limit of a length, checked at creation; the page says only greater than 0",
)
HEADS = PARAM.saying("headNum = {got}: must be greater than 0", "pass the number of heads", f"{_PAGE}; {_OP}")
OVERFLOW = PARAM.saying(
    "headNum * sum of squares = {got}: must not be above {wanted}, the largest int64", "use fewer heads", _OP
)
ONE_AXIS = DIM_NUM.saying(
    "{operand} has {got} axes {dims}: must have one, [nSquareTokens]",
    "flatten it: items one behind the other, each [headNum, n, n]",
    f"{_PAGE}; {_OP}",
)
N_SQUARE = DIM.saying(
    "{operand} has {got} elements: must have nSquareTokens = headNum * sum of squares = {wanted}",
    "pass all items without padding, or the lengths that it has",
    f"{_PAGE}; {_OP}",
)
OUT_AXIS = DIM.saying(
    "output has {got} axes {dims}: must have one, [nSquareTokens]", "flatten it", f"{_OP}: named a wrong axis, not rank"
)
OUT_SIZE = SIZE.saying("output has {got} elements, yInput {wanted}", "give it yInput's size", _OP)
UINT32 = KERNEL.saying(
    "sum of squares of qSeqLen = {got}: the kernel counts elements in 32 bits; must be below {wanted} = "
    "floor((2^32 - 1) / headNum)",
    "cut the batch into several calls; no published check names this limit before setup",
    "ascend-transformer-boost, mixkernels/fastsoftmaxgrad: the kernel's shape inference; ops_runner for the error",
)

ROW_SUM = Rule(
    "I-FSG-ROWSUM",
    "{got} of {rows} rows of yInput do not sum to 1, the furthest to {furthest:.4g}: the operation does not ask for "
    "it, but its result is then no gradient of a softmax",
    "pass the output of FastSoftMax, or take the values as what the formula gives",
    f"{_PAGE}: the last axis sums to 1; {_OP}: no check, and published cases pass uniform data",
    condition="Rows of yInput of a FastSoftMaxGrad call that runs do not sum to 1.",
    archs=ATB_ARCHS,
)


@dataclass(frozen=True, slots=True)
class FastSoftMaxGradParam:
    """Parameters by the names of the page.

    Attributes:
        headNum: attention heads, int32.
        qSeqLen: actual length of each item of the batch, int32.
        rsv: eight reserved bytes.

    Raises:
        InputError: a value that these types cannot hold. What the operation refuses it refuses at creation.
    """

    headNum: int = 0  # noqa: N815 - the page's name
    qSeqLen: Sequence[int] = ()  # noqa: N815 - the page's name
    rsv: Sequence[int] = (0,) * RSV

    def __post_init__(self) -> None:
        whole_number("headNum", self.headNum, -INT32_END, INT32_END)
        object.__setattr__(self, "qSeqLen", whole_numbers("qSeqLen", self.qSeqLen, -INT32_END, INT32_END))
        object.__setattr__(self, "rsv", rsv_bytes(self.rsv))

    @property
    def head_num(self) -> int:
        """HeadNum."""
        return self.headNum

    @property
    def q_seq_len(self) -> tuple[int, ...]:
        """QSeqLen."""
        return tuple(self.qSeqLen)

    @property
    def sum_of_squares(self) -> int:
        """Elements of one head of all items."""
        return sum(n * n for n in self.qSeqLen)

    @property
    def n_square_tokens(self) -> int:
        """Elements of each tensor."""
        return self.headNum * self.sum_of_squares

    @property
    def desc(self) -> TensorDesc:
        """What each tensor must be."""
        return TensorDesc("float16", "nd", (self.n_square_tokens,))


def create_reasons(params: FastSoftMaxGradParam, soc: Soc) -> Iterator[Finding]:
    """Yield what creation refuses, in its order."""
    where = f"{NAME}.qSeqLen"
    yield from product_reasons(NAME, soc)
    if not params.qSeqLen:
        yield NO_ITEM.finding(where, operand="qSeqLen", got=0, wanted=MAX_ITEMS)
    if len(params.qSeqLen) > MAX_ITEMS:
        yield MANY_ITEMS.finding(where, operand="qSeqLen", got=len(params.qSeqLen), wanted=MAX_ITEMS)
    for index, n in enumerate(params.qSeqLen):
        if n <= 0:
            yield NOT_POSITIVE.finding(where, operand="qSeqLen", got=n, wanted="> 0", fill={"index": index})
        elif n > MAX_LENGTH:
            yield TOO_LONG.finding(where, operand="qSeqLen", got=n, wanted=MAX_LENGTH, fill={"index": index})
    if params.headNum <= 0:
        yield HEADS.finding(f"{NAME}.headNum", operand="headNum", got=params.headNum, wanted="> 0")
    elif params.n_square_tokens > INT64_MAX:
        yield OVERFLOW.finding(f"{NAME}.headNum", operand="headNum", got=params.n_square_tokens, wanted=INT64_MAX)
    yield from rsv_reasons(NAME, params.rsv)


def input_reasons(params: FastSoftMaxGradParam, inputs: Sequence[TensorDesc]) -> Iterator[Finding]:
    """Yield what shape inference refuses, in its order; setup repeats it."""
    yield from in_num_reasons(INI, inputs)
    if len(inputs) != len(INI.inputs):
        return
    yield from shape_reasons(INI, inputs, INI.inputs)
    yield from ini_reasons(INI, inputs, INI.inputs)
    named = [(f"{NAME} {one.name}", one.name, desc) for one, desc in zip(INI.inputs, inputs, strict=True)]
    for where, name, desc in named:
        if len(desc.dims) != 1:
            fill = {"dims": list(desc.dims)}
            yield ONE_AXIS.finding(where, operand=name, got=len(desc.dims), wanted=1, fill=fill)
    for where, name, desc in named:
        if desc.dims[0] != params.n_square_tokens:
            yield N_SQUARE.finding(where, operand=name, got=desc.dims[0], wanted=params.n_square_tokens)


def setup_reasons(
    params: FastSoftMaxGradParam, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]
) -> Iterator[Finding]:
    """Yield what setup refuses: the outputs, then what the kernel takes."""
    yield from out_num_reasons(INI, outputs)
    if len(outputs) != len(INI.outputs):
        return
    yield from shape_reasons(INI, outputs, INI.outputs)
    yield from ini_reasons(INI, outputs, INI.outputs)
    (output,), where = outputs, f"{NAME} output"
    if len(output.dims) != 1:
        fill = {"dims": list(output.dims)}
        yield OUT_AXIS.finding(where, operand="output", got=len(output.dims), wanted=1, fill=fill)
    if output.dims[0] != inputs[0].dims[0]:
        yield OUT_SIZE.finding(where, operand="output", got=output.dims[0], wanted=inputs[0].dims[0])
    limit = UINT32_MAX // params.headNum
    if params.sum_of_squares >= limit:
        yield UINT32.finding(f"{NAME} kernel", operand="qSeqLen", got=params.sum_of_squares, wanted=limit)


def setup(
    params: FastSoftMaxGradParam,
    tensors: Sequence[TensorDesc] | Mapping[str, TensorDesc],
    soc: str | Platform = DEFAULT_SOC,
    outputs: Sequence[TensorDesc] | None = None,
) -> SetupReport[FsgTiling]:
    """Return what the operation answers: creation, shape inference and setup, one after the other.

    Args:
        params: of the operation.
        tensors: descriptions of yInput and yGrad in this order, or by these names; "output" may be among names.
        soc: the part.
        outputs: description of the output; None for the one that shape inference gives.

    Raises:
        InputError: tensors that are no descriptions, or names that the operation does not have.
        DeviceError: no such part.
    """
    inputs, given = _named_tensors(tensors, outputs)
    found = find_soc(soc)
    refusal = refusal_of(params, inputs, given, found)
    notes = (found.note,) if found.note else ()
    inferred = inputs[:1] if refusal is None or refusal.stage is Stage.SETUP else ()
    if refusal is not None or found.device is None:
        return SetupReport(NAME, found.name, refusal, inferred, notes=notes)
    tiling = fsg_tiling(params.headNum, params.q_seq_len, found.device.aiv, found.device.ub_bytes)
    return SetupReport(NAME, found.name, None, inferred, tiling, notes=notes)


def refusal_of(
    params: FastSoftMaxGradParam, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc] | None, soc: Soc
) -> Refusal | None:
    """Return the first refusal of the three stages, None for a call that is accepted.

    Args:
        params: of the operation.
        inputs: descriptions of yInput and yGrad.
        outputs: of the output; None for what shape inference gives.
        soc: the part.
    """
    return first_refusal(
        (
            (Stage.CREATE, lambda: create_reasons(params, soc)),
            (Stage.INFER_SHAPE, lambda: input_reasons(params, inputs)),
            (Stage.SETUP, lambda: setup_reasons(params, inputs, inputs[:1] if outputs is None else outputs)),
        )
    )


def _named_tensors(
    tensors: Sequence[TensorDesc] | Mapping[str, TensorDesc], outputs: Sequence[TensorDesc] | None
) -> tuple[tuple[TensorDesc, ...], tuple[TensorDesc, ...] | None]:
    """Return (inputs, outputs or None) in the operation's order."""
    names = [one.name for one in (*INI.inputs, *INI.outputs)]
    if isinstance(tensors, Mapping):
        unknown = [name for name in tensors if name not in names]
        if unknown:
            raise InputError(f"tensors: {NAME} has {', '.join(names)}, not {unknown[0]!r}")
        if outputs is None and "output" in tensors:
            outputs = [tensors["output"]]
        tensors = [tensors[one.name] for one in INI.inputs if one.name in tensors]
    for desc in (*tensors, *(outputs or ())):
        if not isinstance(desc, TensorDesc):
            raise InputError(f"tensors: {desc!r} is no TensorDesc(dtype, format, dims)")
    return tuple(tensors), None if outputs is None else tuple(outputs)
