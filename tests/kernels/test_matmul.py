"""The matmul operator: bit for bit against sums rounded in order, against float64; its cycles and messages."""

import math

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16

import ascendsim as asc
from ascendsim.check_tiling import tiling_scenario
from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT, INT8, INT32, dtype
from ascendsim.errors import InputError
from ascendsim.execute import execute
from ascendsim.files import read_toml
from ascendsim.machine import check_program, schedule
from ascendsim.memory import Bytes, place_in_gm
from ascendsim.op_host.matmul import (
    BIAS_QUEUES,
    QUEUES,
    MatmulChoice,
    MatmulTensors,
    blocks_of_core,
    matmul_tiling,
    steps_of_core,
)
from ascendsim.op_kernel.matmul import matmul, matmul_bias
from ascendsim.record import record
from ascendsim.reference.matmul import matmul as exact_product
from ascendsim.reference.matmul import matmul_bound
from ascendsim.scenario import load_scenario, scenario_from
from ascendsim.terms import KernelType, MmadOrder

A2, A5 = "Ascend910B1", "Ascend950PR_9589"
NUMPY = {
    "half": np.float16,
    "bfloat16_t": bfloat16,
    "float": np.float32,
    "int8_t": np.int8,
    "int32_t": np.int32,
}
BLOCKS = {"base_m": 32, "base_n": 32, "base_k": 32}


def tiling_of(shape, ab="half", c="float", *, device=A2, has_bias=False, nums=None, **choice):
    """The tiling of a product of shape (m, n, k)."""
    acc = INT32 if dtype(ab) is INT8 else FLOAT
    queues = QUEUES | (BIAS_QUEUES if has_bias else {}) | (nums or {})
    part = load_device(device) if isinstance(device, str) else device
    tensors = MatmulTensors(*shape, dtype(ab), dtype(c), acc, has_bias)
    return matmul_tiling(part, tensors, MatmulChoice(**choice), queues)


def recorded(shape, ab="half", c="float", *, device=A2, has_bias=False, block_dim=1, nums=None, **choice):
    """The recording of a product of shape (m, n, k)."""
    part = load_device(device) if isinstance(device, str) else device
    t = tiling_of(shape, ab, c, device=part, has_bias=has_bias, nums=nums, **choice)
    m, n, k = shape
    specs = [
        ("a", dtype(ab), (k, m) if t.a_transposed else (m, k)),
        ("b", dtype(ab), (n, k) if t.b_transposed else (k, n)),
    ]
    specs += [("bias", t.acc, (n,))] if has_bias else []
    specs.append(("c", dtype(c), (m, n)))
    kernel = matmul_bias if has_bias else matmul
    return record(kernel, part, block_dim, place_in_gm(specs), (t,), None, KernelType.AIC_ONLY)


def codes_of(recording, device=A2):
    """Codes of what the checks find; that ND output wants whole fractals is not looked at where n has a tail."""
    part = load_device(device) if isinstance(device, str) else device
    known = recording.findings
    found = check_program(recording.program, part, auto_sync=True, is_complete=recording.complete, known=known)
    return {f.code for f in (*known, *found)} - {"W-TILE-IDLE"}


def computed(a, b, bias=None, *, c="float", device=A2, a_transposed=False, b_transposed=False, **options):
    """C of the operator for A [m, k], B [k, n] and a bias, and the codes found."""
    (m, k), n = a.shape, b.shape[1]
    name = next(name for name, kind in NUMPY.items() if a.dtype == kind)
    turned = {"a_transposed": a_transposed, "b_transposed": b_transposed}
    recording = recorded((m, n, k), name, c, device=device, has_bias=bias is not None, **turned, **options)
    inputs = [a.T if a_transposed else a, b.T if b_transposed else b, *([] if bias is None else [bias])]
    memory = [Bytes.of(np.ascontiguousarray(x)) for x in inputs] + [Bytes(m * n * dtype(c).bytes)]
    part = load_device(device) if isinstance(device, str) else device
    execution = execute(recording.program, part, tuple(memory))
    codes = codes_of(recording, part) | {f.code for f in execution.findings}
    return memory[-1].content.view(NUMPY[c]).reshape(m, n), codes - ({"E-FIX-PARAM"} if n % 16 else set())


