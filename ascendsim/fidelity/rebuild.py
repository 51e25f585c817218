"""What the rebuilding modules share: element types by the sources' names, and tensors at stated UB addresses."""

from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, DType
from ascendsim.fidelity.measured import Uncovered
from ascendsim.memory import LocalTensor
from ascendsim.terms import TPosition

_DTYPES = {
    "fp16": HALF,
    "bf16": BFLOAT16,
    "fp32": FLOAT,
    "int8": INT8,
    "uint8": UINT8,
    "int16": INT16,
    "uint16": UINT16,
    "int32": INT32,
    "uint32": UINT32,
    "int64": INT64,
}


def dtype_of(name: str) -> DType:
    """Return an element type by the sources' name for it.

    Raises:
        Uncovered: there is no such element type here.
    """
    if name not in _DTYPES:
        raise Uncovered(f"element type {name or 'not stated'}")
    return _DTYPES[name]


def ub_tensor(name: str, dtype: DType, address_bytes: int, tensor_bytes: int) -> LocalTensor:
    """Return a UB tensor at an address."""
    return LocalTensor(name, TPosition.VECCALC, dtype, address_bytes, tensor_bytes)
