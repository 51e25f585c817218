"""Vector functions: random bodies against a lane-by-lane oracle, batched against one by one, and every rule."""

from collections import Counter

import numpy as np
import pytest
from examples_micro import DEVICE, A, B, D, H, run
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_harness import local
from micro_oracle import MicroOracle, lanes

from ascendsim.checks import check_rows
from ascendsim.checks.advice import advise
from ascendsim.conflicts import bank_losses
from ascendsim.device import load_device
from ascendsim.dtypes import HALF
from ascendsim.errors import DeviceError, KernelError
from ascendsim.execute import execute
from ascendsim.isa.instruction import MicroKind
from ascendsim.isa.micro import Layout, LoadDist, StoreDist
from ascendsim.isa.micro_table import MICRO
from ascendsim.machine import schedule
from ascendsim.memory import Bytes
from ascendsim.program import from_arrays, to_arrays
from ascendsim.record import record
from ascendsim.vector_timing import time_body, time_body_without_banks

UB_BYTES = 4096
LOADS = {
    "float": [LoadDist.NORM, LoadDist.DINTLV_B32, LoadDist.E2B_B32],
    "half": [LoadDist.NORM, LoadDist.UNPACK_B16, LoadDist.E2B_B16],
}


def fit(a, b):
    """Whether two registers' halves lie alike."""
    return Layout.ALL in (a[0].layout, b[0].layout) or a[0].layout is b[0].layout


STEPS = [
    "load",
    "load",
    "binary",
    "binary",
    "scalar",
    "quotient",
    "lane0",
    "sum",
    "blocks",
    "cast",
    "store",
    "store",
    "pair",
]


