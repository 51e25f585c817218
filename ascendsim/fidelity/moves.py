"""Measured moves, rebuilt from the copies, LoadData and Fixpipe that do them.

Source of the rows: Ascend+mskpp, csrc/prof_data/resource910b.cpp. What its tables leave open is read off them, table by
table (inferred):
- "Back-to-back" transfers of GM show their latency every time, so they wait for one another here (PipeBarrier).
- Moves on chip and the tables by repeat do not show it, so they stream here.
- On arch 2201 the LoadData tables by bytes have twice the cycle that those by repeats have for each instruction, and
  only even numbers of fractals: two instructions for each transfer.
- Times of ND2NZ go with the binary digits of bytes / 64: 64 rows, without gaps. They start later by 400 cycles than the
  loads of the matmul example, which hit L2: these miss it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ascendsim.device import Device
from ascendsim.dtypes import FLOAT, HALF
from ascendsim.fidelity.course import Body, Course
from ascendsim.fidelity.measured import Measured, Uncovered
from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.load import LoadData2DParams
from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.memory import GlobalTensor, LocalTensor, place_in_gm
from ascendsim.record import AiCore
from ascendsim.terms import CUBE_SIDE, DATABLOCK_BYTES, FRACTAL_BYTES, CO2Layout, KernelType, Pipe, QuantMode, TPosition

_ND2NZ_ROWS = 64

Issue = Callable[[AiCore, GlobalTensor, int], None]
"""Records one instruction that moves so many bytes; the GM tensor is for those that have one."""


def _local(position: TPosition, kind: str = "half") -> LocalTensor:
    """The start of a memory, as long as the longest row needs."""
    element = FLOAT if kind == "float" else HALF
    return LocalTensor(position.value, position, element, 0, 1 << 20)


def _load(position: TPosition) -> Issue:
    def issue(asc: AiCore, x: GlobalTensor, length: int) -> None:
        asc.data_copy(_local(position), x, length // HALF.bytes)

    return issue


def _store(position: TPosition) -> Issue:
    def issue(asc: AiCore, x: GlobalTensor, length: int) -> None:
        asc.data_copy(x, _local(position), length // HALF.bytes)

    return issue


def _copy(target: TPosition, source: TPosition) -> Issue:
    def issue(asc: AiCore, x: GlobalTensor, length: int) -> None:
        del x
        far = _local(source)[_FAR_ELEMENTS if source is TPosition.VECIN else 0]
        asc.data_copy(_local(target), far, length // HALF.bytes)

    return issue


_FAR_ELEMENTS = 1 << 18
"""Elements behind which nothing of a row's destination lies."""


def _nd2nz(asc: AiCore, x: GlobalTensor, length: int) -> None:
    columns = length // _ND2NZ_ROWS // HALF.bytes
    params = Nd2NzParams(1, _ND2NZ_ROWS, columns, 0, columns, _ND2NZ_ROWS, 1, 0)
    asc.data_copy(_local(TPosition.A1), x, params)


