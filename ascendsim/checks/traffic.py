"""Advice on GM: how long copies are, where rows end, who reads the same block, how balanced cores are.

All executed copies of a program are arrays of one length; a template is looked at once, its calls all together.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.analysis import peak_ub_bytes
from ascendsim.checks.sums import holds_on
from ascendsim.device import Device
from ascendsim.errors import Finding, Rule
from ascendsim.isa.move import burst_geometry
from ascendsim.program import Program, Template
from ascendsim.terms import Buffer, CoreKind, ceil_div

SMALL = Rule(
    "W-MTE-SMALL",
    "{count} copies {way} GM tensor {tensor} of at most {got} B each; {wanted} B or more in one copy reach the full "
    "bandwidth",
    "copy larger tiles",
    "asc-devkit, constraints page 2201",
    condition="All copies at one kernel line are shorter than 3/4 of the bytes that full bandwidth takes, a core "
    "copies at least twice these bytes there, and UB has room for larger tiles.",
    archs=(2201,),
)
TAIL = Rule(
    "W-MTE-TAIL",
    "rows of {got} B {way} GM tensor {tensor} are no multiple of {wanted} B: {lines} blocks of {wanted} B are touched "
    "where padded rows touch {ideal} ({percent} % more); 21.6 % less throughput was measured with such rows",
    "pad the rows in GM to a multiple of the block",
    "asc-devkit, data_copy example; constraints page 2201",
    condition="A core copies several rows longer than a GM block whose length is no multiple of it, and they touch at "
    "least 5 % more blocks than padded rows would.",
    archs=(2201,),
)
SAME = Rule(
    "W-GM-SAMEADDR",
    "{got} cores read the same {wanted} B block of GM tensor {tensor} in {percent} % of their steps: such reads wait "
    "for one another, up to 1.54 times the time was measured",
    "let each core begin at another tile, such as (i + GetBlockIdx()) modulo the tiles",
    "asc-devkit, data_copy example; constraints page 2201",
    condition="At one kernel line the n-th copies of several cores start in one GM block, in at least half of the "
    "steps and as the addresses walk on.",
)
L2_SIZE = Rule(
    "W-GM-L2",
    "{percent} % of {again} B that are read again from GM come back only after more than the {wanted} B of L2 were "
    "read; {got} different B are read in all",
    "work through slices that fit into L2 before going on",
    "asc-devkit, data_copy example",
    condition="At least half of the bytes that are read again from the same address come back after more bytes than L2 "
    "holds.",
)
IDLE = Rule(
    "W-TILE-IDLE",
    "{got} of {wanted} {kind} have no rows to work on",
    "lower block_dim, or split the work finer",
    "asc-devkit docs, performance guide",
    condition="A core has nothing to do, or the busiest moves over 10 % more bytes than the average core.",
)
IMBALANCE = IDLE.saying(
    "the busiest of {wanted} {kind} moves {got} B from and to GM, {percent} % more than the average of {mean} B",
    "split the work finer, or spread what is left over cores",
)
RULES = (SMALL, TAIL, SAME, L2_SIZE, IDLE)

_KINDS = {CoreKind.AIV: "AIVs", CoreKind.AIC: "AICs", CoreKind.AICORE: "AIVs"}
"""What texts call cores; combined ones by their vector unit."""
SMALL_SHARE = 0.75
"""Part of the full-rate bytes from which on a copy is left alone; ours. By the vendor's fits a 12 KiB copy reaches
84 % of the rate of a 16 KiB copy, and nobody gains by an advice to go from 15 to 16 KiB."""
FEWEST_COPIES = 2
"""Full-rate copies that a core needs to have left; ours. With fewer, nothing overlaps: the 9 KiB a core of the shipped
MiniLM scenario take longer in one copy than in three."""
TAIL_SHARE = 0.05
"""Share of blocks that padding has to save; ours: below it what is gained is less than the data the padding adds."""
SAME_SHARE = 0.5
"""Share of steps in which cores have to meet; ours, so that neighbours that meet now and then are left alone."""
FAR_SHARE = 0.5
"""Share of the bytes read again that have to come from beyond L2; ours."""
IMBALANCE_SHARE = 0.10
"""How much more than the average the busiest core may move (catalogue of checks)."""

Ints = NDArray[np.int64]
Site = tuple[int, str, str]
"""Line, api and way ("from" or "to") of a copy."""


@dataclass(frozen=True)
class Traffic:
    """Every executed copy between GM and UB, in the order of calls and rows; arrays of one length.

    Attributes:
        sites: kernel line, api and direction of copies; `site` is an index into it.
        start: GM address; `tensor`: number of the GM tensor.
        count, length, pitch: bursts of each copy, bytes of one, bytes from one to the next in GM.
    """

    sites: tuple[Site, ...]
    site: Ints
    core: Ints
    tensor: Ints
    start: Ints
    count: Ints
    length: Ints
    pitch: Ints

    @cached_property
    def bytes(self) -> Ints:
        """Bytes of each copy."""
        return self.count * self.length

    def of_sites(self) -> "Iterator[tuple[Site, Traffic]]":
        """The copies of each site, in its order."""
        order = np.argsort(self.site, kind="stable")
        cuts = np.searchsorted(self.site[order], np.arange(len(self.sites) + 1))
        for number, site in enumerate(self.sites):
            yield site, self.at(order[cuts[number] : cuts[number + 1]])

    def at(self, chosen: Ints) -> "Traffic":
        """Some of the copies."""
        names = ("site", "core", "tensor", "start", "count", "length", "pitch")
        return replace(self, **{n: getattr(self, n)[chosen] for n in names})

    def per_core(self, values: Ints, cores: int) -> Ints:
        """Sum of values over each core's copies."""
        return np.bincount(self.core, weights=values, minlength=cores).astype(np.int64)


