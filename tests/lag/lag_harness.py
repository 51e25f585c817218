"""Calls of LaserAttentionGrad for tests: from golden rows, and by hand."""

import csv
from pathlib import Path

from ascendsim.lag_request import call_shapes
from ascendsim.op_host.laser_attention_grad import LaserAttentionGradParam, TensorDesc, Tensors

GOLDEN = Path(__file__).parent.parent / "golden"
EMPTY_LAYOUT = "lag007"
"""An empty cell is a parameter that is not given, and so the default. This row alone gives the layout, as an empty
text: nothing else in it is what creation refuses."""


def rows(name):
    with (GOLDEN / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def params_of_row(row):
    given = {"headNum": int(row["head_num"])}
    for column, name, kind in (
        ("input_layout", "inputLayout", str),
        ("scale_value", "scaleValue", float),
        ("pre_tokens", "preTokens", int),
        ("inner_precise", "innerPrecise", int),
    ):
        if row[column]:
            given[name] = kind(row[column])
    if row["other_params"]:
        given["rsv"] = (1, *(0,) * 7)
    if row["case_id"] == EMPTY_LAYOUT:
        given["inputLayout"] = ""
    return LaserAttentionGradParam(**given)


def tensors_of_row(row):
    return Tensors(_descs(row, "in"), _descs(row, "out") or None)


def _descs(row, what):
    if not row[f"{what}_shapes"]:
        return ()
    columns = (row[f"{what}_{name}"].split(";") for name in ("dtypes", "formats", "shapes"))
    return tuple(
        TensorDesc(dtype, form, () if shape == "0" else tuple(map(int, shape.split(","))))
        for dtype, form, shape in zip(*columns, strict=True)
    )


def shapes(layout="BNSD", batch=1, heads=4, kv_heads=4, length=1024, kv_length=None, size=128, has_mask=True):
    counts, lengths = (batch, heads, kv_heads), (length, kv_length or length)
    return call_shapes(layout, counts, lengths, size, has_mask=has_mask)
