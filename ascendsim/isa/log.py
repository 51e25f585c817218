"""One row of a program as one row of an instruction log: the columns that vendor intrinsics are described by."""

from ascendsim.dtypes import DType
from ascendsim.isa.convert import cast_mnemonic
from ascendsim.isa.instruction import MicroKind, MicroRow, Operand, Row, TensorRef
from ascendsim.isa.move import COPY, PAD_IN, PAD_OUT
from ascendsim.isa.transpose import va_addresses
from ascendsim.terms import CmpMode, CO2Layout, CrossMode, HardEvent, Pipe, QuantMode, ReduceOrder, SelMode

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
_NAMED_NOTES = ("DataCopyND2NZ", "LoadData", "LoadDataWithTranspose", "Mmad", "Fixpipe")
"""Instructions of the Cube, whose note has all their parameters but those that the device decides."""
_SYNC = ("set_flag", "wait_flag", "cross_core_set_flag", "cross_core_wait_flag", "pipe_barrier")
_UNSAID = ("is_nz", "nd_stride_elements")
_BIT_MOVES = ("Copy", "Brcb", "Gather", "Gatherb", "GatherMask", "Transpose")
_TRANSPOSE = "TransDataTo5HD"
"""Its operands are in VA registers, so logs show no tensors; its running number is left out."""


def mnemonic(row: Row) -> str:
    """Return the intrinsic's name."""
    if "cmp_mode" in row.op.params:
        return f"{row.op.mnemonic}_{CmpMode(row.param('cmp_mode')).name.lower()}"
    if row.op.api == "Cast":
        return cast_mnemonic(row)
    if row.op.api == _TRANSPOSE:
        return f"{row.op.mnemonic}_{dtype_text(row)}" if row.op.name == "trans_data_to5hd" else row.op.mnemonic
    if row.op.api == "MulCast" and row.dst is not None and row.src0 is not None:
        return f"{row.op.mnemonic}_{row.src0.dtype.log_name}2{row.dst.dtype.log_name}"
    return row.op.mnemonic


def dtype_text(row: Row) -> str:
    """Return the element type as logs write it: "f16<-f32" where types differ, "u32" where only bits move."""
    first = row.dst or row.src0
    if first is None:
        return ""
    if row.op.params in (COPY, PAD_IN, PAD_OUT):
        return "b8"
    if row.op.api == _TRANSPOSE:
        return "" if row.dst is None else f"b{first.dtype.bytes * 8}"
    if row.op.api in _BIT_MOVES:
        return f"u{first.dtype.bytes * 8}"
    return _types(first.dtype, row.src0.dtype if row.src0 is not None else first.dtype, row)


def _types(to: DType, of: DType, row: Row) -> str:
    """Of a comparison the type that is compared, of other masked instructions and the Cube's both where they differ."""
    if "cmp_mode" in row.op.params:
        return of.log_name
    is_computed = row.op.uses_mask or row.op.api in ("Mmad", "Fixpipe")
    is_mixed = is_computed and (row.op.api == "Cast" or of is not to)
    return f"{to.log_name}<-{of.log_name}" if is_mixed else to.log_name


def note(row: Row, tensors: tuple[TensorRef, ...]) -> str:
    """Return what does not fit the other columns: flags, barrier pipes, burst geometry, modes of an instruction."""
    if row.op.name in _SYNC:
        return _sync_note(row)
    if cube_api(row) in _NAMED_NOTES:
        return _cube_note(row, tensors)
    if row.op.params in (COPY, PAD_IN, PAD_OUT):
        named = zip(row.op.params, row.params, strict=True)
        return ";".join(f"{_COPY_NOTE.get(n, n)}={v}" for n, v in named)
    if row.op.api == _TRANSPOSE:
        return _transpose_note(row, tensors)
    if row.op.mnemonic == "vcadd":
        return "mode=1" if row.dst is None else "mode=0"
    return ";".join(f"{name}={_noted(name, row.param(name))}" for name in _NOTED if name in row.op.params)


def _sync_note(row: Row) -> str:
    """A flag by its pipes or its mode, a barrier by its pipe."""
    if "event" in row.op.params:
        event = HardEvent(row.param("event"))
        return f"{event.src.name}->{event.dst.name};id={row.param('event_id')}"
    if "mode" in row.op.params:
        mode = "all" if row.param("mode") == CrossMode.ALL else row.param("mode")
        return f"mode={mode};id={row.param('flag_id')}"
    return f"pipe={Pipe(row.param('barrier_pipe')).name}"


def cube_api(row: Row) -> str:
    """Return the AscendC name of an instruction, the copy that makes fractals told from plain ones."""
    return "DataCopyND2NZ" if "n_value" in row.op.params else row.op.api


def called(row: Row) -> str:
    """Return what pages call an instruction: its AscendC name, or its own where it has none."""
    return cube_api(row) or row.op.name


