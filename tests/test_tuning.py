"""What a tuner asks of a run: exact figures on small kernels, and each figure against a count from single rows."""

import json
from dataclasses import replace

import numpy as np
import pytest
from conftest import ROOT
from test_plot import _check_texts, _seen

import ascendsim as asc
from ascendsim import plot, report_tuning, runfolder, tuning
from ascendsim.device import load_device
from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, UINT8
from ascendsim.engine.base import Wait
from ascendsim.operators import OPERATORS
from ascendsim.report import headline, markdown
from ascendsim.terms import CoreKind, Pipe

MIXED = ROOT / "scenarios/matmul_plus_one.toml"
A, B, C = 256 * 128 * 2, 128 * 128 * 2, 256 * 128 * 4
"""Bytes of the tensors of matmul_plus_one."""


@pytest.fixture(scope="module")
def mixed():
    return asc.run(MIXED, set={"machine.values": "none"}, despite_findings=True)


@pytest.fixture(scope="module")
def product():
    return asc.run("matmul_512x512x512_half", set={"machine.values": "none"})


@pytest.fixture(scope="module")
def add():
    return asc.run("vector_add", set={"machine.values": "none"})


@pytest.fixture(scope="module")
def gradients():
    return asc.run("fag_same_ab_small", set={"machine.values": "none"})


def spans(result, core, pipe):
    """Cycles in which a pipe of a core is busy, as marks."""
    t, marks = result.timeline, np.zeros(result.makespan_cycles, bool)
    for row in np.flatnonzero((t["core"] == core) & (t["pipe"] == pipe) & np.isin(t["kind"], (0, 4))).tolist():
        marks[t["start"][row] : t["end"][row]] = True
    return marks


# ---- where the time goes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mixed", "product", "add", "gradients"])
def test_busy_cycles_losses_and_the_rest_are_all_there_is(name, request):
    result = request.getfixturevalue(name)
    assert {(b.kind, b.pipe) for b in result.bubbles} == set(result.lane_use)
    for one in result.bubbles:
        uses = result.lane_use[one.kind, one.pipe]
        assert one.busy == sum(use.busy_cycles for use in uses)
        assert one.busy + sum(one.lost.values()) + one.rest == one.cores * result.makespan_cycles
        assert 0 <= one.shared <= one.busy
        assert one.rest >= 0
        assert sum(one.lost.values()) >= sum(use.stalled_cycles for use in uses)


def test_vector_cores_that_wait_for_a_product_lose_the_time_until_then(mixed):
    """Each AIV's scalar unit waits for the flag before anything else, so no pipe has a row until it is up."""
    t = mixed.timeline
    held = np.flatnonzero(t["waited_for"] == Wait.CROSS_CORE)
    assert len(held) == 4
    waited = int(t["wait_cycles"][held].sum())
    lost = {(b.kind, b.pipe): b.lost.get(Wait.CROSS_CORE, 0) for b in mixed.bubbles}
    assert [lost[CoreKind.AIV, p] for p in (Pipe.S, Pipe.V, Pipe.MTE2, Pipe.MTE3)] == [waited] * 4
    assert {lost[CoreKind.AIC, p] for p in (Pipe.M, Pipe.MTE1, Pipe.MTE2, Pipe.FIX)} == {0}
    places = {(p.kind, p.pipe, p.wait): p for p in mixed.bubble_places}
    place = places[CoreKind.AIV, Pipe.V, Wait.CROSS_CORE]
    assert (place.cycles, place.line, place.name) == (waited, "matmul_plus_one.py:14", "flag 0 of mode 2")
    assert place.by_scalar


def test_places_are_told_largest_first_and_none_of_the_scalar_unit(gradients):
    cycles = [place.cycles for place in gradients.bubble_places]
    assert cycles == sorted(cycles, reverse=True)
    assert all(place.pipe is not Pipe.S for place in gradients.bubble_places)


