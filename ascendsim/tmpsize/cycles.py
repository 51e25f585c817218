"""Predicted cycles of one SoftmaxGrad call on tensors in UB.

Of a call of many tiles a few are scheduled, and their distance is continued: tiles of one height follow each other at
a fixed distance. Of tiles of very many instructions one is scheduled, and counted for each with its start-up (slow, by
a percent or so). Vector functions do not look at tiles; of them rows are continued.
"""

from dataclasses import asdict, dataclass, field
from math import gcd

from ascendsim.device import Device
from ascendsim.dtypes import UINT8, DType
from ascendsim.machine import predict_cycles
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import SoftMaxTiling, soft_max_grad_tiling_func
from ascendsim.op_host.softmax_tiles import LANES, ROW_GROUP
from ascendsim.op_kernel.softmax_grad import softmax_grad, softmax_grad_front
from ascendsim.record import AiCore, record
from ascendsim.terms import DATABLOCK_BYTES, MAX_REPEAT_TIMES, NZ_COLUMNS, DataFormat, TPosition, align_up, ceil_div
from ascendsim.tmpsize.high_water import Unit, unit_of

MODELLED_TILES = 24
"""A call of more tiles is predicted from this many, or fewer where a tile is many instructions."""
MODELLED_REPEATS = 128
"""About so many repeats of 64 columns the modelled tiles come to, where that is fewer tiles."""
MODELLED_ROWS = 256
"""A vector function of more rows is predicted from this many, or fewer where a row is many micro-operations.

Behind so many its units and slots have fallen into step."""
_BANK_GROUPS_BYTES = 512
"""Tiles whose distance in bytes is a multiple of this meet the same bank groups."""
_BANKS_BYTES = 512
"""Rows whose distance in bytes is a multiple of this meet the same banks of arch 3510."""
_MOST_REPEATS = 2 * MODELLED_REPEATS


@dataclass(frozen=True, slots=True)
class Form:
    """Which SoftmaxGrad is called: dtype, variant and format."""

    element: DType
    is_front: bool = False
    data_format: DataFormat = DataFormat.ND
    is_basic_block: bool = False


def predicted_cycles(device: Device, element: DType, shape: tuple[int, int], is_front: bool, tmp_bytes: int) -> int:
    """Return the cycles of one SoftmaxGrad call in ND on tensors in UB (whether or not they fit there).

    Args:
        device: the part.
        element: half or float.
        shape: [m, k] of grad and src.
        is_front: only the row sums.
        tmp_bytes: temp, for at least one row.
    """
    tiling = soft_max_grad_tiling_func(shape, element.bytes, tmp_bytes, is_front)
    return Predictor(device, Form(element, is_front)).cycles(tiling, tmp_bytes)


