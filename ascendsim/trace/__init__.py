"""A run as files for msopprof's users: the trace, its tables, and the memory map for MindStudio Insight."""

from ascendsim.trace.document import trace_json
from ascendsim.trace.lanes import LANES, MNEMONICS, USERMARK, core_name
from ascendsim.trace.marks import PATH
from ascendsim.trace.memory_info import memory_info
from ascendsim.trace.tables import tables
from ascendsim.trace.texts import slice_name

__all__ = ["LANES", "MNEMONICS", "PATH", "USERMARK", "core_name", "memory_info", "slice_name", "tables", "trace_json"]
