"""Vector functions of arch 3510: register micro-operations, their table, and how a kernel writes them.

A vector function is one instruction of the V pipe whose body loads from UB into vector registers, computes there, and
stores. `asc.vector_function()` opens one; what is called on it becomes the body:

    with asc.vector_function() as vf:
        mask = vf.update_mask(count)
        vf.store_align(dst, vf.mul(vf.load_align(a), vf.load_align(b), mask), mask)

A register is virtual and defined once; how many are alive at a time is not checked. Lanes outside the mask of a
computation become 0 (zeroing mode); lanes outside the mask of a store stay as they are in memory. 16-bit elements lie
either densely, 128 in a register, or one in each word; which of the two is known, and mixing them is refused.
Repetition is a loop of the hardware where the kernel says `for i in vf.loop(count)`, else straight code.
Sources: asc-devkit docs, Reg vector pages and architecture page 3510; instruction names and the order of a body's
operations as observed from the real SoftmaxGrad (docs/provenance.md).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, DType, dtype, pack
from ascendsim.errors import Finding, Rule
from ascendsim.isa import rules
from ascendsim.isa.forms import Call, Form, declare
from ascendsim.isa.instruction import (
    Body,
    Issue,
    MicroInstruction,
    MicroKind,
    MicroRow,
    Recorder,
    Row,
    TensorRef,
    finds,
    need_local,
)
from ascendsim.isa.micro_run import run_body
from ascendsim.isa.micro_table import MICRO, WORD_LANES, lanes_of
from ascendsim.isa.micro_walk import memory_of, uses_of, wanted_lanes
from ascendsim.memory import LocalTensor
from ascendsim.terms import FULL_MASK, Pipe

ALIGN = rules.ALIGN_UB.saying(
    "{api} {operand} address {got} is not on a multiple of {wanted}",
    "start registers' loads and stores on that boundary",
    "asc-devkit docs, LoadAlign and StoreAlign pages",
)
OOB = rules.OOB_LOCAL.saying(
    "{api} {operand} writes {past} B past the end of {tensor} ({wanted} B, up to byte {got} wanted)",
    "enlarge the buffer, or mask the lanes that hold nothing",
    "asc-tools, npu-check ErrorWrite3",
)
MEM_BAR = Rule(
    "E-HAZARD-VF",
    "a vector function loads {operand} byte {got} that it has stored itself, without LocalMemBar in between",
    "call local_mem_bar between the store and the load",
    "asc-devkit docs, LocalMemBar page: order inside a vector function is not kept by hardware",
    condition="A vector function loads bytes that it has stored itself without a LocalMemBar in between.",
    archs=(3510,),
)


class LoadDist(Enum):
    """How a load spreads memory over lanes; the value is the micro-operation."""

    NORM = "load_norm"
    """Element i into lane i."""
    UNPACK_B16 = "load_unpack_b16"
    """64 16-bit elements, one to each 32-bit lane."""
    DINTLV_B32 = "load_dintlv_b32"
    """128 words into two registers: even ones, odd ones."""
    E2B_B32 = "load_e2b_b32"
    """Eight words, each into the eight lanes of a datablock."""
    E2B_B16 = "load_e2b_b16"
    """Eight 16-bit elements, each into the sixteen lanes of a datablock."""


class StoreDist(Enum):
    """How a store lays lanes into memory; the value is the micro-operation."""

    NORM = "store_norm"
    """Lane i into element i."""
    PACK_B32 = "store_pack_b32"
    """The 16-bit value of each of 64 32-bit lanes, one behind the other."""
    INTLV_B32 = "store_intlv_b32"
    """Two registers, their lanes taking turns."""


class Layout(Enum):
    """How elements lie in a register."""

    DENSE = "one behind the other"
    WORDS = "one in each word"
    ALL = "the same everywhere"
    """A scalar, which is both."""


_TYPES = (HALF, BFLOAT16, FLOAT)
_NAMES = "half, bfloat16_t and float"

_WIDTH: dict[LoadDist | StoreDist, int] = {
    LoadDist.UNPACK_B16: 2,
    LoadDist.DINTLV_B32: 4,
    LoadDist.E2B_B32: 4,
    LoadDist.E2B_B16: 2,
    StoreDist.PACK_B32: 2,
    StoreDist.INTLV_B32: 4,
}
"""Bytes of the elements that a distribution is for; the others take any."""


@dataclass(frozen=True, slots=True, eq=False)
class RegTensor:
    """A vector register: its number in the body, the type and layout of its lanes, and the body it belongs to."""

    number: int
    dtype: DType
    layout: "Layout"
    home: "VectorFunction"


@dataclass(frozen=True, slots=True)
class MaskReg:
    """A mask register: bit i is lane i."""

    bits: int


ALL_LANES = MaskReg(FULL_MASK << 64 | FULL_MASK)


class VectorFunction:
    """The body of a vector function while a kernel writes it."""

    def __init__(self, asc: Recorder) -> None:
        self._asc = asc
        self._rows: list[MicroRow] = []
        self._registers = 0
        self._issue = Issue.NEXT
        self._is_closed = False

    # ---- loops --------------------------------------------------------------------------------------------------

    def loop(self, count: int) -> Iterator[int]:
        """Yield 0 to `count` - 1: what is called meanwhile is the body of a loop of the hardware; loops may be nested.

        Values do not differ from those of straight code, cycles do: a loop starts an iteration in a cycle and takes
        some to start itself. One of a single iteration is straight code, as compilers make it.
        """
        for i in range(count):
            if count > 1:
                self._issue = max(self._issue, Issue.LOOP if i == 0 else Issue.ITERATION)
            yield i

    # ---- masks --------------------------------------------------------------------------------------------------

    def update_mask(self, count: int) -> MaskReg:
        """Return a mask of the first `count` lanes; none for 0 or less, all for more than there are."""
        return MaskReg((1 << max(0, min(count, 128))) - 1)

    def move_mask(self) -> MaskReg:
        """Return the vector mask that SetVectorMask left (MoveMask)."""
        return MaskReg(self._asc.mask.hi << 64 | self._asc.mask.lo)

    # ---- memory -------------------------------------------------------------------------------------------------

    def load_align(self, src: LocalTensor, dist: LoadDist = LoadDist.NORM) -> RegTensor:
        """Load a register from `src` on."""
        if dist is LoadDist.DINTLV_B32:
            raise self._asc.fail("LoadAlign: DINTLV_B32 fills two registers; use load_align2")
        return self.load_align2(src, dist)[0]

    def load_align2(self, src: LocalTensor, dist: LoadDist) -> tuple[RegTensor, ...]:
        """Load all registers that `dist` fills: two for DINTLV_B32, one for the others."""
        need_local(self._asc, "LoadAlign", "src", src)
        self._need_member("LoadAlign", dist, LoadDist)
        self._need_type("LoadAlign", src.dtype, dist)
        layout = Layout.WORDS if dist is LoadDist.UNPACK_B16 else Layout.DENSE
        return self._emit(MICRO[dist.value], src.dtype, memory=src, layout=layout)

    def store_align(
        self, dst: LocalTensor, src: RegTensor, mask: MaskReg = ALL_LANES, dist: StoreDist = StoreDist.NORM
    ) -> None:
        """Store the active lanes of a register to `dst` on."""
        if dist is StoreDist.INTLV_B32:
            raise self._asc.fail("StoreAlign: INTLV_B32 stores two registers; use store_align2")
        self._store(dst, (src,), mask, dist)

    def store_align2(self, dst: LocalTensor, src0: RegTensor, src1: RegTensor, mask: MaskReg = ALL_LANES) -> None:
        """Store two registers, lanes taking turns (INTLV_B32)."""
        self._store(dst, (src0, src1), mask, StoreDist.INTLV_B32)

    def local_mem_bar(self) -> None:
        """Let loads that follow see what the stores before have written (LocalMemBar VEC_STORE, VEC_LOAD)."""
        self._emit(MICRO["local_mem_bar"], FLOAT)

    # ---- registers ----------------------------------------------------------------------------------------------

    def duplicate(self, value: float, element: DType = FLOAT, mask: MaskReg | None = None) -> RegTensor:
        """Return a register with `value` in every lane, or with a mask in its lanes: another, slower instruction."""
        self._need_type("Duplicate", element, LoadDist.NORM)
        self._need_arithmetic("Duplicate", element)
        name, lanes = ("reg_dup_scalar", ALL_LANES) if mask is None else ("reg_dup_masked", mask)
        layout = Layout.ALL if mask is None else Layout.DENSE
        return self._emit(MICRO[name], element, (), lanes, scalar_bits=pack(value, element), layout=layout)[0]

    def duplicate_lane0(self, src: RegTensor, mask: MaskReg = ALL_LANES) -> RegTensor:
        """Return a register with lane 0 of `src` in every active lane (Duplicate from a register)."""
        return self._compute("reg_dup_lane0", (src,), mask)

    def add(self, src0: RegTensor, src1: RegTensor, mask: MaskReg = ALL_LANES) -> RegTensor:
        """Return src0 + src1."""
        return self._compute("reg_add", (src0, src1), mask)

    def sub(self, src0: RegTensor, src1: RegTensor, mask: MaskReg = ALL_LANES) -> RegTensor:
        """Return src0 - src1."""
        return self._compute("reg_sub", (src0, src1), mask)

    def mul(self, src0: RegTensor, src1: RegTensor, mask: MaskReg = ALL_LANES) -> RegTensor:
        """Return src0 * src1."""
        return self._compute("reg_mul", (src0, src1), mask)

    def div(self, src0: RegTensor, src1: RegTensor, mask: MaskReg = ALL_LANES) -> RegTensor:
        """Return src0 / src1."""
        return self._compute("reg_div", (src0, src1), mask)

    def exp(self, src: RegTensor, mask: MaskReg = ALL_LANES) -> RegTensor:
        """Return e to the power of src."""
        return self._compute("reg_exp", (src,), mask)

    def sqrt(self, src: RegTensor, mask: MaskReg = ALL_LANES) -> RegTensor:
        """Return the square root of src."""
        return self._compute("reg_sqrt", (src,), mask)

    def adds(self, src: RegTensor, scalar: float, mask: MaskReg = ALL_LANES) -> RegTensor:
        """Return src + scalar, the scalar in src's type."""
        return self._compute("reg_adds", (src,), mask, scalar)

    def muls(self, src: RegTensor, scalar: float, mask: MaskReg = ALL_LANES) -> RegTensor:
        """Return src * scalar, the scalar in src's type."""
        return self._compute("reg_muls", (src,), mask, scalar)

    def maxs(self, src: RegTensor, scalar: float, mask: MaskReg = ALL_LANES) -> RegTensor:
        """Return the larger of src and scalar, the scalar in src's type. NaN wins; +0 is larger than -0."""
        return self._compute("reg_maxs", (src,), mask, scalar)

    def mins(self, src: RegTensor, scalar: float, mask: MaskReg = ALL_LANES) -> RegTensor:
        """Return the smaller of src and scalar, the scalar in src's type. NaN wins; -0 is smaller than +0."""
        return self._compute("reg_mins", (src,), mask, scalar)

    def reduce_sum(self, src: RegTensor, mask: MaskReg = ALL_LANES) -> RegTensor:
        """Return the sum of the active lanes, an adjacent-pair tree, in lane 0."""
        return self._compute("reg_reduce_sum", (src,), mask)

    def reduce_sum_data_block(self, src: RegTensor, mask: MaskReg = ALL_LANES) -> RegTensor:
        """Return the sum of each datablock, an adjacent-pair tree, in lanes 0, 1, 2, ..."""
        return self._compute("reg_reduce_sum_datablock", (src,), mask)

    def cast(self, src: RegTensor, element: DType | str, mask: MaskReg = ALL_LANES) -> RegTensor:
        """Return `src` as another type; narrowing rounds to nearest even and keeps infinities.

        Between float and a 16-bit type, 32-bit lane by lane; between half and bfloat16_t in dense registers.
        """
        to = dtype(element)
        self._need_registers("Cast", (src,))
        if to is src.dtype or not {to, src.dtype} <= {*_TYPES}:
            raise self._asc.fail(f"Cast: {src.dtype} to {to} is not modelled in a vector function; {_NAMES} are")
        if FLOAT not in (to, src.dtype):
            self._need_layout("Cast", src, Layout.DENSE, "load it with NORM")
            return self._emit(MICRO["reg_cast_b16"], to, (src,), mask)[0]
        self._need_layout("Cast", src, Layout.WORDS, "load it with UNPACK_B16")
        return self._emit(MICRO["reg_cast"], to, (src,), mask, layout=Layout.DENSE if to is FLOAT else Layout.WORDS)[0]

    # ---- recording ----------------------------------------------------------------------------------------------

    def _compute(
        self, name: str, sources: tuple[RegTensor, ...], mask: MaskReg, scalar: float | None = None
    ) -> RegTensor:
        self._need_registers(name, sources)
        kinds = {s.dtype for s in sources}
        if len(kinds) > 1:
            raise self._asc.fail(
                f"{name}: registers of {' and '.join(sorted(str(k) for k in kinds))}; cast one of them"
            )
        element = sources[0].dtype
        self._need_arithmetic(name, element)
        layouts = {s.layout for s in sources} - {Layout.ALL}
        if len(layouts) > 1:
            raise self._asc.fail(
                f"{name}: 16-bit elements {Layout.DENSE.value} and {Layout.WORDS.value} cannot be combined"
            )
        if name.startswith("reg_reduce"):
            self._need_layout(name, sources[0], Layout.DENSE, "cast it to float first")
        layout = layouts.pop() if layouts else Layout.DENSE
        bits = 0 if scalar is None else pack(scalar, element)
        return self._emit(MICRO[name], element, sources, mask, scalar_bits=bits, layout=layout)[0]

    def _store(self, dst: LocalTensor, sources: tuple[RegTensor, ...], mask: MaskReg, dist: StoreDist) -> None:
        need_local(self._asc, "StoreAlign", "dst", dst)
        self._need_member("StoreAlign", dist, StoreDist)
        self._need_registers("StoreAlign", sources)
        self._need_type("StoreAlign", dst.dtype, dist)
        for source in sources:
            if source.dtype is not dst.dtype:
                raise self._asc.fail(
                    f"StoreAlign: a register of {source.dtype} into {dst.name} of {dst.dtype}; cast it first"
                )
            if dist is StoreDist.PACK_B32:
                self._need_layout("StoreAlign PACK_B32", source, Layout.WORDS, "store it with NORM")
            else:
                self._need_layout(f"StoreAlign {dist.name}", source, Layout.DENSE, "store it with PACK_B32")
        self._emit(MICRO[dist.value], dst.dtype, sources, mask, memory=dst)

    def _need_registers(self, what: str, sources: tuple[object, ...]) -> None:
        for source in sources:
            if not isinstance(source, RegTensor):
                raise self._asc.fail(f"{what}: a register is needed, got {type(source).__name__}; load_align gives one")

    def _need_member(self, what: str, dist: object, kind: type[Enum]) -> None:
        if not isinstance(dist, kind):
            raise self._asc.fail(f"{what}: dist must be a {kind.__name__}, got {dist!r}")

    def _need_layout(self, what: str, register: RegTensor, wanted: Layout, instead: str) -> None:
        """16-bit elements lie as the call takes them; a word is both."""
        if register.dtype is not FLOAT and register.layout not in (wanted, Layout.ALL):
            raise self._asc.fail(f"{what}: the register's 16-bit elements lie {register.layout.value}; {instead}")

    def _need_type(self, what: str, element: DType, dist: LoadDist | StoreDist) -> None:
        if element not in _TYPES:
            raise self._asc.fail(f"{what}: {element} is not modelled in a vector function; {_NAMES} are")
        width = _WIDTH.get(dist, element.bytes)
        if element.bytes != width:
            raise self._asc.fail(f"{what}: {dist.name} is for elements of {width} bytes, {element} has {element.bytes}")

    def _need_arithmetic(self, what: str, element: DType) -> None:
        if element is BFLOAT16:
            raise self._asc.fail(f"{what}: {element} is only loaded, cast and stored in a vector function; cast it")

    def _emit(
        self,
        op: MicroInstruction,
        element: DType,
        sources: tuple[RegTensor, ...] = (),
        mask: MaskReg = ALL_LANES,
        *,
        memory: LocalTensor | None = None,
        scalar_bits: int = 0,
        layout: Layout = Layout.DENSE,
    ) -> tuple[RegTensor, ...]:
        if self._is_closed:
            raise self._asc.fail(f"{op.name}: its vector function is closed; call it inside the with block")
        for source in sources:
            if source.home is not self:
                raise self._asc.fail(f"{op.name}: register {source.number} belongs to another vector function")
        line, step = self._asc.place()
        src_dtype = sources[0].dtype if sources else element
        count = WORD_LANES if layout is Layout.WORDS else lanes_of(op, element, src_dtype)
        lanes = (1 << count) - 1
        first = self._registers
        self._rows.append(
            MicroRow(
                op,
                first if op.results else -1,
                tuple(s.number for s in sources),
                element,
                src_dtype,
                mask.bits & lanes,
                None if memory is None else self._asc.operand(memory),
                scalar_bits,
                line,
                step,
                self._issue,
            )
        )
        self._issue = Issue.NEXT
        self._registers += op.results
        return tuple(RegTensor(first + i, element, layout, self) for i in range(op.results))

    def finish(self) -> Body:
        """Close it and return the body."""
        self._is_closed = True
        rows = tuple(self._rows)
        return Body(rows, uses_of(rows))


