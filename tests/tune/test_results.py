"""Results in a file: the same bytes whatever happens on the way; files that are damaged or of another search."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from ascendsim.errors import InputError
from ascendsim.machine import run
from ascendsim.progress import silent
from ascendsim.scenario import load_scenario
from ascendsim.tuner.evaluation import Evaluator, Setup
from ascendsim.tuner.executors import Here, Processes
from ascendsim.tuner.parts import Parts
from ascendsim.tuner.request import Asked, search_for
from ascendsim.tuner.search import Session, all_numbers, with_default
from ascendsim.tuner.space import parse_space
from ascendsim.tuner.store import CsvTable, Store, journal_of, load_results

ADD = load_scenario("vector_add")
VARY = ("tile_length=256,1024,8192", "buffer_num=1,2", "block_dim=4,8")


def setup(vary=VARY, where=(), scenario=ADD):
    return Setup(scenario, parse_space(vary, scenario), where)


def asked(path, vary=VARY, where=()):
    return Asked(vary, where, (), "exhaustive", None, 0, path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """All rows, and the file's bytes, of a search in one process."""
    path = tmp_path_factory.mktemp("whole") / "a.csv"
    done = search_for(ADD, asked(path), Parts(CsvTable(), Here), silent)
    assert (done.evaluated, done.resumed) == (13, 0)
    return path.read_bytes()


def place(tmp_path):
    """A file from where the scenario's folder is named alike."""
    return tmp_path / "a.csv"


def body(content):
    """The table, without the line that names the scenario's folder."""
    return content.partition(b"\n")[2]


def test_the_table(whole):
    lines = body(whole).decode().splitlines()
    assert len(lines) == 14
    assert lines[0].startswith("candidate,tile_length,buffer_num,block_dim,status,code,cycles,bound,")
    assert lines[1].startswith("0,2048,2,8,timed,,1761,MTE2,")
    assert lines[13].startswith("12,8192,2,8,timed,,1346,MTE2,")


def test_whoever_evaluates_in_whatever_order(whole, tmp_path):
    one = setup()
    with Store(place(tmp_path), CsvTable(), one) as store, Here(one) as here:
        Session(store, here, silent, 13).rows([*range(12, -1, -1)])
    assert body(place(tmp_path).read_bytes()) == body(whole)
    assert not journal_of(place(tmp_path)).exists()


def test_processes_one_of_which_is_killed(whole, tmp_path):
    one = setup()
    with Store(place(tmp_path), CsvTable(), one) as store, Processes(one, 2) as processes:
        rows = processes.rows(with_default(all_numbers(one)))
        store.add(next(rows))
        os.kill(processes.process_ids[0], signal.SIGKILL)
        for row in rows:
            assert row[0] not in store.rows
            store.add(row)
    assert body(place(tmp_path).read_bytes()) == body(whole)


def test_the_driver_is_killed_and_the_same_command_goes_on(whole, tmp_path):
    path = place(tmp_path)
    command = [sys.executable, "-m", "ascendsim", "tune", "vector_add", "--workers", "1", "--out", str(path)]
    command += [f"--vary={text}" for text in VARY]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while driver.poll() is None and not (journal_of(path).exists() and journal_of(path).read_bytes().count(b"\n") > 3):
        time.sleep(0.01)
    driver.kill()
    driver.wait()
    with journal_of(path).open("ab") as journal:
        journal.write(b'[7, "cut')  # what a kill may leave
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    evaluated, known = (int(word) for word in done.splitlines()[-2].split() if word.isdigit())
    assert evaluated + known == 13
    assert known >= 3
    assert body(path.read_bytes()) == body(whole)
    assert not journal_of(path).exists()


class Broken:
    """An executor that is interrupted."""

    def __init__(self, one):
        self._evaluator = Evaluator(one)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def rows(self, numbers):
        yield from map(self._evaluator.row, numbers[:4])
        raise KeyboardInterrupt


