"""A call of LaserAttentionGrad, [lag], as a target of `ascendsim check`: what is refused, and what to know."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ascendsim.check_call import JudgedCall, options_of
from ascendsim.errors import Finding
from ascendsim.lag_answer import answer
from ascendsim.lag_request import request_of
from ascendsim.show_lag import head

_KEYS: Final = {
    "soc": "soc", "headNum": "head_num", "inputLayout": "layout", "scaleValue": "scale", "preTokens": "pre_tokens",
    "innerPrecise": "inner_precise", "keepProb": "keep_prob", "nextTokens": "next_tokens", "sparseMode": "sparse_mode",
    "attenMask": "mask",
}  # fmt: skip
"""Keys under [lag] by what a finding is about; anything else follows from the shape."""


def judge_call(file: Path, raw: Mapping[str, Any], changes: Mapping[str, Any], soc: str | None) -> JudgedCall:
    """Judge the call in a file.

    Args:
        file: the file.
        raw: what stands in it.
        changes: of its keys, such as {"lag.pre_tokens": 512}.
        soc: the part; None for the file's.

    Raises:
        InputError, DeviceError: the call cannot be read.
    """
    options = options_of(file, "lag", "pre_tokens", changes, soc)
    found = answer(request_of(str(file), options))
    given = {name for table in (raw["lag"], options) for name in table.get("tensors", {})}
    report = found.report
    facts: dict[str, Any] = {
        "stage": str(report.stage), "error": str(report.error), "workspace_bytes": report.workspace_bytes,
    }  # fmt: skip
    if report.tiling is not None:
        facts |= {"tiling_id": report.tiling.tiling_id, "block_dim": report.tiling.block_dim}
    findings = tuple(replace(finding, where=f"lag.{_key(finding, given)}") for finding in found.findings)
    return JudgedCall(findings, tuple(head(found)), {"lag": facts})


def _key(finding: Finding, given: set[str]) -> str:
    """Return the file's key that a finding is about; `given` are tensors that are not as the shape implies."""
    if finding.operand in given:
        return f"tensors.{finding.operand}"
    return _KEYS.get(finding.operand, "shape")
