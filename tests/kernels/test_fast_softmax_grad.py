"""FastSoftMaxGrad's kernel: values against SoftmaxGrad and float64, padded lanes, order, cores, prescribed tilings."""

from dataclasses import replace

import numpy as np
import pytest

import ascendsim as asc
from ascendsim import atb
from ascendsim.checks import check_program
from ascendsim.device import load_device
from ascendsim.dtypes import HALF
from ascendsim.isa.move import DataCopyPadExtParams
from ascendsim.machine import schedule
from ascendsim.memory import place_in_gm
from ascendsim.op_host.fsg_tiling import fsg_tiling
from ascendsim.op_kernel import fast_softmax_grad_operator as kernel
from ascendsim.program import Template
from ascendsim.record import record
from ascendsim.reference.softmax_grad import softmax_grad
from ascendsim.terms import Pipe

DEVICE = load_device("Ascend910B1")
SMALL = "fast_softmax_grad_small"


def data(params, seed=0):
    """(y, g): softmax rows and a gradient, as the operation takes them."""
    random = np.random.default_rng(seed)
    y = []
    for n in params.q_seq_len:
        e = np.exp(2 * random.standard_normal((params.head_num * n, n)))
        y.append((e / e.sum(axis=1, keepdims=True)).astype(np.float16).reshape(-1))
    return np.concatenate(y), random.standard_normal(params.n_square_tokens).astype(np.float16)


def items(params, *flat):
    """The rows of each item."""
    at = 0
    for n in params.q_seq_len:
        count = params.head_num * n * n
        yield tuple(x[at : at + count].reshape(-1, n) for x in flat)
        at += count


def run(params, y, g, soc="Ascend910B1", **how):
    return atb.execute(params, {"yInput": y, "yGrad": g}, soc, **how)


def bits(x):
    return x.view(np.uint16).tolist()


# ---- values --------------------------------------------------------------------------------------------------------


def test_values_are_those_of_softmax_grad_row_by_row():
    """Bit by bit, whatever tiles and cores the rows are on; the rows of the call alone are padded with zeros."""
    params = atb.FastSoftMaxGradParam(2, [33, 16, 75, 1, 130])
    y, g = data(params)
    got = run(params, y, g, compare=True)
    assert [e.met for e in got.expectations] == [True]
    for y_rows, g_rows, x_rows in items(params, y, g, got.outputs["x_grad"]):
        n = y_rows.shape[1]
        width = ((0, 0), (0, -n % 16))
        alone = asc.softmax_grad(
            np.pad(g_rows, width), np.pad(y_rows, width), ori_shape=y_rows.shape, despite_findings=True
        )
        assert bits(x_rows) == bits(np.ascontiguousarray(alone.outputs["dst"].reshape(-1, n + -n % 16)[:, :n]))
        exact = softmax_grad(g_rows, y_rows)
        assert np.abs(x_rows - exact).max() <= 1e-3


