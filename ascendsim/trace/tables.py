"""The tables that msopprof writes beside a trace, with its column names, so that scripts made for them read these, too.

`<core>_instr_exe.csv` has a line for each instruction of a core and `<core>_code_exe.csv` one for each source line of
the kernel, those with most cycles first. `cycles` are those of all executions, from start to completion, waiting of
flags included; `running_time(us)` is the time in which any of them was at work. `addr` counts the rows of the program's
templates; a template that is called again executes the same instruction again. `PipeUtilization.csv` has a line for
each core, as on a board: times and shares of the cycles until the core's last work is complete.

Per core and instruction nothing is known where rows were not kept, so these tables are of whole runs only.

Source: msopprof docs, performance data of the simulator, and PipeUtilization; msopprof, data parser (columns, order,
quotes).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from ascendsim.analysis import gm_moves
from ascendsim.engine.base import Timeline
from ascendsim.program import Program
from ascendsim.result import RunResult
from ascendsim.terms import CoreKind, Pipe
from ascendsim.trace.events import Ints
from ascendsim.trace.lanes import LANES, core_name, cores_here
from ascendsim.trace.texts import RowTexts

INSTR_COLUMNS = ("instr", "addr", "pipe", "call_count", "cycles", "running_time(us)", "detail")
CODE_COLUMNS = ("code", "call_count", "cycles", "running_time(us)")
PIPE_COLUMNS = (
    *("block_id", "sub_block_id", "aic_time(us)", "aic_total_cycles", "aic_cube_time(us)", "aic_cube_ratio"),
    *("aic_scalar_time(us)", "aic_scalar_ratio", "aic_mte1_time(us)", "aic_mte1_ratio", "aic_mte1_active_bw(GB/s)"),
    *("aic_mte2_time(us)", "aic_mte2_ratio", "aic_mte2_active_bw(GB/s)", "aic_mte3_time(us)", "aic_mte3_ratio"),
    *("aic_mte3_active_bw(GB/s)", "aic_fixpipe_time(us)", "aic_fixpipe_ratio", "aic_fixpipe_active_bw(GB/s)"),
    *("aic_icache_miss_rate", "aiv_time(us)", "aiv_total_cycles", "aiv_vec_time(us)", "aiv_vec_ratio"),
    *("aiv_scalar_time(us)", "aiv_scalar_ratio", "aiv_mte2_time(us)", "aiv_mte2_ratio", "aiv_mte2_active_bw(GB/s)"),
    *("aiv_mte3_time(us)", "aiv_mte3_ratio", "aiv_mte3_active_bw(GB/s)", "aiv_icache_miss_rate"),
)
NOT_KNOWN = "NA"
"""What stands where a core has no such pipe, or what was not simulated."""

_PIPES = {
    CoreKind.AIC: {"cube": Pipe.M, "scalar": Pipe.S, "mte1": Pipe.MTE1, "mte2": Pipe.MTE2, "mte3": Pipe.MTE3,
                   "fixpipe": Pipe.FIX},
    CoreKind.AIV: {"vec": Pipe.V, "scalar": Pipe.S, "mte2": Pipe.MTE2, "mte3": Pipe.MTE3},
}  # fmt: skip
_OF_KIND = {CoreKind.AIC: (CoreKind.AIC,), CoreKind.AIV: (CoreKind.AIV,), CoreKind.AICORE: tuple(_PIPES)}
"""Whose columns a core fills in: one that has both units those of both."""
_WITH_BANDWIDTH = (Pipe.MTE2, Pipe.MTE3, Pipe.FIX)
_GB = 2**30


def tables(result: RunResult) -> dict[str, str]:
    """Return the tables of a run by the names of their files, which lie as msopprof lays them."""
    found = {"PipeUtilization.csv": pipe_utilization(result)}
    if result.timeline.is_whole:
        of_core = _CoreTables(result)
        for core in cores_here(result):
            name = core_name(result, core)
            place = f"simulator/{name}/{name}"
            found[f"{place}_instr_exe.csv"] = of_core.instructions(core)
            found[f"{place}_code_exe.csv"] = of_core.lines(core)
    return found


def pipe_utilization(result: RunResult) -> str:
    """Return the table of how long each pipe of each core worked; its totals are those of all rows, kept or not."""
    moved = _moved(result.program)
    return _csv(PIPE_COLUMNS, (_utilization_of(result, core, moved) for core in range(result.program.core_count)))


def _utilization_of(result: RunResult, core: int, moved: Counter[tuple[int, Pipe]]) -> list[str]:
    """A line of PipeUtilization.csv."""
    totals, kind = result.timeline.totals, result.program.core_kind(core)
    total, mhz = int(totals.last_cycles[core].max()), result.device.clock_mhz
    block, place = divmod(core, result.program.block_cores)
    part = "cube0" if kind is not CoreKind.AIV else f"vector{max(0, place - 1)}"
    known = {"block_id": str(block), "sub_block_id": part}
    for one in _OF_KIND[kind]:
        prefix = one.name.lower()
        known |= {f"{prefix}_time(us)": f"{total / mhz:.6f}", f"{prefix}_total_cycles": str(total)}
        for name, pipe in _PIPES[one].items():
            busy = int(totals.busy_cycles[core, pipe])
            known[f"{prefix}_{name}_time(us)"] = f"{busy / mhz:.6f}"
            if total:
                known[f"{prefix}_{name}_ratio"] = f"{busy / total:.6f}"
            if busy and pipe in _WITH_BANDWIDTH:
                known[f"{prefix}_{name}_active_bw(GB/s)"] = f"{moved[core, pipe] * mhz * 1e6 / _GB / busy:.6f}"
    return [known.get(column, NOT_KNOWN) for column in PIPE_COLUMNS]


def _moved(program: Program) -> Counter[tuple[int, Pipe]]:
    """Bytes from and to GM by core and pipe."""
    moved: Counter[tuple[int, Pipe]] = Counter()
    for number, template in enumerate(program.templates):
        of_pipe: Counter[Pipe] = Counter()
        for at, _, _, count in gm_moves(template):
            of_pipe[template.rows[at].pipe] += count
        cores, calls = np.unique(program.calls["core"][program.calls_of_template[number]], return_counts=True)
        for core, times in zip(cores.tolist(), calls.tolist(), strict=True):
            for pipe, count in of_pipe.items():
                moved[core, pipe] += count * times
    return moved


class _CoreTables:
    """What the instructions and lines of each core took."""

    def __init__(self, result: RunResult) -> None:
        program, t = result.program, result.timeline
        self._result = result
        self._texts = RowTexts(result)
        self._known: dict[int, tuple[str, str, str]] = {}
        self._starts = np.concatenate([[0], np.cumsum([len(one) for one in program.templates], dtype=np.int64)])
        self._row = self._starts[program.calls["template"][t["call"]]] + t["row"]
        self._line = np.concatenate([np.zeros(0, np.int64), *(one.columns["line"] for one in program.templates)])
        order = np.argsort(t["core"], kind="stable")
        bounds = np.searchsorted(t["core"][order], np.arange(program.core_count + 1))
        self._of_core = [order[first:last] for first, last in pairwise(bounds.tolist())]

    def instructions(self, core: int) -> str:
        """The table of a core's instructions."""
        here = self._of_core[core]
        lines = []
        for first, address, *numbers in self._summed(here, self._row[here]):
            name, pipe, detail = self._said(first, address)
            lines.append([name, str(address), pipe, *self._numbers(numbers), detail])
        return _csv(INSTR_COLUMNS, lines)

    def _said(self, at: int, address: int) -> tuple[str, str, str]:
        """Name, pipe and quoted fields of a row; what is the same on every core is made once."""
        if address in self._known:
            return self._known[address]
        texts = self._texts
        row = texts.rows.row(at)
        detail = texts.detail(at, row).replace('"', '""')
        said = texts.title(at)[0], LANES[row.pipe].flag_name, f'"{detail}"'
        if texts.is_same(at):
            self._known[address] = said
        return said

    def lines(self, core: int) -> str:
        """The table of the source lines that a core's instructions come from."""
        here, names = self._of_core[core], self._result.program.lines
        found = self._summed(here, self._line[self._row[here]])
        return _csv(CODE_COLUMNS, ([names[line], *self._numbers(numbers)] for _, line, *numbers in found))

    def _numbers(self, numbers: Sequence[int]) -> list[str]:
        """Executions, cycles and time."""
        count, cycles, at_work = numbers
        return [str(count), str(cycles), f"{self._result.device.microseconds(at_work):.2f}"]

    def _summed(self, here: Ints, key: Ints) -> list[list[int]]:
        """(Position of the first, key, count, cycles, cycles at work) of the rows of each key, most cycles first."""
        t = self._result.timeline
        keys, first, group, counts = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        cycles = np.zeros(len(keys), np.int64)
        np.add.at(cycles, group, t["end"][here] - t["start"][here])
        columns = (here[first], keys, counts, cycles, _at_work(t, here, group, len(keys)))
        found: list[list[int]] = np.stack(columns, axis=1).tolist()
        return sorted(found, key=lambda one: (-one[3], one[1]))


def _at_work(timeline: Timeline, here: Ints, group: Ints, groups: int) -> Ints:
    """Cycles in which any row of a group is at work, by group."""
    start, end = timeline["start"][here], timeline["end"][here]
    order = np.lexsort((start, group))
    apart = group[order] * (timeline.makespan_cycles + 1)  # groups lie one behind the other, so one pass does for all
    first, last = start[order] + apart, end[order] + apart
    reached = np.concatenate([[0], np.maximum.accumulate(last)[:-1]]) if len(last) else last
    found = np.zeros(groups, np.int64)
    np.add.at(found, group[order], np.maximum(0, last - np.maximum(first, reached)))
    return found


def _csv(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "".join(",".join(line) + "\n" for line in (columns, *lines))
