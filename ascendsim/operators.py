"""The operators a scenario can name: host side, kernel, and the tensors they take."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, field_validator

from ascendsim import lag_operator
from ascendsim.device import Device
from ascendsim.dtypes import FLOAT, HALF, INT8, INT32, DType
from ascendsim.errors import Finding, InputError
from ascendsim.fag_operator import (
    FORWARD,
    INPUTS,
    MADE,
    OPTIONAL,
    OUTPUTS,
    PRESCRIBED,
    UNWRITTEN,
    FagKeys,
    fag_block_dim,
    fag_host,
    fag_made,
    fag_notes,
    fag_reference,
    fag_work,
    fag_workspace_bytes,
)
from ascendsim.fsg_operator import PRESCRIBED as FSG_PRESCRIBED
from ascendsim.fsg_operator import (
    QUEUE_NUMS,
    FsgKeys,
    fsg_block_dim,
    fsg_host,
    fsg_notes,
    fsg_parts,
    fsg_reference,
    fsg_work,
)
from ascendsim.fsg_operator import TENSORS as FSG_TENSORS
from ascendsim.op_host.fag_kernels import FagKernelTiling
from ascendsim.op_host.matmul import (
    BIAS_QUEUES,
    QUEUES,
    MatmulChoice,
    MatmulTensors,
    MatmulTiling,
    blocks_of_core,
    matmul_tiling,
)
from ascendsim.op_host.softmax_grad_operator import SoftmaxGradOperatorTiling, TmpBytes, operator_tiling, split_note
from ascendsim.op_host.softmax_outcome import SoftMaxTiling
from ascendsim.op_kernel.fag_operator import flash_attention_score_grad
from ascendsim.op_kernel.fast_softmax_grad_operator import fast_softmax_grad
from ascendsim.op_kernel.laser_attention_grad import laser_attention_grad
from ascendsim.op_kernel.matmul import matmul, matmul_bias
from ascendsim.op_kernel.softmax_grad_operator import softmax_grad_operator
from ascendsim.record import Kernel
from ascendsim.reference import matmul as matmul_reference
from ascendsim.reference.softmax_grad import softmax_grad, softmax_grad_bound
from ascendsim.terms import DATABLOCK_BYTES, CoreKind, KernelType
from ascendsim.work import Work

Array = NDArray[Any]
Shapes = Mapping[str, tuple[tuple[int, ...], DType]]


class SoftmaxGradTiling(BaseModel):
    """Keys of [tiling] of the softmax_grad operator."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    tile_m: int = Field(ge=1)
    tmp_bytes: TmpBytes = "max"
    is_front: bool = False
    ori_k: int | None = None
    split_m: int | None = Field(default=None, ge=1)
    """Rows that SoftmaxGrad works off at once, instead of what SoftMaxGradTilingFunc gives for the temp."""

    @field_validator("tmp_bytes", mode="before")
    @classmethod
    def _number_or_word(cls, value: object) -> object:
        if isinstance(value, bool) or not (isinstance(value, int) or value in ("min", "max", "framework")):
            raise ValueError(f'{value!r}: must be a number of bytes, or "min", "max", "framework"')
        return value