class RandomBody:
    """Draws a body and gives it to the library's recorder and to the oracle at the same time."""

    def __init__(self, draw, vf, oracle):
        self.draw, self.vf, self.oracle = draw, vf, oracle
        self.pairs = [
            (vf.duplicate(1.5), oracle.duplicate(1.5, "float")),
            (vf.duplicate(-2.0, HALF), oracle.duplicate(-2.0, "half")),
        ]
        for _ in range(draw(st.integers(1, 12))):
            kind = draw(st.sampled_from(["float", "half"]))
            getattr(self, draw(st.sampled_from(STEPS)))(kind, draw(st.integers(0, lanes(kind))))

    def one(self, kind, suits=lambda pair: True):
        return self.draw(st.sampled_from([p for p in self.pairs if p[1][0] == kind and suits(p)]))

    def place(self, kind):
        return local("t", kind, 512 * self.draw(st.integers(0, 5)), 1024)[0]

    def mask(self, count, *pairs):
        """A mask, and how many lanes it has: of halves that lie in words there are 64."""
        if any(p[0].layout is Layout.WORDS for p in pairs):
            count = min(count, 64)
        return self.vf.update_mask(count), count

    def load(self, kind, _count):
        tensor, dist = self.place(kind), self.draw(st.sampled_from(LOADS[kind]))
        self.vf.local_mem_bar()
        registers = self.oracle.load(tensor, dist.value)
        if dist is LoadDist.UNPACK_B16:
            registers = [("half", values + [(np.float16(0), True)] * 64) for _, values in registers]
        self.pairs += zip(self.vf.load_align2(tensor, dist), registers, strict=True)

    def binary(self, kind, count):
        op, a = self.draw(st.sampled_from(["add", "sub", "mul"])), self.one(kind)
        b = self.one(kind, lambda pair: fit(a, pair))
        mask, count = self.mask(count, a, b)
        self.pairs.append((getattr(self.vf, op)(a[0], b[0], mask), self.oracle.binary(op, a[1], b[1], count)))

    def scalar(self, kind, count):
        op, a = self.draw(st.sampled_from(["adds", "muls", "maxs", "mins"])), self.one(kind)
        mask, count = self.mask(count, a)
        value = self.draw(st.sampled_from([-2.5, 0.75, 3.0]))
        self.pairs.append((getattr(self.vf, op)(a[0], value, mask), self.oracle.scalar(op, a[1], value, count)))

    def quotient(self, kind, count):
        a = self.one(kind)
        b = self.one(kind, lambda pair: fit(a, pair))
        mask, count = self.mask(count, a, b)
        self.pairs.append((self.vf.div(a[0], b[0], mask), self.oracle.div(a[1], b[1], count)))

    def lane0(self, kind, count):
        a = self.one(kind)
        mask, count = self.mask(count, a)
        self.pairs.append((self.vf.duplicate_lane0(a[0], mask), self.oracle.duplicate_lane0(a[1], count)))

    def sum(self, kind, count):
        self._reduce("reduce_sum", kind, max(1, count))

    def blocks(self, kind, count):
        self._reduce("reduce_sum_data_block", kind, max(1, count))

    def _reduce(self, name, kind, count):
        a = self.one(kind, lambda pair: pair[0].layout is not Layout.WORDS)
        got = getattr(self.vf, name)(a[0], self.vf.update_mask(count))
        self.pairs.append((got, getattr(self.oracle, name)(a[1], count)))

    def cast(self, kind, count):
        a = self.one(kind, lambda pair: kind == "float" or pair[0].layout is not Layout.DENSE)
        to, count = "half" if kind == "float" else "float", min(count, 64)
        got = self.vf.cast(a[0], to, self.vf.update_mask(count))
        self.pairs.append((got, self.oracle.cast(a[1], to, count)))

    def store(self, kind, count):
        a, tensor = self.one(kind), self.place(kind)
        in_words = kind == "half" and a[0].layout is not Layout.DENSE
        dist = StoreDist.PACK_B32 if in_words else StoreDist.NORM
        self.vf.store_align(tensor, a[0], self.vf.update_mask(count), dist)
        self.oracle.store(tensor, dist.value, [a[1]], count)

    def pair(self, _kind, count):
        a, b, tensor, count = self.one("float"), self.one("float"), self.place("float"), min(count, 64)
        self.vf.store_align2(tensor, a[0], b[0], self.vf.update_mask(count))
        self.oracle.store(tensor, "store_intlv_b32", [a[1], b[1]], count)


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
            RandomBody(data.draw, vf, oracle)

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

    return [str(f).split(": ", 1)[1] for f in check_rows(record(kernel, device, 1, (), ()).program, device)]


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
        (lambda vf: vf.load_align(A, LoadDist.UNPACK_B16), "UNPACK_B16 is for elements of 2 bytes, float has 4"),
        (lambda vf: vf.load_align(H, LoadDist.E2B_B32), "E2B_B32 is for elements of 4 bytes, half has 2"),
        (lambda vf: vf.load_align(A, LoadDist.DINTLV_B32), "DINTLV_B32 fills two registers; use load_align2"),
        (lambda vf: vf.load_align2(A, "norm"), "LoadAlign: dist must be a LoadDist, got 'norm'"),
        (lambda vf: vf.load_align(A.reinterpret_cast("int32_t")), "LoadAlign: int32_t is not modelled"),
        (lambda vf: vf.store_align(D, vf.load_align(H)), "a register of half into d of float; cast it first"),
        (lambda vf: vf.store_align(H, vf.load_align(A)), "a register of float into h of half; cast it first"),
        (lambda vf: vf.store_align(D, 1.0), "StoreAlign: a register is needed, got float; load_align gives one"),
        (
            lambda vf: vf.store_align(D, vf.load_align(A), dist=StoreDist.PACK_B32),
            "PACK_B32 is for elements of 2 bytes",
        ),
        (lambda vf: vf.store_align(D, vf.load_align(A), dist=StoreDist.INTLV_B32), "use store_align2"),
        (
            lambda vf: vf.cast(vf.load_align(H), "float"),
            "16-bit elements lie one behind the other; load it with UNPACK_B16",
        ),
        (
            lambda vf: vf.store_align(H, vf.cast(vf.load_align(A), "half")),
            "StoreAlign NORM: the register's 16-bit elements lie one in each word; store it with PACK_B32",
        ),
        (
            lambda vf: vf.store_align(H, vf.load_align(H), dist=StoreDist.PACK_B32),
            "StoreAlign PACK_B32: the register's 16-bit elements lie one behind the other; store it with NORM",
        ),
        (
            lambda vf: vf.add(vf.load_align(H), vf.load_align(H, LoadDist.UNPACK_B16)),
            "reg_add: 16-bit elements one behind the other and one in each word cannot be combined",
        ),
        (
            lambda vf: vf.reduce_sum(vf.cast(vf.load_align(A), "half")),
            "reg_reduce_sum: the register's 16-bit elements lie one in",
        ),
    ],
)
def test_wrong_arguments_are_named(body, text):
    def kernel(asc):
        with asc.vector_function() as vf:
            body(vf)

    with pytest.raises(KernelError, match=text):
        record(kernel, DEVICE, 1, (), ())