def test_ctrl_c_keeps_what_is_done(whole, tmp_path):
    path = place(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        search_for(ADD, asked(path), Parts(CsvTable(), Broken), silent)
    assert body(path.read_bytes()) == b"".join(body(whole).splitlines(keepends=True)[:5])
    done = search_for(ADD, asked(path), Parts(CsvTable(), Here), silent)
    assert (done.evaluated, done.resumed) == (9, 4)
    assert body(path.read_bytes()) == body(whole)


def test_parquet_holds_the_same(whole, tmp_path):
    pytest.importorskip("pyarrow")
    from ascendsim.tuner.parquet import ParquetTable

    path = tmp_path / "a.parquet"
    search_for(ADD, asked(path), Parts(ParquetTable(), Here), silent)
    first = path.read_bytes()
    done = search_for(ADD, asked(path), Parts(ParquetTable(), Here), silent)
    assert (done.evaluated, done.resumed) == (0, 13)
    assert path.read_bytes() == first
    csv = place(tmp_path)
    csv.write_bytes(whole)
    assert load_results(path, ParquetTable()).rows == load_results(csv, CsvTable()).rows


def test_damaged_parquet(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    from ascendsim.tuner.parquet import ParquetTable

    path = tmp_path / "a.parquet"
    search_for(ADD, asked(path, ("tile_length=1024",)), Parts(ParquetTable(), Here), silent)
    good, table = path.read_bytes(), pq.read_table(path)
    damaged = [b"", b"PAR1", good[:-9], good[:200] + good[208:], good.replace(b"PAR1", b"PAR2")]
    for other in (table.replace_schema_metadata({}), table.drop_columns(["cycles"]), table.slice(0, 0)):
        pq.write_table(other, path)
        damaged.append(path.read_bytes())
    for content in damaged[:-1]:
        path.write_bytes(content)
        with pytest.raises(InputError) as error:
            load_results(path, ParquetTable())
        assert "damaged" in str(error.value)
    path.write_bytes(damaged[-1])
    assert load_results(path, ParquetTable()).rows == {}


def test_words_and_values_outside_of_the_space_come_back(tmp_path):
    scenario = load_scenario("softmaxgrad_960x960_float")
    one = setup(("tmp_bytes=min,4160", "is_front=false", "split_m=1,2"), (), scenario)
    path = place(tmp_path)
    with Store(path, CsvTable(), one) as store:
        for number in (0, 1, 3):
            store.add(Evaluator(one).row(number))
        kept = dict(store.rows)
    assert [kept[n][1:4] for n in (0, 1, 3)] == [("max", False, None), ("min", False, 1), (4160, False, 1)]
    assert load_results(path, CsvTable()).rows == kept


def refused(path, vary=VARY, where=(), scenario=ADD):
    with pytest.raises(InputError) as error:
        search_for(scenario, asked(path, vary, where), Parts(CsvTable(), Here), silent)
    return str(error.value)


def test_a_file_of_another_search(whole, tmp_path):
    path = place(tmp_path)
    search_for(ADD, asked(path, ("tile_length=1024",)), Parts(CsvTable(), Here), silent)
    assert refused(path, ("tile_length=1024,2048",)) == (
        f"--out {path}: holds a search of another space: tile_length (1 values); name another file, or remove it"
    )
    assert "under other constraints: none" in refused(path, ("tile_length=1024",), ("tile_length > 1",))
    other = load_scenario("vector_add", {"machine.l2": "warm"})
    assert "of another scenario, device or kernel file" in refused(path, ("tile_length=1024",), (), other)
    path.write_text(path.read_text().replace('"ascendsim":"', '"ascendsim":"0.0', 1))
    assert "a search of ascendsim 0.0" in refused(path, ("tile_length=1024",))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no results of ascendsim tune, or damaged"),
        (b"a,b\n1,2\n", "no results of ascendsim tune, or damaged"),
        (b"\xff\xfe", "no results of ascendsim tune, or damaged"),
        (b"# ascendsim tune {\n", "no results of ascendsim tune, or damaged"),
        (b'# ascendsim tune {"schema":2}\ncandidate\n', "schema = 2 is newer than this version of ascendsim; upgrade"),
        (b"# ascendsim tune []\ncandidate\n", "schema = None is no schema of results"),
    ],
)
def test_a_foreign_file(content, reason, tmp_path):
    place(tmp_path).write_bytes(content)
    assert reason in refused(place(tmp_path))
    assert place(tmp_path).read_bytes() == content


