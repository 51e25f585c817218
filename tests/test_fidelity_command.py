"""The command `ascendsim fidelity` on small folders of measurements: texts, JSON, files, pictures, mistakes."""

import csv
import io
import json
from itertools import combinations

import pytest
from PIL import Image

from ascendsim.fidelity import compare as compare_module
from ascendsim.fidelity.compare import compare
from ascendsim.fidelity.families import FAMILIES
from ascendsim.fidelity.measured import DATA, INSTRUCTION_COLUMNS, INSTRUCTIONS, KERNEL_COLUMNS, KERNELS
from ascendsim.plot import fidelity as picture_module
from ascendsim.plot.fidelity import instructions_picture, kernels_picture


def _shipped(name):
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


ROWS, KERNEL_ROWS = _shipped(INSTRUCTIONS), _shipped(KERNELS)
FEW = ("ic00002", "ic00089", "ic03427", "ic04640", "ic04646", "ic00442")
"""TADD of June, TMULS that is far off, Mmad, two bank conflict cases, and one of a vector function."""


def text_of(rows, columns):
    """CSV of rows."""
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def row(id_="ic00002", **changes):
    return ROWS[id_] | changes


@pytest.fixture
def folder(tmp_path):
    """A function that makes a folder of these instruction rows and kernel rows."""

    def made(rows=None, kernels=None):
        place = tmp_path / "data"
        place.mkdir(exist_ok=True)
        for name, some, columns in (
            (INSTRUCTIONS, rows, INSTRUCTION_COLUMNS),
            (KERNELS, kernels, KERNEL_COLUMNS),
        ):
            if some is not None:
                (place / name).write_text(text_of(some, columns), encoding="utf-8")
        return place

    return made


@pytest.fixture
def few(folder):
    return folder([ROWS[i] for i in FEW], [KERNEL_ROWS["kn0004"], KERNEL_ROWS["kn0100"]])


def lines(text):
    return [line.rstrip() for line in text.splitlines() if line.strip(" ─")]


# ---- what it says ---------------------------------------------------------------------------------------------------


def test_a_summary_of_a_few_rows(ascendsim, folder):
    place = folder(
        [row(), row("ic00089"), row("ic00014", status="implausible"), row("ic04646"), row("ic00104", op="TX")]
    )
    assert lines(ascendsim("fidelity", "--data", place, code=1).stdout) == [
        "3 of 4 usable measurements are covered (75.0%).",
        "Relative errors",
        "family          arch  covered  median  p90     mean    worst   bound",
        "tile_june       2201  1 of 2   5.00%   5.00%   5.00%   5.00%   median 1%, mean 3%, worst 9% BROKEN",
        "tile_published  2201  2 of 2   35.58%  60.05%  35.58%  66.17%  median 6%, 80% within 25% BROKEN",
        "tile_other      2201  0 of 1   -       -       -       -",
        "bank_half       2201  1 of 1   6.99%   6.99%   6.99%   6.99%   worst 15%",
        "Far off, of families with a bound (3 of each at most)",
        "row      what               error  why",
        "ic00089  TMULS fp32 256x16  -66%   April campaign: a repeat for each row, though in one piece",
        "Apart, judged by nothing: 1 implausible.",
        "Not covered: 1 of the rows. --rows lists worst rows, kernels, what is not covered and why.",
        "not held: vector tile operations, isolated, June 2026: median 5.00% is above 1.0%",
        "not held: vector tile operations, isolated, June 2026: mean 5.00% is above 3.0%",
        "not held: vector tile operations, elementwise, row reduce, row expand: median 35.58% is above 6.0%",
        "not held: vector tile operations, elementwise, row reduce, row expand: share within 25 % 0.5000 is below 0.8",
    ]


