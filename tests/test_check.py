"""`ascendsim check TARGET`: what it takes, what it shows, what it writes, what it exits with."""

import ast
import json
import re
import shlex

import pytest
from conftest import ROOT

from ascendsim import __version__, show_findings
from ascendsim.check_target import Asked, judge
from ascendsim.errors import AscendSimError, Finding
from ascendsim.places import place_of
from ascendsim.rule_codes import rules_by_code
from ascendsim.sarif import sarif, sarif_text, write_sarif

PAGE = (ROOT / "docs/checking.md").read_text()


@pytest.fixture(autouse=True)
def _in_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def _text(judged):
    return "\n".join(block.plain for block in show_findings.page(judged))


def _judge(target, **asked):
    return judge(str(target), Asked(**asked))


def _error(target, **asked):
    with pytest.raises(AscendSimError) as error:
        _judge(target, **asked)
    return str(error.value)


def _examples(text):
    """(command, what it prints) of every shown `ascendsim check`."""
    for block in re.findall(r"^ {4}\$ (ascendsim check (?:.*\\\n)*.*\n(?:(?: {4}.*)?\n)*)", text, re.MULTILINE):
        command, _, output = re.sub(r" \\\n *", " ", block).partition("\n")
        yield command, re.sub(r"^ {4}", "", output, flags=re.MULTILINE).strip("\n")


@pytest.mark.parametrize(("command", "output"), list(_examples(PAGE)), ids=lambda v: v[:60].partition("\n")[0])
def test_the_page_shows_what_is_printed(command, output, tmp_path, ascendsim):
    words = shlex.split(command.replace("out/check.sarif", str(tmp_path / "check.sarif")))
    code = 1 if re.search(r"^\d+ error", output, re.MULTILINE) else 0
    printed = ascendsim(*words[1:], code=code).stdout.replace(str(tmp_path / "check.sarif"), "out/check.sarif")
    assert printed.strip("\n") == output


def test_the_page_has_examples_of_every_target():
    assert len(list(_examples(PAGE))) == 7


def test_the_readme_shows_what_is_printed(ascendsim):
    ((command, output),) = _examples((ROOT / "README.md").read_text())
    assert ascendsim(*shlex.split(command)[1:], code=1).stdout.strip("\n") == output


# ---- places -----------------------------------------------------------------------------------------------------

ODD = '''"""Calls in every form."""

from ascendsim import TPosition


def main(asc, x, t):
\tpipe = asc.t_pipe()
\tbuf = asc.t_buf(TPosition.VECCALC, "buf")
\tpipe.init_buffer(buf, 1, 1024)
\tlocal = buf.get(x.dtype)
\tasc.data_copy(
\t\tlocal,
\t\tx,
\t\t10,
\t)
\t"äöü"; asc.data_copy(local, x, 16); asc.data_copy(local, x, 20)
'''


def test_a_mark_stands_under_the_call_whatever_is_before_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd calls.py").write_text(ODD, encoding="utf-8")
    judged = _judge("odd calls.py", tensors=("x=64:float",), block_dim=1)
    assert _text(judged) == (
        "error E-ALIGN-COUNT: DataCopy count 10 is no multiple of 32 B: the hardware silently drops the last 8 B\n"
        "  --> odd calls.py:11:2\n"
        "   11 | \tasc.data_copy(\n"
        "      | \t^^^^^^^^^^^^^\n"
        "  to mend it: round the tile up, or use data_copy_pad\n"
        "\n"
        "error E-ALIGN-COUNT: DataCopy count 20 is no multiple of 32 B: the hardware silently drops the last 16 B\n"
        "  --> odd calls.py:16:9\n"
        '   16 | \t"äöü"; asc.data_copy(local, x, 16); asc.data_copy(local, x, 20)\n'
        "      | \t       ^^^^^^^^^^^^^\n"
        "  to mend it: round the tile up, or use data_copy_pad\n"
        "\n"
        "2 errors"
    )


