"""A run beside something else: another run, a measured trace of the same kernel, or a board's outputs."""

from ascendsim.versus.entry import compare, compare_outputs, compare_trace

__all__ = ["compare", "compare_outputs", "compare_trace"]
