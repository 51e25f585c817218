"""SoftmaxGrad on the host: temp-buffer bytes and tiling, and the kernel's own re-tiling. Numbers equal CANN's.

M is the product of all axes but the last [rows], K the last axis [elements]; a row is K elements. CANN computes in
uint32 and wraps without a word; so does this module, and `CannOutcome.wrapped` tells.

CANN answers some bad input with a log line and a number. `cann_outcome_*` report that answer and never raise. The
functions named after CANN's raise `SoftMaxInputError` where CANN logs an error, refuses or crashes; where CANN says
nothing they return its number.

Source: asc-devkit 9.1.0, softmax tiling (host) / softmax_tiling_func (kernel).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from operator import index
from typing import Final, Literal

from ascendsim.dtypes import FLOAT, HALF
from ascendsim.errors import InputError
from ascendsim.terms import DATABLOCK_BYTES, REPEAT_BYTES, align_up

Status = Literal["ok_silent", "ok_with_log", "rejected", "crash_SIGSEGV", "crash_SIGFPE", "assert_workspace_too_small"]
"""How a call of CANN's function ends. The last is the kernel's only; crash_SIGFPE was read in the source, not run."""

Stale = Literal["none", "all", "rangeM"]
"""Which fields of a struct passed in keep the value from before the call."""

TmpSizeFunction = Literal["GetSoftMaxGradMinTmpSize", "GetSoftMaxGradMaxTmpSize"]

_MIN: Final = "GetSoftMaxGradMinTmpSize"
_MAX: Final = "GetSoftMaxGradMaxTmpSize"
_TILING: Final = "SoftMaxGradTilingFunc"
_KERNEL_TILING: Final = "SoftMaxGradTilingFunc (kernel)"

_ELEMENT_BYTES = frozenset({HALF.bytes, FLOAT.bytes})
"""Element sizes SoftmaxGrad exists for."""

_ROW_GROUP = 8
"""Rows of one basic block; tiles above this height are kept at a multiple of it."""

_LANES = FLOAT.per_repeat
"""Floats of one repeat, 64."""

_TILE_ELEMENTS_END = 256 * _LANES
"""Basic-block tiles stay below this: their repeats are counted in 8 bits."""

_BASIC_BLOCK_K_END = 2048
"""Basic-block kernels take a K below this: their repeat stride 8 * K/64 has 8 bits."""

_ROW_SUMS_ONLY_ARCHS = frozenset({3510, 5102})
"""Architectures for which the minimum covers nothing but row sums, whatever K and the element type."""

SOFTMAX_GRAD_ARCHS = (2002, 2201, 3003, 3113, 3510, 5102)
"""Architectures that have SoftmaxGrad (asc-devkit docs, SoftmaxGrad page and GetCurNpuArch page); 1001 has not."""

_UNKNOWN_DIMS = frozenset({-1, -2})
"""Graph-engine marks for an axis, or a rank, decided at run time."""


# --- what a call returns, or raises ---


@dataclass(frozen=True, slots=True)
class SoftMaxTiling:
    """How SoftmaxGrad cuts its rows into tiles: CANN's struct, same fields, same order, each a uint32."""

    src_m: int = 0
    """Rows of the whole input, M."""
    src_k: int = 0
    """Elements of one row, K."""
    src_size: int = 0
    """Elements of the whole input."""
    out_max_m: int = 0
    """Rows of the result that has one datablock per row."""
    out_max_k: int = 0
    """Elements of one datablock of the data type."""
    out_max_size: int = 0
    """Elements of that result."""
    split_m: int = 0
    """Rows of a full tile; 0 when not one row fits."""
    split_k: int = 0
    """Elements of one row of a tile, always K."""
    split_size: int = 0
    """Elements of a full tile, and the distance from one tile to the next."""
    reduce_m: int = 0
    """Rows of a full tile's row sums, equal to split_m."""
    reduce_k: int = 0
    """Elements kept per row sum: one datablock of the data type."""
    reduce_size: int = 0
    """Elements of a full tile's row sums; temp stores them as floats."""
    range_m: int = 0
    """Full tiles. CANN leaves it alone when split_m is 0."""
    tail_m: int = 0
    """Rows of the last, partial tile; 0 when the full tiles cover everything."""
    tail_split_size: int = 0
    """Elements of the partial tile."""
    tail_reduce_size: int = 0
    """Elements of the partial tile's row sums."""