def test_exit_codes(ascendsim, folder):
    assert lines(ascendsim("fidelity", "--data", folder([row("ic04646")]), code=0).stdout)[-1] == "All bounds are held."
    ascendsim("fidelity", "--data", folder([row("ic04646", measured_cycles="500")]), code=1)
    done = ascendsim("fidelity", "--data", folder([row("ic04646", soc="", arch="2002")]), code=0)
    assert lines(done.stdout)[-1].startswith("Not covered: 1 of the rows.")


def test_rows_are_listed_when_asked_for(ascendsim, folder):
    rows = [row("ic00089"), row("ic00104", op="TX"), row("ic00014", status="superseded"), row("ic00022", arch="7")]
    said = lines(ascendsim("fidelity", "--data", folder(rows), "--rows", code=1).stdout)
    assert "Worst rows: vector tile operations, elementwise, row reduce, row expand, arch 2201" in said
    assert "ic00089  TMULS fp32 256x16  266       90         -66.2%" in said
    assert "TCOLMAX    nothing rebuilds measurements of family pto_tileop on architecture 7  1" not in said
    assert "TCOLMAX    architecture 7 has no calibrated device  1" in said
    assert "TX         TX is not rebuilt                        1" in said
    assert "superseded  TADDS      1     +57%" in said


def test_tables_fit_a_terminal(ascendsim, few):
    for line in ascendsim("fidelity", "--data", few, code=None, columns=100).stdout.splitlines():
        assert len(line.rstrip()) <= 120


def test_one_family_only(ascendsim, few):
    said = json.loads(ascendsim("fidelity", "--data", few, "--family", "mmad", "--json", code=1).stdout)
    assert [f["name"] for f in said["families"]] == ["mmad"]
    assert said["kernels"] is None
    said = json.loads(ascendsim("fidelity", "--data", few, "--family", "kernels", "--json").stdout)
    assert (said["families"], said["rows"]) == ([], [])
    assert [r["id"] for r in said["kernels"]["rows"]] == ["kn0004", "kn0100"]


def test_either_file_will_do(ascendsim, folder, tmp_path):
    place = folder(kernels=[KERNEL_ROWS["kn0004"]])
    assert lines(ascendsim("fidelity", "--data", place).stdout)[0] == "1 of 1 measured kernels are covered."
    (place / KERNELS).unlink()
    place = folder([row("ic04646")])
    assert "kernel" not in ascendsim("fidelity", "--data", place).stdout
    done = ascendsim("fidelity", "--data", place, "--family", "kernels", code=2)
    assert done.stderr == f"error: {place / KERNELS}: cannot be read: No such file or directory\n"


def test_folders_without_measurements(ascendsim, folder):
    assert ascendsim("fidelity", "--data", folder([], [])).stdout == "There are no measurements to compare with.\n"


def test_json(ascendsim, few, tmp_path):
    done = ascendsim("fidelity", "--data", few, "--json", "--out", tmp_path / "out", code=1)
    said = json.loads(done.stdout)
    assert set(said) == {
        *("rows_judged", "rows_covered", "coverage", "families", "rows", "kernels", "cross_validation", "broken"),
        "files",
    }
    assert (said["rows_judged"], said["rows_covered"], said["coverage"]) == (6, 6, 1.0)
    published = next(f for f in said["families"] if f["name"] == "tile_published")
    assert published["bound"] == {"median": 0.06, "within_quarter": 0.8}
    assert published["outside"] == [
        {
            "id": "ic00089",
            "error": pytest.approx(90 / 266 - 1),
            "why": "April campaign: a repeat for each row, though in one piece",
        }
    ]
    assert next(r for r in said["rows"] if r["id"] == "ic04646") == {
        "id": "ic04646",
        "op": "Add",
        "status": "converted",
        "measured_cycles": 129.024,
        "predicted_cycles": 120.0,
    }
    assert [sorted(r) for r in said["kernels"]["rows"]] == [
        ["id", "measured_us", "names_bottleneck", "op", "predicted_us"],
        ["id", "measured_us", "op", "why_not"],
    ]
    assert said["files"] == [
        str(tmp_path / "out" / name)
        for name in ("accuracy.md", "rows.csv", "instructions.png", "kernels.csv", "kernels.png")
    ]


