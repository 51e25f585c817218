"""TransDataTo5HD: sixteen datablocks of source become columns of sixteen datablocks of destination.

The addresses of both lists lie in VA registers, eight in each, which the call fills before the instruction runs. A row
holds a list as its first address and two distances: from an even entry to the odd one behind it, and from one pair to
the next. That covers tensors whose rows are evenly spaced, whatever their width; other lists are refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, INT8, INT16, INT32, UINT8, UINT16, UINT32
from ascendsim.errors import Finding, Rule
from ascendsim.isa import rules
from ascendsim.isa.compare import counter_ignored
from ascendsim.isa.forms import Call, Form, declare
from ascendsim.isa.instruction import (
    Array,
    Context,
    Row,
    Step,
    TensorRef,
    finds,
    need_local,
    run_nothing,
    touch_nothing,
)
from ascendsim.isa.move import move
from ascendsim.isa.params import need_params
from ascendsim.memory import Lanes, LocalTensor
from ascendsim.terms import DATABLOCK_BYTES, Pipe

TRANSPOSED_TYPES = (INT8, UINT8, HALF, BFLOAT16, INT16, UINT16, FLOAT, INT32, UINT32)
LIST_LENGTH = 16
"""Addresses of a list."""
VA_ADDRESSES = 8
"""Addresses that one VA register holds."""
HALF_BLOCK_BYTES = 16
SCATTER = (
    "repeat", "dst_rep_stride", "src0_rep_stride", "dst_pair", "dst_step", "src_pair", "src_step", "high_halves",
)  # fmt: skip
DST_HIGH, SRC_HIGH = 1, 2
"""Bits of the parameter high_halves."""

_PAGE = "asc-devkit docs, TransDataTo5HD page"

ALIGN_LIST = Rule(
    "E-ALIGN-TRANS5HD",
    "TransDataTo5HD: address {got} of the list is {off} B past a 32 B boundary",
    "let every address of both lists start on a datablock (32 B)",
    _PAGE,
    condition="One of the addresses in the lists of TransDataTo5HD is no multiple of 32 B.",
)
REPEAT_ONE = Rule(
    "W-RANGE-TRANS5HD",
    "TransDataTo5HD {operand} stride {got} with one repeat moves the start of the list by as much",
    "pass strides of 0 where repeat_times is 1",
    _PAGE,
    condition="TransDataTo5HD has one repeat and a repeat stride other than 0.",
)
HIGH_HALF = Rule(
    "E-RANGE-TRANS5HD",
    "TransDataTo5HD: high halves exist for 8-bit types only, the type is {got}",
    "leave dst_high_half and src_high_half False",
    _PAGE,
    condition="TransDataTo5HD is asked for high halves with a type that does not have 8 bits.",
)
OVERLAP_LISTS = rules.OVERLAP_GATHER.saying(
    "TransDataTo5HD cannot be in place: dst overlaps src without being the same addresses",
    "give dst its own memory",
    f"{_PAGE}; the library's own kernels pass one list as both",
)


@dataclass(frozen=True, slots=True)
class TransDataTo5HDParams:
    """Halves of 8-bit datablocks, repeats, and strides in datablocks from one repeat to the next."""

    dst_high_half: bool = False
    src_high_half: bool = False
    repeat_times: int = 1
    dst_rep_stride: int = 0
    src_rep_stride: int = 0


class TransDataTo5HDCall(Call):
    """dst_list and src_list of 16 tensors each, params."""

    def __call__(
        self,
        dst_list: Sequence[LocalTensor],
        src_list: Sequence[LocalTensor],
        params: TransDataTo5HDParams = TransDataTo5HDParams(),
    ) -> None:
        """Record the call: the VA registers, then the instruction."""
        asc, api = self.asc, self.op.api
        dst, src = (self._spacing(n, t) for n, t in (("dst_list", dst_list), ("src_list", src_list)))
        need_params(asc, api, params, TransDataTo5HDParams)
        for register, (tensors, spacing) in enumerate(((dst_list, dst), (dst_list, dst), (src_list, src),
                                                       (src_list, src))):  # fmt: skip
            first = tensors[register % 2 * VA_ADDRESSES]
            asc.emit(SET_VA_REG, src0=first, params=(register, *spacing))
        halves = DST_HIGH * params.dst_high_half + SRC_HIGH * params.src_high_half
        strides = (params.dst_rep_stride, params.src_rep_stride)
        asc.emit(self.op, dst=dst_list[0], src0=src_list[0], params=(params.repeat_times, *strides, *dst, *src, halves))

    def _spacing(self, what: str, tensors: Sequence[LocalTensor]) -> tuple[int, int]:
        """Bytes from an even entry to the odd one, and from one pair to the next."""
        api = self.op.api
        if len(tensors) != LIST_LENGTH:
            raise self.asc.fail(f"{api}: {what} must hold {LIST_LENGTH} tensors, got {len(tensors)}")
        for i, tensor in enumerate(tensors):
            need_local(self.asc, api, f"{what}[{i}]", tensor)
        first = tensors[0]
        if any((t.address_bytes, t.name, t.dtype) != (first.address_bytes, first.name, first.dtype) for t in tensors):
            raise self.asc.fail(f"{api}: the tensors of {what} must be parts of one tensor")
        pair, step = (tensors[i].offset_bytes - first.offset_bytes for i in (1, 2))
        at = _addresses(pair, step)
        if any(t.offset_bytes - first.offset_bytes != at[i] for i, t in enumerate(tensors)):
            raise self.asc.fail(
                f"{api}: the addresses of {what} must be evenly spaced, in pairs; others are not simulated"
            )
        return pair, step


def _addresses(pair: int, step: int) -> list[int]:
    """Byte offsets of a list's entries from the first."""
    return [i // 2 * step + i % 2 * pair for i in range(LIST_LENGTH)]


def va_addresses(row: Row) -> list[int]:
    """Byte offsets, in their tensor, of the addresses that a set_va_reg row puts into its register."""
    assert row.src0 is not None
    at = _addresses(row.param("pair"), row.param("step"))[:VA_ADDRESSES]
    return [row.src0.offset_bytes + offset for offset in at]


def _bases(row: Row, role: str) -> Array:
    """Byte offsets of the list's entries in every repeat, [repeat, 16]; one repeat starts a stride later."""
    repeat, stride = max(0, row.param("repeat")), row.param(f"{role}_rep_stride")
    name = role.rstrip("0")
    at = np.array(_addresses(row.param(f"{name}_pair"), row.param(f"{name}_step")))
    starts = np.arange(repeat) if repeat != 1 else np.ones(1, np.int64)
    bases: Array = starts[:, None] * (stride * DATABLOCK_BYTES) + at
    return bases


def _lanes(row: Row) -> tuple[Array, Array]:
    """Byte offsets of the first byte of each element moved: (dst, src), each [repeat, row, 16]."""
    assert row.dst is not None
    width = row.dst.dtype.bytes
    per_block, halves = DATABLOCK_BYTES // width, row.param("high_halves")
    rows = min(per_block, LIST_LENGTH)
    entries_of_row = max(1, LIST_LENGTH // per_block)  # a row of sixteen words fills two datablocks
    j, i = np.arange(rows)[:, None], np.arange(LIST_LENGTH)
    dst, src = _bases(row, "dst"), _bases(row, "src0")
    high_dst = HALF_BLOCK_BYTES * bool(halves & DST_HIGH)
    high_src = HALF_BLOCK_BYTES * bool(halves & SRC_HIGH)
    entry = j * entries_of_row + i // per_block
    return dst[:, entry] + (i % per_block * width + high_dst), src[:, np.broadcast_to(i, entry.shape)] + (
        j * width + high_src
    )


def _of_bytes(starts: Array, width: int) -> Lanes:
    return Lanes.at((starts.reshape(-1)[:, None] + np.arange(width)).reshape(-1))


def _touch(row: Row) -> tuple[tuple[str, int, int], ...]:
    assert row.dst is not None
    width = row.dst.dtype.bytes
    found = [(int(at.min()), int(at.max()) + width) if at.size else (0, 0) for at in _lanes(row)]
    return ("dst", *found[0]), ("src0", *found[1])


def _run(ctx: Context, row: Row) -> Step:
    """Each repeat is read whole, then written."""
    assert row.dst is not None
    width = row.dst.dtype.bytes
    dst, src = _lanes(row)
    per_repeat = dst[0].size * width if dst.size else 0
    return move(
        ctx, row, _of_bytes(dst, width), _of_bytes(src, width), lambda: np.repeat(np.arange(len(dst)), per_repeat)
    )


@finds(ALIGN_LIST)
def _list_aligned(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Every address lies on a datablock; the first that does not is named."""
    del device
    assert row.src0 is not None
    base = rules.tensor_of(row.src0, tensors).address_bytes
    for offset in va_addresses(row):
        off = (base + offset) % DATABLOCK_BYTES
        if off:
            fill = {"off": off}
            return [ALIGN_LIST.finding(where, got=f"0x{base + offset:x}", wanted="a multiple of 32", fill=fill)]
    return []


@finds(REPEAT_ONE, HIGH_HALF, OVERLAP_LISTS)
def _scatter_rules(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Strides of a single repeat are 0; halves only for 8 bits; lists coincide or lie apart."""
    del device
    assert row.dst is not None
    assert row.src0 is not None
    found = []
    for role in ("dst", "src0"):
        stride = row.param(f"{role}_rep_stride")
        if row.param("repeat") == 1 and stride:
            found.append(REPEAT_ONE.finding(where, operand=role, got=stride, wanted=0))
    if row.param("high_halves") and row.dst.dtype.bytes != 1:
        found.append(HIGH_HALF.finding(where, operand="dst", got=row.dst.dtype, wanted="int8_t, uint8_t"))
    starts = [rules.tensor_of(o, tensors).address_bytes + o.offset_bytes for o in (row.dst, row.src0)]
    written, read = (_bases(row, role) + start for role, start in zip(("dst", "src0"), starts, strict=True))
    if not np.array_equal(written, read) and np.isin(written, read).any():
        found.append(OVERLAP_LISTS.finding(where, operand="dst", got="overlaps src", wanted="apart"))
    return found


SET_VA_REG = declare(
    "set_va_reg_sb",
    """Put eight addresses of a TransDataTo5HD list into a VA register, on the scalar unit.

    Source: asc-devkit docs, TransDataTo5HD page.
    """,
    api="TransDataTo5HD",
    mnemonic="set_va_reg_sb",
    pipe=Pipe.S,
    params=("register", "pair", "step"),
    cost="scalar",
    family="mask",
    execute=run_nothing,
    touch=touch_nothing,
    checks=(_list_aligned,),
    uses_mask=False,
)


class TransposeInstructions:
    """TransDataTo5HD."""

    trans_data_to5hd = Form(
        declare(
            "trans_data_to5hd",
            """Element j of source datablock i becomes element i of row j; 32-bit rows of 16 fill two datablocks.

            8-bit types take one half of each source datablock and fill one half of each destination datablock. With
            one repeat the lists start a repeat stride later, with more the first repeat starts at the lists.

            Source: asc-devkit docs, TransDataTo5HD page.
            """,
            api="TransDataTo5HD",
            mnemonic="scatter_vnchwconv",
            pipe=Pipe.V,
            params=SCATTER,
            cost="vector",
            family="TransDataTo5HD",
            execute=_run,
            touch=_touch,
            checks=(
                rules.dtypes(TRANSPOSED_TYPES, "dst", "src0"),
                rules.same_dtype,
                rules.repeat_range,
                rules.strides(65535, 65535),
                _scatter_rules,
                counter_ignored,
                rules.in_bounds,
            ),
            uses_mask=False,
        ),
        TransDataTo5HDCall,
    )