def _fractals(length: int) -> LoadData2DParams:
    return LoadData2DParams(0, length // FRACTAL_BYTES, 1, 0, 0)


def _load_l0(position: TPosition) -> Issue:
    def issue(asc: AiCore, x: GlobalTensor, length: int) -> None:
        del x
        asc.load_data(_local(position), _local(TPosition.A1), _fractals(length))

    return issue


def _load_l0_from_gm(position: TPosition) -> Issue:
    def issue(asc: AiCore, x: GlobalTensor, length: int) -> None:
        asc.load_data(_local(position), x, _fractals(length))

    return issue


def _fixpipe(layout: CO2Layout) -> Issue:
    """Sixteen rows of floats, unconverted."""

    def issue(asc: AiCore, x: GlobalTensor, length: int) -> None:
        n = length // CUBE_SIDE // FLOAT.bytes
        pitch = CUBE_SIDE * CUBE_SIDE * FLOAT.bytes // DATABLOCK_BYTES if layout is CO2Layout.NZ else n
        asc.fixpipe(x, _local(TPosition.CO1, "float"), FixpipeParamsV220(n, CUBE_SIDE, CUBE_SIDE, pitch), layout)

    return issue


def _fixpipe_to_l1(asc: AiCore, x: GlobalTensor, length: int) -> None:
    """Sixteen rows of halves."""
    del x
    n = length // CUBE_SIDE // HALF.bytes
    params = FixpipeParamsV220(n, CUBE_SIDE, CUBE_SIDE, CUBE_SIDE, QuantMode.F322F16)
    asc.fixpipe(_local(TPosition.A1), _local(TPosition.CO1, "float"), params, CO2Layout.NZ)


@dataclass(frozen=True, slots=True)
class _Path:
    """How a path of the tables is measured.

    Attributes:
        pipe, kernel_type: where it runs.
        issue: its instruction.
        waits: whether each instruction waits for the one before.
        misses: whether L2 is taken to hold nothing of it, where the row does not say.
        needs: capability; None for a path that every device has.
        kind: element type of the GM tensor.
        piece_bytes: what an instruction moves whole multiples of.
    """

    pipe: Pipe
    kernel_type: KernelType
    issue: Issue
    waits: bool = False
    misses: bool = False
    needs: str | None = None
    kind: str = "half"
    piece_bytes: int = HALF.bytes


_ROW16_BYTES = CUBE_SIDE * FLOAT.bytes
_AIV, _AIC = KernelType.AIV_ONLY, KernelType.AIC_ONLY
_PATHS = {
    "GM_TO_UB": _Path(Pipe.MTE2, _AIV, _load(TPosition.VECIN), waits=True),
    "UB_TO_GM": _Path(Pipe.MTE3, _AIV, _store(TPosition.VECOUT), waits=True),
    "UB_TO_UB": _Path(Pipe.V, _AIV, _copy(TPosition.VECCALC, TPosition.VECIN)),
    "GM_TO_L1": _Path(Pipe.MTE2, _AIC, _load(TPosition.A1), waits=True),
    "GM_TO_L1_TRANS": _Path(Pipe.MTE2, _AIC, _nd2nz, waits=True, misses=True, piece_bytes=_ND2NZ_ROWS * HALF.bytes),
    "GM_TO_L0A": _Path(
        Pipe.MTE2, _AIC, _load_l0_from_gm(TPosition.A2), waits=True, needs="load_gm_to_l0", piece_bytes=FRACTAL_BYTES
    ),
    "GM_TO_L0B": _Path(
        Pipe.MTE2, _AIC, _load_l0_from_gm(TPosition.B2), waits=True, needs="load_gm_to_l0", piece_bytes=FRACTAL_BYTES
    ),
    "L1_TO_GM": _Path(Pipe.MTE3, _AIC, _store(TPosition.A1), waits=True, needs="data_copy_l1_to_gm"),
    "L1_TO_L0A": _Path(Pipe.MTE1, _AIC, _load_l0(TPosition.A2), piece_bytes=FRACTAL_BYTES),
    "L1_TO_L0B": _Path(Pipe.MTE1, _AIC, _load_l0(TPosition.B2), piece_bytes=FRACTAL_BYTES),
    "L1_TO_BT": _Path(Pipe.MTE1, _AIC, _copy(TPosition.C2, TPosition.C1)),
    "L1_TO_FB": _Path(Pipe.FIX, _AIC, _copy(TPosition.C2PIPE2GM, TPosition.C1)),
    "L0C_TO_L1": _Path(Pipe.FIX, _AIC, _fixpipe_to_l1, piece_bytes=CUBE_SIDE * HALF.bytes),
    "L0C_TO_GM": _Path(Pipe.FIX, _AIC, _fixpipe(CO2Layout.NZ), waits=True, kind="float", piece_bytes=_ROW16_BYTES),
    "L0C_TO_GM_TRANS": _Path(
        Pipe.FIX, _AIC, _fixpipe(CO2Layout.ROW_MAJOR), waits=True, kind="float", piece_bytes=_ROW16_BYTES
    ),
}
_IN_TWO_2201 = ("L1_TO_L0A", "L1_TO_L0B")


def course_of(row: Measured, device: Device) -> Course:
    """Return a transfer in a long row of its like.

    Raises:
        Uncovered: nothing here moves bytes on that path of the device.
    """
    path = _PATHS.get(row.op)
    if path is None or (path.needs is not None and not device.has(path.needs)):
        raise Uncovered(f"no instruction of {device.name} moves bytes on the path {row.op}")
    if row.bytes is None:
        raise Uncovered("it does not say how many bytes it moves")
    by_repeat = row.family.endswith("_repeat")
    pieces = 2 if row.arch == 2201 and row.op in _IN_TWO_2201 and not by_repeat else 1
    if row.bytes % (pieces * path.piece_bytes):
        raise Uncovered(f"{row.bytes} B; the path {row.op} moves whole multiples of {pieces * path.piece_bytes} B")
    gm = place_in_gm([("x", FLOAT if path.kind == "float" else HALF, (row.bytes,))])
    body = _body(path, gm[0], row.bytes // pieces, pieces, waits=path.waits and not by_repeat)
    l2_mode = "miss" if path.misses or "L2 misses" in row.conditions else "hit"
    return Course(body, path.pipe, device, is_streamed=True, gm=gm, kernel_type=path.kernel_type, l2_mode=l2_mode)


def _body(path: _Path, x: GlobalTensor, length: int, pieces: int, *, waits: bool) -> Body:
    def body(asc: AiCore) -> None:
        for _ in range(pieces):
            path.issue(asc, x, length)
            if waits:
                asc.pipe_barrier(path.pipe)

    return body