def test_a_line_of_the_library_points_at_the_users_own_call():
    judged = _judge("scaled_softmax_grad", changes={"tiling.tmp_bytes": 500})
    assert _text(judged).startswith(
        "error E-TMP-SMALL: SoftmaxGrad temp has 512 B, the minimum for last axis 128 is 832 B\n"
        "  --> scenarios/scaled_softmax_grad.py:35:5, in softmax_grad.py:127\n"
        '   35 |     softmax_grad(asc, ds_local, dp_local, p_local, tmp.get("uint8_t"), tiling, False, shape)\n'
        "      |     ^^^^^^^^^^^^\n"
    )


def test_files_of_one_name_are_told_apart_by_the_call_or_not_at_all(tmp_path):
    first, second = tmp_path / "a" / "k.py", tmp_path / "b" / "k.py"
    for file, text in ((first, "x.mul(1)\nx.add(2)\n"), (second, "x.add(1)\nx.add(2)\n")):
        file.parent.mkdir()
        file.write_text(text)
    sources = {f"k.py:{n}": (str(first), str(second)) for n in (1, 2)}
    target = tmp_path / "s.toml"
    place = place_of(Finding("E-X", "", where="Add (k.py:1) core 3"), target, sources)
    assert (place.file, place.line, place.column, place.what) == (second, 1, 1, "Add, core 3")
    assert place_of(Finding("E-X", "", where="Add (k.py:2)"), target, sources) is None
    assert place_of(Finding("E-X", "", where="Add (lost.py:2)"), target, sources) is None


@pytest.mark.parametrize(
    ("where", "line", "column", "end"),
    [
        ("block_dim", 2, 1, 10),
        ("queues.in_p", 5, 1, 9),
        ("queues", 3, 1, 9),
        ("queues, buffers", 3, 1, 9),
        ("apis.grad", 6, 1, 12),
        ("temps.tmp", 7, 1, 5),
        ("input x", 8, 1, 12),
        ("output z", 9, 1, 12),
        ("suppress[1]", 14, 1, 13),
        ("UB", None, None, None),
    ],
)
def test_keys_point_at_the_line_that_sets_them(tmp_path, where, line, column, end):
    file = tmp_path / "s.toml"
    file.write_text(
        'schema = 1\nblock_dim = 3\n[queues]\nin_grad.num = 1\nin_p.num = 2\n[apis.grad]\ntemp = "tmp"\n'
        '[tensors.x]\n[tensors.z]\nshape = [3]\n\n[[suppress]]\ncode = "a"\n[[suppress]]\ncode = "b"\n'
    )
    place = place_of(Finding("E-X", "", where=where), file, {})
    assert (place.line, place.column, place.end_column, place.what) == (line, column, end, where)


# ---- targets ----------------------------------------------------------------------------------------------------

XYZ = ("z=65536:half:output", "x=65536:half", "y=65536:half")
QUEUES = {"tiling.tile_length": 2048, **{f"queues.{q}.num": 2 for q in ("in_x", "in_y", "out_z")}}


def test_a_kernel_is_judged_with_its_tensors_in_any_order():
    judged = _judge("scenarios/vector_add.py:main", tensors=XYZ, changes=QUEUES, block_dim=8)
    assert [f.code for f in judged.findings] == ["W-BANK-RR"]
    far = _judge("scenarios/vector_add.py", tensors=XYZ, changes=QUEUES | {"tensors.z.shape": [65000]}, block_dim=8)
    assert [f.code for f in far.findings] == ["E-OOB-GM"]


def test_a_tiling_says_how_rows_are_dealt_out():
    sizes = _judge("softmaxgrad_front_small", block_dim=7).facts["sizes"]
    assert sizes["shares"] == [
        {"cores": 1, "rows": 74, "tiles": 10, "tail_m": 2},
        {"cores": 6, "rows": 73, "tiles": 10, "tail_m": 1},
    ]
    assert (sizes["fits"], sizes["queue_bytes"], sizes["split_m"], sizes["loops"]) == (True, 16640, 8, 1)


def test_an_exported_tiling_is_judged_as_it_is(tmp_path, ascendsim):
    ascendsim("tmpsize", "softmaxgrad", "--shape", "64,128", "--dtype", "float", "--export", str(tmp_path), code=0)
    judged = _judge(tmp_path / "softmaxgrad_64x128_float.toml")
    assert {f.code for f in judged.findings} == {"W-BANK-RR"}
    assert judged.lines[:3] == (
        "softmax_grad 64x128 float on Ascend910B1: fits",
        "cores: 1 of 48 work, tiles of 64 x 128",
        "  1 core: 64 rows, 1 tile",
    )