def traffic_of(program: Program) -> Traffic:
    """Spell out the copies of all calls."""
    sites: dict[Site, int] = {}
    parts = [_of_template(program, i, t, sites) for i, t in enumerate(program.templates)]
    columns = np.concatenate([np.zeros((8, 0), np.int64), *parts], axis=1)
    columns = columns[:, np.argsort(columns[0], kind="stable")]
    return Traffic(tuple(sites), *columns[1:])


@dataclass(frozen=True, slots=True)
class _Copy:
    """One copy of a template between GM and the memories of a core; see `Traffic`."""

    site: Site
    slot: int
    offset_bytes: int
    count: int
    length: int
    pitch: int


def _copies(template: Template) -> Iterator[_Copy]:
    for row in template.rows:
        if row.op.cost != "transfer":
            continue
        count, length, src_pitch, dst_pitch = burst_geometry(row)
        for role, operand in row.operands:
            ref = template.tensors[operand.tensor]
            if ref.buffer is Buffer.GM and count > 0 and length > 0:
                way, pitch = ("from", src_pitch) if role == "src0" else ("to", dst_pitch)
                yield _Copy((row.line, row.op.api, way), ref.slot, operand.offset_bytes, count, length, pitch)


def _of_template(program: Program, number: int, template: Template, sites: dict[Site, int]) -> Ints:
    """Columns call, site, core, tensor, start, count, length, pitch of a template's copies in all its calls."""
    copies = [
        (c.slot, c.offset_bytes, sites.setdefault(c.site, len(sites)), c.count, c.length, c.pitch)
        for c in _copies(template)
    ]
    if not copies:
        return np.zeros((8, 0), np.int64)
    slot, offset, site_of, *geometry = np.array(copies, np.int64).T
    calls = program.calls_of_template[number]
    at = program.calls["slot_start"][calls][:, None] + slot
    starts = program.slot_base_bytes[at] + offset
    cores = program.calls["core"][calls][:, None]
    columns = (calls[:, None], site_of, cores, program.slot_tensor[at], starts, *geometry)
    return np.stack([np.broadcast_to(c, starts.shape).reshape(-1) for c in columns]).astype(np.int64)


