"""Looking inside: a row's operands before and after it, a tensor at a cycle."""

import json
import re
import shlex
from itertools import pairwise

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

import ascendsim as asc
from ascendsim import inspection
from ascendsim.errors import InputError
from ascendsim.inspection import tensors
from ascendsim.machine import replay_of
from ascendsim.scenario import load_scenario
from ascendsim.window import rows_to_keep

TILE, TILES = 2048, 4


@pytest.fixture(scope="module")
def add():
    return asc.run(ROOT / "scenarios/vector_add.toml")


@pytest.fixture(scope="module")
def inputs(add):
    """x and y as the scenario fills them, [core, tile, element]."""
    gm = replay_of(load_scenario(ROOT / "scenarios/vector_add.toml"), {}, add.program).gm
    return [memory.content.view(np.float16).reshape(8, TILES, TILE) for memory in gm[:2]]


def rows_named(result, instr, core):
    """Numbers of a core's rows of an instruction, in program order."""
    log = result.program.instruction_log(core)
    numbers = result.timeline["number"][result.timeline["core"] == core]
    return [int(n) for n, entry in zip(numbers, log, strict=True) if entry["instr"] == instr]


# ---- rows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("core", [0, 3])
def test_an_add_finds_its_sources_and_leaves_their_sum(add, inputs, core):
    x, y = (array[core] for array in inputs)
    for tile, number in enumerate(rows_named(add, "vadd", core)):
        view = add.inspect(row=number, most=None)
        dst, src0, src1 = view.operands
        assert (view.number, view.core, view.api, view.pipe, view.line) == (
            number,
            core,
            "Add",
            "V",
            "vector_add.py:21",
        )
        assert [o.role for o in view.operands] == ["dst", "src0", "src1"]
        for operand, wanted in ((src0, x[tile]), (src1, y[tile])):
            assert (operand.before == wanted).all()
            assert (operand.after == wanted).all()
            assert (operand.changed, operand.is_written) == (0, False)
        assert (dst.after == x[tile] + y[tile]).all()
        assert dst.is_written
        assert dst.known_before.all() == (tile >= 2)  # two buffers: the third tile finds the first one's sums
        if tile >= 2:
            assert (dst.before == x[tile - 2] + y[tile - 2]).all()
        assert dst.count == len(dst.elements) == TILE
        assert (dst.tensor, dst.memory) == (f"out_z[{tile % 2}]", "UB")


def test_times_are_those_of_the_timeline(add):
    (number,) = rows_named(add, "vadd", 0)[1:2]
    at, times = add.timeline.position(number), add.inspect(row=number).times
    for name in ("dispatched", "start", "end", "wait_cycles"):
        assert getattr(times, name) == add.timeline[name][at]


def test_all_rows_of_a_core_follow_each_other(add):
    """What is before a row in an on-chip operand is what the row of the core that wrote it last has left there."""
    rows = add.timeline["number"][add.timeline["core"] == 0].tolist()
    views = inspection.values(add, rows, most=None)
    assert list(views) == rows
    held = {}
    for view in views.values():
        for operand in view.operands:
            key = operand.memory, operand.address_bytes
            if operand.memory == "UB" and key in held:
                assert (operand.before == held[key]).all()
        held |= {(o.memory, o.address_bytes): o.after for o in view.operands if o.memory == "UB"}
    assert len(held) == 6


def test_a_row_may_be_counted_on_its_core(add):
    for number in (0, 8, 79):
        view = add.inspect(row=number, core=5)
        assert (view.core, view.core_number) == (5, number)
        assert add.inspect(row=view.number).core_number == number


def test_elements_are_chosen_and_limited(add, inputs):
    (number,) = rows_named(add, "vadd", 0)[:1]
    some = add.inspect(row=number, elements=(100, 104)).operands[1]
    assert some.elements.tolist() == [100, 101, 102, 103]
    assert (some.before == inputs[0][0, 0, 100:104]).all()
    assert some.count == TILE
    assert len(add.inspect(row=number, most=5).operands[0].elements) == 5
    assert len(add.inspect(row=number).operands[0].elements) == inspection.views.MOST_VALUES


