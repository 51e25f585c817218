"""`ascendsim tmpsize` as a user meets it: what it prints, JSON, files, exit codes; and the page that shows it."""

import json
import re
import shlex

import pytest
from conftest import ROOT

from ascendsim.errors import Rule
from ascendsim.tmpsize import traps

PAGE = (ROOT / "docs/temp-size.md").read_text()


@pytest.fixture
def tmpsize(ascendsim):
    return lambda api, shape, kind, *more, code=0: ascendsim(
        "tmpsize", api, "--shape", shape, "--dtype", kind, *more, code=code
    )


def test_the_answer_on_one_page(tmpsize):
    assert tmpsize("softmaxgrad", "64,128", "float", "--temp", "16384").stdout.splitlines() == [
        "SoftmaxGrad 64x128 float on Ascend910B1",
        "       temp B  reserved B  touched B  split_m  tiles  tail_m  cycles",
        "min       832         832        576        1     64       0   27228",
        "max     53248       53248      36864       64      1       0    2180",
        "fits    53248       53248      36864       64      1       0    2180",
        "given   16384       13312       9216       16      4       0    2768",
        "Beside it in UB: grad 32768 B, src 32768 B, dst 32768 B; 98304 B in all.",
        "limit of UB       B  left B  rows of 832 B",
        "hardware     196608   98304            118",
        "visible      196352   98048            117",
        "safe         188160   89856            108",
    ]


def test_field_case_f3(tmpsize):
    done = tmpsize("softmaxgrad", "64,128", "float", "--beside", "calc=196352", code=1)
    assert (
        "E-TMP-LEFT 0 B left in the Ascend C visible UB, the API needs at least 832 B (53248 B for full speed) "
        "(to mend it: claim at most 195520 B beside it)\n"
    ) in done.stdout
    accepted = tmpsize("softmaxgrad", "64,128", "float", "--beside", "calc=195520", "--temp", "832", "--json")
    assert {f["code"] for f in json.loads(accepted.stdout)["findings"]} == {"W-CAP-UB-SAFE"}
    tmpsize("softmaxgrad", "64,128", "float", "--beside", "calc=195521", "--temp", "832", code=1)


def test_field_case_f4(tmpsize):
    half = json.loads(tmpsize("softmaxgrad", "128,128", "half", "--json").stdout)
    assert (half["max_bytes"], half["min_bytes"], half["tensor_bytes"]) == (245760, 1920, 98304)
    assert half["limits"][1] == {"name": "visible", "limit_bytes": 196352, "left_bytes": 98048, "rows": 51}
    text = tmpsize("softmaxgrad", "128,128", "float", "--reuse-source").stdout
    assert "Beside it in UB: grad 65536 B, src 65536 B; 131072 B in all.\n" in text
    assert "visible      196352   65280             78\n" in text
    full = json.loads(tmpsize("softmaxgrad", "128,128", "float", "--json").stdout)
    assert (full["max_bytes"], full["min_bytes"], full["tensor_bytes"]) == (106496, 832, 196608)
    assert full["limits"][1]["left_bytes"] == -256


def test_tensors_that_do_not_fit(tmpsize):
    text = tmpsize("softmaxgrad", "960,960", "float").stdout
    assert "At most 15 rows can be in UB together with the minimum temp.\n" in text
    text = tmpsize("softmaxflashv2", "40,8192", "half", "--basic-block").stdout
    assert "Not one row can be in UB together with the minimum temp.\n" in text


def test_an_architecture_has_sizes_only(tmpsize):
    answer = json.loads(tmpsize("softmaxgrad", "8,64", "half", "--arch", "3510", "--json").stdout)
    assert answer["min_bytes"] == 512
    assert answer["choices"]["min"]["cycles"] is None
    assert (answer["limits"], answer["left_bytes"], answer["soc"]) == ([], None, None)
    text = tmpsize("softmaxgrad", "8,64", "half", "--arch", "3510").stdout
    assert text.startswith("SoftmaxGrad 8x64 half on arch 3510\n")


def test_the_family_by_name(tmpsize):
    text = tmpsize("softmaxflashv2", "64,128", "half", "--sum-dtype", "float", "--update", "--brc").stdout
    assert text.splitlines()[:5] == [
        "SoftMaxFlashV2 64x128 half, sums float, update, sums not broadcast on Ascend910B1",
        "      temp B  split_m  tiles  tail_m",
        "min    13312       16      4       0",
        "max    53248       64      1       0",
        "fits   53248       64      1       0",
    ]