def test_nothing_else_happens_inside_a_vector_function():
    def other(asc):
        with asc.vector_function() as vf:
            asc.muls(D, D, 2.0, 64)
            vf.store_align(D, vf.load_align(A))

    def nested(asc):
        with asc.vector_function(), asc.vector_function():
            pass

    def late(asc):
        with asc.vector_function() as vf:
            vf.store_align(D, vf.load_align(A))
        vf.store_align(D, vf.duplicate(1))

    for kernel, text in (
        (other, "inside a vector function, which holds micro-operations only"),
        (nested, "VectorFunction inside a vector function: close the one that is open first"),
        (late, "reg_dup_scalar: its vector function is closed; call it inside the with block"),
    ):
        with pytest.raises(KernelError, match=text):
            record(kernel, DEVICE, 1, (), ())


def test_an_empty_vector_function_does_nothing_and_says_so():
    def kernel(asc):
        with asc.vector_function():
            pass

    recording = record(kernel, DEVICE, 1, (), ())
    assert [f.message for f in recording.findings] == [
        "VectorFunction does nothing: its number of micro-operations is 0"
    ]
    assert len(recording.program) == 0


def test_what_a_load_finds_behind_its_tensor_counts_as_unwritten():
    """`a` has eight floats here, and what lies behind it belongs to another tensor."""
    short = local("a", "float", 0, 32)
    behind = local("x", "float", 32, 992)
    ub, _ = run(
        lambda vf: vf.store_align(D, vf.load_align(short), vf.update_mask(16)),
        (short, np.ones(8, np.float32)),
        (behind, np.ones(248, np.float32)),
    )
    assert ub.written[D.start_bytes : D.start_bytes + 64].tolist() == [True] * 32 + [False] * 32


def test_a_load_that_reaches_behind_its_tensor_needs_no_bar_for_what_was_stored_there():
    short = local("a", "float", 0, 224)
    behind = local("x", "float", 224, 800)

    def body(vf):
        vf.store_align(behind, vf.duplicate(1), vf.update_mask(8))
        vf.store_align(D, vf.load_align(short), vf.update_mask(56))

    assert findings(body) == []


# ---- cycles -----------------------------------------------------------------------------------------------------


def cycles(body):
    def kernel(asc):
        with asc.vector_function() as vf:
            body(vf)

    return schedule(record(kernel, DEVICE, 1, (), ()).program, DEVICE).makespan_cycles


OTHER = local("o", "float", 1280, 10240)
"""Starts in the other bank of A's group."""
LONG, OUT = local("l", "float", 16384, 16384), local("q", "float", 49152, 16384)
ISSUE = 1 + 23
"""The scalar unit hands the function over in a cycle; then its start-up."""
DRAIN = 12


def one(vf, b=OTHER):
    vf.store_align(D, vf.add(vf.load_align(A), vf.load_align(b)))


def test_one_iteration_is_the_chain():
    """Load 6, add 5 until it is stored, store 9."""
    assert cycles(one) == ISSUE + 6 + 5 + 9 + DRAIN


def test_the_second_of_two_loads_from_one_bank_starts_a_cycle_later():
    assert cycles(lambda vf: one(vf, B)) == ISSUE + 1 + 6 + 5 + 9 + DRAIN


def test_a_block_read_twice_is_read_once():
    assert cycles(lambda vf: one(vf, A)) == ISSUE + 6 + 5 + 9 + DRAIN


