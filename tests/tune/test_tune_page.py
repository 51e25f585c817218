"""docs/tune.md: its commands, in their order, print what it shows, and its Python runs."""

import fnmatch
import re
import shlex

import pytest
from tune_harness import ROOT, command

PAGE = (ROOT / "docs" / "tune.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^ {4}\$ ascendsim (.*)\n((?: {4}.*\n|\n(?= {4}))*)", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("page")


@pytest.mark.parametrize(("line", "shown"), SHOWN, ids=[line.split()[0] for line, _ in SHOWN])
def test_commands_print_what_the_page_shows(line, shown, folder):
    words = shlex.split(line)
    done = command(*words, *(("--workers", "1") if words[0] == "tune" else ()), cwd=folder)
    assert done.returncode == 0
    lines = [text.removeprefix("    ") for text in shown.splitlines()]
    wanted = "\n".join("*" if text == "..." else text.replace("[", "[[]") for text in lines)
    assert fnmatch.fnmatchcase(done.stdout.rstrip("\n"), wanted), done.stdout


def test_there_are_commands():
    assert [line.split()[0] for line, _ in SHOWN] == ["tune", "export"]


def test_python_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], "tune.md", "exec"), {})  # noqa: S102 - our own
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "5 12343 13660 9.6%",
        "[6, 4, 2, 5, 3, 1] [6]",
        "buffer_num +53.1% {1: 18891, 2: 12343}",
        "tile_m +30.1% {3: 16062, 4: 13660, 5: 12343}",
    ]
    assert [path.name for path in sorted((tmp_path / "out" / "tuned").iterdir())] == [
        "softmaxgrad_960x960_float_tuned.toml",
        "softmaxgrad_960x960_float_tuned_tiling.h",
    ]
