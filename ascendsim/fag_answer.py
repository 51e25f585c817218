"""The answer of `ascendsim fag`: phase one's report, who computes what, memory maps and an estimate."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ascendsim.device import Device, load_device
from ascendsim.errors import Finding, InputError
from ascendsim.fag_request import Request
from ascendsim.op_host.fag_call import FagCall, read_shape
from ascendsim.op_host.fag_dealing import Block, Dealing, Share, dealing, shares, tiles_of_a_head, vector_step
from ascendsim.op_host.fag_estimate import Estimate, estimate
from ascendsim.op_host.fag_map import MemoryMap, memory_maps
from ascendsim.op_host.fag_platform import fag_platform
from ascendsim.op_host.fag_result import FagTiling
from ascendsim.op_host.fag_tiling_s1s2_bn2 import relabelled
from ascendsim.op_host.flash_attention_score_grad import WorkspaceReport, get_workspace_size
from ascendsim.terms import ceil_div


@dataclass(frozen=True, slots=True)
class Load:
    """How blocks are spread over the cores of the launch.

    Attributes:
        blocks: of each core.
        scores: of each core.
    """

    blocks: tuple[int, ...]
    scores: tuple[int, ...]

    @property
    def rounds(self) -> int:
        """Blocks of the core that has most."""
        return max(self.blocks)

    @property
    def busiest(self) -> int:
        """Core with most scores, the first of several."""
        return int(np.argmax(self.scores))

    @property
    def idlest(self) -> int:
        """Core with fewest scores, the first of several."""
        return int(np.argmin(self.scores))

    @property
    def balance(self) -> float:
        """Mean load against the largest; 1 is even."""
        return sum(self.scores) / len(self.scores) / max(self.scores)


@dataclass(frozen=True, slots=True)
class Work:
    """What one core does in a phase around the main one.

    Attributes:
        phase: pre, row term or post.
        cores: AIVs that take part.
        each: what each does (the last one less), by name: elements or rows.
        step: how much at a time; None where nobody says.
    """

    phase: str
    cores: int
    each: dict[str, int]
    step: int | None


@dataclass(frozen=True, slots=True)
class FagAnswer:
    """Everything that `ascendsim fag` says.

    Attributes:
        request: what was asked.
        device: the part.
        report: phase one's.
        call: as the kernel gets it; this and the rest None or empty without a kernel.
        dealt: who computes which scores.
        load: how even that is.
        work: of the other phases.
        maps: of the memories.
        estimate: of the time.
    """

    request: Request
    device: Device
    report: WorkspaceReport
    call: FagCall | None = None
    dealt: Dealing | None = None
    load: Load | None = None
    work: tuple[Work, ...] = ()
    maps: tuple[MemoryMap, ...] = ()
    estimate: Estimate | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What does not fit its memory."""
        return tuple(finding for found in self.maps for finding in found.findings())

    @property
    def is_refused(self) -> bool:
        """Whether the operator refuses the call, or a prescribed tile does not fit."""
        return self.report.status != 0 or bool(self.findings)

    def share_of(self, block: Block) -> tuple[Share, ...]:
        """Return how AIVs share a block; empty where they take whole heads."""
        tiling = self.report.tiling
        if self.call is None or self.dealt is None or tiling is None or tiling.split is not None:
            return ()
        return shares(block.rows, block.columns, self.dealt.cut, *vector_step(self.call, tiling, block.columns))

    def blocks_of(self, core: int) -> list[Block]:
        """Return the blocks of a core.

        Raises:
            InputError: no such core among those of the launch.
        """
        if self.dealt is None or self.load is None:
            raise InputError(f"--core {core}: there is no kernel, so no core has a block")
        count = len(self.load.blocks)
        if not 0 <= core < count:
            raise InputError(f"--core {core}: {self.dealt.kind.value}s are 0 to {count - 1}")
        return list(self.dealt.of_core(core)) if core < self.dealt.cores else []

    def to_dict(self, core: int | None = None) -> dict[str, Any]:
        """Return all of it for JSON, with the blocks of a core if one is named."""
        report, tiling = self.report, self.report.tiling
        found: dict[str, Any] = {
            "function": report.function,
            "interface": report.interface,
            "device": report.device,
            "status": report.status,
            "status_name": report.status_name,
            "returned_status": report.returned_status,
            "workspace_bytes": report.workspace_bytes,
            "total_bytes": report.total_bytes,
            "reasons": [{"status": r.status, **r.finding.to_dict()} for r in report.reasons],
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": [*self.request.notes, *report.notes],
        }
        if tiling is None:
            return found
        return found | _tiling_dict(report, tiling) | self._kernel_dict(core)

    def _kernel_dict(self, core: int | None) -> dict[str, Any]:
        dealt, load = self.dealt, self.load
        if dealt is None or load is None or self.call is None or self.estimate is None:
            return {}
        found: dict[str, Any] = {
            "kernel": asdict(self.call.shape),
            "dealing": {
                "kind": dealt.kind.value,
                "order": dealt.order,
                "count": dealt.count,
                "scores": dealt.scores,
                "rounds": load.rounds,
                "blocks": list(load.blocks),
                "busiest": load.busiest,
                "idlest": load.idlest,
                "balance": load.balance,
            },
            "work": [asdict(work) for work in self.work],
            "maps": [_map_dict(found) for found in self.maps],
            "estimate": asdict(self.estimate) | {"tflops": self.estimate.tflops},
        }
        if core is not None:
            blocks = self.blocks_of(core)
            found["core"] = {
                "core": core,
                "blocks": [{**asdict(b), "shares": [asdict(s) for s in self.share_of(b)]} for b in blocks],
            }
        return found


