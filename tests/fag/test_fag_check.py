"""`ascendsim check` of a call of FlashAttentionScoreGrad, [fag]."""

import json

import pytest

from ascendsim.check_target import Asked, judge
from ascendsim.errors import InputError

CALL = """
[fag]
shape = [1, 8, 2048, 1024, 128]
dtype = "bf16"
layout = "BNSD"
sparse_mode = 3
atten_mask = "compressed"
inner_precise = 2

[fag.tensors]
dy = "null"
paddingMask = "half:2,3"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "call.toml"
    path.write_text(CALL)
    return path


def found(file, soc=None, **changes):
    judged = judge(str(file), Asked(changes={key.replace("__", "."): value for key, value in changes.items()}, soc=soc))
    return judged, [(f.severity.value, f.code, judged.place(f).line, f.where) for f in judged.findings]


def test_what_the_host_refuses_and_what_to_know(file):
    judged, findings = found(file)
    assert findings == [
        ("E", "E-FAG-NULL", 11, "fag.tensors.dy"),
        ("W", "W-FAG-HIDDEN", 7, "fag.atten_mask"),
        ("I", "I-FAG-IGNORED", 12, "fag.tensors.paddingMask"),
        ("I", "I-FAG-IGNORED", 8, "fag.inner_precise"),
    ]
    assert judged.lines[1] == (
        "status 161001 ACLNN_ERR_PARAM_NULLPTR of aclnnFlashAttentionScoreGrad, current interface"
    )


def test_changes_and_another_part(file):
    _, findings = found(file, soc="Ascend310P3", fag__tensors__dy="bf16", fag__head_num=0)
    assert findings[:2] == [
        ("E", "E-FAG-PARAM", None, "fag.head_num"),
        ("E", "E-FAG-PRODUCT", None, "fag.soc"),
    ]


def test_a_limit_without_a_return_code_is_a_warning(file):
    _, findings = found(file, fag__tensors__dy="bf16", fag__interface="current", fag__shape=[1, 300, 1024, 1024, 128])
    assert ("W", "E-FAG-SHAPE", 3, "fag.shape") in findings
    assert not [f for f in findings if f[0] == "E"]


def test_a_tile_that_does_not_fit(file):
    _, findings = found(file, fag__tensors__dy="bf16", fag__tiles__vec_s1=64)
    assert ("E", "E-FAG-FIT", None, "main, UB") in findings


def test_the_command(ascendsim):
    done = ascendsim("check", "fag_llama7b")
    assert done.stdout.splitlines()[3:] == [
        "template SameAB (15500), tiling key 1117924709428, block dim 24",
        "",
        "no findings",
    ]
    facts = json.loads(ascendsim("check", "fag_llama7b", "--json").stdout)
    assert facts["fag"] == {
        "status": 0,
        "status_name": "ACLNN_SUCCESS",
        "workspace_bytes": 327223296,
        "total_bytes": 327223296,
        "template": "SameAB",
        "tiling_key": 1117924709428,
        "block_dim": 24,
    }


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Asked(changes={"sparse_mode": 2}), "--set sparse_mode: unknown key; keys of a call begin with fag, such as "),
        (Asked(changes={"fag.sparse": 2}), "--sparse: unknown key; the nearest are "),
        (Asked(block_dim=3), "--block-dim: {} is a call; its operator chooses the cores"),
        (Asked(shape=(1, 2)), "--shape: {} is a call; only a tiling takes it"),
        (Asked(tensors=("x=1",)), "--tensor: {} is a call; only a kernel file takes it"),
    ],
)
def test_wrong_options(file, asked, text):
    with pytest.raises(InputError) as caught:
        judge(str(file), asked)
    assert text.format(file) in str(caught.value)