def test_a_tiling_whose_temp_is_too_small_has_no_loop():
    judged = _judge("softmaxgrad_64x128_float", changes={"tiling.tmp_bytes": 700})
    assert [f.code for f in judged.findings] == ["E-TMP-SMALL", "E-SMG-NOTILE"]
    assert judged.lines[0] == (
        "softmax_grad 64x128 float on Ascend910B1: fits; broken rules: E-TMP-SMALL, E-SMG-NOTILE"
    )
    assert judged.lines[-1] == (
        "temp: 700 B (least 832 B, most 53248 B); 0 rows at once, loops: none, so nothing is computed"
    )


def test_a_tiling_for_rows_that_are_no_datablocks_is_not_sized():
    judged = _judge("softmaxgrad_64x128_float", shape=(64, 100))
    (found,) = judged.findings
    assert (found.code, found.where) == ("E-ALIGN-UB", "--shape")
    assert found.message == "src: a row of 100 elements is 400 B, not a multiple of 32 B; the next legal width is 104"


def test_a_plan_names_the_line():
    judged = _judge("plan_tbuf_and_softmax_grad")
    places = [(f.code, judged.place(f).shown) for f in judged.findings]
    where = "tilings/plan_tbuf_and_softmax_grad.toml:19:1"
    assert places == [("E-CAP-UB-HW", where), ("E-CAP-UB", where)]
    assert judged.facts == {"plan": "plan_tbuf_and_softmax_grad", "fits": False, "tiling": {"claimed": 196352}}


KINDS = "want a scenario, plan, tiling or call (.toml), or a kernel (.py)"


@pytest.mark.parametrize(
    ("target", "asked", "text"),
    [
        ("docs", {}, f"docs: is a folder, {KINDS}"),
        ("Makefile", {}, f"Makefile: ends in '', {KINDS}"),
        ("vector_ad", {}, f"vector_ad: no such file, {KINDS}; the nearest names that come with the package: "),
        ("gone.py", {}, "gone.py: no such kernel file"),
        (
            "scenarios/vector_add.py:mein",
            {},
            "scenarios/vector_add.py:mein: the file has no function mein; its functions: main, reference",
        ),
        (
            "scenarios/vector_add.py",
            {"tensors": ("x=8:half",)},
            "scenarios/vector_add.py:main takes the GM tensors x, y, z: add --tensor y=SHAPE:DTYPE --tensor z=SHAPE",
        ),
        (
            "scenarios/vector_add.py",
            {"tensors": ("xx=8:half",)},
            "--tensor xx: scenarios/vector_add.py:main takes x, y, z; the nearest is x",
        ),
        (
            "scenarios/vector_add.py",
            {"tensors": ("x=8",)},
            "--tensor x=8: want NAME=SHAPE:DTYPE or NAME=SHAPE:DTYPE:ROLE, such as x=64x128:half or z=8192:float",
        ),
        (
            "scenarios/vector_add.py",
            {"tensors": XYZ},
            "the kernel's last argument holds what is given with --set tiling.NAME=VALUE, --set queues.NAME.num=VALUE",
        ),
        (
            "scenarios/vector_add.py",
            {"shape": (8,)},
            "--shape: scenarios/vector_add.py is a kernel file; give its tensors with --tensor",
        ),
        (
            "plan_row_width",
            {"tensors": ("x=8:half",)},
            f"--tensor: {ROOT}/tilings/plan_row_width.toml is a plan; only a kernel file takes it",
        ),
        (
            "plan_row_width",
            {"block_dim": 3},
            f"--block-dim: {ROOT}/tilings/plan_row_width.toml is a plan of one core's buffers",
        ),
        ("vector_add", {"element": "half"}, "is a scenario; only a tiling takes it"),
    ],
)  # fmt: skip
def test_a_wrong_target_is_told_what_where_and_how(target, asked, text):
    assert text in _error(target, **asked)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("k.cpp", "", "k.cpp: AscendC source is not read; write the kernel in Python (docs/writing-a-kernel.md)"),
        ("a.toml", "x = 1\n", "a.toml: has x, which makes neither a scenario (device, operator or kernel, [tensors])"),
        ("a.toml", "x = \n", "a.toml: not valid TOML"),
        ("a.toml", 'schema = 1\noperator = "softmax_grad"\n[tiling]\ntile_m = 8\n', "add --shape and --dtype, such as"),
        ("a.toml", 'operator = "softmax_grad"\ncheck = 3\n', "a.toml: check = 3: must be a table [check]"),
        ("a.toml", 'operator = "softmax_grad"\n[check]\nsoc = 3\n', "a.toml: check.soc: unknown key; [check] has"),
        (
            "a.toml",
            'operator = "softmax_grad"\n[check]\nshape = [0]\ndtype = "half"\n',
            "shape [0]: want axes of at least 1, such as [960, 960]",
        ),
        ("k.py", "def a(asc, t): ...\ndef b(asc, t): ...\n", "k.py: name the kernel's function, FILE.py:FUNCTION; "),
        ("k.py", "def (:\n", "k.py: not Python: invalid syntax"),
        (
            "k.py",
            "\n\ndef main(asc):\n    pass\n",
            "k.py:3: main(asc) is called as main(asc, tensors, t): give it a last parameter for the tiling",
        ),
    ],
)  # fmt: skip
def test_a_file_of_the_wrong_kind_is_told_what_where_and_how(tmp_path, name, content, text):
    (tmp_path / name).write_text(content)
    assert text in _error(tmp_path / name)


