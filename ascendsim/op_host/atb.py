"""What operators of the Ascend Transformer Boost library (ATB) have in common: stages, error names, checks of tensors.

An operator is created from parameters, infers the shapes of its outputs from descriptions of its inputs, and is set up
with both; the first check that fails names stage and error. A check here is a generator of refusals, of which the first
counts: what comes behind may rely on what it has passed.

Source: ATB, operation base (order of the checks around an operator's own) and tensor checks; types and formats of an
operator are in its table of operators.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Final

from ascendsim.device import Device, Platform, find_product, load_device
from ascendsim.errors import DeviceError, Finding, InputError, Rule

ATB_ARCHS: Final = (2201,)
"""Architectures of the parts that the training operators take (910B class)."""

_BASE: Final = "ATB, operation base and tensor checks"
_MOST_AXES: Final = 8
_MOST_BYTES: Final = 256 * 2**30
_RESERVED: Final = 8

BYTES_OF: Final = {
    "bf16": 2, "float16": 2, "float": 4, "int8": 1, "uint8": 1, "bool": 1, "int16": 2, "int32": 4, "int64": 8,
    "uint16": 2, "uint32": 4, "uint64": 8, "double": 8,
}  # fmt: skip
"""Bytes of an element by the name of its type."""
_SPELLINGS: Final = {
    "bfloat16": "bf16", "bfloat16_t": "bf16", "half": "float16", "fp16": "float16", "fp32": "float",
    "float32": "float", "fp64": "double", "float64": "double",
}  # fmt: skip


class Stage(Enum):
    """Where an operator refuses."""

    CREATE = "create"
    INFER_SHAPE = "infer_shape"
    SETUP = "setup"


class AtbError(Enum):
    """Error names that these operators answer with."""

    INVALID_PARAM = "ERROR_INVALID_PARAM"
    INVALID_IN_TENSOR_NUM = "ERROR_INVALID_IN_TENSOR_NUM"
    INVALID_TENSOR_INI_MATCH = "ERROR_INVALID_TENSOR_INI_MATCH"
    INVALID_TENSOR_DIM = "ERROR_INVALID_TENSOR_DIM"
    INVALID_TENSOR_DIM_NUM = "ERROR_INVALID_TENSOR_DIM_NUM"
    INVALID_TENSOR_SIZE = "ERROR_INVALID_TENSOR_SIZE"


NO_ERROR: Final = "NO_ERROR"

PARAM = Rule(
    "E-ATB-PARAM",
    "{operand} = {got}: must be {wanted}",
    "change it",
    _BASE,
    condition="A parameter of an ATB operator has a value that creating it refuses.",
    archs=ATB_ARCHS,
)
DEVICE = PARAM.saying(
    "the operator is for parts of the 910B class; {got} is of another architecture",
    "pick a part of Atlas A2 or A3, such as Ascend910B1",
)
RESERVED = PARAM.saying("rsv = {got}: all {wanted} bytes must be 0", "leave rsv out")
COUNT = Rule(
    "E-ATB-COUNT",
    "{got} {operand} tensors are given, the operator takes {wanted}",
    "give each of them, empty ones too: {names}",
    _BASE,
    condition="An ATB operator is given another number of tensors than it takes.",
    archs=ATB_ARCHS,
)
TYPE = Rule(
    "E-ATB-TYPE",
    "{operand} has type {got}; the operator takes {wanted}",
    "convert the tensor",
    f"{_BASE}; table of operators",
    condition="A tensor of an ATB operator has a type or a format that the table of operators does not list for it.",
    archs=ATB_ARCHS,
)
FORMAT = TYPE.saying("{operand} has format {got}; the operator takes {wanted}", "lay the tensor out as that")
SHAPE = Rule(
    "E-ATB-SHAPE",
    "{operand} = {got}: axis {axis} must be {wanted}",
    "change the shape",
    _BASE,
    condition="A tensor of an ATB operator has a shape that does not fit the operator, its parameters or the others.",
    archs=ATB_ARCHS,
)
RANK = SHAPE.saying("{operand} = {got}: has {rank} axes, must have {wanted}", "give it {wanted} axes")
EMPTY = SHAPE.saying("{operand} = {got}: must be an empty tensor; it is reserved", "give an empty tensor")
NO_AXES = SHAPE.saying("{operand} = {got}: must have 1 to {wanted} axes", "give the tensor; only some may be empty")
BYTES = SHAPE.saying("{operand} = {got}: is {bytes} B, must be 1 to {wanted} B", "give the tensor with elements")


@dataclass(frozen=True, slots=True)
class TensorDesc:
    """What an operator is told of a tensor.

    Attributes:
        shape: axes [elements]; () or one with a zero axis is an empty tensor.
        dtype: ATB's name of the element type, such as "bf16"; other spellings of it are taken, too.
        data_format: such as "nd".
    """

    shape: tuple[int, ...] = ()
    dtype: str = "float16"
    data_format: str = "nd"

    def __post_init__(self) -> None:
        if any(not isinstance(axis, int) or isinstance(axis, bool) or axis < 0 for axis in self.shape):
            raise InputError(f"shape = {list(self.shape)}: an axis must be a whole number that is not negative")
        plain = self.dtype.strip().lower()
        object.__setattr__(self, "dtype", _SPELLINGS.get(plain, plain))
        object.__setattr__(self, "data_format", self.data_format.strip().lower())

    @property
    def is_empty(self) -> bool:
        """Whether there is no element."""
        return prod(self.shape) == 0 or not self.shape

    @property
    def bytes(self) -> int:
        """Size; 0 without axes. An unknown type counts a byte, as its name is refused anyway."""
        return prod(self.shape) * BYTES_OF.get(self.dtype, 1) if self.shape else 0

    @property
    def text(self) -> str:
        """Shape for messages."""
        return f"[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor that an operator takes.

    Attributes:
        name: the page's.
        dtypes: types that the table of operators lists.
        may_be_empty: an empty tensor may stand for it.
        data_format: the format that the table lists.
    """

    name: str
    dtypes: tuple[str, ...]
    may_be_empty: bool = False
    data_format: str = "nd"