def test_what_sharing_a_link_adds_is_that_of_the_rows(gradients):
    t = gradients.timeline
    for one in gradients.bubbles:
        cores = tuning.cores_of(gradients.program, one.kind)
        rows = np.isin(t["core"], cores) & (t["pipe"] == one.pipe)
        assert one.shared == t["stretch_cycles"][rows].sum()


# ---- Cube and Vector, balance, bounds -------------------------------------------------------------------------------


def test_cube_and_vector_of_an_ai_core(gradients):
    for block, use in enumerate(gradients.unit_use):
        cube = spans(gradients, 3 * block, Pipe.M)
        vector = spans(gradients, 3 * block + 1, Pipe.V) | spans(gradients, 3 * block + 2, Pipe.V)
        want = (cube & vector, cube & ~vector, vector & ~cube, ~cube & ~vector)
        assert (use.both, use.cube_only, use.vector_only, use.none) == tuple(int(marks.sum()) for marks in want)
    assert min(use.both for use in gradients.unit_use) > 0


def test_a_vector_stage_behind_the_product_overlaps_nothing(mixed):
    assert [use.both for use in mixed.unit_use] == [0, 0]
    text = dict(headline(mixed))["Cube, Vector"]
    assert text.startswith("both busy 0.0%, Cube alone ")


@pytest.mark.parametrize("name", ["product", "add"])
def test_cores_of_one_kind_have_no_such_overlap(name, request):
    result = request.getfixturevalue(name)
    assert result.unit_use == ()
    assert result.summary()["cube_and_vector"] == []
    assert "Cube, Vector" not in dict(headline(result))


def test_balance_is_that_of_single_cores(gradients):
    found = {(b.kind, b.pipe): b for b in gradients.balances}
    assert (CoreKind.AIV, Pipe.S) not in found
    for (kind, pipe), balance in found.items():
        marks = [spans(gradients, int(core), pipe) for core in tuning.cores_of(gradients.program, kind)]
        assert balance.busy == tuple(int(m.sum()) for m in marks)
        assert balance.ends == tuple(int(np.flatnonzero(m)[-1]) + 1 for m in marks)
        assert balance.worst == balance.busy.index(max(balance.busy))
        assert balance.ratio == max(balance.busy) / (sum(balance.busy) / len(balance.busy))


def test_the_bound_counts_ai_cores(gradients, product):
    (kind, pipe, count, share), *others = gradients.bounds
    assert (kind, pipe, count, others) == (CoreKind.AIC, Pipe.FIX, 2, [])
    busy = [int(gradients.timeline.totals.busy_cycles[core, Pipe.FIX]) for core in (0, 3)]
    assert share == pytest.approx(sum(busy) / 2 / gradients.makespan_cycles)
    assert report_tuning.bound_text(product).startswith("MTE2 on 4 of 4 AICs, busy ")


# ---- traffic --------------------------------------------------------------------------------------------------------


def test_traffic_of_a_mixed_kernel(mixed):
    """The result goes to GM from the Cube core, and comes back from there through the vector cores."""
    found = {(t.kind, t.pipe, t.way): t for t in mixed.traffic}
    assert {key: (t.input_bytes, t.output_bytes, t.workspace_bytes) for key, t in found.items()} == {
        (CoreKind.AIC, Pipe.MTE2, "read"): (A + 2 * B, 0, 0),
        (CoreKind.AIC, Pipe.FIX, "written"): (0, C, 0),
        (CoreKind.AIV, Pipe.MTE2, "read"): (0, C, 0),
        (CoreKind.AIV, Pipe.MTE3, "written"): (0, C, 0),
    }
    assert found[CoreKind.AIV, Pipe.MTE2, "read"].hit_bytes == C
    reads = A + 2 * B + C
    hits = found[CoreKind.AIC, Pipe.MTE2, "read"].hit_bytes + C
    assert tuning.read_hit_share(mixed.traffic) == hits / reads
    assert mixed.summary()["l2_read_hit_share"] == round(hits / reads, 6)


