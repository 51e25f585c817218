"""What calls of high-level APIs on tensors in UB must keep alike: their temp, lengths, types, and who may share memory.

A call is checked where it is recorded. Each rule stands here once, with the API's name to fill in.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ascendsim.dtypes import UINT8, DType
from ascendsim.errors import Rule
from ascendsim.isa import rules
from ascendsim.isa.transpose_square import TRANSPOSE_OVERLAP
from ascendsim.memory import LocalTensor
from ascendsim.record import AiCore
from ascendsim.terms import DATABLOCK_BYTES, align_up

_PAGES = "asc-devkit docs, pages of the high-level APIs"

LAST_AXIS = Rule(
    "E-ALIGN-LASTAXIS",
    "{api} last axis {got} is {row_bytes} B, no multiple of 32 B",
    "pad the last axis to {wanted} elements",
    f"{_PAGES}, tensor shapes",
    condition="The last axis of a high-level API's tensor, in bytes, is no multiple of 32 B.",
)
TMP_DTYPE = Rule(
    "E-TMP-DTYPE",
    "temp tensor is {got}, must be {wanted}",
    "reinterpret_cast it to uint8_t",
    f"{_PAGES}, sharedTmpBuffer",
    condition="The temp tensor of a high-level API is not of uint8_t.",
)
TMP_SMALL = Rule(
    "E-TMP-SMALL",
    "{api} temp has {got} B, the minimum for {shape} is {wanted} B",
    "enlarge it to at least the minimum ({function})",
    f"{_PAGES}, their tiling pages",
    condition="A temp is smaller than the minimum of the API's size function: of a call in a kernel, or of a call in "
    "a plan.",
)
OVERLAP_TMP = Rule(
    "E-OVERLAP-TMP",
    "{api} temp overlaps {operand}",
    "give the temp its own memory",
    f"{_PAGES}, constraints",
    condition="The temp of a high-level API shares bytes with one of its tensors.",
)
OVERLAP_PART = TRANSPOSE_OVERLAP.saying(
    "{api} {one} overlaps {operand} without being the same tensor",
    "let them coincide, or keep them apart",
    "asc-devkit docs, general constraints, address overlap",
)
OVERLAP_APART = TRANSPOSE_OVERLAP.saying(
    "{api} {one} overlaps {operand}",
    "keep them apart",
    "asc-devkit docs, general constraints, address overlap",
)
SAME_TENSOR = Rule(
    "E-OVERLAP-TENSOR",
    "{api} {one} and {operand} are the same tensor",
    "give each its own memory",
    "asc-devkit, checks of several tensors",
    condition="A high-level API gets one tensor for two arguments of which it writes one, where reuse is not allowed.",
)
TOO_SHORT = rules.OOB_LOCAL.saying(
    "{api} {operand} has {got} elements, {shape} needs {wanted}",
    "allocate the padded shape",
    f"{_PAGES}, tensor shapes",
)


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor of a call, and how many of its elements the call uses."""

    name: str
    tensor: LocalTensor
    count: int

    @property
    def length_bytes(self) -> int:
        """Bytes that the call uses."""
        return self.count * self.tensor.dtype.bytes

    @property
    def start_bytes(self) -> int:
        """UB address of the first."""
        return self.tensor.start_bytes

    def __str__(self) -> str:
        return f"0x{self.start_bytes:x} .. 0x{self.start_bytes + self.length_bytes:x}"

    def meets(self, other: "Place") -> bool:
        """Whether two places share a byte."""
        return (
            self.start_bytes < other.start_bytes + other.length_bytes
            and other.start_bytes < self.start_bytes + self.length_bytes
        )

    def is_same_as(self, other: "Place") -> bool:
        """Whether two places are the same bytes."""
        return self.start_bytes == other.start_bytes and self.length_bytes == other.length_bytes


def whole(name: str, tensor: LocalTensor) -> Place:
    """Return a tensor of which all counts, as of a temp."""
    return Place(name, tensor, tensor.count)


def need_memory_vector(asc: AiCore, api: str) -> None:
    """Raise a KernelError on devices whose vector unit works on registers: what the library does there is not known."""
    if asc.device.has("register_vector") or asc.device.has("vector_function"):
        raise asc.fail(
            f"{api}: {asc.device.name} (arch {asc.device.npu_arch}) computes through vector registers, and the "
            f"library's {api} for it is not modelled; use a part of arch 2201 or 2002"
        )


def need_product(asc: AiCore, api: str, capability: str) -> None:
    """Report an API that the product does not have, and end the recording."""
    if not asc.device.has(capability):
        why = rules.why_lacking(asc.device, capability)
        raise asc.reject(
            rules.API_PRODUCT, got=asc.device.name, wanted=capability, api=api, arch=asc.device.npu_arch, why=why
        )


def check_type(asc: AiCore, api: str, operand: str, got: DType, allowed: Iterable[DType]) -> None:
    """Report an operand of another type than these."""
    if got not in allowed:
        wanted = ", ".join(str(d) for d in allowed)
        asc.report(rules.DTYPE_OP, operand=operand, got=got, wanted=wanted, api=api)


def check_lengths(asc: AiCore, api: str, places: Iterable[Place], shape: str) -> None:
    """Report tensors that are shorter than the call's shape needs."""
    for place in places:
        if place.tensor.count < place.count:
            asc.report(TOO_SHORT, operand=place.name, got=place.tensor.count, wanted=place.count, api=api, shape=shape)


def check_last_axis(asc: AiCore, api: str, operand: str, last_axis: int, element: DType) -> None:
    """Report rows that are not whole datablocks."""
    row_bytes = last_axis * element.bytes
    if row_bytes % DATABLOCK_BYTES:
        wanted = align_up(row_bytes, DATABLOCK_BYTES) // element.bytes
        asc.report(LAST_AXIS, operand=operand, got=last_axis, wanted=wanted, api=api, row_bytes=row_bytes)


def check_tmp_type(asc: AiCore, tmp: LocalTensor) -> None:
    """Report a temp that is not of uint8_t."""
    if tmp.dtype is not UINT8:
        asc.report(TMP_DTYPE, operand="shared_tmp_buffer", got=tmp.dtype, wanted="uint8_t")


def check_tmp_apart(asc: AiCore, api: str, tmp: LocalTensor, places: Iterable[Place]) -> None:
    """Report a temp that meets a tensor of the call."""
    temp = whole("shared_tmp_buffer", tmp)
    for place in places:
        if temp.meets(place):
            asc.report(OVERLAP_TMP, operand=place.name, got=temp, wanted=f"apart from {place}", api=api)


def check_reused(asc: AiCore, api: str, dst: Place, source: Place) -> None:
    """Report a destination that meets a source without being it."""
    if dst.meets(source) and dst.start_bytes != source.start_bytes:
        asc.report(OVERLAP_PART, operand=source.name, got=dst, wanted=f"apart from {source}", api=api, one=dst.name)


def check_apart(asc: AiCore, api: str, written: Place, others: Iterable[Place]) -> None:
    """Report what meets bytes that the call writes."""
    for other in others:
        if written.meets(other):
            rule = SAME_TENSOR if written.is_same_as(other) else OVERLAP_APART
            asc.report(rule, operand=other.name, got=written, wanted=f"apart from {other}", api=api, one=written.name)