@dataclass(frozen=True, slots=True)
class Tensors:
    """Tensors of a call in the operator's order; outputs None where they are to be as the operator infers them."""

    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...] | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """An operator refuses: at which stage, with which error, and why."""

    stage: Stage
    error: AtbError
    finding: Finding

    @property
    def message(self) -> str:
        """What, where, why and how to mend it."""
        return str(self.finding)

    def to_dict(self) -> dict[str, object]:
        """Return a plain dict for JSON."""
        return {"stage": self.stage.value, "error": self.error.value, **self.finding.to_dict()}


Refusals = Iterator[Refusal]


def tensors_of(given: Tensors | Mapping[str, object], inputs: Sequence[Slot], outputs: Sequence[Slot]) -> Tensors:
    """Return tensors in the operator's order from a mapping of names to `TensorDesc`s, shapes, or None for empty ones.

    A shape alone has the type and format that the operator takes. Inputs that may be empty can be left out; others that
    are left out are missing from the result, so that the count tells of them.

    Raises:
        InputError: a name that the operator does not have, or some of its outputs but not all.
    """
    if isinstance(given, Tensors):
        return given
    known = {slot.name: slot for slot in (*inputs, *outputs)}
    for name in given:
        if name not in known:
            raise InputError(f"tensors[{name!r}]: no such tensor; the operator has {', '.join(known)}")
    made = {name: _described(value, known[name]) for name, value in given.items()}
    empty = {slot.name: TensorDesc((), slot.dtypes[0], slot.data_format) for slot in inputs if slot.may_be_empty}
    found = empty | made
    own = tuple(found[slot.name] for slot in inputs if slot.name in found)
    out = [slot.name for slot in outputs if slot.name in made]
    if out and len(out) < len(outputs):
        missing = ", ".join(slot.name for slot in outputs if slot.name not in made)
        raise InputError(f"tensors: outputs {', '.join(out)} are given, {missing} not; give all of them or none")
    return Tensors(own, tuple(made[name] for name in out) if out else None)


def _described(value: object, slot: Slot) -> TensorDesc:
    if isinstance(value, TensorDesc):
        return value
    if value is None:
        return TensorDesc((), slot.dtypes[0], slot.data_format)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return TensorDesc(tuple(value), slot.dtypes[0], slot.data_format)
    raise InputError(f"tensors[{slot.name!r}] = {value!r}: must be a TensorDesc, a shape, or None for an empty tensor")


# --- checks, in the order in which the library makes them ---


def atb_device(soc: str | Platform) -> Device | None:
    """Return the part, None for one of an architecture for which these operators are not.

    Raises:
        DeviceError: a name that is no part; a product of another architecture needs no part named.
    """
    try:
        device = load_device(soc)
    except DeviceError:
        product = find_product(soc) if isinstance(soc, str) else None
        if product is None or product.npu_arch in ATB_ARCHS:
            raise
        return None
    return device if device.npu_arch in ATB_ARCHS and device.aic > 0 else None


