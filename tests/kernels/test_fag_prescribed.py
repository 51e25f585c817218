"""What a tuner may prescribe to template SameAB beside tiles: look-ahead, numbers of buffers; and the comparison."""

import pytest
from same_ab_scenario import leave_out, scenario

import ascendsim as asc
from ascendsim import report_tuning, runfolder
from ascendsim.commands.options import parse_changes
from ascendsim.errors import InputError, Rejected, Severity
from ascendsim.machine import check, run
from ascendsim.report import headline
from ascendsim.scenario import load_scenario
from ascendsim.terms import Pipe

SMALL = (1, 2, 64, 64, 32, 32)
"""Two heads of 64 x 64 scores, in tiles of 32 x 32: four blocks on each of two AI Cores."""


def small(cores=2, tile=(32, 32), **keys):
    return scenario(SMALL, tile, dtype="half", cores=cores, **keys)


def errors(findings):
    return [str(f) for f in findings if f.severity is Severity.ERROR]


def refused(**keys):
    with pytest.raises(Rejected) as info:
        check(scenario(SMALL, keys.pop("tile", (32, 32)), dtype="half", **keys))
    return [(f.code, f.where, f.message, f.hint) for f in info.value.findings]


# ---- look-ahead -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [0, 1, 2])
@pytest.mark.parametrize("cores", [1, 2])
def test_values_are_right_and_checks_are_clean(ahead, cores):
    result = run(small(cores, look_ahead=ahead))
    assert errors(result.findings) == []
    assert all(e.met for e in result.expectations), result.expectations


def order_of_stages(ahead):
    """What the only AIC does, as the marked steps of its Fixpipes in program order: stage 1 and 2 of each block."""
    program = run(small(1, look_ahead=ahead).model_copy(update={"machine": NO_VALUES})).program
    cube = program.calls["core"] == 0
    rows = (row for template in program.calls["template"][cube].tolist() for row in program.templates[template].rows)
    stores = (row for row in rows if row.pipe is Pipe.FIX and row.op.cost == "transfer")
    steps = [program.steps[row.step].partition("/")[0] for row in stores]
    return "".join({"dA": "", "S": "s", "dQ": "", "dK": "", "dV": "g"}[step] for step in steps)


NO_VALUES = small().machine.model_copy(update={"values": "none"})


@pytest.mark.parametrize(
    ("ahead", "order"), [(0, "sgsgsgsgsgsgsgsg"), (1, "ssgsgsgsgsgsgsgg"), (2, "sssgsgsgsgsgsggg")]
)
def test_so_many_blocks_are_ahead(ahead, order):
    assert order_of_stages(ahead) == order


def test_one_block_ahead_is_what_the_operator_does():
    own, asked = (run(s.model_copy(update={"machine": NO_VALUES})) for s in (small(), small(look_ahead=1)))
    assert own.program.digest == asked.program.digest


def test_looking_ahead_saves_time():
    cycles = [run(small(1, look_ahead=n).model_copy(update={"machine": NO_VALUES})).makespan_cycles for n in (0, 1, 2)]
    assert cycles[0] > cycles[1] > cycles[2]


@pytest.mark.parametrize("flag", ["SCORES_ARE_THERE", "TILES_ARE_THERE", "SUMS_ARE_THERE"])
def test_without_a_flag_two_blocks_ahead_are_no_kernel(monkeypatch, flag):
    leave_out(monkeypatch, flag)
    assert errors(check(small(look_ahead=2)))


# ---- buffers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys",
    [
        {"look_ahead": 0, "score_buffers": 1},
        {"score_buffers": 3},
        {"l1_buffers": 1},
        {"l0_buffers": 1},
        {"l1_buffers": 4, "l0_buffers": 1, "look_ahead": 2},
    ],
    ids=str,
)
def test_other_numbers_of_buffers(keys):
    result = run(small(**keys))
    assert errors(result.findings) == []
    assert all(e.met for e in result.expectations), result.expectations


