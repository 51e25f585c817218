"""DataCopy from L0C to UB, where a core holds both: whole fractals of results, on the vector pipe."""

from dataclasses import dataclass

from ascendsim.device import Device
from ascendsim.dtypes import FLOAT, HALF, INT32, cast
from ascendsim.errors import Finding
from ascendsim.isa import rules
from ascendsim.isa.cube_rules import aligned_to_memory
from ascendsim.isa.forms import declare
from ascendsim.isa.instruction import Context, Row, Step, TensorRef, finds
from ascendsim.memory import Lanes
from ascendsim.terms import CUBE_SIDE, DATABLOCK_BYTES, BlockMode, Pipe, RoundMode

FRACTAL_ELEMENTS = CUBE_SIDE * CUBE_SIDE
"""Elements of a fractal in L0C."""
_PAIRS = {(FLOAT, FLOAT), (FLOAT, HALF), (HALF, HALF), (INT32, INT32)}
_PARAMS = ("block_count", "block_len", "src_gap", "dst_gap")


@dataclass(frozen=True, slots=True)
class DataCopyEnhancedParams:
    """How DataCopy counts on the way from L0C to UB."""

    block_mode: BlockMode = BlockMode.BLOCK_MODE_NORMAL


def _pitches(row: Row) -> tuple[int, int, int, int]:
    """(Bursts, elements of each, elements from burst to burst in L0C, in UB)."""
    assert row.dst is not None
    count, length, src_gap, dst_gap = row.params
    each = max(0, length) * FRACTAL_ELEMENTS
    step = each + dst_gap * DATABLOCK_BYTES // row.dst.dtype.bytes
    return max(0, count), each, each + src_gap * FRACTAL_ELEMENTS, step


def _touch(row: Row) -> tuple[tuple[str, int, int], ...]:
    assert row.dst is not None
    assert row.src0 is not None
    count, each, src, dst = _pitches(row)
    if count == 0 or each == 0:
        return (("dst", 0, 0), ("src0", 0, 0))
    ends = (count - 1) * dst + each, (count - 1) * src + each
    return (("dst", 0, ends[0] * row.dst.dtype.bytes), ("src0", 0, ends[1] * row.src0.dtype.bytes))


def geometry(row: Row) -> tuple[int, int, int, int]:
    """Bursts of results."""
    assert row.dst is not None
    count, each, src, dst = _pitches(row)
    width = row.dst.dtype.bytes
    return count, each * width, src * width, dst * width


def _run(ctx: Context, row: Row) -> Step:
    assert row.dst is not None
    assert row.src0 is not None
    count, each, src, dst = _pitches(row)
    to = row.dst.dtype
    read = ctx.reader(row.src0, Lanes.grid(0, (count, each), (src, 1)))
    write = ctx.writer(row.dst, Lanes.grid(0, (count, each), (dst, 1)))

    def step() -> None:
        values = read()
        write(values if values.dtype == to.numpy else cast(values, to, RoundMode.CAST_RINT, ctx.overflow))

    return step


@finds(rules.DTYPE_PAIR)
def _types(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The types can be converted on the way."""
    del tensors, device
    assert row.dst is not None
    assert row.src0 is not None
    if (row.src0.dtype, row.dst.dtype) in _PAIRS:
        return []
    wanted = ", ".join(sorted(f"{a}->{b}" for a, b in _PAIRS))
    got = f"{row.src0.dtype}->{row.dst.dtype}"
    return [rules.DTYPE_PAIR.finding(where, operand="dst", got=got, wanted=wanted, fill={"api": row.op.api})]


L0C_TO_UB = declare(
    "data_copy_l0c_to_ub",
    """Fractals of 16 x 16 results from L0C to UB, float to half rounded to nearest even.

    block_len and src_gap count fractals, dst_gap datablocks (what the gaps count is inferred). Source: asc-devkit docs,
    enhanced DataCopy page, block mode MATRIX.
    """,
    api="DataCopy",
    mnemonic="copy_matrix_cc_to_ubuf",
    pipe=Pipe.V,
    params=_PARAMS,
    cost="local",
    family="l0c_to_ub",
    execute=_run,
    touch=_touch,
    checks=(
        rules.on_devices_with("data_copy_l0c_to_ub"),
        _types,
        aligned_to_memory,
        rules.copy_fields,
        rules.in_bounds,
    ),
    uses_mask=False,
    geometry=geometry,
)
