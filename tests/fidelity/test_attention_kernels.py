"""Published times of attention backward: what each row is compared with, and how a large problem is cut down."""

from dataclasses import replace

import pytest

from ascendsim.device import load_device
from ascendsim.fidelity.kernels import attention
from ascendsim.fidelity.kernels.attention import CATEGORY, Problem, compared, even_heads, predict_attention
from ascendsim.fidelity.measured import Uncovered, read_kernels

DEVICE = load_device("Ascend910B1")
ROWS = {row.id: row for row in read_kernels() if row.category == CATEGORY}
PROBLEMS = {
    "kn0470": Problem("fp16", 16, 16, 1024, 192, 128, None),
    "kn0475": Problem("fp16", 8, 8, 4096, 128, 128, 128),
    "kn0477": Problem("fp16", 8, 8, 4096, 128, 128, 128),
    "kn0480": Problem("fp16", 32, 16, 2048, 128, 128, 2048),
    "kn0481": Problem("fp16", 32, 16, 2048, 128, 128, 2048),
}
TFLOPS = {"kn0470": 12.97, "kn0475": 7.67, "kn0480": 12.06}
"""As the source states them, of backward alone."""


def test_every_shipped_row_with_a_time_is_read():
    assert {name: attention.problem_of(row) for name, row in ROWS.items()} == PROBLEMS


def test_the_problems_are_those_of_the_published_tflops():
    """Five products of the scores that the mask leaves; a causal mask counts as half, as is usual."""
    for name, tflops in TFLOPS.items():
        p = PROBLEMS[name]
        scores = p.s * p.s if p.window is None else p.s * p.s / 2 if p.window == p.s else p.s * p.window
        flop = p.heads * p.g * scores * 2 * (3 * p.d + 2 * p.dv)
        assert flop / (ROWS[name].us * 1e6) == pytest.approx(tflops, rel=0.02)


def test_what_is_compared_is_said():
    same = "another implementation, for the same problem"
    assert compared(ROWS["kn0470"]) == same
    assert compared(ROWS["kn0475"]) == f"{same}; without the attention sink, which the operator has not"
    assert "the row holds forward and backward, the prediction backward alone" in compared(ROWS["kn0477"])
    assert "batches of one length" in compared(ROWS["kn0480"])


@pytest.mark.parametrize(
    ("problem", "heads"),
    [
        (PROBLEMS["kn0470"], 16),  # 1,024 blocks: whole
        (PROBLEMS["kn0480"], 6),  # 160 blocks of a key head: 3 of them give 24 cores 20 each
    ],
)
def test_key_heads_that_are_simulated(problem, heads):
    assert even_heads(problem, DEVICE) == heads


def test_a_part_of_many_key_heads_stands_for_all(monkeypatch):
    many = Problem("fp16", 24, 2, 1024, 64, 64, None)  # 8 blocks of a key head: 6 give every core two
    whole = attention.predicted(many, attention.Part("whole", DEVICE))
    monkeypatch.setattr(attention, "WHOLE_BLOCKS", 48)
    assert even_heads(many, DEVICE) == 6
    part = attention.predicted(many, attention.Part("part", DEVICE))
    assert part.us == pytest.approx(whole.us, rel=0.1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dtype": "int8"}, "element type 'int8'"),
        ({"shape": "B=1 S=1024"}, "no batches, heads and rows in 'B=1 S=1024'"),
        ({"shape": "B=1 H=6 Hkv=4 S=1024 D=64"}, "6 heads in .* are no multiple of its key heads"),
        ({"shape": "B=1 H=6 S=1024 D=64"}, "no query heads of a key head in"),
        ({"shape": "B=1 H=4 G=4 S=2000000 D=64"}, "too many blocks of scores for a key head|refuses the call"),
        ({"shape": "B=4 H=4 G=4 S=65536 D=64"}, "65536 blocks of scores for a key head; up to 8192 are recorded"),
    ],
)
def test_what_cannot_be_predicted_says_why(changes, said):
    with pytest.raises(Uncovered, match=said):
        predict_attention(replace(ROWS["kn0470"], **changes), DEVICE)
