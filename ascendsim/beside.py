"""Work in a thread of its own, beside what its starter does meanwhile.

It pays where the work is in compiled code that lets other threads run. What it tells of its progress is where it can be
given up: if its starter fails, nobody waits for the rest.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from ascendsim.progress import Progress

T = TypeVar("T")

_SWITCH_S = 0.0005
"""Seconds after which Python lets another thread run: the work needs it for short whiles between long ones."""


class GivenUp(Exception):
    """Nobody wants the work any more."""


@contextmanager
def beside(work: Callable[[Progress], T], progress: Progress) -> Iterator[Future[T]]:
    """Run work in a thread until the end of the block.

    Args:
        work: is given whom to tell of its progress.
        progress: is told of it, from the thread.
    """
    is_unwanted, before = threading.Event(), sys.getswitchinterval()

    def tell(stage: str, done: int, total: int) -> None:
        if is_unwanted.is_set():
            raise GivenUp
        progress(stage, done, total)

    sys.setswitchinterval(_SWITCH_S)
    pool = ThreadPoolExecutor(1, thread_name_prefix="ascendsim")
    try:
        yield pool.submit(work, tell)
    finally:
        is_unwanted.set()
        pool.shutdown(wait=True)
        sys.setswitchinterval(before)