@dataclass(slots=True)
class Predictor:
    """Predicts calls of one form on one device; each tiling once, because cycles depend on nothing else of the temp."""

    device: Device
    form: Form
    _known: dict[tuple[int, ...], int] = field(default_factory=dict)

    def cycles(self, tiling: SoftMaxTiling, tmp_bytes: int) -> int:
        """Return the cycles of a call with this tiling, which does not do without a row."""
        if unit_of(self.device.npu_arch) is Unit.VECTOR_FUNCTION:
            key: tuple[int, ...] = (tiling.src_m, tiling.src_k)
        else:
            key = (tiling.src_m, tiling.src_k, tiling.split_m)
        if key not in self._known:
            is_by_rows = len(key) == 2
            self._known[key] = self._by_rows(tiling, tmp_bytes) if is_by_rows else self._by_tiles(tiling, tmp_bytes)
        return self._known[key]

    def _by_tiles(self, tiling: SoftMaxTiling, tmp_bytes: int) -> int:
        tiles, period = tiling.range_m, self._period(tiling)
        repeats = self._repeats(tiling)
        if repeats > MODELLED_REPEATS and tiles > 1:
            last = self._call(_cut(tiling, 1), tiling.src_size, tmp_bytes)
            alone = self._call(_without_tail(_cut(tiling, 1)), tiling.src_size, tmp_bytes) if tiling.tail_m else last
            return last + (tiles - 1) * alone
        wanted = max(1, min(MODELLED_TILES, MODELLED_REPEATS // repeats))
        modelled = wanted + period + (tiles - wanted) % period  # a whole number of periods short of all
        if tiles <= modelled:
            return self._call(tiling, tiling.src_size, tmp_bytes)
        longer = self._call(_cut(tiling, modelled), tiling.src_size, tmp_bytes)
        shorter = self._call(_cut(tiling, modelled - period), tiling.src_size, tmp_bytes)
        return longer + (tiles - modelled) // period * (longer - shorter)

    def _period(self, tiling: SoftMaxTiling) -> int:
        """Tiles after which the bank groups repeat.

        Where those are too many instructions 1: a call of such rows is off by a percent or so, in either direction.
        """
        columns = tiling.split_k if self.form.data_format is DataFormat.ND else NZ_COLUMNS
        step = tiling.split_m * columns * self.form.element.bytes
        period = _BANK_GROUPS_BYTES // gcd(_BANK_GROUPS_BYTES, step)
        return period if period * self._repeats(tiling) <= _MOST_REPEATS else 1

    def _repeats(self, tiling: SoftMaxTiling) -> int:
        """Repeats of columns of a tile that are instructions of their own."""
        unit, is_nz = unit_of(self.device.npu_arch), self.form.data_format is DataFormat.NZ
        repeats = ceil_div(tiling.src_k, NZ_COLUMNS if is_nz else LANES)
        is_long = tiling.src_k // ROW_GROUP > MAX_REPEAT_TIMES
        is_row_by_row = unit is Unit.REPEAT_SUMS or (unit is Unit.REGISTER and is_long)
        return repeats * (tiling.split_m if is_row_by_row else 1)

    def _by_rows(self, tiling: SoftMaxTiling, tmp_bytes: int) -> int:
        m, row_bytes = tiling.src_m, tiling.src_k * self.form.element.bytes
        period = _BANKS_BYTES // gcd(_BANKS_BYTES, row_bytes)
        wanted = max(period, min(MODELLED_ROWS, 4 * MODELLED_REPEATS // ceil_div(tiling.src_k, LANES)))
        modelled = wanted + period + (m - wanted) % period
        if m <= modelled:
            return self._call(tiling, tiling.src_size, tmp_bytes)
        longer = self._call(_of_rows(tiling, modelled), tiling.src_size, tmp_bytes)
        shorter = self._call(_of_rows(tiling, modelled - period), tiling.src_size, tmp_bytes)
        return longer + (m - modelled) // period * (longer - shorter)

    def _call(self, tiling: SoftMaxTiling, tensor_elements: int, tmp_bytes: int) -> int:
        """Schedule a call whose tensors lie as those of so many elements do."""
        element, form = self.form.element, self.form
        size = align_up(tensor_elements * element.bytes, DATABLOCK_BYTES)
        dst, grad, src = (
            LocalTensor(name, TPosition.VECCALC, element, i * size, size)
            for i, name in enumerate(("dst", "grad", "src"))
        )
        tmp = LocalTensor("tmp", TPosition.VECCALC, UINT8, 3 * size, tmp_bytes)

        def kernel(asc: AiCore) -> None:
            if form.is_basic_block:
                kind = form.data_format
                softmax_grad_front(asc, dst, grad, src, tmp, tiling, data_format=kind, is_basic_block=True)
            else:
                softmax_grad(asc, dst, grad, src, tmp, tiling, form.is_front, data_format=form.data_format)

        return predict_cycles(record(kernel, self.device, 1, (), ()).program, self.device)


def _cut(tiling: SoftMaxTiling, tiles: int) -> SoftMaxTiling:
    """The same tiling over fewer full tiles, its tail kept."""
    m = tiles * tiling.split_m + tiling.tail_m
    plain = asdict(tiling) | {"src_m": m, "src_size": m * tiling.src_k, "out_max_m": m, "range_m": tiles}
    return SoftMaxTiling(**plain | {"out_max_size": m * tiling.out_max_k})


def _without_tail(tiling: SoftMaxTiling) -> SoftMaxTiling:
    """The same tiling over its full tiles only."""
    m = tiling.range_m * tiling.split_m
    plain = asdict(tiling) | {"src_m": m, "src_size": m * tiling.src_k, "out_max_m": m, "tail_m": 0}
    return SoftMaxTiling(**plain | {"tail_split_size": 0, "tail_reduce_size": 0})


def _of_rows(tiling: SoftMaxTiling, rows: int) -> SoftMaxTiling:
    """A tiling of fewer rows, for a kernel that does not look at its tiles."""
    return SoftMaxTiling(**asdict(tiling) | {"src_m": rows, "src_size": rows * tiling.src_k, "out_max_m": rows})
