"""Host side of the matmul operator: base blocks, buffers in L1 and L0, and which core makes which block of C."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from ascendsim.device import Device
from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, INT32, DType
from ascendsim.errors import InputError
from ascendsim.op_host.fag_platform import FagPlatform
from ascendsim.op_host.matmul_base import Product, base_block
from ascendsim.terms import CUBE_SIDE, Buffer, align_up, ceil_div

QUEUES = {"a1": 2, "b1": 2, "a2": 2, "b2": 2, "co1": 1}
"""Queues of the operator, with the numbers of buffers that the matmul library's search takes (op_host.matmul_base)."""
BIAS_QUEUES = {"c1": 2, "c2": 1}
"""Those that a bias needs besides."""
MOST_PITCH = 65535
"""Longest row of A and B in GM [elements]: DataCopy's source stride has 16 bits (asc-devkit docs, ND2NZ page)."""
BIAS_BYTES = 128
"""Boundary of biases in the bias table that the vendor's checker wants (asc-tools, api_check of Mmad)."""
_OUTPUTS = {FLOAT: (FLOAT, HALF, BFLOAT16), INT32: (INT32,)}
"""What Fixpipe makes of results without a scale (asc-devkit docs, quantisation page)."""


@dataclass(frozen=True, slots=True)
class MatmulChoice:
    """What a user can choose; None leaves a length to the host.

    Attributes:
        base_m, base_n, base_k: the block that one Mmad works on [elements].
        single_core_m, single_core_n: the area of C that a core works off at a time [elements].
        step_k: base_k steps of one load from GM to L1.
        split_k: parts of K that different cores multiply and add in GM.
        a_transposed: A lies as [k, m].
        b_transposed: B lies as [n, k].
        a_full_load: one load of A holds all of a core's K, and serves every block of C beside it.
        relu: negative results become 0.
        unit_flag: Mmad and Fixpipe meet by the unit flag.
    """

    base_m: int | None = None
    base_n: int | None = None
    base_k: int | None = None
    single_core_m: int | None = None
    single_core_n: int | None = None
    step_k: int | None = None
    split_k: int = 1
    a_transposed: bool = False
    b_transposed: bool = False
    a_full_load: bool = False
    relu: bool = False
    unit_flag: bool = False


@dataclass(frozen=True, slots=True)
class MatmulTensors:
    """The tensors' lengths and types: C[m, n] = A[m, k] B[k, n] + bias[n]."""

    m: int
    n: int
    k: int
    ab: DType
    c: DType
    acc: DType
    """Of the results in L0C, and of the bias."""
    has_bias: bool


@dataclass(frozen=True, slots=True)
class MatmulTiling:
    """What the operator's kernel needs to know, lengths in elements.

    Attributes:
        m, n, k: of the whole product.
        base_m, base_n, base_k: of one Mmad.
        single_core_m, single_core_n: of the area of C that a core works off at a time.
        single_core_k: of the part of K that a core multiplies.
        load_ka, load_kb: along K, of one load of A and of B into L1.
        a_transposed, b_transposed, relu, unit_flag, has_bias: as chosen.
        a_pitch, b_pitch, c_pitch: from one row in GM to the next.
        a_is_nz, c_is_nz: A, of 16 bits, or C lies in NZ: its pitch goes from one 16 columns to the next.
        ab: type of A and B.
        acc: type of the results in L0C.
        a1_bytes ... co1_bytes: one buffer of each queue.
        a1_num ... co1_num: their buffers.
    """

    m: int
    n: int
    k: int
    base_m: int
    base_n: int
    base_k: int
    single_core_m: int
    single_core_n: int
    single_core_k: int
    load_ka: int
    load_kb: int
    a_transposed: bool
    b_transposed: bool
    relu: bool
    unit_flag: bool
    has_bias: bool
    a_pitch: int
    b_pitch: int
    c_pitch: int
    a_is_nz: bool
    c_is_nz: bool
    ab: DType
    acc: DType
    a1_bytes: int
    b1_bytes: int
    c1_bytes: int
    a2_bytes: int
    b2_bytes: int
    c2_bytes: int
    co1_bytes: int
    a1_num: int
    b1_num: int
    c1_num: int
    a2_num: int
    b2_num: int
    c2_num: int
    co1_num: int

    @property
    def parts_k(self) -> int:
        """Parts of K that are added in GM; 1 for none."""
        return ceil_div(self.k, self.single_core_k)


