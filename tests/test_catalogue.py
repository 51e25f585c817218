"""The catalogue of rules: complete, each code once, honest about which instructions check what, and shown as it is."""

import ast
import json
import re

import pytest
from conftest import ROOT

from ascendsim import catalogue, show_rules
from ascendsim.catalogue import MODULES, collected, entries, not_yet, rules_in
from ascendsim.device import device_names, load_device
from ascendsim.errors import InputError, Rule, Severity
from ascendsim.isa import rules
from ascendsim.isa.forms import Form
from ascendsim.isa.instruction import RowCheck
from ascendsim.isa.table import TABLE
from ascendsim.op_host.softmax import SOFTMAX_GRAD_ARCHS
from ascendsim.record import AiCore

PACKAGE = ROOT / "ascendsim"

CATALOGUE = """
E-CAP-UB W-CAP-UB-SAFE E-CAP-UB-RESERVED E-CAP-UB-POP E-CAP-UB-HW W-CAP-UB-HOST E-CAP-L1 E-CAP-L0A E-CAP-L0B
E-CAP-L0C E-CAP-BT E-CAP-FB E-CAP-QUE E-CAP-BUF E-CAP-TSCM E-CAP-BUFPOOL E-CAP-BLOCKS E-CAP-WORKSPACE E-ALIGN-UB
E-ALIGN-GM W-ALIGN-GM E-ALIGN-L1 E-ALIGN-L0 E-ALIGN-L0C E-ALIGN-BT W-ALIGN-BIAS128 E-ALIGN-FB E-ALIGN-COUNT
E-ALIGN-REDUCE E-ALIGN-COMPARE E-ALIGN-OFFSET E-ALIGN-LASTAXIS E-ALIGN-FRACTAL E-ALIGN-TRANS5HD E-RANGE-REPEAT
W-REPEAT-ZERO E-RANGE-MASK E-MASK-ZERO E-RANGE-STRIDE E-OOB-LOCAL E-OOB-GM E-OOB-BUFFER E-RANGE-COPY E-COPY-ZERO
E-RANGE-PAD E-RANGE-ND2NZ E-RANGE-NZ2ND E-RANGE-LOAD E-LOAD-NOP E-COUNTER-COPY W-MASK-MODE E-TMP-REDUCE E-TMP-DTYPE
E-TMP-SMALL E-TMP-TRANSPOSE E-SELMASK E-INDEX-RANGE E-BRCB-SRC E-CORE-ROLE E-DTYPE-OP E-DTYPE-BF16 E-CAST-PAIR
E-CAST-ROUND E-MMAD-DTYPE E-FIX-QUANT E-DTYPE-ATOMIC E-API-PRODUCT E-PATH E-MODE-NZ W-DEPRECATED I-NAME-910B
E-OVERLAP E-OVERLAP-TENSOR E-OVERLAP-WIDEN E-OVERLAP-GATHER E-OVERLAP-TMP E-HAZARD-V E-HAZARD-MTE E-HAZARD-MM
W-HAZARD-FIX E-RACE-RAW E-RACE-WAR E-RACE-WAW E-RACE-GM E-RACE-SUBBLOCK W-RACE-ATOMICORDER W-RACE-DCACHE
E-SYNC-UNPAIRED E-SYNC-DUPLICATE E-SYNC-ID E-SYNC-PAIR E-SYNC-MISMATCH E-SYNC-DEADLOCK E-SYNC-BARRIER-S
E-SYNC-EXHAUST E-SYNC-LEAKID E-QUE-STATE E-QUE-DEPTH E-QUE-EMPTY E-QUE-LEAK E-PIPE-MULTI W-SYNC-REDUNDANT
W-SYNC-BARRIERALL E-XSYNC-MODE E-XSYNC-ID E-XSYNC-OVERFLOW E-XSYNC-MODE4 E-XSYNC-BLOCK E-SYNC-WORKSPACE
W-XSYNC-STALL E-MEM-FREED-READ E-MEM-FREED-WRITE E-MEM-DOUBLEFREE E-MEM-LEAK W-MEM-UNINIT W-MEM-DEADSTORE
W-BUF-UNUSED E-BUF-NOINIT E-BUF-POSITION E-BUF-ROLE E-BUF-POPSTACK E-BUF-ADDRMIX E-BUF-OFFSET E-MMAD-DIM E-MMAD-K
E-MMAD-LAYOUT E-MMAD-GEMV E-MMAD-INIT W-MMAD-NAN E-UNITFLAG E-FIX-PARAM E-FIX-NZ2ND E-FIX-SPLIT E-FIX-DUAL
E-FIX-QUANTVAL W-FIX-SCALELOSS W-ND2NZ-ROWS E-LOAD-TRANS E-ATOMIC-LEFTON W-ATOMIC-NOINIT W-NUM-RECIP
W-NUM-HALFREDUCE W-NUM-OVERFLOW W-NUM-NAN W-NUM-SATURATE W-NUM-NEGZERO E-SMG-DTYPE E-SMG-SHAPE E-SMG-FRONT
E-SMG-BASIC W-SMG-PADDING E-SMG-PRODUCT E-BCAST E-DROPOUT W-REUSE E-FSG-PARAM E-FSG-TENSOR W-FSG-TMP E-FSG-PRODUCT
E-LAG-PARAM E-LAG-SHAPE E-FAG-NULL E-FAG-DTYPE E-FAG-SHAPE E-FAG-MASK W-TILE-IDLE W-BANK-RR W-BANK-RW W-BANK-WW
W-BANK-3510 W-BANK-SUBBANK W-MTE-SMALL W-MTE-TAIL W-GM-SAMEADDR W-GM-L2 W-VEC-SHORT W-VEC-TAIL W-RED-WHOLE W-NODB
W-SCALAR W-CUBE-UTIL
""".split()
"""The codes that were planned; rules beyond them are welcome, codes may not vanish."""

