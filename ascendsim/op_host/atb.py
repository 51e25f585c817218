"""What operations of ATB (ascend-transformer-boost) share: stages, error names, tensor descriptions, common checks.

A call of an operation passes three stages, and each may refuse it with one error: creation looks at the parameters
and the part, shape inference at the descriptions of the inputs, setup at all tensors and at what the kernel itself
takes. Only the first refusal is told, as ATB does.

Source: ascend-transformer-boost, operation_base (order of the common checks), tensor_check (shapes), ops_runner (what
the kernel refuses); types.h (error names).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod
from typing import Final, Generic, TypeVar

from ascendsim.device import Device, Platform, find_product, load_device
from ascendsim.dtypes import DType
from ascendsim.errors import Finding, InputError, Rule

BASE: Final = "ascend-transformer-boost, operation_base"
CHECK: Final = "ascend-transformer-boost, tensor_check"
INI: Final = "ascend-transformer-boost, atb_ops_info.ini"

RSV: Final = 8
"""Reserved bytes of a parameter struct."""
INT32_END: Final = 2**31
INT64_MAX: Final = 2**63 - 1
UINT32_MAX: Final = 2**32 - 1
UINT32_END: Final = 2**32
_MAX_DIMS: Final = 8
_MAX_TENSOR_BYTES: Final = 256 * 2**30

T = TypeVar("T")


class Stage(StrEnum):
    """How far a call came: the stage that refused it, or OK."""

    CREATE = "create"
    INFER_SHAPE = "infer_shape"
    SETUP = "setup"
    OK = "ok"


class ErrorName(StrEnum):
    """ATB's names of errors."""

    NO_ERROR = "NO_ERROR"
    ERROR_INVALID_PARAM = "ERROR_INVALID_PARAM"
    ERROR_INVALID_IN_TENSOR_NUM = "ERROR_INVALID_IN_TENSOR_NUM"
    ERROR_INVALID_TENSOR_INI_MATCH = "ERROR_INVALID_TENSOR_INI_MATCH"
    ERROR_INVALID_TENSOR_DIM_NUM = "ERROR_INVALID_TENSOR_DIM_NUM"
    ERROR_INVALID_TENSOR_DIM = "ERROR_INVALID_TENSOR_DIM"
    ERROR_INVALID_TENSOR_SIZE = "ERROR_INVALID_TENSOR_SIZE"
    ERROR_RT_FAIL = "ERROR_RT_FAIL"


# ---- rules: one code for each error name -----------------------------------------------------------------------------

PARAM = Rule(
    "E-ATB-PARAM",
    "rsv[{index}] = {got}: must be 0",
    "leave the reserved bytes at 0",
    "ascend-transformer-boost, published cases of the operation",
    condition="An ATB operation refuses a parameter, or the part, when it is created: ERROR_INVALID_PARAM.",
)
PRODUCT = PARAM.saying(
    "{operation} does not run on {got}: {why}",
    "pick a part of Atlas A2 or A3, such as Ascend910B1",
    "page of the operation, applicable products; creation asks for a part of the 910B class",
)
IN_NUM = Rule(
    "E-ATB-INNUM",
    "{got} input tensors: {operation} takes {wanted}, {names}",
    "pass these",
    BASE,
    condition="An ATB operation gets another number of tensors than it has: ERROR_INVALID_IN_TENSOR_NUM.",
)
OUT_NUM = IN_NUM.saying("{got} output tensors: {operation} has {wanted}, {names}")
INI_MATCH = Rule(
    "E-ATB-INI",
    "{operand} is {got}: {operation} takes {wanted}",
    "convert the tensor",
    INI,
    condition="A tensor of an ATB operation has a type or format that its table of types does not list: "
    "ERROR_INVALID_TENSOR_INI_MATCH.",
)
DIM_NUM = Rule(
    "E-ATB-DIMNUM",
    "{operand} has {got} axes {dims}: must have {wanted}",
    "reshape the tensor",
    BASE,
    condition="A tensor of an ATB operation has another number of axes than it takes: ERROR_INVALID_TENSOR_DIM_NUM.",
)
DIM = Rule(
    "E-ATB-DIM",
    "{operand} has {got} axes: a tensor has {wanted}",
    "give the tensor an axis, and at most eight",
    CHECK,
    condition="An axis of a tensor of an ATB operation has another length than parameters and other tensors ask for: "
    "ERROR_INVALID_TENSOR_DIM.",
)
SIZE = Rule(
    "E-ATB-SIZE",
    "{operand} {dims} has {got} B: must be {wanted}",
    "give every axis a length, and split what is larger",
    CHECK,
    condition="A tensor of an ATB operation has no byte, too many, or not those of the tensor that it belongs to: "
    "ERROR_INVALID_TENSOR_SIZE.",
)
KERNEL = Rule(
    "E-ATB-KERNEL",
    "{operand} = {got}: the kernel refuses what its operation accepts; must be {wanted}",
    "change it as the message says",
    "ascend-transformer-boost, ops_runner: the kernel's own shape inference",
    condition="The kernel of an ATB operation refuses a call that the operation accepts: ERROR_RT_FAIL at setup.",
)