def data(shape, name, seed):
    """Normal numbers, or whole numbers of all sizes."""
    random = np.random.RandomState(seed)
    if name in ("int8_t", "int32_t"):
        return random.randint(-128, 128, shape).astype(NUMPY[name])
    return (random.standard_normal(shape) * 2.0 ** random.randint(-3, 4, shape)).astype(NUMPY[name])


# ---- values: exact sums, rounded in the order of k -------------------------------------------------------------------


SCALE = 60
"""Operands are counted in 2^-60, so that sums of products are whole numbers."""


def rounded(total: int) -> int:
    """A whole number rounded to 24 digits, ties to even."""
    size, spare = abs(total), abs(total).bit_length() - 24
    if spare <= 0:
        return total
    kept, rest = size >> spare, size & ((1 << spare) - 1)
    half = 1 << (spare - 1)
    kept += rest > half or (rest == half and kept % 2 == 1)
    return (kept << spare) * (1 if total > 0 else -1)


def in_order(a, b, bias, together):
    """The product, `together` products added exactly and then rounded once, along k."""
    left = [[int(math.ldexp(float(x), SCALE)) for x in row] for row in a]
    right = [[int(math.ldexp(float(x), SCALE)) for x in column] for column in b.T]
    start = np.zeros(b.shape[1]) if bias is None else bias
    starts = [int(math.ldexp(float(x), SCALE)) << SCALE for x in start]
    c = np.zeros((a.shape[0], b.shape[1]), np.float64)
    for i, row in enumerate(left):
        for j, column in enumerate(right):
            total = starts[j]
            for first in range(0, len(row), together):
                pairs = zip(row[first : first + together], column[first : first + together], strict=True)
                total = rounded(total + sum(x * y for x, y in pairs))
            c[i, j] = math.ldexp(float(total), -2 * SCALE)
    return c


def of_order(order, device=A2):
    """The device with one of the two orders of sums."""
    part = load_device(device)
    choice = part.arithmetic.mmad_order.model_copy(update={"value": order})
    return part.model_copy(update={"arithmetic": part.arithmetic.model_copy(update={"mmad_order": choice})})


@pytest.mark.parametrize("order", [MmadOrder.STEP, MmadOrder.FRACTAL])
@pytest.mark.parametrize(("name", "c0"), [("half", 16), ("bfloat16_t", 16), ("float", 8)])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
def test_bit_for_bit_with_tails_on_every_axis(order, name, c0, with_bias, a_transposed, b_transposed):
    a, b = data((18, 37), name, 1), data((37, 19), name, 2)
    bias = data((19,), "float", 3) if with_bias else None
    blocks = {"base_m": 16, "base_n": 16, "base_k": 16, "step_k": 2}
    turned = {"a_transposed": a_transposed, "b_transposed": b_transposed}
    got, codes = computed(a, b, bias, device=of_order(order), **turned, **blocks)
    assert (got == in_order(a, b, bias, 1 if order is MmadOrder.STEP else c0)).all()
    assert codes == set()


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 70, 33), (40, 1, 65), (33, 47, 1), (16, 16, 16), (70, 50, 100)])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
def test_whole_numbers_are_exact(shape, with_bias, a_transposed, b_transposed):
    m, n, k = shape
    a, b = data((m, k), "int8_t", 4), data((k, n), "int8_t", 5)
    bias = data((n,), "int32_t", 6) if with_bias else None
    turned = {"a_transposed": a_transposed, "b_transposed": b_transposed}
    got, codes = computed(a, b, bias, c="int32_t", block_dim=2, **turned, **BLOCKS)
    want = a.astype(np.int64) @ b.astype(np.int64) + (0 if bias is None else bias)
    assert (got == want).all()
    assert codes == set()


def test_relu_makes_negative_results_zero_and_keeps_the_others():
    a, b = data((20, 40), "half", 7), data((40, 30), "half", 8)
    plain, _ = computed(a, b)
    got, _ = computed(a, b, relu=True)
    assert (got == np.maximum(plain, 0)).all()
    assert (plain < 0).any()


