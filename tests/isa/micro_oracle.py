"""Register micro-operations lane by lane on plain Python lists: an independent reading of what each one does.

A register is a list of (value, known); memory is a bytearray with one flag for each byte. Nothing is batched.
"""

import numpy as np

BYTES = {"half": 2, "float": 4}
NUMPY = {"half": np.float16, "float": np.float32}


def lanes(kind):
    return 256 // BYTES[kind]


class MicroOracle:
    """The same calls as VectorFunction, executed at once."""

    def __init__(self, content, written):
        self.content = bytearray(content)
        self.written = list(written)

    # ---- memory

    def _get(self, tensor, index):
        width = tensor.dtype.bytes
        at = tensor.start_bytes + index * width
        value = np.frombuffer(bytes(self.content[at : at + width]), NUMPY[tensor.dtype.name])[0]
        return value, all(self.written[at : at + width])

    def _put(self, tensor, index, lane):
        width = tensor.dtype.bytes
        at = tensor.start_bytes + index * width
        self.content[at : at + width] = np.asarray(lane[0], NUMPY[tensor.dtype.name]).tobytes()
        self.written[at : at + width] = [lane[1]] * width

    def load(self, tensor, name):
        kind = tensor.dtype.name
        if name == "load_norm":
            return [(kind, [self._get(tensor, i) for i in range(lanes(kind))])]
        if name == "load_unpack_b16":
            return [(kind, [self._get(tensor, i) for i in range(64)])]
        if name == "load_dintlv_b32":
            both = [self._get(tensor, i) for i in range(128)]
            return [(kind, both[0::2]), (kind, both[1::2])]
        spread = [self._get(tensor, i) for i in range(8)]
        return [(kind, [spread[i // (lanes(kind) // 8)] for i in range(lanes(kind))])]

    def store(self, tensor, name, registers, count):
        """`count` active lanes, from lane 0."""
        for part, (_, values) in enumerate(registers):
            for i in range(min(count, lanes("float") if name != "store_norm" else lanes(tensor.dtype.name))):
                self._put(tensor, 2 * i + part if name == "store_intlv_b32" else i, values[i])

    # ---- registers

    @staticmethod
    def duplicate(value, kind):
        return kind, [(NUMPY[kind](value), True)] * lanes(kind)

    @staticmethod
    def binary(op, a, b, count):
        fn = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[op]
        kind = a[0]
        zero = (NUMPY[kind](0), True)
        pairs = zip(a[1], b[1], strict=True)
        return kind, [
            (fn(x, y, dtype=NUMPY[kind]), kx and ky) if i < count else zero
            for i, ((x, kx), (y, ky)) in enumerate(pairs)
        ]

    @staticmethod
    def scalar(op, a, scalar, count):
        """Maxs and mins of what is neither NaN nor zero, which the examples look at."""
        kind = a[0]
        one = NUMPY[kind](scalar)
        fn = {
            "adds": lambda x: x + one,
            "muls": lambda x: x * one,
            "maxs": lambda x: x if x > one or np.isnan(x) else one,
            "mins": lambda x: x if x < one or np.isnan(x) else one,
        }[op]
        zero = (NUMPY[kind](0), True)
        return kind, [(NUMPY[kind](fn(x)), k) if i < count else zero for i, (x, k) in enumerate(a[1])]

    @staticmethod
    def div(a, b, count):
        kind = a[0]
        tiny = np.finfo(NUMPY[kind]).tiny

        def flushed(x):
            return NUMPY[kind](np.copysign(0, x)) if abs(x) < tiny else x

        zero = (NUMPY[kind](0), True)
        return kind, [
            (flushed(np.divide(flushed(x), flushed(y), dtype=NUMPY[kind])), kx and ky) if i < count else zero
            for i, ((x, kx), (y, ky)) in enumerate(zip(a[1], b[1], strict=True))
        ]

    @staticmethod
    def duplicate_lane0(a, count):
        zero = (NUMPY[a[0]](0), True)
        return a[0], [a[1][0] if i < count else zero for i in range(len(a[1]))]

    @staticmethod
    def reduce_sum(a, count):
        return a[0], [_tree(a[1][:count])] + [(NUMPY[a[0]](0), True)] * (len(a[1]) - 1)

    @staticmethod
    def reduce_sum_data_block(a, count):
        per = 32 // BYTES[a[0]]
        zero = (NUMPY[a[0]](0), True)
        sums = [_tree(a[1][b * per : min(count, (b + 1) * per)]) if b * per < count else zero for b in range(8)]
        return a[0], sums + [zero] * (len(a[1]) - 8)

    @staticmethod
    def cast(a, kind, count):
        zero = (NUMPY[kind](0), True)
        done = [(NUMPY[kind](v), k) if i < count else zero for i, (v, k) in enumerate(a[1][:64])]
        return kind, done + [zero] * (lanes(kind) - 64)


def _tree(values):
    """Neighbours first; a lone one passes through."""
    while len(values) > 1:
        out = [
            (values[i][0] + values[i + 1][0], values[i][1] and values[i + 1][1]) for i in range(0, len(values) - 1, 2)
        ]
        values = out + (values[-1:] if len(values) % 2 else [])
    return values[0]
