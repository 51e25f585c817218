"""Float64 references: what an operator means, independent of how the hardware computes it."""
