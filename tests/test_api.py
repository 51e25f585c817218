"""The public calls: what they refuse, what they warn of, and what never runs."""

import numpy as np
import pytest

import ascendsim as asc
from ascendsim.analysis import double_sets
from ascendsim.errors import InputError, KernelError, Rejected
from ascendsim.words import why

SRC = np.full((4, 16), 1 / 16, np.float32)
GRAD = np.arange(64, dtype=np.float32).reshape(4, 16)

USER_KERNEL = """
from ascendsim import TPosition

def main(asc, y, t):
{body}
"""

SCENARIO = """
schema = 1
name = "user"
device = "Ascend910B1"
kernel = "user.py:main"
block_dim = 1
[tensors.y]
shape = [64]
dtype = "{dtype}"
role = "output"
"""


def refused(**options):
    with pytest.raises(InputError) as caught:
        asc.softmax_grad(GRAD, SRC, **options)
    return str(caught.value)


@pytest.fixture
def scenario(tmp_path):
    def make(body, dtype="float"):
        lines = "\n".join("    " + line for line in body.strip().split("\n"))
        (tmp_path / "user.py").write_text(USER_KERNEL.format(body=lines))
        (tmp_path / "user.toml").write_text(SCENARIO.format(dtype=dtype))
        return tmp_path / "user.toml"

    return make


@pytest.mark.parametrize("tmp_bytes", ["max", 0, -32, 1.5])
def test_a_temp_is_a_number_of_bytes(tmp_bytes):
    assert refused(tmp_bytes=tmp_bytes) == (
        f'tmp_bytes={tmp_bytes!r}: must be 1 .. 1073741824, or "framework", or None for the maximum that fits'
    )


def test_the_overflow_mode_is_one_of_two():
    assert refused(half_overflow="x") == 'half_overflow=\'x\': must be "inf_nan", "saturate" or None'


def test_the_original_shape_has_two_axes():
    assert refused(ori_shape=(4,)) == "ori_shape=(4,): must be (rows, columns) that hold data"


def test_row_sums_do_not_fit_on_the_source():
    assert refused(is_front=True, reuse_source=True) == (
        "reuse_source=True with is_front=True: the row sums are too short for src; leave one out"
    )


@pytest.mark.parametrize(
    ("ori", "axis", "got", "wanted"),
    [
        ((4, 17), "ori_src_k", 17, 16),
        ((4, 0), "ori_src_k", 0, 16),
        ((5, 16), "ori_src_m", 5, 4),
        ((0, 8), "ori_src_m", 0, 4),
    ],
)
def test_the_original_shape_lies_inside_the_padded_one(ori, axis, got, wanted):
    with pytest.raises(Rejected) as caught:
        asc.softmax_grad(GRAD, SRC, ori_shape=ori)
    (finding,) = caught.value.findings
    assert (finding.code, finding.message) == ("E-SMG-ORI", f"SoftmaxGrad {axis} is {got}, outside 1 .. {wanted}")


def test_the_frameworks_temp_is_no_use_of_ub_by_itself():
    result = asc.softmax_grad(GRAD, SRC, tmp_bytes="framework")
    assert result.findings == ()
    assert np.array_equal(result.outputs["dst"], asc.softmax_grad(GRAD, SRC).outputs["dst"])


def test_values_that_are_not_finite_are_warned_of():
    grad = GRAD.copy()
    grad[2, 3] = np.inf
    result = asc.softmax_grad(grad, SRC)
    assert [(f.code, f.message) for f in result.findings] == [
        ("W-NUM-NAN", "input grad holds 1 NaN or infinite values, the first at element [2, 3]"),
        ("W-NUM-NAN", "output dst holds 16 NaN or infinite values, the first at element [2, 0]"),
    ]


def test_a_temp_too_small_for_a_tail_is_named_by_its_rule():
    changes = {"tiling.tile_m": 8, "tiling.tmp_bytes": 4000}
    with pytest.raises(Rejected) as caught:
        asc.run("softmaxgrad_960x960_float", set=changes)
    found = [(f.code, f.message) for f in caught.value.findings]
    assert (
        "E-TMP-SMALL",
        "SoftmaxGrad temp has 4000 B, the minimum for last axis 960 is 4160 B",
    ) in found


