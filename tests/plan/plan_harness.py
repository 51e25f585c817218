"""Plans from text, for tests."""

import tomllib

from ascendsim.plan.answer import answer
from ascendsim.plan.formulas import compiled
from ascendsim.plan.model import plan_file

HEAD = 'schema = 1\nname = "p"\ndevice = "Ascend910B2"\n'


def plan_of(text, changes=None, head=HEAD):
    """The plan of a TOML text, called p.toml in messages."""
    return compiled(plan_file(tomllib.loads(head + text), "p.toml", changes or {}), "p.toml")


def answer_of(text, solve=None, changes=None, head=HEAD):
    """What the command answers for a TOML text."""
    return answer(plan_of(text, changes, head), solve)


def lines_of(found):
    """The map as (name, place, start, end, bytes, num)."""
    return [(e.name, e.place, e.start_bytes, e.end_bytes, e.bytes, e.num) for e in found.layout.entries]


def margins_of(found):
    """Free bytes by limit, or by place."""
    return {m.limit or m.place: m.margin_bytes for m in found.margins}


def messages_of(found):
    """Findings as (code, message)."""
    return [(f.code, f.message) for f in found.layout.findings]
