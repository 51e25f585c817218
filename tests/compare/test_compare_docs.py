"""The page shows what the command prints."""

import re

import pytest
from compare_harness import ROOT

PAGE = (ROOT / "docs/compare.md").read_text()


@pytest.fixture
def shown():
    """Commands of the page, in order, with the lines shown below each."""
    found = []
    for block in re.findall(r"(?:^(?: {4}.*)?\n)+", PAGE, re.MULTILINE):
        for part in re.split(r"^ {4}\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, re.sub(r"^ {4}", "", output, flags=re.MULTILINE).strip("\n")))
    return found


def test_examples_are_what_is_printed(shown, ascendsim, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "board").mkdir()
    exec(compile(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], "compare.md", "exec"), {})  # noqa: S102
    assert len(shown) == 5
    for command, output in shown:
        program, *arguments = command.split()
        assert program == "ascendsim"
        done = ascendsim(*arguments, cwd=tmp_path, code=3 if "--outputs" in arguments else 0)
        if output != "...":
            assert done.stdout == f"{output}\n", command