ERROR_OF: Final[Mapping[str, ErrorName]] = {
    PARAM.code: ErrorName.ERROR_INVALID_PARAM,
    IN_NUM.code: ErrorName.ERROR_INVALID_IN_TENSOR_NUM,
    INI_MATCH.code: ErrorName.ERROR_INVALID_TENSOR_INI_MATCH,
    DIM_NUM.code: ErrorName.ERROR_INVALID_TENSOR_DIM_NUM,
    DIM.code: ErrorName.ERROR_INVALID_TENSOR_DIM,
    SIZE.code: ErrorName.ERROR_INVALID_TENSOR_SIZE,
    KERNEL.code: ErrorName.ERROR_RT_FAIL,
}
"""ATB's error of each rule."""


# ---- tensors ---------------------------------------------------------------------------------------------------------

_SPELLINGS: Final = {
    "half": "float16", "fp16": "float16", "bfloat16": "bf16", "bfloat16_t": "bf16", "float32": "float", "fp32": "float",
    "int8_t": "int8", "uint8_t": "uint8", "int16_t": "int16", "uint16_t": "uint16", "int32_t": "int32",
    "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64",
}  # fmt: skip
_BYTES: Final = {
    "bool": 1, "int8": 1, "uint8": 1, "float16": 2, "bf16": 2, "int16": 2, "uint16": 2, "float": 4, "int32": 4,
    "uint32": 4, "int64": 8, "uint64": 8, "double": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip
"""Bytes of an element; a type that is not here counts as one."""


@dataclass(frozen=True, slots=True)
class TensorDesc:
    """A tensor as ATB gets it.

    Attributes:
        dtype: element type in ATB's spelling ("float16", "bf16", "float"); ACL's, NumPy's and AscendC's are understood.
        format: "nd", "nz" ...; ACL's spelling is understood.
        dims: axes [elements].
    """

    dtype: str = "float16"
    format: str = "nd"
    dims: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, str) or not isinstance(self.format, str):
            raise InputError(f"TensorDesc({self.dtype!r}, {self.format!r}): type and format must be text")
        dtype = self.dtype.strip().lower().removeprefix("acl_")
        object.__setattr__(self, "dtype", _SPELLINGS.get(dtype, dtype))
        object.__setattr__(self, "format", self.format.strip().lower().removeprefix("acl_format_"))
        object.__setattr__(self, "dims", whole_numbers("TensorDesc.dims", self.dims))

    @property
    def count(self) -> int:
        """Elements; 0 without an axis."""
        return prod(self.dims) if self.dims else 0

    @property
    def bytes(self) -> int:
        """Bytes of the elements."""
        return self.count * _BYTES.get(self.dtype, 1)

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing: no axis, or none of any length."""
        return self.count == 0

    def __str__(self) -> str:
        return f"{self.dtype} {self.format} {list(self.dims)}"


@dataclass(frozen=True, slots=True)
class TensorIni:
    """What an operation's table of types says of one tensor: combination i is dtypes[i] in formats[i].

    Attributes:
        name: of the tensor.
        dtypes, formats: one for each combination that the operation has.
        may_be_empty: an empty tensor stands for none.
    """

    name: str
    dtypes: tuple[str, ...]
    formats: tuple[str, ...]
    may_be_empty: bool = False

    def combination(self, number: int) -> tuple[str, str]:
        """Return (type, format) of a combination."""
        return self.dtypes[number], self.formats[number]


@dataclass(frozen=True, slots=True)
class OperationIni:
    """An operation's tensors.

    Attributes:
        name: of the operation.
        inputs, outputs: in their order.
    """

    name: str
    inputs: tuple[TensorIni, ...]
    outputs: tuple[TensorIni, ...]


# ---- refusals --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is refused.

    Attributes:
        stage: where.
        finding: which rule, where, what was found and wanted, how to mend it, and who says so.
    """

    stage: Stage
    finding: Finding

    @property
    def error(self) -> ErrorName:
        """ATB's error."""
        return ERROR_OF[self.finding.code]

    def __str__(self) -> str:
        return f"{self.stage}: {self.error}: {self.finding}"


