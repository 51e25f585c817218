"""Who may import whom, as docs/design.md says."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "ascendsim"

LAYERS = {
    "terms": set(),
    "progress": set(),
    "errors": set(),
    "jit": set(),
    "layout": {"terms"},
    "dtypes": {"errors", "terms"},
    "device": {"errors", "terms"},
    "memory": {"dtypes", "terms"},
    "isa": {"device", "dtypes", "errors", "isa", "jit", "layout", "memory", "terms"},
    "program": {"dtypes", "errors", "isa", "memory", "terms"},
    "tpipe": {"device", "dtypes", "errors", "isa", "memory", "terms"},
    "builder": {"device", "dtypes", "errors", "isa", "memory", "program", "terms", "tpipe"},
    "record": {"builder", "device", "dtypes", "errors", "isa", "memory", "program", "progress", "terms", "tpipe"},
    "op_host": {"device", "dtypes", "errors", "op_host", "terms"},
    "op_kernel": {"dtypes", "errors", "isa", "memory", "op_host", "op_kernel", "record", "terms", "tpipe"},
    "reference": {"reference"},
    "engine": {"engine", "errors", "jit", "progress", "terms"},
    "cross": {"terms"},
    "computed": set(),
    "looker": {"dtypes", "isa", "memory", "terms"},
    "context": {"dtypes", "errors", "isa", "memory", "program", "terms"},
    "pipes": {"cross", "errors", "isa", "program", "terms"},
    "turns": {"cross", "errors", "isa", "pipes", "program", "terms"},
    "dumps": {"context", "dtypes", "isa", "program", "terms"},
    "show_dumps": {"dumps", "result"},
    "late": set(),
    "colours": {"terms"},
    "run_timeline": {"engine"},
    "roofline": {"device", "dtypes", "engine", "isa", "program", "terms", "tuning"},
    "notebook": {"analysis", "colours", "errors", "report", "result", "terms"},
    "inspection": {
        *("context", "device", "dtypes", "engine", "errors", "execute", "isa", "looker", "memory", "program", "terms"),
    },
    "show_inspection": {"dumps", "inspection", "result"},
    "rerun": {"errors", "inspection", "machine", "result", "runfolder", "scenario"},
    "execute": {
        *("context", "device", "dtypes", "dumps", "errors", "isa", "memory", "program", "progress", "terms", "turns"),
    },
    "sample": {
        *("computed", "device", "errors", "execute", "isa", "looker", "memory", "program", "progress", "terms"),
        "turns",
    },
    "library": set(),
    "banks": {"device", "isa", "terms"},
    "cost": {"banks", "device", "dtypes", "engine", "errors", "isa", "memory", "program", "terms", "vector_timing"},
    "vector_timing": {"banks", "device", "dtypes", "errors", "isa", "terms"},
    "analysis": {"cross", "engine", "isa", "memory", "program", "terms"},
    "conflicts": {"banks", "cost", "device", "isa", "library", "program", "terms", "vector_timing"},
    "checks": {
        *(
            "analysis",
            "banks",
            "checks",
            "conflicts",
            "context",
            "cost",
            "cross",
            "device",
            "engine",
            "errors",
            "isa",
            "layout",
            "looker",
        ),
        *("library", "memory", "program", "terms"),
    },
    "fidelity": {
        *("cost", "device", "dtypes", "engine", "errors", "fidelity", "files", "isa", "machine", "memory", "op_host"),
        *("op_kernel", "program", "progress", "record", "schedule_input", "terms"),
    },
    "catalogue": {
        *("checks", "context", "errors", "isa", "machine", "op_host", "op_kernel", "plan", "record", "tmpsize"),
        "tpipe",
    },
    "show_rules": {"catalogue", "errors"},
    "leaning": {"cost", "device", "engine", "isa", "program", "terms"},
    "known_errors": {"errors"},
    "error_bar": {"known_errors", "leaning", "terms"},
    "window": {"engine", "errors", "program"},
    "beside": {"progress"},
    "work": set(),
    "comparison": set(),
    "tuning": {"analysis", "engine", "program", "terms"},
    "critical": {"analysis", "device", "engine", "program", "terms"},
    "schedule_input": {"cost", "cross", "device", "engine", "program", "terms"},
    "what_if": {"analysis", "device", "engine", "program", "schedule_input", "terms"},
    "result": {
        *("comparison", "critical", "tuning", "what_if", "work"),
        *(
            "analysis",
            "computed",
            "conflicts",
            "device",
            "dumps",
            "engine",
            "error_bar",
            "errors",
            "inspection",
            "known_errors",
            "late",
            "roofline",
            "run_timeline",
            "leaning",
            "program",
            "terms",
        ),
    },
    "words": {"analysis", "critical", "engine", "record", "result", "terms", "what_if"},
    "viewer": {
        *("__init__", "analysis", "colours", "engine", "errors", "isa", "program", "report", "result", "terms"),
        *("inspection", "kept_values", "places", "show_inspection", "viewer", "words"),
    },
    "kept_values": {"critical", "errors", "isa", "places", "program"},
    "report": {"analysis", "error_bar", "errors", "report_critical", "report_tuning", "result", "terms", "words"},
    "report_critical": {"critical", "result", "what_if"},
    "report_tuning": {"comparison", "engine", "result", "tuning"},
    "trace": {
        *(
            "__init__",
            "analysis",
            "cost",
            "critical",
            "engine",
            "errors",
            "isa",
            "memory",
            "program",
            "result",
            "terms",
        ),
        "trace",
    },
    "plot": {
        *("analysis", "colours", "critical", "device", "engine", "fidelity", "isa", "painter", "plan", "program"),
        *("result", "roofline", "stored", "terms", "tmpsize", "trace", "tuner", "tuning", "versus"),
    },
    "user_code": {"errors", "files"},
    "files": {"errors"},
    "arrays": {"dtypes", "errors", "files"},
    "fag_notes": {"errors", "op_host"},
    "fag_operator": {"device", "dtypes", "errors", "fag_notes", "op_host", "reference", "terms", "work"},
    "lag_notes": {"errors", "op_host"},
    "lag_operator": {"device", "dtypes", "errors", "lag_notes", "op_host", "reference", "terms", "work"},
    "call_file": {"errors", "files", "scenario"},
    "atb_request": {"call_file", "errors", "op_host"},
    "atb": {
        *("device", "dtypes", "errors", "fsg_answer", "lag_operator", "machine", "op_host", "result", "scenario"),
        "terms",
    },
    "fsg_answer": {
        *("checks", "device", "dtypes", "engine", "errors", "machine", "memory", "op_host", "op_kernel", "record"),
        "terms",
    },
    "show_fsg": {"aligned", "fsg_answer", "op_host", "show_estimate", "show_reasons"},
    "fsg_operator": {"device", "dtypes", "errors", "op_host", "reference", "terms", "work"},
    "fag": {
        *("device", "dtypes", "engine", "errors", "fag_answer", "fag_request", "machine", "op_host", "result"),
        *("scenario", "terms"),
    },
    "operators": {
        *("device", "dtypes", "errors", "fag_operator", "fsg_operator", "lag_operator", "op_host", "op_kernel"),
        *("record", "reference", "terms", "work"),
    },
    "scenario": {"device", "dtypes", "errors", "files", "operators"},
    "fills": {"dtypes", "errors", "scenario", "terms"},
    "expect": {"arrays", "errors", "operators", "result", "scenario", "user_code"},
    "machine": {
        *(
            "analysis",
            "arrays",
            "beside",
            "builder",
            "checks",
            "comparison",
            "computed",
            "context",
            "device",
            "dtypes",
            "dumps",
            "engine",
            "errors",
            "execute",
            "expect",
            "files",
            "fills",
            "inspection",
            "kept_values",
        ),
        *(
            "memory",
            "operators",
            "pipes",
            "program",
            "progress",
            "record",
            "result",
            "sample",
            "scenario",
            "schedule_input",
            "terms",
            "user_code",
            "window",
            "work",
        ),
    },
    "api": {
        *("checks", "device", "dtypes", "errors", "execute", "inspection", "machine", "memory", "op_host", "op_kernel"),
        *("program", "record", "result", "terms"),
    },
    "tmpsize": {
        *("checks", "device", "dtypes", "errors", "machine", "memory", "op_host", "op_kernel", "progress", "record"),
        *("terms", "tmpsize"),
    },
    "versus": {
        *(
            "aligned",
            "analysis",
            "dtypes",
            "engine",
            "errors",
            "files",
            "isa",
            "looker",
            "machine",
            "memory",
            "program",
            "progress",
        ),
        *("reference", "result", "runfolder", "terms", "trace", "tuning", "turns", "versus"),
    },
    "comparefolder": {"plot", "runfolder", "versus"},
    "show": {"device"},
    "show_fidelity": {"fidelity"},
    "fidelityfolder": {"fidelity", "plot", "runfolder", "show_fidelity"},
    "show_tmp": {"errors", "report", "tmpsize"},
    "tmpfolder": {"errors", "plot", "runfolder", "tmpsize"},
    "plan": {
        *("checks", "device", "dtypes", "errors", "isa", "machine", "op_host", "op_kernel", "operators", "plan"),
        *("files", "report", "scenario", "terms", "tmpsize", "tpipe"),
    },
    "tuner": {
        *("__init__", "errors", "files", "late", "machine", "op_host", "plan", "progress", "result", "runfolder"),
        *("scenario", "terms", "tuner"),
    },
    "show_tune": {"aligned", "tuner"},
    "notebook_tune": {"notebook", "show_tune", "tuner"},
    "painter": {"errors"},
    "stored": {
        *("__init__", "comparison", "computed", "device", "dtypes", "dumps", "engine", "errors", "program", "result"),
        "work",
    },
    "runfolder": {
        "__init__",
        "arrays",
        "errors",
        "files",
        "painter",
        "progress",
        "report",
        "result",
        "show_dumps",
        "stored",
        "trace",
        "viewer",
    },
    "commands": {
        *(
            "atb_request",
            "check_target",
            "comparefolder",
            "device",
            "errors",
            "fag_answer",
            "fag_request",
            "fidelity",
            "fidelityfolder",
            "files",
            "fsg_answer",
            "lag_answer",
            "lag_request",
            "machine",
            "op_host",
            "painter",
            "progress",
            "report",
            "rerun",
            "result",
            "runfolder",
            "scenario",
            "inspection",
        ),
        *(
            "plan",
            "plot",
            "sarif",
            "show",
            "show_dumps",
            "show_inspection",
            "show_fag",
            "show_lag",
            "show_findings",
            "show_fsg",
            "show_rules",
            "show_fidelity",
            "show_tmp",
            "show_tune",
            "tmpfolder",
            "tmpsize",
            "tuner",
            "versus",
            "window",
        ),
        *("terms", "words"),
    },
    "cli": {"__init__", "commands", "errors", "report"},
    "pytest_plugin": {"machine", "result"},
    "places": {"errors", "files"},
    "rule_codes": {"catalogue", "errors"},
    "check_kernel": {"errors", "files", "scenario", "terms"},
    "check_tiling": {"device", "dtypes", "errors", "machine", "op_host", "operators", "plan", "scenario", "terms"},
    "check_call": {"errors"},
    "check_fag": {"check_call", "errors", "fag_answer", "fag_notes", "fag_request", "op_host", "show_fag"},
    "check_lag": {"check_call", "errors", "lag_answer", "lag_request", "show_lag"},
    "check_target": {
        *("check_call", "check_fag", "check_kernel", "check_lag", "check_tiling", "errors", "files", "machine"),
        *("places", "plan", "rule_codes"),
        "scenario",
    },
    "fag_request": {"call_file", "errors", "op_host", "terms"},
    "fag_answer": {"device", "errors", "fag_request", "op_host", "terms"},
    "lag_request": {"atb_request", "call_file", "errors", "op_host", "terms"},
    "lag_answer": {"errors", "lag_request", "op_host"},
    "lag": {"device", "lag_answer", "lag_notes", "lag_request", "op_host"},
    "aligned": set(),
    "show_estimate": {"aligned", "device", "op_host"},
    "show_reasons": {"errors"},
    "show_fag": {"aligned", "fag_answer", "op_host", "show_estimate", "show_reasons", "terms"},
    "show_lag": {"aligned", "errors", "lag_answer", "op_host", "show_estimate", "show_reasons"},
    "show_findings": {"check_target", "errors", "places"},
    "sarif": {"__init__", "check_target", "errors", "places", "rule_codes", "runfolder"},
    "devices": set(),
    "__main__": {"cli"},
    "__init__": {
        "api",
        "atb",
        "device",
        "errors",
        "fag",
        "isa",
        "lag",
        "machine",
        "plot",
        "record",
        "rerun",
        "result",
        "scenario",
        "terms",
        "tmpsize",
        "tuner",
        "versus",
    },
}
"""What each module or package may import. Every one is here: a new one has to say where it belongs."""


def _modules():
    return sorted(p for p in PACKAGE.rglob("*.py"))


def _layer(path):
    parts = path.relative_to(PACKAGE).parts
    return parts[0].removesuffix(".py")


def _name(path):
    """A module's name inside the package; a package is its __init__."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


