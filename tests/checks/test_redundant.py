"""Flags and barriers that order nothing, and what they cost."""

import re

import pytest

import ascendsim as asc

KERNEL = """
from ascendsim import HardEvent, Pipe, TPosition


def main(asc, x, z, t):
    pipe = asc.t_pipe()
    buf = asc.t_buf(TPosition.VECCALC, "buf")
    pipe.init_buffer(buf, 1, 2 * x.count * 4)
    a = buf.get("float")
    b = a[x.count]
    asc.data_copy(a, x, x.count)
    asc.set_flag(HardEvent.MTE2_V, 0)
    asc.wait_flag(HardEvent.MTE2_V, 0)
{first}
    asc.adds(b, a, 1.0, x.count)
{second}
    asc.set_flag(HardEvent.V_MTE3, 0)
    asc.wait_flag(HardEvent.V_MTE3, 0)
    asc.data_copy(z, b, x.count)
"""
SCENARIO = """
schema = 1
device = "Ascend910B1"
kernel = "k.py:main"
block_dim = 1
[tensors]
x = { role = "input", shape = [4096], dtype = "float", fill = "uniform", seed = 1 }
z = { role = "output", shape = [4096], dtype = "float" }
"""


def checked(folder, first="", second=""):
    (folder / "k.py").write_text(KERNEL.format(first=first, second=second))
    (folder / "s.toml").write_text(SCENARIO)
    return [f for f in asc.check(folder / "s.toml") if not f.code.startswith("W-MTE")]


def test_a_kernel_without_a_flag_too_many(tmp_path):
    assert checked(tmp_path) == []


@pytest.mark.parametrize(
    ("first", "what"),
    [
        ("    asc.pipe_barrier(Pipe.V)", "PipeBarrier<PIPE_V>"),
        ("    asc.pipe_barrier(Pipe.V)\n    asc.pipe_barrier(Pipe.V)", "PipeBarrier<PIPE_V>"),
        ("    asc.set_flag(HardEvent.MTE2_V, 1)\n    asc.wait_flag(HardEvent.MTE2_V, 1)", "WaitFlag MTE2_V id 1"),
    ],
)
def test_what_orders_nothing_is_named_with_its_cycles(tmp_path, first, what):
    found = checked(tmp_path, first=first)
    assert {f.code for f in found} == {"W-SYNC-REDUNDANT"}
    for f in found:
        assert re.fullmatch(
            re.escape(f"{what} orders nothing that is not ordered already; without it the program takes ")
            + r"\d+ cycles less",
            f.message,
        )
    assert len(found) == first.count("barrier") + first.count("wait_flag")


def test_a_flag_costs_what_the_engine_says(tmp_path):
    pair = "    asc.set_flag(HardEvent.MTE2_V, 1)\n    asc.wait_flag(HardEvent.MTE2_V, 1)"
    (found,) = checked(tmp_path, first=pair)
    checked(tmp_path, first=pair)
    slow = asc.run(tmp_path / "s.toml").makespan_cycles
    checked(tmp_path)
    quick = asc.run(tmp_path / "s.toml").makespan_cycles
    assert found.message.endswith(f"takes {slow - quick} cycles less")
    assert slow > quick


def test_a_barrier_that_orders_is_not_named(tmp_path):
    second = "    asc.pipe_barrier(Pipe.V)\n    asc.adds(b, b, 1.0, x.count)"
    assert checked(tmp_path, second=second) == []


HELPER = """
def flagged(asc, event_id):
    asc.set_flag(HardEvent.MTE2_V, event_id)
    asc.wait_flag(HardEvent.MTE2_V, event_id)
"""


def test_of_flags_at_one_line_only_the_idle_one_is_taken_out(tmp_path):
    """Both are set and waited for in a helper; the second costs what the engine says, the first is needed."""
    pair = "    flagged(asc, 1)"
    kernel = KERNEL.replace("\n\ndef main", f"\n{HELPER}\n\ndef main", 1).replace(
        "    asc.set_flag(HardEvent.MTE2_V, 0)\n    asc.wait_flag(HardEvent.MTE2_V, 0)", "    flagged(asc, 0)"
    )
    (tmp_path / "s.toml").write_text(SCENARIO)
    cycles = []
    for first in ("", pair):
        (tmp_path / "k.py").write_text(kernel.format(first=first, second=""))
        cycles.append(asc.run(tmp_path / "s.toml").makespan_cycles)
    redundant = [f for f in asc.check(tmp_path / "s.toml") if f.code == "W-SYNC-REDUNDANT"]
    assert [f.operand for f in redundant] == ["WaitFlag MTE2_V id 1"]
    assert redundant[0].message.endswith(f"takes {cycles[1] - cycles[0]} cycles less")


def test_the_barrier_inside_select_is_not_the_kernels_to_remove(tmp_path):
    """In mode 1 it waits for the compare-mask register, which no instruction in UB has written."""
    call = "    asc.select(b, a.reinterpret_cast('uint8_t'), a, 1.0, SelMode.VSEL_TENSOR_SCALAR_MODE, x.count)"
    (tmp_path / "s.toml").write_text(SCENARIO)
    kernel = KERNEL.replace("import HardEvent, Pipe,", "import HardEvent, Pipe, SelMode,")
    kernel = kernel.replace("    asc.adds(b, a, 1.0, x.count)", call)
    (tmp_path / "k.py").write_text(kernel.format(first="", second=""))
    assert [f.code for f in asc.check(tmp_path / "s.toml") if f.code.startswith("W-SYNC")] == []