class VectorFunctionCall(Call):
    """Opens a vector function; use it with `with`."""

    reports = (rules.REPEAT_ZERO,)

    @contextmanager
    def __call__(self) -> Iterator[VectorFunction]:
        """Record what is called on the function that is handed out as one row."""
        asc, api = self.asc, self.op.api
        if asc.is_in_vector_function:
            raise asc.fail(f"{api} inside a vector function: close the one that is open first")
        vf = VectorFunction(asc)
        asc.is_in_vector_function = True
        try:
            yield vf
        finally:
            asc.is_in_vector_function = False
        body = vf.finish()
        if body.rows:
            asc.emit(self.op, params=(len(body.rows),), body=body)
        else:
            asc.report(rules.REPEAT_ZERO, got=0, wanted="at least 1", api=api, what="number of micro-operations")


def _touch(row: Row) -> tuple[tuple[str, int, int], ...]:
    assert row.body is not None
    return tuple((use.role, use.first, use.end) for use in row.body.uses)


@finds(ALIGN)
def _aligned(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Registers are loaded and stored at aligned addresses."""
    del device
    assert row.body is not None
    found = []
    for micro in row.body.rows:
        if micro.memory is None:
            continue
        ref = tensors[micro.memory.tensor]
        address = ref.address_bytes + micro.memory.offset_bytes
        if address % micro.op.align_bytes:
            fill = {"api": micro.op.name}
            wanted = f"{micro.op.align_bytes} B"
            found.append(ALIGN.finding(where, operand=ref.name, got=f"0x{address:x}", wanted=wanted, fill=fill))
    return found


@finds(OOB)
def _stores_in_bounds(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Active lanes of stores stay inside the tensor.

    A load takes a whole register: what it reads beyond is harmless as long as its lanes are not used, and the real
    kernels do so; unwritten bytes are followed when values are computed.
    """
    del device
    assert row.body is not None
    found = []
    for use in row.body.uses:
        tensor = tensors[use.operand.tensor]
        past = use.operand.offset_bytes + use.end - tensor.tensor_bytes
        if use.role.startswith("dst") and past > 0:
            fill: dict[str, object] = {"api": row.op.api, "tensor": tensor.name, "past": past}
            got = tensor.tensor_bytes + past
            found.append(OOB.finding(where, operand=tensor.name, got=got, wanted=tensor.tensor_bytes, fill=fill))
    return found


@finds(MEM_BAR)
def _bars(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """What a body stores and loads again has a LocalMemBar in between."""
    assert row.body is not None
    wanted = wanted_lanes(row.body.rows)
    stored = np.zeros(device.ub_bytes, np.bool_)
    for micro in row.body.rows:
        if micro.op.kind is MicroKind.BARRIER:
            stored.fill(False)
        if micro.memory is None:
            continue
        ref, width = tensors[micro.memory.tensor], micro.dtype.bytes
        base = ref.address_bytes + micro.memory.offset_bytes
        at = (base + memory_of(micro, wanted)[:, None] * width + np.arange(width)).reshape(-1)
        # A load may reach behind its tensor into what was stored there: those lanes belong to nothing.
        end = device.ub_bytes if micro.op.kind is MicroKind.STORE else ref.address_bytes + ref.tensor_bytes
        at = at[at < min(end, device.ub_bytes)]
        if micro.op.kind is MicroKind.STORE:
            stored[at] = True
        elif stored[at].any():
            first = int(at[stored[at]][0]) - ref.address_bytes
            return [MEM_BAR.finding(where, operand=ref.name, got=first, wanted="a LocalMemBar before")]
    return []


class VectorFunctions:
    """VectorFunction: the body of a loop over vector registers as one instruction."""

    vector_function: Form[VectorFunctionCall] = Form(
        declare(
            "vector_function",
            """A vector function: its body's loads, register computations and stores as one V instruction.

            Source: asc-devkit docs, architecture page 3510 and Reg vector pages.
            """,
            api="VectorFunction",
            mnemonic="vf",
            pipe=Pipe.V,
            params=("micro_rows",),
            cost="vector_function",
            family="VectorFunction",
            execute=run_body,
            touch=_touch,
            checks=(rules.on_devices_with("vector_function"), _aligned, _stores_in_bounds, _bars),
            uses_mask=False,
        ),
        VectorFunctionCall,
    )