# ---- declared once, and completely ------------------------------------------------------------------------------


def _trees():
    for path in sorted(PACKAGE.rglob("*.py")):
        name = "ascendsim." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        yield name, ast.parse(path.read_text())


def _makes_a_rule(node):
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        return node.func.attr == "saying"
    return isinstance(node.func, ast.Name) and node.func.id == "Rule"


def _declared_by(tree):
    """The calls that make rules as the value of a name of the module, or of an entry of its dict."""
    for statement in tree.body:
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.Assign | ast.AnnAssign) and value is not None:
            values = value.values if isinstance(value, ast.Dict) else [getattr(value, "value", value)]
            values = values if not isinstance(value, ast.Call) else [value]
            yield from (v for v in values if _makes_a_rule(v))


def test_every_module_with_rules_is_collected():
    with_rules = {name for name, tree in _trees() if any(map(_makes_a_rule, ast.walk(tree)))}
    assert with_rules - {"ascendsim.errors"} == {module.__name__ for module in MODULES}


def test_rules_are_declared_where_they_are_found():
    """Not inside functions, lists or tuples, which nobody would look into."""
    for name, tree in _trees():
        made = [node for node in ast.walk(tree) if _makes_a_rule(node)]
        if name != "ascendsim.errors":
            assert sorted(n.lineno for n in made) == sorted(n.lineno for n in _declared_by(tree)), name


def test_every_code_has_one_base():
    bases = [rule.code for rule in collected() if not rule.is_variant]
    assert sorted(bases) == sorted(set(bases))
    assert list(entries()) == sorted(bases)


def test_every_variant_has_a_base():
    codes = {rule.code for rule in collected() if not rule.is_variant}
    assert {rule.code for rule in collected() if rule.is_variant} <= codes


def test_a_second_base_or_a_lonely_variant_would_be_seen(monkeypatch):
    class Module:
        AGAIN = Rule("E-ALIGN-UB", "m", "h", "s")
        LONELY = Rule("E-NOWHERE", "m", "h", "s").saying("n")

    monkeypatch.setattr(catalogue, "MODULES", (*MODULES, Module))
    with pytest.raises(AssertionError):
        test_every_code_has_one_base()
    with pytest.raises(AssertionError):
        test_every_variant_has_a_base()


