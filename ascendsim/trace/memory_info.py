"""The memory map of a run as the file that MindStudio Insight's view of on-chip memory reads.

The view knows one map for each memory, so it gets that of the first core that uses it. Its times are the compiler's
numbers of instructions; here they are cycles. Each life of an allocation is a record of its own: a queue of two
buffers is two allocations that live in turn.

Source: MindStudio Insight, parser of memory_info.json (keys and types; extents in bits); AscendNPU-IR, memory display
(the file's name, `error_info`).
"""

import json
from typing import Any

from ascendsim.analysis import Life, Lives
from ascendsim.memory import FRAMEWORK_TMP
from ascendsim.result import RunResult
from ascendsim.terms import Buffer
from ascendsim.trace.lanes import core_name, cores_here

NAME = "memory_info.json"
_BITS = 8


def memory_info(result: RunResult) -> str:
    """Return the memory map of the first core that uses each memory; status "fail" where it reaches beyond the end."""
    all_lives, found = Lives(result.program, result.timeline), dict[Buffer, tuple[int, list[Life]]]()
    wanted = {use.buffer for use in result.memories if use.peak_bytes}
    for core in cores_here(result):
        if not wanted - set(found):
            break
        lives = all_lives.of(core)
        for buffer in sorted({life.buffer for life in lives} - set(found)):
            found[buffer] = core, [life for life in lives if life.buffer is buffer]
    records = [_record(result, buffer, *found[buffer]) for buffer in sorted(found)]
    return json.dumps({"Header": {"KernelName": result.name}, "Record": records}, indent=1) + "\n"


def _record(result: RunResult, buffer: Buffer, core: int, lives: list[Life]) -> dict[str, Any]:
    """One memory."""
    over = -next(use.free_bytes for use in result.memories if use.buffer is buffer)
    error = f"{buffer.name}: {over} B beyond its end" if over > 0 else ""
    return {
        "scope": buffer.name,
        "status": "fail" if error else "success",
        "err_msg": error,
        "error_info": error,
        "memory_info_array": [_life(life, core_name(result, core)) for life in lives],
    }


def _life(life: Life, core: str) -> dict[str, Any]:
    tile = f" tile {life.tile}" if life.tile >= 0 else ""
    return {
        "buffer": f"{life.name}{tile}",
        "alloc_time_in_ir": life.start,
        "life_time_in_ir": [life.start, life.end],
        "extent": life.allocation_bytes * _BITS,
        "offset": [life.address_bytes],
        "is_tmpbuf": life.name == FRAMEWORK_TMP,
        "source_location": f"{life.position} of {core}",
    }