# ---- sizes -----------------------------------------------------------------------------------------------------------


def square_side(ab: DType) -> int:
    """Return rows and columns of the square transposed at once on the way to L0 (LoadDataWithTranspose page)."""
    return max(CUBE_SIDE, ab.per_datablock)


@dataclass(frozen=True, slots=True)
class _Units:
    """What base lengths have to be multiples of: fractals, or the squares that are transposed on the way to L0."""

    m: int
    n: int
    k: int

    @classmethod
    def of(cls, ab: DType, choice: MatmulChoice) -> "_Units":
        square = square_side(ab)
        m = square if choice.a_transposed else CUBE_SIDE
        n = CUBE_SIDE if choice.b_transposed else square
        return cls(m, n, square)


def matmul_tiling(
    device: Device, tensors: MatmulTensors, choice: MatmulChoice, nums: Mapping[str, int]
) -> MatmulTiling:
    """Return the operator's tiling.

    Args:
        device: the part.
        tensors: lengths and types.
        choice: what the user chose.
        nums: buffers of each queue.

    Raises:
        InputError: the device has no such product, or a choice that no kernel can use; says what would be right.
    """
    _check_device(device, tensors, choice)
    units = _Units.of(tensors.ab, choice)
    _check_chosen(choice, units)
    base_m, base_n, base_k = _base(device, tensors, choice, nums, units)
    single_k = _single_core_k(tensors.k, base_k, choice.split_k)
    steps = _steps(device, tensors, choice, nums, (base_m, base_n, base_k), single_k)
    load_kb = steps * base_k
    load_ka = align_up(single_k, base_k) if choice.a_full_load else load_kb
    ab, acc = tensors.ab.bytes, tensors.acc.bytes
    tiling = MatmulTiling(
        m=tensors.m,
        n=tensors.n,
        k=tensors.k,
        base_m=base_m,
        base_n=base_n,
        base_k=base_k,
        single_core_m=choice.single_core_m or base_m,
        single_core_n=choice.single_core_n or base_n,
        single_core_k=single_k,
        load_ka=load_ka,
        load_kb=load_kb,
        a_transposed=choice.a_transposed,
        b_transposed=choice.b_transposed,
        relu=choice.relu,
        unit_flag=choice.unit_flag,
        has_bias=tensors.has_bias,
        a_pitch=tensors.m if choice.a_transposed else tensors.k,
        b_pitch=tensors.k if choice.b_transposed else tensors.n,
        c_pitch=tensors.n,
        a_is_nz=False,
        c_is_nz=False,
        ab=tensors.ab,
        acc=tensors.acc,
        a1_bytes=base_m * load_ka * ab,
        b1_bytes=load_kb * base_n * ab,
        c1_bytes=align_up(base_n * acc, BIAS_BYTES),
        a2_bytes=base_m * base_k * ab,
        b2_bytes=base_k * base_n * ab,
        c2_bytes=align_up(base_n * acc, BIAS_BYTES),
        co1_bytes=base_m * base_n * acc,
        a1_num=nums["a1"],
        b1_num=nums["b1"],
        c1_num=nums.get("c1", 0),
        a2_num=nums["a2"],
        b2_num=nums["b2"],
        c2_num=nums.get("c2", 0),
        co1_num=nums["co1"],
    )
    _check_capacity(device, tensors, tiling, units)
    return tiling


