"""LoadData: fractals from L1 (or GM) to L0A and L0B, copied, transposed, or cut out of a feature map."""

from dataclasses import dataclass
from math import prod

from ascendsim.device import Device
from ascendsim.dtypes import BFLOAT16, DTYPES, FLOAT, HALF, INT8, INT32, UINT8, UINT32
from ascendsim.errors import Finding, Rule
from ascendsim.isa import rules
from ascendsim.isa.cube_rules import aligned_to_memory, fields_in
from ascendsim.isa.forms import Call, Form, declare
from ascendsim.isa.instruction import Check, Context, Instruction, Row, Step, TensorRef, finds, need_tensor
from ascendsim.isa.move import PATH
from ascendsim.isa.moves import run_moves
from ascendsim.isa.params import need_params
from ascendsim.layout import (
    FeatureMap,
    Moves,
    copied,
    load_data_2d_fractals,
    load_data_3d,
    square_fractals,
    transpose_fractals,
    transposed,
)
from ascendsim.memory import LocalTensor, Tensor
from ascendsim.terms import CUBE_SIDE, FRACTAL_BYTES, Buffer, Layout, Pipe, align_up

RANGE_LOAD = Rule(
    "E-RANGE-LOAD",
    "{api}: {what} {got} is out of range {wanted}",
    "split the load",
    "asc-devkit docs, LoadData pages; api_check of LoadData",
    condition="A field of LoadData does not fit its range: repeat_times 0..255, start_index and strides 0..65535, "
    "those of the 3D form as its page lists them.",
)
LOAD_NOP = Rule(
    "E-LOAD-NOP",
    "{api} loads nothing: {what} is 0",
    "guard the call",
    "asc-devkit docs, LoadData pages",
    level="W",
    condition="A load moves nothing, because its repeat_times, or of the 3D form a size or an extension, is 0.",
)
LOAD_TRANS = Rule(
    "E-LOAD-TRANS",
    "{api}: {got} cannot be transposed on the way to {operand}; {wanted}",
    "use load_data_with_transpose, or transpose before",
    "asc-devkit docs, LoadData 2D, LoadDataWithTranspose and LoadData 3D pages",
    condition="LoadData 2D transposes elements that have no 16 bits, LoadDataWithTranspose loads L0A where it cannot, "
    "or the 3D form transposes 8-bit elements to L0A or takes them to L0B on arch 2201.",
)
_WORDS = (HALF, BFLOAT16, FLOAT, INT8, UINT8, INT32, UINT32)


@dataclass(frozen=True, slots=True)
class LoadData2DParams:
    """Fractals of LoadData, fields in AscendC's order; strides and gaps in fractals of 512 B."""

    start_index: int = 0
    repeat_times: int = 0
    src_stride: int = 0
    sid: int = 0
    dst_gap: int = 0
    if_transpose: bool = False
    addr_mode: int = 0


@dataclass(frozen=True, slots=True)
class LoadData2dTransposeParams:
    """Squares of LoadDataWithTranspose: start_index and src_stride count squares, gaps fractals of 512 B."""

    start_index: int = 0
    repeat_times: int = 0
    src_stride: int = 0
    dst_gap: int = 0
    dst_frac_gap: int = 0
    addr_mode: int = 0


@dataclass(frozen=True, slots=True)
class LoadData3DParamsV2:
    """A window of the image-to-column matrix of a feature map [channel_size / C0, l1_h, l1_w, C0] in L1."""

    l1_h: int = 1
    l1_w: int = 1
    channel_size: int = 0
    k_extension: int = 0
    m_extension: int = 0
    k_start_pt: int = 0
    m_start_pt: int = 0
    stride_w: int = 1
    stride_h: int = 1
    filter_w: int = 1
    filter_h: int = 1
    dilation_filter_w: int = 1
    dilation_filter_h: int = 1
    pad_left: int = 0
    pad_right: int = 0
    pad_top: int = 0
    pad_bottom: int = 0
    en_transpose: bool = False
    pad_value: int = 0