def test_more_buffers_of_scores_make_the_workspace_longer():
    """Of S and of dA one more for each of two AICs, floats of a tile of 32 x 32."""
    lengths = [
        next(
            g.tensor_bytes for g in run(s.model_copy(update={"machine": NO_VALUES})).program.gm if g.name == "workspace"
        )
        for s in (small(), small(score_buffers=3), small(look_ahead=0, score_buffers=1))
    ]
    assert lengths == [lengths[0], lengths[0] + 2 * 2 * 32 * 32 * 4, lengths[0]]


def test_queues_have_as_many_buffers():
    program = run(small(l1_buffers=3, l0_buffers=1).model_copy(update={"machine": NO_VALUES})).program
    nums = {que.name: que.num for que in program.ques}
    assert [nums[name] for name in ("a1", "b1", "a2", "b2", "co1")] == [3, 3, 1, 1, 1]


# ---- what cannot be -------------------------------------------------------------------------------------------------


def test_too_far_ahead():
    assert refused(look_ahead=3) == [
        (
            "E-FAG-BUFFERING",
            "tiling.look_ahead",
            "look_ahead = 3: the flags between an AIC and its AIVs have ids for 2 blocks ahead at most",
            "look at most 2 blocks ahead",
        )
    ]


@pytest.mark.parametrize(("keys", "ahead"), [({"score_buffers": 1}, 1), ({"score_buffers": 2, "look_ahead": 2}, 2)])
def test_too_few_buffers_of_scores(keys, ahead):
    count = keys["score_buffers"]
    assert refused(**keys) == [
        (
            "E-FAG-BUFFERING",
            "tiling.score_buffers",
            (
                f"score_buffers = {count}: with a look-ahead of {ahead}, {ahead + 1} blocks have their S and dA in GM "
                "at the same time"
            ),
            f"give score_buffers = {ahead + 1} or more, or look less far ahead",
        )
    ]


