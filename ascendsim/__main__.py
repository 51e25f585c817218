"""`python -m ascendsim`."""

from ascendsim.cli import main

main()