Wanted = Mapping[str, Array] | None
"""By tensor: a flag for each element; None for all elements of all."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What an operator's output should be, and how far it may be off, elementwise (None: no bound known)."""

    values: Array
    bound: Array | None
    note: str = ""
    """What to know of it."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A shipped operator."""

    name: str
    tensors: tuple[str, ...]
    outputs: tuple[str, ...]
    """Those of its tensors that it writes."""
    queues: Mapping[str, int]
    """Its queues, with the default number of buffers."""
    tiling_model: type[BaseModel]
    kernel: Kernel
    host: Callable[[Device, Shapes, Any, Mapping[str, int]], Any]
    """(device, shapes of the tensors, validated [tiling], buffers of each queue) -> what the kernel takes last."""
    reference: Callable[[Mapping[str, Array], Any, Mapping[str, DType], Device, Wanted], dict[str, Reference]]
    """(inputs, validated [tiling], types of the outputs, device, elements of the outputs that are looked at) ->
    reference of each output."""
    shapes: Callable[[tuple[int, ...], DType, Mapping[str, Any]], dict[str, tuple[int, ...]]] | None
    """(shape of its data, dtype, [tiling]) -> shape of each tensor; None where a tiling alone cannot be judged."""
    kernel_type: KernelType | None = None
    """Which cores run it where the device has them apart; None for vector cores."""
    optional: frozenset[str] = frozenset()
    """Those of its tensors that a scenario may leave out."""
    workspace_bytes: Callable[[Any], int] | None = None
    """What `host` returned -> bytes of the workspace that its kernel takes behind its tensors, as floats."""
    block_dim: Callable[[Any], int] | None = None
    """What `host` returned -> blocks to launch where a scenario does not say; None for all of the device."""
    makes: frozenset[str] = frozenset()
    """Inputs that it can make from the others, so that they fit: fill = "operator"."""
    makes_part: frozenset[str] = frozenset()
    """Those of them of which it can make a part."""
    made: Callable[[Mapping[str, Array], Any, Shapes, Wanted], dict[str, Array]] | None = None
    """(inputs that are given, validated [tiling], shapes of those to make, elements of `makes_part` that are read) ->
    float64 values of these."""
    unwritten: frozenset[str] = frozenset()
    """Outputs that it takes and never writes."""
    notes: Callable[[Shapes, Any, Mapping[str, Array]], tuple[Finding, ...]] | None = None
    """(shapes of the tensors, validated [tiling], inputs as far as there are any) -> what to know of the call."""
    parts: Callable[[Any], tuple[tuple[int, int], ...]] | None = None
    """(validated [tiling]) -> (rows, their length) of each part of its flat inputs, for fill = "softmax_rows"."""
    prescribed: frozenset[str] = frozenset()
    """Keys of [tiling] that prescribe what the host else decides."""
    told: Callable[[Any], tuple[Finding, ...]] | None = None
    """What `host` returned -> what the host side tells of a call that it takes."""
    work: Callable[[Any, int], Work] | None = None
    """(what `host` returned, block_dim) -> its floating-point operations, and who does how much of them."""
    derived_names: tuple[str, ...] = ()
    """Names of whole numbers that follow from [tiling]."""
    derived: Callable[[Any], Mapping[str, int | None]] | None = None
    """What `host` returned -> these numbers, None for those that a tiling does not have."""


def _softmax_grad_host(
    device: Device, shapes: Shapes, tiling: SoftmaxGradTiling, nums: Mapping[str, int]
) -> SoftmaxGradOperatorTiling:
    (shape, dtype), (grad_shape, grad_dtype) = shapes["src"], shapes["grad"]
    if dtype not in (HALF, FLOAT):
        raise InputError(f"tensors.src: dtype {dtype}; softmax_grad supports half and float")
    if (shape, dtype) != (grad_shape, grad_dtype):
        raise InputError(
            f"tensors.grad is {grad_dtype} {list(grad_shape)}, tensors.src {dtype} {list(shape)}: must be equal"
        )
    if len(shape) < 1 or 0 in shape:
        raise InputError(f"tensors.src: shape {list(shape)} has no elements")
    k = shape[-1]
    m = 1
    for axis in shape[:-1]:
        m *= axis
    wanted = (m, dtype.per_datablock) if tiling.is_front else shape
    if shapes["dst"] != (wanted, dtype):
        got = shapes["dst"]
        raise InputError(f"tensors.dst is {got[1]} {list(got[0])}, must be {dtype} {list(wanted)}")
    return operator_tiling(
        device,
        (m, k),
        dtype,
        tile_m=tiling.tile_m,
        tmp_bytes=tiling.tmp_bytes,
        is_front=tiling.is_front,
        ori_k=tiling.ori_k,
        nums=(nums["in_grad"], nums["in_p"], nums["out"]),
        split_m=tiling.split_m,
    )


