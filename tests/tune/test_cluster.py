"""A search on a real scheduler and workers in processes of their own, one of which is killed meanwhile."""

import json
import os
import subprocess
import sys
import time

import pytest
from conftest import ROOT

from ascendsim.errors import InputError
from ascendsim.progress import silent
from ascendsim.scenario import load_scenario
from ascendsim.tuner.evaluation import Setup
from ascendsim.tuner.executors import Here
from ascendsim.tuner.search import Session, all_numbers, with_default
from ascendsim.tuner.space import parse_space
from ascendsim.tuner.store import CsvTable, Store

pytest.importorskip("distributed")

from ascendsim.tuner.cluster import cluster

PATIENCE = 60
ADD = load_scenario("vector_add")
SETUP = Setup(ADD, parse_space(("tile_length=256:4096:480", "buffer_num=1,2"), ADD))


def started(folder, part, *arguments):
    command = [sys.executable, "-m", f"distributed.cli.{part}", *arguments, "--host", "127.0.0.1", "--no-dashboard"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=quiet, stderr=quiet)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Address of a scheduler, and its two workers."""
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    processes = [started(folder, "dask_scheduler", "--port", "0", "--scheduler-file", str(file))]
    until = time.monotonic() + PATIENCE
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.05)
    options = ("--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", "--local-directory", str(folder))
    processes += [started(folder, "dask_worker", *options) for _ in range(2)]
    address = json.loads(file.read_text())["address"].replace("tcp://", "dask://")
    yield address, processes[1:]
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.filterwarnings("ignore")
def test_a_worker_is_killed_and_no_row_is_lost_or_doubled(running, tmp_path, monkeypatch):
    monkeypatch.setattr("ascendsim.tuner.cluster.BATCH", 2)
    address, workers = running
    numbers = with_default(all_numbers(SETUP))
    here = tmp_path / "here.csv"
    with Store(here, CsvTable(), SETUP) as store, Here(SETUP) as executor:
        Session(store, executor, silent, len(numbers)).rows(numbers)
    there = tmp_path / "there.csv"
    with Store(there, CsvTable(), SETUP) as store, cluster(address)(SETUP) as executor:
        rows = executor.rows(numbers)
        store.add(next(rows))
        workers[0].kill()
        for row in rows:
            assert row[0] not in store.rows
            store.add(row)
    assert there.read_text().splitlines()[1:] == here.read_text().splitlines()[1:]
    assert there.read_bytes() == here.read_bytes()


@pytest.mark.filterwarnings("ignore")
def test_nobody_answers(monkeypatch):
    monkeypatch.setattr("ascendsim.tuner.cluster.CONNECT_SECONDS", 0.5)
    with pytest.raises(InputError) as error, cluster("dask://127.0.0.1:1")(SETUP):
        pass
    assert str(error.value).startswith("--executor dask://127.0.0.1:1: no scheduler answers at tcp://127.0.0.1:1 (")
    assert str(error.value).endswith("start one with `dask scheduler`, or name its address")
