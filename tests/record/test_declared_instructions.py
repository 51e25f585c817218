"""Instructions that a kernel's own file declares: who can call them, what they cost, what is refused, and storing."""

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Undrawn

import ascendsim as asc
from ascendsim.checks import check_program, check_rows
from ascendsim.device import load_device
from ascendsim.dtypes import dtype
from ascendsim.errors import InputError, KernelError
from ascendsim.execute import execute
from ascendsim.isa.instruction import BY_OPCODE, TABLE
from ascendsim.machine import schedule
from ascendsim.memory import Bytes, LocalTensor
from ascendsim.program import from_arrays, to_arrays
from ascendsim.record import record
from ascendsim.terms import HalfOverflow, TPosition
from ascendsim.user_code import load_function

DEVICE = load_device("Ascend910B1")

FILE = '''"""A kernel with an instruction of its own."""

from ascendsim import Cost, instruction


@instruction("{form}", "{api}", cost={cost}{more})
def {name}({arguments}):
    """What it does.{source}"""
    return {result}


def main(asc, *tensors):
    asc.{name}({call})
'''
HEAD = 6  # line of the decorator


DEFAULTS = {
    "form": "binary",
    "api": "MyOp",
    "cost": '"Add"',
    "more": "",
    "name": "my_op",
    "arguments": "a, b",
    "result": "a * b - b",
    "call": "*tensors, 8",
    "source": " Source: here.",
}


def kernel(folder, file="k.py", **changes):
    """The main function of a file written from FILE."""
    (folder / file).write_text(FILE.format(**DEFAULTS | changes))
    return load_function(f"{file}:main", folder, "kernel")


def local(name, address, kind="float", length=1024):
    return LocalTensor(name, TPosition.VECCALC, dtype(kind), address, length)


A, B, D = local("a", 0), local("b", 4096), local("d", 8192)


def recorded(main, *tensors):
    return record(main, DEVICE, 1, (), tensors)


def values(program, overflow=HalfOverflow.INF_NAN, **start):
    ub = Bytes(DEVICE.ub_bytes)
    for tensor, content in start.values():
        raw = np.ascontiguousarray(content).view(np.uint8)
        ub.content[tensor.start_bytes :][: raw.size] = raw
        ub.written[tensor.start_bytes :][: raw.size] = True
    execute(program, DEVICE, (), overflow=overflow, ub=ub)
    return ub


def test_all_forms_compute(tmp_path):
    a, b = np.arange(1, 129, dtype=np.float32), np.full(128, 2, np.float32)
    start = {"a": (A, a), "b": (B, b)}
    cases = {
        "binary": ("a, b", "a * b - b", "*tensors, 8", (D, A, B), 2 * a[:8] - 2),
        "unary": ("a", "-a", "*tensors, 8", (D, A), -a[:8]),
        "scalar_binary": ("a, s", "a - s", "*tensors, 0.5, 8", (D, A), a[:8] - 0.5),
        "block_reduction": (
            "v, present, add", "add(v[:, 0], v[:, -1])", "*tensors, 1, 64, 1, 1, 8", (D, A), 9 + 16 * np.arange(8)
        ),
        "whole_reduction": ("v, present, add", "v[:, 5]", "*tensors, 64, 2, 1, 1, 8", (D, A), np.float32([6, 70])),
    }  # fmt: skip
    for form, (arguments, result, call, tensors, want) in cases.items():
        main = kernel(tmp_path, form=form, arguments=arguments, result=result, call=call)
        program = recorded(main, *tensors).program
        assert check_program(program, DEVICE, with_lifetimes=False) == ()
        got = values(program, **start).content[8192:].view(np.float32)[: len(want)]
        assert got.tolist() == list(want), form


def test_a_declared_instruction_keeps_the_rules_of_its_form_and_its_own(tmp_path):
    main = kernel(tmp_path, call="tensors[0][1], tensors[1], tensors[2], 8", more=', dtypes=("half",)')
    messages = [f.message for f in check_program(recorded(main, D, A, B).program, DEVICE)]
    assert messages == [
        "MyOp does not support float for dst; it takes half",
        "MyOp does not support float for src0; it takes half",
        "MyOp does not support float for src1; it takes half",
        "MyOp dst d: UB address 0x2004 is 4 B past a 32 B boundary",
    ]


def test_checks_of_its_own(tmp_path):
    from ascendsim.isa import rules

    @asc.instruction("unary", "Even", cost="Adds", checks=(rules.element_aligned, _count_is_even))
    def even(src):
        """The same. Source: here."""
        return src

    assert [c.__name__ for c in even.op.checks[-2:]] == ["element_aligned", "_count_is_even"]


