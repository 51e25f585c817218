"""Plan files that cannot be used: the exact words, with file, key and column."""

import tomllib

import pytest
from plan_harness import HEAD, answer_of, plan_of

from ascendsim.errors import AscendSimError, InputError
from ascendsim.plan.answer import load_plan
from ascendsim.plan.model import plan_file

BUFFER = '[buffers.x]\nbytes = "{}"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BUFFER.format("k * 4"), """p.toml: buffers.x.bytes: column 1 of "k * 4": unknown name 'k'"""),
        (
            "[tiling]\nrows = 8\n" + BUFFER.format("2 * rwos"),
            """p.toml: buffers.x.bytes: column 5 of "2 * rwos": unknown name 'rwos'; did you mean rows?""",
        ),
        (
            BUFFER.format("8 * flaot"),
            """p.toml: buffers.x.bytes: column 5 of "8 * flaot": unknown name 'flaot'; did you mean float?""",
        ),
        (
            BUFFER.format("8 * (4 + 2"),
            """p.toml: buffers.x.bytes: column 11 of "8 * (4 + 2": ')' is needed, but the expression ends""",
        ),
        (
            BUFFER.format("8 // (4 - 4)"),
            'p.toml: buffers.x.bytes: column 3 of "8 // (4 - 4)": division by zero (8 divided by 0)',
        ),
        (
            "[tiling]\nk = 8\n" + BUFFER.format("k - 9"),
            'p.toml: buffers.x.bytes: column 1 of "k - 9": gives -1 with k = 8; a size in bytes must be at least 1',
        ),
        (
            "[buffers.x]\nbytes = 0\n",
            'p.toml: buffers.x.bytes: column 1 of "0": gives 0; a size in bytes must be at least 1',
        ),
        (
            BUFFER.format("4294967296 * 4294967296"),
            'p.toml: buffers.x.bytes: column 12 of "4294967296 * 4294967296": the result is beyond 2^63 - 1',
        ),
        (
            BUFFER.format("99999999999999999999"),
            'p.toml: buffers.x.bytes: column 1 of "99999999999999999999": the number is beyond 2^63 - 1',
        ),
        (
            BUFFER.format("8") + 'num = "65"\n',
            'p.toml: buffers.x.num: column 1 of "65": gives 65; the number of buffers must be 1..64',
        ),
        (
            '[tiling]\na = "b + 1"\nb = "2 * c"\nc = "a"\n',
            'p.toml: tiling.a: column 1 of "b + 1": fields in a circle: a needs b needs c needs a',
        ),
        ('[tiling]\na = "a"\n', 'p.toml: tiling.a: column 1 of "a": fields in a circle: a needs a'),
        (
            '[tiling]\nrows = 8\nn = "rwos * 2"\n',
            """p.toml: tiling.n: column 1 of "rwos * 2": unknown name 'rwos'; did you mean rows?""",
        ),
        ("[tiling]\nhalf = 8\n", "p.toml: tiling.half: expressions have this name already; choose another"),
        ("[tiling]\nmin = 8\n", "p.toml: tiling.min: expressions have this name already; choose another"),
        (
            "[tiling]\n'tile-m' = 8\n",
            "p.toml: tiling.tile-m: must be a plain name, or no expression could use it",
        ),
        ("[tiling]\nk = 1.5\n", "p.toml: tiling.k: 1.5: must be a whole number or an expression in quotes"),
        ("[tiling]\nk = true\n", "p.toml: tiling.k: True: must be a whole number or an expression in quotes"),
        ("[tiling]\nk = { min = 8, max = 4 }\n", "p.toml: tiling.k: max = 4 is below min = 8"),
        (
            "[tiling]\nk = { min = 8, max = 9, step = 0 }\n",
            "p.toml: tiling.k.step: Input should be greater than or equal to 1",
        ),
        (
            "[tiling]\nk = { min = 8, mx = 9 }\n",
            "p.toml: tiling.k.max: Field required; tiling.k.mx: unknown key; did you mean max?",
        ),
        (
            "[buffers.x]\nbyte = 8\n",
            "p.toml: buffers.x.bytes: Field required; buffers.x.byte: unknown key; did you mean bytes?",
        ),
        ("[bufers.x]\nbytes = 8\n", "p.toml: bufers: unknown key; did you mean buffers?"),
        (
            '[buffers.x]\nbytes = 8\nplace = "L2"\n',
            "p.toml: buffers.x.place: Input should be 'UB', 'L1', 'L0A', 'L0B', 'L0C', 'BT' or 'FB'",
        ),
        (
            "[buffers.x]\nbytes = 8\nsteps = [3, 2]\n",
            "p.toml: buffers.x: steps = [3, 2]: the last step is before the first",
        ),
        (
            "[buffers.x]\nbytes = 8\n[queues.x]\nbytes = 8\n",
            "p.toml: buffers.x: queues.x has the same name",
        ),
        (
            "[apis.a]\nshape = [8, 8]\n",
            "p.toml: apis.a: give exactly one of api (with shape and dtype) and bytes",
        ),
        (
            '[apis.a]\napi = "softmax_grad"\n',
            "p.toml: apis.a: shape is missing; it has the axes of the tensor in UB, such as [rows, k]",
        ),
        (
            '[apis.a]\napi = "softmax_grad"\nshape = [8, "0 * 8"]\n',
            'p.toml: apis.a.shape.1: column 1 of "0 * 8": gives 0; an axis must be at least 1',
        ),
        (
            '[apis.a]\napi = "softmax_grad"\nshape = [8, 9]\n',
            (
                "p.toml: apis.a: GetSoftMaxGradMinTmpSize: last axis 9 of 4-byte elements is 36 bytes, not a multiple "
                "of 32; pad K to 16. CANN logs E_LAST_AXIS_UNALIGNED and still returns 356."
            ),
        ),
        (
            '[apis.a]\napi = "softmax_grad"\nshape = [65536, 65536]\n',
            "p.toml: apis.a: shape [65536, 65536]: CANN's 32-bit arithmetic could overflow",
        ),
        (
            '[apis.a]\nbytes = 8\ntemp = "t"\n[buffers.t]\nbytes = 8\n',
            "p.toml: apis.a: its temp t is already the name of a queue or buffer",
        ),
        (
            '[temps.t]\nbytes = "fitt"\n',
            """p.toml: temps.t.bytes: column 1 of "fitt": unknown name 'fitt'; did you mean fit?""",
        ),
        (
            '[temps.t]\nbytes = "big"\n',
            (
                """p.toml: temps.t.bytes: column 1 of "big": unknown name 'big'; want fit, min, max, framework or an """
                "expression"
            ),
        ),
        (
            '[tiling]\nrows = 8\n[temps.t]\nbytes = "rwos"\n',
            """p.toml: temps.t.bytes: column 1 of "rwos": unknown name 'rwos'; did you mean rows?""",
        ),
        (
            '[apis.a]\napi = "softmaxgrad"\nshape = [8, 8]\n',
            (
                "p.toml: apis.a.api: Input should be 'softmax_grad', 'soft_max', 'soft_max_flash', "
                "'soft_max_flash_v2', 'soft_max_flash_v3' or 'log_soft_max'; did you mean softmax_grad?"
            ),
        ),
        (
            '[temps.t]\nbytes = "max"\n',
            'p.toml: temps.t: no API says temp = "t", so it needs bytes of its own',
        ),
        (
            '[apis]\na.bytes = 8\nb.bytes = 8\n[temps]\na_tmp.bytes = "framework"\nb_tmp.bytes = "framework"\n',
            "p.toml: temps: only one can be the framework's; it hands out all that is left",
        ),
        (
            '[buffers.x]\nbytes = 8\nrow = { width = 8, dtype = "3" }\n',
            'p.toml: buffers.x.row.dtype: column 1 of "3": gives 3; want an element type, or its bytes',
        ),
        (
            "[tiling]\na = { min = 1, max = 2 }\nb = { min = 1, max = 2 }\n",
            (
                "p.toml: tiling.b: a and b have no value; choose one with --solve and give the others one, such as "
                "--set tiling.b=1"
            ),
        ),
        (
            "[tiling]\nn = { min = 0, max = 99999 }\n",
            "p.toml: tiling.n: the range has 100000 values, at most 65536 are tried; take a larger step",
        ),
    ],
)
def test_the_words_of_an_error(text, message):
    with pytest.raises(InputError) as caught:
        answer_of(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("solve", "message"),
    [
        ("rwos", "p.toml: --solve rwos: not a field with min and max; there is rows; did you mean rows?"),
        ("k", "p.toml: --solve k: not a field with min and max; there is rows"),
    ],
)
def test_what_cannot_be_solved_for(solve, message):
    with pytest.raises(InputError) as caught:
        answer_of("[tiling]\nk = 8\nrows = { min = 1, max = 2 }\n", solve)
    assert str(caught.value) == message


