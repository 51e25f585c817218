"""Whole kernels that were measured, rebuilt: one module for each kind."""