@pytest.mark.parametrize("c", ["half", "bfloat16_t"])
def test_a_narrow_output_is_the_float_result_rounded_once(c):
    a, b = data((20, 40), "half", 7), data((40, 32), "half", 8)
    wide, _ = computed(a, b)
    got, _ = computed(a, b, c=c)
    assert (got == wide.astype(NUMPY[c])).all()


@pytest.mark.parametrize("block_dim", [1, 3, 8])
def test_values_do_not_depend_on_cores_buffers_and_loads(block_dim):
    a, b, bias = data((70, 90), "half", 1), data((90, 64), "half", 2), data((64,), "float", 3)
    want, _ = computed(a, b, bias, **BLOCKS)
    for options in (
        {"nums": dict.fromkeys(QUEUES | BIAS_QUEUES, 1)},
        {"nums": {"co1": 2, "a2": 1}, "step_k": 3},
        {"a_full_load": True, "single_core_m": 64, "single_core_n": 64},
        {"unit_flag": True, "single_core_m": 32, "single_core_n": 64},
    ):
        got, codes = computed(a, b, bias, block_dim=block_dim, **BLOCKS, **options)
        assert (got == want).all()
        assert codes == set()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data_=st.data())
def test_any_product_is_within_the_bound_of_float64(data_):
    draw = data_.draw
    name = draw(st.sampled_from(["half", "bfloat16_t", "float"]))
    c = draw(st.sampled_from(["float", "half", "bfloat16_t"]))
    m, n, k = (draw(st.integers(1, 100)) for _ in range(3))
    device = draw(st.sampled_from([A2, A5]))
    a_transposed = draw(st.booleans()) and (device == A2 or name != "float")
    split_k = draw(st.sampled_from([1, 2])) if k > 32 else 1
    blocks = BLOCKS if draw(st.booleans()) or split_k > 1 else {}
    a, b = data((m, k), name, draw(st.integers(0, 99))), data((k, n), name, draw(st.integers(100, 199)))
    bias = data((n,), "float", 200) if draw(st.booleans()) else None
    got, codes = computed(
        *(a, b, bias),
        c=c,
        device=device,
        block_dim=draw(st.integers(1, 5)),
        a_transposed=a_transposed,
        b_transposed=draw(st.booleans()),
        split_k=split_k,
        **blocks,
    )
    bound = matmul_bound(a, b, bias, output=np.dtype(NUMPY[c]).name, split_k=split_k)
    assert (np.abs(got.astype(np.float64) - exact_product(a, b, bias)) <= bound).all()
    assert codes == set()


def test_the_bound_is_of_the_size_of_one_rounding_for_one_product():
    one = np.ones((1, 1), np.float32)
    assert matmul_bound(one, one, output="float32")[0, 0] == pytest.approx(3 * 2.0**-24, rel=1e-6)
    assert matmul_bound(one, one, output="bfloat16")[0, 0] == pytest.approx(2.0**-8 + 2 * 2.0**-24, rel=1e-2)
    assert matmul_bound(one, one, output="int32")[0, 0] == 0


# ---- K split over cores ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block_dim", [1, 2, 4])
def test_parts_of_k_are_added_behind_the_first(block_dim):
    a, b, bias = data((40, 128), "int8_t", 1), data((128, 48), "int8_t", 2), data((48,), "int32_t", 3)
    got, codes = computed(a, b, bias, c="int32_t", split_k=4, block_dim=block_dim, **BLOCKS)
    assert (got == a.astype(np.int64) @ b.astype(np.int64) + bias).all()
    assert codes == set()


def test_floats_that_several_cores_add_come_in_no_order():
    a, b = data((32, 128), "half", 1), data((128, 32), "half", 2)
    _, two = computed(a, b, split_k=2, block_dim=2, **BLOCKS)
    _, four = computed(a, b, split_k=4, block_dim=4, **BLOCKS)
    assert (two, four) == (set(), {"W-RACE-ATOMICORDER"})


