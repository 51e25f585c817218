"""Published times of attention backward against the operator of this package for the same problem.

What was measured are other implementations, which say neither how they are tiled nor how they schedule: so no row is
rebuilt. Compared is FlashAttentionScoreGrad, as `flash_attention_score_grad` runs here, with the row's lengths and type
on all cores, in layout BNSD. The error says how the vendor's operator, as the model sees it, stands to them.

Key heads of all batches are alike. Where there are many blocks of scores, two smaller problems are simulated, with key
heads that give every core equally many blocks and with twice as many; the rest is added as often as it comes.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd

from ascendsim.device import Device
from ascendsim.dtypes import FLOAT, UINT8, DType
from ascendsim.fidelity.kernels.predicted import Prediction, extrapolated, prediction_of, recorded
from ascendsim.fidelity.kernels.words import numbers
from ascendsim.fidelity.measured import MeasuredKernel, Uncovered
from ascendsim.memory import place_in_gm
from ascendsim.op_host.fag_call import FagCall, read_shape
from ascendsim.op_host.fag_dealing import dealing
from ascendsim.op_host.fag_kernels import kernel_tiling
from ascendsim.op_host.fag_params import FagDtype, FagParams
from ascendsim.op_host.fag_platform import fag_platform
from ascendsim.op_host.fag_result import FagTiling
from ascendsim.op_host.fag_tiling import fag_tiling
from ascendsim.op_kernel.fag_operator import flash_attention_score_grad
from ascendsim.program import Program
from ascendsim.terms import KernelType, ceil_div

CATEGORY = "attention_bwd"
MOST_BLOCKS = 1 << 13
"""Blocks of scores that are recorded one by one: a minute."""
WHOLE_BLOCKS = 1 << 10
"""Up to so many blocks a problem is simulated whole; smaller parts of a larger one have about as many, or L2 would hold
all that they touch."""
_TRIANGLE = 2048
"""Rows and columns of the compressed mask."""
_L2_MODE = "model"
"""Cold: a smaller problem that has run before lies in L2 as a whole, which the larger one does not."""
_CAUSAL_MODE, _BAND_MODE = 2, 4
_DTYPES: dict[str, FagDtype] = {"fp16": "fp16", "bf16": "bf16", "fp32": "fp32"}
_PUBLIC = {"softmax_max": "softmaxMax", "softmax_sum": "softmaxSum", "attention_in": "attentionIn"}
"""The interface's spelling of names that differ from it."""
_NAMES = ("query", "key", "value", "dy", *_PUBLIC, "dq", "dk", "dv")


def predict_attention(row: MeasuredKernel, device: Device) -> Prediction:
    """Return the model's time of the operator for a row's problem.

    Raises:
        Uncovered: a field says something that the operator does not do.
    """
    if row.dtype not in _DTYPES:
        raise Uncovered(f"element type {row.dtype!r}")
    return predicted(problem_of(row), Part(device.model_dump_json(), device))


@dataclass(frozen=True, slots=True)
class Problem:
    """Attention backward of so many key heads in all, batches of one key head each.

    Attributes:
        dtype: of query.
        heads: key heads of all batches.
        g: query heads of each.
        s: rows of queries and of keys.
        d, dv: columns of query and key; of value.
        window: keys that a query sees, the last ones before it and its own; None for all.
    """

    dtype: FagDtype
    heads: int
    g: int
    s: int
    d: int
    dv: int
    window: int | None


def compared(row: MeasuredKernel) -> str:
    """Return what of a row and of the operator is compared, in words."""
    said = ["another implementation, for the same problem"]
    if "forward+backward" in row.op:
        said.append("the row holds forward and backward, the prediction backward alone")
    if "varlen" in row.shape:
        said.append("batches of one length, which the row's TFLOP/s imply, for packed ones")
    if "sink" in row.shape:
        said.append("without the attention sink, which the operator has not")
    return "; ".join(said)


