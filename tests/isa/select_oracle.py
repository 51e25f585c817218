"""The plain-Python AIV of lane_oracle with reductions to extremes, comparisons, selections and gathers."""

from dataclasses import dataclass
from types import SimpleNamespace

from lane_oracle import FULL, LaneOracle, kind_of, scalar_bits
from number_oracle import SIZE, arithmetic, decode, tree_sum

VALUE_INDEX = SimpleNamespace(name="ORDER_VALUE_INDEX")
RELATIONS = {
    "LT": lambda a, b: a < b,
    "GT": lambda a, b: a > b,
    "EQ": lambda a, b: a == b,
    "LE": lambda a, b: a <= b,
    "GE": lambda a, b: a >= b,
    "NE": lambda a, b: a != b,
}


def key_of(bits, kind):
    """A number that compares as the element does; None for a NaN."""
    negative, magnitude = decode(bits, kind)
    if magnitude == "nan":
        return None
    size = (1, 0) if magnitude == "inf" else (0, magnitude)
    return (-size[0], -size[1]) if negative else size


def best_of(lanes, kind, sign):
    """(bits, lane) of the first NaN, else of the first largest (sign 1) or smallest (-1); None without lanes."""
    there = [(n, bits) for n, bits in enumerate(lanes) if bits is not None]
    for n, bits in there:
        if key_of(bits, kind) is None:
            return bits, n
    best = None
    for n, bits in there:
        key = tuple(sign * x for x in key_of(bits, kind))
        if best is None or key > best[0]:
            best = key, bits, n
    return None if best is None else best[1:]


@dataclass(frozen=True)
class Bits:
    """A scalar by its bits."""

    value: int


