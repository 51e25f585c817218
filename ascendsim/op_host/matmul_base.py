"""The base block that the matmul tiling library chooses for one core of arch 2201, with ND operands and no bias.

Lengths are counted in fractals here: 16 rows or columns, and 32 bytes along K. The library tries a few factors of M, N
and K, with two buffers of L0A and L0B and one of L0C, and keeps the block with the least loads, then the largest.

Source: asc-devkit, matmul tiling algorithm and math util (host).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ascendsim.op_host.fag_platform import FagPlatform
from ascendsim.terms import ceil_div

_CUBE = 16
_K_BYTES = 32
_FRACTAL_BYTES = _CUBE * _K_BYTES
_FLOAT_BYTES = 4
_L0C_FRACTAL_BYTES = _CUBE * _CUBE * _FLOAT_BYTES
_L0_BUFFERS = 2
"""L0A and L0B always have two buffers."""

_L0A_BYTES_PER_CYCLE = 256
_L0B_BYTES_PER_CYCLE = 128
_LEAST_LOAD_CYCLES = 6
_LONGEST_FACTOR = 64
_FIRST_FACTOR = 11
"""Factor of the major axis around which the search starts."""

_LARGEST_POWER = 4096


@dataclass(frozen=True, slots=True)
class BaseBlock:
    """The block one Mmad call works on [elements]."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product of one core: [m, k] times [k, n].

    Attributes:
        m, n, k: lengths [elements].
        element_bytes: of both operands, 2 or 4.
        a_transposed: A lies as [k, m].
        b_transposed: B lies as [n, k].
        fixed_m, fixed_n: base lengths the caller prescribes, None for free.
    """

    m: int
    n: int
    k: int
    element_bytes: int
    a_transposed: bool = False
    b_transposed: bool = False
    fixed_m: int | None = None
    fixed_n: int | None = None

    @property
    def fractal_k(self) -> int:
        """Elements along K of one fractal."""
        return _K_BYTES // self.element_bytes


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Factors of a base block and what they cost."""

    m: int
    n: int
    k: int
    load: int
    l0c_bytes: int
    load_cycles: int
    loops: int

    @property
    def mad_cycles(self) -> int:
        return self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class _Core:
    """Lengths of one core's product [fractals], and what limits a block."""

    m: int
    n: int
    k: int
    product: Product
    platform: FagPlatform

    @property
    def left_limit(self) -> int:
        return min(self.platform.l1_bytes, self.platform.l0a_bytes // _L0_BUFFERS) // _FRACTAL_BYTES

    @property
    def right_limit(self) -> int:
        return min(self.platform.l1_bytes, self.platform.l0b_bytes // _L0_BUFFERS) // _FRACTAL_BYTES

    @property
    def l0c_limit(self) -> int:
        return self.platform.l0c_bytes // _L0C_FRACTAL_BYTES


def base_block(product: Product, platform: FagPlatform) -> BaseBlock | None:
    """Return the base block of a product, None when the library finds none.

    Source: asc-devkit, matmul tiling algorithm (host).
    """
    core = _Core(
        m=_single_core(ceil_div(product.m, _CUBE)),
        n=_single_core(ceil_div(product.n, _CUBE)),
        k=ceil_div(product.k, product.fractal_k),
        product=product,
        platform=platform,
    )
    kept = _search(core, n_is_major=True) or _search(core, n_is_major=False)
    return None if kept is None else BaseBlock(kept.m * _CUBE, kept.n * _CUBE, kept.k * product.fractal_k)


# --- lengths with enough factors ---


def _single_core(length: int) -> int:
    """Return the length itself, or the next one with enough factors on the way to a power of two."""
    target = _mapped(length)
    while not _has_factors(length) and length != target:
        length += 1 if length < target else -1
    return length


def _mapped(length: int) -> int:
    """Return the power of two, at most 2048, that is not below the length; short lengths stay."""
    if length < _CUBE:
        return length
    seed = _CUBE
    while seed < 1024 and not seed < length <= 2 * seed:
        seed *= 2
    return 2 * seed


def _has_factors(length: int) -> bool:
    if length <= 8:
        return True
    small = _most_divisors(length, 1, 64)
    if small <= 2:
        return False
    return not (length > 128 and small + _most_divisors(length, 65, 128) <= 4)


def _most_divisors(length: int, low: int, high: int) -> int:
    """Return how many divisors the richest divisor of the length in low..high has."""
    found = (f for f in range(low, high + 1) if length % f == 0)
    return max((sum(f % d == 0 for d in range(1, f + 1)) for f in found), default=0)


# --- the search ---


def _factors(start: int, length: int, limit: int) -> list[int]:
    """Return at most two divisors: the first above `start` within `limit`, then those below, larger ones first."""
    if length == 1:
        return [1]
    above = [f for f in range(start + 1, min(limit, length) + 1) if length % f == 0][:1]
    below = [f for f in range(start, 0, -1) if length % f == 0]
    return (above + below)[:2]


def _power_below(length: int) -> int:
    return min(1 << (length.bit_length() - 1), _LARGEST_POWER)


def _choices(start: int, length: int, limit: int, power_limit: int) -> list[int]:
    """Return divisors of the length and of the power of two below it, larger ones first."""
    found = _factors(start, length, limit) + _factors(start, _power_below(length), power_limit)
    return sorted(set(found), reverse=True)


def _search(core: _Core, *, n_is_major: bool) -> _Candidate | None:
    kept: _Candidate | None = None
    overlapped = False
    for m, n, k in _blocks(core, n_is_major=n_is_major):
        new = _cost(core, m, n, k)
        hidden = new.load_cycles < new.mad_cycles
        if _replaces(new, kept, hidden=hidden, overlapped=overlapped) and _allowed(core, new):
            kept = new
            overlapped = overlapped or hidden
    return kept


def _replaces(new: _Candidate, kept: _Candidate | None, *, hidden: bool, overlapped: bool) -> bool:
    """Return whether a block is better than the kept one; once loads were hidden they have to stay hidden."""
    if overlapped and not hidden:
        return False
    if kept is None or new.load < kept.load or (hidden and not overlapped):
        return True
    if new.load != kept.load:
        return False
    if new.mad_cycles > kept.mad_cycles:
        return new.mad_cycles * new.l0c_bytes >= kept.mad_cycles * kept.l0c_bytes
    return new.mad_cycles == kept.mad_cycles and new.loops < kept.loops


def _allowed(core: _Core, new: _Candidate) -> bool:
    """Return whether the block fits L1, and is wide enough where N is and is not prescribed."""
    fits = (new.m + new.n) * new.k * _FRACTAL_BYTES <= core.platform.l1_bytes
    wide = core.product.fractal_k
    return fits and (core.product.fixed_n is not None or not (core.n >= wide > new.n))


def _blocks(core: _Core, *, n_is_major: bool) -> Iterator[tuple[int, int, int]]:
    """Yield (m, n, k) of the blocks tried, in the library's order."""
    product = core.product
    mn_limit = core.l0c_limit
    sides = [(core.m, core.left_limit, product.fixed_m), (core.n, core.right_limit, product.fixed_n)]
    (major, major_limit, major_fixed), (minor, minor_limit, minor_fixed) = reversed(sides) if n_is_major else sides
    start = _FIRST_FACTOR
    for long in _axis(major, major_fixed, start, _LONGEST_FACTOR):
        if long > min(mn_limit, major_limit, major):
            continue
        room = min(mn_limit // long, minor_limit)
        for short in _axis(minor, minor_fixed, room, room):
            if short > min(minor_limit, minor, major_limit) or short * long > mn_limit:
                continue
            m, n = (short, long) if n_is_major else (long, short)
            k_room = min(major_limit // long, minor_limit // short)
            for k in _choices(k_room, core.k, k_room, _LONGEST_FACTOR):
                if long * k <= major_limit and short * k <= minor_limit and _fits_l0(core, m, n, k):
                    yield m, n, k


def _axis(length: int, fixed: int | None, start: int, limit: int) -> list[int]:
    return [ceil_div(fixed, _CUBE)] if fixed is not None else _choices(start, length, limit, limit)


def _fits_l0(core: _Core, m: int, n: int, k: int) -> bool:
    """Return whether both buffers of L0A and L0B hold the block; float operands that are turned round use even K."""
    product = core.product
    if product.element_bytes != _FLOAT_BYTES:
        return True
    even = k + k % 2
    k_a = even if product.a_transposed else k
    k_b = even if product.a_transposed or not product.b_transposed else k
    buffers = _L0_BUFFERS * _FRACTAL_BYTES
    return k_a * m * buffers <= core.platform.l0a_bytes and k_b * n * buffers <= core.platform.l0b_bytes


def _cost(core: _Core, m: int, n: int, k: int) -> _Candidate:
    a_cycles = max(_LEAST_LOAD_CYCLES, m * k * _FRACTAL_BYTES // _L0A_BYTES_PER_CYCLE)
    b_cycles = max(_LEAST_LOAD_CYCLES, n * k * _FRACTAL_BYTES // _L0B_BYTES_PER_CYCLE)
    return _Candidate(
        m=m,
        n=n,
        k=k,
        load=_load(core, m, n, k),
        l0c_bytes=m * n * _L0C_FRACTAL_BYTES,
        load_cycles=a_cycles + b_cycles,
        loops=(k if n != 1 else 1) + (m if k != 1 else 1),
    )


def _load(core: _Core, m: int, n: int, k: int) -> int:
    """Return rows and columns loaded into L0 [fractals], as the library counts them."""
    a_whole = core.m * core.k * _FRACTAL_BYTES <= core.platform.l0a_bytes
    b_whole = core.n * core.k * _FRACTAL_BYTES <= core.platform.l0b_bytes
    if a_whole or b_whole:
        return core.m + core.n
    a_again = ceil_div(core.n, n) * core.m
    b_again = ceil_div(core.m, m) * core.n
    if k >= core.k:
        return min(core.n + a_again, core.m + b_again)
    return a_again + b_again