@pytest.mark.parametrize("rule", collected(), ids=lambda rule: f"{rule.code}: {rule.message}")
def test_a_rule_says_all_it_has_to(rule):
    assert re.fullmatch(r"[EWI](-[A-Z0-9]+)+", rule.code)
    assert rule.level in ("", "E", "W", "I")
    assert all((rule.message, rule.hint, rule.source))
    assert re.fullmatch(r"[A-Z].*[^.]\.", rule.condition), "one sentence"
    base = entries()[rule.code].rule
    assert (rule.condition, rule.archs) == (base.condition, base.archs)


def test_architectures_are_known_ones():
    known = {load_device(name).npu_arch for name in device_names()} | set(SOFTMAX_GRAD_ARCHS)
    assert {arch for entry in entries().values() for arch in entry.rule.archs} <= known


def test_a_dict_of_rules_is_looked_into():
    assert {r.code for r in rules_in(catalogue.layout)} >= {"E-CAP-L1", "E-CAP-L0A", "E-CAP-BT", "E-CAP-FB"}


def test_saying_keeps_what_is_not_given():
    base = Rule("E-X", "m", "h", "s", level="W", condition="C.", archs=(2201,))
    assert base.saying("n") == Rule("E-X", "n", "h", "s", "W", "C.", (2201,), is_variant=True)
    assert base.saying("n", "i", "t", "I") == Rule("E-X", "n", "i", "t", "I", "C.", (2201,), is_variant=True)


# ---- which instructions check what ------------------------------------------------------------------------------

ISA = sorted((PACKAGE / "isa").glob("*.py"))
HELPERS = {
    "lacking": {"API_PRODUCT"},
    "_narrow": {"DTYPE_BF16", "BF16_NOT_MODELLED"},
    "reduce_dst_aligned": {"ALIGN_REDUCE"},
    "_out_of_bounds": {"OOB_LOCAL", "OOB_LOCAL_BEFORE"},
    "_not_here": {"DTYPE_HERE"},
    "_off_memory_boundary": {"ALIGN_UB", "ALIGN_L1", "ALIGN_L0", "ALIGN_L0C", "ALIGN_BT", "ALIGN_FB"},
    "_nothing": {"LOAD_NOP"},
    "in_bounds": {"OOB_LOCAL", "OOB_LOCAL_BEFORE"},
    "_scale": {"FIX_QUANTVAL", "FIX_SCALELOSS"},
    "_between": {"OVERLAP", "OVERLAP_LATER", "OVERLAP_NONE", "OVERLAP_WIDEN"},
}
"""Functions that find something for a check."""
RULE_IS_GIVEN = ("fields_in", "off_boundary")
"""Functions that find something of the rule that they are given."""


def _name(node):
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _checks(tree):
    """Functions with the parameters of a check."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and [a.arg for a in node.args.args] == [
            "row",
            "tensors",
            "device",
            "where",
        ]:
            yield node


def _found_in(function):
    found = set()
    for call in ast.walk(function):
        if isinstance(call, ast.Call):
            if _name(call.func) == "finding":
                found.add(_name(call.func.value))
            found |= HELPERS.get(_name(call.func), set())
            if _name(call.func) in RULE_IS_GIVEN:
                found |= {_name(argument) for argument in call.args if _name(argument)[:1].isupper()}
    return found


@pytest.mark.parametrize("path", ISA, ids=lambda p: p.name)
def test_checks_say_which_rules_they_find(path):
    for function in _checks(ast.parse(path.read_text())):
        said = [d for d in function.decorator_list if _name(getattr(d, "func", d)) == "finds"]
        assert len(said) == 1, f"{path.name}: {function.name}"
        assert {_name(a) for a in said[0].args} == _found_in(function), f"{path.name}: {function.name}"


def test_every_check_of_the_table_says_what_it_finds():
    checks = {check for op in TABLE.values() for check in op.checks}
    assert checks
    assert all(isinstance(check, RowCheck) and check.rules for check in checks)
    assert rules.in_bounds.__name__ == "in_bounds"
    assert rules.in_bounds.__doc__.startswith("Active lanes stay inside")


def _reported_in(tree):
    """Names of the rules that a module's calls report."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _name(n.func) == "report"]
    return {_name(call.args[0]) for call in calls}


