"""Why the model is far off some measurements: what is known of each kind, by rules over what a row states."""

from collections.abc import Callable

from ascendsim.fidelity.measured import Measured

UNKNOWN = "not known"


def why_off(row: Measured, predicted: float) -> str:
    """Return why a prediction lies far from what was measured, `UNKNOWN` if nobody found out."""
    return next((reason for applies, reason in _REASONS if applies(row, predicted)), UNKNOWN)


def _is_april(row: Measured) -> bool:
    return row.family == "pto_tileop" and "campaign A" in row.conditions


_REASONS: tuple[tuple[Callable[[Measured, float], bool], str], ...] = (
    (
        lambda row, _: row.op.startswith("TCOL"),
        "how columns are folded is not published; rebuilt row by row behind barriers",
    ),
    (lambda row, _: row.op == "TSEL", "rebuilt with a compare mask for each repeat; what was measured sets fewer"),
    (lambda row, _: row.op == "TLOAD", "whether the tile was loaded as often as its shape in GM says is not stated"),
    (
        lambda row, predicted: _is_april(row) and predicted > row.cycles,
        "April campaign: less than start, drain and repeats of the June one",
    ),
    (
        lambda row, predicted: _is_april(row) and predicted < row.cycles,
        "April campaign: a repeat for each row, though in one piece",
    ),
    (lambda row, _: row.op == "VECTORDUP", "the least distance of two Duplicates is one for all types"),
    (lambda row, _: row.op in ("VREDUCE", "VREDUCEV2"), "one repeat of GatherMask is faster than a share of many"),
    (
        lambda row, _: row.op == "reduce_sequence",
        "read from a counter: reading it, and setting masks between, counts too",
    ),
    (
        lambda row, predicted: row.family == "pto_tileop_a5" and row.op == "TCVT" and predicted < row.cycles,
        "published with more cycles than five iterations of it",
    ),
    (
        lambda row, _: row.family == "ascendc_reg",
        "the page's cycles are not of one call; only the cases' proportions compare",
    ),
)
