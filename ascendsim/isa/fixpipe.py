"""Fixpipe: results from L0C to GM or L1, converted, and laid out anew on the way."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, INT8, INT32, UINT8, cast, pack
from ascendsim.errors import Finding, Rule
from ascendsim.isa import rules
from ascendsim.isa.atomic import adder, is_adding
from ascendsim.isa.cube_rules import aligned_to_memory, fields_in
from ascendsim.isa.forms import Call, Form, declare
from ascendsim.isa.instruction import (
    Array,
    Context,
    Instruction,
    Row,
    Step,
    TensorRef,
    finds,
    need_local,
    need_member,
    need_tensor,
)
from ascendsim.isa.mmad import MMAD_FLAG
from ascendsim.isa.move import PATH
from ascendsim.layout import (
    FIXPIPE_ND_STRIDE_ELEMENTS,
    FIXPIPE_ND_STRIDE_ELEMENTS_3510,
    MERGED_COLUMNS,
    PADDING,
    SPLIT_COLUMNS,
    Moves,
    Offsets,
    fixpipe_nd_offsets,
    fixpipe_nz_offsets,
)
from ascendsim.memory import Lanes, LocalTensor, Tensor, distinct
from ascendsim.terms import (
    CUBE_SIDE,
    DATABLOCK_BYTES,
    Buffer,
    CO2Layout,
    Pipe,
    QuantMode,
    RoundMode,
    align_up,
    ceil_div,
)

FIX_PARAM = Rule(
    "E-FIX-PARAM",
    "Fixpipe: {what} {got}; it takes {wanted}",
    "see the parameters of the Fixpipe page",
    "asc-devkit docs, Fixpipe page; api_check of DataCopy",
    condition="A field of Fixpipe does not fit its range: n_size a multiple of 16 for NZ (of 8 with channel split), "
    "m_size at most 8192 as ND and 65535 as NZ, src_stride at least m_size rounded up to 16, dst_stride not 0.",
)
FIX_COLUMNS = FIX_PARAM.saying(
    "Fixpipe: {what} {got} as ND; the page asks for {wanted}, the library's own check takes any",
    "fill n up to 16, or rely on the check",
    level="W",
)
FIX_QUANT = Rule(
    "E-FIX-QUANT",
    "Fixpipe: {got} does not make {operand} of what L0C holds; {wanted} does",
    "choose quant_pre by the types: F322F16, F322BF16, QF322B8_PRE, DEQF16, REQ8, NO_QUANT for the same type",
    "asc-devkit docs, quantisation page",
    condition="Fixpipe's quant_pre does not fit the types of the result in L0C and of the destination.",
)
FIX_SCALES = FIX_QUANT.saying("Fixpipe: {got} takes its scales from a tensor in L1; {wanted}", "pass cbuf_workspace")
FIX_SPLIT = Rule(
    "E-FIX-SPLIT",
    "Fixpipe: channel split is not possible {got}; {wanted}",
    "split float results on their way to GM as NZ, without the unit flag",
    "asc-devkit docs, F32 channel split page",
    condition="Fixpipe splits channels as ND, with the unit flag, on the way to L1, or of other types than float.",
)
FIX_QUANTVAL = Rule(
    "E-FIX-QUANTVAL",
    "Fixpipe: deq_scalar {got}; it must be {wanted}",
    "use a scale of ordinary size",
    "asc-devkit docs, quantisation page",
    condition="A scale of Fixpipe is infinite, NaN or denormal.",
)
FIX_SCALELOSS = Rule(
    "W-FIX-SCALELOSS",
    "Fixpipe: the scale {got} is read as {wanted}: the low 13 bits of its mantissa are dropped",
    "choose a scale with 10 bits of mantissa",
    "asc-devkit docs, quantisation page",
    condition="A scale of Fixpipe loses bits when it is read as a number of 1 + 8 + 10 bits.",
)
HAZARD_FIX = Rule(
    "W-HAZARD-FIX",
    "Fixpipe writes {got} B of the destination twice in one call: {what} is {wanted}",
    "make the strides of the destination at least as long as what lies between them",
    "asc-devkit docs, Fixpipe page",
    condition="One Fixpipe writes bytes twice, or two on the same pipe write the same bytes with no barrier between, "
    "where the API puts none.",
    archs=(2201, 3510),
)
SCALE_BYTES = 8
"""Bytes of the scale of a column, of which the low four are a float (Fixpipe page: cbufWorkspace is of uint64_t)."""
_SCALE_MASK = 0xFFFFE000
"""Bits of a float that Fixpipe keeps of a scale: sign, 8 of exponent, 10 of mantissa (quantisation page)."""
_QUANT = {
    (FLOAT, FLOAT): (QuantMode.NO_QUANT,),
    (FLOAT, HALF): (QuantMode.F322F16,),
    (FLOAT, BFLOAT16): (QuantMode.F322BF16,),
    (FLOAT, INT8): (QuantMode.QF322B8_PRE, QuantMode.VQF322B8_PRE),
    (FLOAT, UINT8): (QuantMode.QF322B8_PRE, QuantMode.VQF322B8_PRE),
    (INT32, INT32): (QuantMode.NO_QUANT,),
    (INT32, HALF): (QuantMode.DEQF16, QuantMode.VDEQF16),
    (INT32, INT8): (QuantMode.REQ8, QuantMode.VREQ8),
    (INT32, UINT8): (QuantMode.REQ8, QuantMode.VREQ8),
}
_PLAIN = (QuantMode.NO_QUANT, QuantMode.F322F16, QuantMode.F322BF16)


@dataclass(frozen=True, slots=True)
class FixpipeParamsV220:
    """What Fixpipe takes, fields as in AscendC's FixpipeParamsV220.

    Attributes:
        n_size: columns of the result.
        m_size: rows.
        src_stride: from one column of fractals in L0C to the next, in rows of 16 elements; at least m_size
            filled up to 16.
        dst_stride: as ND elements from row to row, as NZ datablocks from one column of fractals to the next.
        quant_pre: conversion.
        deq_scalar: scale of all columns for a conversion that takes one, as a number.
        nd_num: matrices, of an ND destination.
        src_nd_stride: from matrix to matrix in L0C, in 1024 B.
        dst_nd_stride: from matrix to matrix in the destination, in elements.
        relu_en: negative results become 0.
        unit_flag: 0 or 3, as the last Mmad.
        is_channel_split: blocks of 16 x 8 floats instead of 16 x 16.
    """

    n_size: int = 0
    m_size: int = 0
    src_stride: int = 0
    dst_stride: int = 0
    quant_pre: QuantMode = QuantMode.NO_QUANT
    deq_scalar: float = 0.0
    nd_num: int = 1
    src_nd_stride: int = 0
    dst_nd_stride: int = 0
    relu_en: bool = False
    unit_flag: int = 0
    is_channel_split: bool = False


_PARAMS = (
    "n_size", "m_size", "src_stride", "dst_stride", "quant_pre", "deq_scalar_bits", "nd_num", "src_nd_stride",
    "dst_nd_stride", "relu_en", "unit_flag", "is_channel_split", "layout", "nd_stride_elements",
)  # fmt: skip


# ---- where elements go ---------------------------------------------------------------------------------------------


def _is_nd(row: Row) -> bool:
    return row.param("layout") == CO2Layout.ROW_MAJOR


def _block_columns(row: Row) -> int:
    """Columns of a block of an NZ destination."""
    assert row.dst is not None
    if row.param("is_channel_split"):
        return SPLIT_COLUMNS
    return MERGED_COLUMNS if row.dst.dtype.bytes == 1 else CUBE_SIDE


def _moves(row: Row) -> Moves:
    assert row.dst is not None
    n, m, src = row.param("n_size"), row.param("m_size"), row.param("src_stride")
    if _is_nd(row):
        nd_stride = row.param("src_nd_stride") * row.param("nd_stride_elements")
        return fixpipe_nd_offsets(
            n, m, src, row.param("dst_stride"), row.param("nd_num"), nd_stride, row.param("dst_nd_stride")
        )
    stride = row.param("dst_stride") * DATABLOCK_BYTES // row.dst.dtype.bytes
    return fixpipe_nz_offsets(n, m, src, stride, _block_columns(row))


def _is_empty(row: Row) -> bool:
    return min(row.param("n_size"), row.param("m_size"), row.param("nd_num") if _is_nd(row) else 1) <= 0


def _touch(row: Row) -> tuple[tuple[str, int, int], ...]:
    assert row.dst is not None
    assert row.src0 is not None
    if _is_empty(row):
        return (("dst", 0, 0), ("src0", 0, 0))
    n, m = row.param("n_size"), row.param("m_size")
    matrices = row.param("nd_num") - 1 if _is_nd(row) else 0
    columns = n if _is_nd(row) else _moved_columns(row)
    whole, rest = (columns - 1) // CUBE_SIDE, (columns - 1) % CUBE_SIDE
    read = whole * row.param("src_stride") * CUBE_SIDE + (m - 1) * CUBE_SIDE + rest + 1
    read += matrices * row.param("src_nd_stride") * row.param("nd_stride_elements")
    touched = [("dst", 0, _written_bytes(row)), ("src0", 0, read * row.src0.dtype.bytes)]
    if QuantMode(row.param("quant_pre")).is_per_column and row.src2 is not None:
        touched.append(("src2", 0, n * SCALE_BYTES))
    return tuple(touched)


def _moved_columns(row: Row) -> int:
    """Columns that leave as NZ: whole blocks, the last of which may be one of 16 behind merged ones."""
    return align_up(row.param("n_size"), min(_block_columns(row), CUBE_SIDE))


def _written_bytes(row: Row) -> int:
    """Bytes from the first to the last written one; blocks of a small stride may lie over each other."""
    assert row.dst is not None
    n, m, width = row.param("n_size"), row.param("m_size"), row.dst.dtype.bytes
    if _is_nd(row):
        matrices = row.param("nd_num") - 1
        return (matrices * row.param("dst_nd_stride") + (m - 1) * row.param("dst_stride") + n) * width
    columns, of_block, pitch = _moved_columns(row), _block_columns(row), row.param("dst_stride") * DATABLOCK_BYTES
    whole, rest = divmod(columns, of_block)
    last_whole = (whole - 1) * pitch + m * of_block * width if whole else 0
    return max(last_whole, whole * pitch + m * rest * width if rest else 0)


def geometry(row: Row) -> tuple[int, int, int, int]:
    """Rows of an ND destination as bursts, or columns of fractals; matrices count as if they followed each other."""
    assert row.dst is not None
    n, m, width = row.param("n_size"), row.param("m_size"), row.dst.dtype.bytes
    if _is_nd(row):
        return max(0, m * row.param("nd_num")), n * width, n * width, row.param("dst_stride") * width
    columns = _block_columns(row)
    pitch = row.param("dst_stride") * DATABLOCK_BYTES
    return ceil_div(max(0, n), columns), m * columns * width, m * columns * width, pitch


def fetched_offsets(row: Row) -> Offsets:
    """Return the bytes at which the elements that a row fetches begin in L0C, counted from src."""
    assert row.src0 is not None
    if _is_empty(row):
        return np.zeros(0, np.int64)
    src = _moves(row).src
    at: Offsets = src[src != PADDING] * row.src0.dtype.bytes
    return at


# ---- arithmetic ----------------------------------------------------------------------------------------------------


def _run(ctx: Context, row: Row) -> Step | None:
    if _is_empty(row):
        return None
    assert row.dst is not None
    assert row.src0 is not None
    moves = _moves(row)
    read, to = ctx.reader(row.src0, Lanes.at(moves.src)), Lanes.at(moves.dst)
    write = adder(ctx, row.dst, to) if row.op.reads_dst else ctx.writer(row.dst, to)
    convert = _converter(ctx, row, moves)
    return lambda: write(convert(read()))


def _converter(ctx: Context, row: Row, moves: Moves) -> Callable[[Array], Array]:
    """Return what makes destination elements of results."""
    assert row.dst is not None
    mode, to, relu = QuantMode(row.param("quant_pre")), row.dst.dtype, bool(row.param("relu_en"))
    scales = _scales(ctx, row, mode, moves)

    def convert(values: Array) -> Array:
        if relu:
            values = np.where(values < 0, np.zeros((), values.dtype), values)
        if mode in _PLAIN:
            return values if to.numpy == values.dtype else cast(values, to, RoundMode.CAST_RINT, ctx.overflow)
        return cast(values.astype(np.float32) * scales(), to, RoundMode.CAST_RINT, ctx.overflow)

    return convert


def _scales(ctx: Context, row: Row, mode: QuantMode, moves: Moves) -> Callable[[], Array]:
    """Return what gives the scale of each element: one for all, or one for each column."""
    if not mode.is_per_column:
        one = np.array(row.param("deq_scalar_bits") & _SCALE_MASK, np.uint32).view(np.float32)
        return lambda: one
    assert row.src2 is not None
    n = row.param("n_size")
    columns = n if _is_nd(row) else _moved_columns(row)  # moves go row by row, so columns come round and round
    column = np.minimum(np.arange(moves.src.size) % columns, n - 1)
    words = ctx.reader(row.src2, Lanes.run(n * SCALE_BYTES // row.src2.dtype.bytes))

    def per_column() -> Array:
        floats: Array = (words().view(np.uint32)[::2] & np.uint32(_SCALE_MASK)).view(np.float32)
        of_each: Array = floats[column]
        return of_each

    return per_column


# ---- rules ---------------------------------------------------------------------------------------------------------


@finds(FIX_PARAM, FIX_COLUMNS, rules.COPY_ZERO)
def _fields(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Fields fit, and something is stored."""
    del tensors, device
    nd, n, m = _is_nd(row), row.param("n_size"), row.param("m_size")
    ranges = {"n_size": (0, 4095), "m_size": (0, 8192 if nd else 65535)}
    if nd:
        ranges |= {"nd_num": (0, 65535), "src_nd_stride": (0, 512), "dst_nd_stride": (0, 65535)}
    found = fields_in(row, where, ranges, FIX_PARAM)
    names = ("n_size", "m_size", "nd_num") if nd else ("n_size", "m_size")
    found += [
        rules.COPY_ZERO.finding(where, got=0, wanted="at least 1", fill={"api": "Fixpipe", "what": what})
        for what in names
        if row.param(what) == 0
    ]
    if row.param("src_stride") < align_up(m, CUBE_SIDE) and n > CUBE_SIDE:
        wanted = f"at least {align_up(m, CUBE_SIDE)}, m_size filled up to {CUBE_SIDE}"
        fill = {"what": "src_stride"}
        found.append(FIX_PARAM.finding(where, got=row.param("src_stride"), wanted=wanted, fill=fill))
    if row.param("dst_stride") <= 0:
        found.append(
            FIX_PARAM.finding(where, got=row.param("dst_stride"), wanted="at least 1", fill={"what": "dst_stride"})
        )
    unit = SPLIT_COLUMNS if row.param("is_channel_split") else CUBE_SIDE
    if n % unit and nd:
        found.append(FIX_COLUMNS.finding(where, got=n, wanted=f"a multiple of {unit}", fill={"what": "n_size"}))
    elif n % unit:
        found.append(FIX_PARAM.finding(where, got=n, wanted=f"a multiple of {unit}", fill={"what": "n_size"}))
    return found