def test_curve_picture_and_export(tmp_path, tmpsize):
    folder = tmp_path / "a"
    more = ("--within", "10", "--out", folder, "--export", folder)
    text = tmpsize("softmaxgrad", "64,128", "float", *more).stdout
    lines = text.splitlines()
    assert "best   53248       53248      36864       64      1       0    2180" in lines
    assert lines[-5:-3] == [
        "Fastest: 53248 B, 2180 cycles.",
        "Smallest within 10 % of the fastest: 26624 B, 2372 cycles.",
    ]
    names = ["softmaxgrad_64x128_float.toml", "softmaxgrad_64x128_float_tiling.h", "softmaxgrad_64x128_float_curve.png"]
    assert lines[-3:] == [f"wrote {folder / name}" for name in names]
    assert {path.name for path in folder.iterdir()} == set(names)
    assert "tmp_bytes = 26624" in (folder / names[0]).read_text()
    assert (folder / names[2]).read_bytes().startswith(b"\x89PNG")


def test_a_given_temp_is_exported_whatever_else_is_asked(tmp_path, tmpsize):
    tmpsize("softmaxgrad", "64,128", "float", "--temp", "20000", "--within", "20", "--export", tmp_path)
    assert "tmp_bytes = 20000" in (tmp_path / "softmaxgrad_64x128_float.toml").read_text()


@pytest.mark.parametrize("option", ["--out", "--export"])
def test_a_file_in_the_place_of_a_folder(tmp_path, option, tmpsize):
    file = tmp_path / "f"
    file.write_text("kept")
    done = tmpsize("softmaxgrad", "64,128", "float", option, file, code=2)
    assert done.stderr == f"error: {option} {file}: is a file; name a folder\n"
    assert file.read_text() == "kept"


def test_everything_as_json(tmp_path, tmpsize):
    done = tmpsize("softmaxgrad", "64,128", "float", "--curve", "--within", "10", "--export", tmp_path, "--json")
    answer = json.loads(done.stdout)
    assert len(answer["curve"]["points"]) == 11
    assert (answer["within"]["percent"], answer["within"]["tmp_bytes"]) == (10.0, 26624)
    assert answer["files"] == [str(tmp_path / f"softmaxgrad_64x128_float{end}") for end in (".toml", "_tiling.h")]
    assert (answer["soc"], answer["calibrated"]) == ("Ascend910B1", True)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--within", "-1"], "--within -1: want a percentage of 0 or more, such as 5"),
        (["--beside", "calc"], "--beside calc: want NAME=BYTES, or NAME=BYTESxNUM for a queue of NUM buffers"),
        (["--format", "ZN"], "--format ZN: want ND or NZ"),
        (
            ["--arch", "2201", "--beside", "a=32"],
            "--beside: an architecture has no UB to lie in; name a part with --soc",
        ),
        (["--arch", "2201", "--curve"], "curve: an architecture has no cycles; name a part with --soc"),
    ],
)
def test_refused(more, text, tmpsize):
    assert text in tmpsize("softmaxgrad", "8,64", "float", *more, code=2).stderr


# ---- the page ---------------------------------------------------------------------------------------------------

SESSIONS = re.findall(r"^ {4}\$ ascendsim (tmpsize .*)\n((?: {4}(?!\$).*\n|\n(?= {4}(?!\$)))*)", PAGE, re.MULTILINE)


def test_the_page_shows_sessions():
    assert len(SESSIONS) == 8
    assert PAGE.count("$ ascendsim tmpsize") == 8


def test_python_of_the_page_runs(capsys):
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    exec(compile(code, "temp-size.md", "exec"), {})  # noqa: S102 - our own text
    assert capsys.readouterr().out.splitlines() == ["832 65280 36864", "53248 26624"]


def test_the_page_names_every_trap():
    rules = [rule.code for rule in vars(traps).values() if isinstance(rule, Rule)]
    assert [code for code in rules if code not in PAGE] == []


@pytest.mark.parametrize(("line", "shown"), SESSIONS, ids=[line for line, _ in SESSIONS])
def test_sessions_of_the_page_are_what_is_printed(line, shown, tmp_path, ascendsim):
    words = shlex.split(line)
    done = ascendsim(*words, cwd=tmp_path, code=None)
    wanted = [text[4:] for text in shown.splitlines()]
    assert [text.rstrip() for text in (done.stdout + done.stderr).splitlines()] == [text.rstrip() for text in wanted]