def _base(
    device: Device, tensors: MatmulTensors, choice: MatmulChoice, nums: Mapping[str, int], units: _Units
) -> tuple[int, int, int]:
    """Return the base block: what was chosen, and for the rest what the library's search finds for these buffers."""
    if choice.base_m and choice.base_n and choice.base_k:
        return choice.base_m, choice.base_n, choice.base_k
    memory = device.memory
    platform = FagPlatform(
        aic_cores=device.cores.aic.value,
        aiv_cores=device.aiv,
        ub_bytes=device.ub.visible_bytes.value,
        l1_bytes=memory.l1_bytes.value // max(nums["a1"], nums["b1"]),
        l0a_bytes=2 * memory.l0a_bytes.value // nums["a2"],  # the search takes it that there are two buffers
        l0b_bytes=2 * memory.l0b_bytes.value // nums["b2"],
        l0c_bytes=memory.l0c_bytes.value // nums["co1"],
        l2_bytes=memory.l2_bytes.value,
        npu_arch=device.npu_arch,
    )
    product = Product(
        choice.single_core_m or tensors.m,
        choice.single_core_n or tensors.n,
        tensors.k,
        tensors.ab.bytes,
        choice.a_transposed,
        choice.b_transposed,
        choice.base_m,
        choice.base_n,
    )
    found = base_block(product, platform)
    m, n, k = (found.m, found.n, found.k) if found else (units.m, units.n, units.k)
    if tensors.has_bias:
        n = min(n, memory.bt_bytes.value // nums["c2"] // tensors.acc.bytes)
    m, n, k = (max(unit, length // unit * unit) for length, unit in ((m, units.m), (n, units.n), (k, units.k)))
    return choice.base_m or m, choice.base_n or n, choice.base_k or k


def _single_core_k(k: int, base_k: int, split_k: int) -> int:
    """Return the length of a part of K: whole steps of base_k.

    Raises:
        InputError: there are fewer steps than parts.
    """
    single = align_up(ceil_div(k, split_k), base_k)
    parts = ceil_div(k, single)
    if parts != split_k:
        raise InputError(
            f"tiling.split_k = {split_k}: K {k} in steps of base_k {base_k} makes {parts} parts; choose split_k "
            f"{parts}, or a smaller base_k"
        )
    return single


def _steps(
    device: Device,
    tensors: MatmulTensors,
    choice: MatmulChoice,
    nums: Mapping[str, int],
    base: tuple[int, int, int],
    single_k: int,
) -> int:
    """Return base_k steps of one load into L1: as many as make a row of K full bandwidth in GM, if L1 has room."""
    base_m, base_n, base_k = base
    most = ceil_div(single_k, base_k)
    if choice.step_k:
        return min(choice.step_k, most)
    width = tensors.ab.bytes
    aligned = device.memory.gm_alignment_bytes
    wanted = ceil_div(int(aligned.value) if aligned else 1, base_k * width)
    room = device.memory.l1_bytes.value - nums.get("c1", 0) * align_up(base_n * tensors.acc.bytes, BIAS_BYTES)
    if choice.a_full_load:
        room -= nums["a1"] * base_m * align_up(single_k, base_k) * width
        step_bytes = nums["b1"] * base_n * base_k * width
    else:
        step_bytes = (nums["a1"] * base_m + nums["b1"] * base_n) * base_k * width
    return max(1, min(most, wanted, room // step_bytes))


# ---- checks ----------------------------------------------------------------------------------------------------------


def _check_device(device: Device, tensors: MatmulTensors, choice: MatmulChoice) -> None:
    """Refuse what the device's Cube side does not have."""
    for capability, what in (
        ("fixpipe", "Fixpipe: its results leave L0C through UB, which is not modelled"),
        ("data_copy_nd2nz", "DataCopy ND2NZ, which this operator loads with"),
    ):
        if not device.has(capability):
            raise InputError(
                f"device {device.name}: arch {device.npu_arch} has no {what}; choose a device of arch 2201 or 3510"
            )
    ab, acc, known = tensors.ab, tensors.acc, device.arithmetic.mmad_types.value
    if f"{ab}*{ab}->{acc}" not in known:
        raise InputError(
            f"tensors.a: dtype {ab}; Mmad of arch {device.npu_arch} has {', '.join(known)}: choose one of these"
        )
    outputs = _OUTPUTS[acc]
    if tensors.c not in outputs:
        names = ", ".join(map(str, outputs))
        raise InputError(f"tensors.c: dtype {tensors.c}; Fixpipe makes {names} of {acc} results without a scale")
    if choice.a_transposed and ab.bytes != HALF.bytes and not device.has("load_transpose_to_l0a"):
        raise InputError(
            f"tiling.a_transposed = true: arch {device.npu_arch} transposes {ab} to L0B only; store A as [m, k]"
        )
    adds = device.arithmetic.atomic_types.value
    if choice.split_k > 1 and tensors.c.name not in adds:
        raise InputError(
            f"tiling.split_k = {choice.split_k}: arch {device.npu_arch} does not add {tensors.c} in GM, it adds "
            f"{', '.join(adds)}; use split_k = 1"
        )
    if choice.split_k > 1 and choice.relu:
        raise InputError(f"tiling.relu = true with split_k = {choice.split_k}: ReLU of parts is not ReLU of the sum")
    for name, transposed, rows, columns in (
        ("a", choice.a_transposed, tensors.m, tensors.k),
        ("b", choice.b_transposed, tensors.k, tensors.n),
    ):
        pitch = rows if transposed else columns
        if pitch > MOST_PITCH:
            raise InputError(
                f"tensors.{name}: rows of {pitch} elements; ND2NZ takes up to {MOST_PITCH}: split the tensor"
            )


def _check_chosen(choice: MatmulChoice, units: _Units) -> None:
    """Refuse lengths that are no whole fractals."""
    base = {"base_m": (choice.base_m, units.m), "base_n": (choice.base_n, units.n), "base_k": (choice.base_k, units.k)}
    for name, (length, unit) in base.items():
        if length is not None and length % unit:
            raise InputError(
                f"tiling.{name} = {length}: must be a multiple of {unit}, what these types and transpositions load "
                f"at once; the nearest are {max(unit, length // unit * unit)} and {align_up(length, unit)}"
            )


def _check_capacity(device: Device, tensors: MatmulTensors, t: MatmulTiling, units: _Units) -> None:
    """Refuse blocks that the memories do not hold."""
    ab, acc = tensors.ab, tensors.acc
    a, b, c = f"{t.base_m} x {t.base_k} {ab}", f"{t.base_k} x {t.base_n} {ab}", f"{t.base_m} x {t.base_n} {acc}"
    for place, what, one, num, que, mend in (
        (Buffer.L0A, f"base_m x base_k = {a}", t.a2_bytes, t.a2_num, "a2", ("base_m", t.base_m, units.m)),
        (Buffer.L0B, f"base_k x base_n = {b}", t.b2_bytes, t.b2_num, "b2", ("base_n", t.base_n, units.n)),
        (Buffer.L0C, f"base_m x base_n = {c}", t.co1_bytes, t.co1_num, "co1", ("base_n", t.base_n, units.n)),
        (Buffer.BT, f"base_n = {t.base_n} {acc}", t.c2_bytes, t.c2_num, "c2", ("base_n", t.base_n, units.n)),
    ):
        has = device.buffer_bytes(place)
        if one * num <= has:
            continue
        name, length, unit = mend
        fitting = has // num * length // one // unit * unit
        other = f"queues.{que}.num = {num - 1}" if num > 1 else "a smaller base_k" if place is not Buffer.BT else ""
        ways = [f"{name} = {fitting} at most" if fitting else "", other]
        raise InputError(
            f"{place.name}: {what} takes {one} B, with queues.{que}.num = {num} {one * num} B > {has} B of "
            f"{device.name}; choose {' or '.join(way for way in ways if way)}"
        )
    _check_l1(device, t)


def _check_l1(device: Device, t: MatmulTiling) -> None:
    has = device.buffer_bytes(Buffer.L1)
    parts = [("a1", t.a1_num, t.a1_bytes), ("b1", t.b1_num, t.b1_bytes), ("c1", t.c1_num, t.c1_bytes)]
    need = sum(num * one for _, num, one in parts)
    if need > has:
        made = " + ".join(f"{name} {num} x {one}" for name, num, one in parts if num)
        full = "drop a_full_load, " if t.load_ka > t.load_kb else ""
        raise InputError(
            f"L1: {made} = {need} B > {has} B of {device.name}; {full}choose a smaller step_k, base_m or base_n, or "
            "queues.a1.num and queues.b1.num of 1"
        )


# ---- who does what ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Block:
    """A block of C, or of one part of its sum over K: where it starts and how long it is [elements]."""

    m_at: int
    n_at: int
    k_at: int
    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one load of B into L1 adds to a block of C.

    Attributes:
        block: the block.
        block_number: the how-many-th it is of its core.
        k_at: where the step starts in K.
        k: its length along K.
        panel: the how-many-th load of A the step works with.
        is_first, is_last: of its block.
        starts_panel, ends_panel: no step before, and none behind it, works with this load of A.
    """

    block: Block
    block_number: int
    k_at: int
    k: int
    panel: int
    is_first: bool
    is_last: bool
    starts_panel: bool
    ends_panel: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """One load of A into L1 [elements]."""

    m_at: int
    k_at: int
    m: int
    k: int


def blocks_of_core(t: MatmulTiling, block_num: int, block_idx: int) -> tuple[Block, ...]:
    """Return the blocks that a core makes, those of K's first part first.

    Areas of single_core_m x single_core_n, each in its parts of K, go round the cores; neighbours work at the same time
    and find each other's operands in L2.
    """
    areas = [(m, n) for m in range(0, t.m, t.single_core_m) for n in range(0, t.n, t.single_core_n)]
    parts = [(m, n, k) for m, n in areas for k in range(0, t.k, t.single_core_k)]
    own = sorted(parts[block_idx::block_num], key=lambda part: part[2] > 0)
    return tuple(block for part in own for block in _blocks(t, *part))


def _blocks(t: MatmulTiling, area_m: int, area_n: int, k_at: int) -> list[Block]:
    """Return the blocks of an area, along n first."""
    end_m, end_n = min(t.m, area_m + t.single_core_m), min(t.n, area_n + t.single_core_n)
    k = min(t.single_core_k, t.k - k_at)
    return [
        Block(m, n, k_at, min(t.base_m, end_m - m), min(t.base_n, end_n - n), k)
        for m in range(area_m, end_m, t.base_m)
        for n in range(area_n, end_n, t.base_n)
    ]


def steps_of_core(t: MatmulTiling, blocks: tuple[Block, ...]) -> tuple[tuple[Step, ...], tuple[Panel, ...]]:
    """Return what a core does one after another, and its loads of A: one a step, or one for blocks side by side."""
    work = [(number, block, at) for number, block in enumerate(blocks) for at in range(0, block.k, t.load_kb)]
    needed = [_panel(t, block, at) for _, block, at in work]
    starts = [panel != before for panel, before in zip(needed, (None, *needed), strict=False)]
    ends = [*starts[1:], True]
    numbers = [count - 1 for count in accumulate(starts)]
    steps = tuple(
        Step(
            block=block,
            block_number=number,
            k_at=block.k_at + at,
            k=min(t.load_kb, block.k - at),
            panel=numbers[i],
            is_first=at == 0,
            is_last=at + t.load_kb >= block.k,
            starts_panel=starts[i],
            ends_panel=ends[i],
        )
        for i, (number, block, at) in enumerate(work)
    )
    return steps, tuple(panel for panel, is_new in zip(needed, starts, strict=True) if is_new)


def _panel(t: MatmulTiling, block: Block, at: int) -> Panel:
    """Return the load of A that holds a block's K from `at` on."""
    first = at // t.load_ka * t.load_ka
    return Panel(block.m_at, block.k_at + first, block.m, min(t.load_ka, block.k - first))
