"""`ascendsim lag`: what it says, as text and JSON, and what it says to wrong words."""

import json
import re
import subprocess
import sys

import pytest
from conftest import ROOT

from ascendsim.errors import InputError
from ascendsim.lag import answer, request_of

HEAD = (
    "LaserAttentionGrad BNSD: B 1, N 4, key heads 4, S 1024, Skv 1024, head sizes 128, 128, 128, mask, preTokens 512 "
    "on Ascend910B1"
)


@pytest.fixture
def said(ascendsim):
    """What `ascendsim lag` prints: the answer, or to wrong input the error."""

    def called(*args, code=0):
        done = ascendsim("lag", *args, code=code)
        return done.stdout if code < 2 else " ".join(done.stderr.split())

    return called


@pytest.fixture
def as_json(said):
    return lambda *args, code=0: json.loads(said(*args, "--json", code=code))


def test_the_page_from_top_to_bottom(said):
    lines = said("--shape", "1,4,1024", "--pre-tokens", "512").splitlines()
    assert lines[:3] == [
        HEAD,
        "NO_ERROR; outputs [1, 4, 1024, 128], [1, 4, 1024, 128], [1, 4, 1024, 128], [1, 4, 1024, 128]",
        "workspace 141,033,472 B",
    ]
    assert "  dQ sums   2,097,152  4 * B * Nq * Sq * 128, modulo 2^32" in lines
    assert "Cleared at launch: 23,068,672 B" in lines
    assert "Blocks of 128 x 128 scores: window, its corner folded" in lines
    assert "  6 x 5 of a head to compute, 120 in all, 0 of them skipped; 1 rounds of 16 on 24 AICs" in lines
    assert "  blocks of an AIC: 0 to 16; busiest AIC 0, idlest AIC 8; balance 0.312" in lines


def test_rounds_of_a_core_and_cores_of_a_round(said):
    text = said("--shape", "1,4,2048", "--core", "1", "--round", "1")
    lines = text.splitlines()
    at = lines.index("Rounds of AIC 1")
    assert lines[at + 1 : at + 3] == [
        "  round 0: b 0, n 0, rows 8..9, columns 8..9, 1 skipped; b 0, n 0, rows 6..7, columns 0..5",
        "  round 1: b 0, n 2, rows 14..15, columns 2..9",
    ]
    assert lines[lines.index("Round 1") + 24] == "  AIC 23: nothing"


def test_json_holds_the_tiling_and_the_segments(as_json):
    found = as_json("--shape", "1,2,512,192", "--core", "0", "--round", "0")
    assert (found["stage"], found["error"]) == ("ok", "NO_ERROR")
    assert found["tiling"]["tiling_id"] == 3
    assert found["tiling"]["derived_total_blocks"] == found["blocks"]["total"] == 24
    assert sum(found["blocks"]["computed"]) == 2 * 10
    assert found["core"]["rounds"][0]["segments"] == found["round"]["cores"][0]["segments"]
    assert sum(segment["computed"] for core in found["round"]["cores"] for segment in core["segments"]) == 20
    assert found["workspace_bytes"] == sum(term["bytes"] for term in found["terms"])


def test_a_call_that_is_refused(said, as_json):
    text = said("--shape", "1,4,1000", "--pre-tokens", "768", code=1)
    assert text.splitlines() == [
        "LaserAttentionGrad BNSD: query [1, 4, 1000, 128] on Ascend910B1",
        "ERROR_INVALID_TENSOR_DIM at infer_shape",
        "",
        "error E-ATB-DIM query [1, 4, 1000, 128]: axis 2 is 1000, must be a multiple of 256",
        "  where: LaserAttentionGradOperation query; got 1000, wanted a multiple of 256",
        "  to mend it: change the shape",
        "  source: LaserAttentionGradOperation page; ascend-transformer-boost, ops_train/laser_attention_grad",
    ]
    found = as_json("--shape", "1,4,1000", "--pre-tokens", "768", code=1)
    assert (found["stage"], found["error"]) == ("infer_shape", "ERROR_INVALID_TENSOR_DIM")


def test_outputs_that_setup_refuses_and_a_missing_input(as_json):
    found = as_json("--shape", "1,4,1024", "--tensor", "dpse=float", code=1)
    assert (found["stage"], found["error"]) == ("setup", "ERROR_INVALID_TENSOR_INI_MATCH")
    assert as_json("--shape", "1,4,1024", "--tensor", "dpse=3,5")["error"] == "NO_ERROR"
    found = as_json("--shape", "1,4,1024", "--tensor", "prefix=null", code=1)
    assert (found["stage"], found["error"]) == ("infer_shape", "ERROR_INVALID_IN_TENSOR_NUM")


def test_a_wrap_is_an_error_of_the_exit_code(said):
    assert "E-LAG-WRAP" in said("--shape", "4,64,32768", "--kv-heads", "8", code=1)