@dataclass(frozen=True, slots=True)
class SetupReport(Generic[T]):
    """What an operation answers to parameters and tensors.

    Attributes:
        operation: its name.
        soc: the part, as it was named.
        refusal: the first; None for a call that is accepted.
        outputs: what shape inference gives; () where it was not reached.
        tiling: the kernel's; None for a refused call.
        workspace_bytes: what the caller has to allocate.
        notes: what was taken for what, and what else to know.
    """

    operation: str
    soc: str
    refusal: Refusal | None
    outputs: tuple[TensorDesc, ...] = ()
    tiling: T | None = None
    workspace_bytes: int = 0
    notes: tuple[str, ...] = ()

    @property
    def stage(self) -> Stage:
        """The stage that refused the call, or OK."""
        return Stage.OK if self.refusal is None else self.refusal.stage

    @property
    def error(self) -> ErrorName:
        """The first error, or NO_ERROR."""
        return ErrorName.NO_ERROR if self.refusal is None else self.refusal.error

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The refusal as findings."""
        return () if self.refusal is None else (self.refusal.finding,)

    @property
    def message(self) -> str:
        """What is wrong, where, why and how to mend it; empty for a call that is accepted."""
        return "" if self.refusal is None else str(self.refusal)


Reasons = Iterable[Finding]


def first_refusal(stages: Iterable[tuple[Stage, Callable[[], Reasons]]]) -> Refusal | None:
    """Return the first refusal of checks in the operation's order; later ones are not made."""
    for stage, check in stages:
        for finding in check():
            return Refusal(stage, finding)
    return None


# ---- common checks ---------------------------------------------------------------------------------------------------


def whole_numbers(name: str, values: object, low: int = -INT32_END * UINT32_END, end: int = 2**63) -> tuple[int, ...]:
    """Return a list of whole numbers as a tuple.

    Raises:
        InputError: not a list, or an item is no whole number from `low` to below `end`.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InputError(f"{name} = {values!r}: must be a list of whole numbers")
    return tuple(whole_number(f"{name}[{i}]", value, low, end) for i, value in enumerate(values))


def whole_number(name: str, value: object, low: int, end: int) -> int:
    """Return a whole number.

    Raises:
        InputError: it is none, or outside `low` .. `end` - 1, which its type cannot hold.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name} = {value!r}: must be a whole number")
    if not low <= value < end:
        raise InputError(f"{name} = {value}: its type holds {low} .. {end - 1}")
    return value


def rsv_bytes(values: object) -> tuple[int, ...]:
    """Return the reserved bytes of a parameter struct.

    Raises:
        InputError: not eight numbers of a byte.
    """
    found = whole_numbers("rsv", values, 0, 256)
    if len(found) != RSV:
        raise InputError(f"rsv has {len(found)} bytes: must be {RSV}")
    return found


def rsv_reasons(operation: str, rsv: Sequence[int]) -> Iterator[Finding]:
    """Refuse reserved bytes that are set."""
    for index, value in enumerate(rsv):
        if value:
            yield PARAM.finding(f"{operation}.rsv", operand="rsv", got=value, wanted=0, fill={"index": index})


def in_num_reasons(ini: OperationIni, tensors: Sequence[TensorDesc]) -> Iterator[Finding]:
    """Refuse another number of inputs."""
    yield from _num_reasons(IN_NUM, ini, tensors, ini.inputs)


def out_num_reasons(ini: OperationIni, tensors: Sequence[TensorDesc]) -> Iterator[Finding]:
    """Refuse another number of outputs; ATB has no error name of its own for it."""
    yield from _num_reasons(OUT_NUM, ini, tensors, ini.outputs)


def _num_reasons(
    rule: Rule, ini: OperationIni, tensors: Sequence[TensorDesc], wanted: Sequence[TensorIni]
) -> Iterator[Finding]:
    if len(tensors) != len(wanted):
        names = ", ".join(one.name for one in wanted)
        fill = {"operation": ini.name, "names": names}
        yield rule.finding(ini.name, operand="tensors", got=len(tensors), wanted=len(wanted), fill=fill)


