"""The answer of `ascendsim lag`: checks, tiling, workspace, who computes which blocks, and an estimate."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ascendsim.errors import Finding, InputError
from ascendsim.lag_request import LagRequest
from ascendsim.op_host.lag_blocks import BlockMap, Segment, block_map
from ascendsim.op_host.lag_estimate import LagEstimate, computed_blocks, lag_estimate
from ascendsim.op_host.lag_params import MapKind
from ascendsim.op_host.laser_attention_grad import LagReport, setup


@dataclass(frozen=True, slots=True)
class LagLoad:
    """How blocks are spread over AICs.

    Attributes:
        blocks: computed by each.
        slots: taken by each, skipped ones too.
    """

    blocks: tuple[int, ...]
    slots: tuple[int, ...]

    @property
    def busiest(self) -> int:
        """Core that computes most blocks, the first of several."""
        return int(np.argmax(self.blocks))

    @property
    def idlest(self) -> int:
        """Core that computes fewest, the first of several."""
        return int(np.argmin(self.blocks))

    @property
    def balance(self) -> float:
        """Mean load against the largest; 1 is even."""
        return sum(self.blocks) / len(self.blocks) / max(self.blocks)


@dataclass(frozen=True, slots=True)
class LagAnswer:
    """Everything that `ascendsim lag` says.

    Attributes:
        request: what was asked.
        report: the operator's.
        blocks: of the operator or, as asked, unfolded; this and the rest None if the call is refused.
        load: how even the blocks are.
        estimate: of the time.
    """

    request: LagRequest
    report: LagReport
    blocks: BlockMap | None = None
    load: LagLoad | None = None
    estimate: LagEstimate | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was taken for what."""
        return (*self.request.notes, *self.report.notes)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The refusal, or what to know."""
        return self.report.findings

    @property
    def is_refused(self) -> bool:
        """Whether the operator refuses the call, or what it makes of it cannot work."""
        return any(finding.severity.value == "E" for finding in self.findings)

    def rounds_of(self, core: int) -> list[tuple[int, tuple[Segment, ...]]]:
        """Return (round, segments) of a core.

        Raises:
            InputError: no such core among those of the launch.
        """
        if self.blocks is None:
            raise InputError(f"--core {core}: the call is refused, so no core has a block")
        if not 0 <= core < self.blocks.cores:
            raise InputError(f"--core {core}: AICs are 0 to {self.blocks.cores - 1}")
        return list(self.blocks.rounds_of(core))

    def round_of(self, turn: int) -> list[tuple[int, tuple[Segment, ...]]]:
        """Return (core, segments) of a round.

        Raises:
            InputError: no such round.
        """
        if self.blocks is None:
            raise InputError(f"--round {turn}: the call is refused, so there is no round")
        if not 0 <= turn < self.blocks.rounds:
            raise InputError(f"--round {turn}: rounds are 0 to {self.blocks.rounds - 1}")
        return [(core, self.blocks.segments(turn, core)) for core in range(self.blocks.cores)]

    def to_dict(self, core: int | None = None, turn: int | None = None) -> dict[str, Any]:
        """Return all of it for JSON, with the rounds of a core, and the cores of a round, if they are named."""
        report, tiling = self.report, self.report.tiling
        found: dict[str, Any] = {
            "operation": report.operation,
            "device": report.soc,
            "stage": str(report.stage),
            "error": str(report.error),
            "message": report.message,
            "workspace_bytes": report.workspace_bytes,
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": list(self.notes),
        }
        if tiling is None or self.blocks is None or self.load is None or self.estimate is None or report.call is None:
            return found
        found |= {
            "call": asdict(report.call),
            "outputs": [list(desc.dims) for desc in report.outputs],
            "tiling": tiling.fields(),
            "terms": [asdict(term) for term in tiling.terms],
            "blocks": _blocks_dict(self.blocks, self.load),
            "estimate": asdict(self.estimate) | {"tflops": self.estimate.tflops},
        }
        if core is not None:
            rounds = self.rounds_of(core)
            found["core"] = {"core": core, "rounds": [{"round": t, "segments": _segments(s)} for t, s in rounds]}
        if turn is not None:
            cores = self.round_of(turn)
            found["round"] = {"round": turn, "cores": [{"core": c, "segments": _segments(s)} for c, s in cores]}
        return found


def _blocks_dict(blocks: BlockMap, load: LagLoad) -> dict[str, Any]:
    return {
        "kind": blocks.kind.value,
        "rows": blocks.rows,
        "columns": blocks.columns,
        "total": blocks.total_blocks,
        "rounds": blocks.rounds,
        "cores": blocks.cores,
        "computed": list(load.blocks),
        "slots": list(load.slots),
        "busiest": load.busiest,
        "idlest": load.idlest,
        "balance": load.balance,
    }


def _segments(segments: tuple[Segment, ...]) -> list[dict[str, Any]]:
    names = ("batch", "head", "strip", "part", "row", "lines", "column", "columns", "slot")
    return [
        {name: getattr(segment, name) for name in names} | {"computed": segment.computed_blocks} for segment in segments
    ]


def answer(request: LagRequest) -> LagAnswer:
    """Answer a request.

    Raises:
        DeviceError: no such part.
        InputError: an unfolded triangle is asked for, and the call has none.
    """
    report = setup(request.params, request.tensors, request.soc, vendor_quirks=request.vendor_quirks)
    call, tiling = report.call, report.tiling
    if call is None or tiling is None or report.device is None:
        return LagAnswer(request, report)
    blocks = tiling.blocks
    if request.is_unfolded:
        if call.map_kind is not MapKind.TRIANGLE:
            raise InputError(
                f"--order unfolded: the call computes a {call.map_kind.value} map; only a whole triangle (a mask, and "
                "pre_tokens as long as query) can be compared with an unfolded one"
            )
        blocks = block_map(call, tiling.block_dim, MapKind.UNFOLDED)
    counts = (blocks.per_core(computed_blocks), blocks.per_core(_slots))
    computed, slots = (tuple(round(count) for count in found) for found in counts)
    estimate = lag_estimate(call, tiling, blocks, report.device)
    return LagAnswer(request, report, blocks, LagLoad(computed, slots), estimate)


def _slots(segments: tuple[Segment, ...]) -> int:
    return sum(segment.slots for segment in segments)
