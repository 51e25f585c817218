"""Who may import whom, as docs/design.md says."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "ascendsim"

LAYERS = {
    "terms": set(),
    "progress": set(),
    "errors": set(),
    "dtypes": {"errors", "terms"},
    "device": {"errors", "terms"},
    "memory": {"dtypes", "terms"},
    "isa": {"device", "dtypes", "errors", "isa", "memory", "terms"},
    "program": {"dtypes", "errors", "isa", "memory", "terms"},
    "tpipe": {"device", "dtypes", "errors", "isa", "memory", "terms"},
    "builder": {"device", "errors", "isa", "memory", "program", "terms", "tpipe"},
    "record": {"builder", "device", "dtypes", "errors", "isa", "memory", "program", "progress", "terms", "tpipe"},
    "op_host": {"device", "dtypes", "errors", "op_host", "terms"},
    "op_kernel": {"dtypes", "errors", "isa", "memory", "op_host", "op_kernel", "record", "terms", "tpipe"},
    "reference": {"reference"},
    "engine": {"engine", "errors", "progress", "terms"},
    "execute": {"device", "dtypes", "errors", "isa", "memory", "program", "progress", "terms"},
    "cost": {"device", "engine", "errors", "isa", "program", "terms"},
    "analysis": {"engine", "isa", "program", "terms"},
    "checks": {"analysis", "checks", "device", "errors", "program", "terms"},
    "result": {"analysis", "device", "engine", "errors", "program", "terms"},
    "words": {"analysis", "engine", "record", "result", "terms"},
    "report": {"errors", "result", "terms", "words"},
    "trace": {"__init__", "analysis", "device", "engine", "isa", "program", "result", "terms"},
    "plot": {"analysis", "device", "engine", "isa", "program", "result", "terms"},
}


def _modules():
    return sorted(p for p in PACKAGE.rglob("*.py"))


def _layer(path):
    parts = path.relative_to(PACKAGE).parts
    return parts[0].removesuffix(".py")


def _imports(tree):
    """(layer imported, line, whether inside a function)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ascendsim":
            parts = node.module.split(".")
            names = [parts[1]] if len(parts) > 1 else [a.name for a in node.names]
            for name in names:
                yield ("__init__" if name.startswith("__") else name), node
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("ascendsim"):
                    yield alias.name.split(".")[1], node


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_in_the_documented_direction(path):
    layer = _layer(path)
    if layer not in LAYERS:
        return
    allowed = LAYERS[layer] | {layer}
    for imported, node in _imports(ast.parse(path.read_text())):
        assert imported in allowed, f"{path.name}:{node.lineno}: {layer} imports {imported}"


def test_every_listed_layer_exists():
    present = {_layer(p) for p in _modules()}
    assert set(LAYERS) <= present


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_late_imports(path):
    if path.name in ("cli.py", "__init__.py"):
        return
    if path.name == "pytest_plugin.py":  # loaded by every pytest run of anybody
        return
    tree = ast.parse(path.read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            late = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
            assert not late, f"{path.name}:{late[0].lineno}: late import"


def test_no_cycles_between_modules():
    graph = {}
    for path in _modules():
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        graph[name] = {
            node.module.removeprefix("ascendsim.")
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ascendsim.")
        }
    done, open_ = set(), []

    def visit(name):
        assert name not in open_, f"cycle: {' -> '.join([*open_, name])}"
        if name in done or name not in graph:
            return
        open_.append(name)
        for other in sorted(graph[name]):
            visit(other)
        open_.pop()
        done.add(name)

    for name in graph:
        visit(name)


@pytest.mark.parametrize("path", sorted((PACKAGE / "op_kernel").glob("*.py")), ids=lambda p: p.name)
def test_kernels_hold_no_numpy_and_no_device_name(path):
    text = path.read_text()
    assert "numpy" not in text
    assert "Ascend910" not in text
    assert "_cycles" not in text


def test_no_device_name_in_a_condition():
    for path in _modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                constants = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant)]
                assert not any(isinstance(c, str) and c.startswith("Ascend") for c in constants), path


def test_the_library_does_not_print():
    for path in _modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print", f"{path.name}:{node.lineno}"


def test_only_dtypes_uses_ml_dtypes():
    users = [p.name for p in _modules() if "import ml_dtypes" in p.read_text()]
    assert users == ["dtypes.py"]