def test_a_kernel_without_tensors_is_told_of_the_scenario_that_names_it():
    text = _error("scenarios/vector_add.py")
    assert text.endswith("; or check a scenario that names it: scenarios/vector_add.toml")


def test_a_suppressed_code_that_no_rule_has_is_refused(tmp_path):
    changes = {"suppress": [{"code": "W-TILE-IDEL", "reason": "x"}]}
    assert "suppress.0.code = 'W-TILE-IDEL': no such code; the nearest are W-TILE-IDLE" in _error(
        "vector_add", changes=changes
    )


# ---- choosing ---------------------------------------------------------------------------------------------------


def test_findings_are_chosen_by_code_and_beginning():
    judged = _judge("vector_add", changes={"tiling.tile_length": 2050})

    def codes(select, ignore):
        return sorted({f.code for f in judged.chosen(select, ignore).findings})

    assert codes(None, None) == ["E-ALIGN-COUNT", "E-OOB-GM"]
    assert codes("E-OOB, W-", None) == ["E-OOB-GM"]
    assert codes(None, "e-oob") == ["E-ALIGN-COUNT"]
    assert codes("E-", "E-") == []


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--select", "E-OOO", "--select E-OOO: no code begins like that; the nearest are E-OOB-LOCAL, E-OOB-GM, "),
        ("--ignore", ", ", "--ignore ', ': want codes or their beginnings joined by commas, such as E-CAP,W-"),
    ],
)
def test_an_unknown_code_is_told_the_nearest(option, text, message, ascendsim):
    done = ascendsim("check", "plan_row_width", option, text, code=2)
    assert done.stderr.startswith(f"error: {message}")


def test_every_code_of_the_package_is_known():
    literals = {
        node.value
        for path in (ROOT / "ascendsim").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Rule"
        for node in node.args[:1]
        if isinstance(node, ast.Constant)
    }
    assert literals <= rules_by_code().keys()
    assert "E-CAP-L0B" in rules_by_code()


# ---- for machines -----------------------------------------------------------------------------------------------

SUPPRESS = {"tensors.z.shape": [65000], "suppress": [{"code": "E-OOB-GM", "reason": "cut off"}]}


def test_json_has_the_place_and_the_reason():
    judged = _judge("vector_add", changes=SUPPRESS)
    assert show_findings.to_json(judged) == {
        "findings": [
            {
                "severity": "E",
                "code": "E-OOB-GM",
                "message": "DataCopy dst touches 1072 B outside GM tensor z (130000 B, up to byte 131072 wanted)",
                "hint": "check the block offset and the tail",
                "where": "DataCopy (vector_add.py:26) core 7",
                "operand": "dst",
                "got": "131072",
                "wanted": "130000",
                "source": "asc-tools, npu-check ErrorRead3/ErrorWrite2",
                "count": 1,
                "level": "",
                "file": "scenarios/vector_add.py",
                "line": 26,
                "column": 9,
                "suppressed": "cut off",
            }
        ]
    }


