"""Reading calls of operators: both commands read alike, and say the same where a call cannot be read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim import fag_request, lag_request
from ascendsim.aligned import aligned, columns
from ascendsim.call_file import joined_numbers, name_and_how
from ascendsim.check_call import options_of
from ascendsim.errors import InputError

FAG = {"shape": "1,2,256,256,128", "dtype": "bf16", "layout": "BNSD"}
LAG = {"shape": "1,4,512"}
BOTH = [
    pytest.param("fag", fag_request.request_of, FAG, id="fag"),
    pytest.param("lag", lag_request.request_of, LAG, id="lag"),
]


def refused(request_of, file, options):
    with pytest.raises(InputError) as caught:
        request_of(file, options)
    return str(caught.value)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A function that writes call.toml into the folder of the test."""
    monkeypatch.chdir(tmp_path)

    def write(text):
        (tmp_path / "call.toml").write_text(text)
        return "call.toml"

    return write


def table(command, call, more=""):
    return f"[{command}]\n" + "".join(f'{key} = "{value}"\n' for key, value in call.items()) + more


@pytest.mark.parametrize(("command", "request_of", "call"), BOTH)
class TestBothCommands:
    def test_a_file_and_options_ask_for_the_same(self, command, request_of, call, written):
        assert request_of(written(table(command, call)), {}) == request_of(None, call)

    def test_an_option_counts_more_than_the_file(self, command, request_of, call, written):
        other = {"soc": "Ascend910B3", "tensors": {"key": "null"}}
        file = written(table(command, call, 'soc = "Ascend910B2"\ntensors = {key = "empty", value = "null"}\n'))
        both = {"key": "null", "value": "null"}
        assert request_of(file, other) == request_of(None, {**call, **other, "tensors": both})

    def test_no_file(self, command, request_of, call):
        text = f"nope: no such file, want a .toml with a call under [{command}] (docs/{command}.md)"
        assert refused(request_of, "nope", {}) == text

    def test_a_file_without_the_table(self, command, request_of, call, written):
        text = f"call.toml: no [{command}]; a call stands under it (docs/{command}.md)"
        assert refused(request_of, written('name = "x"\n'), call) == text

    def test_a_key_beside_the_table(self, command, request_of, call, written):
        file = written(f"nam = 1\n{table(command, call)}")
        assert refused(request_of, file, {}).startswith("call.toml: nam: unknown key; the nearest are name, ")

    def test_a_wrong_value_is_named_where_it_was_said(self, command, request_of, call, written):
        reason = "'1,x': want whole numbers joined by commas, such as "
        assert refused(request_of, None, {**call, "shape": "1,x"}).startswith(f"--shape 1,x: {reason}")
        file = written(table(command, {**call, "shape": "1,x"}))
        assert refused(request_of, file, {}).startswith(f"call.toml: {command}.shape = 1,x: {reason}")

    def test_an_empty_value_leaves_no_gap(self, command, request_of, call, written):
        reason = "'': want whole numbers joined by commas, such as "
        assert refused(request_of, None, {**call, "shape": ""}).startswith(f"--shape: {reason}")
        file = written(table(command, {**call, "shape": ""}))
        assert refused(request_of, file, {}).startswith(f"call.toml: {command}.shape: {reason}")

    def test_a_tensor_is_named_where_it_was_said(self, command, request_of, call, written):
        file = written(table(command, call, "tensors = {query = 3}\n"))
        said = "want a valid string"
        assert refused(request_of, file, {"tensors": {"key": 4}}) == (
            f"call.toml: {command}.tensors.query = 3: {said}; --tensor key 4: {said}"
        )

    def test_an_option_that_is_no_table_stands_for_the_whole_table(self, command, request_of, call, written):
        file = written(table(command, call, 'tensors = {query = "null"}\n'))
        assert refused(request_of, file, {"tensors": 3}) == "--tensor 3: want a valid dictionary"


@pytest.mark.parametrize("table_name", ["fag", "lag"])
def test_a_key_inside_one_that_is_set_to_a_plain_value_is_refused(table_name):
    changes = {f"{table_name}.tensors": 3, f"{table_name}.tensors.query": "null"}
    with pytest.raises(InputError) as caught:
        options_of(Path("call.toml"), table_name, "layout", changes, None)
    text = f"--set {table_name}.tensors.query: {table_name}.tensors is set to 3, too; give one of the two"
    assert str(caught.value) == f"call.toml: {text}"


def test_a_mask_that_is_neither_name_nor_shape_is_named_once_for_each_way():
    told = "--atten-mask 3.5: want a valid string; --atten-mask 3.5: want a valid list"
    assert refused(fag_request.request_of, None, {**FAG, "atten_mask": 3.5}) == told


def test_a_key_of_an_inner_table_is_compared_with_that_table():
    told = "--set cv_s: unknown key; the nearest are cv_s2, cv_s1, cv_units"
    assert refused(fag_request.request_of, None, {**FAG, "tiles": {"cv_s": 3}}) == told


@given(st.lists(st.integers(), min_size=1))
def test_joined_numbers_are_read_back(numbers):
    assert joined_numbers("1,2")(",".join(map(str, numbers))) == numbers


def test_what_is_no_text_passes():
    assert joined_numbers("1,2")([3, "x"]) == [3, "x"]


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("query=null", ("query", "null")),
        ("query:a=b", ("query", "a=b")),
        ("query = a:b ", ("query", "a:b")),
        ("query", ("query", "")),
        ("query=", ("query", "")),
        ("=x", ("=x", "")),
        ("=x:y", ("=x", "y")),
        ("", ("", "")),
    ],
)
def test_name_and_how(text, split):
    assert name_and_how(text) == split


def test_columns_stand_below_each_other():
    rows = [("a", "b", ""), ("long", "1", "end"), ("", "1000", "")]
    assert list(columns(rows)) == ["a        b", "long     1  end", "      1000"]
    assert list(columns(rows, left=())) == ["   a     b", "long     1  end", "      1000"]
    assert list(columns(rows, left=(0, 1))) == ["a     b", "long  1     end", "      1000"]
    assert list(columns([])) == []


def test_aligned_rows_are_indented_and_their_numbers_grouped():
    assert list(aligned([("name", 1234), (5, "x")])) == ["  name  1,234", "  5         x"]