def _cube_note(row: Row, tensors: tuple[TensorRef, ...]) -> str:
    """Parameters of an instruction of the Cube, in their order; behind them a third source, which has no column."""
    named = [(n, v) for n, v in zip(row.op.params, row.params, strict=True) if n not in _UNSAID]
    parts = [f"{name}={_cube_noted(name, value)}" for name, value in named]
    if row.src2 is not None:
        name, offset = _place(row.src2, tensors)
        parts.append(f"src2={name}+{offset}")
    return ";".join(parts)


def _cube_noted(name: str, value: int) -> str:
    """A parameter by its name in AscendC where it is one of few."""
    if name == "quant_pre":
        return QuantMode(value).name
    if name == "layout":
        return CO2Layout(value).name
    return f"0x{value:08x}" if name == "deq_scalar_bits" else str(value)


def size_text(row: Row) -> str:
    """Return how much an instruction of the Cube works on, for pictures; "" for any other.

    Mmad: m x n x k. ND2NZ and Fixpipe: rows x columns of a matrix, with the number of matrices. LoadData: fractals, or
    rows x columns of the window of its 3D form.
    """
    api, names = cube_api(row), row.op.params
    if api == "Mmad":
        return _times(row, "m", "n", "k")
    if api == "DataCopyND2NZ":
        return _matrices(row, _times(row, "n_value", "d_value"))
    if api == "Fixpipe":
        return _matrices(row, _times(row, "m_size", "n_size"))
    if "m_extension" in names:
        return _times(row, "m_extension", "k_extension")
    if api not in _NAMED_NOTES:
        return ""
    count, thing = row.param("repeat_times"), "square" if api == "LoadDataWithTranspose" else "fractal"
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _times(row: Row, *names: str) -> str:
    return "×".join(str(row.param(name)) for name in names)


def _matrices(row: Row, text: str) -> str:
    count = row.param("nd_num")
    return text if count == 1 else f"{count} of {text}"


def _noted(name: str, value: int) -> str:
    """A parameter by its name in AscendC where it is one of few."""
    if name == "order":
        return ReduceOrder(value).name.removeprefix("ORDER_")
    return SelMode(value).name.removeprefix("VSEL_") if name == "sel_mode" else str(value)


def _transpose_note(row: Row, tensors: tuple[TensorRef, ...]) -> str:
    if row.dst is not None:
        return "dst=VA0/VA1;src=VA2/VA3"
    assert row.src0 is not None
    name = tensors[row.src0.tensor].name
    return f"VA{row.param('register')}:" + " ".join(f"{name}+{at}" for at in va_addresses(row))


def log_row(row: Row, index: int, number: int, tensors: tuple[TensorRef, ...]) -> dict[str, str]:
    """Return the log row; `number` is the running number of vector calls, 0 for a row that has none."""
    out = dict.fromkeys(COLUMNS, "")
    out["index"] = str(index)
    out["ascendc_api"] = f"{row.op.api}#{number}" if number else row.op.api
    out["instr"] = mnemonic(row)
    out["pipe"] = "S" if row.op.name == "pipe_barrier" else row.pipe.name
    out["dtype"] = dtype_text(row)
    out["note"] = note(row, tensors)
    for role, operand in row.operands if row.op.api != _TRANSPOSE else ():
        out[f"{role}_tensor"], out[f"{role}_off_bytes"] = _place(operand, tensors)
    if row.op.uses_mask or row.op.name in ("set_vector_mask", "brcb", "gather_mask"):
        out["mask_mode"] = row.mask_mode.log_name
        out["mask_hi"], out["mask_lo"] = f"0x{row.mask_hi:x}", f"0x{row.mask_lo:x}"
    for name in _STRIDES:
        if name in row.op.params:
            out[name] = str(row.param(name))
    return out


def micro_log_row(micro: MicroRow, index: int, tensors: tuple[TensorRef, ...]) -> dict[str, str]:
    """Return the log row of one micro-operation of a vector function."""
    out = dict.fromkeys(COLUMNS, "")
    kind = micro.op.kind
    out |= {"index": str(index), "instr": micro.op.name, "pipe": "V"}
    if kind is MicroKind.BARRIER:
        return out | {"pipe": "S", "note": "VST->VLD"}
    is_cast = micro.src_dtype is not micro.dtype
    out["dtype"] = f"{micro.dtype.log_name}<-{micro.src_dtype.log_name}" if is_cast else micro.dtype.log_name
    if micro.memory is not None:
        role = "dst" if kind is MicroKind.STORE else "src0"
        out[f"{role}_tensor"], out[f"{role}_off_bytes"] = _place(micro.memory, tensors)
    if micro.sources:
        out["note"] = f"active_lanes={micro.mask.bit_count()}"
    return out


def _place(operand: Operand, tensors: tuple[TensorRef, ...]) -> tuple[str, str]:
    return tensors[operand.tensor].name, str(operand.offset_bytes)


def is_numbered(row: Row) -> bool:
    """Whether logs give this row a running number: calls that do work on data."""
    return row.op.api not in ("", _TRANSPOSE) and row.dst is not None