def test_sarif_has_rules_places_and_suppressions():
    log = sarif(_judge("vector_add", changes=SUPPRESS))
    (run,) = log["runs"]
    message = "DataCopy dst touches 1072 B outside GM tensor z (130000 B, up to byte 131072 wanted)"
    hint = "check the block offset and the tail"
    assert log["version"] == "2.1.0"
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("ascendsim", __version__)
    (rule,) = driver["rules"]
    assert rule["shortDescription"].pop("text")
    assert rule == {
        "id": "E-OOB-GM",
        "shortDescription": {},
        "help": {"text": hint},
        "defaultConfiguration": {"level": "error"},
        "properties": {"source": "asc-tools, npu-check ErrorRead3/ErrorWrite2"},
    }
    assert run["results"] == [
        {
            "ruleId": "E-OOB-GM",
            "ruleIndex": 0,
            "level": "error",
            "message": {"text": f"{message} (to mend it: {hint})"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": "scenarios/vector_add.py", "uriBaseId": "%SRCROOT%"},
                        "region": {
                            "startLine": 26,
                            "startColumn": 9,
                            "endColumn": 22,
                            "snippet": {"text": "        asc.data_copy(z[at], result, t.tile_length)"},
                        },
                    },
                    "logicalLocations": [
                        {"fullyQualifiedName": "DataCopy (vector_add.py:26) core 7", "kind": "function"}
                    ],
                }
            ],
            "occurrenceCount": 1,
            "properties": {"operand": "dst", "got": "131072", "wanted": "130000"},
            "suppressions": [{"kind": "external", "justification": "cut off"}],
        }
    ]


def test_sarif_of_files_elsewhere_has_whole_names(tmp_path):
    (tmp_path / "a b.toml").write_text((ROOT / "tilings/plan_row_width.toml").read_text())
    (result,) = sarif(_judge(tmp_path / "a b.toml"))["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": (tmp_path / "a b.toml").as_uri()}
    assert place["region"]["startLine"] == 11


@pytest.mark.parametrize(
    ("target", "changes"),
    [
        ("vector_add", {}),
        ("vector_add", SUPPRESS),
        ("vector_add", {"tiling.tile_length": 2050}),
        ("softmaxgrad_960x960_float", {"tiling.tile_m": 9}),
        ("plan_tbuf_and_softmax_grad", {}),
        ("scaled_softmax_grad", {"tiling.tmp_bytes": 500}),
    ],
)
def test_sarif_is_what_its_schema_asks_for(target, changes):
    """The schema as pydantic-sarif has it; not everybody has that package, so the structure is tested above, too."""
    model = pytest.importorskip("pydantic_sarif.model")
    log = json.loads(sarif_text(_judge(target, changes=changes)))
    model.StaticAnalysisResultsFormatSarifVersion210JsonSchema.model_validate(log)


def test_sarif_is_written_whole_or_refused(tmp_path):
    judged = _judge("plan_row_width")
    write_sarif(judged, tmp_path / "new" / "check.sarif")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["check.sarif"]
    assert (tmp_path / "new" / "check.sarif").read_text() == sarif_text(judged)
    with pytest.raises(AscendSimError, match="is a folder; name a file"):
        write_sarif(judged, tmp_path)
    with pytest.raises(AscendSimError, match="cannot write"):
        write_sarif(judged, tmp_path / "new" / "check.sarif" / "x")


def test_the_command_prints_one_object_or_text(ascendsim):
    done = ascendsim("check", "plan_row_width", "--sarif", "-", code=1)
    assert json.loads(done.stdout)["runs"][0]["results"][0]["ruleId"] == "E-ALIGN-UB"
    both = ascendsim("check", "plan_row_width", "--sarif", "-", "--json", code=2)
    assert "print one object and nothing else; name a file for SARIF" in both.stderr
    found = json.loads(ascendsim("check", "plan_row_width", "--json", "--ignore", "E-", code=0).stdout)
    assert found == {
        "findings": [],
        "plan": "plan_row_width",
        "fits": False,
        "tiling": {"rows": 8, "width": 4, "element": 4},
    }