def test_a_damaged_table(whole, tmp_path):
    path = place(tmp_path)
    search_for(ADD, asked(path), Parts(CsvTable(), Here), silent)
    good = path.read_text()
    path.write_text(good.replace("\n12,", "\n12,7,", 1))
    assert "the row of candidate 12 is none of this search" in refused(path)
    path.write_text(good.replace("candidate,tile_length", "candidate,tile", 1))
    assert "damaged: its columns are not those of its search" in refused(path)
    path.write_text(good[: len(good) // 2])
    assert "damaged" in refused(path)


def with_head(content, change):
    """Results whose head was changed."""
    first, _, rest = content.partition(b"\n")
    head = json.loads(first.removeprefix(b"# ascendsim tune "))
    change(head)
    return b"# ascendsim tune " + json.dumps(head).encode() + b"\n" + rest


HEADS = {
    "no folder": (lambda head: head.pop("folder"), "Field required"),
    "no space": (lambda head: head.update(space=[]), "List should have at least 1 item after validation, not 0"),
    "values": (lambda head: head["space"][0].update(values=None), "Input should be a valid list"),
    "keys": (lambda head: head["space"][0].update(keys=["queues.nix.num"]), "'nix'"),
    "a number": (lambda head: head["space"][0].update(values=[1.5]), "Input should be a valid integer"),
    "more": (lambda head: head.update(more=1), "Extra inputs are not permitted"),
    "where": (
        lambda head: head.update(where=["nix < 1"]),
        "--where \"nix < 1\": column 1: unknown name 'nix'; there are ",
    ),
    "device": (lambda head: head["scenario"].update(device="Ascend1"), "{}/a.csv: device: unknown device 'Ascend1'; "),
    "scenario": (lambda head: head["scenario"].pop("tensors"), "{}/a.csv: tensors: Field required"),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_damaged_head(name, whole, tmp_path):
    change, reason = HEADS[name]
    path = place(tmp_path)
    path.write_bytes(with_head(whole, lambda head: (head.update(folder=str(ADD.folder)), change(head))))
    content, start = path.read_bytes(), f"{path}: damaged: its first line describes no search ("
    with pytest.raises(InputError) as error:
        load_results(path, CsvTable())
    for said in (str(error.value), refused(path)):
        assert said.startswith(start + reason.format(ADD.folder)), said
        assert said.endswith("); remove the file and search again")
    assert path.read_bytes() == content


ROWS = {
    "a number that there is not": ("\n12,8192,", "\n13,8192,"),
    "no number": ("\n12,8192,", "\nx,8192,"),
    "none": ("\n12,8192,", "\n,8192,"),
    "a field of another candidate": ("\n12,8192,", "\n12,1024,"),
    "a status that there is not": ("\n12,8192,2,8,timed,", "\n12,8192,2,8,done,"),
    "no cycles": ("\n12,8192,2,8,timed,,1346,", "\n12,8192,2,8,timed,,,"),
    "too many": ("\n12,8192,2,8,timed,,1346,", f"\n12,8192,2,8,timed,,{10**400},"),
    "infinite": ("\n12,8192,2,8,timed,,1346,MTE2,0.", "\n12,8192,2,8,timed,,1346,MTE2,1e999"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_damaged_row(name, whole, tmp_path):
    path = place(tmp_path)
    search_for(ADD, asked(path), Parts(CsvTable(), Here), silent)
    good, (before, after) = path.read_text(), ROWS[name]
    assert before in good
    path.write_text(good.replace(before, after))
    number = after.removeprefix("\n").partition(",")[0]
    told = f"{path}: damaged: the row of candidate {number} is none of this search; remove the file and search again"
    assert refused(path) == told
    with pytest.raises(InputError) as error:
        load_results(path, CsvTable())
    assert str(error.value) == told


def test_another_version_is_told_before_anything_else(whole, tmp_path):
    path = place(tmp_path)
    path.write_bytes(with_head(whole, lambda head: head.update(ascendsim="0.0.9", scenario={})))
    assert "holds a search of ascendsim 0.0.9, whose numbers may differ from those of 0.1.0" in refused(path)


def test_a_damaged_journal(tmp_path):
    path = place(tmp_path)
    journal_of(path).write_bytes(b"{}\n")
    assert f"{journal_of(path)}: damaged: no journal of ascendsim tune" in refused(path)


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match="no such file; ascendsim tune SCENARIO"):
        load_results(tmp_path / "a.csv", CsvTable())


def test_rows_say_what_became_of_a_candidate():
    scenario = load_scenario("softmaxgrad_960x960_float")
    one = setup(("tile_m=4,60", "block_dim=8,64"), ("split_m < 4",), scenario)
    evaluator = Evaluator(one)
    rows = {number: dict(zip(one.columns, evaluator.row(number), strict=True)) for number in (1, 2, 3)}
    assert (rows[1]["status"], rows[1]["code"]) == ("left out", "split_m < 4")
    evaluator = Evaluator(Setup(one.scenario, one.space))
    rows = {number: dict(zip(one.columns, evaluator.row(number), strict=True)) for number in (1, 2, 3)}
    assert (rows[1]["status"], rows[1]["cycles"], rows[1]["split_m"]) == (
        "timed",
        run(scenario.name, set={"block_dim": 8, "machine.values": "none"}).makespan_cycles,
        4,
    )
    assert (rows[2]["status"], rows[2]["code"]) == ("dropped", "refused")
    assert rows[2]["reason"].startswith(
        "block_dim 64 is more than the 48 AIVs of the device: it runs as several rounds"
    )
    assert rows[2]["reason"].endswith("set block_dim=48 or less")
    assert (rows[3]["status"], rows[3]["code"], rows[3]["cycles"]) == ("dropped", "E-CAP-UB-HW", None)


def test_equal_programs_are_timed_once(monkeypatch):
    from ascendsim.tuner import evaluation

    timed = []
    real = evaluation._timed
    monkeypatch.setattr(evaluation, "_timed", lambda found: timed.append(1) or real(found))
    scenario = load_scenario("softmaxgrad_960x960_float")
    one = setup(("tile_m=1", "tmp_bytes=min,max,4160"), (), scenario)
    evaluator = Evaluator(one)
    rows = [evaluator.row(number) for number in (1, 2, 3)]
    assert len(timed) == 1
    assert len({row[one.columns.index("digest")] for row in rows}) == 1


def test_a_head_says_everything(whole):
    head = json.loads(whole.partition(b"\n")[0].removeprefix(b"# ascendsim tune "))
    assert head["schema"] == 1
    assert head["space"][1] == {
        "field": "buffer_num",
        "keys": ["queues.in_x.num", "queues.in_y.num", "queues.out_z.num"],
        "values": [1, 2],
    }