_2D = ("start_index", "repeat_times", "src_stride", "sid", "dst_gap", "if_transpose", "addr_mode")
_TRANSPOSE = ("start_index", "repeat_times", "src_stride", "dst_gap", "dst_frac_gap", "addr_mode")
_3D = (*LoadData3DParamsV2.__dataclass_fields__, "is_nz")
_RANGES_2D = {"start_index": (0, 65535), "repeat_times": (0, 255), "src_stride": (0, 65535), "dst_gap": (0, 65535)}
_RANGES_TRANSPOSE = _RANGES_2D | {"dst_frac_gap": (0, 65535)}
_RANGES_3D = {
    "l1_h": (0, 32767), "l1_w": (0, 32767), "channel_size": (0, 65535), "k_extension": (0, 65535),
    "m_extension": (0, 65535), "k_start_pt": (0, 65535), "m_start_pt": (0, 32767), "stride_w": (1, 63),
    "stride_h": (1, 63), "filter_w": (0, 255), "filter_h": (0, 255), "dilation_filter_w": (1, 255),
    "dilation_filter_h": (1, 255), "pad_left": (0, 255), "pad_right": (0, 255), "pad_top": (0, 255),
    "pad_bottom": (0, 255),
}  # fmt: skip
_NOTHING = ("l1_h", "l1_w", "channel_size", "k_extension", "m_extension", "filter_w", "filter_h")


# ---- 2D --------------------------------------------------------------------------------------------------------


def _spread(first: int, step: int, repeat: int, reach: int) -> tuple[int, int]:
    """Byte range of `repeat` pieces of `reach` bytes that begin `step` bytes apart, which may be negative."""
    if repeat <= 0:
        return 0, 0
    last = first + (repeat - 1) * step
    return min(first, last), max(first, last) + reach


def _steps_2d(row: Row) -> tuple[int, int, int]:
    """(First source byte, from fractal to fractal in the source, in the destination)."""
    step = row.param("src_stride") * FRACTAL_BYTES * (-1 if row.param("addr_mode") else 1)
    return row.param("start_index") * FRACTAL_BYTES, step, (row.param("dst_gap") + 1) * FRACTAL_BYTES


def _touch_2d(row: Row) -> tuple[tuple[str, int, int], ...]:
    first, src, dst = _steps_2d(row)
    repeat = row.param("repeat_times")
    return (("dst", *_spread(0, dst, repeat, FRACTAL_BYTES)), ("src0", *_spread(first, src, repeat, FRACTAL_BYTES)))


def _run_2d(ctx: Context, row: Row) -> Step | None:
    assert row.dst is not None
    if row.param("repeat_times") <= 0:
        return None
    start, repeat, src_stride, _, dst_gap, is_turned, addr_mode = row.params
    fractals = load_data_2d_fractals(start, repeat, src_stride, dst_gap, addr_mode)
    if is_turned:  # a fractal is 16 x 16 of 16 bits here, whatever the type: `_transposes_words` finds others
        return run_moves(ctx, row, transposed(fractals, HALF.bytes), HALF.bytes)
    width = row.dst.dtype.bytes
    return run_moves(ctx, row, copied(fractals, width), width)


def _geometry_2d(row: Row) -> tuple[int, int, int, int]:
    _, src, dst = _steps_2d(row)
    return max(0, row.param("repeat_times")), FRACTAL_BYTES, abs(src), dst