REFUSED = {
    "softmax_grad": ("SoftmaxGrad", ("is_front", "is_basic_block")),
    "soft_max": ("SoftMax", ()),
    "log_soft_max": ("LogSoftMax", ()),
    "soft_max_flash": ("SoftMaxFlash", ("is_update",)),
    "soft_max_flash_v2": ("SoftMaxFlashV2", ("sum_dtype", "is_update", "is_basic_block", "is_flash_output_brc")),
    "soft_max_flash_v3": ("SoftMaxFlashV3", ("sum_dtype", "is_update", "is_basic_block")),
}
ARGUMENTS = ("sum_dtype", "is_front", "is_update", "is_basic_block", "is_flash_output_brc")


@pytest.mark.parametrize("api", REFUSED)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_arguments_of_other_apis_are_refused(api, argument):
    title, has = REFUSED[api]
    value = '"half"' if argument == "sum_dtype" else "true"
    text = f'[apis.grad]\napi = "{api}"\nshape = [8, 64]\n{argument} = {value}\n'
    if argument in has:
        assert plan_of(text).apis
        return
    with pytest.raises(InputError) as caught:
        plan_of(text)
    known = ", ".join(has) or "none"
    assert str(caught.value) == f"p.toml: apis.grad.{argument}: {title} has no such argument; it has {known}"


