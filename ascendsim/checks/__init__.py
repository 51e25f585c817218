"""Rules over whole programs. Rules of single instructions stand with their declarations in `isa`."""

from ascendsim.checks.static import check_program, check_rows

__all__ = ["check_program", "check_rows"]
