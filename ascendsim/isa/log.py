"""One row of a program as one row of an instruction log: the columns that vendor intrinsics are described by."""

from ascendsim.isa.convert import cast_mnemonic
from ascendsim.isa.instruction import Operand, Row, TensorRef
from ascendsim.isa.move import COPY, PAD_IN, PAD_OUT
from ascendsim.terms import CmpMode, HardEvent, Pipe, ReduceOrder, SelMode

COLUMNS = (
    "index", "ascendc_api", "instr", "pipe", "dtype", "dst_tensor", "dst_off_bytes", "src0_tensor", "src0_off_bytes",
    "src1_tensor", "src1_off_bytes", "mask_mode", "mask_hi", "mask_lo", "repeat", "dst_blk_stride", "src0_blk_stride",
    "src1_blk_stride", "dst_rep_stride", "src0_rep_stride", "src1_rep_stride", "scalar_bits", "note",
    "written_bytes", "written_crc32",
)  # fmt: skip
"""Columns of a log row, in order. Offsets are bytes from the tensor's allocation; strides as passed."""

_STRIDES = ("repeat", "dst_blk_stride", "src0_blk_stride", "src1_blk_stride", "dst_rep_stride", "src0_rep_stride",
            "src1_rep_stride")  # fmt: skip
_NOTED = ("order", "sel_mode", "with_index", "base_bytes", "pattern")
"""Parameters of an instruction's own that a log's note shows."""
_COPY_NOTE = {"block_count": "nburst", "block_len": "len_blk"}
_BIT_MOVES = ("Copy", "Brcb", "Gather", "Gatherb", "GatherMask", "Transpose")


def mnemonic(row: Row) -> str:
    """Return the intrinsic's name."""
    if "cmp_mode" in row.op.params:
        return f"{row.op.mnemonic}_{CmpMode(row.param('cmp_mode')).name.lower()}"
    return cast_mnemonic(row) if row.op.api == "Cast" else row.op.mnemonic


def dtype_text(row: Row) -> str:
    """Return the element type as logs write it: "f16<-f32" for conversions, "u32" where only bits move."""
    first = row.dst or row.src0
    if first is None:
        return ""
    if row.op.params in (COPY, PAD_IN, PAD_OUT):
        return "b8"
    if row.op.api in _BIT_MOVES:
        return f"u{first.dtype.bytes * 8}"
    if "cmp_mode" in row.op.params and row.src0 is not None:
        return row.src0.dtype.log_name
    if row.op.api == "Cast" and row.src0 is not None:
        return f"{first.dtype.log_name}<-{row.src0.dtype.log_name}"
    return first.dtype.log_name


def note(row: Row) -> str:
    """Return what does not fit the other columns: flags, barrier pipes, burst geometry, modes of an instruction."""
    if row.op.name in ("set_flag", "wait_flag"):
        event = HardEvent(row.param("event"))
        return f"{event.src.name}->{event.dst.name};id={row.param('event_id')}"
    if row.op.name == "pipe_barrier":
        return f"pipe={Pipe(row.param('barrier_pipe')).name}"
    if row.op.params in (COPY, PAD_IN, PAD_OUT):
        named = zip(row.op.params, row.params, strict=True)
        return ";".join(f"{_COPY_NOTE.get(n, n)}={v}" for n, v in named)
    if row.op.mnemonic == "vcadd":
        return "mode=1" if row.dst is None else "mode=0"
    return ";".join(f"{name}={_noted(name, row.param(name))}" for name in _NOTED if name in row.op.params)


def _noted(name: str, value: int) -> str:
    """A parameter by its name in AscendC where it is one of few."""
    if name == "order":
        return ReduceOrder(value).name.removeprefix("ORDER_")
    return SelMode(value).name.removeprefix("VSEL_") if name == "sel_mode" else str(value)


def log_row(row: Row, index: int, number: int, tensors: tuple[TensorRef, ...]) -> dict[str, str]:
    """Return the log row; `number` is the running number of vector calls, 0 for a row that has none."""
    out = dict.fromkeys(COLUMNS, "")
    out["index"] = str(index)
    out["ascendc_api"] = f"{row.op.api}#{number}" if number else row.op.api
    out["instr"] = mnemonic(row)
    out["pipe"] = "S" if row.op.name == "pipe_barrier" else row.pipe.name
    out["dtype"] = dtype_text(row)
    out["note"] = note(row)
    for role, operand in row.operands:
        out[f"{role}_tensor"], out[f"{role}_off_bytes"] = _place(operand, tensors)
    if row.op.uses_mask or row.op.name in ("set_vector_mask", "brcb", "gather_mask"):
        out["mask_mode"] = row.mask_mode.log_name
        out["mask_hi"], out["mask_lo"] = f"0x{row.mask_hi:x}", f"0x{row.mask_lo:x}"
    for name in _STRIDES:
        if name in row.op.params:
            out[name] = str(row.param(name))
    return out


def _place(operand: Operand, tensors: tuple[TensorRef, ...]) -> tuple[str, str]:
    return tensors[operand.tensor].name, str(operand.offset_bytes)


def is_numbered(row: Row) -> bool:
    """Whether logs give this row a running number: calls that do work on data."""
    return row.op.api != "" and row.dst is not None
