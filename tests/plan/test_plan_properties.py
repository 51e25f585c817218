"""What holds for every plan: nothing overlaps, sums add up, and the largest legal value is the largest."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_harness import HEAD, answer_of, plan_of

from ascendsim.plan.layout import ALIGN_BYTES, lay_out
from ascendsim.plan.model import LIMITS, PLACES

LIMIT_BYTES = {"safe": 188160, "visible": 196352, "hardware": 196608}
CAPACITY = {"L1": 524288, "L0A": 65536, "L0B": 65536, "L0C": 131072, "BT": 1024, "FB": 2048}
ALIGN = {"UB": 32, "L1": 32, "L0A": 512, "L0B": 512, "L0C": 64, "BT": 64, "FB": 128}

UNITS = st.lists(
    st.tuples(st.integers(0, 3000), st.integers(1, 5000), st.integers(1, 4), st.sampled_from(PLACES)),
    min_size=1,
    max_size=6,
)
UB_UNITS = st.lists(
    st.tuples(st.integers(1, 9000), st.integers(0, 3000), st.integers(1, 4), st.just("UB")), min_size=1, max_size=4
)


def _text(units, top, *, k=0, step=1):
    tables = [f"[tiling]\nrows = {{ min = 1, max = {top}, step = {step} }}\nk = {max(k, 8)}\n"]
    for i, (slope, start, num, place) in enumerate(units):
        table = "queues" if i % 2 else "buffers"
        tables.append(f'[{table}.u{i}]\nplace = "{place}"\nbytes = "{slope} * rows + {start}"\nnum = {num}\n')
    if k:
        tables.append('[apis.grad]\napi = "softmax_grad"\nshape = ["rows", "k"]\n')
    return "".join(tables)


def _up(n, unit):
    return -(-n // unit) * unit


def _sums(units, rows):
    """Bytes of each place, added up by hand."""
    sums = dict.fromkeys(ALIGN, 0)
    for slope, start, num, place in units:
        sums[place] += num * _up(slope * rows + start, ALIGN[place])
    return sums


def _fits(units, rows, end, k):
    sums = _sums(units, rows)
    temp = 4 * (k + 80) if k else 0
    return sums["UB"] + temp <= end and all(sums[place] <= most for place, most in CAPACITY.items())


def test_the_alignments_are_the_documented_ones():
    assert ALIGN_BYTES == ALIGN


@settings(max_examples=60, deadline=None)
@given(UNITS, st.integers(1, 40))
def test_the_map_is_aligned_without_overlaps_and_adds_up(units, rows):
    layout = lay_out(plan_of(_text(units, 40)), {"rows": rows}, "safe")
    sums = _sums(units, rows)
    for place in PLACES:
        here = [e for e in layout.entries if e.place == place]
        end = 0
        for entry in here:
            assert entry.start_bytes == end, "side by side, in the plan's order"
            assert entry.start_bytes % ALIGN[place] == 0
            assert entry.bytes % ALIGN[place] == 0
            assert entry.bytes >= units[int(entry.name[1:])][0] * rows + units[int(entry.name[1:])][1]
            end = entry.end_bytes
        assert layout.used_bytes(place) == sum(e.num * e.bytes for e in here) == sums[place] == end


@settings(max_examples=40, deadline=None)
@given(UB_UNITS, st.integers(1, 60), st.sampled_from([0, 8, 64, 1024]), st.integers(1, 7))
def test_the_largest_legal_value_fits_and_the_next_does_not(units, top, k, step):
    found = answer_of(_text(units, top, k=k, step=step))
    values = range(1, top + 1, step)
    for limit in LIMITS:
        legal = [v for v in values if _fits(units, v, LIMIT_BYTES[limit], k)]
        assert found.solution.largest[limit] == max(legal, default=None)
    if found.solution.largest["safe"] is not None:
        assert found.fits
        assert found.layout.used_bytes("UB") <= LIMIT_BYTES["safe"]


@settings(max_examples=40, deadline=None)
@given(UNITS, st.integers(1, 30))
def test_every_place_is_looked_at(units, top):
    found = answer_of(_text(units, top))
    legal = [v for v in range(1, top + 1) if _fits(units, v, LIMIT_BYTES["visible"], 0)]
    assert found.solution.largest["visible"] == max(legal, default=None)
    if not legal:
        assert found.solution.reason
    for margin in found.margins:
        assert margin.margin_bytes == margin.capacity_bytes - margin.used_bytes
        assert margin.used_bytes == _sums(units, found.chosen["rows"])[margin.place]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 16), st.integers(0, 150000), st.sampled_from(LIMITS))
def test_a_temp_that_fits_takes_what_is_left_and_no_more_than_it_can_use(rows, k8, work, limit):
    k = 8 * k8
    text = f'[buffers.work]\nbytes = {work + 1}\n[apis.grad]\napi = "softmax_grad"\nshape = [{rows}, {k}]\n'
    (temp,) = lay_out(plan_of(text), {}, limit).temps
    least, most = 4 * (k + 80), 4 * rows * (k + 80)
    left = LIMIT_BYTES[limit] - _up(work + 1, 32)
    assert (temp.least_bytes, temp.most_bytes) == (least, most)
    assert temp.bytes == max(least, min(most, left // 32 * 32))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 64), min_size=2, max_size=3), st.integers(0, 170000))
def test_temps_that_share_nothing_share_what_is_left(rows, work):
    apis = "".join(f'[apis.a{i}]\napi = "softmax_grad"\nshape = [{m}, 128]\n' for i, m in enumerate(rows))
    layout = lay_out(plan_of(f"[buffers.work]\nbytes = {work + 1}\n{apis}"), {}, "safe")
    least = sum(use.least_bytes for use in layout.temps)
    left = LIMIT_BYTES["safe"] - _up(work + 1, 32)
    assert sum(use.bytes for use in layout.temps) <= max(left, least)
    assert all(use.least_bytes <= use.bytes <= use.most_bytes for use in layout.temps)
    if left >= sum(use.most_bytes for use in layout.temps):
        assert all(use.bytes == use.most_bytes for use in layout.temps)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 500), st.integers(1, 6), st.integers(0, 3)), min_size=1, max_size=6))
def test_hints_are_pairs_that_never_meet(parts):
    text = "".join(
        f"[buffers.b{i}]\nbytes = {size}\nsteps = [{first}, {first + more}]\n"
        for i, (size, first, more) in enumerate(parts)
    )
    found = answer_of(text)
    lives = {
        f"b{i}": (set(range(first, first + more + 1)), _up(size, 32)) for i, (size, first, more) in enumerate(parts)
    }
    apart = {(a, b) for a in lives for b in lives if a < b and not lives[a][0] & lives[b][0]}
    assert {(p.first.name, p.second.name) for p in found.reuse} == apart
    for pair in found.reuse:
        assert pair.saved_bytes == min(lives[pair.first.name][1], lives[pair.second.name][1])
    most = max(sum(size for steps, size in lives.values() if step in steps) for step in range(1, 10))
    total = sum(size for _, size in lives.values())
    assert [(a.bytes, a.used_bytes) for a in found.alive] == ([(most, total)] if most < total else [])


def _tiles(m, k, work_bytes):
    """SoftmaxGrad's tiles of m rows of float, written after the published formula."""
    b = min(work_bytes // 4 // (k + 80), m)
    if 8 < b < m:
        b = b // 8 * 8
    if b > 8 and m % 8 == 0 and k % 64 == 0:
        b = b // 8 * 8
        while m % b:
            b -= 8
        while b * k >= 16384:
            b //= 2
    return -(-m // b) if b else 0


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 130), st.sampled_from([8, 40, 64, 512, 1024]), st.integers(1, 5500))
def test_less_temp_is_the_least_with_the_fewest_tiles(m, k, more):
    least = 4 * (k + 80)
    given_bytes = least + 32 * (more - 1)
    found = answer_of(
        f'[apis.g]\napi = "softmax_grad"\nshape = [{m}, {k}]\ntemp = "t"\n[temps.t]\nbytes = {given_bytes}\n'
    )
    sizes = range(least, given_bytes + 1, 32)
    want = min((_tiles(m, k, size), size) for size in sizes if _tiles(m, k, size))
    got = [(less.better[0].loops, less.bytes) for less in found.less_temp]
    assert (got or [(_tiles(m, k, given_bytes), given_bytes)]) == [want]