def test_a_call_with_bytes_of_its_own_has_no_arguments():
    message = r"p\.toml: apis\.a\.is_front: a call with bytes of its own has no such argument; it has none"
    with pytest.raises(InputError, match=message):
        plan_of("[apis.a]\nbytes = 8\nis_front = true\n")


def test_an_argument_of_another_api_is_refused_from_outside():
    text = '[apis.grad]\napi = "softmax_grad"\nshape = [8, 64]\n'
    with pytest.raises(InputError, match=r"apis\.grad\.is_update: SoftmaxGrad has no such argument"):
        plan_of(text, {"apis.grad.is_update": 1})


def test_a_second_range_needs_a_value():
    text = "[tiling]\na = { min = 1, max = 9 }\nb = { min = 1, max = 9%s }\n" + BUFFER.format("a * b * 8192")
    with pytest.raises(InputError, match=r"p\.toml: tiling\.b: has no value; --set tiling\.b=1 gives it one"):
        answer_of(text % "", "a")
    assert answer_of(text % ", value = 3", "a").solution.largest["safe"] == 7
    assert answer_of(text % ", value = 3").solution.field == "a", "the one without a value"
    assert answer_of(text % "", "a", {"tiling.b": 4}).solution.largest["safe"] == 5


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("tiling.rwos", 3, "p.toml: --set tiling.rwos: unknown key; the nearest is tiling.rows"),
        ("buffers.y.bytes", 3, "p.toml: --set buffers.y.bytes: unknown key; the nearest is buffers.x.bytes"),
        ("limit", "sofe", "p.toml: limit: Input should be 'safe', 'visible' or 'hardware'; did you mean safe?"),
    ],
)
def test_what_cannot_be_set(key, value, message):
    with pytest.raises(InputError) as caught:
        answer_of("[tiling]\nrows = 8\n" + BUFFER.format("rows"), None, {key: value})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("changes", "used"),
    [
        ({"tiling.rows": 100}, 128),
        ({"tiling.rows": "3 * 32"}, 96),
        ({"buffers.x.bytes": "rows + 40"}, 64),
        ({"buffers.x.num": 3}, 96),
        ({"tiling.rows.value": 64}, 64),
    ],
)
def test_what_can_be_set(changes, used):
    text = "[tiling]\nrows = { min = 1, max = 640, value = 8 }\n" + BUFFER.format("rows")
    assert answer_of(text, None, changes).layout.used_bytes("UB") == used


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ('device = "Ascend910B1"\n', "p.toml: schema is missing; start the file with schema = 1"),
        ('schema = 2\ndevice = "Ascend910B1"\n', "p.toml: schema = 2; this version reads schema 1 of plans"),
        ("schema = 1\n", "p.toml: device: Field required"),
    ],
)
def test_the_head_of_a_plan(head, message):
    with pytest.raises(InputError) as caught:
        plan_file(tomllib.loads(head), "p.toml", {})
    assert str(caught.value) == message