def problem_of(row: MeasuredKernel) -> Problem:
    """Return a row's problem, such as that of "B=8 H=32 Hkv=2 S=1024 Dqk=192 Dv=128 non-causal".

    Raises:
        Uncovered: something is missing.
    """
    text = row.shape
    batches, heads, s = numbers(r"\bB=(\d+) H=(\d+) .*\bS=(\d+)", text, "batches, heads and rows")
    if "Hkv=" in text:
        (key_heads,) = numbers(r"\bHkv=(\d+)", text, "key heads")
        g = heads // key_heads
    else:
        (g,) = numbers(r"\b(?:groups|G)=(\d+)", text, "query heads of a key head")
        key_heads = heads // g
    if g * key_heads != heads:
        raise Uncovered(f"{heads} heads in {text!r} are no multiple of its key heads")
    if "Dqk=" in text:
        d, dv = numbers(r"\bDqk=(\d+) Dv=(\d+)", text, "columns of a head")
    else:
        d, dv = numbers(r"\bD=(\d+)", text, "columns of a head") * 2
    window = None
    if "window=" in text:
        (window,) = numbers(r"\bwindow=(\d+)", text, "window")
    elif "causal" in text and "non-causal" not in text:
        window = s
    return Problem(_DTYPES[row.dtype], batches * key_heads, g, s, d, dv, window)


@dataclass(frozen=True, slots=True)
class Part:
    """A device, equal to any of the same numbers."""

    numbers: str
    device: Device = field(compare=False)


@lru_cache(maxsize=8)
def predicted(problem: Problem, part: Part) -> Prediction:
    """Predict a problem once for all rows that are of it."""
    device = part.device
    few = even_heads(problem, device)
    if problem.heads < 2 * few:
        return prediction_of(_program(problem, problem.heads, device), device, _L2_MODE)
    programs = {heads: _program(problem, heads, device) for heads in (few, 2 * few)}
    return extrapolated(programs, problem.heads, device, _L2_MODE)


def even_heads(problem: Problem, device: Device) -> int:
    """Return how many key heads the smaller of two problems has; all where one is simulated whole.

    Raises:
        Uncovered: there would be too many blocks to record.
    """
    call, tiling = _host(problem, 1, device)
    found = dealing(call, tiling)
    blocks = 0 if found is None else found.count
    if found is None or blocks > MOST_BLOCKS:
        raise Uncovered(f"{blocks or 'too many'} blocks of scores for a key head; up to {MOST_BLOCKS} are recorded")
    if problem.heads * blocks <= WHOLE_BLOCKS:
        return problem.heads
    even = found.cores // gcd(blocks, found.cores)
    few = max(1, round(WHOLE_BLOCKS / (even * blocks))) * even
    most = min(problem.heads, 2 * few) * blocks
    if most > MOST_BLOCKS:
        raise Uncovered(f"{most} blocks of scores; up to {MOST_BLOCKS} are recorded")
    return few


def _host(problem: Problem, heads: int, device: Device) -> tuple[FagCall, FagTiling]:
    """Return the call with so many key heads, and the operator's tiling of it."""
    mode = 0 if problem.window is None else _CAUSAL_MODE if problem.window >= problem.s else _BAND_MODE
    params = FagParams(
        dtype=problem.dtype,
        layout="BNSD",
        B=1,
        N2=heads,
        G=problem.g,
        S1=problem.s,
        S2=problem.s,
        D=problem.d,
        Dv=problem.dv,
        sparse_mode=mode,
        pre_tokens=problem.s if problem.window is None else problem.window - 1,
        next_tokens=problem.s if problem.window is None else 0,
        atten_mask=None if problem.window is None else (_TRIANGLE, _TRIANGLE),
    )
    tiling = fag_tiling(params, device)
    if tiling.status == "failed":
        raise Uncovered(f"the operator refuses the call: {'; '.join(tiling.reasons)}")
    return FagCall(params, read_shape(params), fag_platform(device)), tiling


def _program(problem: Problem, heads: int, device: Device) -> Program:
    """Record the operator with so many key heads."""
    call, tiling = _host(problem, heads, device)
    names = (*_NAMES, "workspace") if call.mask is None else (*_NAMES, "atten_mask", "workspace")
    kernel = kernel_tiling(call, tiling, names)
    element = call.params.element
    specs: list[tuple[str, DType, tuple[int, ...]]] = [
        (name, FLOAT if name.startswith("softmax") else element, call.params.shape_of(_PUBLIC.get(name, name)) or ())
        for name in _NAMES
    ]
    if call.mask is not None:
        specs.append(("atten_mask", UINT8, (_TRIANGLE, _TRIANGLE)))
    specs.append(("workspace", FLOAT, (ceil_div(kernel.workspace_bytes, FLOAT.bytes),)))
    gm = place_in_gm(specs)
    return recorded(flash_attention_score_grad, device, kernel.block_dim, gm, (kernel,), KernelType.MIX_AIC_1_2)