MODULES = {_name(p) for p in _modules()}


def _module_of(dotted):
    """The module that a dotted name inside the package stands for or comes from: engine.base.Kind is engine.base's."""
    parts = dotted.split(".") if dotted else []
    for length in range(len(parts), -1, -1):
        head = ".".join(parts[:length])
        for name in (head, f"{head}.__init__".lstrip(".")):
            if name in MODULES:
                return name
    raise AssertionError(dotted)


def _imports(nodes):
    """(module of the package that is imported, the node) of these statements, whatever the form of the import."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            package, _, inside = name.partition(".")
            if package == "ascendsim":
                yield _module_of(inside), node


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_in_the_documented_direction(path):
    layer = _layer(path)
    allowed = LAYERS[layer] | {layer}
    for module, node in _imports(ast.walk(ast.parse(path.read_text()))):
        imported = module.split(".")[0]
        assert imported in allowed, f"{path.name}:{node.lineno}: {layer} imports {imported}"


def test_every_module_belongs_to_a_listed_layer():
    assert set(LAYERS) == {_layer(p) for p in _modules()}


@pytest.mark.parametrize(
    ("statement", "modules"),
    [
        ("from ascendsim import analysis, __version__", ["analysis", "__init__"]),
        ("from ascendsim import engine as e", ["engine.__init__"]),
        ("from ascendsim.engine import reference", ["engine.reference"]),
        ("from ascendsim.engine.base import Kind, Wait", ["engine.base", "engine.base"]),
        ("import ascendsim.engine.link", ["engine.link"]),
        ("import numpy, ascendsim", ["__init__"]),
        ("from numpy import array", []),
    ],
)
def test_every_form_of_import_is_understood(statement, modules):
    assert [module for module, _ in _imports(ast.parse(statement).body)] == modules


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_late_imports(path):
    if _layer(path) in ("cli", "commands") or path.name == "__init__.py":
        return
    if path.name == "pytest_plugin.py":  # loaded by every pytest run of anybody
        return
    tree = ast.parse(path.read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            late = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
            assert not late, f"{path.name}:{late[0].lineno}: late import"


@pytest.mark.parametrize("path", sorted((PACKAGE / "commands").glob("*.py")), ids=lambda p: p.name)
def test_commands_load_little_and_no_other_command(path):
    """What is not imported late, every `ascendsim --help` loads."""
    shared = {f"commands.{name}" for name in ("bar", "interrupt", "options", "terminal")}
    light = {module for module, _ in _imports(ast.parse(path.read_text()).body)}
    assert light <= shared | {"errors", "files", "progress", "terms"}


def _cycle(graph):
    """Some cycle of a graph, as the names along it, or None."""
    done, open_ = set(), []

    def visit(name):
        if name in open_:
            return [*open_[open_.index(name) :], name]
        if name in done:
            return None
        open_.append(name)
        found = next(filter(None, map(visit, sorted(graph[name]))), None)
        open_.pop()
        done.add(name)
        return found

    return next(filter(None, map(visit, graph)), None)


def test_no_cycles_between_modules():
    graph = {_name(p): {module for module, _ in _imports(ast.parse(p.read_text()).body)} for p in _modules()}
    assert _cycle(graph) is None


def test_a_cycle_would_be_found():
    assert _cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert _cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


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