def traffic_advice(program: Program, device: Device) -> Iterator[Finding]:
    """W-MTE-SMALL, W-MTE-TAIL, W-GM-SAMEADDR and W-GM-L2."""
    traffic = traffic_of(program)
    if traffic.site.size == 0:
        return
    peak_bytes = cache(partial(peak_ub_bytes, program))
    for site, copies in traffic.of_sites():
        where = f"{site[1]} ({program.lines[site[0]]})"
        for tensor in np.unique(copies.tensor).tolist():
            part = copies.at(np.flatnonzero(copies.tensor == tensor))
            fill: dict[str, object] = {"tensor": program.gm[tensor].name, "way": site[2]}
            yield from _small(program, device, where, part, fill, peak_bytes)
            yield from _tail(program, device, where, part, fill)
            if site[2] == "from":
                yield from _same_address(device, where, part, fill)
    yield from _beyond_l2(program, device, traffic)


def _small(
    program: Program,
    device: Device,
    where: str,
    copies: Traffic,
    fill: dict[str, object],
    peak_bytes: Callable[[], int],
) -> Iterator[Finding]:
    """The largest copy of a site is too small, one core has more to copy there, and UB has room for it."""
    full = device.memory.gm_full_rate_bytes
    if full is None or not holds_on(SMALL, device):
        return
    size = int(copies.bytes.max())
    if size >= SMALL_SHARE * full.value:
        return
    if int(copies.per_core(copies.bytes, program.core_count).max()) < FEWEST_COPIES * full.value:
        return
    room = device.ub.visible_bytes.value / max(1, peak_bytes())
    if room < min(2.0, full.value / size):
        return
    need = ceil_div(full.value, size)
    hint = (
        f"larger tiles: {need} of these in one, as far as UB allows; it holds {int(room * 10) / 10} times what is used"
    )
    n = copies.site.size
    found = SMALL.finding(where, operand=str(fill["tensor"]), got=size, wanted=full.value, hint=hint,
                          fill=fill | {"count": n})  # fmt: skip
    yield replace(found, count=n)


