"""DumpTensor: what it shows, what it prints, and that it takes no time."""

import numpy as np
import pytest
from conftest import ROOT

import ascendsim as asc
from ascendsim import dumps
from ascendsim.dtypes import dtype
from ascendsim.dumps import dump_lines
from ascendsim.errors import Deadlock, KernelError
from ascendsim.execute import execute
from ascendsim.machine import schedule
from ascendsim.memory import Bytes, LocalTensor
from ascendsim.record import record
from ascendsim.terms import HardEvent, KernelType, TPosition

ADD = (ROOT / "scenarios/vector_add.py").read_text()
AFTER_ADD = "        out_z.enque(z_local)\n"


@pytest.fixture
def added(tmp_path):
    """Write vector_add with lines behind its Add, and return the scenario's file."""

    def written(*lines, block_dim=2):
        more = "".join(f"        {line}\n" for line in lines)
        (tmp_path / "vector_add.py").write_text(ADD.replace(AFTER_ADD, more + AFTER_ADD))
        text = (ROOT / "scenarios/vector_add.toml").read_text().replace("block_dim = 8", f"block_dim = {block_dim}")
        (tmp_path / "s.toml").write_text(text)
        return tmp_path / "s.toml"

    return written


def test_every_tile_shows_its_sums_in_the_order_in_which_cores_ran(added):
    result = asc.run(added("asc.dump_tensor(z_local, 7, 16)"))
    assert len(result.dumps) == 65536 // 2048
    z = result.outputs["z"].reshape(2, -1, 2048)
    for number, dump in enumerate(result.dumps):
        core, tile = divmod(number, 16)
        assert (dump.core, dump.desc, dump.memory, dump.count) == (core, 7, "UB", 16)
        assert dump.values.tolist() == z[core, tile, :16].tolist()
        assert dump.written.all()
        assert dump.tensor == f"out_z[{tile % 2}]"


def test_it_takes_no_time_and_changes_no_value(added):
    plain, dumped = asc.run(added()), asc.run(added("asc.dump_tensor(z_local, 1, 16)", "asc.dump_tensor(x[at], 2, 16)"))
    assert dumped.makespan_cycles == plain.makespan_cycles
    assert (dumped.outputs["z"] == plain.outputs["z"]).all()
    assert plain.dumps == ()
    assert not plain.has_dumps
    kept = np.array([row["instr"] != "dump_tensor" for row in dumped.instruction_log()])
    on_core = dumped.timeline["core"] == 0
    for column in ("start", "end"):
        was = plain.timeline[column][plain.timeline["core"] == 0]
        assert dumped.timeline[column][on_core][kept].tolist() == was.tolist()


def test_its_row_is_the_one_of_the_timeline(added):
    result = asc.run(added("asc.dump_tensor(z_local, 1, 16)"))
    for dump in result.dumps:
        at = result.timeline.position(dump.number)
        call, row = result.timeline["call"][at], result.timeline["row"][at]
        template = result.program.templates[result.program.calls["template"][call]]
        assert template.rows[row].op.name == "dump_tensor"
        assert result.timeline["core"][at] == dump.core


def test_print_has_the_fields_of_the_real_one(added):
    result = asc.run(added("asc.dump_tensor(z_local, 5, 3)"))
    z = result.outputs["z"]
    assert list(dump_lines(result.dumps[0])) == [
        "# core 0, out_z[0], vector_add.py:22, row 11",
        "DumpTensor: desc=5, addr=4000, data_type=float16, position=UB, dump_size=3",
        f"[{z[0]:.6f}, {z[1]:.6f}, {z[2]:.6f}]",
    ]


def test_a_shape_breaks_lines_drops_what_is_more_and_marks_what_is_missing(added):
    result = asc.run(added("asc.dump_tensor(z_local, 1, 6, (2, 2, 2))", "asc.dump_tensor(z_local, 2, 6, (1, 2))"))
    z = [f"{v:.6f}" for v in result.outputs["z"][:6]]
    assert list(dump_lines(result.dumps[0]))[2:] == [
        f"[[[{z[0]}, {z[1]}],",
        f"  [{z[2]}, {z[3]}]],",
        f" [[{z[4]}, {z[5]}],",
        "  [-, -]]]",
    ]
    assert list(dump_lines(result.dumps[1]))[2:] == [f"[[{z[0]}, {z[1]}]]"]


