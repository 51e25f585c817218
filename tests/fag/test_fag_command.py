"""`ascendsim fag`: what it prints, what it exits with, what it says to wrong input."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from typer.testing import CliRunner

from ascendsim import show_fag
from ascendsim.cli import app
from ascendsim.errors import AscendSimError
from ascendsim.fag_answer import answer
from ascendsim.fag_request import parse_tensors, request_of

COMMAND = str(Path(sys.executable).parent / "ascendsim")
PAGE = (ROOT / "docs/fag.md").read_text()
SHAPE = ("--shape", "1,8,2048,2048,128", "--dtype", "bf16", "--layout", "BNSD")
OPTIONS = {"shape": "1,8,2048,2048,128", "dtype": "bf16", "layout": "BNSD"}


def page(file=None, core=None, **options):
    return list(show_fag.page(answer(request_of(file, {**({} if file else OPTIONS), **options})), core))


def error_of(file=None, **options):
    with pytest.raises(AscendSimError) as caught:
        answer(request_of(file, {**({} if file else OPTIONS), **options}))
    return str(caught.value)


def run(*words):
    return CliRunner().invoke(app, ["fag", *words])


# --- the worked example ---


NEXT = ", then on to the next 512-byte boundary"
KEY = (
    "Tiling key: ub_axis_0 4, ub_axis_1 3, core_axis 4, is_same_ab 1, dtype 2, layout 2, sparse 0, matmul_config 0, "
    "score_nz 1, gradient_nz 1, drop 0, pse 0, mask 0, l1_reuse 0, tnd_ping_pong 0, s1_template 1, s2_template 1, "
    "d_template 4, deterministic 0, rope 0"
)
FIRST = (
    "  first block of AIC 0: b 0, n2 0, g 0, rows 0..511, columns 0..511; AIV 0 16 sub-tiles of 32 x 256 (rows 0..511, "
    "columns 0..255 of it), AIV 1 16 sub-tiles of 32 x 256 (rows 0..511, columns 256..511 of it)"
)


def test_the_head_of_the_worked_example():
    assert page()[:15] == [
        "FlashAttentionScoreGrad bf16 BNSD: B 1, N1 8, N2 8, S1 2048, S2 2048, D 128, Dv 128 on Ascend910B1",
        "status 0 ACLNN_SUCCESS of aclnnFlashAttentionScoreGrad, current interface",
        "workspace 147,392,512 B; with the tensors of pad and transpose 147,392,512 B",
        "template SameAB (15500), tiling key 1117790491700, block dim 24",
        "",
        "Workspace of the kernel, in order",
        "                            B   of it used",
        "  sync area            65,536       65,536  64 KiB",
        "  dQ sums           8,389,120    8,388,608  elements of dQ * 4 B, then on to the next 512-byte boundary",
        "  dK sums           8,389,120    8,388,608  elements of dK * 4 B, then on to the next 512-byte boundary",
        "  dV sums           8,389,120    8,388,608  elements of dV * 4 B, then on to the next 512-byte boundary",
        "  row term            524,288      524,288  B * N1 * S1 rows * 8 * 4 B, in whole 512 bytes",
        f"  S and dA        100,663,808  100,663,296  AIVs * cvS1 * cvS2 * 4 B * 2{NEXT}",
        "  system reserve   20,971,520   20,971,520  20 MiB",
        KEY,
    ]


def test_who_does_what_in_the_worked_example():
    lines = page()
    start = lines.index("Pre phase: 48 AIVs, each dQ zeroed 43,691, dK zeroed 43,691, dV zeroed 43,691 elements")
    assert lines[start + 1 : start + 7] == [
        "Row term phase: 48 AIVs, each rows 342, 96 at a time",
        "Main phase: 128 blocks on 24 AICs, 6 rounds",
        "  order: s1 fastest, then s2, g, n2, b; one block to each AIC, round after round",
        "  blocks of a core: 5 to 6; busiest AIC 0 with 1,572,864 scores, idlest AIC 8 with 1,310,720; balance 0.889",
        FIRST,
        "Post phase: 48 AIVs, each dQ 43,691, dK 43,691, dV 43,691 elements, 9,216 at a time",
    ]


def test_a_core_lists_its_blocks():
    lines = page(core=8)
    assert [line.partition(";")[0] for line in lines[lines.index("Blocks of AIC 8: 5") + 1 :]] == [
        f"  round {turn}: b 0, n2 {i // 16}, g 0, rows {i % 4 * 512}..{i % 4 * 512 + 511}, "
        f"columns {i % 16 // 4 * 512}..{i % 16 // 4 * 512 + 511}"
        for turn, i in enumerate(range(8, 128, 24))
    ]


def test_json():
    done = run(*SHAPE, "--json", "--core", "23")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert (found["status"], found["workspace_bytes"], found["total_bytes"]) == (0, 147392512, 147392512)
    assert sum(term["bytes"] for term in found["terms"]) == 147392512
    assert (found["tiling_key"], found["key_fields"]["d_template"]) == (1117790491700, 4)
    assert (found["template"], found["template_priority"], found["block_dim"]) == ("SameAB", 15500, 24)
    assert found["dealing"]["blocks"] == [6] * 8 + [5] * 16
    assert found["offsets"] == {"dq": 65536, "dk": 8454656, "dv": 16843776}
    assert found["reasons"] == found["findings"] == []
    for item in found["maps"]:
        assert sum(area["bytes"] for area in item["areas"]) + item["free_bytes"] == item["capacity_bytes"]
    assert found["estimate"]["block"]["binds"] == "memory (writes to GM)"
    assert len(found["core"]["blocks"]) == 5
    assert [share["aiv"] for share in found["core"]["blocks"][0]["shares"]] == [0, 1]


# --- calls that are refused ---


def test_a_refused_call_names_every_broken_rule_and_ends_with_1():
    done = run(*SHAPE, "--tensor", "query=null", "--tensor", "key=half:2,3,4", "--head-num", "0")
    assert done.exit_code == 1
    codes = re.findall(r"^(\d+ E-[A-Z-]+)", done.stdout, re.MULTILINE)
    assert codes == [
        *("161001 E-FAG-NULL", "161002 E-FAG-PARAM", "161002 E-FAG-SHAPE"),
    ]
    assert "  where: aclnnFlashAttentionScoreGrad: query; got null, wanted a tensor\n" in done.stdout
    assert "template" not in done.stdout


def test_a_format_is_refused():
    lines = page(atten_mask="S1_S2", tensors={"attenMask": "format=NZ"})
    assert lines[3].startswith("161002 E-FAG-DTYPE attenMask ")


def test_another_architecture_has_no_kernel():
    lines = page(soc="Ascend310P3")
    assert lines[1:3] == [
        "status 561003 ACLNN_ERR_INNER_FIND_KERNEL_ERROR of aclnnFlashAttentionScoreGrad, current interface",
        "  the caller gets 161001: what a layer below refuses comes back as a null pointer",
    ]


def test_empty_gradients_need_no_kernel():
    done = run(*SHAPE, "--tensor", "dq=empty", "--tensor", "dk=empty", "--tensor", "dv=empty")
    assert done.exit_code == 0
    assert "workspace 0 B" in done.stdout


def test_a_tile_that_does_not_fit_ends_with_1():
    done = run(*SHAPE, "--set", "vec_s1=64")
    assert done.exit_code == 1
    assert "error E-FAG-FIT main, UB: S needs 66048 B, its place has 33792 B" in done.stdout
    assert run(*SHAPE, "--set", "cv_s1=256").exit_code == 0


def test_padding_and_transposing_count():
    """D = 100 is padded to 112: three tensors of the key's length and four of the query's, dq to dv besides."""
    lines = page(shape="2,8,2048,2048,100", layout="BNSD")
    elements = 2 * 8 * 2048 * 112
    own, added = (int(text.replace(",", "")) for text in re.findall(r"([\d,]+) B", lines[2]))
    assert added - own == 8 * elements * 2
    assert "The kernel gets BNSD, D 112, Dv 112" in lines
    rows = lines[lines.index("Tensors that the interface adds") + 1 :][:8]
    assert rows[0].split() == ["query_padded", f"{elements * 2:,}", "[2,", "8,", "2048,", "112]", "bfloat16_t"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"shape": "1,8,x"}, "--shape 1,8,x: '1,8,x': want whole numbers joined by commas, such as 1024,512"),
        (
            {"shape": "1,8,2048"},
            (
                "shape = 1,8,2048: has 3 numbers, want B,N,S1,S2,D or B,N,S1,S2,D,Dv; for layout TND with q_lens also "
                "N,D or N,D,Dv"
            ),
        ),
        ({"dtype": "int8"}, "--dtype int8: want 'bf16', 'fp16' or 'fp32'"),
        ({"tiles": {"cv": 1}}, "--set cv: unknown key; the nearest are cv_s2, cv_s1, cv_units"),
        ({"tiles": {"cv_s1": 0}}, "--set cv_s1 0: want greater than or equal to 1"),
        (
            {"tiles": {"units": 2}},
            "template SameAB has no units to prescribe; it takes cv_s1, cv_s2, vec_s1, vec_s2",
        ),
        ({"groups": 2, "kv_heads": 4}, "groups, kv_heads: give one of them; kv_heads = N / groups"),
        (
            {"kv_heads": 3},
            (
                "kv_heads = 3: must divide N = 8; to see what the operator says to other heads, give the key with "
                "--tensor key=SHAPE"
            ),
        ),
        ({"q_lens": "1,2"}, "q_lens, kv_lens: only layout TND has them, not BNSD"),
        (
            {"layout": "TND", "q_lens": "1024,512"},
            "shape = 1,8,2048,2048,128: B = 1, but the lengths say 2; give N,D or N,D,Dv",
        ),
        (
            {"tensors": {"query": "a=b"}},
            (
                "tensor query = 'a=b': want null, empty, scalar, a type, a shape, format=NZ, or some of them joined by "
                "colons, such as half:2,3,4"
            ),
        ),
        ({"interface": "old"}, "--interface old: want 'seed' or 'current'"),
    ],
)
def test_wrong_options(options, text):
    assert error_of(**options) == text


def test_missing_options():
    with pytest.raises(AscendSimError) as caught:
        request_of(None, {"shape": "1,8,2048,2048,128"})
    assert str(caught.value) == (
        "fag: --dtype, --layout not given; a call needs --shape B,N,S1,S2,D or B,N,S1,S2,D,Dv, --dtype and --layout, "
        "or a file that has them under [fag]"
    )


def test_wrong_input_ends_with_2():
    for words in (["--shape", "1"], [*SHAPE, "--core", "24"], [*SHAPE, "--tensor", "query"], ["nothing.toml"]):
        done = subprocess.run([COMMAND, "fag", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2, words
        assert done.stderr.startswith("error: ")
        assert done.stdout == ""


def test_a_tensor_option_is_a_name_and_how():
    assert parse_tensors(["query=null", "attenMask:format=NZ", "key=half:2,3"]) == {
        "query": "null", "attenMask": "format=NZ", "key": "half:2,3",
    }  # fmt: skip
    with pytest.raises(AscendSimError, match="--tensor query: want NAME=HOW"):
        parse_tensors(["query"])


def test_more_blocks_than_can_be_looked_at_are_told():
    done = run(*SHAPE[2:], "--shape", "1,1,1000000,1000000,128", "--set", "cv_s1=16")
    assert done.exit_code == 0
    assert "note: 122,125,000 score tiles of a head are too many to say who computes which, and how" in done.stdout
    assert "Main phase" not in done.stdout


# --- variable lengths ---


def test_lengths_of_their_own():
    lines = page(shape="8,128", layout="TND", q_lens="1024,1536", kv_lens="1024,1536")
    assert lines[0] == (
        "FlashAttentionScoreGrad bf16 TND: B 2, N1 8, N2 8, T1 2560, T2 2560, S1 1536, S2 1536 at most, D 128, Dv 128 "
        "on Ascend910B1"
    )
    assert lines[3].startswith("template basic_tnd (1001)")
    equal = page(shape="2,8,1024,1024,128", layout="TND")
    assert "note: q_lens are not given: taken as 2 times 1024" in equal


# --- files ---


def test_a_file_says_the_same_as_options():
    options = {
        "shape": "1,32,4096,4096,128", "dtype": "bf16", "layout": "BNSD", "sparse_mode": 3, "atten_mask": "compressed",
    }  # fmt: skip
    assert page("fag_llama7b") == page(**options)


def test_an_option_counts_more_than_the_file(tmp_path):
    file = tmp_path / "call.toml"
    file.write_text(
        '[fag]\nshape = [1, 8, 2048, 2048, 128]\ndtype = "bf16"\nlayout = "BNSD"\n'
        '[fag.tensors]\nquery = "null"\n[fag.tiles]\ncv_s1 = 256\n'
    )
    request = request_of(str(file), {"dtype": "fp16", "tensors": {"key": "half"}})
    assert request.params.dtype == "fp16"
    assert [(t.name, t.is_null, t.dtype) for t in request.params.tensors] == [
        ("query", True, None), ("key", False, "half"),
    ]  # fmt: skip
    assert request.override.cv_s1 == 256


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fag]\nsparse_mod = 1\n", ("fag.shape: not given; {0}: fag.dtype: not given; {0}: fag.layout: not given; "
         "{0}: fag.sparse_mod: unknown key; the nearest are sparse_mode, pre_tokens, pse")),
        ("shape = [1]\n", ("no [fag]; a call stands under it (docs/fag.md); {0}: shape: unknown key; the nearest are "
         "schema, name, fag")),
        ('[fag]\nshape = [1, 8, 64, 64, 64]\ndtype = "bf16"\nlayout = "BNSD"\nkeep_prob = "x"\n',
         "fag.keep_prob = x: want a valid number, unable to parse string as a number"),
        ('[fag]\nshape = [1, 8, 64, 64, 64]\ndtype = "bf16"\nlayout = "BNSD"\ntiles.cv = 3\n',
         "fag.tiles.cv: unknown key; the nearest are cv_s2, cv_s1, cv_units"),
    ],
)  # fmt: skip
def test_wrong_files(tmp_path, text, message):
    file = tmp_path / "call.toml"
    file.write_text(text)
    assert error_of(str(file)) == f"{file}: {message.format(file)}"


# --- the page ---


def examples():
    """(command, what it prints) of every shown `ascendsim fag`."""
    for block in re.findall(r"^ {4}\$ (ascendsim fag .*\n(?:(?: {4}.*)?\n)*)", PAGE, re.MULTILINE):
        command, _, output = block.partition("\n")
        yield command, re.sub(r"^ {4}", "", output, flags=re.MULTILINE).strip("\n")


@pytest.mark.parametrize(("command", "output"), list(examples()), ids=lambda v: v[:60].partition("\n")[0])
def test_the_page_shows_what_is_printed(command, output):
    """Between lines of three dots the lines follow one another as shown."""
    done = run(*shlex.split(command)[2:])
    assert done.exit_code == (1 if "161001" in output else 0)
    at = 0
    for piece in re.split(r"^\.\.\.\n?", output, flags=re.MULTILINE):
        found = done.stdout.find(piece.strip("\n"), at)
        assert found >= 0, piece
        at = found + len(piece.strip("\n"))


def test_the_page_names_every_option_and_key():
    done = run("--help")
    for name in re.findall(r"--[a-z]+(?:-[a-z]+)*", done.stdout):
        assert f"`{name}" in PAGE or name in ("--help", "--no-deterministic"), name
