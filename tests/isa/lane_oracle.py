"""An AIV in plain Python: the same calls as AiCore, carried out at once on bytearrays, one lane after the other.

A kernel of vector and move calls runs on it as it runs on the recorder. Nothing here uses the library except its
tensors, as (address, type name), and its parameter structs.
"""

import arithmetic_oracle
from lane_oracle_arithmetic import ArithmeticLanes
from number_oracle import SIZE, arithmetic, bits_of, convert, is_nan, tree_sum

FULL = (1 << 64) - 1


def scalar_bits(scalar, kind):
    """A number, or a register's (bits, kind), in the tensor's type."""
    if isinstance(scalar, int | float):
        return bits_of(scalar, kind)
    bits, source = scalar
    return bits if source == kind else convert(bits, source, kind, "RINT")


class Memory:
    """Bytes, which of them were written, and where NaNs of any payload lie."""

    def __init__(self, content, written):
        self.data = bytearray(content)
        self.written = bytearray(written)
        self.nan = {}

    def get(self, at, size):
        return int.from_bytes(self.data[at : at + size], "little")

    def put(self, at, bits, kind):
        size = SIZE[kind]
        self.data[at : at + size] = bits.to_bytes(size, "little")
        self.written[at : at + size] = b"\1" * size
        for byte in range(at, at + size):
            self.nan.pop(byte, None)
        if is_nan(bits, kind):
            self.nan |= {at + i: (kind, i) for i in range(size)}

    def put_byte(self, at, value, written, tag):
        self.data[at] = value
        self.written[at] = written
        self.nan.pop(at, None)
        if tag is not None:
            self.nan[at] = tag


def kind_of(tensor):
    return tensor.dtype.name


