"""A run as files for msopprof's users: the trace, its tables, and the memory map for MindStudio Insight."""

from ascendsim.trace.document import trace_json
from ascendsim.trace.lanes import LANES, MNEMONICS, core_name
from ascendsim.trace.memory_info import memory_info
from ascendsim.trace.tables import tables

__all__ = ["LANES", "MNEMONICS", "core_name", "memory_info", "tables", "trace_json"]
