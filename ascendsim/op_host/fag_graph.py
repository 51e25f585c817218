"""The operators that FlashAttentionScoreGrad's interface puts before and behind its kernel, and what they allocate.

contiguous, reshape, pad D, transpose, the kernel, transpose back, slice, reshape, copy into the caller's tensors. The
inputs are taken as contiguous, so that contiguous, reshape and the last copy allocate nothing: a reshape is a view, and
the last operator writes the caller's tensor itself.

Source: ops-transformer, op_api of flash_attention_score_grad; opbase, ViewCopy.
"""

from dataclasses import dataclass, replace
from math import prod
from typing import Final

from ascendsim.dtypes import FLOAT, DType
from ascendsim.op_host.fag_params import LANES, FagParams, Layout, Shape
from ascendsim.op_host.fag_tensors import Axes
from ascendsim.terms import align_up

LONGEST_STRIDE: Final = 65535
"""Elements between two rows of a sequence that the kernel can step over; above it everything is transposed to BNSD."""

_WIDE_D: Final = 128
"""From this head size on, D is padded to multiples of it, below to multiples of 16."""

_NARROW_UNIT: Final = 16


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """A tensor in the workspace beside the kernel's own.

    Attributes:
        name: the tensor it comes from or becomes, and what was done: "query_padded".
        shape: axes [elements].
        dtype: element type.
    """

    name: str
    shape: Shape
    dtype: DType

    @property
    def bytes(self) -> int:
        """Size."""
        return prod(self.shape) * self.dtype.bytes


@dataclass(frozen=True, slots=True)
class Graph:
    """What the interface does around the kernel.

    Attributes:
        layout: as the kernel gets it.
        D: head size of query and key as the kernel gets it.
        Dv: of value.
        pads_d, pads_value, transposes: which operators there are; pads_value brings Dv to D before anything else.
        tensors: what they allocate, in the order of the graph.
    """

    layout: Layout
    D: int
    Dv: int
    pads_d: bool
    pads_value: bool
    transposes: bool
    tensors: tuple[GraphTensor, ...]

    @property
    def bytes(self) -> int:
        """Of all tensors together."""
        return sum(tensor.bytes for tensor in self.tensors)


def graph_of(params: FagParams, axes: Axes) -> Graph:
    """Return the graph of a call whose shapes the interface accepts.

    Args:
        params: of which layout, types, lengths and options are read.
        axes: as the tensors have them.
    """
    unit = _WIDE_D if axes.D >= _WIDE_D else _NARROW_UNIT
    is_empty = 0 in (axes.T1, axes.T2, axes.N1, axes.N2, axes.D)
    is_unaligned = axes.D % unit != 0 and not is_empty
    wide_d = align_up(axes.D, unit) if is_unaligned else axes.D
    transposes = not is_empty and max(_strides(params.layout, axes, wide_d)) > LONGEST_STRIDE
    pads_d = is_unaligned and not _stays_unaligned(params, axes, transposes)
    pads_value = axes.Dv != axes.D and not keeps_value(params, axes)
    d = wide_d if pads_d else axes.D
    d_value = axes.D if pads_value else axes.Dv
    graph = Graph(
        layout=_kernel_layout(params.layout, pads_d, transposes),
        D=d,
        Dv=d_value + d - axes.D,
        pads_d=pads_d,
        pads_value=pads_value,
        transposes=transposes,
        tensors=(),
    )
    return replace(graph, tensors=_Allocations(params, axes, graph).all())


def keeps_value(params: FagParams, axes: Axes) -> bool:
    """Return whether a value narrower than key goes to the kernel as it is: D = 192, Dv = 128, not deterministic."""
    return (axes.D, axes.Dv) == (192, 128) and not params.deterministic


def _strides(layout: Layout, axes: Axes, d: int) -> tuple[int, int]:
    """Elements between two rows of query, and of key; 0 where the length is the innermost axis but D."""
    match layout:
        case "BSH" | "BSND":
            return axes.N1 * d, axes.N2 * d
        case "SBH":
            return axes.B * axes.N1 * d, axes.B * axes.N2 * d
        case "BNSD" | "TND":
            return 0, 0


