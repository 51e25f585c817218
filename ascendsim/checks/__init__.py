"""Rules over whole programs. Rules of single instructions stand with their declarations in `isa`."""

from ascendsim.checks.advice import advise, advise_timeline
from ascendsim.checks.quiet import Quiet
from ascendsim.checks.static import check_program, check_rows
from ascendsim.checks.traffic import idle_cores

__all__ = ["Quiet", "advise", "advise_timeline", "check_program", "check_rows", "idle_cores"]
