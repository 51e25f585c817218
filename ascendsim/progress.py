"""How long work tells how far it is."""

from typing import Protocol

COMPILING = "compiling the engine, once"
"""A stage that tells nothing until it is over."""


class Progress(Protocol):
    """Told of each stage ("record", "values", "schedule", "pictures") how much of it is done."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Stage, units done, units in all."""


class StageProgress(Protocol):
    """Told of one stage how much is done."""

    def __call__(self, done: int, total: int) -> None:
        """Units done, units in all."""


def silent(stage: str, done: int, total: int) -> None:
    """Tell nobody."""


def stage(progress: Progress, name: str) -> StageProgress:
    """Return the progress of one stage."""

    def tell(done: int, total: int) -> None:
        progress(name, done, total)

    return tell