def test_a_loop_starts_an_iteration_a_cycle_and_a_cycle_late():
    def copies(count):
        def body(vf):
            for i in vf.loop(count):
                vf.store_align(OUT[i * 64], vf.mins(vf.load_align(LONG[i * 64]), 1.0))

        return body

    single = ISSUE + 6 + 4 + 9 + DRAIN
    assert [cycles(copies(n)) for n in (1, 2, 3, 9)] == [single, single + 2, single + 3, single + 9]


def test_straight_code_is_dispatched_five_operations_a_cycle():
    def body(vf):
        for _ in range(10):  # the 49th and 50th operation are stores of what was there at once
            vf.duplicate(1.0)
        one(vf)

    assert cycles(body) == cycles(one) + 2


def test_stores_take_what_two_loads_leave():
    """Of 40 iterations the loads take 40 cycles with both slots, then the stores 40 cycles."""

    def body(vf):
        for i in vf.loop(40):
            vf.store_align(OUT[i * 64], vf.add(vf.load_align(LONG[i * 64]), vf.load_align(OTHER[i * 64])))

    assert cycles(body) == ISSUE + 1 + 40 + 39 + 9 + DRAIN


def test_a_loop_starts_six_cycles_after_the_last_iteration_of_the_one_before():
    def rows(count):
        def body(vf):
            for row in vf.loop(count):
                for i in vf.loop(2):
                    vf.store_align(OUT[row * 512 + i * 64], vf.load_align(LONG[row * 512 + i * 64]))

        return body

    got = [cycles(rows(n)) for n in (1, 2, 3, 10)]
    assert got == [got[0] + 7 * (n - 1) for n in (1, 2, 3, 10)]


@pytest.mark.parametrize(("kind", "interval"), [("float", 4), ("half", 8)])
def test_slow_functions_keep_one_of_two_units(kind, interval):
    src, dst = local("l", kind, 16384, 16384), local("q", kind, 49152, 16384)
    step = 256 // src.dtype.bytes

    def body(count):
        def fill(vf):
            for i in vf.loop(count):
                vf.store_align(dst[i * step], vf.exp(vf.load_align(src[i * step])))

        return fill

    assert cycles(body(22)) - cycles(body(2)) == 10 * interval


def test_two_slow_functions_of_an_iteration_keep_a_unit_each():
    """Sqrt the first, div the second: four cycles an iteration, not fewer."""

    def body(count):
        def fill(vf):
            ones = vf.duplicate(1.0)
            for i in vf.loop(count):
                vf.store_align(OUT[i * 64], vf.div(ones, vf.sqrt(vf.load_align(LONG[i * 64]))))

        return fill

    assert cycles(body(1)) == ISSUE + 6 + 14 + 15 + 9 + DRAIN
    assert cycles(body(20)) - cycles(body(10)) == 40


def test_a_bar_makes_loads_wait_for_stores():
    def through_memory(vf):
        vf.store_align(D, vf.load_align(A))
        vf.local_mem_bar()
        vf.store_align(B, vf.load_align(D))

    assert cycles(through_memory) == ISSUE + 2 * (9 + 9) + DRAIN


def test_a_store_that_meets_a_load_waits():
    """A store is ready ten cycles behind its load, when the load of the same cycle reads ten registers further on."""

    def copies(first):
        def fill(vf):
            for i in vf.loop(30):
                vf.store_align(OUT[first + i * 64], vf.mins(vf.load_align(LONG[i * 64]), 1.0))

        return fill

    assert cycles(copies(64)) == ISSUE + 1 + 29 + 6 + 4 + 9 + DRAIN
    assert cycles(copies(0)) == cycles(copies(64)) + 1


def additions(b):
    """Five vector functions of an addition."""

    def kernel(asc):
        for _ in range(5):
            with asc.vector_function() as vf:
                one(vf, b)

    return record(kernel, DEVICE, 1, (), ()).program


def test_the_report_says_what_banks_cost_and_which_start_avoids_it():
    assert bank_losses(additions(OTHER), DEVICE) == ()
    losses = bank_losses(additions(B), DEVICE)
    assert [(loss.api, loss.operands, loss.cycles) for loss in losses] == [
        ("VectorFunction", "b (0x400) and a (0x0)", 5),
    ]
    assert losses[0].remedy == "start b 256 B further, at 0x500"


