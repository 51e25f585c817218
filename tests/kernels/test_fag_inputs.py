"""FlashAttention backward in scenarios: its optional inputs, what is told of them, and what is refused."""

import numpy as np
import pytest
from same_ab_scenario import scenario

from ascendsim import machine
from ascendsim.dtypes import HALF
from ascendsim.errors import InputError, Severity
from ascendsim.fag_operator import FagKeys, fag_made
from ascendsim.scenario import TensorSpec

SMALL = (2, 1, 64, 32, 32, 32)


def with_tensors(case, **specs):
    """A scenario with further tensors; a list is the shape of an input of zeros."""
    made = {
        name: spec if isinstance(spec, TensorSpec) else TensorSpec(role="input", shape=spec, dtype="half", fill="zeros")
        for name, spec in specs.items()
    }
    return case.model_copy(update={"tensors": dict(case.tensors) | made})


def told(result):
    return [f for f in result.findings if "-FAG-" in f.code]


CASES = {
    "a bias of one row, multiplied before it is added": scenario(
        (2, 2, 32, 64, 32, 32), (32, 32), pse=[2, 2, 1, 64], pse_type=0, dtype="half"
    ),
    "a bias of one batch": scenario((2, 2, 64, 32, 32, 32), (32, 32), pse=[1, 2, 64, 32], dtype="half"),
    "prefixes in a mask": scenario(
        (2, 1, 64, 64, 32, 32), (32, 32), mask=[2, 1, 64, 64], sparse_mode=5, prefix=[10, 40], dtype="half"
    ),
    "prefixes, compressed": scenario(
        (2, 1, 64, 64, 32, 32), (32, 32), mask=[3072, 2048], sparse_mode=6, prefix=[10, 40], dtype="half"
    ),
}
HIDDEN = {
    "bottom right, whole blocks without a key": (
        scenario(SMALL, (32, 32), mask=[2048, 2048], sparse_mode=3, dtype="half"),
        "every batch and head: rows 0..31",
    ),
    "a band, some of a block": (
        scenario(
            (1, 1, 64, 64, 32, 32), (32, 32), mask=[2048, 2048], sparse_mode=4, pre_tokens=-20, next_tokens=40,
            dtype="half",
        ),
        "every batch and head: rows 44..63",
    ),
    "a mask with tokens": (
        scenario((1, 1, 32, 64, 32, 32), (32, 32), mask=[1, 1, 32, 64], next_tokens=-8, dtype="half"),
        "every batch and head: rows 0..7",
    ),
    "prefixes of which one is 0": (
        scenario((2, 1, 80, 64, 32, 32), (32, 32), mask=[3072, 2048], sparse_mode=6, prefix=[0, 8], dtype="half"),
        "b 0, every head: rows 0..15",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_with_optional_inputs(case):
    result = machine.run(case)
    assert [(e.what, e.met) for e in result.expectations] == [(f"values of {n}", True) for n in ("dq", "dk", "dv")]
    assert not [f for f in result.findings if f.severity is Severity.ERROR or f in told(result)]


@pytest.mark.parametrize(("case", "rows"), HIDDEN.values(), ids=HIDDEN)
def test_rows_without_a_key_are_as_the_kernel_has_them(case, rows):
    """P is 1 / S2 in the blocks that are computed; how far P = 0 would be away stands beside."""
    result = machine.run(case)
    assert [e.met for e in result.expectations] == [True] * 3
    for expectation in result.expectations:
        assert "; rows without a key have P = 1/S2 here, with P = 0 values are up to " in expectation.got
    assert [(f.code, f.message.rpartition("; ")[2]) for f in told(result)] == [("W-FAG-HIDDEN", rows)]


def test_a_check_tells_rows_without_a_key_of_a_compressed_mask():
    case, rows = HIDDEN["a band, some of a block"]
    assert [f.message.rpartition("; ")[2] for f in machine.check(case) if f.code == "W-FAG-HIDDEN"] == [rows]


def test_what_is_not_read_and_not_written_is_told():
    case = scenario((1, 1, 32, 32, 32, 32), (32, 32), pse=[1, 1, 32, 32], inner_precise=1)
    dpse = TensorSpec(role="output", shape=[1, 1, 32, 32], dtype="bfloat16_t")
    result = machine.run(with_tensors(case, padding_mask=[7], softmax_in=[1, 2], dpse=dpse))
    assert [(f.code, f.where) for f in told(result)] == [
        ("I-FAG-IGNORED", "tensors.padding_mask"),
        ("I-FAG-IGNORED", "tensors.softmax_in"),
        ("I-FAG-IGNORED", "tiling.inner_precise"),
        ("I-FAG-DPSE", "tensors.dpse"),
    ]
    assert (result.outputs["dpse"].view(np.uint8) == 0xFF).all()
    assert not [f for f in result.findings if f.code == "W-MEM-OUTPUT"]


def test_no_reference_for_what_is_never_written():
    case = scenario((1, 1, 32, 32, 32, 32), (32, 32))
    dpse = TensorSpec(role="output", shape=[1, 1, 32, 32], dtype="bfloat16_t")
    values = {"dpse": case.expect.values["dq"]}
    case = with_tensors(case, dpse=dpse).model_copy(
        update={"expect": case.expect.model_copy(update={"values": values})}
    )
    with pytest.raises(InputError, match=r"expect.values.dpse: flash_attention_score_grad never writes dpse"):
        machine.run(case)


ONE = (1, 1, 32, 32, 32, 32)


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (
            lambda: scenario(ONE, None, mask=[32, 16]),
            r"tensors.atten_mask has last axes \(32, 16\): sparse_mode 0 wants a mask of S1 x S2, \(32, 32\)",
        ),
        (
            lambda: scenario(ONE, None, mask=[1, 32, 32]),
            r"tensors.atten_mask has shape \(1, 32, 32\): must have two axes, or four of which the first two are one",
        ),
        (
            lambda: with_tensors(scenario(ONE, None), atten_mask=[32, 32]),
            "tensors.atten_mask is half: must be uint8_t or bool, 1 = not computed",
        ),
        (lambda: scenario(ONE, None, drops=True, keep_prob=0.0), "tiling.keep_prob = 0.0: must be above 0 and at most"),
        (
            lambda: scenario(ONE, None, keep_prob=0.5),
            "tiling.keep_prob = 0.5 drops scores: give drop_mask, one bit for each, or keep_prob 1",
        ),
        (
            lambda: with_tensors(
                scenario(ONE, None, keep_prob=0.5),
                drop_mask=TensorSpec(role="input", shape=[127], dtype="uint8_t", fill="zeros"),
            ),
            r"tensors.drop_mask has shape \(127,\), 127 bytes: 1024 scores need 128",
        ),
        (lambda: scenario(ONE, None, sparse_mode=9), "tiling.sparse_mode = 9: must be 0..8"),
        (lambda: scenario(ONE, None, sparse_mode=7), "tiling.sparse_mode = 7 is for layout TND only, not BNSD"),
        (lambda: scenario(ONE, None, pse_type=4), "tiling.pse_type = 4: must be 0..3"),
        (lambda: scenario(ONE, None, pse_type=0), "tiling.pse_type = 0 without pse: give pse, or leave pse_type at 1"),
        (
            lambda: scenario(ONE, None, pse=[1, 1, 16, 32]),
            r"tensors.pse_shift has shape \(1, 1, 16, 32\): must be \(1, 1, 32, 32\), \(1, 1, 1, 32\), \(1",
        ),
        (
            lambda: with_tensors(
                scenario(ONE, None, pse_type=2),
                pse_shift=TensorSpec(role="input", shape=[1], dtype="float", fill="ones"),
            ),
            r"tiling.pse_type = 2: the bias is made from slopes inside; the host answers \(ascendsim fag\), a",
        ),
        (
            lambda: scenario(ONE, None, mask=[3072, 2048], sparse_mode=6),
            "tiling.prefix has shape None: sparse_mode 6 wants one number for each of 1 batches",
        ),
        (
            lambda: scenario(ONE, None, mask=[32, 32], sparse_mode=5, prefix=[1, 2]),
            "tiling.prefix has 2 numbers: must be one for each of 1 batches",
        ),
        (
            lambda: scenario(ONE, None, mask=[2048, 2048], sparse_mode=4, pre_tokens=-40),
            "tiling.pre_tokens = -40, next_tokens = 65536: no score of 32 x 32 lies in this band",
        ),
    ],
)
def test_refusals_name_the_key(case, text):
    with pytest.raises(InputError, match=f"^{text}"):
        machine.check(case())


