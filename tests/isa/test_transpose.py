"""TransDataTo5HD against an oracle in plain Python: every byte of UB, for random lists, repeats, halves and places."""

import numpy as np
import pytest
from examples_transpose import A, B, array, blocks, run
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_harness import DEVICE, UB_BYTES, Ground, local

import ascendsim as asc_package
from ascendsim.cost import template_schedule
from ascendsim.errors import KernelError
from ascendsim.execute import execute
from ascendsim.isa.transpose import TransDataTo5HDParams
from ascendsim.record import record


def oracle(ub, width, dst, src, params):
    """UB afterwards. `dst`, `src`: 16 addresses. One repeat starts a repeat stride behind the addresses."""
    memory = bytearray(ub)
    for r in range(params.repeat_times):
        turn = 1 if params.repeat_times == 1 else r
        before = bytes(memory)
        rows = 8 if width == 4 else 16
        for j in range(rows):
            for i in range(16):
                at = src[i] + turn * params.src_rep_stride * 32 + 16 * params.src_high_half + j * width
                if width == 4:
                    to = dst[2 * j + i // 8] + i % 8 * 4
                elif width == 2:
                    to = dst[j] + i * 2
                else:
                    to = dst[j] + 16 * params.dst_high_half + i
                to += turn * params.dst_rep_stride * 32
                memory[to : to + width] = before[at : at + width]
    return bytes(memory)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_byte(data):
    kind, width = data.draw(st.sampled_from([("uint8_t", 1), ("int16_t", 2), ("half", 2), ("float", 4)]))
    per_block = 32 // width
    tensors, lists = [], []
    for name, address in (("d", 0), ("s", 0x8000)):
        tensor = local(name, kind, address, 0x8000)
        pair, step = (data.draw(st.integers(1, 20)) * per_block for _ in "ps")
        first = data.draw(st.integers(0, 8)) * per_block
        tensors.append(tensor)
        lists.append([tensor[first + i // 2 * (pair + step) + i % 2 * pair] for i in range(16)])
    params = TransDataTo5HDParams(
        dst_high_half=width == 1 and data.draw(st.booleans()),
        src_high_half=width == 1 and data.draw(st.booleans()),
        repeat_times=data.draw(st.integers(0, 5)),
        dst_rep_stride=data.draw(st.integers(0, 20)),
        src_rep_stride=data.draw(st.integers(0, 20)),
    )
    ub = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 256, UB_BYTES, np.uint8)
    ground = Ground()
    ground.ub.content[:] = ub
    ground.ub.written[:] = True
    program = record(lambda asc: asc.trans_data_to5hd(*lists, params), DEVICE, 1, (), ()).program
    execute(program, DEVICE, (), ub=ground.ub)
    addresses = [[t.start_bytes for t in tensors_of] for tensors_of in lists]
    assert ground.ub.content.tobytes() == oracle(ub.tobytes(), width, *addresses, params)


@pytest.mark.parametrize("repeat", [1, 3])
def test_bytes_nobody_wrote_stay_so(repeat):
    """A source datablock that nobody wrote leaves its column of every row unwritten."""
    ground = Ground()
    ground.write(A, np.zeros(16 * 8 * repeat, np.float32))
    ground.ub.written[A.start_bytes + 32 : A.start_bytes + 64] = False
    stride = 16 if repeat > 1 else 0
    params = TransDataTo5HDParams(False, False, repeat, stride, stride)
    program = record(lambda asc: asc.trans_data_to5hd(blocks(B), blocks(A), params), DEVICE, 1, (), ()).program
    assert execute(program, DEVICE, (), ub=ground.ub).findings == ()
    written = ground.ub.written[B.start_bytes : B.start_bytes + 512].reshape(8, 16, 4)
    assert written[:, 0].all()
    assert not written[:, 1].any()
    assert written[:, 2:].all()


def test_the_log_names_the_registers_and_no_tensors():
    log = record(lambda asc: asc.trans_data_to5hd(blocks(B), blocks(A)), DEVICE, 1, (), ()).program.instruction_log()
    assert [row["instr"] for row in log] == ["set_va_reg_sb"] * 4 + ["scatter_vnchwconv_b32"]
    assert log[1]["note"] == "VA1:b+256 b+288 b+320 b+352 b+384 b+416 b+448 b+480"
    assert log[2]["note"].startswith("VA2:a+0 a+32 ")
    last = log[-1]
    assert (last["ascendc_api"], last["dtype"], last["repeat"], last["note"]) == (
        "TransDataTo5HD", "b32", "1", "dst=VA0/VA1;src=VA2/VA3",
    )  # fmt: skip
    assert not any(row[f"{role}_tensor"] for row in log for role in ("dst", "src0", "src1"))


@pytest.mark.parametrize(
    ("dst", "src", "text"),
    [
        (blocks(B)[:15], blocks(A), "dst_list must hold 16 tensors, got 15"),
        (blocks(B), [*blocks(A)[:15], B[0]], "the tensors of src_list must be parts of one tensor"),
        (blocks(B), [*blocks(A)[:15], A[512]], "the addresses of src_list must be evenly spaced, in pairs"),
        ([*blocks(B)[:15], 3], blocks(A), "dst_list[15] must be a LocalTensor in UB, got int"),
    ],
)
def test_lists_that_are_refused(dst, src, text):
    with pytest.raises(KernelError) as caught:
        record(lambda asc: asc.trans_data_to5hd(dst, src), DEVICE, 1, (), ())
    assert text in str(caught.value)


def test_a_list_past_its_tensor_is_found():
    end = local("end", "float", 0x4000, 480)
    recording = record(lambda asc: asc.trans_data_to5hd(blocks(end), blocks(A)), DEVICE, 1, (), ())
    from ascendsim.checks import check_rows

    (found,) = check_rows(recording.program, DEVICE)
    assert found.message == "TransDataTo5HD dst touches 32 B past the end of end (512 B needed, 480 B there)"


@pytest.mark.parametrize(("kind", "cycles"), [("float", 2), ("half", 2), ("uint8_t", 1)])
def test_cycles_grow_with_repeats(kind, cycles):
    """asc-devkit theory table: 64, 128, 256 elements a cycle for 32, 16, 8 bits; a repeat takes 128, 256, 256."""
    a, b = local("a", kind, 0, 0x8000), local("b", kind, 0x8000, 0x8000)

    def occupancy(repeat):
        params = TransDataTo5HDParams(False, False, repeat, 16, 16)
        program = record(lambda asc: asc.trans_data_to5hd(blocks(b), blocks(a), params), DEVICE, 1, (), ()).program
        return int(template_schedule(program.templates[0], DEVICE).columns["occupancy"][-1])

    assert occupancy(20) - occupancy(10) == 10 * cycles


def test_it_is_a_public_name():
    assert asc_package.TransDataTo5HDParams is TransDataTo5HDParams
    ub = run(lambda asc: asc.trans_data_to5hd(blocks(B), blocks(A)), (A, np.ones(128, np.float32)))
    assert array(ub, B, 128).tolist() == [1.0] * 128