def test_two_loads_from_one_bank_may_end_sooner_as_measured():
    """Where loads wait, stores find a slot: case 1 of the vendor's example is faster than case 2."""

    def body(source):
        def fill(vf):
            for i in vf.loop(40):
                loads = vf.load_align(LONG[i * 64]), vf.load_align(source[i * 64])
                vf.store_align(OUT[64 + i * 64], vf.add(*loads))

        return fill

    same, other = local("s", "float", 32768, 16384), local("s", "float", 33024, 16384)
    assert cycles(body(same)) <= cycles(body(other)) + 1


def test_advice_names_the_start_of_a_tensor_that_saves_cycles():
    """60 copies, each of whose stores meets the load ten registers further on."""

    def kernel(asc):
        for _ in range(20):
            with asc.vector_function() as vf:
                for i in vf.loop(60):
                    vf.store_align(OUT[i * 64], vf.mins(vf.load_align(LONG[i * 64]), 1.0))

    found = [f for f in advise(record(kernel, DEVICE, 1, (), ()).program, DEVICE) if f.code == "W-BANK-3510"]
    assert [(f.message, f.hint) for f in found] == [
        (
            "VectorFunction q (0xc000) waits for banks that l (0x4000) uses: 20 cycles lost over all cores",
            "start q 256 B further, at 0xc100",
        )
    ]


MANY = st.lists(
    st.tuples(st.sampled_from(["add", "muls", "exp", "sqrt"]), st.integers(0, 7), st.integers(0, 7)),
    min_size=1,
    max_size=30,
)


def _written(steps, ends):
    def body(vf):
        for i in vf.loop(ends):
            for op, a, b in steps:
                x = vf.load_align(LONG[(a + i) * 64])
                y = vf.load_align(LONG[b * 64 + 8 * i])
                value = vf.add(x, y) if op == "add" else vf.muls(x, 2.0) if op == "muls" else getattr(vf, op)(x)
                vf.store_align(OUT[(a + b + i) * 64], value)

    return body


@settings(max_examples=60, deadline=None)
@given(MANY, st.integers(1, 5))
def test_ports_hold(steps, ends):
    def kernel(asc):
        with asc.vector_function() as vf:
            _written(steps, ends)(vf)

    program = record(kernel, DEVICE, 1, (), ()).program
    (template,) = program.templates
    body = template.rows[0].body
    real, ideal = time_body(body, template.tensors, DEVICE), time_body_without_banks(body, DEVICE)
    assert all(a.lost == 0 for a in ideal.accesses)
    per_cycle = Counter(a.cycle for a in real.accesses)
    stores = Counter(a.cycle for a in real.accesses if body.rows[a.row].op.kind is MicroKind.STORE)
    assert max(per_cycle.values()) <= 2
    assert max(stores.values()) == 1
    assert len(real.accesses) == 3 * len(steps) * ends
    assert max(a.cycle for a in real.accesses) + 9 == real.cycles
    loads = [a.cycle for a in sorted(real.accesses, key=lambda a: a.row) if body.rows[a.row].op.kind is MicroKind.LOAD]
    assert loads == sorted(loads)


@settings(max_examples=60, deadline=None)
@given(MANY, st.integers(1, 4))
def test_a_longer_loop_takes_longer(steps, ends):
    assert cycles(_written(steps, ends)) < cycles(_written(steps, ends + 1))


def test_a_device_without_a_cost_says_which():
    cost = DEVICE.vector_function.model_copy(update={"op": {}})
    device = DEVICE.model_copy(update={"vector_function": cost})

    def kernel(asc):
        with asc.vector_function() as vf:
            one(vf)

    with pytest.raises(DeviceError) as error:
        schedule(record(kernel, device, 1, (), ()).program, device)
    text = "has no cost for load_norm with float (table vector_function.op.load_norm has nothing)"
    assert str(error.value) == f"device Ascend950PR_9589 {text}"
