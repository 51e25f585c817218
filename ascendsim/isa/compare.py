"""Compare and Compares: bits from elements.

A bit stands for an element, eight in a byte, the lowest first. Both take whole repeats and know no mask on arch 2201.
A comparison with a NaN is false, NE is true (IEEE 754; the documents are silent). In counter mode all elements are
compared, too; those behind the count, which the library's kernels compare along, need not have been written.
"""

from collections.abc import Callable
from typing import overload

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import FLOAT, HALF, INT8, INT32, UINT8, DType
from ascendsim.errors import Finding, Rule
from ascendsim.isa import rules
from ascendsim.isa.forms import (
    BINARY,
    UNARY,
    BinaryRepeatParams,
    Call,
    Form,
    Mask,
    UnaryRepeatParams,
    apply_mask,
    declare,
)
from ascendsim.isa.instruction import (
    Array,
    Context,
    Instruction,
    Operand,
    Recorder,
    Register,
    Row,
    Step,
    TensorRef,
    finds,
    need_count,
    need_int,
    need_member,
)
from ascendsim.isa.lanes import byte_range, element_offsets
from ascendsim.isa.overlap import apart, start_of
from ascendsim.memory import Lanes, LocalTensor
from ascendsim.terms import FULL_MASK, CmpMode, MaskMode, Pipe

ALIGN_COMPARE = Rule(
    "E-ALIGN-COMPARE",
    "{api} count {got}: the last {past} elements fill no repeat of {wanted} and are not compared",
    "pad the count to whole repeats of 256 B",
    "asc-devkit docs, Compare page",
    condition="The count form of Compare or Compares gets a count whose bytes are no multiple of 256 B.",
)
MASK_IGNORED = Rule(
    "W-MASK-MODE",
    "mask state has no effect on {api}: it compares whole repeats, got {got}",
    "pass a full mask in normal mode; call set_mask_norm",
    "asc-devkit docs, Compare page and mask summary",
    condition="Compare gets a mask that leaves lanes out, or counter mode, neither of which has an effect on "
    "it; or counter mode is still on when the kernel ends.",
)
COUNTER_IGNORED = MASK_IGNORED.saying(
    "mask state has no effect on {api}, which takes no mask: {got} is on",
    hint="call set_mask_norm and reset_mask before",
    source="asc-devkit docs, mask summary",
)
COMPARE_TYPE = rules.DTYPE_OP.saying(
    "{api} {got} does not support {operand} of int32_t; it takes half, float, or int32_t with EQ",
    "cast to float first",
    "asc-devkit docs, Compare page",
)
MOST_COMPARED = 252
"""Repeats of one Compare of the count form: a multiple of 4, so that results of halves and floats stay aligned."""

FLOATS = (HALF, FLOAT)
BITS = (INT8, UINT8)
RELATIONS: dict[CmpMode, Callable[[Array, Array], Array]] = {
    CmpMode.LT: np.less,
    CmpMode.GT: np.greater,
    CmpMode.EQ: np.equal,
    CmpMode.LE: np.less_equal,
    CmpMode.GE: np.greater_equal,
    CmpMode.NE: np.not_equal,
}


def _grid(row: Row, dtype: DType) -> tuple[Array, Array]:
    """Repeat and lane numbers of whole repeats, masks set aside."""
    repeat, lanes = max(0, row.param("repeat")), dtype.per_repeat
    return np.repeat(np.arange(repeat), lanes), np.tile(np.arange(lanes), repeat)


def _source_at(row: Row, role: str, operand: Operand) -> Lanes:
    repeats, lanes = _grid(row, operand.dtype)
    blk, rep = row.param(f"{role}_blk_stride"), row.param(f"{role}_rep_stride")
    return Lanes.at(element_offsets(repeats, lanes, blk, rep, operand.dtype.bytes))


def _reader(ctx: Context, row: Row, role: str, operand: Operand) -> Callable[[], Array]:
    """Return what gives a source's elements, noting unwritten ones: in counter mode only those that count."""
    at = _source_at(row, role, operand)
    if row.mask_mode is MaskMode.NORMAL or row.mask_lo >= at.size:
        return ctx.reader(operand, at)
    counted = ctx.reader(operand, Lanes.at(at.offsets[: row.mask_lo]))
    others = ctx.loader(operand, Lanes.at(at.offsets[row.mask_lo :]))
    return lambda: np.concatenate((counted(), others()[0]))


def _result_bytes(row: Row) -> int:
    """Bytes of all result bits, which lie one repeat behind the other."""
    assert row.src0 is not None
    return max(0, row.param("repeat")) * row.src0.dtype.per_repeat // 8


