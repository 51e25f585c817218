"""Measured products, rebuilt as Mmads.

Source of the rows: Ascend+mskpp, csrc/prof_data/resource910b.cpp. Its table for 910B3 shows the head of an idle pipe in
every product, those for 910B1 and 950 do not (inferred): there each Mmad waits for the one before, here they stream.
"""

from ascendsim.device import Device
from ascendsim.dtypes import DType
from ascendsim.fidelity.course import Course
from ascendsim.fidelity.measured import Measured, Uncovered
from ascendsim.fidelity.rebuild import dtype_of
from ascendsim.isa.mmad import MmadParams
from ascendsim.memory import LocalTensor
from ascendsim.record import AiCore
from ascendsim.terms import KernelType, Pipe, TPosition

_DRAINED_TABLE = "Ascend910B3"
"""The part whose table shows the head in every product: how those rows were measured, not what the part does."""


def course_of(row: Measured, device: Device) -> Course:
    """Return a product in a long row of its like, each from zero.

    Raises:
        Uncovered: the row states no shape, or types that there are not here.
    """
    if row.mkn is None:
        raise Uncovered("it does not say m, k and n")
    m, k, n = row.mkn
    factors, result = dtype_of(row.dtype), dtype_of(row.dst_dtype)

    def body(asc: AiCore) -> None:
        dst, a, b = _local(TPosition.CO1, result), _local(TPosition.A2, factors), _local(TPosition.B2, factors)
        asc.mmad(dst, a, b, MmadParams(m, n, k))
        if row.soc == _DRAINED_TABLE:
            asc.pipe_barrier(Pipe.M)

    return Course(body, Pipe.M, device, is_streamed=True, kernel_type=KernelType.AIC_ONLY)


def _local(position: TPosition, element: DType) -> LocalTensor:
    return LocalTensor(position.value, position, element, 0, 1 << 20)