@dataclass(frozen=True, slots=True)
class CannOutcome:
    """What one call of CANN's function does, bad input included."""

    function: str
    """CANN's name of the function."""
    status: Status
    returned_bytes: int | None
    """Return value of a temp-size function; None for tilings and crashes."""
    tiling: SoftMaxTiling | None
    """Content of a fresh struct after the call; None for temp sizes and crashes."""
    fields_left_stale: Stale
    """What a struct that was used before keeps. CANN's plain-struct overload gets zeros there instead."""
    log_codes: tuple[str, ...]
    """Log lines in order, by our short names; W_ is a warning, E_ an error."""
    meaning: str
    """All that is unusual about the call, in words; empty when nothing is."""
    wrapped: bool
    """True when a value did not fit in its uint32."""

    @property
    def is_error(self) -> bool:
        """True when CANN logs an error, refuses or crashes."""
        return self.status not in {"ok_silent", "ok_with_log"} or any(c.startswith("E_") for c in self.log_codes)

    @property
    def cann_does(self) -> str:
        """CANN's answer as one sentence, without its full stop."""
        kind = _KINDS.get(self.function, "size")
        return _CANN_DOES[self.status, kind].format(
            logs=f"CANN logs {', '.join(self.log_codes) or 'nothing'}",
            bytes=self.returned_bytes,
            split_m=self.tiling and self.tiling.split_m,
            kept=" and range_m as it was" if self.fields_left_stale == "rangeM" else "",
        )


class SoftMaxInputError(InputError):
    """Input that CANN logs as an error, refuses or crashes on; `cann` says which."""

    def __init__(self, problem: str, cann: CannOutcome) -> None:
        super().__init__(problem, cann)  # both in args, so that a worker process can send it back
        self.problem = problem
        self.cann = cann

    def __str__(self) -> str:
        return f"{self.cann.function}: {self.problem}. {self.cann.cann_does}."


_KINDS = {_TILING: "tiling", _KERNEL_TILING: "kernel"}

_FPE = "{logs} and divides by zero: undefined behaviour, SIGFPE on x86"
_SEGV = "CANN reads past the empty list of axes: undefined behaviour, SIGSEGV where it was tried"
_CANN_DOES: dict[tuple[Status, str], str] = {
    ("ok_silent", "size"): "{logs} and returns {bytes}",
    ("ok_silent", "tiling"): "{logs} and fills the struct, split_m with {split_m}{kept}",
    ("ok_silent", "kernel"): "{logs} and fills the struct, split_m with {split_m}",
    ("ok_with_log", "size"): "{logs} and still returns {bytes}",
    ("ok_with_log", "tiling"): "{logs} and still fills the struct, split_m with {split_m}{kept}",
    ("rejected", "size"): "{logs} and returns 0",
    ("rejected", "tiling"): "{logs}; it leaves an optiling struct as it was and fills a plain struct with zeros",
    ("rejected", "kernel"): "CANN compiles the kernel for half and float only",
    ("crash_SIGSEGV", "size"): _SEGV,
    ("crash_SIGSEGV", "tiling"): _SEGV,
    ("crash_SIGFPE", "size"): _FPE,
    ("crash_SIGFPE", "tiling"): _FPE,
    ("crash_SIGFPE", "kernel"): "CANN divides by zero: undefined behaviour",
    ("assert_workspace_too_small", "kernel"): "In CANN a debug build asserts and a release build divides by zero",
}


# --- what can be unusual about a call ---


@dataclass(frozen=True, slots=True)
class _Remark:
    """Something unusual: its meaning, how a user mends it ("" = said elsewhere), and the log line's code, if any."""

    meaning: str
    remedy: str = ""
    code: str = ""


