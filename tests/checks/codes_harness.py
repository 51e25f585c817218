"""What the table of all codes is made of: a kernel, plan or temp size, all that the tools find in it, and one entry."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ascendsim import machine
from ascendsim.check_target import Asked, judge
from ascendsim.dtypes import dtype
from ascendsim.errors import InputError
from ascendsim.memory import LocalTensor
from ascendsim.plan.answer import answer
from ascendsim.plan.formulas import compiled
from ascendsim.plan.model import plan_file
from ascendsim.scenario import scenario_from
from ascendsim.terms import Pipe, TPosition
from ascendsim.tmpsize import tmp_size

B2, A310P, A310B, A950 = "Ascend910B2", "Ascend310P3", "Ascend310B1", "Ascend950PR_9579"


@dataclass(frozen=True)
class Entry:
    """One line of the table.

    Attributes:
        code: what `trigger` breaks, and nothing else.
        trigger: gives the findings of a mistake.
        neighbour: gives those of the legal program that differs least.
        texts: (message, hint) of each finding of `trigger`; () where only the code is held.
        beside: codes that every such mistake has, too: warnings are all reported, whatever else is found.
        severity: what it is reported as; "" where that is the code's letter, or no matter.
    """

    code: str
    trigger: Callable
    neighbour: Callable
    texts: tuple = ()
    severity: str = ""
    beside: tuple = ()


def local(name, kind, address, length, position=TPosition.VECCALC):
    """A tensor at an address of the kernel's own."""
    return LocalTensor(name, position, dtype(kind), address, length)


def scenario(gm=None, cores=1, soc=B2, auto_sync=True, **more):
    """A scenario of these GM tensors: name to (type, elements), or to a whole table; its kernel comes later."""
    tensors = {name: spec if isinstance(spec, dict) else _input(*spec) for name, spec in (gm or XY).items()}
    raw = {"schema": 1, "name": "codes", "device": soc, "kernel": "codes.py:kernel", "block_dim": cores,
           "tensors": tensors, "machine": {"auto_sync": auto_sync}} | more  # fmt: skip
    return scenario_from(raw, Path("codes.toml"), {})


def _input(kind, count):
    return {"role": "input", "shape": [count], "dtype": kind, "fill": "ones"}


XY = {"x": ("float", 4096), "y": ("float", 4096)}
OUT = {"x": ("float", 4096), "y": {"role": "output", "shape": [4096], "dtype": "float"}}


def checked(kernel, gm=None, **how):
    """All that `ascendsim check` finds in kernel(asc, *gm)."""
    return _with(kernel, lambda: machine.check(scenario(gm, **how)))


def ran(kernel, gm=None, **how):
    """All that `ascendsim run` finds in it, values and timeline included."""
    return _with(kernel, lambda: machine.run(scenario(gm, **how)).findings)


def _with(kernel, use):
    """A scenario's kernel is a function in a file; here it is handed over instead, less the tiling it does not take."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "_user_kernel", lambda _: lambda asc, *gm: kernel(asc, *gm[:-1]))
        return use()


def refused(rule, use):
    """A rule that is told by refusing the input: one finding where the text is the rule's."""
    try:
        return use()
    except InputError as error:
        found = rule.finding("block_dim", got=49, wanted=48, fill={"cores": "AIVs"})
        text = str(error)
    assert text.startswith(found.message)
    return (found,)


def planned(text):
    """What a plan's TOML text breaks."""
    plan = plan_file(tomllib.loads(f'schema = 1\nname = "p"\ndevice = "{B2}"\n{text}'), "p.toml", {})
    return answer(compiled(plan, "p.toml"), None).layout.findings


def sized(*arguments, **more):
    """What `ascendsim tmpsize` finds."""
    return tmp_size(*arguments, **more).findings


def judged(target, **asked):
    """What `ascendsim check TARGET` finds."""
    return judge(str(target), Asked(**asked)).findings


ENTRIES: list[Entry] = []


def entry(code, trigger, neighbour, *texts, severity="", beside=()):
    """Put a line into the table; texts are (message, hint) pairs."""
    ENTRIES.append(Entry(code, trigger, neighbour, texts, severity, beside))


def kernels(code, trigger, neighbour, *texts, severity="", beside=(), **how):
    """A line of two kernels that are checked alike."""
    programs = (lambda: checked(trigger, **how), lambda: checked(neighbour, **how))
    entry(code, *programs, *texts, severity=severity, beside=beside)


# ---- UB that holds something --------------------------------------------------------------------------------------

UB = local("ub", "float", 0, 0x4000)
"""What `ready` fills."""


def ready(asc):
    """Fill the first 16 KiB of UB, and wait for it on the vector pipe."""
    asc.duplicate(UB, 1.0, 4096)
    asc.pipe_barrier(Pipe.V)


def vector(code, trigger, neighbour, *texts, **how):
    """A line of two calls on UB that holds something."""
    kernels(code, *(_on_full_ub(call) for call in (trigger, neighbour)), *texts, **how)


def _on_full_ub(call):
    def kernel(asc, *gm):
        ready(asc)
        call(asc, *gm)

    return kernel


def flagged(asc, event, event_id=0):
    """Set a flag and wait for it."""
    asc.set_flag(event, event_id)
    asc.wait_flag(event, event_id)
