"""Who computes which scores: every one exactly once, against a brute force of what is masked."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ascendsim.device import Platform, load_device
from ascendsim.op_host.fag_call import FagCall, read_shape
from ascendsim.op_host.fag_dealing import dealing, shares, vector_step
from ascendsim.op_host.fag_params import FagParams
from ascendsim.op_host.fag_platform import fag_platform
from ascendsim.op_host.fag_result import TileOverride
from ascendsim.op_host.fag_tiling import NO_OVERRIDE, fag_tiling
from ascendsim.op_host.fag_tiling_s1s2_bn2 import relabelled
from ascendsim.terms import CoreKind

SMALL = Platform(3, 6).device()


def dealt_of(params, priority=None, override=NO_OVERRIDE, device=SMALL):
    tiling = fag_tiling(params, device, priority=priority, override=override)
    if tiling.status == "failed":
        return None
    call = FagCall(params, read_shape(params), fag_platform(device))
    if tiling.template in ("S1s2Bn2", "S1s2Bn2_deterministic"):
        call = relabelled(call)
    return call, tiling, dealing(call, tiling)


def wanted(params, batch):
    """Which scores of a batch have to be computed, from the documented meaning of the sparse modes alone."""
    is_tnd = params.layout == "TND"
    s1, s2 = (params.q_lens[batch], params.kv_lens[batch]) if is_tnd else (params.S1, params.S2)
    i, j = np.arange(s1)[:, None], np.arange(s2)[None, :]
    everything = np.ones((s1, s2), bool)
    last = np.broadcast_to(j <= i + s2 - s1, (s1, s2))
    pre, after, more = params.pre_tokens, params.next_tokens, s2 - s1
    prefix = params.prefix[batch] if params.prefix else 0
    meanings = {
        0: (j - i <= after) & (i - j <= pre),
        1: everything,
        2: np.broadcast_to(j <= i, (s1, s2)),
        3: last,
        4: (j - i <= after + more) & (i - j <= pre - more),
        5: last | (j < prefix),
        6: last | (j < prefix),
    }
    return everything if params.atten_mask is None else meanings[params.sparse_mode]


def counted(call, dealt):
    """How often each score is computed: {(b, n2, g): matrix}, over all cores."""
    shape = call.shape
    found = {}
    for core in range(dealt.cores):
        for turn, block in enumerate(dealt.of_core(core)):
            assert block.turn == turn
            assert min(block.rows, block.columns) > 0
            assert block.heads == 1
            b = block.b
            lengths = (shape.q_lens[b], shape.kv_lens[b]) if shape.is_tnd else (shape.s1, shape.s2)
            matrix = found.setdefault((b, block.n2, block.g), np.zeros(lengths, np.int64))
            rows, columns = matrix.shape
            assert block.s1 + block.rows <= rows
            assert block.s2 + block.columns <= columns
            matrix[block.s1 : block.s1 + block.rows, block.s2 : block.s2 + block.columns] += 1
    return found


def check(params, call, dealt):
    found = counted(call, dealt)
    for b in range(call.shape.b):
        needed = wanted(params, b)
        for n2 in range(call.shape.n2):
            for g in range(call.shape.g):
                matrix = found.get((b, n2, g), np.zeros(needed.shape, np.int64))
                assert (matrix[needed] == 1).all()
                assert matrix.max(initial=0) <= 1


@st.composite
def calls(draw):
    """A call of small sequences, of any sparse mode that is not for TND alone."""
    mode = draw(st.sampled_from([0, 0, 1, 2, 3, 4, 5, 6]))
    s1, s2 = (draw(st.integers(16, 90)) for _ in range(2))
    batches = draw(st.integers(1, 3))
    pre, after = draw(st.integers(-40, 90)), draw(st.integers(-40, 90))
    if mode in (5, 6):
        s1 = s2
    has_mask = mode != 0 or draw(st.booleans())
    compressed = (3072, 2048) if mode == 6 else (2048, 2048)
    full = "[B,1,S1,S2]" if mode == 5 else "[S1,S2]"
    return FagParams(
        dtype="bf16",
        layout=draw(st.sampled_from(["BSH", "SBH", "BSND", "BNSD"])),
        B=batches,
        N2=draw(st.integers(1, 3)),
        G=draw(st.integers(1, 3)),
        S1=s1,
        S2=s2,
        D=64,
        pre_tokens=pre,
        next_tokens=after,
        sparse_mode=mode,
        atten_mask=(compressed if mode in (2, 3, 4, 6) else full) if has_mask else None,
        prefix=tuple(draw(st.integers(0, s2)) for _ in range(batches)) if mode in (5, 6) else (),
    )


@settings(deadline=None)
@given(params=calls(), priority=st.sampled_from([15500, 1100, 16000]), v=st.tuples(*[st.integers(1, 3)] * 2))
@example(
    params=FagParams("bf16", "BNSD", B=1, S1=80, S2=48, D=64, sparse_mode=3, atten_mask=(2048, 2048)),
    priority=15500,
    v=(1, 1),
)
def test_every_score_is_computed_exactly_once(params, priority, v):
    if priority == 1100:
        params = replace(params, deterministic=True)
    override = TileOverride(cv_s1=16 * v[0], cv_s2=16 * v[1], vec_s1=16, vec_s2=16)
    found = dealt_of(params, priority, override)
    assume(found is not None)
    call, _, dealt = found
    check(params, call, dealt)


@settings(deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 90), st.integers(1, 90)), min_size=1, max_size=4),
    mode=st.sampled_from([0, 2, 3]),
    tile=st.integers(1, 3),
)
def test_every_score_of_unequal_batches_is_computed_exactly_once(lengths, mode, tile):
    q_lens, kv_lens = (tuple(pair[k] for pair in lengths) for k in (0, 1))
    params = FagParams(
        "bf16", "TND", N2=2, G=2, D=64, q_lens=q_lens, kv_lens=kv_lens, sparse_mode=mode,
        atten_mask=(2048, 2048) if mode else None,
    )  # fmt: skip
    found = dealt_of(params, 2000, TileOverride(cv_s1=16 * tile, cv_s2=16 * tile, vec_s1=16, vec_s2=16))
    assume(found is not None)
    call, _, dealt = found
    check(params, call, dealt)


@settings(deadline=None)
@given(
    priority=st.sampled_from([1000, 10000, 11000, 15000]),
    batches=st.integers(1, 9),
    heads=st.integers(1, 7),
    groups=st.integers(1, 3),
    s1=st.integers(1, 70),
    s2=st.integers(1, 70),
)
def test_whole_heads_are_dealt_exactly_once(priority, batches, heads, groups, s1, s2):
    params = FagParams(
        "bf16", "BNSD", B=batches, N2=heads, G=groups, S1=s1, S2=s2, D=64, deterministic=priority == 1000
    )
    found = dealt_of(params, priority)
    assume(found is not None)
    call, tiling, dealt = found
    if tiling.split is None:
        check(params, call, dealt)
        return
    done = Counter()
    for core in range(dealt.cores):
        for block in dealt.of_core(core):
            assert (block.rows, block.columns) == (s1, s2)
            first = (block.b * heads + block.n2) * groups
            done.update(range(first, first + block.heads))
    assert done == Counter(range(batches * heads * groups))


@settings(deadline=None)
@given(lengths=st.lists(st.integers(1, 900), min_size=1, max_size=4), mode=st.sampled_from([0, 2, 3]))
def test_basic_blocks_are_dealt_exactly_once(lengths, mode):
    params = FagParams(
        "bf16", "TND", N2=1, G=2, D=64, q_lens=tuple(lengths), kv_lens=tuple(lengths), sparse_mode=mode,
        atten_mask=(2048, 2048) if mode else None,
    )  # fmt: skip
    call, tiling, dealt = dealt_of(params)
    assert tiling.template == "basic_tnd"
    check(params, call, dealt)


@settings(deadline=None)
@given(params=calls(), priority=st.sampled_from([15500, 16000]), aic=st.integers(1, 5))
def test_sums_over_cores_are_those_of_their_blocks(params, priority, aic):
    override = TileOverride(cv_s1=32, cv_s2=16, vec_s1=16, vec_s2=16)
    found = dealt_of(params, priority, override, Platform(aic, 2 * aic).device())
    assume(found is not None)
    _, _, dealt = found
    blocks = [list(dealt.of_core(core)) for core in range(dealt.cores)]
    assert dealt.per_core(lambda g: np.ones(len(g))).round().tolist() == [len(b) for b in blocks]
    scores = [sum(b.rows * b.columns for b in core) for core in blocks]
    assert dealt.per_core(lambda g: g.scores.astype(float)).round().tolist() == scores
    assert dealt.count == sum(map(len, blocks))
    assert dealt.scores == sum(scores)


@settings(deadline=None)
@given(
    rows=st.integers(1, 600),
    columns=st.integers(1, 600),
    cut=st.sampled_from(["rows", "columns", "halves", "none"]),
    step=st.tuples(st.integers(1, 128), st.integers(1, 256)),
)
def test_the_shares_of_two_aivs_cover_a_block_exactly_once(rows, columns, cut, step):
    done = np.zeros((rows, columns), np.int64)
    for share in shares(rows, columns, cut, *step):
        done[share.s1 : share.s1 + share.rows, share.s2 : share.s2 + share.columns] += 1
        assert sum(r * w * count for r, w, count in share.sizes()) == share.rows * share.columns
        assert sum(count for _, _, count in share.sizes()) == share.sub_tiles
    assert (done == 1).all()


def test_the_blocks_of_the_worked_example():
    """512 x 512 tiles of 8 heads: 16 each, one to each AIC in turn, s1 fastest (facts of the kernel, by hand)."""
    params = FagParams("bf16", "BNSD", B=1, N2=8, S1=2048, S2=2048)
    call, tiling, dealt = dealt_of(params, device=load_device("Ascend910B1"))
    assert (dealt.count, dealt.cores, dealt.kind) == (128, 24, CoreKind.AIC)
    first = [next(dealt.of_core(core)) for core in range(17)]
    assert [(b.n2, b.s1, b.s2) for b in first[:5]] == [(0, 512 * t, 0) for t in range(4)] + [(0, 0, 512)]
    assert (first[16].n2, first[16].s1, first[16].s2) == (1, 0, 0)
    step = vector_step(call, tiling, 512)
    assert step == (32, 256)
    assert [s.sub_tiles for s in shares(512, 512, dealt.cut, *step)] == [16, 16]


def test_a_causal_call_skips_what_is_right_of_the_diagonal():
    params = FagParams("bf16", "BNSD", B=1, N2=1, S1=2048, S2=2048, sparse_mode=2, atten_mask=(2048, 2048))
    _, _, dealt = dealt_of(params, device=load_device("Ascend910B1"))
    assert [(b.s1 // 512, b.s2 // 512) for core in range(10) for b in dealt.of_core(core)] == [
        *[(0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (3, 3)]
    ]


@pytest.mark.parametrize("fixed", [False, True])
def test_a_deterministic_call_takes_all_query_heads_of_a_column_first(fixed):
    params = FagParams("bf16", "BNSD", B=1, N2=1, G=2, S1=1024, S2=1536, deterministic=fixed)
    _, _, dealt = dealt_of(params, 1100 if fixed else 15500, device=load_device("Ascend910B1"))
    order = [(b.g, b.s2, b.s1) for core in range(dealt.count) for b in dealt.of_core(core)]
    if fixed:
        assert order == sorted(order, key=lambda o: (o[1], o[0], o[2]))
    else:
        assert order == sorted(order)


def test_blocks_end_at_the_band_rounded_up_to_eight_columns():
    params = FagParams("bf16", "BNSD", B=1, S1=300, S2=2048, sparse_mode=2, atten_mask=(2048, 2048))
    _, _, dealt = dealt_of(params, 15500, TileOverride(cv_s1=100, cv_s2=512))
    assert [b.columns for core in range(3) for b in dealt.of_core(core)] == [104, 200, 304]
