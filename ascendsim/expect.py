"""A scenario's [expect], judged against its result."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.arrays import load_array
from ascendsim.errors import InputError
from ascendsim.operators import Reference
from ascendsim.result import Expectation, RunResult
from ascendsim.scenario import ExpectSpec, PeakSpec, Range, Scenario, ValueSpec
from ascendsim.user_code import load_function

Array = NDArray[Any]


def judge(
    result: RunResult, scenario: Scenario, inputs: Mapping[str, Array], computed: Mapping[str, Array] | None = None
) -> RunResult:
    """Return the result with its expectations judged.

    Args:
        result: the run.
        scenario: what was run.
        inputs: the data.
        computed: for each output, which of its elements hold values; None for all.

    Raises:
        InputError: [expect] names an output, pair of pipes or reference that does not exist.
    """
    return replace(result, expectations=tuple(_judged(result, scenario, inputs, computed)))


def _judged(
    result: RunResult, scenario: Scenario, inputs: Mapping[str, Array], computed: Mapping[str, Array] | None
) -> Iterator[Expectation]:
    expect = scenario.expect
    if expect.us is not None:
        yield _in_range("makespan us", expect.us, result.makespan_us)
    if expect.cycles is not None:
        yield _in_range("makespan cycles", expect.cycles, result.makespan_cycles)
    yield from _peaks(result, expect)
    shares = {f"{o.first.name},{o.second.name}": o.share for o in result.overlaps}
    shares |= {",".join(reversed(pair.split(","))): share for pair, share in shares.items()}
    for pair, limits in expect.overlap.items():
        key = pair.replace(" ", "")
        if key not in shares:
            raise InputError(f'expect.overlap."{pair}": pairs with work here are {", ".join(sorted(shares))}')
        yield _in_range(f"overlap {key}", limits, round(shares[key], 6))
    if expect.findings is not None:
        wanted, got = sorted(set(expect.findings)), sorted({f.code for f in result.findings})
        yield Expectation("findings", ", ".join(wanted) or "none", ", ".join(got) or "none", wanted == got)
    known: dict[str, Reference] = {}
    for name, spec in expect.values.items():
        if result.values == "none":
            yield Expectation(f"values of {name}", "within tolerance of the reference", "not computed", met=None)
        else:
            yield _values(result, scenario, inputs, name, spec, computed, known)


def _peaks(result: RunResult, expect: ExpectSpec) -> Iterator[Expectation]:
    """How far memories are used; one that nothing lies in has 0."""
    limits = {name: getattr(expect.peak_bytes, name, None) for name in PeakSpec.model_fields}
    for name, wanted in (("UB", expect.peak_ub_bytes), *limits.items()):
        if wanted is not None:
            yield _in_range(f"peak {name} bytes", wanted, result.peak_bytes.get(name, 0))


def _in_range(what: str, limits: Range, got: float) -> Expectation:
    low, high = limits.min, limits.max
    wanted = " and ".join(
        t for t in (f">= {low:g}" if low is not None else "", f"<= {high:g}" if high is not None else "") if t
    )
    met = (low is None or got >= low) and (high is None or got <= high)
    return Expectation(what, wanted or "anything", f"{got:g}", met)


def _values(
    result: RunResult,
    scenario: Scenario,
    inputs: Mapping[str, Array],
    name: str,
    spec: ValueSpec,
    computed: Mapping[str, Array] | None,
    known: dict[str, Reference],
) -> Expectation:
    """Judge an output; `known` keeps what the operator says of all of them."""
    if name not in result.outputs:
        raise InputError(f"expect.values.{name}: outputs are {', '.join(result.outputs)}")
    reference = _reference(scenario, inputs, name, spec, computed, known)
    got = result.outputs[name].astype(np.float64)
    if reference.values.size != got.size:
        shapes = f"the reference has shape {list(reference.values.shape)}, the output {list(got.shape)}"
        raise InputError(f"expect.values.{name}: {shapes}")
    got = got.reshape(reference.values.shape)
    with np.errstate(invalid="ignore", over="ignore"):  # infinite values are compared as such, not by a tolerance
        allowed = spec.atol + spec.rtol * np.abs(reference.values)
    if spec.bound == "operator":
        if reference.bound is None:
            raise InputError(f'expect.values.{name}: bound = "operator" needs reference = "operator"')
        allowed = allowed + reference.bound
    there = np.ones(got.shape, np.bool_) if computed is None else computed[name].reshape(got.shape)
    found = _compare(name, got, reference.values, allowed, there)
    return replace(found, got=f"{found.got}; {reference.note}") if reference.note else found


def _compare(name: str, got: Array, want: Array, allowed: Array, there: Array) -> Expectation:
    """Judge the values that were computed and that have a tolerance: an infinite one says that anything goes."""
    if not there.any():
        wanted = f"within tolerance of the reference, {int(there.sum())} values"
        return Expectation(f"values of {name}", wanted, "none of them was computed", met=None)
    there = there & ~np.isposinf(allowed)
    wanted = f"within tolerance of the reference, {int(there.sum())} values"
    with np.errstate(invalid="ignore"):
        off = np.where(there, np.abs(got - want), 0)
    same = (got == want) | (np.isnan(got) & np.isnan(want)) | ~there
    bad = ~same & ~(off <= allowed)
    if not bad.any():
        used = np.divide(off, allowed, out=np.zeros_like(off), where=~same & (allowed > 0))
        return Expectation(
            f"values of {name}", wanted, f"all within, at most {used.max(initial=0):.1%} of it used", met=True
        )
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    text = f"{int(bad.sum())} outside, first at {list(first)}: {got[first]:.9g}, reference {want[first]:.9g}"
    return Expectation(f"values of {name}", wanted, text, met=False)


def _reference(
    scenario: Scenario,
    inputs: Mapping[str, Array],
    name: str,
    spec: ValueSpec,
    computed: Mapping[str, Array] | None,
    known: dict[str, Reference],
) -> Reference:
    if (spec.reference is None) == (spec.file is None):
        raise InputError(f"expect.values.{name}: give exactly one of reference and file")
    if spec.file is not None:
        tensor = scenario.tensors[name]
        where = f"expect.values.{name}"
        array = load_array(scenario.folder / spec.file, spec.key, tensor.element, tuple(tensor.shape), where)
        with np.errstate(invalid="ignore"):  # a NaN that signals is one all the same
            return Reference(array.astype(np.float64), None)
    operator = scenario.find_operator()
    if spec.reference == "operator":
        if operator is None:
            raise InputError(f'expect.values.{name}: reference = "operator" needs an operator; name "file.py:function"')
        if name in operator.unwritten:
            raise InputError(f"expect.values.{name}: {operator.name} never writes {name}; leave it out")
        if name not in known:
            outputs = {n: scenario.tensors[n].element for n in operator.outputs if n in scenario.tensors}
            tiling = operator.tiling_model.model_validate(scenario.tiling)
            known |= operator.reference(inputs, tiling, outputs, scenario.load_device(), computed)
        return known[name]
    assert spec.reference is not None
    function = load_function(spec.reference, scenario.folder, f"expect.values.{name}.reference")
    return Reference(_from_user(function, inputs, name, spec.reference), None)


def _from_user(function: Any, inputs: Mapping[str, Array], name: str, text: str) -> Array:
    """Call a user's reference; what it raises becomes a message that names it."""
    try:
        values = function(dict(inputs))
        return np.asarray(values[name], np.float64)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise InputError(f"expect.values.{name}.reference = {text!r}: calling it failed: {what}") from error