def test_gm_shows_its_tensor_and_what_lies_behind_its_end(added):
    result = asc.run(added("asc.dump_tensor(x[at + 2047], 3, 4)"))
    last = result.dumps[-1]
    assert (last.memory, len(last.values), last.count) == ("GM", 1, 4)
    x = result.program.gm[0]
    assert last.address_bytes == x.base_bytes + (65536 - 1) * 2
    assert list(dump_lines(last))[2].count("-") >= 3
    assert list(dump_lines(last))[2].endswith(", -, -, -]")


def test_bytes_that_nobody_wrote_are_marked(added):
    result = asc.run(added_unwritten(added))
    dump = result.dumps[0]
    assert not dump.written.any()
    assert list(dump_lines(dump))[2:] == ["[nan?, nan?]", "(?: never written)"]


def added_unwritten(added):
    file = added()
    source = file.parent / "vector_add.py"
    line = "        asc.add(z_local, x_local"
    source.write_text(source.read_text().replace(line, f"        asc.dump_tensor(z_local, 1, 2)\n{line}"))
    return file


def test_dump_acc_chk_point_starts_at_an_element(added):
    result = asc.run(added("asc.dump_acc_chk_point(z_local, 9, 16, 2)"))
    assert result.dumps[0].values.tolist() == result.outputs["z"][16:18].tolist()
    assert (result.dumps[0].desc, result.dumps[0].address_bytes) == (9, 0x4000 + 32)


