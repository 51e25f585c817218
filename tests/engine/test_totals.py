"""Totals against a slow count from the whole timeline, cycle by cycle where that says it best."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from agreement import PROFILE, flags, passed
from hypothesis import given, settings
from hypothesis import strategies as st
from random_programs import Shape, programs
from small_programs import exec_row, load, program, s, set_cross, set_flag, v, wait_cross, wait_flag

from ascendsim.engine import compiled, reference, totals
from ascendsim.engine.base import CrossMode, Kind, L2Info, Wait
from ascendsim.terms import HardEvent, Pipe

LARGE = Shape(max_calls=9, max_steps=9)
HELD = (Wait.FLAG, Wait.BUFFER, Wait.CROSS_CORE, Wait.BARRIER)
WORK = (Kind.EXEC, Kind.TRANSFER)
PIPES = len(Pipe)
BINS = (1024, 8, 2)
CHUNKS = st.sampled_from([1, 5, 23, 100, 1 << 16])


class Slow:
    """What rows add up to, from marks on the cycles of every core and pipe."""

    def __init__(self, p, t):
        self.p, self.t = p, t
        shape = (p.core_count, PIPES, t.makespan_cycles)
        self.busy, self.stalled = np.zeros(shape, bool), np.zeros(shape, bool)
        self.rows = np.zeros(shape[:2], int)
        starts = np.concatenate([[0], np.cumsum([len(template) for template in p.templates])])
        self.hot = starts[p.call_template[t["call"]]] + t["row"]
        self.table_rows = int(starts[-1])
        for row in range(len(t)):
            self._mark(row)
        self.stalled &= ~self.busy

    def _mark(self, row):
        t, dispatch = self.t, self.p.dispatch_cycles
        core, pipe, start = t["core"][row], t["pipe"][row], t["start"][row]
        if t["kind"][row] in WORK:
            self.rows[core, pipe] += 1
            self.busy[core, pipe, start : t["end"][row]] = True
        if t["waited_for"][row] in HELD:
            self.stalled[core, pipe, start : start + t["wait_cycles"][row]] = True
        if t["waited_for"][row] == Wait.UNIT_FLAG:
            self.stalled[core, pipe, start - t["wait_cycles"][row] : start] = True
        if pipe != Pipe.S:
            begun = t["dispatched"][row] - dispatch
            self.busy[core, Pipe.S, begun : t["dispatched"][row]] = True
            self.stalled[core, Pipe.S, begun - t["stuck_cycles"][row] : begun] = True

    def overlap(self):
        shared = np.zeros((PIPES, PIPES), int)
        for a, b in combinations(range(1, PIPES), 2):
            shared[a, b] = (self.busy[:, a] & self.busy[:, b]).sum()
        return shared

    def waits(self):
        """(cycles, count) of [template row, Wait]."""
        cycles, counts = np.zeros((2, self.table_rows, len(Wait)), int)
        for row, hot in enumerate(self.hot):
            stuck = Wait.QUEUE_FULL, self.t["stuck_cycles"][row]
            for wait, waited in ((self.t["waited_for"][row], self.t["wait_cycles"][row]), stuck):
                cycles[hot, wait] += waited
                counts[hot, wait] += waited > 0
        return cycles, counts

    def lost(self):
        """[core, pipe, Wait], cycle by cycle: what holds a pipe's row, else its scalar unit, else dispatch."""
        t, p = self.t, self.p
        lost = np.zeros((*self.busy.shape[:2], len(Wait)), int)
        held = np.zeros(self.busy.shape, int)
        empty = np.zeros(self.busy.shape, bool)
        free = defaultdict(int)
        for row in np.lexsort((t["number"], t["start"])).tolist():
            core, pipe, start, cycles = (int(t[c][row]) for c in ("core", "pipe", "start", "wait_cycles"))
            wait, dispatched = int(t["waited_for"][row]), int(t["dispatched"][row])
            if wait in HELD:
                held[core, pipe, start : start + cycles] = wait
            if wait == Wait.UNIT_FLAG:
                held[core, pipe, start - cycles : start] = wait
            if pipe != Pipe.S:
                begun = dispatched - p.dispatch_cycles
                lost[core, Pipe.S, Wait.QUEUE_FULL] += t["stuck_cycles"][row]
                assert begun >= 0
                lost[core, pipe, Wait.BANDWIDTH] += t["stretch_cycles"][row]
        for core, pipe in np.ndindex(self.busy.shape[:2]):
            rows = np.flatnonzero((t["core"] == core) & (t["pipe"] == pipe))
            for row in rows[np.argsort(t["number"][rows])].tolist() if pipe != Pipe.S else ():
                empty[core, pipe, free[core, pipe] : t["dispatched"][row]] = True
                free[core, pipe] = int(t["occupied"][row])
        held[self.busy] = 0
        empty &= ~self.busy
        for core, pipe in np.ndindex(self.busy.shape[:2]):
            causes = held[core, pipe][held[core, pipe] > 0]
            behind = held[core, Pipe.S][empty[core, pipe]]
            for cause in (causes, np.where(behind > 0, behind, Wait.DISPATCH)):
                lost[core, pipe] += np.bincount(cause.astype(int), minlength=len(Wait))
        return lost

    def last(self):
        ends = np.zeros(self.busy.shape[:2], int)
        t = self.t
        for row in np.flatnonzero(np.isin(t["kind"], WORK) & (t["pipe"] != Pipe.S)).tolist():
            place = t["core"][row], t["pipe"][row]
            ends[place] = max(ends[place], t["end"][row])
        return ends

    def units(self):
        """[block, 2]: any V of the block busy, and the M of its first core, too."""
        per = self.p.block_cores
        vector = self.busy[:, Pipe.V].reshape(self.p.core_count // per, per, self.busy.shape[2]).any(axis=1)
        return np.stack([vector.sum(axis=1), (vector & self.busy[::per, Pipe.M]).sum(axis=1)], axis=1)

    def hits(self):
        rows = self.t["kind"] == Kind.TRANSFER
        return np.bincount(self.hot[rows], self.t["l2_hit"][rows], self.table_rows).astype(int)

    def spent(self):
        t, spent, later = self.t, np.zeros(self.table_rows, int), {}
        for row in reversed(np.flatnonzero(np.isin(t["kind"], WORK) & (t["pipe"] != Pipe.S)).tolist()):
            place = t["core"][row], t["pipe"][row]
            spent[self.hot[row]] += min(t["end"][row], later.get(place, t["end"][row])) - t["start"][row]
            later[place] = t["start"][row]
        return spent

    def double_sets(self):
        """(count, first number) of [template row]: sets n + 1 that come before wait n, or before it took its flag."""
        found = defaultdict(list)
        for (_, _, cross), (sets, waits) in flags(self.p, self.t).items():
            for later, wait in zip(sets[1:], waits, strict=False):
                if not cross and self.t["end"][later] < passed(self.t, wait):
                    found[self.hot[later]].append(later)
        counts, first = np.zeros(self.table_rows, int), np.full(self.table_rows, -1)
        for hot, rows in found.items():
            counts[hot], first[hot] = len(rows), min(rows)
        return counts, first

    def bins(self, cycles, bins):
        """Cycles of work in each bin; there is none behind the last."""
        end = bins * cycles
        padded = np.zeros((PIPES, max(end, self.busy.shape[2])), int)
        padded[:, : self.busy.shape[2]] = self.busy.sum(axis=0)
        padded[Pipe.S] = 0
        assert not padded[:, end:].any()
        return padded[:, :end].reshape(PIPES, bins, cycles).sum(axis=2)


def check_totals(slow, found):
    t = slow.t
    assert (found.rows == slow.rows).all()
    assert (found.busy_cycles == slow.busy.sum(axis=2)).all()
    assert (found.stalled_cycles == slow.stalled.sum(axis=2)).all()
    assert (found.busy_cycles + found.stalled_cycles <= t.makespan_cycles).all()
    assert (found.overlap_cycles == slow.overlap()).all()
    cycles, counts = slow.waits()
    assert (found.wait_cycles == cycles).all()
    assert (found.wait_count == counts).all()
    assert (found.spent_cycles == slow.spent()).all()
    doubles, first = slow.double_sets()
    assert (found.double_sets == doubles).all()
    assert (found.first_double == first).all()
    assert (found.lost_cycles == slow.lost()).all()
    assert (found.last_cycles == slow.last()).all()
    assert (found.unit_cycles == slow.units()).all()
    assert (found.l2_hits == slow.hits()).all()
    outside = found.lost_cycles.sum(axis=2) - found.lost_cycles[:, :, Wait.BANDWIDTH]
    assert (found.stalled_cycles <= outside).all()
    assert (found.busy_cycles + outside <= t.makespan_cycles).all()
    assert (found.busy_bins == slow.bins(found.bin_cycles, found.busy_bins.shape[1])).all()
    end = t["end"][np.isin(t["kind"], WORK) & (t["pipe"] != Pipe.S)].max(initial=0)
    shortest = totals.BINS * found.bin_cycles // 2
    assert found.bin_cycles == 1 or end > shortest, "bins are no longer than they need to be"


def test_totals_are_what_a_slow_count_of_every_cycle_gives(monkeypatch):
    """For both engines, whatever the length of a chunk, and for bins that have to get longer."""
    seen = Counter()

    @settings(PROFILE, max_examples=200)
    @given(programs(LARGE), CHUNKS, st.booleans())
    def check(p, rows, in_blocks):
        p = replace(p, block_cores=p.core_count if in_blocks else 1)
        monkeypatch.setattr(compiled, "CHUNK_ROWS", rows)
        slow = Slow(p, reference.schedule(p))
        for bins in BINS:
            monkeypatch.setattr(totals, "BINS", bins)
            for engine in (reference, compiled):
                check_totals(slow, found := engine.schedule(p).totals)
            seen[f"longer than {bins} bins"] += found.bin_cycles > 1
        seen.update({Wait(wait).name for wait in np.flatnonzero(found.wait_count.sum(axis=0))})
        seen["double sets"] += bool(found.double_sets.any())
        seen["Cube beside Vector"] += bool(found.unit_cycles[:, 1].any()) and in_blocks
        seen.update({f"lost to {Wait(wait).name}" for wait in np.flatnonzero(found.lost_cycles.sum(axis=(0, 1)))})
        seen["overlap"] += bool(found.overlap_cycles.any())

    check()
    names = {wait.name for wait in Wait if wait != Wait.NOTHING}
    names |= {f"lost to {name}" for name in names - {"PIPE_ORDER"}}
    names |= {"double sets", "overlap", "Cube beside Vector", "longer than 8 bins", "longer than 2 bins"}
    assert {name for name in names if seen[name] < 10} == set()


def test_each_total_of_a_small_program():
    """V works from 3 to 9 and drains until 12, when the flag rises; MTE2 waits for it from 5 on."""
    rows = [s(2), v(4, startup=2, drain=3), set_flag(HardEvent.V_MTE2), wait_flag(HardEvent.V_MTE2)]
    t = compiled.schedule(program((0, rows)))
    assert t["start"].tolist() == [0, 3, 9, 5]
    assert t["end"].tolist() == [2, 9 + 3, 12, 13]
    found = t.totals
    assert found.busy_cycles[0, [Pipe.S, Pipe.V, Pipe.MTE2]].tolist() == [2 + 3, 9, 0]
    assert found.stalled_cycles[0, [Pipe.S, Pipe.V, Pipe.MTE2]].tolist() == [0, 0, 7]
    assert found.rows[0, [Pipe.S, Pipe.V, Pipe.MTE2]].tolist() == [1, 1, 0]
    assert found.wait_cycles[3, Wait.FLAG] == 7
    assert found.spent_cycles.tolist() == [0, 9, 0, 0]
    assert found.busy_bins[Pipe.V].nonzero()[0].tolist() == list(range(3, 12))


def test_what_a_pipe_loses_to_other_cores_and_to_its_scalar_unit():
    """Cube core: M works from 1 to 11, then raises a flag that is up at 12 + 5. Vector core: S waits for it from 2 on.

    V is busy from 1 to 5 and gets its next row at 19 (1 for the wait, 1 to dispatch): it lost 5 to 17 to that flag.
    """
    cube, vector = (0,), (1,)
    mode = CrossMode("up", (cube, vector), (vector, cube))
    rows = [exec_row(Pipe.M, 10), set_cross(Pipe.M, 0, 0)]
    waits = [v(4), s(1), wait_cross(Pipe.S, 0, 0), v(6), exec_row(Pipe.MTE3, 1)]
    p = replace(program((0, rows), (1, waits), cross_modes=(mode,), cross_cycles=5), block_cores=2)
    for engine in (reference, compiled):
        t = engine.schedule(p)
        assert t["start"].tolist() == [1, 11, 1, 1, 2, 19, 20]
        assert t["wait_cycles"][4] == 15
        lost = t.totals.lost_cycles
        assert lost[1, Pipe.V, [Wait.CROSS_CORE, Wait.DISPATCH]].tolist() == [12, 1 + 2]
        assert lost[1, Pipe.MTE3, [Wait.CROSS_CORE, Wait.DISPATCH]].tolist() == [15, 5]
        assert lost[1, Pipe.S, [Wait.CROSS_CORE, Wait.DISPATCH]].tolist() == [15, 0]
        assert lost[0, Pipe.M].sum() == 1
        assert lost.sum() == 12 + 3 + 15 + 5 + 15 + 1
        assert t.totals.last_cycles[[0, 1, 1], [Pipe.M, Pipe.V, Pipe.MTE3]].tolist() == [11, 25, 21]
        assert t.totals.unit_cycles.tolist() == [[4 + 6, 4]]


def test_hits_and_shared_bandwidth_are_counted():
    """Two cores load 40 bytes each over a link of 4 a cycle that each could use alone, then again from L2."""
    rows = [load(40, 4), load(40, 4)]
    p = program((0, rows), (1, rows), l2=L2Info("model", 1 << 20, 64, 256), dispatch=0)
    for engine in (reference, compiled):
        t = engine.schedule(p)
        assert t["stretch_cycles"].sum() == t.totals.lost_cycles[:, Pipe.MTE2, Wait.BANDWIDTH].sum() > 0
        assert t.totals.l2_hits.tolist() == [t["l2_hit"][row] for row in range(4)]
        assert t.totals.l2_hits[[1, 3]].tolist() == [1, 1]


@pytest.mark.parametrize(("pause", "doubles"), [(0, [4]), (6, [4]), (7, []), (20, [])])
def test_a_set_is_double_if_it_comes_before_the_wait_of_the_set_before_took_its_flag(pause, doubles):
    """V is at work from 1 to 11 and then takes the first set; the second set of S is complete at 4 and the pause."""
    event = HardEvent.S_V
    rows = [v(10), set_flag(event), wait_flag(event), s(pause), set_flag(event), wait_flag(event)]
    t = compiled.schedule(program((0, rows)))
    assert t["end"][4] == 4 + pause
    assert t.totals.double_sets.nonzero()[0].tolist() == doubles
    assert t.totals.first_double.tolist() == [row if row in doubles else -1 for row in range(6)]