def test_a_store_reaches_gm(add):
    (number,) = rows_named(add, "copy_ubuf_to_gm", 2)[1:2]
    dst = add.inspect(row=number, most=None).operands[0]
    z = add.program.gm[2]
    first = (2 * TILES + 1) * TILE
    assert (dst.memory, dst.tensor, dst.address_bytes) == ("GM", "z", z.base_bytes + 2 * first)
    assert (dst.after == add.outputs["z"][first : first + TILE]).all()
    assert not dst.known_before.any()


def test_a_register_is_shown_where_it_is_made_and_where_it_is_used(tmp_path):
    (tmp_path / "k.py").write_text(
        "from ascendsim import HardEvent, TPosition\n"
        "def main(asc, x, z, t):\n"
        "    pipe = asc.t_pipe()\n"
        "    buf = asc.t_buf(TPosition.VECCALC, 'u')\n"
        "    pipe.init_buffer(buf, 1, 512)\n"
        "    u = buf.get('float')\n"
        "    asc.data_copy(u, x, 64)\n"
        "    for event in (HardEvent.MTE2_S, HardEvent.MTE2_V):\n"
        "        asc.set_flag(event, 0)\n"
        "        asc.wait_flag(event, 0)\n"
        "    asc.muls(u[64], u, asc.get_value(u, 3), 64)\n"
        "    asc.set_flag(HardEvent.V_MTE3, 0)\n"
        "    asc.wait_flag(HardEvent.V_MTE3, 0)\n"
        "    asc.data_copy(z, u[64], 64)\n"
    )
    tensor = 'shape = [64]\ndtype = "float"\n'
    (tmp_path / "s.toml").write_text(
        'schema = 1\ndevice = "Ascend910B1"\nkernel = "k.py:main"\nblock_dim = 1\n'
        f'[tensors.x]\nrole = "input"\nfill = "normal"\nseed = 1\n{tensor}[tensors.z]\nrole = "output"\n{tensor}'
    )
    result = asc.run(tmp_path / "s.toml")
    names = [entry["instr"] for entry in result.instruction_log()]
    (made,), (used,) = ([i for i, n in enumerate(names) if n == wanted] for wanted in ("scalar_load", "vmuls"))
    read = result.inspect(row=made)
    third = read.operands[0].before[0]
    assert (read.result, read.scalar) == (str(third), None)
    muls = result.inspect(row=used, most=None)
    assert (muls.scalar, muls.result) == (str(third), None)
    assert (muls.operands[0].after == muls.operands[1].before * third).all()


def test_a_single_call_can_be_looked_into():
    rng = np.random.default_rng(3)
    grad, src = (rng.random((8, 64)).astype(np.float32) for _ in range(2))
    result = asc.softmax_grad(grad, src)
    (first,) = [i for i, entry in enumerate(result.instruction_log()) if entry["instr"] == "vmul"][:1]
    dst, a, b = result.inspect(row=first, most=None).operands
    assert {a.tensor, b.tensor} == {"grad", "src"}
    assert (a.before == grad.reshape(-1)[: a.count]).all() or (a.before == src.reshape(-1)[: a.count]).all()
    assert (dst.after == a.before * b.before).all()
    grad[:] = 0  # the caller's arrays may change meanwhile
    assert (result.inspect(row=first, most=None).operands[0].after == dst.after).all()
    end = result.inspect(cycle=result.makespan_cycles, tensor="dst", most=None)
    assert (end.values.before == result.outputs["dst"].reshape(-1)).all()
    start = result.inspect(cycle=0, tensor="src", most=None)
    assert (start.values.before == src.reshape(-1)).all()


def test_a_mixed_kernel_has_its_products(device):
    result = asc.run(ROOT / "scenarios/matmul_plus_one.toml")
    cores = [c for c in range(result.program.core_count) if result.program.core_kind(c).name == "AIC"]
    rows = [n for c in cores[:1] for n in rows_of(result, c) if view_is(result, n, "Mmad")]
    view = result.inspect(row=rows[0], most=None)
    assert [o.memory for o in view.operands] == ["L0C", "L0A", "L0B"]
    assert view.core_name.startswith("AIC")
    assert view.operands[0].changed > 0


def rows_of(result, core):
    return result.timeline["number"][result.timeline["core"] == core].tolist()


def view_is(result, number, api):
    at = result.timeline.position(number)
    template = result.program.templates[result.program.calls["template"][result.timeline["call"][at]]]
    return template.rows[result.timeline["row"][at]].op.api == api


