"""How cores, pipes and instructions are called in a trace, and in which order and colours they stand.

Source: msopprof (trace of the simulator).
"""

from dataclasses import dataclass

import numpy as np

from ascendsim.engine.base import Kind
from ascendsim.result import RunResult
from ascendsim.terms import CoreKind, Pipe


@dataclass(frozen=True, slots=True)
class Lane:
    """How a pipe is shown."""

    tid: str
    sort_index: int
    cname: str
    flag_name: str
    """The pipe as the details of flags spell it."""


LANES = {
    Pipe.S: Lane("SCALAR", 1, "startup", "SCALAR"),
    Pipe.MTE1: Lane("MTE1", 3, "thread_state_running", "MTE1"),
    Pipe.M: Lane("CUBE", 4, "background_memory_dump", "CUBE"),
    Pipe.FIX: Lane("FIXP", 5, "thread_state_unknown", "FIXP"),
    Pipe.MTE2: Lane("MTE2", 6, "thread_state_iowait", "MTE2"),
    Pipe.V: Lane("VECTOR", 7, "cq_build_failed", "VEC"),
    Pipe.MTE3: Lane("MTE3", 8, "rail_response", "MTE3"),
    Pipe.ALL: Lane("ALL", 11, "good", "ALL"),
}
"""Lane names, order and colours. Source: msopprof, core timeline."""

USERMARK = Lane("USERMARK", 12, "rail_load", "USERMARK")
"""The lane of marks. Source: as of LANES."""

CROSS_CNAMES = {Kind.SET_FLAG: "black", Kind.WAIT_FLAG: "yellow"}
"""Colours of flags between cores, which are slices like any other: one set may release several waits, and a viewer
pairs begins and ends by their number alone."""

FLAGS = {Kind.SET_FLAG: ("SET_FLAG", "black"), Kind.WAIT_FLAG: ("WAIT_FLAG", "yellow")}
"""Name and colour of the slices that are written as begin and end."""

MNEMONICS = {
    "copy_cbuf_to_bt": "MOV_L1_TO_BT",
    "copy_cbuf_to_fbuf": "MOV_L1_TO_FB",
    "copy_cbuf_to_gm": "MOV_L1_TO_OUT",
    "copy_gm_to_cbuf": "MOV_OUT_TO_L1",
    "copy_gm_to_cbuf_multi_nd2nz": "MOV_OUT_TO_L1_MULTI_ND2NZ",
    "copy_gm_to_ubuf": "MOV_OUT_TO_UB",
    "copy_gm_to_ubuf_align": "MOV_OUT_TO_UB_ALIGN",
    "copy_ubuf_to_cbuf": "MOV_UB_TO_L1",
    "copy_ubuf_to_gm": "MOV_UB_TO_OUT",
    "copy_ubuf_to_gm_align": "MOV_UB_TO_OUT_ALIGN",
    "copy_ubuf_to_ubuf": "MOV_UB_TO_UB",
    "fix_matrix_cc_to_cbuf": "FIX_L0C_TO_L1",
    "fix_matrix_cc_to_gm": "FIX_L0C_TO_OUT",
    "load_cbuf_to_ca": "LOAD_2D",
    "load_cbuf_to_cb": "LOAD_2D",
    "load_gm_to_cbuf": "LOAD_2D",
    "pipe_barrier": "BAR",
    "scalar_load": "LD_XD_XN_IMM",
    "set_mask_count": "MOV_SPR_XN",
    "set_mask_norm": "MOV_SPR_XN",
    "set_vector_mask": "MOVEMASK",
}
"""Intrinsics whose trace name is not their own in capitals. Source: msopprof, instruction tables of A2.

Names of moves between L1, BT, FB and L0C follow those of the others.
"""


def core_name(result: RunResult, core: int) -> str:
    """Return a core as traces call it: the AI Core it belongs to, and which of its Cube or vector cores it is."""
    number, vector = place_of(result, core)
    return f"core{number}.cubecore0" if vector < 0 else f"core{number}.veccore{vector}"


def place_of(result: RunResult, core: int) -> tuple[int, int]:
    """(AI Core, which of its vector cores; -1 for its Cube core)."""
    program = result.program
    if program.kernel_type.is_mix:
        number, place = divmod(core, program.block_cores)
        return number, place - 1
    if program.core_kind(core) is CoreKind.AIC:
        return core, -1
    number, vector = divmod(core, vector_cores(result))
    return number, vector


def cores_here(result: RunResult) -> list[int]:
    """Cores that have rows here."""
    cores: list[int] = np.unique(result.timeline["core"]).tolist()
    return cores


def vector_cores(result: RunResult) -> int:
    """Vector cores of an AI Core."""
    return max(1, result.device.cores.aiv.value // result.device.cores.aic.value)


def sort_index(result: RunResult, core: int) -> int:
    """Place among all cores, each cube core before its vector cores. Source: msopprof, core timeline."""
    number, vector = place_of(result, core)
    return (1 + vector_cores(result)) * number + 2 + vector