def test_workspace_of_flash_attention_by_phase(gradients):
    """Two heads of 256 x 256 scores: S and dA as floats, A and dS as 16 bits, sums of 256 x 128 floats a tensor."""
    scores, sums = 2 * 256 * 256, 2 * 256 * 128
    found = {(t.phase, t.pipe, t.way): t.workspace_bytes for t in gradients.traffic if t.workspace_bytes}
    assert found["zero", Pipe.MTE3, "written"] == 3 * 4 * sums
    assert found["dA", Pipe.FIX, "written"] == found["S", Pipe.FIX, "written"] == 4 * scores
    assert found["load S", Pipe.MTE2, "read"] == 4 * scores
    assert found["store", Pipe.MTE3, "written"] == 2 * 2 * scores
    assert found["dQ", Pipe.MTE2, "read"] == found["dV", Pipe.MTE2, "read"] == 2 * scores
    assert {found[p, Pipe.FIX, "added"] for p in ("dQ", "dK", "dV")} == {2 * 4 * sums}
    assert found["post", Pipe.MTE2, "read"] == 3 * 4 * sums


@pytest.mark.parametrize("name", ["mixed", "product", "add", "gradients"])
def test_traffic_adds_up_to_that_of_the_tensors(name, request):
    result = request.getfixturevalue(name)
    moved = result.summary()["bytes_moved"]
    for ways in (("read",), ("written", "added")):
        total = sum(count for tensor, count in moved.items() if tensor.endswith(f" {ways[0]}"))
        assert sum(t.bytes for t in result.traffic if t.way in ways) == total
    assert all(0 <= t.hit_bytes <= t.bytes for t in result.traffic)


@pytest.mark.parametrize(("mode", "share"), [("hit", 1.0), ("miss", 0.0)])
def test_a_forced_l2_is_all_or_nothing(mode, share):
    result = asc.run("vector_add", set={"machine.values": "none", "machine.l2": mode})
    assert tuning.read_hit_share(result.traffic) == share


# ---- floating-point operations --------------------------------------------------------------------------------------


def test_operations_of_a_product(product):
    """24 Cube cores of 16 x 16 x 16 products and as many additions a cycle at 1850 MHz: 363.7 TFLOP/s."""
    assert product.work.flop == 2 * 512**3
    assert product.peak_tflops == pytest.approx(24 * 2 * 16**3 * 1850e6 / 1e12)
    assert product.tflops == pytest.approx(2 * 512**3 / (product.makespan_cycles / 1850e6) / 1e12)
    assert sum(product.work.block_flop) == product.work.flop
    summary = product.summary()["work"]
    assert summary["share_of_cube_peak"] == pytest.approx(product.tflops / product.peak_tflops, abs=1e-6)
    assert (summary["convention"], summary["blocks"]) == ("2 * M * N * K", [4] * 4)
    text = dict(headline(product))["work"]
    assert text.startswith("268,435,456 FLOP (2 * M * N * K), ")


@pytest.mark.parametrize(
    ("factors", "share"), [("half", 1.0), ("bfloat16_t", 1.0), ("int8_t", 2.0), ("float", 0.25), ("int32_t", None)]
)
def test_the_peak_depends_on_the_factors(factors, share):
    device = load_device("Ascend910B1")
    half = device.cube_peak_flop("half")
    assert device.cube_peak_flop(factors) == (None if share is None else half * share)


