"""Search for a tiling: a space of candidates, constraints, executors, a file of results, and what they answer."""
