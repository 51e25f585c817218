"""A search on real schedulers and workers in processes of their own, which are killed meanwhile, or do not fit."""

import json
import os
import pickle
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from conftest import ROOT
from tune_harness import command

from ascendsim.errors import InputError
from ascendsim.progress import silent
from ascendsim.scenario import load_scenario
from ascendsim.tuner.evaluation import Setup
from ascendsim.tuner.executors import Here
from ascendsim.tuner.search import Session, all_numbers, with_default
from ascendsim.tuner.space import parse_space
from ascendsim.tuner.store import CsvTable, Store, journal_of

pytest.importorskip("distributed")

from distributed import Client

from ascendsim.tuner import cluster as cluster_module
from ascendsim.tuner.cluster import cluster

PATIENCE = 60
ADD = load_scenario("vector_add")
VARY = ("tile_length=256:4096:480", "buffer_num=1,2")
SETUP = Setup(ADD, parse_space(VARY, ADD))
SEARCH = ("tune", "vector_add", *(f"--vary={text}" for text in VARY))
OTHER = '__version__ = "0.0.9"\n__path__ = [{path!r}]\n'
"""A package of another version, whose modules are those of this one."""
WITHOUT = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "ascendsim":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
"""
"""What Python runs first, where ascendsim is not installed."""

pytestmark = pytest.mark.filterwarnings("ignore")


class Running:
    """A scheduler, and workers as they are asked for."""

    def __init__(self, folder, *path):
        self._folder, self._file = folder, folder / "scheduler.json"
        self.scheduler = self._started("dask_scheduler", path, "--port", "0", "--scheduler-file", str(self._file))
        wait_until(self._written)
        self.tcp = json.loads(self._file.read_text())["address"]
        self.address = self.tcp.replace("tcp://", "dask://")

    def _written(self):
        try:
            return "address" in json.loads(self._file.read_text())
        except (OSError, ValueError):
            return False

    def _started(self, part, path, *arguments):
        command = [sys.executable, "-m", f"distributed.cli.{part}", *arguments, "--host", "127.0.0.1", "--no-dashboard"]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT)))}
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, cwd=self._folder, env=env, stdout=quiet, stderr=quiet)
        self.processes = [*getattr(self, "processes", ()), process]
        return process

    def worker(self, *path):
        """Start a worker with these folders on its path."""
        options = ("--scheduler-file", str(self._file), "--nthreads", "1", "--no-nanny")
        return self._started("dask_worker", path, *options, "--local-directory", str(self._folder))

    def wait_for(self, count):
        """Wait until the scheduler has so many workers; return their addresses."""
        with Client(self.tcp, timeout=PATIENCE, set_as_default=False) as client:
            wait_until(lambda: len(client.nthreads()) == count)
            return list(client.nthreads())


def wait_until(happens):
    """Wait for an event, with patience."""
    until = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < until
        time.sleep(0.02)


def kill(process):
    """Kill a process and see that it is gone."""
    process.kill()
    process.wait()


@contextmanager
def running(folder, *path):
    """A scheduler with these folders on its path; all that was started ends with it."""
    found = Running(folder, *path)
    try:
        yield found
    finally:
        for process in found.processes:
            kill(process)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The file of a search that nothing disturbs."""
    path = tmp_path_factory.mktemp("whole") / "r.csv"
    numbers = with_default(all_numbers(SETUP))
    with Store(path, CsvTable(), SETUP) as store, Here(SETUP) as executor:
        Session(store, executor, silent, len(numbers)).rows(numbers)
    return path.read_bytes()


def at_row(monkeypatch, count, happens):
    """Let something happen when a search has so many rows."""
    real = Store.add

    def add(self, row):
        real(self, row)
        if len(self.rows) == count:
            happens()

    monkeypatch.setattr(Store, "add", add)


def test_a_worker_is_killed_and_no_row_is_lost_or_doubled(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "BATCH", 2)
    numbers, path = with_default(all_numbers(SETUP)), tmp_path / "r.csv"
    with running(tmp_path) as dask:
        workers = [dask.worker(), dask.worker()]
        dask.wait_for(2)
        with cluster(dask.address)(SETUP) as executor, Store(path, CsvTable(), SETUP) as store:
            rows = executor.rows(numbers)
            store.add(next(rows))
            kill(workers[0])
            for row in rows:
                assert row[0] not in store.rows
                store.add(row)
    assert path.read_bytes() == whole