@pytest.mark.parametrize("dtype", ["float", "int32_t"])
def test_an_output_that_nobody_wrote_is_warned_of(scenario, dtype):
    body = """
pipe = asc.t_pipe()
queue = asc.t_que(TPosition.VECOUT, 1, "out")
pipe.init_buffer(queue, 1, 128)
local = queue.alloc_tensor(y.dtype)
asc.duplicate(local, 1, 32)
queue.enque(local)
local = queue.deque(y.dtype)
asc.data_copy(y, local, 32)
queue.free_tensor(local)
"""
    result = asc.run(scenario(body, dtype))
    assert [(f.code, f.message) for f in result.findings] == [
        ("W-MEM-OUTPUT", "128 B of GM tensor y were never written, the first at byte 128")
    ]


def test_a_recording_that_had_to_stop_never_runs(scenario):
    path = scenario("asc.t_pipe()\nasc.t_pipe()")
    with pytest.raises(Rejected) as caught:
        asc.run(path, despite_findings=True)
    assert [f.code for f in caught.value.findings] == ["E-PIPE-MULTI"]


def test_a_kernel_may_not_end_the_program(scenario):
    with pytest.raises(KernelError) as caught:
        asc.run(scenario("import sys\nsys.exit(3)"))
    assert str(caught.value) == "user.py:6: the kernel ended the program (sys.exit); let it return"


BUFFERS = {"tiling.tile_m": 4, "queues.in_grad.num": 4, "queues.in_p.num": 4}


def test_a_flag_that_is_set_again_before_its_wait_is_warned_of():
    result = asc.run("softmaxgrad_960x960_float", set=BUFFERS)
    assert {f.code for f in result.findings} == {"W-SYNC-DUPLICATE"}
    assert {f.message.partition(" is set again before the wait for it")[0] for f in result.findings} == {
        "flag V_MTE2 id 0 (queue in_grad)",
        "flag V_MTE2 id 1 (queue in_p)",
    }
    values = next(e for e in result.expectations if e.what == "values of dst")
    assert values.met


def test_two_buffers_set_no_flag_twice():
    result = asc.run("vector_add")
    assert double_sets(result.program, result.timeline) == ()


def test_a_result_is_short_when_printed():
    result = asc.softmax_grad(GRAD, SRC)
    assert repr(result) == (
        f"RunResult(softmax_grad on Ascend910B1: {result.makespan_cycles} cycles, outputs dst, 0 findings)"
    )


def test_changes_may_be_numbers_of_numpy():
    result = asc.run("vector_add", set={"tiling.tile_length": np.int64(1024)})
    assert result.scenario["tiling"]["tile_length"] == 1024


@pytest.mark.parametrize(("queue", "turns"), [("in_x", "loading and computing"), ("out_z", "computing and storing")])
def test_why_says_what_takes_turns_with_one_buffer(queue, turns):
    sentences = "\n".join(why(asc.run("vector_add", set={f"queues.{queue}.num": 1}), ()))
    assert f"{queue} has 1 buffer, so {turns} take turns; with 2 they can overlap." in sentences


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"soc": 5}, "a device is named by text or is a Platform, got 5"),
        ({"ori_shape": 8}, r"ori_shape=8: must be \(rows, columns\) that hold data"),
        ({"ori_shape": (8, "x")}, r"ori_shape=\(8, 'x'\): must be"),
        ({"tmp_bytes": True}, "tmp_bytes=True: must be 1 .. 1073741824"),
        ({"tmp_bytes": 10**12}, "tmp_bytes=1000000000000: must be 1 .. 1073741824"),
        ({"tiling": 3}, r"tiling must be a SoftMaxTiling \(soft_max_grad_tiling_func\), got int"),
        ({"data_format": "nz"}, 'data_format=\'nz\': must be "ND" or "NZ"'),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(more, text):
    with pytest.raises(asc.AscendSimError, match=text):
        asc.softmax_grad(GRAD, SRC, **more)


def test_whole_numbers_of_numpy_are_numbers():
    plain = asc.softmax_grad(GRAD, SRC, tmp_bytes=4608, ori_shape=GRAD.shape)
    numpy = asc.softmax_grad(GRAD, SRC, tmp_bytes=np.int64(4608), ori_shape=tuple(np.array(GRAD.shape)))
    assert plain.program.digest == numpy.program.digest
