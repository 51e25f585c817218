"""The critical path of random programs, and of schedules worked out by hand."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
from agreement import FEW
from hypothesis import given, settings
from hypothesis import strategies as st
from path_rules import check_path
from random_kernels import DEVICE, kernels
from random_programs import Shape, programs

from ascendsim.critical import Edge, critical_path
from ascendsim.engine import both, compiled, reference
from ascendsim.engine.base import Keep, Kind
from ascendsim.schedule_input import schedule_input
from ascendsim.what_if import what_if, with_free


def seen_as(given):
    """A program and a device that show a schedule's lanes and calls to the critical path."""
    templates = tuple(SizedTemplate(template.columns) for template in given.templates)
    program = SimpleNamespace(
        templates=templates,
        calls={"core": given.call_core, "template": given.call_template},
        block_dim=given.core_count,
        block_cores=1,
        kernel_type=SimpleNamespace(is_mix=False),
    )
    scalar = SimpleNamespace(
        dispatch_cycles=SimpleNamespace(value=given.dispatch_cycles), depth=lambda pipe: given.queue_depth.get(pipe, 0)
    )
    return program, SimpleNamespace(scalar=scalar)


class SizedTemplate:
    """Columns of a template, and how many rows it has."""

    def __init__(self, columns):
        self.columns = columns

    def __len__(self):
        return len(self.columns["pipe"])


def path_of(given, timeline):
    program, device = seen_as(given)
    return critical_path(program, timeline, device)


def test_every_step_begins_when_its_edge_lets_it_and_they_add_up():
    seen = Counter()

    @settings(FEW, max_examples=250)
    @given(programs(Shape()))
    def check(schedule):
        timeline = compiled.schedule(schedule)
        path = path_of(schedule, timeline)
        check_path(path, timeline, schedule.dispatch_cycles, schedule.queue_depth)
        seen.update({step.edge for step in path})

    check()
    assert {edge for edge in Edge if not seen[edge]} == {Edge.UNKNOWN}


@FEW
@given(programs(Shape()))
def test_both_engines_have_one_path(schedule):
    fast, slow = compiled.schedule(schedule), reference.schedule(schedule)
    assert path_of(schedule, fast) == path_of(schedule, slow)


@FEW
@given(programs(Shape()), st.data())
def test_where_rows_were_not_kept_the_path_is_that_of_the_whole_run_behind_them(schedule, data):
    whole = compiled.schedule(schedule)
    calls = data.draw(st.lists(st.booleans(), min_size=len(schedule.call_core), max_size=len(schedule.call_core)))
    part = compiled.schedule(schedule, None, Keep(np.array(calls, np.bool_)))
    path, known = path_of(schedule, whole), path_of(schedule, part)
    assert sum(step.cycles for step in known) == whole.makespan_cycles
    if known and known[0].edge is Edge.UNKNOWN:
        gap, *known = known
        assert (gap.row, gap.begin_cycles, gap.core) == (-1, 0, -1)
    if known and known[-1].row != path[-1].row:
        assert path[-1].row not in part["number"]  # then the path ends with another row that is complete last
        return
    for mine, theirs in zip(reversed(known), reversed(path), strict=False):
        if mine != theirs:
            _check_border(mine, theirs, part)
            return


def _check_border(mine, theirs, part):
    """Where paths part: a row that was not kept, or a flag of another core whose set was not."""
    assert mine.end_cycles == theirs.end_cycles
    assert theirs.row not in part["number"] or (mine.row == theirs.row and mine.begin_cycles >= theirs.begin_cycles)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(kernels())
def test_a_free_pipe_leaves_no_work_of_its_own(made):
    """On any kernel: its rows end where they start, and both engines give one makespan."""
    program = made.program
    given_ = schedule_input(program, DEVICE, "model")
    for one in what_if(program, DEVICE, "model"):
        timeline = both.schedule(with_free(given_, program, one.kind, one.pipe))
        assert timeline.makespan_cycles == one.makespan_cycles
        work = np.isin(timeline["kind"], (Kind.EXEC, Kind.TRANSFER)) & (timeline["pipe"] == one.pipe)
        assert (timeline["end"][work] == timeline["start"][work]).all()