def test_workers_and_then_the_scheduler_are_lost_and_the_same_command_goes_on(whole, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(cluster_module, "BATCH", 1)
    monkeypatch.setattr(cluster_module, "ALONE_SECONDS", 0.1)
    path = tmp_path / "r.csv"
    kept = f"What is done is kept in {path}; the same command goes on there\n"
    with running(tmp_path) as dask:
        where = ("--executor", dask.address, "--out", str(path))
        worker = dask.worker()
        dask.wait_for(1)
        at_row(monkeypatch, 3, lambda: kill(worker))
        said = command(*SEARCH, *where)
        lost = "no worker has been there for 0.1 s; start some"
        assert (said.returncode, said.stderr) == (2, f"error: --executor {dask.address}: {lost}. {kept}")
        lines = path.read_text().splitlines()
        assert 5 <= len(lines) < 20

        dask.worker()
        dask.wait_for(1)
        at_row(monkeypatch, 9, lambda: kill(dask.scheduler))
        said = command(*SEARCH, *where)
        lost = "the cluster went away; start it again, or leave --executor out to go on without it"
        assert (said.returncode, said.stderr) == (2, f"error: --executor {dask.address}: {lost}. {kept}")
        assert capfd.readouterr().err == ""
        known = len(path.read_text().splitlines()) - 2
        assert 9 <= known < 18
        assert not journal_of(path).exists()
    said = command(*SEARCH, "--workers", "1", "--out", str(path))
    assert f"\n{19 - known} evaluated now, {known} known before\n" in said.stdout
    assert path.read_bytes() == whole


def test_workers_and_a_scheduler_that_do_not_fit(tmp_path, capfd):
    """They come one after the other; nothing is written."""
    other, without, place = (tmp_path / name for name in ("other", "without", "place"))
    (other / "ascendsim").mkdir(parents=True)
    (other / "ascendsim" / "__init__.py").write_text(OTHER.format(path=str(ROOT / "ascendsim")))
    without.mkdir()
    (without / "sitecustomize.py").write_text(WITHOUT)
    place.mkdir()
    missing = "No module named 'ascendsim'"
    reasons = {
        (other,): "{worker} has ascendsim 0.0.9, here is 0.1.0; install the same",
        (without,): f'{{worker}} cannot take part: ModuleNotFoundError("{missing}"); install ascendsim 0.1.0 there',
        (): f"the scheduler cannot take part: {missing}; install ascendsim 0.1.0 there",
    }
    with running(tmp_path, without) as dask:
        for path, reason in reasons.items():
            process = dask.worker(*path)
            (worker,) = dask.wait_for(1)
            said = command(*SEARCH, "--executor", dask.address, "--out", str(place / "r.csv"))
            wanted = f"error: --executor {dask.address}: {reason.format(worker=worker)}\n"
            assert (said.returncode, said.stdout, said.stderr) == (2, "", wanted)
            kill(process)
            dask.wait_for(0)
    assert capfd.readouterr().err == ""
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (("0.0.9", ""), "a worker that came late has ascendsim 0.1.0, not 0.0.9; install the same"),
        (("0.1.0", "5f"), "a worker that came late has another file of the kernel; install the same"),
    ],
)
def test_a_worker_that_comes_late(wanted, reason):
    with pytest.raises(InputError) as error:
        cluster_module._rows_of(wanted, pickle.dumps(SETUP), (0,))
    assert str(error.value) == reason


def test_nobody_answers(monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 0.5)
    said = command(*SEARCH, "--executor", "dask://127.0.0.1:1", "--out", str(tmp_path / "r.csv"))
    reason = "no scheduler answers at tcp://127.0.0.1:1 (OSError); start one with `dask scheduler`, or name its address"
    assert (said.returncode, said.stderr) == (2, f"error: --executor dask://127.0.0.1:1: {reason}\n")
    assert capfd.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []


def test_something_else_answers(monkeypatch, tmp_path):
    """It never says what a scheduler would."""
    import socket

    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = command(*SEARCH, "--executor", f"dask://127.0.0.1:{port}", "--out", str(tmp_path / "r.csv"))
    assert said.returncode == 2
    assert said.stderr.startswith(
        f"error: --executor dask://127.0.0.1:{port}: no scheduler answers at tcp://127.0.0.1:"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "address",
    ["dask://", "dask://127.0.0.1", "dask://127.0.0.1:", "dask://127.0.0.1:x", "dask://127.0.0.1:0", "dask://h:65536",
     "dask://:8786", "dask://a b:1", "dask://tcp://127.0.0.1:8786", "dask://u@h:1", "dask://::1:8786",
     "dask://[::1:8786", "dask://h:1/x", "dask://h:1:2"],
)  # fmt: skip
def test_no_address(address, tmp_path):
    said = command(*SEARCH, "--executor", address, cwd=tmp_path)
    reason = "no address; want dask://HOST:PORT such as dask://127.0.0.1:8786"
    assert (said.returncode, said.stderr) == (2, f"error: --executor {address}: {reason}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["dask://127.0.0.1:8786", "dask://[::1]:1", "dask://node-1.cluster:65535"])
def test_addresses(address):
    assert cluster(address)(SETUP)._address == address