def test_prefixes_outside_the_keys_are_refused():
    for prefix, limits in ((33, "0..32"), (-1, "0..32")):
        case = scenario((1, 1, 64, 32, 32, 32), None, mask=[3072, 2048], sparse_mode=6, prefix=[prefix])
        with pytest.raises(InputError, match=f"tiling.prefix of batch 0 is {prefix}: must be {limits}"):
            machine.check(case)


def made(shape, keys, **shapes):
    """What fill = "operator" makes for one batch and head of so many queries and keys."""
    s1, s2 = shape
    inputs = {name: np.zeros((1, 1, s, 4), np.float16) for name, s in (("query", s1), ("key", s2), ("value", s2))}
    return fag_made(inputs, FagKeys(head_num=1, **keys), shapes)


def test_masks_that_are_made():
    found = made((3, 5), {"sparse_mode": 5, "prefix": [2]}, atten_mask=((1, 1, 3, 5), None))["atten_mask"]
    assert found[0, 0].tolist() == [[0, 0, 0, 1, 1], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]
    small = made((3, 5), {"sparse_mode": 6, "prefix": [2]}, atten_mask=((3072, 2048), None))["atten_mask"]
    assert small[:3, :4].tolist() == [[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]
    assert small[2048:, :1024].sum() == 0
    assert small[2048:, 1024:].all()
    with pytest.raises(
        InputError, match=r"tensors.atten_mask.shape = \[3, 5\]: each batch has its own prefix; must be"
    ):
        made((3, 5), {"sparse_mode": 5, "prefix": [2, 3]}, atten_mask=((3, 5), None))


def test_a_bias_that_is_made_falls_with_the_distance():
    step = -(2.0**-8)
    found = made((2, 3), {}, pse_shift=((1, 1, 2, 3), HALF))["pse_shift"]
    assert found[0, 0].tolist() == [[step, 0, step], [2 * step, step, 0]]
    last = made((2, 3), {}, pse_shift=((1, 1, 1, 3), HALF))["pse_shift"]
    assert last[0, 0].tolist() == [[2 * step, step, 0]]


def test_a_mask_of_bools_comes_from_a_file(tmp_path):
    np.save(tmp_path / "mask.npy", np.triu(np.ones((32, 32), np.bool_), 1))
    case = scenario(ONE, (32, 32), mask=[32, 32], next_tokens=0, dtype="half")
    spec = TensorSpec(role="input", shape=[32, 32], dtype="bool", file="mask.npy")
    made_by_tokens = machine.run(case)
    loaded = machine.run(with_tensors(case, atten_mask=spec).model_copy(update={"folder": tmp_path}))
    assert [e.met for e in loaded.expectations] == [True] * 3
    assert loaded.outputs["dq"].tobytes() == made_by_tokens.outputs["dq"].tobytes()


def test_values_of_arrays_have_to_be_handed_over():
    case = with_tensors(
        scenario(ONE, (32, 32), dtype="half"),
        dy=TensorSpec(role="input", shape=[1, 1, 32, 32], dtype="half", fill="array"),
    )
    with pytest.raises(InputError, match=r'tensors.dy.fill = "array": its values come with a call \(ascendsim.run'):
        machine.run(case)
    with pytest.raises(InputError, match=r"tensors.dy: the array is float64 \[1, 1, 32, 32\], must be half \[1, 1, 32"):
        machine.run(case, arrays={"dy": np.zeros((1, 1, 32, 32))})
    done = machine.run(case, arrays={"dy": np.zeros((1, 1, 32, 32), np.float16)})
    assert not done.outputs["dv"].any()
