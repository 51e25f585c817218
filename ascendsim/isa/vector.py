"""Element-wise vector arithmetic."""

from ascendsim.dtypes import FLOAT, HALF, INT16, INT32
from ascendsim.isa.forms import binary, scalar_binary
from ascendsim.isa.instruction import Array

ARITHMETIC = (HALF, FLOAT, INT16, INT32)
"""Element types of the arithmetic of arch 2201."""


class VectorInstructions:
    """Add, Sub, Mul, Adds, Muls. One rounding per element, to nearest even; integers wrap."""

    @binary("Add", "vadd", ARITHMETIC)
    @staticmethod
    def add(src0: Array, src1: Array) -> Array:
        """dst[i] = src0[i] + src1[i]; half, float, int16_t, int32_t.

        Source: asc-devkit docs, Add page; rounding as IEEE 754 is inferred for arch 2201.
        """
        return src0 + src1

    @binary("Sub", "vsub", ARITHMETIC)
    @staticmethod
    def sub(src0: Array, src1: Array) -> Array:
        """dst[i] = src0[i] - src1[i]; half, float, int16_t, int32_t.

        Source: asc-devkit docs, Sub page; rounding as IEEE 754 is inferred for arch 2201.
        """
        return src0 - src1

    @binary("Mul", "vmul", ARITHMETIC)
    @staticmethod
    def mul(src0: Array, src1: Array) -> Array:
        """dst[i] = src0[i] * src1[i]; half, float, int16_t, int32_t.

        Source: asc-devkit docs, Mul page; rounding as IEEE 754 is inferred for arch 2201.
        """
        return src0 * src1

    @scalar_binary("Adds", "vadds", ARITHMETIC)
    @staticmethod
    def adds(src: Array, scalar: Array) -> Array:
        """dst[i] = src[i] + scalar, the scalar in the tensor's type.

        Source: asc-devkit docs, Adds page.
        """
        return src + scalar

    @scalar_binary("Muls", "vmuls", ARITHMETIC)
    @staticmethod
    def muls(src: Array, scalar: Array) -> Array:
        """dst[i] = src[i] * scalar, the scalar in the tensor's type.

        Source: asc-devkit docs, Muls page.
        """
        return src * scalar