def _stays_unaligned(params: FagParams, axes: Axes, transposes: bool) -> bool:
    """Whether the kernel takes this D although it is no whole multiple."""
    if params.layout == "TND":
        return _stays_unaligned_tnd(params, axes)
    if transposes:
        return False
    is_short = max(axes.S1, axes.S2) <= 4096
    return axes.D == 192 or (axes.D in (72, 88) and is_short and axes.N1 == axes.N2 and params.layout != "BNSD")


def _stays_unaligned_tnd(params: FagParams, axes: Axes) -> bool:
    if params.deterministic:
        return False
    is_short = max(params.kv_lens, default=0) <= 1024 and sum(params.q_lens) < 160 * 1024
    has_lengths = len(params.q_lens) == len(params.kv_lens) and min(sum(params.q_lens), sum(params.kv_lens)) > 0
    return axes.D % 8 == 0 or (has_lengths and is_short and axes.D < 96 and params.keep_prob == 1)


def _kernel_layout(layout: Layout, pads_d: bool, transposes: bool) -> Layout:
    """A padded H is split into N and D, but for SBH, which the kernel knows as such only."""
    if transposes:
        return "BNSD"
    return "BSND" if pads_d and layout == "BSH" else layout


@dataclass(frozen=True, slots=True)
class _Allocations:
    """Lists the tensors of a graph."""

    params: FagParams
    axes: Axes
    graph: Graph

    def all(self) -> tuple[GraphTensor, ...]:
        return (*self._before(), *self._statistics(), *self._behind())

    def _before(self) -> list[GraphTensor]:
        """Of the inputs."""
        axes, graph = self.axes, self.graph
        found = []
        if graph.pads_value:
            found += [self._tensor(name, "widened", axes.D) for name in ("value", "dy", "attentionIn")]
        steps = [("padded", self.params.layout)] if graph.pads_d else []
        steps += [("transposed", "BNSD")] if graph.transposes else []
        for step, layout in steps:
            found += [self._tensor(name, step, graph.D, layout) for name in ("query", "key")]
            found += [self._tensor(name, step, graph.Dv, layout) for name in ("value", "dy", "attentionIn")]
        return found

    def _statistics(self) -> list[GraphTensor]:
        """Of the softmax statistics."""
        if self.params.layout != "TND" or self.params.softmax_in_layout != "same_as_input":
            return []
        shape = self.axes.N1, self.axes.T1, LANES
        return [GraphTensor(f"{name}_transposed", shape, FLOAT) for name in ("softmaxMax", "softmaxSum")]

    def _behind(self) -> list[GraphTensor]:
        """Of the gradients; the last step of each writes the caller's tensor and is left out."""
        found = []
        for name in ("dq", "dk", "dv"):
            found += self._steps_behind(name)[:-1]
        return found

    def _steps_behind(self, name: str) -> list[GraphTensor]:
        axes, graph = self.axes, self.graph
        is_value = name == "dv"
        wide = graph.Dv if is_value else graph.D
        steps = [self._tensor(name, "of_kernel", wide, graph.layout)]
        if graph.transposes:
            steps.append(self._tensor(name, "transposed", wide))
        if graph.pads_d:
            steps.append(self._tensor(name, "sliced", axes.D))
        if graph.pads_value and is_value:
            steps.append(self._tensor(name, "narrowed", axes.Dv))
        return steps

    def _tensor(self, name: str, step: str, d: int, layout: str = "") -> GraphTensor:
        """The tensor in a layout with H split into N and D, in which pad, transpose and slice see it."""
        axes = self.axes
        is_query_side = name in ("query", "dy", "attentionIn", "dq")
        heads, length, rows = (axes.N1, axes.S1, axes.T1) if is_query_side else (axes.N2, axes.S2, axes.T2)
        shapes: dict[str, Shape] = {
            "BSH": (axes.B, length, heads, d),
            "BSND": (axes.B, length, heads, d),
            "SBH": (length, axes.B, heads, d),
            "BNSD": (axes.B, heads, length, d),
            "TND": (rows, heads, d),
        }
        return GraphTensor(f"{name}_{step}", shapes[layout or self.params.layout], self.params.element)
