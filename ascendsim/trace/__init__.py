"""A run as files for msopprof's users: the trace, its tables, and the memory map for MindStudio Insight."""

from ascendsim.trace.document import trace_json
from ascendsim.trace.lanes import LANES, MNEMONICS, core_name

__all__ = ["LANES", "MNEMONICS", "core_name", "trace_json"]