# ---- who does what ---------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None, derandomize=True)
@given(data_=st.data())
def test_every_product_is_made_once(data_):
    draw = data_.draw
    m, n, k = (draw(st.integers(1, 90)) for _ in range(3))
    single = {"single_core_m": draw(st.integers(1, 80)), "single_core_n": draw(st.integers(1, 80))}
    full = draw(st.booleans())
    t = tiling_of((m, n, k), step_k=draw(st.integers(1, 3)), a_full_load=full, **BLOCKS, **single)
    count = np.zeros((m, n, k), np.int64)
    for core in range(cores := draw(st.integers(1, 7))):
        steps, panels = steps_of_core(t, blocks_of_core(t, cores, core))
        for step in steps:
            block, panel = step.block, panels[step.panel]
            count[
                block.m_at : block.m_at + block.m, block.n_at : block.n_at + block.n, step.k_at : step.k_at + step.k
            ] += 1
            assert panel.k_at <= step.k_at
            assert step.k_at + step.k <= panel.k_at + panel.k
            assert (panel.m_at, panel.m) == (block.m_at, block.m)
    assert (count == 1).all()


def test_a_full_load_serves_all_blocks_of_its_rows():
    shape, area = (64, 96, 128), {"single_core_m": 64, "single_core_n": 96}
    t = tiling_of(shape, a_full_load=True, step_k=1, **BLOCKS, **area)
    steps, panels = steps_of_core(t, blocks_of_core(t, 1, 0))
    assert (len(steps), len(panels)) == (2 * 3 * 4, 2)
    t = tiling_of(shape, step_k=1, **BLOCKS, **area)
    steps, panels = steps_of_core(t, blocks_of_core(t, 1, 0))
    assert (len(steps), len(panels)) == (2 * 3 * 4, 2 * 3 * 4)


# ---- cycles ----------------------------------------------------------------------------------------------------------


def mmad_cycles(recording, timeline):
    """Cycles of each Mmad, from its start to its end."""
    program = recording.program
    found = []
    for i in range(len(timeline)):
        template = program.templates[program.calls["template"][timeline["call"][i]]]
        if template.rows[timeline["row"][i]].op.api == "Mmad":
            found.append(int(timeline["end"][i] - timeline["start"][i]))
    return found


