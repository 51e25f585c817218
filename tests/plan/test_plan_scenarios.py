"""A scenario as a plan: what its host side allocates, and what a run of it uses."""

import pytest
from conftest import ROOT

from ascendsim.errors import InputError
from ascendsim.machine import buffers_of
from ascendsim.plan.answer import answer, load_plan
from ascendsim.scenario import load_scenario

SCENARIOS = sorted(path.stem for path in (ROOT / "scenarios").glob("*.toml"))
TMP = {"tiling.tmp_bytes": ["min", "max", 8320]}


def _recorded(name, changes):
    return [(q.name, q.address_bytes, q.buffer_bytes, q.num) for q in buffers_of(load_scenario(name, changes))]


def _planned(name, changes, solve=None):
    found = answer(load_plan(name, changes), solve)
    return found, [(e.name, e.start_bytes, e.bytes, e.num) for e in found.layout.entries]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_plan_has_the_buffers_of_a_run(name):
    found, planned = _planned(name, {})
    assert found.fits
    recorded = _recorded(name, {})
    framework = {use.name for use in found.layout.temps if use.policy == "framework"}
    assert [e for e in planned if e[0] not in framework] == recorded


@pytest.mark.parametrize("tmp", ["min", "max", 8320])
@pytest.mark.parametrize("tile_m", [1, 4, 7, 8, 500])
def test_the_temp_of_a_scenario_is_the_operators(tmp, tile_m):
    changes = {"tiling.tile_m": tile_m, "tiling.tmp_bytes": tmp, "block_dim": 1}
    shapes = {f"tensors.{name}.shape": [30, 960] for name in ("grad", "src", "dst")}
    _, planned = _planned("softmaxgrad_960x960_float", changes | shapes)
    recorded = _recorded("softmaxgrad_960x960_float", changes | shapes)
    assert planned == recorded


def test_solving_for_the_tile_of_a_scenario():
    found, _ = _planned("softmaxgrad_960x960_float", {}, "tile_m")
    assert found.solution.largest == {"safe": 7, "visible": 8, "hardware": 8}
    # By hand: six buffers of 3840 B a row, and one row of temp, 4 * (960 + 80) B.
    assert 7 * 6 * 3840 + 4160 <= 188160 < 8 * 6 * 3840 + 4160 <= 196352 < 9 * 6 * 3840 + 4160


def test_a_scenario_with_a_platform_keeps_its_ub(tmp_path):
    text = (ROOT / "scenarios/softmaxgrad_960x960_float.toml").read_text()
    file = tmp_path / "own.toml"
    platform = "[platform]\naic_cores = 24\naiv_cores = 48\nub_bytes = 131072\n"
    file.write_text(text.replace('device = "Ascend910B1"\n', "") + platform)
    found, _ = _planned(file, {}, "tile_m")
    assert [m.capacity_bytes for m in found.margins] == [131072 - 8448, 131072 - 256, 131072]
    assert found.solution.largest["safe"] == (131072 - 8448 - 4160) // (6 * 3840)


def test_what_the_host_side_refuses_is_refused():
    changes = {f"tensors.{name}.dtype": "bfloat16_t" for name in ("grad", "src", "dst")}
    with pytest.raises(InputError, match="softmax_grad supports half and float"):
        load_plan("softmaxgrad_960x960_float", changes)


def test_a_tile_that_does_not_fit():
    found, _ = _planned("softmaxgrad_960x960_float", {"tiling.tile_m": 9})
    assert [f.code for f in found.layout.findings] == ["E-CAP-UB-HW", "E-CAP-UB"]
    assert found.layout.findings[0].message.startswith("out ends at 207360 B")