class SelectOracle(LaneOracle):
    """The handle a kernel gets."""

    # ---- reductions ---------------------------------------------------------------------------------------------

    def _repeats(self, src, repeat, blk, rep, api):
        """(repeat, its lanes' bits with None for absent ones), each read when it is asked for."""
        kind = kind_of(src)
        lanes = 256 // SIZE[kind]
        for r, active in self._lanes(lanes, repeat):
            row = [None] * lanes
            for lane in active:
                row[lane] = self._read(src, self._lane_at(src, lane, r, blk, rep), api, "src0")
            yield r, row

    def _block_extreme(self, api, sign, dst, src, mask, repeat, dst_rep, blk, rep):
        kind = kind_of(src)
        size, group = SIZE[kind], 32 // SIZE[kind]
        self._set_mask(mask)
        self._begin()
        for r, row in self._repeats(src, repeat, blk, rep, api):
            for i in range(8):
                found = best_of(row[i * group : (i + 1) * group], kind, sign)
                if found is not None:
                    self.ub.put(self._place(dst)[1] + (r * dst_rep * 8 + i) * size, found[0], kind)
        self._end()

    def block_reduce_max(self, dst, src, repeat, mask, dst_rep, blk, rep):
        self._block_extreme("BlockReduceMax", 1, dst, src, mask, repeat, dst_rep, blk, rep)

    def block_reduce_min(self, dst, src, repeat, mask, dst_rep, blk, rep):
        self._block_extreme("BlockReduceMin", -1, dst, src, mask, repeat, dst_rep, blk, rep)

    def _whole_extreme(self, api, sign, dst, src, mask, repeat, dst_rep, blk, rep, order):
        kind = kind_of(src)
        size, word = SIZE[kind], f"uint{8 * SIZE[kind]}_t"
        name = order.name.removeprefix("ORDER_")
        unit = 4 if name == "ONLY_INDEX" else size if name == "ONLY_VALUE" else 2 * size
        self._set_mask(mask)
        self._begin()
        for r, row in self._repeats(src, repeat, blk, rep, api):
            found = best_of(row, kind, sign)
            if found is None:
                continue
            at = self._place(dst)[1] + r * dst_rep * unit
            if name == "ONLY_INDEX":
                self.ub.put(at, found[1], "uint32_t")
            elif name == "ONLY_VALUE":
                self.ub.put(at, found[0], word)
            else:
                pair = found if name == "VALUE_INDEX" else found[::-1]
                self.ub.put(at, pair[0], word)
                self.ub.put(at + size, pair[1], word)
        self._end()

    def whole_reduce_max(self, dst, src, mask, repeat, dst_rep, blk, rep, order=VALUE_INDEX):
        self._whole_extreme("WholeReduceMax", 1, dst, src, mask, repeat, dst_rep, blk, rep, order)

    def whole_reduce_min(self, dst, src, mask, repeat, dst_rep, blk, rep, order=VALUE_INDEX):
        self._whole_extreme("WholeReduceMin", -1, dst, src, mask, repeat, dst_rep, blk, rep, order)

    def repeat_reduce_sum(self, dst, src, repeat, mask, dst_blk, blk, dst_rep, rep):
        self._reduce("RepeatReduceSum", 256 // SIZE[kind_of(src)], dst, src, mask, repeat, dst_rep, blk, rep)

    def reduce_sum(self, dst, src, work, mask, repeat=None, rep=8):
        """Count: repeat after repeat. Mask: sums of repeats in the work buffer, of those, and of what is left."""
        kind = kind_of(src)
        size, lanes = SIZE[kind], 256 // SIZE[kind]
        self._begin()
        if repeat is None:
            self._whole_counter(mask)
            total = None
            for _, row in self._repeats(src, 1, 1, 8, "ReduceSum"):
                part = tree_sum(row, kind, self.saturate)
                total = part if total is None else arithmetic("+", total, part, kind, self.saturate)
            if total is not None:
                self.ub.put(self._place(dst)[1], total, kind)
            self._restore()
            self._end()
            return
        self._set_mask(mask)
        at = self._place(work)[1]
        for r, row in self._repeats(src, repeat, 1, rep, "ReduceSum"):
            part = tree_sum(row, kind, self.saturate)
            if part is not None:
                self.ub.put(at + r * size, part, kind)
        left = repeat
        if repeat > 1:
            self._whole_counter(repeat)
            for r, row in self._repeats(work, 1, 1, 8, "ReduceSum"):
                self.ub.put(at + r * size, tree_sum(row, kind, self.saturate), kind)
            left, self.counter = -(-repeat // lanes), False
        if left > 1:
            self._set_mask(left)
            ((_, row),) = self._repeats(work, 1, 1, 8, "ReduceSum")
            self.ub.put(self._place(dst)[1], tree_sum(row, kind, self.saturate), kind)
        else:
            self._lay(self.ub, self._place(dst)[1], self._fetch(self.ub, at, size))
        self._end()

    def _tensor_extreme(self, api, sign, dst, src, work, mask, repeat, rep, cal_index):
        kind = kind_of(src)
        size = SIZE[kind]
        lanes, per_block, word = 256 // size, 32 // size, f"uint{8 * size}_t"
        self._begin()
        rounds = mask // lanes if repeat is None else repeat
        if repeat is None:
            self._whole_counter(mask)
        else:
            self._set_mask(mask)
        cells = {}
        for r, row in self._repeats(src, repeat or 1, 1, rep, api):
            for lane, bits in enumerate(row):
                if bits is not None:
                    cells.setdefault(len(cells), (bits, r * rep * per_block + lane))
        found = best_of([bits for bits, _ in cells.values()], kind, sign)
        if found is not None:
            for byte in range(self._place(work)[1], self._place(work)[1] + work_bytes(rounds, size, cal_index)):
                self.ub.put_byte(byte, 0xFF, 0, None)
            self.ub.put(self._place(dst)[1], found[0], word)
            if cal_index:
                self.ub.put(self._place(dst)[1] + size, cells[found[1]][1] & ((1 << 8 * size) - 1), word)
        if repeat is None:
            self._restore()
        self._end()

    def reduce_max(self, dst, src, work, mask, repeat=None, rep=8, cal_index=False):
        self._tensor_extreme("ReduceMax", 1, dst, src, work, mask, repeat, rep, cal_index)

    def reduce_min(self, dst, src, work, mask, repeat=None, rep=8, cal_index=False):
        self._tensor_extreme("ReduceMin", -1, dst, src, work, mask, repeat, rep, cal_index)

    # ---- comparisons and selections -----------------------------------------------------------------------------

    def _compare(self, api, dst, sides, mode, mask, repeat):
        """`sides`: for left and right (tensor, block stride, repeat stride), or bits."""
        kind = kind_of(sides[0][0])
        lanes = 256 // SIZE[kind]
        counted = repeat is None
        self._begin()
        if counted:
            repeat = mask // lanes
        else:
            self._set_mask(mask)
        bits = []
        for r in range(repeat):
            for lane in range(lanes):
                counts = not self.counter or r * lanes + lane < self.mask
                values = [
                    side if isinstance(side, int)
                    else self._compared(side[0], self._lane_at(side[0], lane, r, *side[1:]), api, f"src{i}", counts)
                    for i, side in enumerate(sides)
                ]  # fmt: skip
                keys = [key_of(v, kind) for v in values]
                bits.append(mode == "NE" if None in keys else RELATIONS[mode](*keys))
        start = self._place(dst)[1]
        for byte in range(len(bits) // 8):
            self.ub.put_byte(start + byte, sum(bits[8 * byte + i] << i for i in range(8)), 1, None)
        self._end()

    def _compared(self, tensor, at, api, role, counts):
        """An element; those behind the count of counter mode need not be written."""
        return self._read(tensor, at, api, role) if counts else self._place(tensor)[0].get(at, SIZE[kind_of(tensor)])

    def compare(self, dst, src0, src1, mode, mask, repeat=None, p=None):
        strides = [(1, 8)] * 2
        if p is not None and repeat is not None:
            strides = [(p.src0_blk_stride, p.src0_rep_stride), (p.src1_blk_stride, p.src1_rep_stride)]
        self._compare("Compare", dst, [(src0, *strides[0]), (src1, *strides[1])], mode.name, mask, repeat)

    def compares(self, dst, src, scalar, mode, mask, repeat=None, p=None):
        stride = (1, 8) if p is None or repeat is None else (p.src_blk_stride, p.src_rep_stride)
        self._compare("Compares", dst, [(src, *stride), scalar_bits(scalar, kind_of(src))], mode.name, mask, repeat)

    def _bit(self, memory, start, number):
        return memory[start + number // 8] >> number % 8 & 1

    def set_cmp_mask(self, src):
        self._begin()
        start = self._place(src)[1]
        self.register = [
            self._read(src.reinterpret_cast("uint8_t"), start + i, "SetCmpMask", "src0") for i in range(16)
        ]
        self._end()

    def select(self, dst, sel_mask, src0, src1, mode=None, *more):
        """Without a mode src1 stands for the repeats and mode for the strides; the scalar is the register's."""
        kind = kind_of(dst)
        if hasattr(mode, "value"):
            scalar = Bits(scalar_bits(src1, kind)) if mode.value == 1 else src1
            self._select(dst, sel_mask, src0, scalar, mode.value, *more)
            return
        held = Bits(sum(byte << 8 * i for i, byte in enumerate(self.register[: SIZE[kind]])))
        self._select(dst, sel_mask, src0, held, 1, None, src1, mode)

    def _note_bits(self, sel_mask, mode, needed):
        """Bits that nobody wrote; in mode 1 and counter mode those behind the count belong to no element."""
        start, role = self._place(sel_mask)[1], "src1" if mode == 1 else "src0"
        if mode == 1 and self.counter:
            width = SIZE[kind_of(sel_mask)]
            needed = min(needed, -(-self.mask // (8 * width)) * width)
        self._missing["Select", role] = needed - sum(self.ub.written[start : start + needed])

    def _select(self, dst, sel_mask, src0, src1, mode, mask, repeat=None, p=None):
        """Modes 0 and 2 hold the bits from the start, mode 1 looks at them in each repeat."""
        kind = kind_of(dst)
        lanes = 256 // SIZE[kind]
        self._begin()
        if repeat is None:
            self._whole_counter(mask)
        elif mask is not None:
            self._set_mask(mask)
        strides = [(1, 8)] * 3
        if p is not None and repeat is not None:
            strides = [
                (p.dst_blk_stride, p.dst_rep_stride),
                (p.src0_blk_stride, p.src0_rep_stride),
                (p.src1_blk_stride, p.src1_rep_stride),
            ]
        rows = self._lanes(lanes, 1 if repeat is None else repeat)
        start = self._place(sel_mask)[1]
        needed = lanes // 8 if mode == 0 else len(rows) * lanes // 8
        if mode != 1 or any(active for _, active in rows):
            self._note_bits(sel_mask, mode, needed)
        held = bytes(self.ub.data[start : start + needed])
        for r, active in rows:
            results = []
            for lane in active:
                number = lane if mode == 0 else r * lanes + lane
                picks = held if mode != 1 else self.ub.data[start : start + needed]
                first = self._read(src0, self._lane_at(src0, lane, r, *strides[1]), "Select", "src0")
                second = src1.value if mode == 1 else None
                if second is None:
                    second = self._read(src1, self._lane_at(src1, lane, r, *strides[2]), "Select", "src1")
                results.append(first if self._bit(picks, 0, number) else second)
            for lane, bits in zip(active, results, strict=True):
                self.ub.put(self._lane_at(dst, lane, r, *strides[0]), bits, kind)
        if repeat is None:
            self._restore()
        self._missing = {k: n for k, n in self._missing.items() if n}
        self._end()

    # ---- gathers ------------------------------------------------------------------------------------------------

    def gather(self, dst, src, offset, base, mask, repeat=None, rep=8):
        size = SIZE[kind_of(dst)]
        lanes = 256 // size
        parts = [(0, mask, repeat)]
        if repeat is None:
            parts = [(0, lanes, mask // lanes)] if mask >= lanes else []
            parts += [(mask // lanes * lanes, mask % lanes, 1)] if mask % lanes else []
        for first, active_mask, number in parts:
            self._set_mask(active_mask)
            self._begin()
            for r, active in self._lanes(lanes, number):
                for lane in active:
                    at = self._place(offset)[1] + 4 * (first + r * lanes + lane)
                    where = self._place(src)[1] + base + self._read(offset, at, "Gather", "src1")
                    bits = self._read(src, where, "Gather", "src0")
                    self.ub.put(self._lane_at(dst[first], lane, r, 1, rep), bits, f"uint{8 * size}_t")
            self._end()

    def gatherb(self, dst, src, offset, repeat, p):
        self.reset_mask()
        self._begin()
        size = SIZE[kind_of(dst)]
        for n in range(8 * repeat):
            from_at = self._place(src)[1] + self._read(offset, self._place(offset)[1] + 4 * n, "Gatherb", "src1")
            to_at = self._place(dst)[1] + 32 * (n // 8 * p.dst_rep_stride + n % 8 * max(1, p.dst_blk_stride))
            for i in range(0, 32, size):
                self.ub.put(to_at + i, self._read(src, from_at + i, "Gatherb", "src0"), f"uint{8 * size}_t")
        self._end()

    def gather_mask(self, dst, src, pattern, reduce_mode, mask, p):
        size = SIZE[kind_of(src)]
        each = mask if reduce_mode else 256 // size
        fixed = isinstance(pattern, int)
        self._begin()
        kept = []
        for r in range(p.repeat_times):
            bits = None if fixed else self._pattern(pattern, r * p.src1_rep_stride * 32, each)
            for n in range(each):
                value = self._read(
                    src, self._lane_at(src, n, r, p.src0_blk_stride, p.src0_rep_stride), "GatherMask", "src0"
                )
                chosen = self._fixed(pattern, n) if fixed else bits[n]
                kept += [value] * chosen
        for i, value in enumerate(kept):
            self.ub.put(self._place(dst)[1] + i * size, value, f"uint{8 * size}_t")
        self._end()
        self.counter, self.mask = False, mask
        return len(kept), "uint32_t"

    def _fixed(self, pattern, n):
        return {1: n % 2 == 0, 2: n % 2 == 1, 3: n % 4 == 0, 4: n % 4 == 1, 5: n % 4 == 2, 6: n % 4 == 3, 7: True}[
            pattern
        ]

    def _pattern(self, tensor, offset, count):
        width = SIZE[kind_of(tensor)]
        words = [
            self._read(tensor, self._place(tensor)[1] + offset + i * width, "GatherMask", "src1")
            for i in range(-(-count // (8 * width)))
        ]
        return [words[n // (8 * width)] >> n % (8 * width) & 1 for n in range(count)]

    def transpose(self, dst, src):
        cells = [
            [self._fetch(self.ub, self._place(src)[1] + 2 * (16 * i + j), 2) for j in range(16)] for i in range(16)
        ]
        for i in range(16):
            for j in range(16):
                self._lay(self.ub, self._place(dst)[1] + 2 * (16 * i + j), cells[j][i])

    def set_value(self, tensor, index, value):
        kind = kind_of(tensor)
        self.ub.put(self._place(tensor)[1] + index * SIZE[kind], scalar_bits(value, kind), kind)


def work_bytes(rounds, size, cal_index):
    """Bytes of the work buffer: pairs of all rounds on whole datablocks."""
    pairs, total = 2 * rounds, 0
    while True:
        total += -(-pairs * size // 32) * 32
        if not cal_index or pairs <= 2:
            return total
        pairs = 2 * -(-pairs * size // 256)


__all__ = ["FULL", "SelectOracle"]
