"""How far long work is, on a terminal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ascendsim.commands.interrupt import interrupt
from ascendsim.commands.terminal import err
from ascendsim.progress import COMPILING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class LazyBar:
    """A progress bar that appears on a terminal when something takes longer than a second."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show how much of a stage is done; raise if there was a Ctrl-C."""
        interrupt.check()
        if self._bar is None and err.is_terminal and (stage == COMPILING or time.monotonic() - self._begun > 1):
            self._bar = _new_bar()
            self._task = self._bar.add_task(stage)
            self._bar.start()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=stage, completed=done, total=total)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


def _new_bar() -> "Progress":
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # few commands take so long

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    return Progress(*columns, TimeRemainingColumn(), console=err, transient=True)


@contextmanager
def progress_bar() -> Iterator[LazyBar]:
    """Give a bar, and take it away however the work ends."""
    bar = LazyBar()
    try:
        yield bar
    finally:
        bar.stop()
