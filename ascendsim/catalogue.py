"""The catalogue: every rule of the package by its code, and the codes that no program can break here yet.

Rules stand beside what checks them; this module only collects them, from the modules that `MODULES` names. Which
instructions have a rule follows from their declarations: the checks of their rows and what their calls report.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import ModuleType
from typing import Any

from ascendsim import context, machine, record, tpipe
from ascendsim.checks import (
    advice,
    banks,
    barriers,
    cross_flags,
    cube_advice,
    factors,
    flags,
    hazards,
    lifetimes,
    merging,
    static,
    suppress,
    traffic,
    unit_flag,
)
from ascendsim.errors import Rule, Severity
from ascendsim.isa import (
    atomic,
    compare,
    convert,
    cube_rules,
    dequant,
    fixpipe,
    gather,
    gather_mask,
    load,
    micro,
    mmad,
    move,
    nd2nz,
    overlap,
    rules,
    select,
    sync,
    tensor_extreme,
    tensor_reduce,
    transpose,
    transpose_square,
)
from ascendsim.isa.forms import Form
from ascendsim.isa.table import TABLE
from ascendsim.op_host import (
    atb,
    fag_buffering,
    fag_map,
    fag_rules,
    fag_run_rules,
    fast_softmax_grad,
    lag_checks,
    lag_rules,
    softmax_grad_operator,
)
from ascendsim.op_kernel import (
    call_checks,
    drop_out_checks,
    select_with_bytes_mask_checks,
    simple_softmax_checks,
    softmax_grad_checks,
    softmax_grad_surprises,
)
from ascendsim.plan import layout
from ascendsim.tmpsize import traps

MODULES: tuple[ModuleType, ...] = (
    *(
        rules,
        overlap,
        atomic,
        compare,
        convert,
        cube_rules,
        fixpipe,
        gather,
        gather_mask,
        load,
        micro,
        mmad,
        move,
        nd2nz,
        select,
        sync,
        tensor_extreme,
        tensor_reduce,
        transpose,
    ),
    *(transpose_square, tpipe, record, context, static, hazards, flags, cross_flags, lifetimes, machine),
    *(advice, banks, traffic, merging, barriers, suppress, unit_flag, cube_advice, factors),
    *(call_checks, softmax_grad_checks, softmax_grad_surprises, simple_softmax_checks),
    *(select_with_bytes_mask_checks, drop_out_checks, layout, traps, fag_map, fag_rules, fag_run_rules, fag_buffering),
    *(atb, fast_softmax_grad, lag_checks, lag_rules, softmax_grad_operator),
)
"""Every module that declares a rule, whether in a name of its own or in a dict."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A rule with all that is said of it.

    Attributes:
        rule: the base: code, condition, architectures, and the first of its messages.
        variants: the same rule in other words.
        instructions: AscendC names of the instructions whose declarations check it.
    """

    rule: Rule
    variants: tuple[Rule, ...]
    instructions: tuple[str, ...]

    @property
    def wordings(self) -> tuple[Rule, ...]:
        """The base and its variants."""
        return (self.rule, *self.variants)

    @property
    def severities(self) -> tuple[Severity, ...]:
        """What it is reported as, the gravest first: more than one where only some of its messages are graded."""
        found = {severity_of(rule) for rule in self.wordings}
        return tuple(severity for severity in Severity if severity in found)


@dataclass(frozen=True, slots=True)
class NotYet:
    """A code that no program can break here yet."""

    code: str
    title: str
    reason: str


def severity_of(rule: Rule) -> Severity:
    """Return what a rule's findings are reported as."""
    return Severity(rule.level or rule.code[0])


@cache
def entries() -> dict[str, Entry]:
    """Return every rule by its code, in the order of the codes."""
    all_rules = collected()
    users = _users()
    bases = {rule.code: rule for rule in all_rules if not rule.is_variant}
    return {
        code: Entry(
            base,
            tuple(rule for rule in all_rules if rule.code == code and rule.is_variant),
            tuple(sorted(users.get(code, ()))),
        )
        for code, base in sorted(bases.items())
    }


@cache
def not_yet() -> dict[str, NotYet]:
    """Return the codes that cannot occur yet, in the order of the codes."""
    text = resources.files("ascendsim.checks").joinpath("not_yet.toml").read_text(encoding="utf-8")
    return {code: NotYet(code, **said) for code, said in sorted(tomllib.loads(text).items())}


def collected() -> tuple[Rule, ...]:
    """Return every rule of the modules once, in the order of their declaration."""
    found = {id(rule): rule for module in MODULES for rule in rules_in(module)}
    return tuple(found.values())


def rules_in(module: ModuleType) -> Iterator[Rule]:
    """Every rule that a module names, its own and imported ones."""
    for value in vars(module).values():
        yield from _rules_of(value)


def _rules_of(value: Any) -> Iterator[Rule]:
    if isinstance(value, Rule):
        yield value
    elif isinstance(value, dict):
        yield from (rule for rule in value.values() if isinstance(rule, Rule))


def _users() -> dict[str, set[str]]:
    """AscendC names of the instructions that declare a rule, by its code."""
    found: dict[str, set[str]] = {}
    for api, rule in _declared():
        found.setdefault(rule.code, set()).add(api)
    return found


def _declared() -> Iterator[tuple[str, Rule]]:
    """Each rule that an instruction declares, of its rows and of its call, with the instruction's AscendC name."""
    for op in TABLE.values():
        for check in op.checks:
            yield from ((op.api, rule) for rule in getattr(check, "rules", ()))
    for owner in record.AiCore.__mro__:
        for form in vars(owner).values():
            if isinstance(form, Form):
                yield from ((form.op.api, rule) for rule in form.call.reports)
    yield from (("AddDeqRelu", rule) for rule in dequant.ADD_DEQ_RELU_REPORTS)
    yield from (("SetAtomicAdd", rule) for rule in atomic.ATOMIC_REPORTS)