def test_more_temp_can_give_more_loops():
    text = '[apis.g]\napi = "softmax_grad"\nshape = [120, 512]\ntemp = "t"\n[temps.t]\nbytes = {}\n'
    (less,) = answer_of(text.format(94720)).less_temp
    assert less.sentence == "t: 56832 B give 5 loops of g, 94720 B give 6 loops of g"
    (less,) = answer_of(text.format(56833)).less_temp
    assert less.sentence == "t: 56832 B are enough for the same 5 loops of g as 56833 B"
    assert answer_of(text.format(56832)).less_temp == ()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 130), st.integers(1, 130), st.sampled_from([8, 64, 512]), st.integers(1, 3000))
def test_less_of_a_shared_temp_gives_no_call_more_tiles(m, other_m, k, more):
    least = 4 * (k + 80)
    now = least + 32 * (more - 1)
    calls = [(m, k), (other_m, k // 2 if k > 8 else k)]
    apis = "".join(f'[apis.g{i}]\napi = "softmax_grad"\nshape = {list(c)}\ntemp = "t"\n' for i, c in enumerate(calls))
    found = answer_of(f"{apis}[temps.t]\nbytes = {now}\n").less_temp
    size = found[0].bytes if found else now
    tiles = [_tiles(*call, size) for call in calls]
    assert len(found) <= 1
    assert size <= now
    assert all(few <= _tiles(*call, now) for few, call in zip(tiles, calls, strict=True))
    for smaller in range(least, size, 32):
        assert any(_tiles(*call, smaller) > few for few, call in zip(tiles, calls, strict=True)), smaller


def test_a_temp_that_two_calls_need_whole_has_no_hint():
    """SoftMax would do with 37376 B, but SoftmaxGrad would then have 2 loops."""
    text = "".join(
        f'[apis.{api}]\napi = "{api}"\nshape = [16, 512]\ntemp = "tmp"\n' for api in ("soft_max", "softmax_grad")
    )
    assert answer_of(text).less_temp == ()
    (less,) = answer_of(f"{text}[temps.tmp]\nbytes = 40000\n").less_temp
    assert less.sentence == (
        "tmp: 37888 B are enough for the same 1 loop of soft_max and 1 loop of softmax_grad as 40000 B"
    )


def test_a_size_that_does_not_grow_with_the_field_is_solved_too():
    """Every value is tried: 64 rows need less than 63 here."""
    text = '[tiling]\nrows = { min = 1, max = 64 }\n[buffers.x]\nbytes = "1 + rows % 64 * 4096"\n'
    assert answer_of(text).solution.largest["safe"] == 64


def test_a_value_without_an_answer_is_not_legal():
    text = '[tiling]\nk = { min = 1, max = 64 }\n[buffers.x]\nbytes = "4096 // (k - 40) + 64"\n'
    assert answer_of(text).solution.largest["safe"] == 64
    text = '[tiling]\nk = { min = 1, max = 71 }\n[apis.a]\napi = "softmax_grad"\nshape = [4, "k"]\n'
    found = answer_of(text)
    assert found.solution.largest["safe"] == 64, "65 to 71 floats are no whole datablocks"
    assert "last axis 1 of 4-byte elements is 4 bytes" in found.solution.reason


@pytest.mark.parametrize("limit", LIMITS)
def test_the_plans_limit_chooses_what_is_shown(limit):
    text = '[tiling]\nn = { min = 32, max = 200000, step = 32 }\n[buffers.x]\nbytes = "n"\n'
    found = answer_of(text, head=f'{HEAD}limit = "{limit}"\n')
    assert found.chosen == {"n": LIMIT_BYTES[limit]}
    assert found.fits is (limit != "hardware")
