"""A scenario as a plan: what its host side allocates, and what a run of it uses."""

import pytest
from conftest import ROOT, SHIPPED

from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT
from ascendsim.errors import InputError, Rejected
from ascendsim.machine import buffers_of, check
from ascendsim.plan.answer import answer, load_plan
from ascendsim.plan.solve import enough_temp
from ascendsim.scenario import load_scenario
from ascendsim.tmpsize import softmax_grad_tmp_size

SCENARIOS = SHIPPED
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
    assert sorted(e for e in planned if e[0] not in framework) == sorted(recorded)


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


@pytest.mark.parametrize("tile_length", [2048, 15680, 15696, 16352, 16368, 16384, 16400, 40000])
def test_a_kernels_plan_finds_what_the_rules_find(tile_length):
    changes = {"tiling.tile_length": tile_length}
    found, _ = _planned("vector_add", changes)
    capacity = ("E-CAP-UB-HW", "E-CAP-UB", "W-CAP-UB-SAFE")
    assert [f.code for f in found.layout.findings] == [
        f.code for f in check("vector_add", set=changes) if f.code in capacity
    ]
    assert found.layout.names["tile_length"] == tile_length


def test_findings_name_no_key_that_the_scenario_does_not_have():
    found, _ = _planned("scaled_softmax_grad", {"tiling.tile_m": 64})
    where = "queue or TBuf of the kernel"
    assert [str(f).split(" (to mend")[0] for f in found.layout.findings] == [
        f"E-CAP-UB-HW {where}: tmp ends at 209920 B, 13312 B beyond the 196608 B of UB that exist",
        f"E-CAP-UB {where}: out_ds ends at 196608 B, 256 B beyond the 196352 B of UB that Ascend C sees",
    ]
    found, _ = _planned("softmaxgrad_960x960_float", {"tiling.tile_m": 8})
    assert {f.where for f in found.layout.findings} == {"tiling.tmp_bytes"}
    found, _ = _planned("softmaxgrad_960x960_float", {"tiling.tile_m": 9})
    assert found.layout.findings[0].where == "queues.out"


def test_a_kernel_that_cannot_be_recorded(tmp_path):
    (tmp_path / "k.py").write_text(
        "from ascendsim import TPosition\n\n\ndef main(asc, x, t):\n"
        '    asc.t_pipe().init_buffer(asc.t_que(TPosition.VECIN, 1, "q"), 65, 64)\n'
    )
    file = tmp_path / "k.toml"
    file.write_text(
        'schema = 1\ndevice = "Ascend910B1"\nkernel = "k.py:main"\n'
        '[tensors.x]\nrole = "input"\nshape = [64]\ndtype = "float"\nfill = "zeros"\n'
    )
    with pytest.raises(Rejected, match="E-BUF-LENGTH"):
        load_plan(file, {})


def test_a_tiling_is_no_plan():
    with pytest.raises(InputError, match="a tiling of an operator, without tensors; plan the scenario that names it"):
        load_plan("softmaxgrad_front_small", {})


def test_what_the_host_side_refuses_is_refused():
    changes = {f"tensors.{name}.dtype": "bfloat16_t" for name in ("grad", "src", "dst")}
    with pytest.raises(InputError, match="softmax_grad supports half and float"):
        load_plan("softmaxgrad_960x960_float", changes)


def test_cycles_of_a_product_that_ignores_tiles():
    """With the least temp the tiling has no row there, and the kernel does not look at it."""
    found, _ = _planned("softmaxgrad_960x960_float", {"device": "Ascend950PR_9589"}, "tile_m")
    device = load_device("Ascend950PR_9589")
    own = {
        rows: softmax_grad_tmp_size((rows, 960), FLOAT, False, 3510, device).choices["min"].cycles for rows in (10, 11)
    }
    first = found.table[0]
    assert (first.value, first.cut.tiling.split_m, first.cut.temp_bytes) == (11, 0, 512)
    assert [row.cycles for row in found.table[:2]] == [own[11], own[10]]
    assert found.fastest.value == 11
    assert enough_temp(found.table[1].cut) == 512, "more temp changes nothing"


def test_the_temp_that_is_enough_for_the_same_cycles():
    """By hand: a row takes 4 * (960 + 80) B of temp."""
    found, _ = _planned("softmaxgrad_960x960_float", {}, "tile_m")
    split = {row.cut.temp_bytes: (row.cut.tiling.split_m, enough_temp(row.cut)) for row in found.table}
    assert split[26880] == (6, 6 * 4160)
    assert all(enough == rows * 4160 for rows, enough in split.values())


def test_a_tile_that_does_not_fit():
    found, _ = _planned("softmaxgrad_960x960_float", {"tiling.tile_m": 9})
    assert [f.code for f in found.layout.findings] == ["E-CAP-UB-HW", "E-CAP-UB"]
    assert found.layout.findings[0].message.startswith("out ends at 207360 B")