_SHAPE_SIZE = _Remark("element count of the shape is not positive (logged)", code="E_SHAPE_SIZE")
_LAST_AXIS_ZERO = _Remark(
    "last axis length is not positive (logged)",
    "last axis {k} is not positive; use a multiple of {unit}",
    "E_LAST_AXIS_ZERO",
)
_LAST_AXIS_UNALIGNED = _Remark(
    "last axis bytes not a multiple of 32 (logged only; the value is still computed)",
    "last axis {k} of {size}-byte elements is {k_bytes} bytes, not a multiple of 32; pad K to {k_aligned}",
    "E_LAST_AXIS_UNALIGNED",
)
_TYPE_SIZE = _Remark(
    "element size is not 2 or 4 (logged)",
    "element size {size} is not supported; use 2 (half) or 4 (float)",
    "E_TYPE_SIZE",
)
_REUSE_IGNORED = _Remark("warning only: the reuse-source flag has no effect", code="W_REUSE_IGNORED")
_WORKSPACE_ZERO = _Remark(
    "workspace of zero bytes (logged only; tiling is still computed)",
    "workspace too small: {work_bytes} bytes; pass at least {row}",
    "E_WORKSPACE_ZERO",
)
_SHAPE_SIZE_REJECT = _Remark(
    "call refused because the element count after truncation to 32 bits is zero",
    "shape {axes} has {product} elements, which CANN counts as 0; use axes of at least 1 and a product below 2**32",
    "E_SHAPE_SIZE_REJECT",
)
_DTYPE_REJECT = _Remark("call refused because the element size is not 2 or 4", code="E_DTYPE_REJECT")
_RANK_ZERO = _Remark(
    "rank 0: the last-axis check reads the end of an empty list (undefined behaviour)",
    "the shape has no axes; give at least the last axis K",
)
_ZERO_DIVISOR = _Remark(
    "a divisor is 0 as uint32 (undefined behaviour)",
    "K = {k} makes the row length or the row cost 0 as uint32; use a K from 1 to 2**30",
)
_NOT_COMPILED = _Remark("the kernel is compiled for half and float only", _TYPE_SIZE.remedy)
_NO_ROWS = _Remark(
    "row count is 0 as uint32: tile height 0, rangeM not written",
    "the row count is 0 as uint32; use at least one row and a product of axes below 2**32",
)
_BELOW_ONE_ROW = _Remark(
    "fewer bytes than one row needs: tile height 0, rangeM not written",
    "workspace too small: {work_bytes} bytes; pass at least {row}",
)
_HALVED_AWAY = _Remark(
    "halving the tile below 16384 elements ends at tile height 0, rangeM not written",
    "basic-block tiles are halved until they hold less than 16384 elements, which leaves no row of K = {k};"
    " use a K below 2048 or no basic block",
)
_UNKNOWN_COUNT = _Remark("dynamic dim: element count is -1 as int64 and large as uint32")
_WRAPPED = _Remark("arithmetic is 32-bit unsigned and wraps silently unless the truncated element count is 0")


class _Uint32:
    """Reduces values as storing them in a uint32 does, and remembers whether one did not fit."""

    __slots__ = ("wrapped",)

    def __init__(self) -> None:
        self.wrapped = False

    def __call__(self, value: int) -> int:
        self.wrapped |= not 0 <= value < 1 << 32
        return value % (1 << 32)


# --- the formulas, each once ---