@pytest.mark.parametrize(("sparse_mode", "scores"), [(1, 2 * 256 * 256), (2, 2 * 3 * 128 * 128)])
def test_skipped_blocks_of_flash_attention_do_not_count(sparse_mode, scores):
    """Of four blocks of a head the causal band skips one; the two that it cuts count whole."""
    operator = OPERATORS["flash_attention_score_grad"]
    keys = operator.tiling_model.model_validate(
        {"head_num": 2, "template": 15500, "cv_s1": 128, "cv_s2": 128, "sparse_mode": sparse_mode}
    )
    rows, heads = ((1, 2, 256, 8), FLOAT), ((1, 2, 256, 128), BFLOAT16)
    names = ("query", "key", "value", "dy", "attention_in", "dq", "dk", "dv")
    shapes = dict.fromkeys(names, heads) | dict.fromkeys(("softmax_max", "softmax_sum"), rows)
    if sparse_mode == 2:
        shapes["atten_mask"] = ((2048, 2048), UINT8)
    else:
        shapes["atten_mask"] = ((256, 256), UINT8)
    work = operator.work(operator.host(load_device("Ascend910B1"), shapes, keys, {}), 24)
    assert work.flop == 2 * 5 * 128 * scores
    assert work.blocks == (1,) * (scores // 128**2) + (0,) * (24 - scores // 128**2)
    assert sum(work.block_flop) == work.flop


def test_operators_that_say_nothing_and_kernels_have_no_such_line(add, mixed):
    for result in (add, mixed):
        assert (result.work, result.tflops, result.peak_tflops) == (None, None, None)
        assert result.summary()["work"] is None
        assert "work" not in dict(headline(result))


# ---- reports, folders, pictures -------------------------------------------------------------------------------------


def test_a_run_that_is_read_back_says_the_same(product, tmp_path):
    runfolder.write_run(product, tmp_path / "run")
    again = asc.load_run(tmp_path / "run")
    assert again.work == product.work
    assert again.summary() == product.summary()
    assert json.loads((tmp_path / "run/run.json").read_text())["summary"]["bubbles"] == product.summary()["bubbles"]


def test_the_report_has_the_tables(gradients):
    text = markdown(gradients)
    for title in (
        "Where the time goes",
        "Most is lost at",
        "Balance of cores",
        "Balance of blocks",
        "GM traffic by phase",
    ):
        assert f"\n## {title}\n" in text
    assert "\n| blocks | 4 | 4 | 4 | 1.000 | AIC 0 |\n" in text
    assert "\n![where the time goes](balance.png)\n" in text


@pytest.mark.parametrize("name", ["mixed", "product", "add", "gradients"])
def test_the_picture(name, request):
    """No two texts overlap, bars of pipes are as long as their shares, and every AI Core has its bars."""
    result = request.getfixturevalue(name)
    seen = _seen(plot.balance_picture(result))
    _check_texts(seen)
    words = [text for text, _ in seen.texts]
    for one in result.bubbles:
        assert result.lane_name(one.pipe, one.kind) in words
        assert f"{one.busy / one.cores / result.makespan_cycles:.1%} busy" in words
    if result.unit_use:
        assert [w for w in words if w.startswith("AI Core ")] == ["AI Core 0", "AI Core 1"]
        assert words.count("2 AIV") == words.count("AIC") == 2
    else:
        assert [w for w in words if w.startswith("core ")] == [f"core {i}" for i in range(result.program.block_dim)]


def test_a_kernel_without_instructions_has_a_picture_too(tmp_path):
    (tmp_path / "k.py").write_text("def kernel(asc, x, t):\n    pass\n")
    tensor = '[tensors.x]\nrole = "input"\nshape = [8]\ndtype = "half"\nfill = "zeros"\n'
    head = 'schema = 1\ndevice = "Ascend910B1"\nkernel = "k.py:kernel"\nblock_dim = 2\n'
    (tmp_path / "k.toml").write_text(head + tensor)
    result = asc.run(tmp_path / "k.toml")
    assert (result.bubbles, result.balances, result.bounds, result.traffic) == ((), (), (), ())
    _check_texts(_seen(plot.balance_picture(result)))
    assert "bound" not in dict(headline(result))


def test_a_large_part_has_a_bar_for_every_core():
    result = asc.run("softmaxgrad_960x960_float", set={"machine.values": "none"})
    seen = _seen(plot.balance_picture(result))
    _check_texts(seen)
    assert [text for text, _ in seen.texts if text.startswith("core ")] == [f"core {i}" for i in range(48)]


def test_a_dtype_without_cube_products_has_no_peak(product):
    assert replace(product, work=replace(product.work, factors="int32_t")).peak_tflops is None
    assert HALF.name == product.work.factors
