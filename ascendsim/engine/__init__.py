"""Engines: from a program's schedule columns to a timeline. They know nothing of kernels or instructions."""