@pytest.mark.parametrize(("side", "cycles"), [(16, 24), (128, 535)])
def test_one_mmad_takes_its_head_and_a_cycle_for_each_fractal(side, cycles):
    recording = recorded((side,) * 3, base_m=side, base_n=side, base_k=side)
    timeline = schedule(recording.program, load_device(A2))
    assert mmad_cycles(recording, timeline) == [cycles]
    assert cycles == 23 + (side // 16) ** 3


@settings(max_examples=20, deadline=None, derandomize=True)
@given(data_=st.data())
def test_no_product_is_faster_than_its_fractals_and_both_engines_agree(data_):
    draw = data_.draw
    name, c0, per_fractal = draw(st.sampled_from([("half", 16, 1), ("float", 8, 2), ("int8_t", 32, 1)]))
    shape = m, n, k = tuple(draw(st.integers(1, 150)) for _ in range(3))
    c = "int32_t" if name == "int8_t" else "float"
    recording = recorded(shape, name, c, b_transposed=True, block_dim=draw(st.integers(1, 3)), **BLOCKS)
    fractals = -(-m // 16) * -(-n // 16) * -(-k // c0)
    compiled, reference = (schedule(recording.program, load_device(A2), e) for e in ("compiled", "reference"))
    cores = recording.program.core_count
    assert compiled.makespan_cycles * cores >= 23 + per_fractal * fractals
    assert sum(mmad_cycles(recording, compiled)) >= per_fractal * fractals
    for column in ("start", "occupied", "end"):
        assert (compiled[column] == reference[column]).all()


def test_a_large_square_of_floats_keeps_the_cube_busy():
    recording = recorded((512, 512, 512), "float")
    timeline = schedule(recording.program, load_device(A2))
    fractals = 2 * 32 * 32 * 64
    assert 23 + fractals <= timeline.makespan_cycles <= 1.15 * fractals


def test_both_buffers_of_results_let_fixpipe_store_beside_the_next_block():
    area = {"base_m": 128, "base_n": 128, "base_k": 64, "single_core_m": 256, "single_core_n": 256, "a_full_load": True}
    one, two = (recorded((256, 256, 512), nums={"co1": num}, **area).program for num in (1, 2))
    assert schedule(two, load_device(A2)).makespan_cycles < schedule(one, load_device(A2)).makespan_cycles


def test_long_products_are_replayed():
    sizes = [(512, 512, 1024), (1024, 1024, 4096)]
    templates = [len(recorded(size, block_dim=2).program.templates) for size in sizes]
    assert templates[0] == templates[1] <= 60


def test_the_digest_is_the_same_each_time_and_another_for_another_tiling():
    first, again, other = (recorded((64, 64, 64), **BLOCKS | more).program.digest for more in ({}, {}, {"step_k": 1}))
    assert first == again != other


# ---- architectures ---------------------------------------------------------------------------------------------------


def test_l0a_of_arch_3510_is_filled_column_by_column():
    recording = recorded((64, 64, 64), device=A5)
    loads = [r for t in recording.program.templates for r in t.rows if r.op.name == "load_data_2d_l0a"]
    assert [r.param("repeat_times") for r in loads] == [16]
    assert codes_of(recording, A5) == set()


# ---- messages --------------------------------------------------------------------------------------------------------


def refused(shape=(64, 512, 128), **options):
    with pytest.raises(InputError) as error:
        tiling_of(shape, **options)
    return str(error.value)


def test_b_whole_in_l0b_does_not_fit_and_halves_of_a_quarter_do():
    """Source: tile-ai/tilelang-ascend, public issue 1313."""
    blocks = {"base_m": 64, "base_k": 128}
    assert refused(base_n=512, nums={"b2": 1}, **blocks) == (
        "L0B: base_k x base_n = 128 x 512 half takes 131072 B, with queues.b2.num = 1 131072 B > 65536 B of "
        "Ascend910B1; choose base_n = 256 at most or a smaller base_k"
    )
    assert tiling_of((64, 512, 128), base_n=128, **blocks).b2_bytes * 2 == 65536
    assert refused(base_n=144, **blocks) == (
        "L0B: base_k x base_n = 128 x 144 half takes 36864 B, with queues.b2.num = 2 73728 B > 65536 B of "
        "Ascend910B1; choose base_n = 128 at most or queues.b2.num = 1"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"base_m": 512, "base_n": 16, "base_k": 64},
            (
                "L0A: base_m x base_k = 512 x 64 half takes 65536 B, with queues.a2.num = 2 131072 B > 65536 B of "
                "Ascend910B1; choose base_m = 256 at most or queues.a2.num = 1"
            ),
        ),
        (
            {"base_m": 128, "base_n": 256, "base_k": 64, "nums": {"co1": 2}},
            (
                "L0C: base_m x base_n = 128 x 256 float takes 131072 B, with queues.co1.num = 2 262144 B > 131072 B of "
                "Ascend910B1; choose base_n = 128 at most or queues.co1.num = 1"
            ),
        ),
        (
            {"base_m": 16, "base_n": 272, "base_k": 16, "has_bias": True},
            (
                "BT: base_n = 272 float takes 1152 B, with queues.c2.num = 1 1152 B > 1024 B of Ascend910B1; choose "
                "base_n = 240 at most"
            ),
        ),
        (
            {"base_m": 128, "base_n": 256, "base_k": 64, "step_k": 8, "shape": (512, 512, 4096)},
            (
                "L1: a1 2 x 131072 + b1 2 x 262144 = 786432 B > 524288 B of Ascend910B1; choose a smaller step_k, "
                "base_m or base_n, or queues.a1.num and queues.b1.num of 1"
            ),
        ),
        (
            {"base_m": 24},
            (
                "tiling.base_m = 24: must be a multiple of 16, what these types and transpositions load at once; the "
                "nearest are 16 and 32"
            ),
        ),
        (
            {"ab": "int8_t", "c": "int32_t", "base_n": 48},
            (
                "tiling.base_n = 48: must be a multiple of 32, what these types and transpositions load at once; the "
                "nearest are 32 and 64"
            ),
        ),
        (
            {"ab": "int16_t"},
            (
                "tensors.a: dtype int16_t; Mmad of arch 2201 has int8_t*int8_t->int32_t, half*half->float, "
                "bfloat16_t*bfloat16_t->float, float*float->float: choose one of these"
            ),
        ),
        (
            {"c": "int32_t"},
            "tensors.c: dtype int32_t; Fixpipe makes float, half, bfloat16_t of float results without a scale",
        ),
        (
            {"ab": "float", "device": A5, "a_transposed": True},
            "tiling.a_transposed = true: arch 3510 transposes float to L0B only; store A as [m, k]",
        ),
        (
            {"split_k": 2, "relu": True, "base_k": 16},
            "tiling.relu = true with split_k = 2: ReLU of parts is not ReLU of the sum",
        ),
        (
            {"split_k": 5, "base_k": 64},
            "tiling.split_k = 5: K 128 in steps of base_k 64 makes 2 parts; choose split_k 2, or a smaller base_k",
        ),
        (
            {"shape": (16, 70000, 16)},
            "tensors.b: rows of 70000 elements; ND2NZ takes up to 65535: split the tensor",
        ),
        (
            {"device": "Ascend310P1"},
            (
                "device Ascend310P1: arch 2002 has no Fixpipe: its results leave L0C through UB, which is not "
                "modelled; choose a device of arch 2201 or 3510"
            ),
        ),
        (
            {"device": "Ascend310B1"},
            (
                "device Ascend310B1: arch 3002 has no DataCopy ND2NZ, which this operator loads with; choose a device "
                "of arch 2201 or 3510"
            ),
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(options, text):
    assert refused(**options) == text


SCENARIO = "matmul_512x512x512_half"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"tensors.b.shape": [256, 512]},
            (
                "tensors.b.shape = [256, 512]: its K is 256, that of tensors.a 512; must be equal (tiling.a_transposed "
                "and b_transposed say which axis it is)"
            ),
        ),
        ({"tensors.a.shape": [512, 512, 1]}, "tensors.a.shape = [512, 512, 1]: must be a matrix, two axes"),
        ({"tensors.b.dtype": "float"}, "tensors.b is float, tensors.a half: must be equal"),
        ({"tensors.c.shape": [512, 256]}, "tensors.c.shape = [512, 256]: must be [512, 512]"),
    ],
)
def test_tensors_that_do_not_fit_together_are_refused(changes, text):
    scenario = load_scenario(SCENARIO, changes)
    operator = scenario.find_operator()
    shapes = {name: (tuple(spec.shape), spec.element) for name, spec in scenario.tensors.items()}
    with pytest.raises(InputError) as error:
        operator.host(scenario.load_device(), shapes, operator.tiling_model.model_validate(scenario.tiling), QUEUES)
    assert str(error.value) == text


