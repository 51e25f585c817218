"""Vector functions: random bodies against a lane-by-lane oracle, batched against one by one, and every rule."""

import numpy as np
import pytest
from examples_micro import DEVICE, A, B, D, run
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_harness import local
from micro_oracle import MicroOracle, lanes

from ascendsim.checks import check_program
from ascendsim.device import load_device
from ascendsim.dtypes import HALF
from ascendsim.errors import KernelError
from ascendsim.execute import execute
from ascendsim.isa.instruction import MicroKind
from ascendsim.isa.micro import LoadDist, StoreDist
from ascendsim.isa.micro_table import MICRO
from ascendsim.machine import schedule
from ascendsim.memory import Bytes
from ascendsim.program import from_arrays, to_arrays
from ascendsim.record import record

UB_BYTES = 4096
LOADS = {
    "float": [LoadDist.NORM, LoadDist.DINTLV_B32, LoadDist.E2B_B32],
    "half": [LoadDist.NORM, LoadDist.UNPACK_B16, LoadDist.E2B_B16],
}


STEPS = ["load", "load", "binary", "binary", "lane0", "sum", "blocks", "cast", "store", "store", "pair"]


def random_body(draw, vf, oracle):
    """Draw a body and give it to the library's recorder and to the oracle at the same time."""
    pairs = [
        (vf.duplicate(1.5), oracle.duplicate(1.5, "float")),
        (vf.duplicate(-2.0, HALF), oracle.duplicate(-2.0, "half")),
    ]
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["float", "half"]))
        of_kind = [p for p in pairs if p[1][0] == kind]
        count = draw(st.integers(0, lanes(kind)))
        mask = vf.update_mask(count)
        match draw(st.sampled_from(STEPS)):
            case "load":
                tensor = local("t", kind, 512 * draw(st.integers(0, 5)), 1024)[0]
                dist = draw(st.sampled_from(LOADS[kind]))
                vf.local_mem_bar()
                pairs += zip(vf.load_align2(tensor, dist), oracle.load(tensor, dist.value), strict=True)
                if dist is LoadDist.UNPACK_B16:
                    pairs[-1] = (pairs[-1][0], ("half", pairs[-1][1][1] + [(np.float16(0), True)] * 64))
            case "binary":
                op = draw(st.sampled_from(["add", "sub", "mul"]))
                a, b = draw(st.sampled_from(of_kind)), draw(st.sampled_from(of_kind))
                pairs.append((getattr(vf, op)(a[0], b[0], mask), oracle.binary(op, a[1], b[1], count)))
            case "lane0":
                a = draw(st.sampled_from(of_kind))
                pairs.append((vf.duplicate_lane0(a[0], mask), oracle.duplicate_lane0(a[1], count)))
            case "sum" | "blocks" as what:
                a = draw(st.sampled_from(of_kind))
                name = "reduce_sum" if what == "sum" else "reduce_sum_data_block"
                count = max(1, count)
                got = getattr(vf, name)(a[0], vf.update_mask(count))
                pairs.append((got, getattr(oracle, name)(a[1], count)))
            case "cast":
                a = draw(st.sampled_from(of_kind))
                to = "half" if kind == "float" else "float"
                count = min(count, 64)
                pairs.append((vf.cast(a[0], to, vf.update_mask(count)), oracle.cast(a[1], to, count)))
            case "store":
                a = draw(st.sampled_from(of_kind))
                tensor = local("t", kind, 512 * draw(st.integers(0, 5)), 1024)[0]
                dist = draw(st.sampled_from([StoreDist.NORM] + [StoreDist.PACK_B32] * (kind == "half")))
                vf.store_align(tensor, a[0], mask, dist)
                oracle.store(tensor, dist.value, [a[1]], count)
            case "pair":
                floats = [p for p in pairs if p[1][0] == "float"]
                a, b = draw(st.sampled_from(floats)), draw(st.sampled_from(floats))
                tensor = local("t", "float", 512 * draw(st.integers(0, 5)), 1024)[0]
                count = min(count, 64)
                vf.store_align2(tensor, a[0], b[0], vf.update_mask(count))
                oracle.store(tensor, "store_intlv_b32", [a[1], b[1]], count)