def test_the_unfolded_triangle_beside_the_folded_one(said, as_json):
    folded, unfolded = (as_json("--shape", "1,8,4096", "--order", order) for order in ("operator", "unfolded"))
    assert sum(folded["blocks"]["computed"]) == sum(unfolded["blocks"]["computed"]) == 8 * 32 * 33 // 2
    assert (folded["blocks"]["rounds"], unfolded["blocks"]["rounds"]) == (12, 22)
    assert folded["blocks"]["balance"] > unfolded["blocks"]["balance"]
    assert "unfolded: a comparison, no kernel does it" in said("--shape", "1,8,4096", "--order", "unfolded")


def test_a_file_and_options_that_count_more(as_json, tmp_path):
    file = tmp_path / "call.toml"
    file.write_text('schema = 1\n[lag]\nshape = [1, 4, 1024]\nkv_heads = 2\ntensors = { softmaxIn = "1,8" }\n')
    found = as_json(str(file))
    assert found["call"]["Nkv"] == 2
    assert found["notes"] == ["pre_tokens is not given: taken as the length of query, 1024"]
    assert as_json(str(file), "--kv-heads", "1", "--pre-tokens", "512")["call"]["Nkv"] == 1
    assert as_json(str(file), "--tensor", "softmaxIn=empty", code=1)["error"] == "ERROR_INVALID_TENSOR_DIM"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ([], "lag: --shape not given; a call needs B,N,S or B,N,S,D (D 128 or 192), or B,N,S,Skv,D, or a file"),
        (["--shape", "1,4"], "shape = 1,4: has 2 numbers, want B,N,S or B,N,S,D"),
        (["--shape", "1,x,4"], "--shape 1,x,4: '1,x,4': want whole numbers joined by commas, such as 1,4,4096"),
        (["--shape", "1,-4,1024"], "shape = 1,-4,1024: an axis must not be negative"),
        (["--shape", "1,4,1024", "--order", "back"], "--order back: want 'operator' or 'unfolded'"),
        (
            ["--shape", "1,4,1024", "--no-mask", "--order", "unfolded"],
            "--order unfolded: the call computes a dense map",
        ),
        (["--shape", "1,4,1024", "--core", "24"], "--core 24: AICs are 0 to 23"),
        (["--shape", "1,4,1024", "--round", "1"], "--round 1: rounds are 0 to 0"),
        (
            ["--shape", "1,4,1024", "--tensor", "dy=1"],
            "--tensor dy=1: LaserAttentionGradOperation has query, key",
        ),
        (["--shape", "1,4,1024", "--tensor", "key=a=b"], "--tensor key=a=b: want null, empty, a type, a shape"),
        (["--shape", "1,4,1024", "--kv-heads", "0"], "--kv-heads 0: want greater than or equal to 1"),
        (["--shape", "1,4,1024", "--soc", "Ascend999"], "unknown device 'Ascend999'"),
        (["nothing.toml"], "nothing.toml: no such file, want a .toml with a call under [lag] (docs/lag.md)"),
    ],
)
def test_words_that_cannot_be_used(said, args, text):
    assert text in said(*args, code=2)


def test_keys_of_a_file_that_cannot_be_used(tmp_path):
    file = tmp_path / "call.toml"
    for text, message in (
        ("schema = 1\n", f"{file}: no [lag]; a call stands under it (docs/lag.md)"),
        ("[lag]\nshape = [1, 4, 512]\nkv_head = 2\n", f"{file}: lag.kv_head: unknown key; the nearest are kv_heads"),
        ("[lag]\nshape = [1, 4, 512]\nmask = 7\n", f"{file}: lag.mask = 7: want"),
        (
            '[lag]\nshape = [1, 4, 512]\ntensors.dy = "1"\n',
            "tensor dy: no such tensor; LaserAttentionGradOperation has query",
        ),
    ):
        file.write_text(text)
        with pytest.raises(InputError) as error:
            request_of(str(file), {})
        assert message in str(error.value)


def test_dealing_of_a_refused_call():
    refused = answer(request_of(None, {"shape": [1, 4, 100]}))
    for ask in (refused.rounds_of, refused.round_of):
        with pytest.raises(InputError, match="the call is refused"):
            ask(0)


# --- the page ---


PAGE = (ROOT / "docs/lag.md").read_text()


@pytest.mark.parametrize("block", re.findall(r"    \$ ascendsim lag (.*?)\n(?=\n\S)", PAGE, re.DOTALL))
def test_the_lines_of_the_page_are_printed(said, block):
    words, *shown = block.split("\n")
    printed = iter(said(*words.split()).splitlines())
    wanted = [line.strip() for line in shown if line.strip() not in ("", "...")]
    assert len(wanted) >= 2
    for line in wanted:  # in this order
        assert line in (text.strip() for text in printed), line


def test_the_example_of_the_page():
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\(1, 1, 256, 128\) True \d+\n", done.stdout)