def _tail(program: Program, device: Device, where: str, copies: Traffic, fill: dict[str, object]) -> Iterator[Finding]:
    """Blocks that rows touch, against those that padded rows at whole blocks would."""
    boundary = device.memory.gm_alignment_bytes
    if boundary is None or not holds_on(TAIL, device):
        return
    block = boundary.value
    if int(copies.per_core(copies.count, program.core_count).max()) < 2:
        return
    odd = copies.at(np.flatnonzero((copies.length % block != 0) & (copies.length > block) & (copies.count > 1)))
    if odd.site.size == 0:
        return
    kinds, times = np.unique(
        np.stack([odd.start % block, odd.count, odd.length, odd.pitch]), axis=1, return_counts=True
    )
    touched = sum(_blocks_of(kind, block) * n for kind, n in zip(kinds.T.tolist(), times.tolist(), strict=True))
    ideal = int((odd.count * -(-odd.length // block)).sum())
    if touched < (1 + TAIL_SHARE) * ideal:
        return
    more = {"lines": touched, "ideal": ideal, "percent": f"{100 * (touched / ideal - 1):.1f}"}
    length = int(odd.length.max())
    hint = f"pad the rows in GM to {ceil_div(length, block) * block} B"
    found = TAIL.finding(where, operand=str(fill["tensor"]), got=length, wanted=block, hint=hint, fill=fill | more)
    yield replace(found, count=int(odd.count.sum()))


def _blocks_of(kind: list[int], block: int) -> int:
    """Blocks that the bursts (start, count, length, pitch) of a copy touch, each counted for itself."""
    start, count, length, pitch = kind
    first = start + np.arange(count) * pitch
    return int(((first + length - 1) // block - first // block + 1).sum())


def _same_address(device: Device, where: str, copies: Traffic, fill: dict[str, object]) -> Iterator[Finding]:
    """The n-th copies of different cores start in one block, while the blocks walk on."""
    block = device.memory.gm_contended_bytes.value
    cores = int(np.unique(copies.core).size)
    at = copies.start // block
    if cores < 2 or not holds_on(SAME, device):
        return
    step = _ordinals(copies.core)
    if np.unique(at[step == 0]).size == np.unique(at).size:  # nobody walks on
        return
    _, which, together = np.unique(np.stack([step, at]), axis=1, return_inverse=True, return_counts=True)
    share = float((together[which.reshape(-1)] > 1).mean())
    if share < SAME_SHARE:
        return
    fill = fill | {"percent": round(100 * share)}
    found = SAME.finding(where, operand=str(fill["tensor"]), got=int(together.max()), wanted=block, fill=fill)
    yield replace(found, count=int(copies.site.size))


def _ordinals(core: Ints) -> Ints:
    """Which of its core's elements each element is, counted from 0."""
    order = np.argsort(core, kind="stable")
    ordered = core[order]
    number = np.arange(core.size) - np.searchsorted(ordered, ordered)
    found = np.empty_like(number)
    found[order] = number
    return found


def _beyond_l2(program: Program, device: Device, traffic: Traffic) -> Iterator[Finding]:
    """Bytes read between two reads of one address, all cores in step; between them no more than all that is read."""
    l2 = device.memory.l2_bytes.value
    if sum(g.tensor_bytes for g in program.gm) <= l2 or not holds_on(L2_SIZE, device):
        return
    reads = [i for i, site in enumerate(traffic.sites) if site[2] == "from"]
    loads = traffic.at(np.flatnonzero(np.isin(traffic.site, reads)))
    loads = loads.at(np.argsort(_ordinals(loads.core), kind="stable"))
    so_far = np.cumsum(loads.bytes)
    order = np.argsort(loads.start, kind="stable")
    again = np.flatnonzero(np.diff(loads.start[order]) == 0)
    earlier, later = order[again], order[again + 1]
    size = np.minimum(loads.bytes[earlier], loads.bytes[later])
    different = int(loads.bytes.sum() - size.sum())
    if size.sum() == 0 or different <= l2:
        return
    share = float(size[so_far[later] - so_far[earlier] > l2].sum() / size.sum())
    if share >= FAR_SHARE:
        fill = {"percent": round(100 * share), "again": int(size.sum())}
        yield L2_SIZE.finding("GM", got=different, wanted=l2, fill=fill)


def idle_cores(program: Program) -> Iterator[Finding]:
    """W-TILE-IDLE: cores without any row, or a core that moves much more than the average of its kind."""
    busy = np.bincount(program.calls["core"], minlength=program.core_count) > 0
    calls = program.calls
    of_template = np.array([_moved_bytes(t) for t in program.templates], np.float64)
    moved = np.bincount(calls["core"], of_template[calls["template"]], program.core_count).astype(np.int64)
    kinds = program.kernel_type.kinds
    for kind in dict.fromkeys(kinds):
        mine = np.resize(np.array([one is kind for one in kinds]), program.core_count)
        yield from _idle(_KINDS[kind], busy[mine], moved[mine])


def _moved_bytes(template: Template) -> int:
    """Bytes that a template's copies move."""
    return template.kept("bytes moved", None, lambda: sum(c.count * c.length for c in _copies(template)))


def _idle(kind: str, busy: NDArray[np.bool_], moved: NDArray[Any]) -> Iterator[Finding]:
    """Of the cores of one kind, given which of them have rows and what each moves."""
    fill: dict[str, object] = {"kind": kind}
    cores = len(busy)
    if not busy.all():
        yield IDLE.finding("block_dim", got=int((~busy).sum()), wanted=cores, fill=fill)
        return
    mean = float(moved.mean()) if moved.size else 0.0
    if mean and moved.max() > (1 + IMBALANCE_SHARE) * mean:
        more = {"percent": round(100 * (float(moved.max()) / mean - 1)), "mean": round(mean)}
        yield IMBALANCE.finding("block_dim", got=int(moved.max()), wanted=cores, fill=fill | more)
