"""Device files: one TOML a part, loaded by ascendsim.device."""