def _tiling_dict(report: WorkspaceReport, tiling: FagTiling) -> dict[str, Any]:
    names = ("template", "template_priority", "tiling_key", "block_dim")
    parts = ("key_fields", "tiles", "split", "offsets", "matmuls", "band", "pre", "row_term", "post")
    values = {name: getattr(tiling, name) for name in parts}
    return {
        **{name: getattr(tiling, name) for name in names},
        **{name: None if value is None else asdict(value) for name, value in values.items()},
        "terms": [asdict(term) for term in tiling.terms],
        "graph_tensors": [
            {"name": t.name, "shape": list(t.shape), "dtype": t.dtype.name, "bytes": t.bytes}
            for t in report.graph_tensors
        ],
        "passed_over": [asdict(passed) for passed in tiling.passed_over],
    }


def _map_dict(found: MemoryMap) -> dict[str, Any]:
    return {
        "phase": found.phase,
        "memory": found.memory.name,
        "capacity_bytes": found.capacity_bytes,
        "free_bytes": found.free_bytes,
        "note": found.note,
        "areas": [asdict(area) for area in found.areas],
    }


def answer(request: Request) -> FagAnswer:
    """Answer a request.

    Raises:
        DeviceError: no such part.
        InputError: a prescribed tile that the template has not, or parameters that the seed page has not.
    """
    device = load_device(request.soc)
    report = get_workspace_size(request.params, request.soc, interface=request.interface, override=request.override)
    tiling = report.tiling
    if tiling is None or report.kernel_params is None or not tiling.tiles or tiling.template == "empty_output":
        return FagAnswer(request, device, report)
    call = FagCall(report.kernel_params, read_shape(report.kernel_params), fag_platform(device))
    if tiling.template.startswith("S1s2Bn2") and not tiling.template.startswith("S1s2Bn2gs1s2"):
        call = relabelled(call)
    dealt = dealing(call, tiling)
    if dealt is None:
        tiles = tiles_of_a_head(call, tiling)
        told = f"{tiles:,} score tiles of a head are too many to say who computes which, and how long it takes"
        return FagAnswer(replace(request, notes=(*request.notes, told)), device, report, call)
    if dealt.count == 0:
        return FagAnswer(request, device, report, call)
    return FagAnswer(
        request=request,
        device=device,
        report=report,
        call=call,
        dealt=dealt,
        load=_load(dealt, device, tiling),
        work=_work(call, tiling),
        maps=memory_maps(call, tiling, device),
        estimate=estimate(call, tiling, dealt, device),
    )


def _load(dealt: Dealing, device: Device, tiling: FagTiling) -> Load:
    per_block = device.aiv // device.aic if dealt.kind.value == "AIV" else 1
    cores = max(dealt.cores, (tiling.block_dim or 0) * per_block)
    blocks = dealt.per_core(lambda group: np.ones(len(group)))
    scores = dealt.per_core(lambda group: group.scores.astype(np.float64))
    idle = (0,) * (cores - dealt.cores)
    return Load((*(round(x) for x in blocks), *idle), (*(round(x) for x in scores), *idle))


def _work(call: FagCall, tiling: FagTiling) -> tuple[Work, ...]:
    found = []
    pre, row_term, post = tiling.pre, tiling.row_term, tiling.post
    if pre is not None:
        each = {"dQ zeroed": pre.dq_elements, "dK zeroed": pre.dk_elements, "dV zeroed": pre.dv_elements}
        each = {name: count for name, count in each.items() if count}
        if pre.expands_mask:
            each["mask bits to bytes"] = pre.mask_elements
        if each:
            found.append(Work("pre", pre.cores, each, pre.mask_step_elements if pre.expands_mask else None))
    if row_term is not None:
        found.append(Work("row term", row_term.cores, {"rows": row_term.rows_per_core}, row_term.rows_per_step))
    if post is not None:
        shape = call.shape
        sums = {"dQ": shape.q_rows * shape.d, "dK": shape.kv_rows * shape.d}
        if tiling.offsets is None or tiling.offsets.dv is not None:
            sums["dV"] = shape.kv_rows * shape.dv
        each = {name: ceil_div(count, post.cores) for name, count in sums.items()}
        found.append(Work("post", post.cores, each, post.step_elements))
    return tuple(found)
