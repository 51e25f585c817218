"""The commands of `ascendsim`, a module each. To import them is cheap: what a command works with it imports itself."""
