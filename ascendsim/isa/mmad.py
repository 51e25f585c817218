"""Mmad: the product of two tiles in L0A and L0B, onto a tile in L0C."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ascendsim.device import Device
from ascendsim.dtypes import INT32
from ascendsim.errors import Finding, Rule
from ascendsim.isa import rules
from ascendsim.isa.cube_rules import ALIGN_L0C, aligned_to_memory, fields_in, off_boundary
from ascendsim.isa.forms import Call, Form, declare
from ascendsim.isa.instruction import Array, Context, Instruction, Row, Step, TensorRef, finds
from ascendsim.layout import Offsets, c0_elements, elements, offsets
from ascendsim.memory import Lanes, LocalTensor
from ascendsim.terms import CUBE_SIDE, Layout, Pipe

MMAD_DIM = Rule(
    "E-MMAD-DIM",
    "{api}: {what} {got} is out of range {wanted}",
    "split the product",
    "asc-devkit docs, Mmad page",
    condition="Mmad gets an m, n or k outside 0..4095.",
)
MMAD_ZERO = rules.REPEAT_ZERO.saying("{api} does nothing: its {what} is 0")
MMAD_DTYPE = Rule(
    "E-MMAD-DTYPE",
    "{api} has no {got} on arch {arch}; it has {wanted}",
    "cast the operands to one of these first",
    "asc-devkit docs, Mmad page, table of types",
    condition="The types of Mmad's operands and result are none that the product multiplies.",
)
MMAD_K = Rule(
    "E-MMAD-K",
    "{api}: k_direction_align is {got}, which {wanted}",
    "leave k_direction_align False, or load A transposed as float on arch 2201",
    "asc-devkit docs, Mmad page",
    condition="Mmad pads its inner dimension in a way that the product or the type does not have: k_direction_align "
    "elsewhere than on arch 2201, or with elements that are not float.",
)
MMAD_FLAG = Rule(
    "E-UNITFLAG",
    "{api}: unit_flag {got} does not exist; there are {wanted}",
    "use 0 without the unit flag; with it 2, and 3 for the last Mmad of a result and for its Fixpipe",
    "asc-devkit docs, unit flag page",
    condition="Mmad and Fixpipe disagree about the unit flag: one uses it and the other does not, the last Mmad of a "
    "result has no 3, or the Fixpipes together do not fetch exactly what the Mmads made.",
)
ALIGN_BIAS = Rule(
    "W-ALIGN-BIAS128",
    "{api} {operand} {tensor}: bias address {got} is not a multiple of {wanted} B, which the vendor's checker wants",
    "start biases on 128 B",
    "asc-tools, api_check of Mmad",
    condition="The bias of Mmad starts on a boundary of 64 B that is none of 128 B.",
)
MMAD_INIT = Rule(
    "E-MMAD-INIT",
    "{api} adds to {got} B of {tensor} that nobody wrote",
    "let the first Mmad of a sum start from zero (cmatrix_init_val) or from a bias",
    "asc-devkit docs, Mmad page",
    condition="The first Mmad of a sum adds to what L0C holds by chance, or a later one starts anew, so that what was "
    "added up before is lost without being read.",
)
ALIGN_FRACTAL = Rule(
    "E-ALIGN-FRACTAL",
    "{api} {operand} {tensor} has room for {what} elements, not for whole fractals: {got} B there, {wanted} B needed",
    "fill both sides up to whole fractals: 16 on one side, 32 B on the other; in L0C 16 x 16",
    "asc-devkit docs, fractal formats page",
    condition="An operand of Mmad has room for its elements, but not for the whole fractals that they lie in.",
)
RESULT_BYTES = 1024
"""Boundary of Mmad's result in L0C: a fractal of 16 x 16 results of 32 bits (asc-devkit docs, Mmad page)."""
MOST = 4095
"""Largest m, n and k (asc-devkit docs, Mmad page)."""