def row_cost_floats(k: int, data_type_size: int, is_front: bool) -> int:
    """Return the temp floats that tiling reserves for one row: the number behind every size here.

    half keeps three float rows and two datablocks of sums, float one row and two datablocks (one when the sums go
    straight to the result); each adds one repeat.

    Args:
        k: elements of one row.
        data_type_size: bytes of an element, 2 or 4.
        is_front: the result is one datablock per row.
    """
    rows, datablocks = (3, 2) if data_type_size == HALF.bytes else (1, 1 if is_front else 2)
    return rows * k + datablocks * (DATABLOCK_BYTES // data_type_size) + _LANES


def row_sum_floats(m: int, is_front: bool) -> int:
    """Return the temp floats the minimum asks for where only row sums use temp: whole repeats.

    Args:
        m: rows.
        is_front: one float per row, in whole repeats, instead of two, in pairs of repeats.
    """
    return align_up(m, _LANES) if is_front else align_up(2 * m, 2 * _LANES)


def _rows_that_fit(m: int, work_floats: int, row_floats: int) -> int:
    """Return the tile height: what fits, at most m, a multiple of 8 when above 8 and not everything fits."""
    fit = work_floats // row_floats
    if fit >= m:
        return m
    return fit // _ROW_GROUP * _ROW_GROUP if fit > _ROW_GROUP else fit


def _basic_block_rows(u32: _Uint32, fit: int, m: int, k: int) -> int:
    """Return the tile height for basic blocks: a multiple of 8 that divides m, then halved until the tile is small.

    Halving may end at heights that do neither, 0 included; that is CANN's own result.
    """
    if fit <= _ROW_GROUP or m % _ROW_GROUP:
        return fit
    height = fit // _ROW_GROUP * _ROW_GROUP
    while m % height:
        height -= _ROW_GROUP
    while u32(height * k) >= _TILE_ELEMENTS_END:
        height //= 2
    return height


def _fields(u32: _Uint32, m: int, k: int, data_type_size: int, height: int) -> SoftMaxTiling:
    """Return the 16 fields for tiles of `height` rows."""
    per_datablock = DATABLOCK_BYTES // data_type_size
    full, tail = divmod(m, height) if height else (0, 0)
    return SoftMaxTiling(
        src_m=m,
        src_k=k,
        src_size=u32(m * k),
        out_max_m=m,
        out_max_k=per_datablock,
        out_max_size=u32(m * per_datablock),
        split_m=height,
        split_k=k,
        split_size=u32(height * k),
        reduce_m=height,
        reduce_k=per_datablock,
        reduce_size=u32(height * per_datablock),
        range_m=full,
        tail_m=tail,
        tail_split_size=u32(tail * k),
        tail_reduce_size=u32(tail * per_datablock),
    )


def _why_no_tile(m: int, fit: int) -> _Remark:
    """Return the reason for a tile height of 0."""
    if m == 0:
        return _NO_ROWS
    return _HALVED_AWAY if fit else _BELOW_ONE_ROW


# --- one call ---


@dataclass(slots=True)
class _Call:
    """One call of a CANN function: its arguments as CANN's types hold them, and what is unusual about it so far."""

    function: str
    shape: tuple[int, ...]
    data_type_size: int
    is_front: bool
    u32: _Uint32
    work_bytes: int = 0
    remarks: list[_Remark] = field(default_factory=list)

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
        return self.u32(row_cost_floats(self.k, self.data_type_size, self.is_front))

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

    def check(self, own: _Remark, own_applies: bool) -> Status:
        """Remark on everything CANN logs, in its order; `own` is the one check the functions do not share."""
        if not self.shape:
            self.remarks.append(_RANK_ZERO)
            return "crash_SIGSEGV"
        no_elements = self.u32(self.element_count) == 0
        bad_size = self.data_type_size not in _ELEMENT_BYTES
        checks = (
            (_SHAPE_SIZE, self.element_count == 0),
            (_LAST_AXIS_ZERO, self.shape[-1] <= 0),
            (_LAST_AXIS_UNALIGNED, self.shape[-1] * self.data_type_size % DATABLOCK_BYTES != 0),
            (_TYPE_SIZE, bad_size),
            (own, own_applies),
            (_SHAPE_SIZE_REJECT, no_elements),
            (_DTYPE_REJECT, bad_size and not no_elements),
        )
        self.remarks += [remark for remark, applies in checks if applies]
        if self.element_count == -1:
            self.remarks.append(_UNKNOWN_COUNT)
        if no_elements or bad_size:
            return "rejected"
        if self.k == 0:  # m divides by it
            self.remarks.append(_ZERO_DIVISOR)
            return "crash_SIGFPE"
        return "ok_with_log" if any(remark.code for remark in self.remarks) else "ok_silent"

    def outcome(
        self, status: Status, returned_bytes: int | None = None, tiling: SoftMaxTiling | None = None
    ) -> CannOutcome:
        """Return the outcome; only what the remarks do not say is passed in."""
        if self.u32.wrapped and _UNKNOWN_COUNT not in self.remarks:
            self.remarks.append(_WRAPPED)
        stale: Stale = "none"
        if tiling is not None and tiling.split_m == 0:
            stale = "all" if status == "rejected" else "rangeM"
        return CannOutcome(
            function=self.function,
            status=status,
            returned_bytes=returned_bytes,
            tiling=tiling,
            fields_left_stale=stale,
            log_codes=tuple(remark.code for remark in self.remarks if remark.code),
            meaning="; ".join(remark.meaning for remark in self.remarks),
            wrapped=self.u32.wrapped,
        )

    def error(self, outcome: CannOutcome) -> SoftMaxInputError:
        """Return the error for this call: every remedy the remarks know, and what CANN does."""
        size = self.data_type_size
        k = self.shape[-1] if self.shape else 0
        unit = DATABLOCK_BYTES // gcd(DATABLOCK_BYTES, size)
        k_aligned = max(unit, align_up(k, unit))
        row = "one row"
        if size in _ELEMENT_BYTES:
            row_k = k if self.function == _KERNEL_TILING else k_aligned
            row = f"{FLOAT.bytes * row_cost_floats(row_k, size, self.is_front)} bytes, one row of K = {row_k}"
        values = {
            "axes": "x".join(map(str, self.shape)),
            "product": prod(self.shape),
            "k": k,
            "k_bytes": k * size,
            "k_aligned": k_aligned,
            "unit": unit,
            "size": size,
            "work_bytes": self.work_bytes,
            "row": row,
        }
        remedies = dict.fromkeys(remark.remedy.format_map(values) for remark in self.remarks if remark.remedy)
        return SoftMaxInputError("; ".join(remedies), outcome)


def _call(function: str, shape: Sequence[int], data_type_size: int, is_front: bool) -> _Call:
    u32 = _Uint32()
    return _Call(function, tuple(index(dim) for dim in shape), u32(data_type_size), is_front, u32)


def _tmp_size(call: _Call, npu_arch: int, is_reuse_source: bool) -> CannOutcome:
    status = call.check(_REUSE_IGNORED, is_reuse_source)
    if status == "rejected":
        return call.outcome(status, returned_bytes=0)
    if status.startswith("crash"):
        return call.outcome(status)
    if call.function == _MAX:
        floats = call.m * call.row_floats
    elif npu_arch in _ROW_SUMS_ONLY_ARCHS:
        floats = row_sum_floats(call.m, call.is_front)
    else:
        floats = call.row_floats
    return call.outcome(status, returned_bytes=call.u32(FLOAT.bytes * floats))


def _tiling(call: _Call, local_work_space_size: int) -> CannOutcome:
    call.work_bytes = call.u32(local_work_space_size)
    status = call.check(_WORKSPACE_ZERO, call.work_bytes == 0)
    if status == "rejected":
        return call.outcome(status, tiling=SoftMaxTiling())
    if status.startswith("crash"):
        return call.outcome(status)
    tiling = _cut(call, call.m, call.work_bytes // FLOAT.bytes, call.k % _LANES == 0)
    return call.outcome("crash_SIGFPE" if tiling is None else status, tiling=tiling)


def _kernel_tiling(call: _Call, work_local_count: int, is_basic_block: bool) -> CannOutcome:
    work_floats = call.u32(work_local_count)
    call.work_bytes = FLOAT.bytes * work_floats
    if call.data_type_size not in _ELEMENT_BYTES:
        call.remarks.append(_NOT_COMPILED)
        return call.outcome("rejected")
    tiling = _cut(call, call.u32(call.shape[0]), work_floats, is_basic_block)
    if tiling is None:
        return call.outcome("crash_SIGFPE")
    return call.outcome("ok_silent" if tiling.split_m else "assert_workspace_too_small", tiling=tiling)


def _cut(call: _Call, m: int, work_floats: int, is_basic_block: bool) -> SoftMaxTiling | None:
    """Return the tiling, or None where CANN divides by zero, and remark on either kind of trouble."""
    if call.row_floats == 0:
        call.remarks.append(_ZERO_DIVISOR)
        return None
    fit = _rows_that_fit(m, work_floats, call.row_floats)
    height = _basic_block_rows(call.u32, fit, m, call.k) if is_basic_block else fit
    if height == 0:
        call.remarks.append(_why_no_tile(m, fit))
    return _fields(call.u32, m, call.k, call.data_type_size, height)


# --- CANN's answer, never an exception ---


def cann_outcome_tmp_size(
    function: TmpSizeFunction,
    shape: Sequence[int],
    data_type_size: int,
    is_front: bool,
    npu_arch: int,
    *,
    is_reuse_source: bool = False,
) -> CannOutcome:
    """Return what CANN's temp-size function does with these arguments.

    Args:
        function: which of the two.
        shape: axes [elements]; -1 and -2 are the graph engine's "known at run time".
        data_type_size: bytes of an element.
        is_front: the result is one datablock per row.
        npu_arch: 2201, 3510, ...; a number without a rule of its own takes the common one.
        is_reuse_source: CANN ignores it, with a warning.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return _tmp_size(_call(function, shape, data_type_size, is_front), npu_arch, is_reuse_source)


def cann_outcome_tiling(
    shape: Sequence[int], data_type_size: int, local_work_space_size: int, is_front: bool
) -> CannOutcome:
    """Return what CANN's host tiling function does with these arguments.

    Args:
        shape: axes [elements].
        data_type_size: bytes of an element.
        local_work_space_size: bytes of the temp buffer.
        is_front: the result is one datablock per row.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return _tiling(_call(_TILING, shape, data_type_size, is_front), local_work_space_size)


# --- CANN's functions ---


def get_soft_max_grad_max_tmp_size(shape: Sequence[int], data_type_size: int, is_front: bool, npu_arch: int) -> int:
    """Return the temp bytes with which all rows fit in one tile: M times the cost of a row, on every architecture.

    More never helps. Less may give fewer tiles: basic-block tiles must divide M and hold less than 16384 elements.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        is_front: the result is one datablock per row.
        npu_arch: architecture number such as 2201.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return _bytes_or_raise(_call(_MAX, shape, data_type_size, is_front), npu_arch)


def get_soft_max_grad_min_tmp_size(shape: Sequence[int], data_type_size: int, is_front: bool, npu_arch: int) -> int:
    """Return the least temp bytes: the cost of one row, or the row sums of all rows on 3510 and 5102.

    On those two it may be below one row, for which `soft_max_grad_tiling_func` gives split_m 0, and for a single short
    row it may be above the maximum.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        is_front: the result is one datablock per row.
        npu_arch: architecture number such as 2201.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    return _bytes_or_raise(_call(_MIN, shape, data_type_size, is_front), npu_arch)


def fitting_tmp_size(shape: Sequence[int], data_type_size: int, is_front: bool, npu_arch: int, left_bytes: int) -> int:
    """Return the largest temp that the call can use and that `left_bytes` of UB hold, but at least the minimum.

    Args:
        shape: [..., k] of grad and src as they lie in UB.
        data_type_size: bytes of an element.
        is_front: only the row sums.
        npu_arch: architecture number such as 2201.
        left_bytes: what the tensors leave of UB; may be negative.

    Raises:
        SoftMaxInputError: as get_soft_max_grad_min_tmp_size.
    """
    low = get_soft_max_grad_min_tmp_size(shape, data_type_size, is_front, npu_arch)
    high = get_soft_max_grad_max_tmp_size(shape, data_type_size, is_front, npu_arch)
    return max(low, min(high, left_bytes // DATABLOCK_BYTES * DATABLOCK_BYTES))


def _bytes_or_raise(call: _Call, npu_arch: int) -> int:
    outcome = _tmp_size(call, npu_arch, is_reuse_source=False)
    if outcome.is_error or outcome.returned_bytes is None:
        raise call.error(outcome)
    return outcome.returned_bytes


def soft_max_grad_tiling_func(
    shape: Sequence[int], data_type_size: int, local_work_space_size: int, is_front: bool
) -> SoftMaxTiling:
    """Return the host tiling. The same on every architecture.

    A workspace below one row gives split_m 0 and range_m 0 without a word, as in CANN with a fresh struct. More
    workspace can give smaller tiles, because basic-block tiles must divide M.

    Args:
        shape: axes [elements], rank 1 or more; only the product of the leading ones matters.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        local_work_space_size: bytes of the temp buffer.
        is_front: the result is one datablock per row.

    Raises:
        SoftMaxInputError: CANN logs an error, refuses or crashes; `.cann` tells which.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    call = _call(_TILING, shape, data_type_size, is_front)
    return _tiling_or_raise(call, _tiling(call, local_work_space_size))


def soft_max_grad_kernel_tiling(
    src_m: int,
    src_k: int,
    data_type_size: int,
    work_local_count: int,
    is_front: bool,
    *,
    is_basic_block: bool = False,
    is_nz: bool = False,
) -> SoftMaxTiling:
    """Return the tiling the kernel makes itself when the struct's src_m or src_k is not the tensor's.

    Unlike the host, it makes tiles divide M and keeps them below 16384 elements only for front basic blocks, and does
    not look whether K is whole repeats; NZ never saves the second datablock of sums.

    Args:
        src_m: rows.
        src_k: elements of one row.
        data_type_size: bytes of an element, 2 (half) or 4 (float).
        work_local_count: floats of the temp tensor.
        is_front: the result is one datablock per row.
        is_basic_block: the kernel's template flag; SoftmaxGrad always passes False.
        is_nz: the data is in NZ format.

    Raises:
        SoftMaxInputError: the tile height is 0, which the kernel asserts on (debug) or divides by (release), or the
            element size is none the kernel exists for.

    Source: asc-devkit 9.1.0, softmax_tiling_func (kernel).
    """
    call = _call(_KERNEL_TILING, (src_m, src_k), data_type_size, is_front and not is_nz)
    return _tiling_or_raise(call, _kernel_tiling(call, work_local_count, is_basic_block and is_front))


def _tiling_or_raise(call: _Call, outcome: CannOutcome) -> SoftMaxTiling:
    if outcome.is_error or outcome.tiling is None:
        raise call.error(outcome)
    return outcome.tiling


def is_basic_block_shape(src_m: int, src_k: int, data_type_size: int) -> bool:
    """Return whether SoftmaxGradFront may be called with basic block on tensors of this shape.

    Args:
        src_m: rows.
        src_k: elements of one row, padded.
        data_type_size: bytes of an element.

    Source: asc-devkit docs, SoftmaxGradFront page.
    """
    return (
        src_m % _ROW_GROUP == 0 and src_k % _LANES == 0 and REPEAT_BYTES // data_type_size <= src_k < _BASIC_BLOCK_K_END
    )


def is_basic_block_in_soft_max(tiling: SoftMaxTiling, data_type_size: int = 2) -> bool:
    """Return whether the basic-block kernel may run this tiling: no partial tile, K whole repeats and below 2048.

    Args:
        tiling: only src_k and tail_m are read.
        data_type_size: bytes of an element; 0 gives False.

    Source: asc-devkit 9.1.0, softmax tiling (host).
    """
    if data_type_size == 0 or tiling.tail_m != 0 or tiling.src_k % _LANES:
        return False
    return REPEAT_BYTES // data_type_size <= tiling.src_k < _BASIC_BLOCK_K_END
