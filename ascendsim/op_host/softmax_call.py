"""One call of a host function of the softmax family: its arguments, CANN's checks in CANN's order, what is unusual.

Source: asc-devkit 9.1.0, softmax tiling and API checks (host).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, prod
from operator import index
from typing import Self

from ascendsim.dtypes import FLOAT, HALF
from ascendsim.op_host.softmax_outcome import CannOutcome, Kind, SoftMaxTiling, Stale, Status
from ascendsim.op_host.softmax_tiles import RowCost, Uint32, tiling_fields
from ascendsim.terms import DATABLOCK_BYTES, align_up

ELEMENT_BYTES = frozenset({HALF.bytes, FLOAT.bytes})
"""Element sizes the family exists for."""

_UNKNOWN_DIMS = frozenset({-1, -2})
"""Graph-engine marks for an axis, or a rank, decided at run time."""


# --- what can be unusual about a call ---


@dataclass(frozen=True, slots=True)
class Remark:
    """Something unusual: its meaning, how a user mends it ("" = said elsewhere), and the log line's code, if any."""

    meaning: str
    remedy: str = ""
    code: str = ""

    def with_effect(self, effect: str) -> Self:
        """Return the remark that also says what comes of it."""
        return replace(self, meaning=f"{self.meaning}: {effect}")


Check = tuple[Remark, bool]
"""A remark, and whether it applies."""

RowRule = Callable[[int, int, int], RowCost]
"""From the bytes of an element, M and K to what tiling reserves for one row."""

TileRule = Callable[[Uint32, int, int, int], int]
"""From the rows that fit (at most M), M and K to the rows of a tile."""

_SHAPE_SIZE = Remark("element count of the shape is not positive (logged)", code="E_SHAPE_SIZE")
_LAST_AXIS_ZERO = Remark(
    "last axis length is not positive (logged)",
    "last axis {k} is not positive; use a multiple of {unit}",
    "E_LAST_AXIS_ZERO",
)
_LAST_AXIS_UNALIGNED = Remark(
    "last axis bytes not a multiple of 32 (logged only; the value is still computed)",
    "last axis {k} of {size}-byte elements is {k_bytes} bytes, not a multiple of 32; pad K to {k_aligned}",
    "E_LAST_AXIS_UNALIGNED",
)
TYPE_SIZE = Remark(
    "element size is not 2 or 4 (logged)",
    "element size {size} is not supported; use 2 (half) or 4 (float)",
    "E_TYPE_SIZE",
)
SUM_TYPE_SIZE = Remark(
    "element size of max and sum is not 2 or 4 (logged)",
    "element size {sum_size} of max and sum is not supported; use 2 (half) or 4 (float)",
    "E_SUM_TYPE_SIZE",
)
_REUSE_IGNORED = Remark("warning only: the reuse-source flag has no effect", code="W_REUSE_IGNORED")
_WORKSPACE_ZERO = Remark(
    "workspace of zero bytes (logged only; tiling is still computed)",
    "workspace too small: {work_bytes} bytes; pass at least {row}",
    "E_WORKSPACE_ZERO",
)
_NO_ELEMENTS = (
    "shape {axes} has {product} elements, which CANN counts as 0; use axes of at least 1 and a product below 2**32"
)
_NO_ELEMENTS_ACCEPTED = Remark("an element count of zero is not refused", _NO_ELEMENTS)
_SHAPE_SIZE_REJECT = Remark(
    "call refused because the element count after truncation to 32 bits is zero", _NO_ELEMENTS, "E_SHAPE_SIZE_REJECT"
)
_DTYPE_REJECT = Remark("call refused because the element size is not 2 or 4", code="E_DTYPE_REJECT")
_RANK_ZERO = Remark(
    "rank 0: the last-axis check reads the end of an empty list (undefined behaviour)",
    "the shape has no axes; give at least the last axis K",
)
_ZERO_DIVISOR = Remark(
    "a divisor is 0 as uint32 (undefined behaviour)",
    "K = {k} makes the row length or the row cost 0 as uint32; use a K from 1 to 2**30",
)
_NO_ROWS = Remark(
    "row count is 0 as uint32",
    "the row count is 0 as uint32; use at least one row and a product of axes below 2**32",
)
_BELOW_ONE_ROW = Remark("fewer bytes than one row needs", _WORKSPACE_ZERO.remedy)
_HALVED_AWAY = Remark(
    "halving the tile below 16384 elements ends",
    "basic-block tiles are halved until they hold less than 16384 elements, which leaves no row of K = {k};"
    " use a K below 2048, a workspace for at most 8 rows, or no basic block",
)
_UNKNOWN_COUNT = Remark("dynamic dim: element count is -1 as int64 and large as uint32")
_WRAPPED = Remark("arithmetic is 32-bit unsigned and wraps silently unless the truncated element count is 0")