def _softmax_grad_notes(shapes: Shapes, tiling: SoftmaxGradTiling, inputs: Mapping[str, Array]) -> tuple[Finding, ...]:
    """Whether a split_m that was set by hand could come from AscendC's own function."""
    del inputs
    if tiling.split_m is None:
        return ()
    shape, dtype = shapes["src"]
    tile_shape = (min(tiling.tile_m, prod(shape[:-1])), shape[-1])
    return (split_note(tile_shape, dtype, tiling.is_front, tiling.split_m),)


_TEMP_BYTES = "temp_bytes"


def _softmax_grad_derived(t: SoftmaxGradOperatorTiling) -> dict[str, int | None]:
    """The temp in bytes, and the fields of SoftMaxTiling."""
    return {_TEMP_BYTES: t.tmp_bytes, **asdict(t.soft_max_tiling)}


def _softmax_grad_reference(
    inputs: Mapping[str, Array], tiling: SoftmaxGradTiling, outputs: Mapping[str, DType], device: Device, wanted: Wanted
) -> dict[str, Reference]:
    del outputs, device, wanted
    k = inputs["src"].shape[-1]
    grad, src = inputs["grad"].reshape(-1, k), inputs["src"].reshape(-1, k)
    values = softmax_grad(grad, src, is_front=tiling.is_front, ori_k=tiling.ori_k)
    bound = softmax_grad_bound(grad, src, is_front=tiling.is_front, ori_k=tiling.ori_k)
    if tiling.is_front:  # each row sum fills one datablock
        datablock = (len(src), DATABLOCK_BYTES // src.itemsize)
        values, bound = np.broadcast_to(values, datablock), np.broadcast_to(bound, datablock)
    else:  # what padded columns hold is up to the architecture, which may leave them as they are
        bound[:, k if tiling.ori_k is None else tiling.ori_k :] = np.inf
    return {"dst": Reference(values, bound)}


def _softmax_grad_shapes(
    shape: tuple[int, ...], element: DType, tiling: Mapping[str, Any]
) -> dict[str, tuple[int, ...]]:
    rows = (prod(shape[:-1]), element.per_datablock)
    return {"grad": shape, "src": shape, "dst": rows if tiling.get("is_front") is True else shape}


class MatmulKeys(BaseModel):
    """Keys of [tiling] of the matmul operators; see op_host.matmul.MatmulChoice."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    base_m: int | None = Field(default=None, ge=1)
    base_n: int | None = Field(default=None, ge=1)
    base_k: int | None = Field(default=None, ge=1)
    single_core_m: int | None = Field(default=None, ge=1)
    single_core_n: int | None = Field(default=None, ge=1)
    step_k: int | None = Field(default=None, ge=1)
    split_k: int = Field(default=1, ge=1)
    a_transposed: bool = False
    b_transposed: bool = False
    a_full_load: bool = False
    relu: bool = False
    unit_flag: bool = False


_BLOCKS = frozenset({"base_m", "base_n", "base_k", "single_core_m", "single_core_n", "step_k"})
"""Keys of the matmul operators that prescribe blocks."""


def _matmul_host(device: Device, shapes: Shapes, keys: MatmulKeys, nums: Mapping[str, int]) -> MatmulTiling:
    (a_shape, a), (b_shape, b), (_, c) = shapes["a"], shapes["b"], shapes["c"]
    for name, shape in (("a", a_shape), ("b", b_shape)):
        if len(shape) != 2:
            raise InputError(f"tensors.{name}.shape = {list(shape)}: must be a matrix, two axes")
    if a is not b:
        raise InputError(f"tensors.b is {b}, tensors.a {a}: must be equal")
    m, k = reversed(a_shape) if keys.a_transposed else a_shape
    b_k, n = reversed(b_shape) if keys.b_transposed else b_shape
    if k != b_k:
        raise InputError(
            f"tensors.b.shape = {list(b_shape)}: its K is {b_k}, that of tensors.a {k}; must be equal "
            "(tiling.a_transposed and b_transposed say which axis it is)"
        )
    acc = INT32 if a is INT8 else FLOAT
    wanted = {"c": (m, n)} | ({"bias": (n,)} if "bias" in shapes else {})
    for name, shape in wanted.items():
        if shapes[name][0] != shape:
            raise InputError(f"tensors.{name}.shape = {list(shapes[name][0])}: must be {list(shape)}")
    if "bias" in shapes and shapes["bias"][1] is not acc:
        raise InputError(f"tensors.bias: dtype {shapes['bias'][1]}; must be {acc}, as results of {a} are added up")
    tensors = MatmulTensors(m, n, k, a, c, acc, "bias" in shapes)
    return matmul_tiling(device, tensors, MatmulChoice(**keys.model_dump()), nums)


_MATMUL_DERIVED = (
    *("base_m", "base_n", "base_k", "single_core_m", "single_core_n", "single_core_k", "load_ka", "load_kb"),
    *("a1_num", "b1_num", "a2_num", "b2_num", "co1_num"),
)


def _matmul_derived(t: MatmulTiling) -> dict[str, int | None]:
    """Blocks, lengths of loads, and buffers."""
    return {name: getattr(t, name) for name in _MATMUL_DERIVED}


def _matmul_work(t: MatmulTiling, block_dim: int) -> Work:
    own = [blocks_of_core(t, block_dim, core) for core in range(block_dim)]
    return Work(
        flop=2 * t.m * t.n * t.k,
        convention="2 * M * N * K",
        factors=t.ab.name,
        kind=CoreKind.AIC.value,
        blocks=tuple(len(blocks) for blocks in own),
        block_flop=tuple(sum(2 * b.m * b.n * b.k for b in blocks) for blocks in own),
    )


def _matmul_reference(
    inputs: Mapping[str, Array], keys: MatmulKeys, outputs: Mapping[str, DType], device: Device, wanted: Wanted
) -> dict[str, Reference]:
    del device, wanted
    a = inputs["a"].T if keys.a_transposed else inputs["a"]
    b = inputs["b"].T if keys.b_transposed else inputs["b"]
    bias = inputs.get("bias")
    values = matmul_reference.matmul(a, b, bias, relu=keys.relu)
    bound = matmul_reference.matmul_bound(a, b, bias, output=outputs["c"].numpy.name, split_k=keys.split_k)
    return {"c": Reference(values, bound)}


_FAG_DERIVED = ("cv_s1", "cv_s2", "vec_s1", "vec_s2")


def _fag_derived(tiling: FagKernelTiling) -> dict[str, int | None]:
    """The tiles, whoever decided on them."""
    return {name: getattr(tiling.tiling.tiles, name, None) for name in _FAG_DERIVED}


def _fag_work(tiling: FagKernelTiling, block_dim: int) -> Work:
    del block_dim  # the tiling's
    return fag_work(tiling)


def _fag_reference(
    inputs: Mapping[str, Array], keys: FagKeys, outputs: Mapping[str, DType], device: Device, wanted: Wanted
) -> dict[str, Reference]:
    return {name: Reference(*found) for name, found in fag_reference(inputs, keys, outputs, device, wanted).items()}


def _fsg_reference(
    inputs: Mapping[str, Array], keys: FsgKeys, outputs: Mapping[str, DType], device: Device, wanted: Wanted
) -> dict[str, Reference]:
    del wanted
    return {name: Reference(*found) for name, found in fsg_reference(inputs, keys, outputs, device).items()}


def _lag_reference(
    inputs: Mapping[str, Array],
    keys: lag_operator.LagKeys,
    outputs: Mapping[str, DType],
    device: Device,
    wanted: Wanted,
) -> dict[str, Reference]:
    del wanted
    found = lag_operator.lag_reference(inputs, keys, outputs, device)
    return {name: Reference(*values) for name, values in found.items()}


_MATMUL = Operator(
    name="matmul",
    tensors=("a", "b", "c"),
    outputs=("c",),
    queues=QUEUES,
    tiling_model=MatmulKeys,
    kernel=matmul,
    host=_matmul_host,
    reference=_matmul_reference,
    shapes=None,
    kernel_type=KernelType.AIC_ONLY,
    work=_matmul_work,
    prescribed=_BLOCKS,
    derived_names=_MATMUL_DERIVED,
    derived=_matmul_derived,
)

OPERATORS = {
    "softmax_grad": Operator(
        name="softmax_grad",
        tensors=("grad", "src", "dst"),
        outputs=("dst",),
        queues={"in_grad": 2, "in_p": 2, "out": 2},
        tiling_model=SoftmaxGradTiling,
        kernel=softmax_grad_operator,
        host=_softmax_grad_host,
        reference=_softmax_grad_reference,
        shapes=_softmax_grad_shapes,
        derived_names=(_TEMP_BYTES, *(field.name for field in fields(SoftMaxTiling))),
        derived=_softmax_grad_derived,
        notes=_softmax_grad_notes,
        prescribed=frozenset({"split_m"}),
    ),
    "matmul": _MATMUL,
    "matmul_bias": replace(
        _MATMUL,
        name="matmul_bias",
        tensors=("a", "b", "bias", "c"),
        queues=QUEUES | BIAS_QUEUES,
        kernel=matmul_bias,
    ),
    "flash_attention_score_grad": Operator(
        name="flash_attention_score_grad",
        tensors=(*INPUTS, *OUTPUTS, *OPTIONAL),
        outputs=(*OUTPUTS, *UNWRITTEN),
        queues={},
        tiling_model=FagKeys,
        kernel=flash_attention_score_grad,
        host=fag_host,
        reference=_fag_reference,
        shapes=None,
        kernel_type=KernelType.MIX_AIC_1_2,
        optional=frozenset(OPTIONAL),
        workspace_bytes=fag_workspace_bytes,
        block_dim=fag_block_dim,
        makes=MADE,
        makes_part=FORWARD,
        made=fag_made,
        unwritten=frozenset(UNWRITTEN),
        notes=fag_notes,
        work=_fag_work,
        prescribed=PRESCRIBED,
        derived_names=_FAG_DERIVED,
        derived=_fag_derived,
    ),
    "fast_softmax_grad": Operator(
        name="fast_softmax_grad",
        tensors=FSG_TENSORS,
        outputs=FSG_TENSORS[-1:],
        queues=QUEUE_NUMS,
        tiling_model=FsgKeys,
        kernel=fast_softmax_grad,
        host=fsg_host,
        reference=_fsg_reference,
        shapes=None,
        block_dim=fsg_block_dim,
        notes=fsg_notes,
        parts=fsg_parts,
        prescribed=FSG_PRESCRIBED,
        work=fsg_work,
    ),
    "laser_attention_grad": Operator(
        name="laser_attention_grad",
        tensors=(*lag_operator.INPUTS, *lag_operator.OUTPUTS, *lag_operator.OPTIONAL),
        outputs=(*lag_operator.OUTPUTS, *lag_operator.UNWRITTEN),
        queues={},
        tiling_model=lag_operator.LagKeys,
        kernel=laser_attention_grad,
        host=lag_operator.lag_host,
        reference=_lag_reference,
        shapes=None,
        kernel_type=KernelType.MIX_AIC_1_2,
        optional=frozenset(lag_operator.OPTIONAL),
        workspace_bytes=lag_operator.lag_workspace_bytes,
        block_dim=lag_operator.lag_block_dim,
        makes=lag_operator.MADE,
        made=lag_operator.lag_made,
        unwritten=frozenset(lag_operator.UNWRITTEN),
        notes=lag_operator.lag_notes,
        told=lag_operator.lag_told,
        prescribed=lag_operator.PRESCRIBED,
        work=lag_operator.lag_work,
    ),
}


def find_operator(name: str) -> Operator:
    """Return a shipped operator.

    Raises:
        InputError: no such operator; the text lists the known ones.
    """
    if name not in OPERATORS:
        raise InputError(f"operator = {name!r}: unknown; known: {', '.join(OPERATORS)}")
    return OPERATORS[name]
