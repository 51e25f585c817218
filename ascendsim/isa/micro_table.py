"""The table of register micro-operations, and which memory elements the lanes of a load or store are."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ascendsim.dtypes import DTYPES, DType
from ascendsim.isa.instruction import MicroInstruction, MicroKind

REGISTER_BYTES = 256
"""Length of a vector register (asc-devkit docs, architecture page 3510)."""

WORD_LANES = 64
"""32-bit lanes of a register."""

MOST_LANES = 128
"""16-bit lanes of a register."""

_REG = "Source: asc-devkit docs, Reg vector pages"
_LOAD, _STORE, _COMPUTE = MicroKind.LOAD, MicroKind.STORE, MicroKind.COMPUTE

MICRO: dict[str, MicroInstruction] = {
    op.name: op
    for op in (
        MicroInstruction("load_norm", _LOAD, 1, f"Element i into lane i. {_REG}, LoadAlign DIST_NORM.", 32),
        MicroInstruction("load_unpack_b16", _LOAD, 1, f"16-bit i into word lane i. {_REG}, DIST_UNPACK_B16.", 32),
        MicroInstruction("load_dintlv_b32", _LOAD, 2, f"Even words, odd words. {_REG}, DIST_DINTLV_B32.", 32),
        MicroInstruction("load_e2b_b32", _LOAD, 1, f"A word into each datablock. {_REG}, DIST_E2B_B32.", 32),
        MicroInstruction("load_e2b_b16", _LOAD, 1, f"A 16-bit element into each datablock. {_REG}, DIST_E2B_B16.", 16),
        MicroInstruction("store_norm", _STORE, 0, f"Lane i into element i. {_REG}, StoreAlign DIST_NORM.", 32),
        MicroInstruction("store_pack_b32", _STORE, 0, f"Low halves of word lanes. {_REG}, DIST_PACK_B32.", 32),
        MicroInstruction("store_intlv_b32", _STORE, 0, f"Two registers, taking turns. {_REG}, DIST_INTLV_B32.", 32),
        MicroInstruction("reg_dup_scalar", _COMPUTE, 1, f"A scalar into every lane. {_REG}, Duplicate."),
        MicroInstruction("reg_dup_lane0", _COMPUTE, 1, f"Lane 0 into the active lanes. {_REG}, Duplicate."),
        MicroInstruction("reg_add", _COMPUTE, 1, f"src0 + src1, one rounding to nearest even. {_REG}, Add: 0 ulp."),
        MicroInstruction("reg_sub", _COMPUTE, 1, f"src0 - src1, one rounding to nearest even. {_REG}, Sub: 0 ulp."),
        MicroInstruction("reg_mul", _COMPUTE, 1, f"src0 * src1, one rounding to nearest even. {_REG}, Mul: 0 ulp."),
        MicroInstruction("reg_dup_masked", _COMPUTE, 1, f"A scalar into active lanes. {_REG}, Duplicate."),
        MicroInstruction("reg_adds", _COMPUTE, 1, f"src + scalar, one rounding to nearest even. {_REG}, Adds: 0 ulp."),
        MicroInstruction("reg_muls", _COMPUTE, 1, f"src * scalar, one rounding to nearest even. {_REG}, Muls: 0 ulp."),
        MicroInstruction("reg_maxs", _COMPUTE, 1, f"The larger of src and scalar; NaN wins. {_REG}, Maxs."),
        MicroInstruction("reg_mins", _COMPUTE, 1, f"The smaller of src and scalar; NaN wins. {_REG}, Mins."),
        MicroInstruction("reg_div", _COMPUTE, 1, f"src0 / src1, rounded once. {_REG}, Div: at most 1 ulp."),
        MicroInstruction("reg_exp", _COMPUTE, 1, f"e to the power of src, rounded once. {_REG}, Exp: at most 1 ulp."),
        MicroInstruction("reg_sqrt", _COMPUTE, 1, f"Square root, rounded once. {_REG}, Sqrt: at most 1 ulp."),
        MicroInstruction("reg_reduce_sum", _COMPUTE, 1, f"Adjacent-pair tree over the lanes. {_REG}, ReduceSum."),
        MicroInstruction(
            "reg_reduce_sum_datablock", _COMPUTE, 1, f"Adjacent-pair tree in each datablock. {_REG}, ReduceDataBlock."
        ),
        MicroInstruction("reg_cast", _COMPUTE, 1, f"16 bits to float, or back to nearest even. {_REG}, Cast."),
        MicroInstruction("reg_cast_b16", _COMPUTE, 1, f"Between half and bfloat16_t, to nearest even. {_REG}, Cast."),
        MicroInstruction("local_mem_bar", MicroKind.BARRIER, 0, f"Loads wait for stores. {_REG}, LocalMemBar."),
    )
}
"""Every micro-operation by its name in logs."""

_HALF_OF_WORDS = ("load_unpack_b16", "store_pack_b32", "reg_cast")


def lanes_of(op: MicroInstruction, element: DType, src_dtype: DType) -> int:
    """Lanes that a micro-operation works on: those of its wider type, and word lanes where 16 bits lie in 32."""
    if op.name in _HALF_OF_WORDS:
        return WORD_LANES
    return REGISTER_BYTES // max(element.bytes, src_dtype.bytes)


def lane_elements(name: str, element: DType) -> tuple[NDArray[np.int64], ...]:
    """Return for each register of a load or store the memory element of each lane, from the operand's start."""
    words = np.arange(WORD_LANES)
    match name:
        case "load_norm" | "store_norm":
            return (np.arange(REGISTER_BYTES // element.bytes),)
        case "load_unpack_b16" | "store_pack_b32":
            return (words,)
        case "load_dintlv_b32" | "store_intlv_b32":
            return 2 * words, 2 * words + 1
        case "load_e2b_b32" | "load_e2b_b16":
            return (np.arange(REGISTER_BYTES // element.bytes) // element.per_datablock,)
    raise KeyError(name)


@lru_cache(maxsize=4096)
def set_lanes(mask: int) -> NDArray[np.int64]:
    """Numbers of the lanes whose bit is set."""
    return np.array([i for i in range(mask.bit_length()) if mask >> i & 1], np.int64)


@lru_cache(maxsize=4096)
def memory_elements(name: str, dtype_code: int, mask: int) -> NDArray[np.int64]:
    """Memory elements of the active lanes of a load or store, all its registers', sorted, each once."""
    picked = [elements[set_lanes(mask)] for elements in lane_elements(name, DTYPES[dtype_code])]
    return np.unique(np.concatenate(picked))
