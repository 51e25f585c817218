"""A call of FlashAttentionScoreGrad, [fag], as a target of `ascendsim check`: what is refused, and what to know."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ascendsim.check_call import JudgedCall, options_of
from ascendsim.errors import Finding
from ascendsim.fag_answer import FagAnswer, answer
from ascendsim.fag_notes import notes
from ascendsim.fag_request import request_of
from ascendsim.op_host.fag_rules import Reason
from ascendsim.show_fag import head

_KEYS: Final = {
    "attenMask": "atten_mask", "pseShift": "pse", "dropMask": "drop_mask", "headNum": "head_num", "prefix": "prefix",
    "sparseMode": "sparse_mode", "keepProb": "keep_prob", "preTokens and nextTokens": "pre_tokens",
    "pseType": "pse_type", "inputLayout": "layout", "actualSeqQLen": "q_lens", "actualSeqKvLen": "kv_lens",
    "device": "soc", "constraints": "shape", "query": "shape", "key": "shape", "value": "shape",
}  # fmt: skip
"""Keys under [fag] by the argument that a reason is about."""
_NOTED: Final = {
    "tensors.padding_mask": "tensors.paddingMask", "tensors.softmax_in": "tensors.softmaxIn",
    "tensors.dpse": "tensors.dpse", "tensors.drop_mask": "drop_mask", "tensors.atten_mask": "atten_mask",
    "tiling.inner_precise": "inner_precise", "tiling.prefix": "prefix",
}  # fmt: skip
"""Keys under [fag] by those of a scenario."""
_FACTS: Final = ("status", "status_name", "workspace_bytes", "total_bytes")


def judge_call(file: Path, raw: Mapping[str, Any], changes: Mapping[str, Any], soc: str | None) -> JudgedCall:
    """Judge the call in a file.

    Args:
        file: the file.
        raw: what stands in it.
        changes: of its keys, such as {"fag.sparse_mode": 3}.
        soc: the part; None for the file's.

    Raises:
        InputError, DeviceError: the call cannot be read.
    """
    found = answer(request_of(str(file), options_of(file, "fag", "sparse_mode", changes, soc)))
    said = raw["fag"] if isinstance(raw["fag"], dict) else {}
    report = found.report
    facts = {name: getattr(report, name) for name in _FACTS}
    facts |= {"template": report.template, "tiling_key": report.tiling_key, "block_dim": report.block_dim}
    return JudgedCall(tuple(_findings(found, said)), tuple(head(found)), {"fag": facts})


def _findings(found: FagAnswer, said: Mapping[str, Any]) -> Iterator[Finding]:
    yield from (_of_reason(reason, said) for reason in found.report.reasons)
    yield from found.findings
    params = found.request.params
    masks = {"atten_mask": "attenMask", "drop_mask": "dropMask", "padding_mask": "paddingMask"}
    named = masks | {"softmax_in": "softmaxIn"}
    given = [snake for snake, name in named.items() if params.shape_of(name)]
    if params.given("dpse") is not None and params.shape_of("dpse"):
        given.append("dpse")
    for note in notes(params, given, None):
        yield replace(note, where=f"fag.{_NOTED.get(note.where, note.where)}")


def _of_reason(reason: Reason, said: Mapping[str, Any]) -> Finding:
    """Return a reason with the file's key; a limit that the page ties to no return code is a warning."""
    argument = reason.where.partition(": ")[2]
    tensors = said.get("tensors")
    is_tensor = isinstance(tensors, dict) and argument in tensors
    key = f"tensors.{argument}" if is_tensor else _KEYS.get(argument, "")
    level = reason.finding.level if reason.status is not None else "W"
    return replace(reason.finding, where=f"fag.{key}" if key else reason.where, level=level)