def test_a_bias_of_another_type_is_refused():
    raw = {
        "schema": 1,
        "name": "bias",
        "device": A2,
        "operator": "matmul_bias",
        "tensors": {
            "a": {"role": "input", "shape": [16, 16], "dtype": "half", "fill": "ones"},
            "b": {"role": "input", "shape": [16, 16], "dtype": "half", "fill": "ones"},
            "bias": {"role": "input", "shape": [16], "dtype": "half", "fill": "ones"},
            "c": {"role": "output", "shape": [16, 16], "dtype": "float"},
        },
    }
    scenario = scenario_from(raw, ROOT / "bias.toml")
    operator = scenario.find_operator()
    shapes = {name: (tuple(spec.shape), spec.element) for name, spec in scenario.tensors.items()}
    with pytest.raises(InputError) as error:
        operator.host(scenario.load_device(), shapes, operator.tiling_model(), QUEUES | BIAS_QUEUES)
    assert str(error.value) == "tensors.bias: dtype half; must be float, as results of half are added up"


def test_a_tiling_alone_is_not_judged(tmp_path):
    file = tmp_path / "blocks.toml"
    file.write_text('schema = 1\noperator = "matmul"\n[tiling]\nbase_m = 128\n')
    with pytest.raises(InputError) as error:
        tiling_scenario(read_toml(file), file, {}, (128, 128), "half", None, None)
    assert str(error.value) == (
        f"{file}: a tiling of matmul alone cannot be judged: its tensors have several shapes and types; check a "
        "scenario that names it"
    )


def test_a_sample_is_what_a_whole_run_gives():
    whole, some = (
        asc.run(ROOT / "scenarios" / f"{SCENARIO}.toml", set={"machine.values": v}) for v in ("all", "sample")
    )
    assert some.sample.tiles_there == 16
    c = slice(0, 128), slice(0, 128)
    assert (some.outputs["c"][c] == whole.outputs["c"][c]).all()
    assert all(e.met for e in some.expectations)