def _same(ub, oracle):
    """Bytes and flags alike; the bits of a NaN are free."""
    assert ub.written.tolist() == list(oracle.written)
    got, want = ub.content, np.frombuffer(bytes(oracle.content), np.uint8)
    for kind in (np.float32, np.float16):
        if ((got == want) | np.repeat(np.isnan(got.view(kind)) & np.isnan(want.view(kind)), kind(0).itemsize)).all():
            return
    differs = got != want
    nan = np.zeros(len(got), bool)
    for kind in (np.float32, np.float16):
        nan |= np.repeat(np.isnan(got.view(kind)) & np.isnan(want.view(kind)), kind(0).itemsize)
    assert not (differs & ~nan).any()


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(0, 2**32 - 1))
def test_random_bodies_agree_with_the_oracle_batched_and_one_by_one(data, seed):
    rng = np.random.default_rng(seed)
    start = Bytes(UB_BYTES)
    start.content[:] = (rng.standard_normal(UB_BYTES // 4) * 4).astype(np.float32).view(np.uint8)
    start.written[:] = np.repeat(rng.random(UB_BYTES // 32) < 0.9, 32)
    oracle = MicroOracle(start.content.tobytes(), start.written.tolist())

    def kernel(asc):
        with asc.vector_function() as vf:
            random_body(data.draw, vf, oracle)

    with np.errstate(all="ignore"):
        program = record(kernel, DEVICE, 1, (), ()).program
    again = from_arrays(to_arrays(program))
    assert again.digest == program.digest
    for log_core, source in ((None, program), (0, program), (None, again)):
        ub = Bytes(UB_BYTES)
        ub.content[:], ub.written[:] = start.content, start.written
        done = execute(source, DEVICE, (), ub=ub, log_core=log_core)
        _same(ub, oracle)
        assert done.findings == ()
    log = execute(program, DEVICE, (), ub=start, log_core=0).log
    assert [row["instr"] for row in log] == [row["instr"] for row in program.instruction_log()]


def test_every_micro_operation_names_its_source():
    for op in MICRO.values():
        assert "Source:" in op.doc
        assert (op.kind is MicroKind.STORE or op.kind is MicroKind.BARRIER) == (op.results == 0)


def test_unwritten_bytes_are_followed_through_registers():
    """A sum over a lane that nobody wrote counts as unwritten where it is stored; its neighbours do not."""

    def body(vf):
        vf.store_align(D, vf.reduce_sum(vf.load_align(A), vf.update_mask(9)), vf.update_mask(1))
        vf.store_align(B, vf.load_align(A), vf.update_mask(16))

    ub, done = run(body, (A, np.ones(8, np.float32)))
    assert not ub.written[D.start_bytes : D.start_bytes + 4].any()
    assert ub.written[B.start_bytes : B.start_bytes + 64].tolist() == [True] * 32 + [False] * 32
    assert done.findings == ()


def findings(body, device=DEVICE):
    def kernel(asc):
        with asc.vector_function() as vf:
            body(vf)

    return [str(f).split(": ", 1)[1] for f in check_program(record(kernel, device, 1, (), ()).program, device)]


def test_a_device_without_vector_functions_refuses_them():
    (text,) = findings(lambda vf: vf.store_align(D, vf.load_align(A)), load_device("Ascend910B1"))
    assert text == (
        "VectorFunction is no instruction of Ascend910B1 (arch 2201): not in its device file (to mend it: use an "
        "instruction that the device has, or another device)"
    )


def test_registers_are_loaded_from_aligned_addresses():
    (text,) = findings(lambda vf: vf.store_align(D, vf.load_align(A[1])))
    assert text == (
        "load_norm a address 0x4 is not on a multiple of 32 B (to mend it: start registers' loads and stores on that "
        "boundary)"
    )
    (text,) = findings(lambda vf: vf.store_align(D[4], vf.load_align(A)))
    assert text.startswith("store_norm d address 0x810 is not on a multiple of 32 B")


def test_a_store_stays_inside_its_tensor():
    (text,) = findings(lambda vf: vf.store_align(D[224], vf.load_align(A)))
    assert text == (
        "VectorFunction d writes 128 B past the end of d (1024 B, up to byte 1152 wanted) (to mend it: enlarge the "
        "buffer, or mask the lanes that hold nothing)"
    )
    assert findings(lambda vf: vf.store_align(D[224], vf.load_align(A), vf.update_mask(32))) == []
    assert findings(lambda vf: vf.store_align(D, vf.load_align(A[224]))) == []  # a load takes a whole register


def test_a_load_after_a_store_of_the_same_bytes_needs_a_bar():
    def body(vf):
        vf.store_align(D, vf.load_align(A))
        vf.store_align(B, vf.load_align(D[56]), vf.update_mask(8))

    (text,) = findings(body)
    assert text == (
        "a vector function loads d byte 224 that it has stored itself, without LocalMemBar in between (to mend it: "
        "call local_mem_bar between the store and the load)"
    )


def test_misuse_of_registers_names_the_line():
    kept = []

    def kernel(asc):
        with asc.vector_function() as vf:
            kept.append(vf.load_align(A))
        with asc.vector_function() as vf:
            vf.store_align(D, kept[0])

    line = kernel.__code__.co_firstlineno + 4
    with pytest.raises(
        KernelError, match=rf"test_vector_function.py:{line}: store_norm: register 0 belongs to another"
    ):
        record(kernel, DEVICE, 1, (), ())


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            lambda vf: vf.add(vf.duplicate(1), vf.duplicate(1, HALF)),
            "reg_add: registers of float and half; cast one of",
        ),
        (lambda vf: vf.cast(vf.duplicate(1), "int32_t"), "Cast: float to int32_t is not modelled in a vector function"),
        (lambda vf: vf.load_align(3), "LoadAlign: src must be a LocalTensor in UB, got int"),
    ],
)
def test_wrong_arguments_are_named(body, text):
    def kernel(asc):
        with asc.vector_function() as vf:
            body(vf)

    with pytest.raises(KernelError, match=text):
        record(kernel, DEVICE, 1, (), ())


# ---- cycles -----------------------------------------------------------------------------------------------------


def cycles(body):
    def kernel(asc):
        with asc.vector_function() as vf:
            body(vf)

    return schedule(record(kernel, DEVICE, 1, (), ()).program, DEVICE).makespan_cycles


def one(vf, i=0):
    vf.store_align(D, vf.add(vf.load_align(A), vf.load_align(B)))


def test_one_iteration_is_the_chain():
    """Start 23, load 6, add 3, store 9, drain 12; the scalar unit hands it over in one cycle."""
    assert cycles(one) == 1 + 23 + 6 + 3 + 9 + 12


def test_every_further_iteration_costs_what_its_ports_need():
    """Two loads and a store through a port of two accesses a cycle: 1.5 cycles each."""

    def ten(vf):
        for _ in range(10):
            one(vf)

    assert cycles(ten) - cycles(one) == 14  # 9 * 1.5 = 13.5


def test_a_bar_makes_loads_wait_for_stores():
    def through_memory(vf):
        vf.store_align(D, vf.load_align(A))
        vf.local_mem_bar()
        vf.store_align(B, vf.load_align(D))

    assert cycles(through_memory) == 1 + 23 + 2 * (6 + 9) + 1 + 12  # 2 loads and 2 stores, half of 2 cycles on top
