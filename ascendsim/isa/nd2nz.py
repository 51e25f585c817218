"""DataCopy from GM to L1 that turns row-major matrices into NZ fractals on the way."""

from dataclasses import dataclass

from ascendsim.device import Device
from ascendsim.dtypes import DTYPES
from ascendsim.errors import Finding, Rule
from ascendsim.isa import rules
from ascendsim.isa.cube_rules import aligned_to_memory, fields_in
from ascendsim.isa.forms import declare
from ascendsim.isa.instruction import Context, Row, Step, TensorRef, finds
from ascendsim.isa.moves import run_moves
from ascendsim.layout import nd2nz_offsets
from ascendsim.terms import DATABLOCK_BYTES, Pipe, ceil_div

RANGE_ND2NZ = Rule(
    "E-RANGE-ND2NZ",
    "DataCopy ND2NZ: {what} {got} is out of range {wanted}",
    "split the copy",
    "asc-devkit docs, ND2NZ page; api_check of DataCopy",
    condition="A field of the copy from ND to NZ does not fit its range: n_value 0..16384, d_value 0..65535, "
    "src_d_value 1..65535, strides of datablocks 1..16384.",
)


@dataclass(frozen=True, slots=True)
class Nd2NzParams:
    """Matrices of DataCopy ND2NZ, fields in AscendC's order.

    Strides of matrices and src_d_value (from row to row) count elements, dst_nz_c0_stride and dst_nz_n_stride
    datablocks.
    """

    nd_num: int
    n_value: int
    d_value: int
    src_nd_matrix_stride: int
    src_d_value: int
    dst_nz_c0_stride: int
    dst_nz_n_stride: int
    dst_nz_matrix_stride: int


FIELDS = (
    "nd_num", "n_value", "d_value", "src_nd_matrix_stride", "src_d_value", "dst_nz_c0_stride", "dst_nz_n_stride",
    "dst_nz_matrix_stride",
)  # fmt: skip
_RANGES = {
    "nd_num": (0, 4095),
    "n_value": (0, 16384),
    "d_value": (0, 65535),
    "src_nd_matrix_stride": (0, 65535),
    "src_d_value": (1, 65535),
    "dst_nz_c0_stride": (1, 16384),
    "dst_nz_n_stride": (1, 16384),
    "dst_nz_matrix_stride": (0, 65535),
}


def _sizes(row: Row) -> tuple[int, int, int, int]:
    """(matrices, rows of each, bytes of a row, bytes of an element)."""
    assert row.dst is not None
    width = row.dst.dtype.bytes
    return row.param("nd_num"), row.param("n_value"), row.param("d_value") * width, width


def _is_empty(row: Row) -> bool:
    return min(_sizes(row)[:3]) <= 0


def _touch(row: Row) -> tuple[tuple[str, int, int], ...]:
    matrices, rows, row_bytes, width = _sizes(row)
    if _is_empty(row):
        return (("dst", 0, 0), ("src0", 0, 0))
    read = (matrices - 1) * row.param("src_nd_matrix_stride") * width
    read += (rows - 1) * row.param("src_d_value") * width + row_bytes
    written = (matrices - 1) * row.param("dst_nz_matrix_stride") * width
    blocks = (ceil_div(row_bytes, DATABLOCK_BYTES) - 1) * row.param("dst_nz_c0_stride")
    written += (blocks + (rows - 1) * row.param("dst_nz_n_stride") + 1) * DATABLOCK_BYTES
    return (("dst", 0, written), ("src0", 0, read))


def geometry(row: Row) -> tuple[int, int, int, int]:
    """Rows of all matrices as bursts of GM; matrices that do not follow each other count as if they did."""
    matrices, rows, row_bytes, width = _sizes(row)
    pitch = row.param("src_d_value") * width
    return max(0, matrices * rows), row_bytes, pitch, DATABLOCK_BYTES


def _run(ctx: Context, row: Row) -> Step | None:
    assert row.dst is not None
    if _is_empty(row):
        return None
    width = row.dst.dtype.bytes
    nd_num, n_value, d_value, src_matrix, src_d_value, c0_stride, n_stride, dst_matrix = row.params
    moves = nd2nz_offsets(nd_num, n_value, d_value, src_matrix, src_d_value, c0_stride, n_stride, dst_matrix, width)
    return run_moves(ctx, row, moves, width)


@finds(RANGE_ND2NZ, rules.COPY_ZERO)
def _ranges(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Fields fit, and something is copied."""
    del tensors, device
    found = fields_in(row, where, _RANGES, RANGE_ND2NZ)
    found += [
        rules.COPY_ZERO.finding(where, got=0, wanted="at least 1", fill={"api": row.op.api, "what": what})
        for what in ("nd_num", "n_value", "d_value")
        if row.param(what) == 0
    ]
    return found


ND2NZ = declare(
    "data_copy_nd2nz",
    """Row-major matrices from GM to L1 as NZ fractals; each row is padded with zeros to 32 B.

    Element (n, d) of matrix i lands at i * dst_nz_matrix_stride elements + (d div C0 * dst_nz_c0_stride + n *
    dst_nz_n_stride) * 32 B + d mod C0 elements (inferred from the strides). Rows behind n_value stay as they are.
    Source: asc-devkit docs, DataCopy ND2NZ page.
    """,
    api="DataCopy",
    mnemonic="copy_gm_to_cbuf_multi_nd2nz",
    pipe=Pipe.MTE2,
    params=FIELDS,
    cost="transfer",
    family="gm_to_l1_nd2nz",
    execute=_run,
    touch=_touch,
    checks=(
        rules.on_devices_with("data_copy_nd2nz"),
        rules.dtypes(DTYPES, "dst", "src0"),
        rules.same_dtype,
        aligned_to_memory,
        rules.gm_element_aligned,
        _ranges,
        rules.in_bounds,
    ),
    uses_mask=False,
    geometry=geometry,
)
