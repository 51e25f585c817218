"""Element-wise vector instructions that compute two things at once.

Each step is rounded in the type of the result, and saturates if that mode is on: the product of a multiply-add first,
then the sum. Whether the hardware of arch 2201 rounds the product is not documented; the boundary-value tables of the
vendor show a product that overflows before the addition (half: 65504 * 65504 - infinity is NaN), so it does here. A
unit that rounds once differs by at most one rounding of the product.
"""

from ascendsim.dtypes import FLOAT, HALF, INT8, INT16, UINT8
from ascendsim.isa.elementwise import Kinds, accumulate, accumulate_scalar, binary_cast
from ascendsim.isa.forms import Arithmetic, binary
from ascendsim.isa.instruction import Array
from ascendsim.isa.rounding import larger

SAME: Kinds = ((HALF, HALF), (FLOAT, FLOAT))
WIDENING: Kinds = (*SAME, (FLOAT, HALF))
RELU = (HALF, FLOAT, INT16)


class CompoundInstructions:
    """Axpy, MulAddDst, FusedMulAdd, AddRelu, SubRelu, MulCast."""

    @accumulate_scalar("Axpy", "vaxpy", WIDENING)
    @staticmethod
    def axpy(multiply: Arithmetic, dst: Array, src: Array, scalar: Array) -> Array:
        """dst[i] += src[i] * scalar, the scalar in src's type; half, float, half into float.

        Two roundings, in dst's type: the product, then the sum; the product of halves is exact in float. Whether the
        hardware rounds the product is not documented; its results may differ in the last bit.
        Source: asc-devkit docs, Axpy page and boundary-value table 20.
        """
        return dst + multiply(src, scalar)

    @accumulate("MulAddDst", "vmla", WIDENING)
    @staticmethod
    def mul_add_dst(multiply: Arithmetic, dst: Array, src0: Array, src1: Array) -> Array:
        """dst[i] += src0[i] * src1[i]; half, float, half into float.

        Two roundings, in dst's type: the product, then the sum; the product of halves is exact in float. Whether the
        hardware rounds the product is not documented; its results may differ in the last bit.
        Source: asc-devkit docs, MulAddDst page and boundary-value table 21.
        """
        return dst + multiply(src0, src1)

    @accumulate("FusedMulAdd", "vmadd", SAME)
    @staticmethod
    def fused_mul_add(multiply: Arithmetic, dst: Array, src0: Array, src1: Array) -> Array:
        """dst[i] = src0[i] * dst[i] + src1[i]; half, float.

        Two roundings: the product, then the sum. Whether the hardware rounds the product is not documented; its
        results may differ in the last bit.
        Source: asc-devkit docs, FusedMulAdd page and boundary-value table 22.
        """
        return multiply(src0, dst) + src1

    @binary("AddRelu", "vaddrelu", RELU)
    @staticmethod
    def add_relu(src0: Array, src1: Array) -> Array:
        """dst[i] = the larger of src0[i] + src1[i] and 0; half, float, int16_t.

        The sum is rounded, wraps or saturates as that of Add; NaN stays NaN.
        Source: asc-devkit docs, AddRelu page and boundary-value table 24.
        """
        total = src0 + src1
        return larger(total, total.dtype.type(0))

    @binary("SubRelu", "vsubrelu", RELU)
    @staticmethod
    def sub_relu(src0: Array, src1: Array) -> Array:
        """dst[i] = the larger of src0[i] - src1[i] and 0; half, float, int16_t.

        The difference is rounded, wraps or saturates as that of Sub; NaN stays NaN.
        Source: asc-devkit docs, SubRelu page and boundary-value table 25.
        """
        difference = src0 - src1
        return larger(difference, difference.dtype.type(0))

    @binary_cast("MulCast", "vmulconv", ((INT8, HALF), (UINT8, HALF)))
    @staticmethod
    def mul_cast(src0: Array, src1: Array) -> Array:
        """dst[i] = src0[i] * src1[i], converted as Cast does with CAST_NONE; half to int8_t, uint8_t.

        The product is rounded to half first, as boundary-value table 28 shows it; ties then go to the even integer, and
        results clamp. One repeat has 128 lanes and writes 128 B: dst's usual repeat stride is 4, the sources' 8.
        Source: asc-devkit docs, MulCast page, table 3.
        """
        return src0 * src1