def _why_no_tile(m: int, fit: int, effect: str) -> Remark:
    """Return the reason for a tile height of 0."""
    if m == 0:
        return _NO_ROWS.with_effect(f"tile height 0, {effect}")
    if fit:
        return replace(_HALVED_AWAY, meaning=f"{_HALVED_AWAY.meaning} at tile height 0, {effect}")
    return _BELOW_ONE_ROW.with_effect(f"tile height 0, {effect}")


# --- one call ---


@dataclass(slots=True)
class Call:
    """One call of a CANN function: its arguments as CANN's types hold them, and what is unusual about it so far."""

    function: str
    kind: Kind
    shape: tuple[int, ...]
    data_type_size: int
    sum_type_size: int
    """Bytes of an element of the row results; equal to data_type_size where the function takes one size."""
    row: RowRule
    u32: Uint32
    work_bytes: int = 0
    remarks: list[Remark] = field(default_factory=list)
    sizes_supported: bool = True
    """False once a check has found an element size the function does not support."""
    kept_without_tile: Stale = "rangeM"
    """Fields that the function does not write when the tile height is 0."""

    @property
    def k(self) -> int:
        """Last axis as uint32 [elements]."""
        return self.u32(self.shape[-1])

    @property
    def m(self) -> int:
        """Product of all axes over the last one, both as uint32 [rows]."""
        return self.u32(prod(self.shape)) // self.k

    @property
    def row_floats(self) -> int:
        """Cost of one row as uint32."""
        return self.u32(self.floats(self.row(self.data_type_size, self.m, self.k)))

    @property
    def per_datablock(self) -> int:
        """Elements of one datablock of the row results."""
        return DATABLOCK_BYTES // self.sum_type_size

    def floats(self, cost: RowCost) -> int:
        """Return what a cost comes to for this call's K and row results."""
        return cost.of(self.k, self.per_datablock)

    @property
    def element_count(self) -> int:
        """The graph engine's int64 count: -1 once it meets an unknown axis, 0 once it overflows."""
        count = 1
        for dim in self.shape:
            if dim in _UNKNOWN_DIMS:
                return -1
            count *= dim
            if not -(1 << 63) <= count < 1 << 63:
                return 0
        return count

    def type_check(self, remark: Remark = TYPE_SIZE, supported: frozenset[int] = ELEMENT_BYTES) -> Check:
        """Return the check of the element size."""
        return remark, self._unsupported(self.data_type_size, supported)

    def sum_type_check(self, remark: Remark = SUM_TYPE_SIZE, supported: frozenset[int] = ELEMENT_BYTES) -> Check:
        """Return the check of the row results' element size."""
        return remark, self._unsupported(self.sum_type_size, supported)

    def _unsupported(self, size: int, supported: frozenset[int]) -> bool:
        if size not in supported:
            self.sizes_supported = False
        return size not in supported

    def reuse_check(self, is_reuse_source: bool) -> Check:
        """Return the warning about the flag."""
        return _REUSE_IGNORED, is_reuse_source

    def workspace_check(self, local_work_space_size: int) -> Check:
        """Take the temp bytes in, and return their check."""
        self.work_bytes = self.u32(index(local_work_space_size))
        return _WORKSPACE_ZERO, self.work_bytes == 0

    def no_elements_check(self) -> Check:
        """Return the check that only says so, of functions that do not refuse a shape without elements."""
        return _NO_ELEMENTS_ACCEPTED, self.element_count == 0

    def refusals(self) -> tuple[Check, Check]:
        """Return what most functions refuse: no elements, and element sizes other than 2 and 4."""
        return (
            (_SHAPE_SIZE_REJECT, self.u32(self.element_count) == 0),
            (_DTYPE_REJECT, self.data_type_size not in ELEMENT_BYTES),
        )

    def check(self, logged: Iterable[Check], refused: Iterable[Check]) -> Status | None:
        """Remark on everything CANN logs, in its order, and return how the call ends if it ends here.

        Args:
            logged: what is logged after the checks of the shape, which all functions share.
            refused: what ends the call; the first that applies is logged.
        """
        if not self.shape:
            self.remarks.append(_RANK_ZERO)
            return "crash_SIGSEGV"
        shape_checks = (
            (_SHAPE_SIZE, self.element_count == 0),
            (_LAST_AXIS_ZERO, self.shape[-1] <= 0),
            (_LAST_AXIS_UNALIGNED, self.shape[-1] * self.data_type_size % DATABLOCK_BYTES != 0),
        )
        refusals = [remark for remark, applies in refused if applies][:1]
        self.remarks += [remark for remark, applies in (*shape_checks, *logged) if applies]
        self.remarks += refusals
        if self.element_count == -1:
            self.remarks.append(_UNKNOWN_COUNT)
        if refusals:
            return "rejected"
        if self.k == 0:  # m divides by it
            self.remarks.append(_ZERO_DIVISOR)
            return "crash_SIGFPE"
        return None

    def cut(self, m: int, tile_rule: TileRule, without_tile: str = "rangeM not written") -> SoftMaxTiling | None:
        """Return the tiling, or None where CANN divides by zero, and remark on either kind of trouble.

        Args:
            m: rows.
            tile_rule: from the rows that fit to the rows of a tile.
            without_tile: what comes of a tile height of 0, for the remark.
        """
        row_floats = self.u32(self.floats(self.row(self.data_type_size, m, self.k)))
        if row_floats == 0:
            self.remarks.append(_ZERO_DIVISOR)
            return None
        fit = min(self.work_bytes // FLOAT.bytes // row_floats, m)
        height = tile_rule(self.u32, fit, m, self.k)
        if height == 0:
            self.remarks.append(_why_no_tile(m, fit, without_tile))
        return tiling_fields(self.u32, m, self.k, self.per_datablock, height)

    # --- how it ends ---

    def returned(self, floats: int) -> CannOutcome:
        """Return the outcome of a size function that reaches its end."""
        return self._outcome(self._ok, returned_bytes=self.u32(FLOAT.bytes * floats))

    def gave(self, max_floats: int, min_floats: int) -> CannOutcome:
        """Return the outcome of a function that gives both sizes and reaches its end."""
        both = self.u32(FLOAT.bytes * max_floats), self.u32(FLOAT.bytes * min_floats)
        return self._outcome(self._ok, max_min_bytes=both)

    def filled(self, tiling: SoftMaxTiling | None) -> CannOutcome:
        """Return the outcome of a tiling function that fills its struct, or (None) divides by zero."""
        if tiling is None:
            return self.stopped("crash_SIGFPE")
        stale: Stale = "none" if tiling.split_m else self.kept_without_tile
        return self._outcome(self._ok, tiling=tiling, stale=stale)

    def asserted(self, tiling: SoftMaxTiling) -> CannOutcome:
        """Return the outcome of a kernel that stops at a tile height of 0."""
        return self._outcome("assert_workspace_too_small", tiling=tiling, stale=self.kept_without_tile)

    def stopped(self, status: Status) -> CannOutcome:
        """Return the outcome of a call that is refused or crashes."""
        if status == "rejected" and self.kind == "size":
            return self._outcome(status, returned_bytes=0)
        if status == "rejected" and self.kind == "tiling":
            return self._outcome(status, tiling=SoftMaxTiling(), stale="all")
        return self._outcome(status)

    @property
    def _ok(self) -> Status:
        return "ok_with_log" if any(remark.code for remark in self.remarks) else "ok_silent"

    def _outcome(
        self,
        status: Status,
        returned_bytes: int | None = None,
        max_min_bytes: tuple[int, int] | None = None,
        tiling: SoftMaxTiling | None = None,
        stale: Stale = "none",
    ) -> CannOutcome:
        wrapped = self.u32.wrapped
        if wrapped and _UNKNOWN_COUNT not in self.remarks:
            self.remarks.append(_WRAPPED)
        return CannOutcome(
            function=self.function,
            kind=self.kind,
            status=status,
            returned_bytes=returned_bytes,
            max_min_bytes=max_min_bytes,
            tiling=tiling,
            fields_left_stale=stale,
            log_codes=tuple(remark.code for remark in self.remarks if remark.code),
            meaning="; ".join(remark.meaning for remark in self.remarks),
            problem=self._problem(),
            wrapped=wrapped,
        )

    def _problem(self) -> str:
        """Return every remedy the remarks know."""
        remedies = [remark.remedy for remark in self.remarks if remark.remedy]
        if not remedies:
            return ""
        size = self.data_type_size
        k = self.shape[-1] if self.shape else 0
        unit = DATABLOCK_BYTES // gcd(DATABLOCK_BYTES, size)
        k_aligned = max(unit, align_up(k, unit))
        row = "one row"
        if self.sizes_supported and self.shape:
            row_k = k if self.kind == "kernel" else k_aligned
            cost = self.row(size, prod(self.shape) // k if k else 0, row_k).of(row_k, self.per_datablock)
            row = f"{FLOAT.bytes * cost} bytes, one row of K = {row_k}"
        values = {
            "axes": "x".join(map(str, self.shape)),
            "product": prod(self.shape),
            "k": k,
            "k_bytes": k * size,
            "k_aligned": k_aligned,
            "unit": unit,
            "size": size,
            "sum_size": self.sum_type_size,
            "work_bytes": self.work_bytes,
            "row": row,
        }
        return "; ".join(dict.fromkeys(remedy.format_map(values) for remedy in remedies))


def new_call(
    function: str,
    kind: Kind,
    shape: Sequence[int],
    type_sizes: tuple[int, int],
    row: RowRule,
) -> Call:
    """Return the call before any check.

    Args:
        function: CANN's name of the function.
        kind: what it gives.
        shape: axes [elements]; -1 and -2 are the graph engine's "known at run time".
        type_sizes: bytes of an element of the data, and of the row results.
        row: what tiling reserves for one row.
    """
    u32 = Uint32()
    data, sums = type_sizes
    return Call(function, kind, tuple(index(dim) for dim in shape), u32(index(data)), u32(index(sums)), row, u32)