def test_every_row_of_an_unforeseen_kind_counts(folder):
    rows = [row("ic00089"), row("ic00002", family="new"), row("ic00014", arch="9999"), row("ic00038", status="odd")]
    found = compare(folder(rows)).instructions
    assert [(j.row.id, j.reason) for j in found.judged] == [
        ("ic00089", ""),
        ("ic00002", "nothing rebuilds measurements of family new on architecture 2201"),
        ("ic00014", "architecture 9999 has no calibrated device"),
    ]
    assert [j.row.id for j in found.apart] == ["ic00038"]


def test_a_row_that_breaks_the_rebuilding_costs_no_other_its_answer(folder, monkeypatch):
    def predict(row, device):
        if row.id == "ic00089":
            raise OverflowError("too large")
        return 1.0

    monkeypatch.setattr(compare_module, "predict", predict)
    found = compare(folder([row("ic00089"), row("ic00014")])).instructions
    assert [j.reason for j in found.judged] == [
        "rebuilding it failed (OverflowError: too large); please report the row",
        "",
    ]


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("ic00002", {"rows": "0"}, "rows 0: nothing is worked on"),
        ("ic00002", {"cols": "-64"}, "cols -64: nothing is worked on"),
        ("ic00002", {"rows": "1000000000"}, "rows 1000000000: UB holds 196608 B"),
        ("ic00002", {"rows": "4096"}, "rows x cols 262144: UB holds 196608 B"),
        ("ic00002", {"rows": "1024"}, "a tile of 262144 B; UB holds 196608 B"),
        ("ic00002", {"cols": "17"}, "rows of 68 B, which are no whole datablocks of 32 B"),
        ("ic00087", {"valid_cols": "200"}, "valid_cols 200: the tile has 192 columns"),
        ("ic02018", {"repeat": "1000000000"}, "repeat 1000000000: an instruction has 255 repeats at most"),
        ("ic04511", {"bytes": "1e18"}, "bytes 1000000000000000000: no memory of a core holds more than 524288 B"),
        ("ic04124", {"bytes": "1536"}, "1536 B; the path L1_TO_L0A moves whole multiples of 1024 B"),
        ("ic03427", {"mkn": "16x5000x16"}, "k 5000: Mmad takes 4095 at most"),
        ("ic03427", {"arch": "3510"}, "the row says architecture 3510; Ascend910B1 has 2201"),
        ("ic04661", {"conditions": "99999999x ReduceRepeat (256 fp32 -> 1)"}, "reductions 99999999: more than 8"),
        ("ic04640", {"conditions": "scenario 1: src0 0xffffffffff"}, "address 0xffffffffff lies outside UB"),
    ],
)
def test_lengths_that_no_instruction_has(folder, name, changes, why):
    found = compare(folder([row(name, **changes)])).instructions
    assert [j.reason for j in found.judged] == [why]


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("kn0004", {"tiling": "0 elements per copy; double buffering"}, "elements per copy of 0 in '0 elements per"),
        (
            "kn0004",
            {"tiling": "1 elements per copy; double buffering"},
            "67108864 turns of 67108864 steps; up to 262144",
        ),
        ("kn0004", {"shape": "9999999999x2"}, "shape 9999999999: more than 16777216"),
        ("kn0004", {"shape": "8388608x8388608"}, "turns of"),
        ("kn0004", {"cores": "٣"}, "cores '٣' are no number of cores"),
        ("kn0064", {"tiling": "Tile=[0,1024]"}, "tile of 0 in 'Tile=[0,1024]'"),
        ("kn0020", {"shape": "M=N=K=0"}, "shape 'M=N=K=0' is empty"),
        ("kn0020", {"shape": "M=N=8192 K=16777216"}, "turns of"),
        ("kn0020", {"soc": "Ascend310P3", "arch": "2002"}, "the example is not made for architecture 2002"),
    ],
)
def test_kernels_that_nobody_can_run(folder, name, changes, why):
    found = compare(folder(kernels=[KERNEL_ROWS[name] | changes])).kernels
    assert why in found.rows[0].reason