def shape_reasons(ini: OperationIni, tensors: Sequence[TensorDesc], of: Sequence[TensorIni]) -> Iterator[Finding]:
    """Refuse tensors without axes or elements, and ones that nothing can hold.

    Args:
        ini: the operation.
        tensors: descriptions.
        of: their lines of the table.
    """
    for desc, one in zip(tensors, of, strict=True):
        if one.may_be_empty and desc.is_empty:
            continue
        where, dims = f"{ini.name} {one.name}", list(desc.dims)
        if not 1 <= len(dims) <= _MAX_DIMS:
            yield DIM.finding(where, operand=one.name, got=len(dims), wanted=f"1 .. {_MAX_DIMS}")
        elif not 0 < desc.bytes <= _MAX_TENSOR_BYTES or min(dims) < 1:
            wanted = f"1 .. {_MAX_TENSOR_BYTES}"
            yield SIZE.finding(where, operand=one.name, got=desc.bytes, wanted=wanted, fill={"dims": dims})


def ini_reasons(ini: OperationIni, tensors: Sequence[TensorDesc], of: Sequence[TensorIni]) -> Iterator[Finding]:
    """Refuse types and formats that are in no combination of the table; empty tensors are not looked at.

    Args:
        ini: the operation.
        tensors: descriptions.
        of: their lines of the table.
    """
    numbers = range(len(of[0].dtypes))
    wrong = [list(_apart(number, tensors, of)) for number in numbers]
    if all(wrong):
        desc, one = min(wrong, key=len)[0]
        options = dict.fromkeys(" ".join(one.combination(number)) for number in numbers)
        got, wanted = f"{desc.dtype} {desc.format}", " or ".join(options)
        yield INI_MATCH.finding(
            f"{ini.name} {one.name}", operand=one.name, got=got, wanted=wanted, fill={"operation": ini.name}
        )


def _apart(
    number: int, tensors: Sequence[TensorDesc], of: Sequence[TensorIni]
) -> Iterator[tuple[TensorDesc, TensorIni]]:
    """Yield tensors that are not as a combination has them."""
    for desc, one in zip(tensors, of, strict=True):
        if not desc.is_empty and (desc.dtype, desc.format) != one.combination(number):
            yield desc, one


# ---- parts -----------------------------------------------------------------------------------------------------------

ATB_ARCHS: Final = (2201,)
"""Architectures of the 910B class, which training operations ask for (Atlas A2 and A3)."""
_TEST_NAMES: Final = {"ascend910b": "Ascend910B1", "ascend310p": "Ascend310P3"}
"""Families by the names of ATB's own test tables, and the part that is taken for each."""


@dataclass(frozen=True, slots=True)
class Soc:
    """A part, or a product that no part stands for.

    Attributes:
        name: as it was given, a part's as its file is called.
        device: None for a product that is refused and has no single part.
        product: the name to tell.
        npu_arch: its architecture.
        note: what was taken for what.
    """

    name: str
    device: Device | None
    product: str
    npu_arch: int
    note: str = ""

    @property
    def is_910b_class(self) -> bool:
        """Whether training operations can be created on it."""
        return self.npu_arch in ATB_ARCHS


def find_soc(soc: str | Platform) -> Soc:
    """Return the part, or the product, of a name.

    ATB's tests call a family by one name: "Ascend910B" is taken for an Ascend910B1 here, although as a product that
    name stands for first-generation cards, and "Ascend310P" for an Ascend310P3.

    Raises:
        DeviceError: no such part or product, or a product that has parts to choose from.
    """
    taken = _TEST_NAMES.get(soc.strip().casefold()) if isinstance(soc, str) else None
    if taken is not None:
        return replace(soc_of(load_device(taken)), note=f"{soc} is a family in ATB's tables; taken as {taken}")
    product = find_product(soc) if isinstance(soc, str) else None
    if product is not None and product.npu_arch not in ATB_ARCHS:
        return Soc(str(soc), None, str(soc), product.npu_arch)
    return soc_of(load_device(soc))


def soc_of(device: Device) -> Soc:
    """Return a part that is loaded."""
    return Soc(device.name, device, f"{device.name} ({device.product_family})", device.npu_arch)


def product_reasons(operation: str, soc: Soc) -> Iterator[Finding]:
    """Refuse a part that is not of the 910B class."""
    if not soc.is_910b_class:
        why = (
            f"its page marks the product x, and creation takes parts of the 910B class (arch 2201), not {soc.npu_arch}"
        )
        fill = {"operation": operation, "why": why}
        yield PRODUCT.finding(f"{operation} device", operand="soc", got=soc.product, wanted="Atlas A2, A3", fill=fill)


def desc_of(element: DType, dims: Sequence[int]) -> TensorDesc:
    """Return the description of an ND tensor."""
    return TensorDesc(element.name, "nd", tuple(dims))