def _count_is_even(row, tensors, device, where):
    return []


def cycles(folder, cost, repeats=16):
    main = kernel(folder, cost=cost, call=f"*tensors, {64 * repeats}")
    tensors = (local("d", 0, length=4096), local("a", 0x4000, length=4096), local("b", 0x8100, length=4096))
    return schedule(recorded(main, *tensors).program, DEVICE).makespan_cycles


def test_cost_by_name_and_by_numbers(tmp_path):
    """Three cycles of mask rows and dispatch before it, as for built-in ones."""
    assert cycles(tmp_path, '"Add"') == 3 + 13 + 16 + 11
    assert cycles(tmp_path, '"Mul"') == 3 + 13 + 16 + 12
    assert cycles(tmp_path, "Cost(startup=5, per_repeat=2.5, drain=7)") == 3 + 5 + 40 + 7
    assert cycles(tmp_path, "Cost(startup=5, per_repeat=0.1, drain=7, min_issue=9)") == 3 + 5 + 9 + 7


def test_a_cost_name_that_the_device_lacks_is_told_when_scheduling(tmp_path):
    with pytest.raises(
        asc.DeviceError, match=r"has no cost for MyOp with float->float \(table vector\.Nothing has nothing\)"
    ):
        cycles(tmp_path, '"Nothing"')


# ---- who can call it --------------------------------------------------------------------------------------------


def test_loading_a_file_again_declares_anew_and_earlier_programs_stay(tmp_path):
    start = {"a": (A, np.ones(8, np.float32)), "b": (B, np.full(8, 3, np.float32))}
    first = recorded(kernel(tmp_path, result="a + b"), D, A, B).program
    second = recorded(kernel(tmp_path, result="a - b"), D, A, B).program
    assert values(first, **start).content[8192:].view(np.float32)[0] == 4
    assert values(second, **start).content[8192:].view(np.float32)[0] == -2


def test_two_files_may_use_one_name_side_by_side(tmp_path):
    start = {"a": (A, np.ones(8, np.float32)), "b": (B, np.full(8, 3, np.float32))}
    one, other = kernel(tmp_path, "one.py", result="a + b"), kernel(tmp_path, "other.py", result="a - b")
    assert values(recorded(one, D, A, B).program, **start).content[8192:].view(np.float32)[0] == 4
    assert values(recorded(other, D, A, B).program, **start).content[8192:].view(np.float32)[0] == -2


def test_a_kernel_of_another_file_does_not_see_it(tmp_path):
    kernel(tmp_path)
    (tmp_path / "plain.py").write_text("def main(asc, *tensors):\n    asc.my_op(*tensors, 8)\n")
    main = load_function("plain.py:main", tmp_path, "kernel")
    with pytest.raises(
        KernelError, match=r"^plain\.py:2: asc has no 'my_op'; docs/writing-a-kernel\.md lists what there is$"
    ):
        recorded(main, D, A, B)


def test_an_imported_instruction_can_be_called(tmp_path):
    kernel(tmp_path)
    text = "from k import my_op\n\n\ndef main(asc, *tensors):\n    asc.my_op(*tensors, 8)\n"
    (tmp_path / "user.py").write_text(text)
    main = load_function("user.py:main", tmp_path, "kernel")
    program = recorded(main, D, A, B).program
    assert [r.op.name for t in program.templates for r in t.rows if r.op.api] == ["my_op"]


def test_the_table_and_the_opcodes_of_what_is_built_in_stay(tmp_path):
    before = [op.name for op in BY_OPCODE[: len(TABLE)]]
    kernel(tmp_path)
    assert "my_op" not in TABLE
    assert [op.name for op in BY_OPCODE[: len(TABLE)]] == before


# ---- what is refused --------------------------------------------------------------------------------------------

