"""Element-wise vector arithmetic."""

from decimal import Decimal

import numpy as np

from ascendsim.dtypes import FLOAT, HALF, INT16, INT32
from ascendsim.isa import rules
from ascendsim.isa.elementwise import unary
from ascendsim.isa.forms import binary, scalar_binary, times_nothing
from ascendsim.isa.instruction import Array
from ascendsim.isa.rounding import larger, rounded_once, smaller

ARITHMETIC = (HALF, FLOAT, INT16, INT32)
"""Element types of the arithmetic of arch 2201."""

FLOATS = (HALF, FLOAT)


class VectorInstructions:
    """Add, Sub, Mul, Div, Max, Min, those with a scalar, and functions of one source.

    One rounding per element, to nearest even; integers wrap, or clamp in saturation mode.
    """

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

    @binary("Div", "vdiv", FLOATS)
    @staticmethod
    def div(src0: Array, src1: Array) -> Array:
        """dst[i] = src0[i] / src1[i]; half, float.

        Our model is the correctly rounded quotient. Arch 2201 documents no error bound; the hardware may miss the last
        bit, so this errs to the optimistic side.
        Source: asc-devkit docs, Div page and boundary-value table 12.
        """
        return src0 / src1

    @binary("Max", "vmax", ARITHMETIC)
    @staticmethod
    def max(src0: Array, src1: Array) -> Array:
        """dst[i] = the larger of src0[i] and src1[i]; half, float, int16_t, int32_t. NaN wins; +0 is larger than -0.

        Source: asc-devkit docs, Max page and boundary-value table 13.
        """
        return larger(src0, src1)

    @binary("Min", "vmin", ARITHMETIC)
    @staticmethod
    def min(src0: Array, src1: Array) -> Array:
        """dst[i] = the smaller of src0[i] and src1[i]; half, float, int16_t, int32_t. NaN wins; -0 is smaller than +0.

        Source: asc-devkit docs, Min page and boundary-value table 14.
        """
        return smaller(src0, src1)

    @scalar_binary("Adds", "vadds", ARITHMETIC)
    @staticmethod
    def adds(src: Array, scalar: Array) -> Array:
        """dst[i] = src[i] + scalar, the scalar in the tensor's type.

        Source: asc-devkit docs, Adds page.
        """
        return src + scalar

    @scalar_binary("Muls", "vmuls", ARITHMETIC, is_blind=times_nothing)
    @staticmethod
    def muls(src: Array, scalar: Array) -> Array:
        """dst[i] = src[i] * scalar, the scalar in the tensor's type.

        Integers times 0 need not have been written: so the library zeroes a buffer.

        Source: asc-devkit docs, Muls page.
        """
        return src * scalar

    @scalar_binary("Maxs", "vmaxs", ARITHMETIC)
    @staticmethod
    def maxs(src: Array, scalar: Array) -> Array:
        """dst[i] = the larger of src[i] and scalar, the scalar in the tensor's type. NaN wins; +0 is larger than -0.

        Source: asc-devkit docs, Maxs page and boundary-value table 17.
        """
        return larger(src, scalar)

    @scalar_binary("Mins", "vmins", ARITHMETIC)
    @staticmethod
    def mins(src: Array, scalar: Array) -> Array:
        """dst[i] = the smaller of src[i] and scalar, the scalar in the tensor's type. NaN wins; -0 is smaller than +0.

        Source: asc-devkit docs, Mins page and boundary-value table 18.
        """
        return smaller(src, scalar)

    @scalar_binary("LeakyRelu", "vlrelu", FLOATS)
    @staticmethod
    def leaky_relu(src: Array, scalar: Array) -> Array:
        """dst[i] = src[i], times scalar where src[i] has the sign bit, -0 among them; half, float.

        Source: asc-devkit docs, LeakyRelu page and boundary-value table 19.
        """
        return np.where(np.signbit(src), src * scalar, src)

    @unary("Exp", "vexp", FLOATS)
    @staticmethod
    def exp(src: Array) -> Array:
        """dst[i] = e to the power of src[i]; half, float.

        Our model is the correctly rounded result: computed in double and rounded once, with more digits where the
        double's own error could decide. Arch 2201 documents no error bound; the hardware may miss the last bits, so
        this errs to the optimistic side.
        Source: asc-devkit docs, Exp page and boundary-value table 2.
        """
        return rounded_once(src, np.exp, Decimal.exp)

    @unary("Ln", "vln", FLOATS)
    @staticmethod
    def ln(src: Array) -> Array:
        """dst[i] = natural logarithm of src[i]; half, float.

        Our model is the correctly rounded result: computed in double and rounded once, with more digits where the
        double's own error could decide. Arch 2201 documents no error bound; the hardware may miss the last bits, so
        this errs to the optimistic side.
        Source: asc-devkit docs, Ln page and boundary-value table 3.
        """
        return rounded_once(src, np.log, Decimal.ln)

    @unary("Sqrt", "vsqrt", FLOATS)
    @staticmethod
    def sqrt(src: Array) -> Array:
        """dst[i] = square root of src[i]; half, float.

        Our model is the correctly rounded root, as IEEE 754 has it. Arch 2201 documents no error bound; the hardware
        may miss the last bit (the vendor's table has 256 for half 65504, where 255.875 is nearest), so this errs to the
        optimistic side.
        Source: asc-devkit docs, Sqrt page and boundary-value table 6.
        """
        return np.sqrt(src)

    @unary("Rsqrt", "vrsqrt", FLOATS, rules.approximates)
    @staticmethod
    def rsqrt(src: Array) -> Array:
        """dst[i] = 1 / square root of src[i]; half, float.

        An approximation on the hardware, documented to miss 1e-3 (half) and 1e-4 (float): where the result matters use
        Sqrt and Div. Our model is the correctly rounded value (double, rounded once, with more digits where the
        double's own error could decide); it errs to the optimistic side.
        Source: asc-devkit docs, Rsqrt page and boundary-value table 7.
        """
        return rounded_once(src, lambda wide: 1.0 / np.sqrt(wide), lambda x: 1 / x.sqrt())

    @unary("Reciprocal", "vrec", FLOATS, rules.approximates)
    @staticmethod
    def reciprocal(src: Array) -> Array:
        """dst[i] = 1 / src[i]; half, float.

        An approximation on the hardware, documented to miss 1e-3 (half) and 1e-4 (float): where the result matters use
        Div. Our model is the correctly rounded value; it errs to the optimistic side.
        Source: asc-devkit docs, Reciprocal page and boundary-value table 5.
        """
        quotient: Array = 1 / src
        return quotient

    @unary("Abs", "vabs", FLOATS)
    @staticmethod
    def abs(src: Array) -> Array:
        """dst[i] = src[i] without its sign; half, float.

        Source: asc-devkit docs, Abs page and boundary-value table 4.
        """
        return np.abs(src)

    @unary("Relu", "vrelu", (HALF, FLOAT, INT32))
    @staticmethod
    def relu(src: Array) -> Array:
        """dst[i] = the larger of src[i] and 0; half, float, int32_t. NaN stays NaN, -0 becomes +0.

        Source: asc-devkit docs, Relu page and boundary-value table 8.
        """
        return larger(src, src.dtype.type(0))