UB = LocalTensor("u", TPosition.VECCALC, dtype("float"), 32, 256)
REFUSED = {
    "DumpTensor: tensor must be a tensor, got int": lambda a: a.dump_tensor(3, 1, 1),
    "DumpTensor: desc must be a whole number, got 1.0": lambda a: a.dump_tensor(UB, 1.0, 1),
    "DumpTensor: desc is -1, want 0 to 4294967295 (uint32_t)": lambda a: a.dump_tensor(UB, -1, 1),
    "DumpTensor: dump_size is 0, want at least 1 element": lambda a: a.dump_tensor(UB, 1, 0),
    "DumpTensor: dump_size is 65, u has 64 elements from there on": lambda a: a.dump_tensor(UB, 1, 65),
    "DumpTensor: 262145 elements are 1048580 B; one call prints at most 1048576 B, and nothing of a longer one": (
        lambda a: a.dump_tensor(UB, 1, 262145)
    ),
    "DumpTensor: shape_info is (2, 0), want up to 8 axes of at least 1 element": (
        lambda a: a.dump_tensor(UB, 1, 4, (2, 0))
    ),
    "DumpTensor: a2 lies in L0A; DumpTensor prints what is in UB, L1, L0C and GM": (
        lambda a: a.dump_tensor(LocalTensor("a2", TPosition.A2, dtype("half"), 0, 512), 1, 4)
    ),
    "DumpAccChkPoint: count_off is -1, want 0 or more": lambda a: a.dump_acc_chk_point(UB, 1, -1, 1),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_it_refuses_names_line_and_reason(device, message):
    call = REFUSED[message]
    with pytest.raises(KernelError) as error:
        record(call, device, 1, (), (), kernel_type=KernelType.AIV_ONLY)
    assert str(error.value) == f"test_dump.py:{call.__code__.co_firstlineno}: {message}"


def test_an_operand_off_its_boundary_is_found(device):
    from ascendsim.checks import check_program

    program = record(lambda a: a.dump_tensor(UB[1], 1, 1), device, 1, (), ()).program
    found = [f for f in check_program(program, device) if f.code == "E-ALIGN-UB"]
    assert [f.message for f in found] == ["DumpTensor src0 u: UB address 0x24 is 4 B past a 32 B boundary"]


def test_a_core_prints_one_mebibyte(device):
    big = LocalTensor("b", TPosition.VECCALC, dtype("float"), 0, 128 * 1024)

    def kernel(a):
        for i in range(9):
            a.dump_tensor(big, i, 32 * 1024)

    ub = Bytes(device.ub_bytes)
    program = record(kernel, device, 1, (), ()).program
    found = execute(program, device, (), ub=ub).dumps
    each = 128 * 1024 + 32  # with its head
    assert [d.is_dropped for d in found] == [(i + 1) * each > 1 << 20 for i in range(9)]
    assert list(dump_lines(found[-1]))[2] == f"[not printed: this core had dumped {dumps.CORE_BYTES} B before]"


def test_it_waits_for_all_pipes_as_the_real_one(device):
    def kernel(a):
        a.wait_flag(HardEvent.MTE2_V, 0)
        a.dump_tensor(UB, 1, 4)
        a.set_flag(HardEvent.MTE2_V, 0)

    program = record(kernel, device, 1, (), ()).program
    with pytest.raises(Deadlock, match=r"S waits at test_dump.py:[0-9]+ for all pipes, as DumpTensor does"):
        execute(program, device, (), ub=Bytes(1024))


def test_a_kernel_that_only_dumps_has_no_cycles(device):
    program = record(lambda a: a.dump_tensor(UB, 1, 4), device, 1, (), ()).program
    assert schedule(program, device).makespan_cycles == 0


def test_a_folder_keeps_them(added, ascendsim, tmp_path):
    file = added("asc.dump_tensor(z_local, 7, 100)", "asc.dump_tensor(x[at], 8, 2, (1, 2))")
    done = ascendsim("run", file, "--out", tmp_path / "out")
    known, again = asc.run(file).dumps, asc.load_run(tmp_path / "out").dumps
    assert len(known) == len(again) == 64
    for one, other in zip(known, again, strict=True):
        assert list(dump_lines(one)) == list(dump_lines(other))
        assert (one.core, one.number, one.dtype, one.shape) == (other.core, other.number, other.dtype, other.shape)
    text = (tmp_path / "out/dumps.txt").read_text()
    assert text == "".join(f"{line}\n" for dump in known for line in dump_lines(dump))
    shown = done.stdout.splitlines()
    assert sum(line.startswith("DumpTensor: desc=7") for line in shown) == 4
    assert any(line.endswith(", ... 36 more]") for line in shown)
    assert f"56 more dumps in {tmp_path / 'out/dumps.txt'}" in shown
    files = sum(path.is_file() for path in (tmp_path / "out").rglob("*"))
    assert f"{files} files in {tmp_path / 'out'}" in shown
    ascendsim("run", added(), "--out", tmp_path / "out")  # a run without any leaves no old file behind
    assert not (tmp_path / "out/dumps.txt").exists()


@pytest.mark.parametrize("values", ["none", "sample"])
def test_without_all_values_there_is_nothing_to_show(added, ascendsim, tmp_path, values):
    file = added("asc.dump_tensor(z_local, 7, 100)")
    done = ascendsim("run", file, "--out", tmp_path / "out", "--set", f"machine.values={values}", code=None)
    assert f'dump_tensor shows nothing with machine.values = "{values}"; it needs "all"' in done.stdout
    assert asc.load_run(tmp_path / "out").dumps == ()


def test_l0c_of_a_cube_kernel(tmp_path):
    """What Mmad has left in L0C, of the shipped kernel."""
    source = (ROOT / "scenarios/matmul_plus_one.py").read_text()
    at = source.index("asc.mmad(")
    line = source[source.rindex("\n", 0, at) + 1 : at]
    name = source[at:].split("(")[1].split(",")[0]
    end = source.index("\n", at)
    (tmp_path / "matmul_plus_one.py").write_text(source[:end] + f"\n{line}asc.dump_tensor({name}, 1, 4)" + source[end:])
    (tmp_path / "s.toml").write_text((ROOT / "scenarios/matmul_plus_one.toml").read_text())
    result = asc.run(tmp_path / "s.toml")
    assert {dump.memory for dump in result.dumps} == {"L0C"}
    assert all(dump.core_name.startswith("AIC") and dump.written.all() for dump in result.dumps)
