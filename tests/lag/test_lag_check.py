"""`ascendsim check` of a call of LaserAttentionGrad, [lag]."""

import json

import pytest

from ascendsim.check_target import Asked, judge
from ascendsim.errors import InputError

CALL = """
[lag]
shape = [1, 4, 1024]
pre_tokens = 512
keep_prob = 0.5
vendor_quirks = true

[lag.tensors]
softmaxIn = "1,8"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "call.toml"
    path.write_text(CALL)
    return path


def found(file, soc=None, **changes):
    judged = judge(str(file), Asked(changes={key.replace("__", "."): value for key, value in changes.items()}, soc=soc))
    return judged, [(f.severity.value, f.code, judged.place(f).line, f.where) for f in judged.findings]


def test_what_to_know_of_a_call(file):
    judged, findings = found(file)
    assert findings == [
        ("W", "W-LAG-MASKBITS", None, "lag.mask"),
        ("W", "W-LAG-POST", 3, "lag.shape"),
        ("I", "I-LAG-IGNORED", 5, "lag.keep_prob"),
    ]
    assert judged.lines[1:] == (
        "NO_ERROR; outputs [1, 4, 1024, 128], [1, 4, 1024, 128], [1, 4, 1024, 128], [1, 4, 1024, 128]",
        "workspace 141,033,472 B",
    )


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"lag__pre_tokens": 300}, ("E", "E-ATB-PARAM", 4, "lag.pre_tokens")),
        ({"lag__layout": ""}, ("E", "E-ATB-PARAM", None, "lag.layout")),
        ({"lag__shape": [1, 4, 1000]}, ("E", "E-ATB-DIM", 3, "lag.shape")),
        ({"lag__tensors__softmaxIn": "half:1"}, ("E", "E-ATB-INI", 9, "lag.tensors.softmaxIn")),
        ({"lag__tensors__keyGrad": "1,4,512,128"}, ("E", "E-ATB-DIM", None, "lag.tensors.keyGrad")),
        ({"soc": "Ascend310P3"}, ("E", "E-ATB-PARAM", None, "lag.soc")),
    ],
)
def test_the_first_check_that_fails(file, changes, finding):
    assert found(file, **changes)[1] == [finding]


def test_the_command(ascendsim, file):
    done = ascendsim("check", file, "--set", "lag.pre_tokens=1000", code=1)
    assert "  --> " in done.stdout
    assert "   4 | pre_tokens = 512" in done.stdout
    facts = json.loads(ascendsim("check", file, "--json").stdout)
    assert facts["lag"] == {
        "stage": "ok", "error": "NO_ERROR", "workspace_bytes": 141033472, "tiling_id": 2, "block_dim": 24,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Asked(changes={"pre_tokens": 2}), "--set pre_tokens: unknown key; keys of a call begin with lag, such as "),
        (Asked(changes={"lag.tokens": 2}), "--tokens: unknown key; the nearest are "),
        (Asked(block_dim=3), "--block-dim: {} is a call; its operator chooses the cores"),
    ],
)
def test_wrong_options(file, asked, text):
    with pytest.raises(InputError) as caught:
        judge(str(file), asked)
    assert text.format(file) in str(caught.value)