def _said_to_be_reported(tree):
    """Names in `reports = (...)` of a module's classes, or in a constant that ends with _REPORTS."""
    for node in (n for n in ast.walk(tree) if isinstance(n, ast.Assign)):
        name = _name(node.targets[0])
        if name == "reports" or name.endswith("_REPORTS"):
            names = (_name(n) for n in ast.walk(node.value))
            yield from (n for n in names if n.isupper())


MASKS = {"RANGE_MASK", "RANGE_MASK_BITS"}


@pytest.mark.parametrize("path", ISA, ids=lambda p: p.name)
def test_calls_say_which_rules_they_report(path):
    """A mask that is too large is left to the next test: it is reported by what all forms share."""
    tree = ast.parse(path.read_text())
    assert set(_said_to_be_reported(tree)) - MASKS == _reported_in(tree) - MASKS


def test_forms_with_a_mask_say_that_it_is_checked():
    """Every call that takes a mask, but for GatherMask, whose mask is a number of elements."""
    forms = [f for owner in AiCore.__mro__ for f in vars(owner).values() if isinstance(f, Form)]
    masked = {f.op.api for f in forms if "mask" in f.call.__call__.__annotations__}
    said = set(entries()["E-RANGE-MASK"].instructions)
    assert masked - {"GatherMask"} == said - {"AddDeqRelu"}


@pytest.mark.parametrize(
    ("code", "instructions"),
    [
        ("E-SYNC-ID", ("SetFlag", "WaitFlag")),
        ("E-SYNC-BARRIER-S", ("PipeBarrier",)),
        ("E-COPY-ZERO", ("DataCopy", "DataCopyPad", "Fixpipe")),
        ("E-ALIGN-COUNT", ("DataCopy",)),
        ("E-SELMASK", ("Select",)),
        ("E-CAP-UB-RESERVED", ("AddDeqRelu", "Select")),
        ("E-TMP-REDUCE", ("ReduceMax", "ReduceMin", "ReduceSum")),
        ("E-OVERLAP-GATHER", ("Brcb", "Gather", "Gatherb", "TransDataTo5HD")),
        ("E-INDEX-RANGE", ("Gather", "GatherMask", "ReduceMax", "ReduceMin")),
        ("E-HAZARD-VF", ("VectorFunction",)),
        ("W-MEM-UNINIT", ()),
        ("E-SMG-SHAPE", ()),
    ],
)
def test_instructions_of_a_rule(code, instructions):
    assert entries()[code].instructions == instructions


# ---- codes that cannot occur yet --------------------------------------------------------------------------------


def test_the_planned_codes_are_181():
    assert len(CATALOGUE) == len(set(CATALOGUE)) == 181


def test_every_planned_code_is_a_rule_or_has_a_reason():
    assert set(CATALOGUE) - set(entries()) - set(not_yet()) == set()


def test_a_code_that_cannot_occur_is_planned_and_no_rule():
    assert set(not_yet()) <= set(CATALOGUE)
    assert set(not_yet()) & set(entries()) == set()


@pytest.mark.parametrize("known", not_yet().values(), ids=lambda known: known.code)
def test_a_code_that_cannot_occur_says_why(known):
    assert known.title[0].isupper()
    assert not known.title.endswith(".")
    assert re.fullmatch(r"[A-Z].*\.", known.reason)


# ---- shown ------------------------------------------------------------------------------------------------------


def test_list_as_json(ascendsim):
    listed = json.loads(ascendsim("check", "--list", "--json").stdout)
    assert [one["code"] for one in listed] == sorted(entries())
    assert {
        "code": "E-CAST-PAIR",
        "severity": ["E"],
        "architectures": [],
        "condition": "Cast gets a pair of source and destination types that the architecture does not convert.",
    } in listed
    assert next(one for one in listed if one["code"] == "E-RANGE-STRIDE")["severity"] == ["E", "W"]
    assert next(one for one in listed if one["code"] == "E-HAZARD-VF")["architectures"] == [3510]


def test_list_as_a_table(ascendsim):
    lines = ascendsim("check", "--list").stdout.splitlines()
    assert lines[0].split() == ["code", "severity", "arch", "condition"]
    assert lines[-1].strip() == f"{len(entries())} rules; {len(not_yet())} more codes cannot occur yet (docs/checks.md)"
    assert [line.split()[0] for line in lines if re.match(r"[EWI]-", line)] == sorted(entries())


