"""Time: engines that turn a program's schedule columns into a timeline. They know nothing of kernels or instructions."""
