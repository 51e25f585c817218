"""Long programs are checked while they are scheduled: nothing that a user sees may depend on that."""

import threading

import pytest

import ascendsim as asc
from ascendsim import machine
from ascendsim.beside import GivenUp, beside
from ascendsim.engine.base import TIMELINE_COLUMNS
from ascendsim.errors import Deadlock, Rejected
from ascendsim.progress import silent

OPERATOR = "softmaxgrad_960x960_float"


@pytest.fixture
def all_are_long(monkeypatch):
    monkeypatch.setattr(machine, "LONG_ROWS", 0)


def outcome(name, changes):
    try:
        return asc.run(name, set=changes)
    except (Deadlock, Rejected) as stopped:
        return f"{type(stopped).__name__}: {stopped}"


@pytest.mark.parametrize("name", [OPERATOR, "matmul_512x512x512_half", "fag_same_ab_small"])
def test_a_run_is_the_same(name, all_are_long, monkeypatch):
    threads = set()
    schedule = machine.schedule

    def noted(*given):
        threads.add(threading.current_thread().name)
        return schedule(*given)

    monkeypatch.setattr(machine, "schedule", noted)
    beside_run = asc.run(name)
    assert [t.startswith("ascendsim") for t in threads] == [True]
    monkeypatch.setattr(machine, "LONG_ROWS", 1 << 60)
    alone = asc.run(name)
    assert beside_run.findings == alone.findings
    assert beside_run.summary() == alone.summary()
    for column in TIMELINE_COLUMNS:
        assert (beside_run.timeline[column] == alone.timeline[column]).all(), column


def test_what_the_rules_forbid_stops_it_as_ever(all_are_long, monkeypatch):
    changes = {"tiling.tile_m": 64}
    stopped = outcome(OPERATOR, changes)
    monkeypatch.setattr(machine, "LONG_ROWS", 1 << 60)
    assert stopped == outcome(OPERATOR, changes)
    assert "E-CAP-UB" in stopped


def test_what_fails_inside_does_not_wait_for_the_rest():
    told, ended, go_on = [], threading.Event(), threading.Event()

    def work(progress):
        try:
            for step in range(1000):
                progress("schedule", step, 1000)
                go_on.wait(10)
        finally:
            ended.set()

    def mistake():
        with beside(work, lambda *given: told.append(given)) as planned:
            go_on.set()
            msg = "a mistake"
            raise ValueError(msg)
        return planned

    with pytest.raises(ValueError, match=r"^a mistake$"):
        mistake()
    assert ended.is_set()
    assert len(told) <= 1000


def test_what_the_work_raises_reaches_its_starter():
    def work(progress):
        raise Deadlock("nobody moves")

    with beside(work, silent) as planned, pytest.raises(Deadlock, match=r"^nobody moves$"):
        planned.result()


def test_work_that_nobody_wants_is_given_up():
    begun, unwanted = threading.Event(), threading.Event()
    seen = []

    def work(progress):
        begun.set()
        unwanted.wait(10)
        while True:
            try:
                progress("schedule", 0, 1)
            except GivenUp:
                seen.append("given up")
                raise

    with beside(work, silent) as planned:
        assert begun.wait(10)
        threading.Timer(0.01, unwanted.set).start()
    assert seen == ["given up"]
    assert isinstance(planned.exception(), GivenUp)
