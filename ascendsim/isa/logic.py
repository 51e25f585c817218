"""Bitwise vector instructions and shifts. No overflow mode changes their results."""

import numpy as np

from ascendsim.dtypes import INT16, INT32, UINT16, UINT32
from ascendsim.isa.elementwise import rounding_shift, shift, unary_bits
from ascendsim.isa.forms import binary
from ascendsim.isa.instruction import Array

BITS = (INT16, UINT16)
"""Element types of And, Or and Not; other types are seen as one of these by reinterpret_cast."""

SHIFTED = (INT16, UINT16, INT32, UINT32)


class LogicInstructions:
    """And, Or, Not, ShiftLeft, ShiftRight. The first three end with an underscore here, as Python has the words."""

    @binary("And", "vand", BITS)
    @staticmethod
    def and_(src0: Array, src1: Array) -> Array:
        """dst[i] = src0[i] & src1[i]; int16_t, uint16_t.

        Source: asc-devkit docs, And page.
        """
        return src0 & src1

    @binary("Or", "vor", BITS)
    @staticmethod
    def or_(src0: Array, src1: Array) -> Array:
        """dst[i] = src0[i] | src1[i]; int16_t, uint16_t.

        Source: asc-devkit docs, Or page.
        """
        return src0 | src1

    @unary_bits("Not", "vnot", BITS)
    @staticmethod
    def not_(src: Array) -> Array:
        """dst[i] = ~src[i]; int16_t, uint16_t.

        Source: asc-devkit docs, Not page.
        """
        return ~src

    @shift("ShiftLeft", "vshl", SHIFTED)
    @staticmethod
    def shift_left(src: Array, bits: Array) -> Array:
        """dst[i] = src[i] shifted left by 0..16 bits (0..32 for 32-bit types); a signed type keeps its sign bit.

        What passes the top is dropped in both overflow modes; of a signed type the bit below the sign is the top. A
        number of bits out of range counts as the nearest one that is in range; of a Register it is not checked.
        Source: asc-devkit docs, ShiftLeft page.
        """
        width = 8 * src.dtype.itemsize
        word = np.dtype(f"u{src.dtype.itemsize}")
        sign = 1 << (width - 1) if src.dtype.kind == "i" else 0
        raw = src.view(word).astype(np.uint64)
        moved = raw << np.uint64(_in_range(bits, width)) & np.uint64((1 << width) - 1 - sign)
        return (moved | raw & np.uint64(sign)).astype(word).view(src.dtype)

    @rounding_shift("ShiftRight", "vshr", SHIFTED)
    @staticmethod
    def shift_right(src: Array, round_en: bool, bits: Array) -> Array:
        """dst[i] = src[i] shifted right by 0..16 bits (0..32 for 32-bit types); the sign is kept, or zeros move in.

        With round_en int16_t and int32_t add 1 if the last bit dropped is 1. A number of bits out of range counts as
        the nearest one that is in range; of a Register it is not checked.
        Source: asc-devkit docs, ShiftRight page.
        """
        count = _in_range(bits, 8 * src.dtype.itemsize)
        wide = src.astype(np.int64)
        moved = wide >> count
        if round_en and count > 0 and src.dtype.kind == "i":
            moved += wide >> (count - 1) & 1
        return moved.astype(src.dtype)


def _in_range(bits: Array, width: int) -> int:
    return min(max(int(bits), 0), width)