@pytest.mark.parametrize("cores", [40, 48])
def test_values_do_not_hang_on_the_number_of_cores(cores):
    params = atb.FastSoftMaxGradParam(8, [37, 64])
    y, g = data(params)
    part = asc.Platform(aic_cores=cores // 2, aiv_cores=cores)
    on_part = run(params, y, g, part)
    assert on_part.program.block_dim == cores
    assert bits(on_part.outputs["x_grad"]) == bits(run(params, y, g).outputs["x_grad"])


def test_infinite_and_nan_rows_stay_by_themselves():
    """Neighbours in GM of a short row are read into no lane of it that counts."""
    params = atb.FastSoftMaxGradParam(1, [21])
    y, g = data(params)
    before = run(params, y, g).outputs["x_grad"].reshape(21, 21)
    dirty_y, dirty_g = y.copy().reshape(21, 21), g.copy().reshape(21, 21)
    dirty_y[::2], dirty_g[::2] = np.nan, np.inf
    after = run(params, dirty_y.reshape(-1), dirty_g.reshape(-1)).outputs["x_grad"].reshape(21, 21)
    assert bits(after[1::2].copy()) == bits(before[1::2].copy())
    assert np.isnan(after[::2]).all()


def test_no_padded_lane_reaches_a_result(monkeypatch):
    """With NaN in all of them instead of copies of the row's first element, every bit is as before."""
    params = atb.FastSoftMaxGradParam(3, [21])  # 11 lanes behind each row
    y, g = data(params)
    before = run(params, y, g)
    monkeypatch.setattr(
        kernel, "DataCopyPadExtParams", lambda is_pad: DataCopyPadExtParams(is_pad, 0, 11, float("nan"))
    )
    after = run(params, y, g)
    assert after.program.digest != before.program.digest
    assert bits(after.outputs["x_grad"]) == bits(before.outputs["x_grad"])


def test_a_second_run_gives_the_same_bytes():
    first, second = (asc.run(SMALL) for _ in range(2))
    assert first.outputs["x_grad"].tobytes() == second.outputs["x_grad"].tobytes()
    assert first.program.digest == second.program.digest


def test_the_engines_agree():
    asc.run(SMALL, "both")


# ---- the program ---------------------------------------------------------------------------------------------------


def recorded(heads=2, lengths=(33, 16, 50), cores=4, **prescribed):
    tiling = fsg_tiling(heads, lengths, cores, DEVICE.ub_bytes, **prescribed)
    gm = place_in_gm([(name, HALF, (tiling.count,)) for name in ("y_input", "y_grad", "x_grad")])
    recording = record(kernel.fast_softmax_grad, DEVICE, cores, gm, (tiling,))
    assert recording.complete
    return recording


def without(program, number, at):
    old = program.templates[number]
    rows = [*old.rows[:at], *old.rows[at + 1 :]]
    new = Template.of_rows(old.name, rows, old.tensors, old.slots, old.registers)
    return replace(program, templates=(*program.templates[:number], new, *program.templates[number + 1 :]))


def errors(program):
    return {f.code for f in check_program(program, DEVICE) if f.severity.value == "E"}


def test_every_flag_of_a_queue_is_needed():
    program = recorded().program
    assert check_program(program, DEVICE) == ()
    tried = 0
    for number, template in enumerate(program.templates):
        for at, row in enumerate(template.rows):
            if row.op.name in ("set_flag", "wait_flag") and row.que >= 0:
                assert errors(without(program, number, at)), (template.name, at)
                tried += 1
    assert tried >= 8 * 3


def test_pipes_run_dry_between_items():
    """Each TPipe ends with a barrier for all pipes; without it an item's tiles lie where the last one's are read."""
    program = recorded(8, (16, 64), 2).program
    barriers = [
        (number, at)
        for number, template in enumerate(program.templates)
        for at, row in enumerate(template.rows)
        if row.op.name == "pipe_barrier" and row.param("barrier_pipe") == Pipe.ALL
    ]
    calls = program.calls["template"].tolist()
    assert sum(calls.count(number) for number, _ in barriers) == 2 * 2
    assert any("E-RACE-WAR" in errors(without(program, *barrier)) for barrier in barriers)


def test_queues_of_each_item_begin_at_0():
    program = recorded().program
    tensors = {t for template in program.templates for t in template.tensors if t.buffer.name == "UB"}
    assert {t.address_bytes for t in tensors if t.name == "y_input[0]"} == {0}
    assert len({t.tensor_bytes for t in tensors if t.name == "y_input[0]"}) == 3
    largest = max(program.ques, key=lambda q: q.buffer_bytes * (q.name == "y_input"))
    assert (largest.name, largest.num) == ("y_input", 2)
    assert program.ub_high_water_bytes == fsg_tiling(2, (33, 16, 50), 4, DEVICE.ub_bytes).peak_bytes


def test_double_buffers_overlap():
    two = schedule(recorded(8, [64], 2).program, DEVICE).makespan_cycles
    one = schedule(recorded(8, [64], 2, nums=(1, 1, 1), tile_rows=32).program, DEVICE).makespan_cycles
    assert two < one


def test_another_block_dim_is_refused():
    with pytest.raises(asc.KernelError, match="block_dim 47: the tiling deals rows to 48 cores; use that many"):
        asc.run(SMALL, set={"block_dim": 47})


# ---- scenarios -----------------------------------------------------------------------------------------------------


def test_work_and_balance_are_in_the_report():
    result = asc.run(SMALL, set={"machine.values": "none"})
    work = result.summary()["work"]
    tiling = fsg_tiling(2, [33, 16, 75, 1, 130], 48, DEVICE.ub_bytes)
    assert work["flop"] == 4 * 47742
    assert (work["blocks"], work["blocks_of"]) == (list(tiling.tiles()), "AIV")
    assert work["block_flop"] == [4 * count for count in tiling.elements()]
    assert work["cube_peak_tflops"] is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"tiling.q_seq_len": [5000]}, "tiling.q_seq_len[0] = 5000: at most 4096"),
        ({"tiling.head_num": 0}, "tiling.head_num = 0: must be greater than 0 (create: ERROR_INVALID_PARAM)"),
        (
            {"tensors.y_grad.shape": [7]},
            "tensors.y_grad has 7 elements: must have nSquareTokens = headNum * sum of squares = 47742 (infer_shape: ",
        ),
        ({"tensors.x_grad.shape": [1, 47742]}, "tensors.x_grad has 2 axes [1, 47742]: must have one, [nSquareTokens]"),
        ({"tensors.y_input.dtype": "float"}, "tensors.y_input is float nd: FastSoftMaxGradOperation takes float16 nd"),
        ({"tiling.cores": 49}, "tiling.cores = 49: Ascend910B1 has 48 AIVs; choose at most that many"),
        ({"tiling.tmp_bytes": 100000}, "choose less temp or fewer buffers, or give tiling.tile_rows"),
        ({"device": "Ascend310P3"}, "does not run on Ascend310P3 (Atlas inference)"),
    ],
)
def test_wrong_input(changes, text):
    with pytest.raises(asc.InputError) as caught:
        asc.run(SMALL, set=changes)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"tiling.tmp_bytes": 512}, "E-SMG-NOTILE"),
        ({"tiling.tile_rows": 200, "tiling.cores": 1}, "E-CAP-UB-HW"),
    ],
)
def test_illegal_tilings_are_found(changes, code):
    with pytest.raises(asc.Rejected) as caught:
        asc.run(SMALL, set=changes)
    assert code in {f.code for f in caught.value.findings}


def test_prescribed_tilings_give_the_same_values():
    alike = asc.run(SMALL).outputs["x_grad"]
    for changes in (
        {"tiling.tile_rows": 1},
        {"tiling.tmp_bytes": 20000},
        {"tiling.cores": 7},
        {"queues.y_input.num": 1, "queues.y_grad.num": 1, "queues.x_grad.num": 1},
    ):
        assert bits(asc.run(SMALL, set=changes).outputs["x_grad"]) == bits(alike)


def test_rows_that_do_not_sum_to_1_are_told():
    codes = {f.code: f for f in asc.run(SMALL, set={"tensors.y_input.fill": "uniform"}).findings}
    assert "of 510 rows of yInput do not sum to 1" in codes["I-FSG-ROWSUM"].message
    assert codes["I-FSG-ROWSUM"].severity.value == "I"
    assert "I-FSG-ROWSUM" not in {f.code for f in asc.run(SMALL).findings}