class LaneOracle(ArithmeticLanes):
    """The handle a kernel gets."""

    def __init__(self, ub, gm, saturate=False):
        self.ub = ub
        self.gm = gm
        self.saturate = saturate
        self.counter = False
        self.mask = FULL | FULL << 64
        self.unwritten = {}
        """(api, role) -> unwritten bytes in the first instruction that read some."""

    # ---- masks --------------------------------------------------------------------------------------------------

    def set_mask_count(self):
        self.counter = True

    def set_mask_norm(self):
        self.counter = False

    def set_vector_mask(self, high, low):
        self.mask = high << 64 | low

    def reset_mask(self):
        self.mask = FULL << 64 | FULL

    def _set_mask(self, mask):
        if isinstance(mask, tuple):
            self.mask = mask[1] << 64 | mask[0]
        elif mask is not None:
            self.mask = mask if self.counter else (1 << mask) - 1

    def _whole_counter(self, count):
        self.counter, self.mask = True, count

    def _restore(self):
        self.counter = False
        self.reset_mask()

    def _lanes(self, lanes, repeat):
        """[(repeat number, active lanes)]."""
        if self.counter:
            count = self.mask & FULL
            return [(r, list(range(min(lanes, count - r * lanes)))) for r in range(-(-count // lanes))]
        return [(r, [lane for lane in range(lanes) if self.mask >> lane & 1]) for r in range(repeat)]

    # ---- places -------------------------------------------------------------------------------------------------

    def _place(self, tensor):
        if hasattr(tensor, "address_bytes") and not hasattr(tensor, "base_bytes"):
            return self.ub, tensor.address_bytes + tensor.offset_bytes
        return self.gm[tensor.index], tensor.offset_bytes

    def _lane_at(self, tensor, lane, repeat, blk, rep):
        per_block = 32 // SIZE[kind_of(tensor)]
        inside = lane % per_block * SIZE[kind_of(tensor)]
        return self._place(tensor)[1] + repeat * rep * 32 + lane // per_block * blk * 32 + inside

    def _read(self, tensor, at, api, role):
        memory = self._place(tensor)[0]
        size = SIZE[kind_of(tensor)]
        missing = size - sum(memory.written[at : at + size])
        if missing:
            self._missing[api, role] = self._missing.get((api, role), 0) + missing
        return memory.get(at, size)

    def _begin(self):
        self._missing = {}

    def _end(self):
        for key, count in self._missing.items():
            self.unwritten.setdefault(key, count)

    # ---- arithmetic ---------------------------------------------------------------------------------------------

    def _elementwise(self, api, fn, dst, sources, lanes, repeat, strides):
        """A repeat is read whole, then written. `strides` holds (block, repeat) for dst, then for each source."""
        self._begin()
        for r, active in self._lanes(lanes, repeat):
            results = []
            for lane in active:
                values = [
                    self._read(s, self._lane_at(s, lane, r, *strides[i + 1]), api, f"src{i}")
                    for i, s in enumerate(sources)
                ]
                results.append(fn(*values))
            for lane, bits in zip(active, results, strict=True):
                self.ub.put(self._lane_at(dst, lane, r, *strides[0]), bits, kind_of(dst))
        self._end()

    def _binary(self, api, symbol, dst, src0, src1, mask, repeat, p):
        kind = kind_of(dst)

        def fn(a, b):
            return arithmetic(symbol, a, b, kind, self.saturate)

        lanes = 256 // SIZE[kind]
        if repeat is None:
            self._whole_counter(mask)
            self._elementwise(api, fn, dst, [src0, src1], lanes, 1, [(1, 8)] * 3)
            self._restore()
            return
        self._set_mask(mask)
        strides = [(1, 8)] * 3
        if p is not None:
            strides = [
                (p.dst_blk_stride, p.dst_rep_stride),
                (p.src0_blk_stride, p.src0_rep_stride),
                (p.src1_blk_stride, p.src1_rep_stride),
            ]
        self._elementwise(api, fn, dst, [src0, src1], lanes, repeat, strides)

    def add(self, dst, src0, src1, mask, repeat=None, params=None):
        self._binary("Add", "+", dst, src0, src1, mask, repeat, params)

    def sub(self, dst, src0, src1, mask, repeat=None, params=None):
        self._binary("Sub", "-", dst, src0, src1, mask, repeat, params)

    def mul(self, dst, src0, src1, mask, repeat=None, params=None):
        self._binary("Mul", "*", dst, src0, src1, mask, repeat, params)

    def _unary(self, api, fn, dst, src, mask, repeat, p):
        wide = max(SIZE[kind_of(dst)], SIZE[kind_of(src)])
        lanes = 256 // wide
        if repeat is None:
            self._whole_counter(mask)
            strides = [(1, 8 * SIZE[kind_of(t)] // wide) for t in (dst, src)]
            self._elementwise(api, fn, dst, [src], lanes, 1, strides)
            self._restore()
            return
        self._set_mask(mask)
        strides = [(1, 8)] * 2
        if p is not None:
            strides = [(p.dst_blk_stride, p.dst_rep_stride), (p.src_blk_stride, p.src_rep_stride)]
        self._elementwise(api, fn, dst, [src], lanes, repeat, strides)

    def _scalar(self, api, symbol, dst, src, scalar, mask, repeat, p):
        kind = kind_of(dst)
        other = scalar_bits(scalar, kind)
        self._unary(api, lambda a: arithmetic(symbol, a, other, kind, self.saturate), dst, src, mask, repeat, p)

    def adds(self, dst, src, scalar, mask, repeat=None, params=None):
        self._scalar("Adds", "+", dst, src, scalar, mask, repeat, params)

    def muls(self, dst, src, scalar, mask, repeat=None, params=None):
        self._scalar("Muls", "*", dst, src, scalar, mask, repeat, params)

    def cast(self, dst, src, mode, mask, repeat=None, params=None):
        def fn(a):
            if (kind_of(src), kind_of(dst)) == ("int32_t", "half"):
                return arithmetic_oracle.dequantise(a, self.deq_scale, self.saturate)
            return convert(a, kind_of(src), kind_of(dst), mode.name.removeprefix("CAST_"), self.saturate)

        self._unary("Cast", fn, dst, src, mask, repeat, params)

    # ---- reductions ---------------------------------------------------------------------------------------------

    def _reduce(self, api, group, dst, src, mask, repeat, dst_rep, blk, rep):
        """Groups of `group` lanes become one element each; a group without an active lane is not written."""
        kind = kind_of(src)
        size = SIZE[kind]
        lanes = 256 // size
        self._set_mask(mask)
        self._begin()
        for r, active in self._lanes(lanes, repeat):
            row = [None] * lanes
            for lane in active:
                row[lane] = self._read(src, self._lane_at(src, lane, r, blk, rep), api, "src0")
            sums = [tree_sum(row[g : g + group], kind, self.saturate) for g in range(0, lanes, group)]
            start = self._place(dst)[1] + r * dst_rep * len(sums) * size
            for i, bits in enumerate(sums):
                if bits is not None:
                    self.ub.put(start + i * size, bits, kind)
        self._end()

    def block_reduce_sum(self, dst, src, repeat, mask, dst_rep, blk, rep):
        self._reduce("BlockReduceSum", 32 // SIZE[kind_of(src)], dst, src, mask, repeat, dst_rep, blk, rep)

    def pair_reduce_sum(self, dst, src, repeat, mask, dst_rep, blk, rep):
        self._reduce("PairReduceSum", 2, dst, src, mask, repeat, dst_rep, blk, rep)

    def whole_reduce_sum(self, dst, src, mask, repeat, dst_rep, blk, rep):
        self._reduce("WholeReduceSum", 256 // SIZE[kind_of(src)], dst, src, mask, repeat, dst_rep, blk, rep)

    # ---- moves --------------------------------------------------------------------------------------------------

    def _fetch(self, memory, at, count):
        return [(memory.data[b], memory.written[b], memory.nan.get(b)) for b in range(at, at + count)]

    def _lay(self, memory, at, cells):
        for i, cell in enumerate(cells):
            memory.put_byte(at + i, *cell)

    def copy(self, dst, src, mask, repeat, p):
        """In counter mode the mask counts the elements of each repeat, and repeat counts."""
        size = SIZE[kind_of(dst)]
        self._set_mask(mask)
        if self.counter:
            rows = [(r, list(range(self.mask & FULL))) for r in range(repeat)]
        else:
            rows = self._lanes(256 // size, repeat)
        for r, active in rows:
            cells = [
                self._fetch(self.ub, self._lane_at(src, n, r, p.src_blk_stride, p.src_rep_stride), size) for n in active
            ]
            for lane, cell in zip(active, cells, strict=True):
                self._lay(self.ub, self._lane_at(dst, lane, r, p.dst_blk_stride, p.dst_rep_stride), cell)

    def duplicate(self, dst, scalar, mask, repeat=None, blk=1, rep=8):
        kind = kind_of(dst)
        bits = scalar_bits(scalar, kind)
        if repeat is None:
            self._whole_counter(mask)
            self._elementwise("Duplicate", lambda: bits, dst, [], 256 // SIZE[kind], 1, [(1, 8)])
            self._restore()
            return
        self._set_mask(mask)
        self._elementwise("Duplicate", lambda: bits, dst, [], 256 // SIZE[kind], repeat, [(blk, rep)])

    def brcb(self, dst, src, repeat, params=None):
        """Element j of repeat r fills datablock j of repeat r."""
        size = SIZE[kind_of(dst)]
        blk, rep = (1, 8) if params is None else (params.dst_blk_stride, params.dst_rep_stride)
        self.reset_mask()
        for r in range(repeat):
            cells = [self._fetch(self.ub, self._place(src)[1] + (8 * r + j) * size, size) for j in range(8)]
            for j, cell in enumerate(cells):
                self._lay(self.ub, self._place(dst)[1] + (r * rep + j * blk) * 32, cell * (32 // size))

    def get_value(self, tensor, index=0):
        self._begin()
        size = SIZE[kind_of(tensor)]
        bits = self._read(tensor, self._place(tensor)[1] + index * size, "GetValue", "src0")
        self._end()
        return (bits, kind_of(tensor))

    def _burst_copy(self, api, dst, src, count, length, dst_pitch, src_pitch):
        (target, d), (source, s) = self._place(dst), self._place(src)
        cells = [self._fetch(source, s + i * src_pitch, length) for i in range(count)]
        if target is not self.ub:
            missing = sum(not written for row in cells for _, written, _ in row)
            if missing:
                self.unwritten.setdefault((api, "src0"), missing)
        for i, row in enumerate(cells):
            self._lay(target, d + i * dst_pitch, row)

    def data_copy(self, dst, src, what):
        if isinstance(what, int):
            count, length, src_gap, dst_gap = 1, what * SIZE[kind_of(dst)] // 32 * 32, 0, 0
        else:
            count, length, src_gap, dst_gap = (
                what.block_count, what.block_len * 32, what.src_gap * 32, what.dst_gap * 32,
            )  # fmt: skip
        self._burst_copy("DataCopy", dst, src, count, length, length + dst_gap, length + src_gap)

    def data_copy_pad(self, dst, src, p, pad=None):
        to_ub = self._place(dst)[0] is self.ub
        if not to_ub:
            ub_pitch = -(-p.block_len // 32) * 32 + p.src_stride * 32
            gm_pitch = p.block_len + p.dst_stride
            self._burst_copy("DataCopyPad", dst, src, p.block_count, p.block_len, gm_pitch, ub_pitch)
            return
        kind = kind_of(dst)
        size = SIZE[kind]
        left, right = (0, 0) if pad is None else (pad.left_padding * size, pad.right_padding * size)
        row_bytes = -(-(left + p.block_len + right) // 32) * 32
        source, s = self._place(src)
        d = self._place(dst)[1]
        for i in range(p.block_count):
            payload = self._fetch(source, s + i * (p.block_len + p.src_stride), p.block_len)
            if left == right == 0:
                asked = pad is not None and pad.is_pad
                fill = [(b, flag if asked else 0, *rest) for b, flag, *rest in payload[:size]]
            elif pad.is_pad:
                fill = [(b, 1, None) for b in bits_of(pad.padding_value, kind).to_bytes(size, "little")]
            else:
                fill = [(0xFF, 0, None)] * size
            cells = (fill * 32)[:left] + payload
            cells += [fill[n % size] for n in range(len(cells), row_bytes)]
            self._lay(self.ub, d + i * (row_bytes + p.dst_stride * 32), cells)

    # ---- order: everything above happens at once -----------------------------------------------------------------

    def set_flag(self, event, event_id):
        pass

    def wait_flag(self, event, event_id):
        pass

    def pipe_barrier(self, pipe):
        pass