# ---- tensors --------------------------------------------------------------------------------------------------------


def loads(result, core, name):
    """(start, end, tile) of the copies into a buffer, in the order of time."""
    found = []
    for tile, number in enumerate(rows_named(result, "copy_gm_to_ubuf", core)):
        if name in result.inspect(row=number, most=1).operands[0].tensor:
            at = result.timeline.position(number)
            found.append((int(result.timeline["start"][at]), int(result.timeline["end"][at]), tile // 2))
    return found


@pytest.fixture(scope="module")
def into_x(add):
    return loads(add, 1, "in_x[0]")


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_buffer_at_a_cycle_holds_the_last_tile_that_was_complete(add, inputs, into_x, data):
    edges = [edge for start, end, _ in into_x for edge in (start - 1, start, end - 1, end)]
    cycle = data.draw(st.one_of(st.sampled_from(edges), st.integers(0, add.makespan_cycles)))
    view = add.inspect(cycle=cycle, tensor="in_x[0]", core=1, most=None)
    done = [tile for _, end, tile in into_x if end <= cycle]
    begun = [tile for start, _, tile in into_x if start <= cycle]
    for known, held, tiles in (
        (view.values.known_before, view.values.before, done),
        (view.values.known_after, view.values.after, begun),
    ):
        assert known.all() == bool(tiles)
        if tiles:
            assert (held == inputs[0][1, tiles[-1]]).all()
    assert len(view.in_flight) == len(begun) - len(done)
    assert (view.last is not None) == bool(done)
    assert (view.core, view.values.address_bytes, view.values.count) == (1, 0, TILE)


def test_an_output_fills_up_store_by_store(add):
    z = add.outputs["z"]
    ends = sorted(set(add.timeline["end"][add.timeline["kind"] == 4].tolist()))
    counts = []
    for cycle in (0, *ends[:: len(ends) // 6], add.makespan_cycles):
        view = add.inspect(cycle=cycle, tensor="z", most=None)
        known = view.values.known_before
        assert (view.values.before[known] == z[known]).all()
        assert (view.core, view.core_name) == (None, "all cores")
        counts.append(int(known.sum()))
    assert counts[0] == 0
    assert counts[-1] == len(z)
    assert all(a <= b for a, b in pairwise(counts))


def test_inputs_hold_what_they_were_filled_with(add, inputs):
    for cycle in (0, add.makespan_cycles):
        view = add.inspect(cycle=cycle, tensor="y", most=None)
        assert (view.values.before == inputs[1].reshape(-1)).all()
        assert (view.last, view.in_flight, view.values.is_written) == (None, (), False)


def test_bytes_may_be_read_as_another_type(add):
    half, bits = (add.inspect(cycle=1000, tensor="in_x[0]", element=kind, most=4).values for kind in (None, "uint16_t"))
    assert half.before.view(np.uint16).tolist() == bits.before.tolist()
    assert bits.dtype.name == "uint16_t"


# ---- runs that cannot be looked into, and those that come from a folder --------------------------------------------

WRONG = {
    "row 640: the program has rows 0 to 639": {"row": 640},
    "row -1: the program has rows 0 to 639": {"row": -1},
    "row 80: core 7 has rows 0 to 79": {"row": 80, "core": 7},
    "core 8: the run has cores 0 to 7": {"row": 3, "core": 8},
    "elements 4:4: want FIRST:LAST, FIRST at least 0 and below LAST": {"row": 3, "elements": (4, 4)},
    "inspect: give a row, or a cycle and a tensor": {"cycle": 3},
    "cycle -1: the run has cycles 0 to 1761": {"cycle": -1, "tensor": "z"},
    "cycle 1762: the run has cycles 0 to 1761": {"cycle": 1762, "tensor": "z"},
    "tensor pear: core 0 has none of that name; there is in_x[0], in_x[1], in_y[0], in_y[1], out_z[0], out_z[1], x, y, "
    "z": {"cycle": 1, "tensor": "pear"},
    "tensor address pear: want a number such as 0x2000": {"cycle": 1, "tensor": "in_x[0]@pear"},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_not_there(add, message):
    with pytest.raises(InputError) as error:
        add.inspect(**WRONG[message])
    assert str(error.value) == message


@pytest.mark.parametrize(("values", "what"), [("none", "no values"), ("sample", "only a sample of values")])
def test_values_that_were_not_computed(values, what):
    result = asc.run("vector_add", set={"machine.values": values})
    with pytest.raises(InputError, match=f"the run computed {what} .* run it again with --set machine.values=all"):
        result.inspect(row=3)


def test_a_folder_gives_what_the_result_gives(add, ascendsim, tmp_path):
    ascendsim("run", "vector_add", "--out", tmp_path / "out")
    again = asc.load_run(tmp_path / "out")
    (number,) = rows_named(add, "vadd", 0)[2:3]
    assert again.inspect(row=number).to_dict() == add.inspect(row=number).to_dict()
    one, other = (r.inspect(cycle=900, tensor="out_z[1]", core=2).to_dict() for r in (again, add))
    assert one == other


def test_a_kernel_that_has_changed_since(ascendsim, tmp_path):
    for name in ("vector_add.py", "vector_add.toml"):
        (tmp_path / name).write_text((ROOT / "scenarios" / name).read_text())
    ascendsim("run", tmp_path / "vector_add.toml", "--out", tmp_path / "out")
    source = (tmp_path / "vector_add.py").read_text()
    (tmp_path / "vector_add.py").write_text(source.replace("asc.add(", "asc.sub("))
    done = ascendsim("inspect", tmp_path / "out", "--row", 3, code=2)
    assert "records something else now than when the run was made; run the scenario again" in done.stderr


def test_arrays_that_the_folder_does_not_hold(ascendsim, tmp_path):
    from conftest import Undrawn

    from ascendsim.runfolder import write_run

    data = np.ones(65536, np.float16)
    changes = {"tensors.x.fill": "array"}
    result = asc.run("vector_add", set=changes, arrays={"x": data})
    assert result.inspect(row=0, most=2).operands[0].after.tolist() == [1.0, 1.0]
    write_run(result, tmp_path / "out", painter=Undrawn())
    with pytest.raises(InputError, match="was given arrays that its folder does not hold"):
        asc.load_run(tmp_path / "out").inspect(row=0)


SHORT = {"tiling.tile_length": 256}


def test_a_long_run_knows_its_windows(monkeypatch):
    """With few rows kept: rows are shown without times, cycles in what was kept are answered, others are refused."""
    whole = asc.run("vector_add", set=SHORT)
    monkeypatch.setattr("ascendsim.machine.rows_to_keep", only_windows)
    last = whole.makespan_cycles
    result = asc.run("vector_add", set=SHORT, windows=[(0, 600), (last - 1000, last)])
    assert 0 < len(result.timeline) < len(whole.timeline)
    lost = min(set(whole.timeline["number"].tolist()) - set(result.timeline["number"].tolist()))
    view, full = result.inspect(row=lost), whole.inspect(row=lost)
    assert view.times is None
    assert full.times is not None
    assert [o.to_dict() for o in view.operands] == [o.to_dict() for o in full.operands]
    for cycle in (0, 350, 550, last - 500, last):
        one, other = (r.inspect(cycle=cycle, tensor="in_x[0]", most=None).values for r in (result, whole))
        assert one.to_dict() == other.to_dict()
    with pytest.raises(
        InputError, match=r"cycle 2000: the run is too long .* run it again with --trace-window 1000:3000"
    ):
        result.inspect(cycle=2000, tensor="in_x[0]")


def only_windows(program, windows):
    found = rows_to_keep(program, windows, whole_rows=100)
    found.calls[:] = False
    return found


def test_several_tensors_of_a_name(add):
    assert tensors.look_at_tensor(add, 500, "in_x[0]@0x0").values.address_bytes == 0
    with pytest.raises(InputError, match="none of that name"):
        tensors.look_at_tensor(add, 500, "in_x[0]@0x20")


# ---- the command ----------------------------------------------------------------------------------------------------


def test_the_command_prints_a_row(add, inputs, ascendsim):
    (number,) = rows_named(add, "vadd", 0)[:1]
    done = ascendsim("inspect", "vector_add", "--row", number, "--elements", "0:2")
    z, x, y = add.outputs["z"], inputs[0][0, 0], inputs[1][0, 0]
    strides = "repeat=1, dst_blk_stride=1, src0_blk_stride=1, src1_blk_stride=1, "
    strides += "dst_rep_stride=8, src0_rep_stride=8, src1_rep_stride=8"
    assert done.stdout.splitlines() == [
        "row 8, row 8 of core 0: Add (vadd) f16 on V, vector_add.py:21",
        "  cycles 473 to 529, dispatched at 9, waited 464 cycles for pipe order",
        f"  mask counter, 2048 elements, {strides}",
        "",
        "dst  out_z[0]  UB 0x4000  half  2048 elements  2048 changed",
        "   element  before         after",
        f"         0  never written  {z[0]:.6f}",
        f"         1  never written  {z[1]:.6f}",
        "  2 of 2048 elements shown",
        "",
        "src0  in_x[0]  UB 0x0  half  2048 elements",
        f"         0  {x[0]:.6f}  {x[1]:.6f}",
        "  2 of 2048 elements shown",
        "",
        "src1  in_y[0]  UB 0x2000  half  2048 elements",
        f"         0  {y[0]:.6f}  {y[1]:.6f}",
        "  2 of 2048 elements shown",
    ]


def test_the_command_prints_a_tensor(ascendsim, add):
    done = ascendsim("inspect", "vector_add", "--cycle", 560, "--tensor", "in_x[1]", "--elements", "0:1")
    x = add.inspect(cycle=add.makespan_cycles, tensor="x", elements=(TILE, TILE + 1)).values.before[0]
    assert done.stdout.splitlines() == [
        "in_x[1] of core 0 at cycle 560: what rows complete by then have left",
        "  no row that writes it is complete by then",
        "  in flight: row 17 (copy_gm_to_ubuf, vector_add.py:18), cycles 472 to 644",
        "",
        "in_x[1]  UB 0x1000  half  2048 elements  2048 changed",
        "   element  at 560         when those in flight are done",
        f"         0  never written  {x:.6f}",
        "  1 of 2048 elements shown",
    ]


def test_json_holds_no_nan(ascendsim):
    done = ascendsim("inspect", "vector_add", "--row", 0, "--json")
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    dst = found["operands"][0]
    assert dst["before"] == [None] * 32
    assert all(isinstance(value, float) for value in dst["after"])
    tensor = json.loads(ascendsim("inspect", "vector_add", "--cycle", 9, "--tensor", "x", "--json").stdout)
    assert (tensor["cycle"], tensor["core"], tensor["values"]["count"]) == (9, None, 65536)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--row", 3, "--cycle", 3), "inspect: give --row N, or --cycle T and --tensor NAME"),
        ((), "inspect: give --row N, or --cycle T and --tensor NAME"),
        (("--cycle", 3), "inspect: give --row N, or --cycle T and --tensor NAME"),
        (("--row", 3, "--elements", "x"), "--elements x: want FIRST:LAST in elements, such as 64:128"),
        (("--row", 3, "--dtype", "half"), "--dtype goes with --cycle and --tensor"),
        (("--cycle", 3, "--tensor", "z", "--dtype", "pear"), "unknown dtype 'pear'"),
    ],
)
def test_the_command_refuses(ascendsim, arguments, message):
    assert message in ascendsim("inspect", "vector_add", *arguments, code=2, columns=400).stderr


# ---- the page -------------------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs/inspect.md").read_text()


def test_commands_of_the_page_print_what_it_shows(ascendsim):
    shown = re.findall(r"^ {4}\$ ascendsim (inspect .*)\n((?: {4}.*\n|\n(?= {4}))+)", PAGE, re.MULTILINE)
    assert len(shown) == 2
    for command, text in shown:
        done = ascendsim(*shlex.split(command), columns=400)
        lines = [line.removeprefix("    ") for line in text.rstrip("\n").split("\n")]
        assert done.stdout.rstrip("\n").split("\n") == lines


@pytest.mark.parametrize("page", ["inspect", "notebook"])
def test_python_of_the_pages_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    block = next(b for b in re.findall(r"```python\n(.*?)```", (ROOT / f"docs/{page}.md").read_text(), re.DOTALL)
                 if "import ascendsim" in b)  # fmt: skip
    exec(compile(block, page, "exec"), {})  # noqa: S102 - our own text
    if page == "notebook":
        assert (tmp_path / "timeline.pdf").read_bytes().startswith(b"%PDF")
    else:
        assert capsys.readouterr().out.startswith("vadd 473 [('dst', 'out_z[0]', 2048)")