def test_explain(ascendsim):
    words = " ".join(ascendsim("check", "--explain", "E-COPY-ZERO").stdout.split())
    assert words == (
        "E-COPY-ZERO found when DataCopy, DataCopyPad or Fixpipe gets a length or a number of bursts of 0. "
        "severity warning, graded from the code's E by asc-devkit, data copy checks, where it is a warning "
        "architectures all message {api} copies nothing: {what} is 0 to mend it guard the call "
        "source asc-devkit, data copy checks, where it is a warning checked by DataCopy, DataCopyPad, Fixpipe"
    )


def test_explain_shows_all_messages_with_their_severity(ascendsim):
    words = " ".join(ascendsim("check", "--explain", "e-range-stride").stdout.split())
    assert "severity error or warning, graded from the code's E by asc-devkit docs, Gatherb page, where it is" in words
    assert "message {api} {what} {got} is out of range {wanted} (error) to mend it" in words
    assert "message Gatherb dst_blk_stride 0 is taken as 1 (warning) to mend it write 1" in words


def test_explain_as_json(ascendsim):
    assert json.loads(ascendsim("check", "--explain", "W-CAST-PAIR", "--json").stdout) == {
        "code": "W-CAST-PAIR",
        "can_occur": True,
        "severity": ["W"],
        "condition": "Cast gets a pair of types that is in the library's code and not on its page.",
        "architectures": [2002],
        "wordings": [
            {
                "message": "Cast: {got} is in the library's code for arch {arch}, not on the page",
                "hint": "cast to half first if only the page counts",
                "source": "asc-devkit docs, Cast page; the library's code",
                "severity": "W",
            }
        ],
        "instructions": ["Cast"],
    }


def test_explain_what_cannot_occur_yet(ascendsim):
    words = " ".join(ascendsim("check", "--explain", "E-BCAST").stdout.split())
    assert words == (
        "E-BCAST what it is about Broadcast arguments out of range why it cannot occur yet Broadcast is not modelled."
    )
    assert json.loads(ascendsim("check", "--explain", "E-BCAST", "--json").stdout) == {
        "code": "E-BCAST",
        "can_occur": False,
        "title": "Broadcast arguments out of range",
        "reason": "Broadcast is not modelled.",
    }


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("E-ALIGNUB", "--explain E-ALIGNUB: no such code; did you mean E-ALIGN-UB, E-ALIGN-FB, E-ALIGN-BT?"),
        ("zzz", "--explain zzz: no such code; `ascendsim check --list` lists all"),
    ],
)
def test_explain_an_unknown_code(code, text, ascendsim):
    done = ascendsim("check", "--explain", code, code=2)
    assert done.stdout == ""
    assert done.stderr == f"error: {text}\n"
    with pytest.raises(InputError, match=re.escape(text)):
        show_rules.explain(code)


def test_check_wants_something_to_do(ascendsim):
    assert ascendsim("check", code=2).stderr == (
        "error: check: name a scenario, plan, tiling or kernel, or use --list or --explain CODE\n"
    )


def test_severities_are_the_gravest_first():
    assert entries()["E-RANGE-STRIDE"].severities == (Severity.ERROR, Severity.WARNING)
    assert entries()["E-BRCB-SRC"].severities == (Severity.ERROR, Severity.WARNING)
    assert entries()["I-SMG-ORIM"].severities == (Severity.INFO,)


def test_the_page_holds_the_tables_of_the_catalogue():
    """`python tools/write_checks.py` writes them anew."""
    page = (ROOT / "docs/checks.md").read_text()
    assert show_rules.with_tables(page) == page
    assert page.count("\n| `") == len(entries()) + len(not_yet()) + 13


def test_a_table_of_the_page_is_written_anew():
    page = "a\n<!-- rules: begin -->\nold\n<!-- rules: end -->\nb\n<!-- not-yet: begin -->\n<!-- not-yet: end -->\nc\n"
    parts = show_rules.with_tables(page).split("\n| ")
    assert parts[0] == "a\n<!-- rules: begin -->"
    assert ">\nold" not in "".join(parts)
    assert show_rules.with_tables(page).endswith("\n<!-- not-yet: end -->\nc\n")