# ---- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows": "many"}, "rows is 'many'; want a number"),
        ({"rows": "1.5"}, "rows is '1.5'; want a whole number"),
        ({"rows": "inf"}, "rows is 'inf'; want a number"),
        ({"arch": ""}, "arch is ''; want a number"),
        ({"measured_cycles": ""}, "measured_cycles is ''; want a number"),
        ({"measured_cycles": "0"}, "measured_cycles is '0'; want a number above 0"),
        ({"measured_cycles": "nan"}, "measured_cycles is 'nan'; want a number"),
        ({"mkn": "16x16"}, "mkn is '16x16'; want m x k x n such as 16x32x16"),
        ({"id": ""}, "id is ''; want a name, another for each row"),
        ({"id": "ic00089"}, "id is 'ic00089', as in line 2; want another for each row"),
    ],
)
def test_a_wrong_field(ascendsim, folder, changes, said):
    place = folder([row("ic00089"), row(**changes)])
    done = ascendsim("fidelity", "--data", place, code=2)
    assert (done.stdout, done.stderr) == ("", f"error: {place / INSTRUCTIONS}, line 3: {said}\n")


def test_a_wrong_field_of_a_kernel(ascendsim, folder):
    place = folder(kernels=[KERNEL_ROWS["kn0060"] | {"pipe_times": "aiv_vec_time=x us"}])
    done = ascendsim("fidelity", "--data", place, code=2)
    want = "want times such as aiv_vec_time=761.65 us, joined by semicolons"
    assert done.stderr == f"error: {place / KERNELS}, line 2: pipe_times is 'aiv_vec_time=x us'; {want}\n"


@pytest.mark.parametrize("text", ["", "id,arch\nx,1\n"])
def test_columns_that_are_missing(ascendsim, folder, text):
    place = folder([])
    (place / INSTRUCTIONS).write_text(text)
    missing = ", ".join(c for c in INSTRUCTION_COLUMNS if c not in text.split("\n")[0].split(","))
    end = "the first line names the columns, in any order, and needs them all"
    done = ascendsim("fidelity", "--data", place, code=2)
    assert done.stderr == f"error: {place / INSTRUCTIONS}, line 1: no column {missing}; {end}\n"


def test_byte_order_marks_and_other_ends_of_lines(folder):
    place = folder([row("ic04646")])
    text = (place / INSTRUCTIONS).read_text()
    (place / INSTRUCTIONS).write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    assert [j.predicted for j in compare(place).instructions.judged] == [120.0]


def test_files_that_are_no_text(ascendsim, folder):
    place = folder([])
    (place / INSTRUCTIONS).write_bytes(b"\xff\xfe\x00i\x00d")
    done = ascendsim("fidelity", "--data", place, code=2)
    assert done.stderr.startswith(f"error: {place / INSTRUCTIONS}: cannot be read as CSV in UTF-8: ")


def test_folders_that_will_not_do(ascendsim, folder, tmp_path):
    done = ascendsim("fidelity", "--data", tmp_path / "none", code=2)
    want = f"name one with {INSTRUCTIONS}, {KERNELS} or both"
    assert done.stderr == f"error: --data {tmp_path / 'none'}: no such folder; {want}\n"
    done = ascendsim("fidelity", "--data", tmp_path, code=2)
    want = f"neither {INSTRUCTIONS} nor {KERNELS} is in it; name a folder with one"
    assert done.stderr == f"error: --data {tmp_path}: {want}\n"
    (tmp_path / "file").write_text("")
    done = ascendsim("fidelity", "--data", folder([]), "--out", tmp_path / "file", code=2)
    assert done.stderr == f"error: --out {tmp_path / 'file'}: is a file; name a folder\n"