def device_refused(device: Device | None, soc: str | Platform) -> Refusals:
    """Refuse a part of another architecture."""
    if device is None:
        yield Refusal(Stage.CREATE, AtbError.INVALID_PARAM, DEVICE.finding("soc", got=soc, wanted="910B class"))


def refused_param(name: str, got: object, wanted: object, rule: Rule = PARAM) -> Refusal:
    """Return the refusal of a parameter's value."""
    return Refusal(Stage.CREATE, AtbError.INVALID_PARAM, rule.finding(name, operand=name, got=got, wanted=wanted))


def reserved_refused(rsv: Sequence[int]) -> Refusals:
    """Refuse reserved bytes that are not 0."""
    if any(rsv):
        yield refused_param("rsv", list(rsv), _RESERVED, RESERVED)


def count_refused(given: Sequence[TensorDesc], slots: Sequence[Slot], what: str, stage: Stage) -> Refusals:
    """Refuse another number of tensors; `what` is "input" or "output"."""
    if len(given) != len(slots):
        yield Refusal(
            stage,
            AtbError.INVALID_IN_TENSOR_NUM,
            COUNT.finding(
                "tensors",
                operand=what,
                got=len(given),
                wanted=len(slots),
                fill={"names": ", ".join(slot.name for slot in slots)},
            ),
        )


def framework_refused(given: Sequence[TensorDesc], slots: Sequence[Slot], stage: Stage) -> Refusals:
    """Refuse tensors without axes or elements where they may not be empty, and those that are too large."""
    for tensor, slot in zip(given, slots, strict=True):
        if slot.may_be_empty and tensor.is_empty:
            continue
        if not 1 <= len(tensor.shape) <= _MOST_AXES:
            finding = _of_shape(NO_AXES, slot.name, tensor, _MOST_AXES, {})
            yield Refusal(stage, AtbError.INVALID_TENSOR_DIM, finding)
        if not 1 <= tensor.bytes <= _MOST_BYTES:
            finding = _of_shape(BYTES, slot.name, tensor, _MOST_BYTES, {"bytes": tensor.bytes})
            yield Refusal(stage, AtbError.INVALID_TENSOR_SIZE, finding)


def type_refused(given: Sequence[TensorDesc], slots: Sequence[Slot], stage: Stage) -> Refusals:
    """Refuse types and formats that the table of operators does not list; empty tensors have none."""
    for tensor, slot in zip(given, slots, strict=True):
        if tensor.is_empty:
            continue
        for rule, got, wanted in ((TYPE, tensor.dtype, slot.dtypes), (FORMAT, tensor.data_format, (slot.data_format,))):
            if got not in wanted:
                finding = rule.finding(slot.name, operand=slot.name, got=got, wanted=" or ".join(wanted))
                yield Refusal(stage, AtbError.INVALID_TENSOR_INI_MATCH, finding)


def rank_refused(name: str, tensor: TensorDesc, wanted: int, stage: Stage) -> Refusals:
    """Refuse another number of axes."""
    if len(tensor.shape) != wanted:
        finding = _of_shape(RANK, name, tensor, wanted, {"rank": len(tensor.shape)})
        yield Refusal(stage, AtbError.INVALID_TENSOR_DIM_NUM, finding)


def filled_refused(name: str, tensor: TensorDesc, stage: Stage) -> Refusals:
    """Refuse a reserved tensor that is not empty."""
    if not tensor.is_empty:
        yield Refusal(stage, AtbError.INVALID_TENSOR_DIM_NUM, _of_shape(EMPTY, name, tensor, "[]", {}))


def refused_axis(name: str, tensor: TensorDesc, axis: int, wanted: str, stage: Stage) -> Refusal:
    """Return the refusal of an axis's length; `wanted` says what it must be and where that comes from."""
    return Refusal(stage, AtbError.INVALID_TENSOR_DIM, _of_shape(SHAPE, name, tensor, wanted, {"axis": axis}))


def axis_refused(name: str, tensor: TensorDesc, axis: int, wanted: int, why: str, stage: Stage) -> Refusals:
    """Refuse an axis of another length; `why` says where the length comes from."""
    if tensor.shape[axis] != wanted:
        yield refused_axis(name, tensor, axis, f"{wanted}, {why}", stage)


def _of_shape(rule: Rule, name: str, tensor: TensorDesc, wanted: object, fill: Mapping[str, object]) -> Finding:
    return rule.finding(name, operand=name, got=tensor.text, wanted=wanted, fill=fill)