def test_too_many_buffers_on_chip():
    found = refused(l0_buffers=99, l1_buffers=999)
    assert [(code, where) for code, where, *_ in found] == [
        ("E-FAG-BUFFERING", "tiling.l1_buffers"),
        ("E-FAG-BUFFERING", "tiling.l0_buffers"),
    ]
    for (_, _, message, hint), memory, room in zip(found, ("half of L1", "L0A"), (524032 // 2, 65536), strict=True):
        assert message.endswith(f" are more than the {room} B of {memory}")
        one, most = int(message.split(" of ")[1].split()[0]), int(hint.split()[3])
        assert most == room // one


def test_queues_without_ids_for_so_many_buffers_are_found_by_the_kernel():
    """L0 has room for them; the flags of a pair of pipes have eight ids."""
    assert errors(check(small(l0_buffers=3))) == []
    assert {text.split()[0] for text in errors(check(small(l0_buffers=8)))} == {"E-SYNC-EXHAUST"}


def test_another_template_has_no_such_thing():
    with pytest.raises(Rejected) as info:
        asc.check("fag_b_small", set={"tiling.look_ahead": 2})
    assert [(f.code, f.message) for f in info.value.findings] == [
        (
            "E-FAG-BUFFERING",
            (
                "look_ahead = 2: only template SameAB (15500) without deterministic sums takes it, and this call is "
                "of template Ungs1s2_B"
            ),
        )
    ]


def test_deterministic_sums_go_round_by_round():
    found = refused(template=1100, deterministic=True, look_ahead=0)
    assert [code for code, *_ in found] == ["E-FAG-BUFFERING"]
    assert found[0][2].endswith("takes it, and this call is deterministic")


def test_the_l1_custom_form_has_its_own_buffers():
    own = scenario((1, 1, 512, 512, 128, 128), None, l1_buffers=1)
    with pytest.raises(Rejected) as info:
        check(own)
    assert [(f.code, f.where) for f in info.value.findings] == [("E-FAG-BUFFERING", "tiling.l1_buffers")]


def test_a_score_tile_of_broken_fractals():
    assert refused(tile=(40, 32)) == [
        (
            "E-FAG-TILE",
            "tiling.cv_s1",
            "cv_s1 = 40: must be a multiple of 16, rows and columns of a fractal",
            "prescribe a multiple of 16, or leave the choice to the operator",
        )
    ]


def test_a_vector_tile_that_is_larger_than_its_place():
    found = refused(tile=(512, 512), vec_s1=64, vec_s2=256)
    assert {code for code, *_ in found} == {"E-FAG-FIT"}


@pytest.mark.parametrize("key", ["look_ahead", "score_buffers", "l1_buffers", "l0_buffers"])
def test_a_number_below_the_least(key):
    with pytest.raises(InputError, match=f"tiling.{key}"):
        small(**{key: -1})


# ---- comparison -----------------------------------------------------------------------------------------------------


def test_a_run_is_compared_with_the_default_tiling(tmp_path):
    asked = small(look_ahead=2).model_copy(update={"machine": NO_VALUES})
    result = run(asked, compare=True)
    own = run(scenario(SMALL, None, dtype="half").model_copy(update={"machine": NO_VALUES}))
    assert result.comparison.prescribed == {"cv_s1": 32, "cv_s2": 32, "look_ahead": 2}
    assert result.comparison.default == own.figures
    assert result.figures.makespan_cycles == result.makespan_cycles
    rows = {name: rest for name, *rest in report_tuning.comparison_cells(result)}
    here, there = result.makespan_cycles, own.makespan_cycles
    assert rows["makespan cycles"] == [str(here), str(there), f"{here / there:.3f}"]
    assert rows["AIV V busy cycles"][1] == f"{own.figures.busy_cycles['AIV V']:.0f}"
    text = dict(headline(result))["prescribed"]
    assert text == (
        f"cv_s1 = 32, cv_s2 = 32, look_ahead = 2: {here} cycles against {there} of the default tiling, "
        f"{here / there:.3f} of it"
    )
    runfolder.write_run(result, tmp_path / "run")
    assert asc.load_run(tmp_path / "run").comparison == result.comparison


def test_nothing_prescribed_is_compared_with_nothing():
    own = scenario(SMALL, None, dtype="half", look_ahead=None).model_copy(update={"machine": NO_VALUES})
    assert run(own, compare=True).comparison is None
    assert run(small().model_copy(update={"machine": NO_VALUES})).comparison is None, "only if it is asked for"
    assert run("vector_add", set=parse_changes(['machine.values="none"']), compare=True).comparison is None


def test_a_default_that_cannot_be_timed_is_told(monkeypatch):
    real, calls = asc.machine._prepare, []

    def prepare(*args, **how):
        calls.append(args)
        if len(calls) > 1:
            raise InputError("no such thing")
        return real(*args, **how)

    monkeypatch.setattr(asc.machine, "_prepare", prepare)
    result = run(small().model_copy(update={"machine": NO_VALUES}), compare=True)
    assert (result.comparison.default, result.comparison.reason) == (None, "no such thing")
    assert report_tuning.comparison_cells(result) == []
    assert dict(headline(result))["prescribed"] == (
        "cv_s1 = 32, cv_s2 = 32; the operator's own tiling cannot be timed: no such thing"
    )


def test_blocks_of_a_product_are_compared_too():
    asked = load_scenario("matmul_512x512x512_half", {"machine.values": "none", "tiling.base_m": 64})
    blocks = {"base_m", "base_n", "base_k", "single_core_m", "single_core_n", "step_k"}
    rest = {key: value for key, value in asked.tiling.items() if key not in blocks}
    result = run(asked, compare=True)
    assert result.comparison.prescribed == {key: asked.tiling[key] for key in sorted(blocks & set(asked.tiling))}
    assert result.comparison.default == run(asked.model_copy(update={"tiling": rest})).figures