@finds(FIX_QUANT, FIX_SCALES, FIX_QUANTVAL, FIX_SCALELOSS)
def _quantisation(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The conversion fits the types, and its scale can be read."""
    del tensors, device
    assert row.dst is not None
    assert row.src0 is not None
    mode = QuantMode(row.param("quant_pre"))
    known = _QUANT.get((row.src0.dtype, row.dst.dtype), ())
    if mode not in known:
        wanted = " or ".join(q.name for q in known) or f"nothing (no way from {row.src0.dtype})"
        return [FIX_QUANT.finding(where, operand=row.dst.dtype.name, got=mode.name, wanted=wanted)]
    if mode.is_per_column:
        return [] if row.src2 is not None else [FIX_SCALES.finding(where, got=mode.name, wanted="none was passed")]
    return [] if mode in _PLAIN else _scale(row, where)


def _scale(row: Row, where: str) -> list[Finding]:
    """What is wrong with the scale of all columns."""
    bits = np.array(row.param("deq_scalar_bits"), np.uint32)
    value = float(bits.view(np.float32))
    tiny = float(np.finfo(np.float32).tiny)
    if not np.isfinite(value) or 0 < abs(value) < tiny:
        return [FIX_QUANTVAL.finding(where, operand="deq_scalar", got=value, wanted="finite and normal")]
    kept = float((bits & np.uint32(_SCALE_MASK)).view(np.float32))
    return [] if kept == value else [FIX_SCALELOSS.finding(where, operand="deq_scalar", got=value, wanted=kept)]


@finds(FIX_SPLIT, MMAD_FLAG)
def _split(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Channels are split where that is possible, and the unit flag exists."""
    del device
    assert row.dst is not None
    assert row.src0 is not None
    found = []
    if row.param("unit_flag") not in (0, 3):
        got = row.param("unit_flag")
        found.append(MMAD_FLAG.finding(where, operand="unit_flag", got=got, wanted="0 and 3", fill={"api": "Fixpipe"}))
    if not row.param("is_channel_split"):
        return found
    reasons = []
    if _is_nd(row):
        reasons.append("as ND")
    if row.param("unit_flag"):
        reasons.append("with the unit flag")
    if (row.src0.dtype, row.dst.dtype) != (FLOAT, FLOAT):
        reasons.append(f"of {row.src0.dtype} into {row.dst.dtype}")
    if rules.tensor_of(row.dst, tensors).buffer is not Buffer.GM:
        reasons.append("on the way to L1")
    wanted = "it splits float results into GM as NZ"
    return found + [FIX_SPLIT.finding(where, operand="dst", got=why, wanted=wanted) for why in reasons]


@finds(PATH, FIX_QUANT)
def _to_l1(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """What reaches L1: on arch 2201 converted results as NZ only."""
    assert row.dst is not None
    if rules.tensor_of(row.dst, tensors).buffer is Buffer.GM or device.has("fixpipe_l1_any"):
        return []
    found = []
    if _is_nd(row):
        fill = {"api": "Fixpipe"}
        found.append(PATH.finding(where, operand="dst", got="L0C to L1 as ND", wanted="NZ", fill=fill))
    if row.param("quant_pre") == QuantMode.NO_QUANT:
        name = f"L1 in {row.dst.dtype}"
        found.append(FIX_QUANT.finding(where, operand=name, got="NO_QUANT", wanted="a conversion to 16 or 8 bits"))
    return found


@finds(HAZARD_FIX)
def _writes_once(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """No byte of the destination is written twice."""
    del tensors, device
    assert row.dst is not None
    if _is_empty(row) or row.param("dst_stride") <= 0:
        return []
    at = _moves(row).dst
    twice = at.size - distinct(at).size
    if not twice:
        return []
    what = "dst_nd_stride" if _is_nd(row) and row.param("dst_stride") >= row.param("n_size") else "dst_stride"
    fill = {"what": what}
    got = twice * row.dst.dtype.bytes
    return [HAZARD_FIX.finding(where, operand="dst", got=got, wanted=row.param(what), fill=fill)]


def _fixpipe_op(name: str, doc: str, cost: str, family: str, *, adds: bool) -> Instruction:
    return declare(
        name,
        doc,
        api="Fixpipe",
        mnemonic="fix_matrix_cc_to_gm" if cost == "transfer" else "fix_matrix_cc_to_cbuf",
        pipe=Pipe.FIX,
        params=_PARAMS,
        cost=cost,
        family=family,
        execute=_run,
        touch=_touch,
        checks=(
            rules.on_devices_with("fixpipe"),
            rules.dtypes((FLOAT, HALF, BFLOAT16, INT8, UINT8, INT32), "dst"),
            rules.dtypes((FLOAT, INT32), "src0"),
            aligned_to_memory,
            rules.gm_element_aligned,
            _fields,
            _quantisation,
            _split,
            _to_l1,
            _writes_once,
            rules.in_bounds,
        ),
        uses_mask=False,
        reads_dst=adds,
        geometry=geometry,
    )


FIXPIPE_OPS = {
    (Buffer.GM, False): _fixpipe_op(
        "fixpipe_to_gm",
        """Results from L0C to GM as rows (NZ2ND) or fractals, converted, with ReLU. Conversions round to nearest even.

        Source: asc-devkit docs, Fixpipe, quantisation and NZ2ND pages.
        """,
        "transfer",
        "l0c_to_gm",
        adds=False,
    ),
    (Buffer.GM, True): _fixpipe_op(
        "fixpipe_to_gm_atomic_add",
        "As fixpipe_to_gm, added to what GM holds. Source: asc-devkit docs, Fixpipe and SetAtomicAdd pages.",
        "transfer",
        "l0c_to_gm",
        adds=True,
    ),
    (Buffer.L1, False): _fixpipe_op(
        "fixpipe_to_l1",
        "Results from L0C to L1 as fractals, converted. Source: asc-devkit docs, Fixpipe L0C to L1 page.",
        "local",
        "l0c_to_l1",
        adds=False,
    ),
}


class FixpipeCall(Call):
    """dst, src, FixpipeParamsV220; layout CO2Layout.ROW_MAJOR (the default of the API) or NZ; scales of each column."""

    reports = (PATH,)

    def __call__(
        self,
        dst: Tensor,
        src: LocalTensor,
        intri_params: FixpipeParamsV220,
        layout: CO2Layout = CO2Layout.ROW_MAJOR,
        cbuf_workspace: LocalTensor | None = None,
    ) -> None:
        """Record the call."""
        asc = self.asc
        need_tensor(asc, "Fixpipe", "dst", dst)
        need_local(asc, "Fixpipe", "src", src)
        need_member(asc, "Fixpipe", "layout", layout, CO2Layout)
        p = list(self.fields(intri_params, FixpipeParamsV220))
        need_member(asc, "Fixpipe", "quant_pre", intri_params.quant_pre, QuantMode)
        place = asc.buffer_of(dst)
        op = FIXPIPE_OPS.get((place, place is Buffer.GM and is_adding(asc, "Fixpipe", dst.dtype)))
        if op is None or asc.buffer_of(src) is not Buffer.L0C:
            got = f"{asc.buffer_of(src).name} to {place.name}"
            asc.report(PATH, operand="src0", got=got, wanted="L0C to GM or L1", api="Fixpipe")
            return
        p[5] = pack(intri_params.deq_scalar, FLOAT)
        unit = (
            FIXPIPE_ND_STRIDE_ELEMENTS_3510 if asc.device.has("fixpipe_nd_stride_rows") else FIXPIPE_ND_STRIDE_ELEMENTS
        )
        params = (*(int(x) for x in p), int(layout), unit)
        asc.emit(op, dst=dst, src0=src, src2=cbuf_workspace, params=params)


class FixpipeInstructions:
    """Fixpipe."""

    fixpipe = Form(FIXPIPE_OPS[(Buffer.GM, False)], FixpipeCall)