KNOWN = "binary, unary, scalar_binary, block_reduction, whole_reduction"
REFUSED = [
    ({"name": "add"}, "instruction add ({}): add is built in; give yours another name"),
    ({"api": "Add"}, "instruction my_op ({}): Add is the AscendC name of one that is built in; give yours another"),
    ({"source": ""}, 'instruction my_op ({}): its docstring names no source; end it with "Source: ..."'),
    (
        {"form": "ternary"},
        f"instruction my_op ({{}}): unknown form 'ternary'; known: {KNOWN}",
    ),
    (
        {"form": "whole_reduction", "more": ', dtypes=("float",)'},
        "instruction my_op ({}): a whole_reduction takes half and float; leave dtypes out",
    ),
    (
        {"cost": "Cost(per_repeat=0)"},
        "instruction my_op ({}): cost per_repeat = 0: Input should be greater than 0",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[m[:40] for _, m in REFUSED])
def test_a_bad_declaration_is_refused_with_its_line(tmp_path, changes, message):
    with pytest.raises(InputError) as caught:
        kernel(tmp_path, **changes)
    text = str(caught.value)
    assert text.endswith(f"importing {tmp_path / 'k.py'} failed: InputError: {message.format(f'k.py:{HEAD}')}")


def test_a_name_that_the_handle_has_is_refused_when_recording(tmp_path):
    main = kernel(tmp_path, name="data_copy", call="*tensors, 8")
    with pytest.raises(KernelError) as caught:
        recorded(main, D, A, B)
    assert str(caught.value) == (
        f"k.py:{HEAD}: instruction data_copy has the name of asc.data_copy; give it another name"
    )


WRONG = {
    "a[:3]": "returned an array of shape [3], wanted [8]",
    "a.nothing": "raised AttributeError: 'numpy.ndarray' object has no attribute 'nothing'",
}


@pytest.mark.parametrize("result", WRONG)
def test_wrong_arithmetic_names_the_declaration(tmp_path, result):
    program = recorded(kernel(tmp_path, result=result), D, A, B).program
    with pytest.raises(KernelError) as caught:
        values(program, a=(A, np.ones(8, np.float32)), b=(B, np.ones(8, np.float32)))
    assert str(caught.value) == f"instruction my_op (k.py:{HEAD}) {WRONG[result]}"


# ---- stored -----------------------------------------------------------------------------------------------------


def test_a_stored_program_can_be_loaded_without_the_file(tmp_path):
    program = recorded(kernel(tmp_path, cost="Cost(drain=99)"), D, A, B).program
    arrays = to_arrays(program)
    (tmp_path / "k.py").unlink()
    again = from_arrays(arrays)
    assert again.digest == program.digest
    assert again.instruction_log() == program.instruction_log()
    assert schedule(again, DEVICE).makespan_cycles == schedule(program, DEVICE).makespan_cycles
    assert check_rows(again, DEVICE) == ()
    with pytest.raises(InputError) as caught:
        execute(again, DEVICE, ())
    assert str(caught.value) == (
        f"instruction my_op: its arithmetic stands in k.py:{HEAD}, which is not part of a stored run; run the scenario "
        "again to compute values"
    )


def test_loading_twice_makes_one_instruction(tmp_path):
    arrays = to_arrays(recorded(kernel(tmp_path), D, A, B).program)
    from_arrays(arrays)
    count = len(BY_OPCODE)
    from_arrays(arrays)
    assert len(BY_OPCODE) == count


def test_what_is_stored_does_not_depend_on_what_else_was_declared(tmp_path):
    def stored():
        return {k: v.tobytes() for k, v in to_arrays(recorded(kernel(tmp_path), D, A, B).program).items()}

    first = stored()
    kernel(tmp_path, "other.py", name="something_else")
    assert stored() == first


def test_a_stored_program_names_only_what_it_uses(tmp_path):
    kernel(tmp_path)
    program = record(lambda handle: handle.add(D, A, B, 8), DEVICE, 1, (), ()).program
    header = json.loads(to_arrays(program)["program"].tobytes())
    assert set(header["ops"]) == {"set_mask_count", "set_vector_mask", "set_mask_norm", "add"}
    assert header["declared"] == {}


def test_an_unknown_instruction_that_nobody_declared_is_refused(tmp_path):
    arrays = to_arrays(recorded(kernel(tmp_path), D, A, B).program)
    header = json.loads(arrays["program"].tobytes())
    del header["declared"]
    arrays["program"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with pytest.raises(InputError, match=r"another version: unknown instructions \['my_op'\]"):
        from_arrays(arrays)


def test_a_run_folder_loads_where_the_file_is_gone(tmp_path):
    from ascendsim.runfolder import load_run, write_run

    page = (Path(__file__).parents[2] / "docs/adding-an-instruction.md").read_text()
    blocks = {lang: page.split(f"```{lang}\n")[-1].split("```")[0] for lang in ("python", "toml")}
    (tmp_path / "squared.py").write_text(blocks["python"])
    (tmp_path / "squared.toml").write_text(blocks["toml"])
    result = asc.run(tmp_path / "squared.toml")
    write_run(result, tmp_path / "out", painter=Undrawn())
    (tmp_path / "squared.py").unlink()
    again = load_run(tmp_path / "out")
    assert again.makespan_cycles == result.makespan_cycles
    assert again.program.instruction_log() == result.program.instruction_log()