@finds(RANGE_LOAD, LOAD_NOP)
def _ranges_2d(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Fields fit, and something is loaded."""
    del tensors, device
    ranges = _RANGES_TRANSPOSE if "dst_frac_gap" in row.op.params else _RANGES_2D
    return [*fields_in(row, where, ranges, RANGE_LOAD), *_nothing(row, where, ("repeat_times",))]


def _nothing(row: Row, where: str, names: tuple[str, ...]) -> list[Finding]:
    fill = {"api": row.op.api}
    return [
        LOAD_NOP.finding(where, operand=what, got=0, wanted="at least 1", fill=fill | {"what": what})
        for what in names
        if row.param(what) == 0
    ]


@finds(LOAD_TRANS)
def _transposes_words(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The 2D form transposes fractals of 16 x 16 only."""
    del device
    assert row.dst is not None
    if not row.param("if_transpose") or row.dst.dtype.bytes == HALF.bytes:
        return []
    place = rules.tensor_of(row.dst, tensors).buffer.name
    wanted = "the 2D form transposes 16-bit elements"
    fill = {"api": row.op.api}
    return [LOAD_TRANS.finding(where, operand=place, got=row.dst.dtype, wanted=wanted, fill=fill)]


# ---- with transpose ----------------------------------------------------------------------------------------------


def _moves_transpose(row: Row) -> Moves:
    assert row.dst is not None
    width = row.dst.dtype.bytes
    start, repeat, src, gap, frac_gap, mode = row.params
    return transposed(transpose_fractals(start, repeat, src, gap, frac_gap, width, mode), width)


def _touch_transpose(row: Row) -> tuple[tuple[str, int, int], ...]:
    assert row.dst is not None
    start, repeat, src, gap, frac_gap, mode = row.params
    unit = square_fractals(row.dst.dtype.bytes)
    reach = ((unit - 1) * (frac_gap + 1) + 1) * FRACTAL_BYTES
    square = unit * FRACTAL_BYTES
    read = _spread(start * square, (-src if mode else src) * square, repeat, square)
    return (("dst", *_spread(0, (gap + 1) * FRACTAL_BYTES, repeat, reach)), ("src0", *read))


def _geometry_transpose(row: Row) -> tuple[int, int, int, int]:
    assert row.dst is not None
    square = square_fractals(row.dst.dtype.bytes) * FRACTAL_BYTES
    return max(0, row.param("repeat_times")), square, row.param("src_stride") * square, square


def _run_transpose(ctx: Context, row: Row) -> Step | None:
    assert row.dst is not None
    if row.param("repeat_times") <= 0:
        return None
    return run_moves(ctx, row, _moves_transpose(row), row.dst.dtype.bytes)


@finds(LOAD_TRANS)
def _transposes_to(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """L0A cannot be loaded transposed everywhere."""
    assert row.dst is not None
    place = rules.tensor_of(row.dst, tensors).buffer
    if place is not Buffer.L0A or device.has("load_transpose_to_l0a"):
        return []
    wanted = f"arch {device.npu_arch} transposes to L0B only"
    return [LOAD_TRANS.finding(where, operand="L0A", got=row.dst.dtype, wanted=wanted, fill={"api": row.op.api})]


# ---- 3D ----------------------------------------------------------------------------------------------------------


def _feature_map(row: Row) -> FeatureMap:
    names = FeatureMap.__dataclass_fields__
    return FeatureMap(**{name: row.param(name) for name in names})


def _moves_3d(row: Row, place: Buffer) -> Moves:
    assert row.dst is not None
    layout = Layout.ZN if place is Buffer.L0B else Layout.NZ if row.param("is_nz") else Layout.ZZ
    window = (row.param("m_start_pt"), row.param("m_extension"), row.param("k_start_pt"), row.param("k_extension"))
    width, turned = row.dst.dtype.bytes, bool(row.param("en_transpose"))
    return load_data_3d(_feature_map(row), *window, layout, width, en_transpose=turned)


def _touch_3d(row: Row) -> tuple[tuple[str, int, int], ...]:
    """The window filled up to squares, and the feature map."""
    assert row.dst is not None
    if any(row.param(name) <= 0 for name in _NOTHING):
        return (("dst", 0, 0), ("src0", 0, 0))
    width = row.dst.dtype.bytes
    side = max(CUBE_SIDE, 32 // width)
    written = align_up(row.param("m_extension"), CUBE_SIDE) * align_up(row.param("k_extension"), 32 // width)
    if row.param("en_transpose") or row.op.name == "load_data_3d_l0b":
        written = align_up(row.param("m_extension"), side) * align_up(row.param("k_extension"), side)
    read = prod(row.param(name) for name in ("l1_h", "l1_w", "channel_size"))
    return (("dst", 0, written * width), ("src0", 0, read * width))


def _geometry_3d(row: Row) -> tuple[int, int, int, int]:
    """The window filled up, as one burst."""
    written = {role: end for role, _, end in _touch_3d(row)}["dst"]
    return 1, written, written, written


def _run_3d(ctx: Context, row: Row) -> Step | None:
    if any(row.param(name) <= 0 for name in _NOTHING):
        return None
    assert row.dst is not None
    moves = _moves_3d(row, Buffer.L0B if row.op.name == "load_data_3d_l0b" else Buffer.L0A)
    return run_moves(ctx, row, moves, row.dst.dtype.bytes, row.param("pad_value"))


@finds(RANGE_LOAD, LOAD_NOP, LOAD_TRANS)
def _ranges_3d(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Fields fit, something is loaded, and the types can be transposed."""
    assert row.dst is not None
    found = [*fields_in(row, where, _RANGES_3D, RANGE_LOAD), *_nothing(row, where, _NOTHING)]
    c0 = 32 // row.dst.dtype.bytes
    if row.param("k_start_pt") % c0:
        fill = {"api": row.op.api, "what": "k_start_pt"}
        found.append(RANGE_LOAD.finding(where, got=row.param("k_start_pt"), wanted=f"a multiple of {c0}", fill=fill))
    place = rules.tensor_of(row.dst, tensors).buffer
    turned = place is Buffer.L0B or row.param("en_transpose")
    if turned and row.dst.dtype.bytes == 1 and not device.has("load_3d_transposes_bytes"):
        wanted = "16-bit and 32-bit elements can"
        fill = {"api": row.op.api}
        found.append(LOAD_TRANS.finding(where, operand=place.name, got=row.dst.dtype, wanted=wanted, fill=fill))
    return found


# ---- declarations and calls ----------------------------------------------------------------------------------------


def _op_2d(name: str, doc: str, mnemonic: str, pipe: Pipe, cost: str, family: str, *more: Check) -> Instruction:
    return declare(
        name,
        doc,
        api="LoadData",
        mnemonic=mnemonic,
        pipe=pipe,
        params=_2D,
        cost=cost,
        family=family,
        execute=_run_2d,
        touch=_touch_2d,
        checks=(
            *more,
            rules.dtypes(DTYPES, "dst", "src0"),
            rules.same_dtype,
            aligned_to_memory,
            rules.gm_element_aligned,
            _ranges_2d,
            _transposes_words,
            rules.in_bounds,
        ),
        uses_mask=False,
        geometry=_geometry_2d,
    )


LOAD_2D_OPS = {
    (Buffer.L1, Buffer.L0A): _op_2d(
        "load_data_2d_l0a",
        "Fractals from L1 to L0A, copied or 16 x 16 transposed. Source: asc-devkit docs, LoadData 2D page.",
        "load_cbuf_to_ca",
        Pipe.MTE1,
        "local",
        "l1_to_l0a",
    ),
    (Buffer.L1, Buffer.L0B): _op_2d(
        "load_data_2d_l0b",
        "Fractals from L1 to L0B, copied or 16 x 16 transposed. Source: asc-devkit docs, LoadData 2D page.",
        "load_cbuf_to_cb",
        Pipe.MTE1,
        "local",
        "l1_to_l0b",
    ),
    (Buffer.GM, Buffer.L1): _op_2d(
        "load_data_2d_gm_to_l1",
        "Fractals from GM to L1. Source: asc-devkit docs, LoadData 2D page.",
        "load_gm_to_cbuf",
        Pipe.MTE2,
        "transfer",
        "gm_to_l1",
    ),
    (Buffer.GM, Buffer.L0A): _op_2d(
        "load_data_2d_gm_to_l0a",
        "Fractals from GM to L0A. Source: asc-devkit docs, LoadData 2D page.",
        "load_gm_to_ca",
        Pipe.MTE2,
        "transfer",
        "gm_to_l0a",
        rules.on_devices_with("load_gm_to_l0"),
    ),
    (Buffer.GM, Buffer.L0B): _op_2d(
        "load_data_2d_gm_to_l0b",
        "Fractals from GM to L0B. Source: asc-devkit docs, LoadData 2D page.",
        "load_gm_to_cb",
        Pipe.MTE2,
        "transfer",
        "gm_to_l0b",
        rules.on_devices_with("load_gm_to_l0"),
    ),
}


def _op_transpose(name: str, doc: str, mnemonic: str, family: str) -> Instruction:
    return declare(
        name,
        doc,
        api="LoadDataWithTranspose",
        mnemonic=mnemonic,
        pipe=Pipe.MTE1,
        params=_TRANSPOSE,
        cost="local",
        family=family,
        execute=_run_transpose,
        touch=_touch_transpose,
        checks=(
            rules.on_devices_with("load_data_with_transpose"),
            rules.dtypes(_WORDS, "dst", "src0"),
            rules.same_dtype,
            aligned_to_memory,
            _ranges_2d,
            _transposes_to,
            rules.in_bounds,
        ),
        uses_mask=False,
        geometry=_geometry_transpose,
    )


TRANSPOSE_OPS = {
    (Buffer.L1, Buffer.L0A): _op_transpose(
        "load_data_with_transpose_l0a",
        """Squares from L1 to L0A, each transposed: 32 x 32 of 8 bits, 16 x 16 of 16 and 32 bits.

        Source: asc-devkit docs, LoadDataWithTranspose page.
        """,
        "load_cbuf_to_ca_transpose",
        "l1_to_l0a",
    ),
    (Buffer.L1, Buffer.L0B): _op_transpose(
        "load_data_with_transpose_l0b",
        """Squares from L1 to L0B, each transposed: 32 x 32 of 8 bits, 16 x 16 of 16 and 32 bits.

        Source: asc-devkit docs, LoadDataWithTranspose page.
        """,
        "load_cbuf_to_cb_transpose",
        "l1_to_l0b",
    ),
}


def _op_3d(name: str, doc: str, mnemonic: str, family: str) -> Instruction:
    return declare(
        name,
        doc,
        api="LoadData",
        mnemonic=mnemonic,
        pipe=Pipe.MTE1,
        params=_3D,
        cost="local",
        family=family,
        execute=_run_3d,
        touch=_touch_3d,
        checks=(
            rules.dtypes(_WORDS, "dst", "src0"),
            rules.same_dtype,
            aligned_to_memory,
            _ranges_3d,
            rules.in_bounds,
        ),
        uses_mask=False,
        geometry=_geometry_3d,
    )


LOAD_3D_OPS = {
    (Buffer.L1, Buffer.L0A): _op_3d(
        "load_data_3d_l0a",
        """A window of a feature map's image-to-column matrix from L1 to L0A.

        Source: asc-devkit docs, LoadData convolution page.
        """,
        "img2colv2_cbuf_to_ca",
        "l1_to_l0a_3d",
    ),
    (Buffer.L1, Buffer.L0B): _op_3d(
        "load_data_3d_l0b",
        """A window of a feature map's image-to-column matrix from L1 to L0B, always transposed.

        Source: asc-devkit docs, LoadData convolution page.
        """,
        "img2colv2_cbuf_to_cb",
        "l1_to_l0b_3d",
    ),
}


class LoadDataCall(Call):
    """dst, src, LoadData2DParams or LoadData3DParamsV2."""

    reports = (PATH,)

    def __call__(self, dst: LocalTensor, src: Tensor, load_params: LoadData2DParams | LoadData3DParamsV2) -> None:
        """Record the call."""
        asc = self.asc
        if isinstance(load_params, LoadData3DParamsV2):
            need_params(asc, "LoadData", load_params, LoadData3DParamsV2)
            is_nz = int(asc.device.has("l0a_is_nz"))
            self._emit(LOAD_3D_OPS, dst, src, (*self.fields(load_params, LoadData3DParamsV2), is_nz))
        else:
            self._emit(LOAD_2D_OPS, dst, src, self.fields(load_params, LoadData2DParams))

    def _emit(
        self, ops: dict[tuple[Buffer, Buffer], Instruction], dst: Tensor, src: Tensor, params: tuple[int, ...]
    ) -> None:
        asc, api = self.asc, self.op.api
        need_tensor(asc, api, "dst", dst)
        need_tensor(asc, api, "src", src)
        path = asc.buffer_of(src), asc.buffer_of(dst)
        op = ops.get(path)
        if op is None:
            got = f"{path[0].name} to {path[1].name}"
            asc.report(PATH, operand="src0", got=got, wanted="L1 to L0A or L0B", api=api)
            return
        asc.emit(op, dst=dst, src0=src, params=tuple(int(p) for p in params))


class LoadDataWithTransposeCall(LoadDataCall):
    """dst, src, LoadData2dTransposeParams."""

    def __call__(  # type: ignore[override]
        self, dst: LocalTensor, src: LocalTensor, load_params: LoadData2dTransposeParams
    ) -> None:
        """Record the call."""
        self._emit(TRANSPOSE_OPS, dst, src, self.fields(load_params, LoadData2dTransposeParams))


class LoadInstructions:
    """LoadData, LoadDataWithTranspose."""

    load_data = Form(LOAD_2D_OPS[(Buffer.L1, Buffer.L0A)], LoadDataCall)
    load_data_with_transpose = Form(TRANSPOSE_OPS[(Buffer.L1, Buffer.L0B)], LoadDataWithTransposeCall)
