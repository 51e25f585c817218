"""Findings that a scenario accepts: what matches, what is left, what a run does with them."""

import json

import pytest
from conftest import ROOT

import ascendsim as asc
from ascendsim.checks.suppress import Suppression, set_apart, unused
from ascendsim.errors import Finding, Suppressed
from ascendsim.machine import examine
from ascendsim.report import markdown
from ascendsim.scenario import load_scenario
from ascendsim.stored import arrays_of, record_of, result_of

FINDING = Finding("E-OOB-GM", "too far", where="DataCopy (my_add.py:18) core 7", operand="src0")


def _file(tmp_path, more, name="s.toml"):
    for part in ("vector_add.py",):
        (tmp_path / part).write_text((ROOT / "scenarios" / part).read_text())
    text = (ROOT / "scenarios/vector_add.toml").read_text().split("[expect]")[0]
    (tmp_path / name).write_text(text + more)
    return tmp_path / name


@pytest.mark.parametrize(
    ("more", "is_covered"),
    [
        ({}, True),
        ({"line": "18"}, True),
        ({"line": "1"}, False),
        ({"line": "8"}, False),
        ({"line": "my_add.py:18"}, True),
        ({"line": "add.py:18"}, False),
        ({"where": "core 7"}, True),
        ({"where": "core 8"}, False),
        ({"operand": "src0"}, True),
        ({"operand": "src"}, False),
        ({"line": "18", "where": "DataCopy", "operand": "dst"}, False),
    ],
)
def test_a_suppression_covers_what_all_its_parts_name(more, is_covered):
    assert Suppression("E-OOB-GM", "known", **more).covers(FINDING) is is_covered
    assert not Suppression("E-OOB", "known", **more).covers(FINDING)


def test_the_first_reason_counts_and_both_are_used():
    both = (Suppression("E-OOB-GM", "first"), Suppression("E-OOB-GM", "second", line="18"))
    assert set_apart([FINDING], both) == ((), (Suppressed(FINDING, "first"),))
    assert unused(both, [FINDING]) == ()


def test_what_matches_nothing_is_a_finding():
    idle = Suppression("W-TILE-IDLE", "few rows", line="3", operand="x")
    (found,) = unused((Suppression("E-OOB-GM", "known"), idle), [FINDING])
    assert found.code == "W-SUPPRESS-UNUSED"
    assert found.where == "suppress[1]"
    assert found.message == "suppression of W-TILE-IDLE (line '3', operand 'x') matches no finding"
    assert unused((idle,), [FINDING], ["W-TILE-IDLE"]) == ()


SUPPRESS_OOB = '[[suppress]]\ncode = "E-OOB-GM"\noperand = "dst"\nreason = "z is cut off on purpose"\n'


def test_check_leaves_out_what_the_scenario_accepts(tmp_path):
    file = _file(tmp_path, SUPPRESS_OOB)
    changes = {"tensors.z.shape": [65000]}
    assert asc.check(file, set=changes) == ()
    (accepted,) = examine(load_scenario(file, changes)).suppressed
    assert (accepted.finding.code, accepted.reason) == ("E-OOB-GM", "z is cut off on purpose")
    assert [f.code for f in asc.check(file)] == ["W-BANK-RR", "W-SUPPRESS-UNUSED"]


def test_run_refuses_what_has_no_meaning_whatever_the_reason(tmp_path):
    with pytest.raises(asc.Rejected) as rejected:
        asc.run(_file(tmp_path, SUPPRESS_OOB), set={"tensors.z.shape": [65000]})
    assert [f.code for f in rejected.value.findings] == ["E-OOB-GM"]


def test_run_goes_on_after_an_accepted_error_and_keeps_it_apart(tmp_path):
    """DataCopy of 2040 half elements drops the last bytes, which the count rule calls an error with a meaning."""
    codes = ("E-ALIGN-COUNT", "W-MEM-OUTPUT", "W-MEM-UNINIT")
    more = "".join(f'[[suppress]]\ncode = "{code}"\nreason = "the tail is computed elsewhere"\n' for code in codes)
    file = _file(tmp_path, more)
    changes = {"tiling.tile_length": 2040, "tensors.z.shape": [65536 + 4096], "tensors.x.shape": [65280]}
    result = asc.run(file, set={**changes, "tensors.y.shape": [65280]})
    assert {s.finding.code for s in result.suppressed} == set(codes)
    assert {s.reason for s in result.suppressed} == {"the tail is computed elsewhere"}
    assert result.findings == ()
    assert not result.despite_findings


def test_a_run_folder_keeps_them(tmp_path):
    from ascendsim.report import markdown
    from ascendsim.stored import record_of

    more = '[[suppress]]\ncode = "E-CAP-UB"\nreason = "measured on the board"\n'
    text = (ROOT / "scenarios/softmaxgrad_960x960_float.toml").read_text().split("[expect]")[0]
    (tmp_path / "s.toml").write_text(text + more)
    changes = {"tiling.tile_m": 8, "tiling.tmp_bytes": 12256, "machine.values": "none"}
    result = asc.run(tmp_path / "s.toml", set=changes)
    assert result.findings == ()
    assert result.scenario["suppress"] == [{"code": "E-CAP-UB", "reason": "measured on the board"}]
    record = record_of(result, result.scenario)
    assert [(f["code"], f["suppressed"]) for f in record["suppressed"]] == [("E-CAP-UB", "measured on the board")]
    outputs = dict(result.outputs)
    assert result_of(record, arrays_of(result), outputs, tmp_path).suppressed == result.suppressed
    page = markdown(result)
    assert "## Suppressed findings\n\n- E-CAP-UB UB: UB use 196576 B exceeds" in page
    assert "Reason: measured on the board\n" in page


def test_nothing_is_said_where_nothing_is_suppressed(tmp_path):
    result = asc.run(_file(tmp_path, ""), set={"machine.values": "none"})
    assert "suppressed" not in record_of(result, result.scenario)
    assert "uppressed" not in markdown(result)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ('[[suppress]]\ncode = "W-TILE-IDLE"\n', "suppress.0.reason: Field required"),
        (
            '[[suppress]]\ncode = "W-TILE-IDLE"\nreason = " "\n',
            "suppress.0.reason: is empty; say why the finding is accepted",
        ),
        ('[[suppress]]\ncode = "tile"\nreason = "x"\n', "suppress.0.code: String should match pattern"),
        (
            '[[suppress]]\ncode = "W-TILE-IDLE"\nreason = "x"\nwher = "y"\n',
            "suppress.0.wher: unknown key; did you mean where?",
        ),
        (
            '[suppress]\ncode = "W-TILE-IDLE"\nreason = "x"\n',
            "suppress: write [[suppress]] in double brackets, once for each finding",
        ),
    ],
)
def test_a_wrong_suppression_is_refused(tmp_path, more, text):
    with pytest.raises(asc.InputError) as refused:
        load_scenario(_file(tmp_path, more))
    assert text in str(refused.value)


def test_set_can_replace_them_all(tmp_path):
    changes = {"suppress": [{"code": "W-TILE-IDLE", "reason": "x"}]}
    assert load_scenario(_file(tmp_path, ""), changes).suppress[0].reason == "x"
    assert "suppress" not in json.dumps(load_scenario(_file(tmp_path, "")).resolved())
