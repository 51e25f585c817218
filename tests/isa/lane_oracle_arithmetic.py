"""The further element-wise instructions of the lane oracle; values come from arithmetic_oracle."""

import arithmetic_oracle as values
from number_oracle import SIZE, bits_of, convert


def _kind(tensor):
    return tensor.dtype.name


def _scalar(scalar, kind):
    if isinstance(scalar, int | float):
        return bits_of(scalar, kind)
    bits, source = scalar
    return bits if source == kind else convert(bits, source, kind, "TRUNC" if "int" in kind else "RINT")


class ArithmeticLanes:
    """Mixed into LaneOracle, whose masks, places and reads it uses."""

    deq_scale = None

    def set_deq_scale(self, scale):
        self.deq_scale = bits_of(scale, "half")

    def _each_lane(self, api, fn, dst, operands, mask, repeat, strides):
        """dst = fn(operands) lane by lane; `operands` are (role, tensor), `strides` (block, repeat) of each tensor."""
        tensors = [dst, *(t for role, t in operands if role != "dst")]
        wide = max(SIZE[_kind(t)] for t in tensors)
        if repeat is None:
            strides = [(1, 8 * SIZE[_kind(t)] // wide) for t in tensors]
            self._whole_counter(mask)
        else:
            strides = strides or [(1, 8)] * len(tensors)
            self._set_mask(mask)
        by_role = {"dst": strides[0], "src0": strides[1], "src1": strides[-1]}
        self._begin()
        for r, active in self._lanes(256 // wide, repeat):
            results = []
            for lane in active:
                at = [(role, t, self._lane_at(t, lane, r, *by_role[role])) for role, t in operands]
                results.append(fn(*(self._read(t, where, api, role) for role, t, where in at)))
            for lane, bits in zip(active, results, strict=True):
                self.ub.put(self._lane_at(dst, lane, r, *strides[0]), bits, _kind(dst))
        self._end()
        if repeat is None:
            self._restore()

    def _two(self, api, fn, dst, src0, src1, mask, repeat, p, reads_dst=False):
        strides = p and [
            (p.dst_blk_stride, p.dst_rep_stride),
            (p.src0_blk_stride, p.src0_rep_stride),
            (p.src1_blk_stride, p.src1_rep_stride),
        ]
        operands = [*([("dst", dst)] if reads_dst else []), ("src0", src0), ("src1", src1)]
        self._each_lane(api, fn, dst, operands, mask, repeat, strides)

    def _one(self, api, fn, dst, src, mask, repeat, p, reads_dst=False):
        strides = p and [(p.dst_blk_stride, p.dst_rep_stride), (p.src_blk_stride, p.src_rep_stride)]
        operands = [*([("dst", dst)] if reads_dst else []), ("src0", src)]
        self._each_lane(api, fn, dst, operands, mask, repeat, strides)

    # ---- two sources --------------------------------------------------------------------------------------------

    def div(self, dst, src0, src1, mask, repeat=None, params=None):
        kind = _kind(dst)
        self._two("Div", lambda a, b: values.quotient(a, b, kind, self.saturate), dst, src0, src1, mask, repeat, params)

    def _extremum(self, api, name, dst, src0, src1, mask, repeat, params):
        kind = _kind(dst)

        def fn(a, b):
            return values.extremum(name, a, b, kind, self.saturate)

        self._two(api, fn, dst, src0, src1, mask, repeat, params)

    def max(self, dst, src0, src1, mask, repeat=None, params=None):
        self._extremum("Max", "max", dst, src0, src1, mask, repeat, params)

    def min(self, dst, src0, src1, mask, repeat=None, params=None):
        self._extremum("Min", "min", dst, src0, src1, mask, repeat, params)

    def _bitwise(self, api, name, dst, src0, src1, mask, repeat, params):
        kind = _kind(dst)
        self._two(api, lambda a, b: values.bitwise(name, a, b, kind), dst, src0, src1, mask, repeat, params)

    def and_(self, dst, src0, src1, mask, repeat=None, params=None):
        self._bitwise("And", "and", dst, src0, src1, mask, repeat, params)

    def or_(self, dst, src0, src1, mask, repeat=None, params=None):
        self._bitwise("Or", "or", dst, src0, src1, mask, repeat, params)

    def _relu_of(self, api, symbol, dst, src0, src1, mask, repeat, params):
        kind = _kind(dst)

        def fn(a, b):
            return values.sum_or_zero(symbol, a, b, kind, self.saturate)

        self._two(api, fn, dst, src0, src1, mask, repeat, params)

    def add_relu(self, dst, src0, src1, mask, repeat=None, params=None):
        self._relu_of("AddRelu", "+", dst, src0, src1, mask, repeat, params)

    def sub_relu(self, dst, src0, src1, mask, repeat=None, params=None):
        self._relu_of("SubRelu", "-", dst, src0, src1, mask, repeat, params)

    def mul_cast(self, dst, src0, src1, mask, repeat=None, params=None):
        kind = _kind(dst)

        def fn(a, b):
            return values.multiply_cast(a, b, kind, self.saturate)

        self._two("MulCast", fn, dst, src0, src1, mask, repeat, params)

    def mul_add_dst(self, dst, src0, src1, mask, repeat=None, params=None):
        kind, source = _kind(dst), _kind(src0)

        def fn(d, a, b):
            return values.multiply_add(a, b, d, source, kind, self.saturate)

        self._two("MulAddDst", fn, dst, src0, src1, mask, repeat, params, reads_dst=True)

    def fused_mul_add(self, dst, src0, src1, mask, repeat=None, params=None):
        kind = _kind(dst)

        def fn(d, a, b):
            return values.multiply_add(a, d, b, kind, kind, self.saturate)

        self._two("FusedMulAdd", fn, dst, src0, src1, mask, repeat, params, reads_dst=True)

    # ---- a source and a scalar ----------------------------------------------------------------------------------

    def axpy(self, dst, src, scalar, mask, repeat=None, params=None):
        kind, source = _kind(dst), _kind(src)
        other = _scalar(scalar, source)

        def fn(d, a):
            return values.multiply_add(a, other, d, source, kind, self.saturate)

        self._one("Axpy", fn, dst, src, mask, repeat, params, reads_dst=True)

    def _with_scalar(self, api, fn, dst, src, scalar, mask, repeat, params):
        kind = _kind(dst)
        other = _scalar(scalar, kind)
        self._one(api, lambda a: fn(a, other, kind), dst, src, mask, repeat, params)

    def maxs(self, dst, src, scalar, mask, repeat=None, params=None):
        def fn(a, b, kind):
            return values.extremum("max", a, b, kind, self.saturate)

        self._with_scalar("Maxs", fn, dst, src, scalar, mask, repeat, params)

    def mins(self, dst, src, scalar, mask, repeat=None, params=None):
        def fn(a, b, kind):
            return values.extremum("min", a, b, kind, self.saturate)

        self._with_scalar("Mins", fn, dst, src, scalar, mask, repeat, params)

    def leaky_relu(self, dst, src, scalar, mask, repeat=None, params=None):
        def fn(a, b, kind):
            return values.leaky(a, b, kind, self.saturate)

        self._with_scalar("LeakyRelu", fn, dst, src, scalar, mask, repeat, params)

    def shift_left(self, dst, src, scalar, mask, repeat=None, params=None):
        self._with_scalar("ShiftLeft", values.shift_left, dst, src, scalar, mask, repeat, params)

    def shift_right(self, dst, src, scalar, mask, repeat=None, params=None, round_en=False):
        def fn(a, b, kind):
            return values.shift_right(a, b, kind, round_en)

        self._with_scalar("ShiftRight", fn, dst, src, scalar, mask, repeat, params)

    # ---- one source ---------------------------------------------------------------------------------------------

    def _function(self, api, dst, src, mask, repeat, params):
        kind, name = _kind(dst), api.lower()
        self._one(api, lambda a: values.function(name, a, kind, self.saturate), dst, src, mask, repeat, params)

    def exp(self, dst, src, mask, repeat=None, params=None):
        self._function("Exp", dst, src, mask, repeat, params)

    def ln(self, dst, src, mask, repeat=None, params=None):
        self._function("Ln", dst, src, mask, repeat, params)

    def sqrt(self, dst, src, mask, repeat=None, params=None):
        self._function("Sqrt", dst, src, mask, repeat, params)

    def rsqrt(self, dst, src, mask, repeat=None, params=None):
        self._function("Rsqrt", dst, src, mask, repeat, params)

    def reciprocal(self, dst, src, mask, repeat=None, params=None):
        self._function("Reciprocal", dst, src, mask, repeat, params)

    def abs(self, dst, src, mask, repeat=None, params=None):
        self._function("Abs", dst, src, mask, repeat, params)

    def relu(self, dst, src, mask, repeat=None, params=None):
        kind = _kind(dst)
        self._one("Relu", lambda a: values.zero_or_more(a, kind, self.saturate), dst, src, mask, repeat, params)

    def not_(self, dst, src, mask, repeat=None, params=None):
        kind = _kind(dst)
        self._one("Not", lambda a: values.bitwise("not", a, 0, kind), dst, src, mask, repeat, params)