@dataclass(frozen=True, slots=True)
class MmadParams:
    """Dimensions and switches of Mmad: [m, k] times [k, n].

    Attributes:
        unit_flag: 0 off; 2 keeps the unit flag, 3 hands the result over to Fixpipe.
        cmatrix_source: with cmatrix_init_val False, start from the bias tensor instead of what L0C holds.
        cmatrix_init_val: start from zero.
        k_direction_align: float only: A and B are filled up to 16 along k, not to 8.
    """

    m: int = 0
    n: int = 0
    k: int = 0
    unit_flag: int = 0
    cmatrix_source: bool = False
    cmatrix_init_val: bool = True
    k_direction_align: bool = False


_PARAMS = ("m", "n", "k", "unit_flag", "k_direction_align", "is_nz")


# ---- where the operands lie ----------------------------------------------------------------------------------------


def _k_filled(row: Row) -> int:
    """Depth of the operands as they lie in L0A and L0B."""
    side = CUBE_SIDE if row.param("k_direction_align") else 1
    return -(-row.param("k") // side) * side


def _a_layout(row: Row) -> Layout:
    """One row is read as it comes (GEMV), more as fractals."""
    if row.param("m") == 1:
        return Layout.ND
    return Layout.NZ if row.param("is_nz") else Layout.ZZ


def is_empty(row: Row) -> bool:
    """Whether a Mmad multiplies nothing."""
    return min(row.param("m"), row.param("n"), row.param("k")) <= 0


def _touch(row: Row) -> tuple[tuple[str, int, int], ...]:
    """Whole fractals of each operand."""
    assert row.src0 is not None
    assert row.src1 is not None
    assert row.dst is not None
    if is_empty(row):
        return tuple((role, 0, 0) for role, _ in row.operands)
    m, n, k = row.param("m"), row.param("n"), _k_filled(row)
    a, b, c = row.src0.dtype.bytes, row.src1.dtype.bytes, row.dst.dtype.bytes
    found = [
        ("dst", 0, elements(Layout.NZ_L0C, m, n, c) * c),
        ("src0", 0, elements(_a_layout(row), m, k, a) * a),
        ("src1", 0, elements(Layout.ZN, k, n, b) * b),
    ]
    if row.src2 is not None:
        found.append(("src2", 0, n * row.src2.dtype.bytes))
    return tuple(found)


def _sides(row: Row) -> dict[str, tuple[int, int]]:
    """Rows and columns of each operand."""
    m, n, k = row.param("m"), row.param("n"), row.param("k")
    return {"dst": (m, n), "src0": (m, k), "src1": (k, n)}


@finds(ALIGN_FRACTAL, rules.OOB_LOCAL_BEFORE, rules.OOB_LOCAL)
def _in_whole_fractals(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Operands have room for whole fractals; that only these are too much for one is told apart."""
    operands = dict(row.operands)
    found = []
    for finding in rules.in_bounds(row, tensors, device, where):
        operand, sides = operands[finding.operand], _sides(row).get(finding.operand)
        tensor = rules.tensor_of(operand, tensors)
        room = tensor.tensor_bytes - operand.offset_bytes
        if sides is None or operand.offset_bytes < 0 or sides[0] * sides[1] * operand.dtype.bytes > room:
            found.append(finding)
            continue
        needed = next(end for role, _, end in _touch(row) if role == finding.operand)
        fill = {"api": row.op.api, "tensor": tensor.name, "what": f"{sides[0]} x {sides[1]}"}
        found.append(ALIGN_FRACTAL.finding(where, operand=finding.operand, got=room, wanted=needed, fill=fill))
    return found


# ---- arithmetic ----------------------------------------------------------------------------------------------------


def factor(row: Row, role: str) -> tuple[Layout, Offsets]:
    """Return how a factor is read, and where each element of it lies: offsets in elements from its operand's start.

    Args:
        row: a Mmad.
        role: "src0", [m, k], or "src1", [k, n]. Of a matrix filled up along k only its k count.
    """
    operand = dict(row.operands)[role]
    rows, columns = _sides(row)[role]
    layout = _a_layout(row) if role == "src0" else Layout.ZN
    filled = (rows, _k_filled(row)) if role == "src0" else (_k_filled(row), columns)
    return layout, offsets(layout, *filled, operand.dtype.bytes)[:rows, :columns]


def _matrix(ctx: Context, row: Row, role: str) -> Callable[[], Array]:
    """Return what gives a factor as a matrix."""
    _, at = factor(row, role)
    read = ctx.reader(dict(row.operands)[role], Lanes.at(np.ascontiguousarray(at).reshape(-1)))
    return lambda: read().reshape(at.shape)


def _run(ctx: Context, row: Row) -> Step | None:
    if is_empty(row):
        return None
    assert row.dst is not None
    m, n = row.param("m"), row.param("n")
    read_a, read_b = _matrix(ctx, row, "src0"), _matrix(ctx, row, "src1")
    at = Lanes.at(offsets(Layout.NZ_L0C, m, n, row.dst.dtype.bytes).reshape(-1))
    start = _start(ctx, row, at)
    write = ctx.writer(row.dst, at)
    kind = row.dst.dtype
    assert row.src0 is not None
    depth = c0_elements(row.src0.dtype.bytes)

    def step() -> None:
        a, b, c = read_a(), read_b(), start()
        ctx.accumulate(_as_factor(a), _as_factor(b), c, depth)
        write(c.reshape(-1).astype(kind.numpy, copy=False))

    return step


def _as_factor(values: Array) -> Array:
    """16-bit numbers as float, which holds each of them exactly; others as they are."""
    return values if values.dtype.itemsize != 2 else values.astype(np.float32)


def _start(ctx: Context, row: Row, at: Lanes) -> Callable[[], Array]:
    """Return what gives the matrix that the product is added to."""
    assert row.dst is not None
    m, n = row.param("m"), row.param("n")
    wide = np.dtype(np.int32) if row.dst.dtype is INT32 else np.dtype(np.float32)
    if row.src2 is not None:
        bias = ctx.reader(row.src2, Lanes.run(n))
        return lambda: np.tile(bias().astype(wide), (m, 1))
    if not row.op.reads_dst:
        return lambda: np.zeros((m, n), wide)
    read = ctx.reader(row.dst, at)
    return lambda: np.array(read().reshape(m, n), wide)


# ---- rules ---------------------------------------------------------------------------------------------------------


@finds(MMAD_DIM, MMAD_ZERO, MMAD_K, MMAD_FLAG)
def _fields(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Dimensions fit, and the switches exist."""
    del tensors
    assert row.src0 is not None
    api = {"api": row.op.api}
    found = fields_in(row, where, {"m": (0, MOST), "n": (0, MOST), "k": (0, MOST)}, MMAD_DIM)
    found += [
        MMAD_ZERO.finding(where, got=0, wanted="at least 1", fill=api | {"what": what})
        for what in ("m", "n", "k")
        if row.param(what) == 0
    ]
    if row.param("k_direction_align"):
        why = "" if device.has("mmad_k_align") else f"arch {device.npu_arch} does not have"
        why = why or ("" if row.src0.dtype.bytes == 4 else f"{row.src0.dtype} does not have")
        found += [MMAD_K.finding(where, operand="k", got=True, wanted=why, fill=api)] if why else []
    if row.param("unit_flag") not in (0, 2, 3):
        got = row.param("unit_flag")
        found.append(MMAD_FLAG.finding(where, operand="unit_flag", got=got, wanted="0, 2 and 3", fill=api))
    return found


@finds(MMAD_DTYPE)
def _types(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The device multiplies these types."""
    del tensors
    assert row.dst is not None
    assert row.src0 is not None
    assert row.src1 is not None
    known = device.arithmetic.mmad_types.value
    got = f"{row.src0.dtype}*{row.src1.dtype}->{row.dst.dtype}"
    if got in known:
        return []
    fill = {"api": row.op.api, "arch": device.npu_arch}
    return [MMAD_DTYPE.finding(where, operand="dst", got=got, wanted=", ".join(known), fill=fill)]


@finds(ALIGN_L0C, ALIGN_BIAS)
def _result_aligned(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The result starts on a fractal of L0C, the bias on 128 B."""
    del device
    assert row.dst is not None
    boundary = RESULT_BYTES // 4 * row.dst.dtype.bytes
    found = off_boundary(row, "dst", tensors, where, ALIGN_L0C, boundary)
    if row.src2 is not None:
        found += off_boundary(row, "src2", tensors, where, ALIGN_BIAS, 128)
    return found


def _mmad_op(name: str, doc: str, *, onto: bool) -> Instruction:
    return declare(
        name,
        doc,
        api="Mmad",
        mnemonic="mmad",
        pipe=Pipe.M,
        params=_PARAMS,
        cost="mmad",
        family="Mmad",
        execute=_run,
        touch=_touch,
        checks=(_types, aligned_to_memory, _result_aligned, _fields, _in_whole_fractals),
        uses_mask=False,
        reads_dst=onto,
    )


_ONTO = _mmad_op(
    "mmad_accumulate",
    """Add the product of [m, k] in L0A and [k, n] in L0B to what L0C holds. As mmad otherwise.

    Source: asc-devkit docs, Mmad page.
    """,
    onto=True,
)


class MmadCall(Call):
    """dst, a, b, MmadParams; with a bias tensor behind b the product starts from it."""

    def __call__(
        self,
        dst: LocalTensor,
        a: LocalTensor,
        b: LocalTensor,
        mmad_params: MmadParams,
        bias: LocalTensor | None = None,
    ) -> None:
        """Record the call."""
        asc = self.asc
        self.locals(dst=dst, a=a, b=b)
        m, n, k, unit_flag, source, init, align = self.fields(mmad_params, MmadParams)
        if source and bias is None and not init:
            raise asc.fail("Mmad: cmatrix_source takes the result's start from a bias; pass the bias tensor")
        onto = bias is None and not init
        is_nz = int(asc.device.has("l0a_is_nz"))
        params = (m, n, k, unit_flag, int(align), is_nz)
        asc.emit(_ONTO if onto else self.op, dst=dst, src0=a, src1=b, src2=bias, params=params)


class MmadInstructions:
    """Mmad."""

    mmad = Form(
        _mmad_op(
            "mmad",
            """The product of [m, k] in L0A and [k, n] in L0B into L0C, from zero or from a bias in BT.

            L0A holds ZZ fractals (NZ on arch 3510; one row as it is), L0B ZN, L0C fractals of 16 x 16. Products are
            exact and added in float in the order of k with one rounding each, or fractal by fractal
            (`arithmetic.mmad_order` of the device): nobody has published what the hardware does. Rows and columns
            behind m and n stay as they
            are. Source: asc-devkit docs, Mmad page.
            """,
            onto=False,
        ),
        MmadCall,
    )


def result_offsets(row: Row) -> Offsets:
    """Return the bytes at which the elements of the result begin in L0C, counted from dst."""
    assert row.dst is not None
    if is_empty(row):
        return np.zeros(0, np.int64)
    width = row.dst.dtype.bytes
    return offsets(Layout.NZ_L0C, row.param("m"), row.param("n"), width).reshape(-1) * width


def fractals(row: Row) -> int:
    """Return how many steps of 16 x 16 x C0 a row takes."""
    assert row.src0 is not None
    m, n, k = (max(0, row.param(name)) for name in ("m", "n", "k"))
    deep = c0_elements(row.src0.dtype.bytes)
    return -(-m // CUBE_SIDE) * -(-n // CUBE_SIDE) * -(-k // deep)