def test_a_family_that_is_none(ascendsim, folder):
    done = ascendsim("fidelity", "--data", folder([]), "--family", "cube", code=2)
    names = ", ".join([*(f.name for f in FAMILIES), "kernels"])
    assert done.stderr == f"error: --family cube: no such family; there are: {names}\n"


# ---- files ----------------------------------------------------------------------------------------------------------


def test_files_are_the_same_twice_and_whole(ascendsim, few, tmp_path):
    for name in ("a", "b"):
        ascendsim("fidelity", "--data", few, "--out", tmp_path / name, code=1)
    files = {file.name: file.read_bytes() for file in (tmp_path / "a").iterdir()}
    assert files == {file.name: file.read_bytes() for file in (tmp_path / "b").iterdir()}
    assert sorted(files) == ["accuracy.md", "instructions.png", "kernels.csv", "kernels.png", "rows.csv"]
    for name in ("instructions.png", "kernels.png"):
        with Image.open(io.BytesIO(files[name])) as image:
            image.load()
    rows = list(csv.DictReader(io.StringIO(files["rows.csv"].decode())))
    assert sorted(r["id"] for r in rows) == sorted(FEW)
    assert [r["predicted_cycles"] != "" for r in rows] == [True] * len(FEW)
    kernels = list(csv.DictReader(io.StringIO(files["kernels.csv"].decode())))
    assert [(r["id"], bool(r["why_not"])) for r in kernels] == [("kn0004", False), ("kn0100", True)]


def test_tables_of_the_page_are_tables(ascendsim, folder, tmp_path):
    kernel = KERNEL_ROWS["kn0060"] | {"id": "k|1\nx", "op": "A|B"}
    rows = [row(), row("ic00089", op="T|X"), row("ic00022", status="superseded")]
    ascendsim("fidelity", "--data", folder(rows, [kernel]), "--out", tmp_path / "out", code=1)
    page = (tmp_path / "out/accuracy.md").read_text().splitlines()
    starts = [i for i, line in enumerate(page) if line.startswith("|---")]
    assert len(starts) == 6
    for start in starts:
        assert page[start - 2] == ""
        assert page[start - 3].startswith("### ")
        columns = page[start].count("|")
        assert page[start - 1].count("|") == columns
        end = next((i for i in range(start, len(page)) if not page[i]), len(page))
        assert end > start + 1
        for line in page[start + 1 : end]:
            assert line.startswith("| ")
            assert line.endswith(" |")
            assert line.count("|") == columns


# ---- pictures -------------------------------------------------------------------------------------------------------


def _check_texts(picture):
    texts = list(picture.texts())
    assert texts
    for text in texts:
        left, top, right, bottom = text.box
        assert left > 0
        assert top > 0
        assert right < picture.width
        assert bottom < picture.height
    for a, b in combinations(texts, 2):
        p, q = a.box, b.box
        assert not (p[0] < q[2] and q[0] < p[2] and p[1] < q[3] and q[1] < p[3]), (a.text, b.text)


@pytest.mark.parametrize(
    ("names", "kernels"),
    [(FEW, ("kn0060", "kn0064")), (("ic04646",), ("kn0060",)), (("ic00442",), ("kn0087", "kn0060"))],
)
def test_texts_of_the_pictures_stand_apart_and_inside(folder, names, kernels):
    found = compare(folder([ROWS[i] for i in names], [KERNEL_ROWS[i] for i in kernels]))
    _check_texts(instructions_picture(found.instructions))
    _check_texts(kernels_picture(found.kernels))


def test_every_family_has_a_colour():
    assert {f.name for f in FAMILIES} == {name for _, names in picture_module._GROUPS for name in names}