def _touch_compare(row: Row) -> tuple[tuple[str, int, int], ...]:
    sources = [(role, o) for role, o in row.operands if role != "dst"]
    read = tuple((role, *byte_range(_source_at(row, role, o), o.dtype.bytes)) for role, o in sources)
    return (("dst", 0, _result_bytes(row)), *read)


def _run_compare(ctx: Context, row: Row) -> Step:
    """All sources are read before a bit is written."""
    assert row.dst is not None
    reads = [_reader(ctx, row, role, o) for role, o in row.operands if role != "dst"]
    scalar = ctx.scalar(row) if row.op.takes_scalar else None
    write, relation = ctx.writer(row.dst, Lanes.run(_result_bytes(row))), RELATIONS[CmpMode(row.param("cmp_mode"))]
    kind = row.dst.dtype.numpy

    def step() -> None:
        values = [read() for read in reads]
        other = values[1] if scalar is None else scalar()
        write(np.packbits(relation(values[0], other), bitorder="little").view(kind))

    return step


@finds(COMPARE_TYPE)
def _compare_types(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Integers are compared for equality only."""
    del tensors, device
    mode = CmpMode(row.param("cmp_mode"))
    if mode is CmpMode.EQ or row.src0 is None or row.src0.dtype is not INT32:
        return []
    return [COMPARE_TYPE.finding(where, operand="src0", got=mode.name, wanted="EQ", fill={"api": row.op.api})]


@finds(rules.DTYPE_SAME)
def _same_sources(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Both sources have one dtype."""
    del tensors, device
    if row.src0 is None or row.src1 is None or row.src0.dtype is row.src1.dtype:
        return []
    got = f"src0 {row.src0.dtype}, src1 {row.src1.dtype}"
    return [rules.DTYPE_SAME.finding(where, operand="src1", got=got, wanted="one dtype", fill={"api": row.op.api})]


def _bits_on_source(row: Row, source: Operand, tensors: tuple[TensorRef, ...]) -> bool:
    """Whether bits go to the start of what Compares reads, as the library's kernels put them.

    A repeat is read before its bits are written, at most 16 bytes, which lie before what later repeats read.
    """
    assert row.dst is not None
    if "src1_blk_stride" in row.op.params or row.param("src0_rep_stride") < 1:
        return False
    return start_of(row.dst, tensors) == start_of(source, tensors)


def _compare_op(name: str, api: str, mnemonic: str, params: tuple[str, ...], doc: str) -> Instruction:
    sources = ("src0", "src1") if "src1_blk_stride" in params else ("src0",)
    return declare(
        name,
        doc,
        api=api,
        mnemonic=mnemonic,
        pipe=Pipe.V,
        params=(*params, "cmp_mode"),
        cost="vector",
        family=api,
        execute=_run_compare,
        touch=_touch_compare,
        checks=(
            rules.dtypes(BITS, "dst"),
            rules.dtypes((HALF, FLOAT, INT32), *sources),
            _same_sources,
            _compare_types,
            rules.aligned("dst", *sources),
            rules.repeat_range,
            rules.strides(255, 255) if len(sources) == 2 else rules.strides(65535, 255),
            apart(*sources, unless=_bits_on_source),
            rules.in_bounds,
        ),
        uses_mask=False,
        takes_scalar=len(sources) == 1,
        scalar_role="src0",
        lane_roles=sources,
    )


def _record_compare(
    call: Call,
    mode: CmpMode,
    dst: LocalTensor,
    src0: LocalTensor,
    src1: LocalTensor | None,
    scalar: float | Register | None,
    how: tuple[Mask, int | None, tuple[int, ...]],
) -> None:
    """Record the count form as whole repeats, at most 252 at once; or the mask form, whose mask has no effect.

    Args:
        call: the call.
        mode: the relation.
        dst: bits.
        src0: left side.
        src1: right side, None for a scalar.
        scalar: right side otherwise.
        how: mask or count, repeat_times or None, strides.
    """
    asc, api, lanes = call.asc, call.op.api, src0.dtype.per_repeat
    mask, repeat_times, strides = how
    need_member(asc, api, "cmp_mode", mode, CmpMode)
    if repeat_times is not None:
        need_int(asc, api, "repeat_times", repeat_times)
        _ignore_mask(asc, api, mask, src0.dtype)
        parts = [(0, repeat_times)]
    else:
        count = need_count(asc, api, "count", mask)
        if count % lanes:
            asc.report(ALIGN_COMPARE, operand="count", got=count, wanted=lanes, api=api, past=count % lanes)
        whole = count // lanes
        if not count:
            asc.report(rules.REPEAT_ZERO, got=0, wanted="at least 1", api=api, what="count")
        parts = [(at, min(MOST_COMPARED, whole - at)) for at in range(0, whole, MOST_COMPARED)]
    for first, repeat in parts:
        asc.emit(
            call.op,
            dst=dst[first * lanes // 8],
            src0=src0[first * lanes],
            src1=None if src1 is None else src1[first * lanes],
            params=(repeat, *strides, int(mode)),
            scalar=scalar,
            scalar_dtype=src0.dtype,
        )


@finds(COUNTER_IGNORED)
def counter_ignored(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """An instruction that takes no mask does not run in counter mode, which somebody switched on for it."""
    del tensors, device
    if row.mask_mode is MaskMode.NORMAL:
        return []
    return [
        COUNTER_IGNORED.finding(
            where, operand="mask", got="counter mode", wanted="normal mode", fill={"api": row.op.api}
        )
    ]


def _ignore_mask(asc: Recorder, api: str, mask: Mask, dtype: DType) -> None:
    """Set the mask as the call does, and say that it has no effect unless it selects everything."""
    apply_mask(asc, api, mask, dtype)
    full = FULL_MASK if dtype.per_repeat > 64 else 0
    is_full = asc.mask.lo == FULL_MASK and asc.mask.hi & full == full
    if asc.mask.mode is MaskMode.COUNTER or not is_full:
        got = "counter mode" if asc.mask.mode is MaskMode.COUNTER else "a mask that leaves lanes out"
        asc.report(MASK_IGNORED, operand="mask", got=got, wanted="a full mask", api=api)


class CompareCall(Call):
    """dst, src0, src1, cmp_mode; then count, or mask, repeat_times and strides."""

    reports = (rules.RANGE_MASK, rules.REPEAT_ZERO, ALIGN_COMPARE, MASK_IGNORED)

    @overload
    def __call__(
        self, dst: LocalTensor, src0: LocalTensor, src1: LocalTensor, cmp_mode: CmpMode, count: int, /
    ) -> None: ...
    @overload
    def __call__(
        self,
        dst: LocalTensor,
        src0: LocalTensor,
        src1: LocalTensor,
        cmp_mode: CmpMode,
        mask: Mask,
        repeat_times: int,
        repeat_params: BinaryRepeatParams = ...,
    ) -> None: ...
    def __call__(
        self,
        dst: LocalTensor,
        src0: LocalTensor,
        src1: LocalTensor,
        cmp_mode: CmpMode,
        mask: Mask,
        repeat_times: int | None = None,
        repeat_params: BinaryRepeatParams = BinaryRepeatParams(),
    ) -> None:
        """Record the call."""
        self.locals(dst=dst, src0=src0, src1=src1)
        how = (mask, repeat_times, self.fields(repeat_params, BinaryRepeatParams))
        _record_compare(self, cmp_mode, dst, src0, src1, None, how)


class ComparesCall(Call):
    """dst, src, scalar, cmp_mode; then count, or mask, repeat_times and strides."""

    reports = (rules.RANGE_MASK, rules.REPEAT_ZERO, ALIGN_COMPARE, MASK_IGNORED)

    @overload
    def __call__(
        self, dst: LocalTensor, src: LocalTensor, scalar: float | Register, cmp_mode: CmpMode, count: int, /
    ) -> None: ...
    @overload
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        scalar: float | Register,
        cmp_mode: CmpMode,
        mask: Mask,
        repeat_times: int,
        repeat_params: UnaryRepeatParams = ...,
    ) -> None: ...
    def __call__(
        self,
        dst: LocalTensor,
        src: LocalTensor,
        scalar: float | Register,
        cmp_mode: CmpMode,
        mask: Mask,
        repeat_times: int | None = None,
        repeat_params: UnaryRepeatParams = UnaryRepeatParams(),
    ) -> None:
        """Record the call."""
        self.locals(dst=dst, src=src)
        how = (mask, repeat_times, self.fields(repeat_params, UnaryRepeatParams))
        _record_compare(self, cmp_mode, dst, src, None, scalar, how)


class CompareInstructions:
    """Compare and Compares (CompareScalar)."""

    compare = Form(
        _compare_op(
            "compare",
            "Compare",
            "vcmpv",
            BINARY,
            """Bit i of dst = whether src0[i] stands in the relation to src1[i]; half, float, int32_t with EQ only.

            Whole repeats of 256 B, bits of one repeat behind those of the one before; the mask has no effect.

            Source: asc-devkit docs, Compare page.
            """,
        ),
        CompareCall,
    )
    compares = Form(
        _compare_op(
            "compares",
            "Compares",
            "vcmpvs",
            UNARY,
            """Bit i of dst = whether src[i] stands in the relation to a scalar; half, float, int32_t with EQ only.

            Whole repeats of 256 B, bits of one repeat behind those of the one before; the mask has no effect. The bits
            may go to the start of src.

            Source: asc-devkit docs, Compares page; in place as SelectWithBytesMask has it.
            """,
        ),
        ComparesCall,
    )
    compare_scalar = compares