def test_an_unknown_device_is_named():
    with pytest.raises(AscendSimError, match=r"p\.toml: device: unknown device 'Ascend910B9'; did you mean "):
        plan_of("", head='schema = 1\ndevice = "Ascend910B9"\n')


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.toml: no such plan or scenario file"):
        load_plan("nothing.toml", {})
    with pytest.raises(InputError) as caught:
        load_plan("plan_fused", {})
    start = (
        "plan_fused: no such plan or scenario file; the nearest that come with the package: plan_fused_softmax_grad, "
    )
    assert str(caught.value).startswith(start)
    with pytest.raises(InputError, match=r"no such plan or scenario file$"):
        load_plan(tmp_path / "plan_fused", {})
    bad = tmp_path / "bad.toml"
    bad.write_text("schema = \n")
    with pytest.raises(InputError, match=r"bad\.toml: not valid TOML"):
        load_plan(bad, {})
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"bad\.toml: not a text file in UTF-8"):
        load_plan(bad, {})


def test_a_range_of_any_size_is_counted():
    with pytest.raises(InputError, match="the range has 18446744073709551617 values"):
        answer_of(f"[tiling]\nn = {{ min = {-(2**63)}, max = {2**63} }}\n")


def test_too_many_queue_buffers_of_a_position_and_of_a_kernel():
    queue = '[queues.q{}]\nbytes = 32\nnum = {}\nposition = "VECIN"\n'
    messages = [f.message for f in answer_of(queue.format(0, 4) + queue.format(1, 5)).layout.findings]
    assert messages == ["9 queue buffers on VECIN, at most 8"]
    assert answer_of(queue.format(0, 4) + queue.format(1, 4)).layout.findings == ()
    anywhere = "".join(f"[queues.q{i}]\nbytes = 32\nnum = 13\n" for i in range(5))
    assert [f.message for f in answer_of(anywhere).layout.findings] == ["65 buffers in one kernel, at most 64"]


def test_a_call_whose_tiling_has_no_row():
    """SoftMaxFlashV2 with basic blocks halves its tile below 16384 elements: no row is left of 16384 columns."""
    api = 'api = "soft_max_flash_v2"\nshape = [16, 16384]\nis_basic_block = true\n'
    found = answer_of(f'[apis.f]\n{api}temp = "t"\n[temps.t]\nbytes = 100000\n')
    assert [(f.code, f.message) for f in found.layout.findings] == [
        ("E-TMP-TILING", "f: with 100000 B of temp the tiling has no row in a tile (split_m 0), so nothing is computed")
    ]


def test_a_tiling_that_cann_objects_to_is_a_finding():
    api = (
        'api = "soft_max_flash_v2"\nshape = [6, 1664]\ndtype = "half"\nsum_dtype = "half"\nis_flash_output_brc = true\n'
    )
    found = answer_of(f'[apis.f]\n{api}temp = "t"\n[temps.t]\nbytes = 41184\n')
    small, refused = found.layout.findings
    assert (small.code, refused.code) == ("E-TMP-SMALL", "E-TMP-TILING")
    assert refused.message.startswith("f: with 41184 B of temp: SoftMaxFlashV2TilingFunc: with is_flash_output_brc a ")
    small = '[apis.l]\napi = "log_soft_max"\nshape = [8, 64]\ntemp = "t"\n[temps.t]\nbytes = 32\n'
    assert [f.code for f in answer_of(small).layout.findings] == ["E-TMP-SMALL", "E-TMP-TILING"]


def test_the_head_is_what_tests_use():
    assert plan_of("").device.name == "Ascend910B2"
    assert 'name = "p"' in HEAD
