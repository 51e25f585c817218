"""What an operator's host side decides before the kernel runs: parameter checks, temp sizes, tilings, workspaces."""
