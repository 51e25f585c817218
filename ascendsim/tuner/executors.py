"""Who evaluates candidates: this process, or others of this machine. A cluster does in `cluster`."""

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType, TracebackType
from typing import Any, Protocol, Self

from ascendsim.errors import InputError
from ascendsim.terms import ceil_div
from ascendsim.tuner.evaluation import Evaluator, Row, Setup

BATCH = 16
"""Candidates that go to a process at a time, at most: neighbours share most of what they record."""
MOST_DEATHS = 3
"""Processes that a candidate may take along before the search gives up."""
_ENDED = None
"""Told to a process that there is nothing left to do."""


class Lost(InputError):
    """Those who evaluate are gone, or cannot go on."""


class Executor(Protocol):
    """Evaluates candidates. A context: work begins inside, and nothing is left behind it."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all work, finished or not."""

    def rows(self, numbers: Sequence[int]) -> Iterator[Row]:
        """Yield the rows of candidates as they come, in any order, each once."""


class Here:
    """Evaluates in this process."""

    def __init__(self, setup: Setup) -> None:
        self._evaluator = Evaluator(setup)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing to end."""

    def rows(self, numbers: Sequence[int]) -> Iterator[Row]:
        """Yield the rows of candidates in their order."""
        return map(self._evaluator.row, numbers)


@dataclass(slots=True)
class _Worker:
    """One process, and what it has not answered yet."""

    process: BaseProcess
    link: Connection
    left: deque[int] = field(default_factory=deque)


class Stretches:
    """Candidates that nobody has been given yet: for each process neighbours, which share most of what they record.

    A process whose stretch is at its end goes on with the latter half of the longest.

    Args:
        numbers: the candidates.
        count: processes.
    """

    def __init__(self, numbers: Sequence[int], count: int) -> None:
        edges = [len(numbers) * place // count for place in range(count + 1)]
        self._left = [deque(numbers[first:end]) for first, end in pairwise(edges)]

    def __bool__(self) -> bool:
        return any(self._left)

    def take(self, place: int) -> list[int]:
        """Return the next candidates of a process, towards the end ever fewer, so that all end at about one time."""
        own = self._left[place]
        if not own:
            longest = max(self._left, key=len)
            own.extend(reversed([longest.pop() for _ in range(ceil_div(len(longest), 2))]))
        return [own.popleft() for _ in range(max(1, min(BATCH, len(own) // 4)))]

    def give_back(self, place: int, numbers: Sequence[int]) -> None:
        """Take candidates back that a process has not answered; they come first."""
        self._left[place].extendleft(reversed(numbers))


class Processes:
    """Evaluates in processes of this machine.

    One that dies is replaced, and what it had not answered goes to others.

    Args:
        setup: of the search.
        count: how many.
    """

    def __init__(self, setup: Setup, count: int) -> None:
        self._setup = setup
        self._count = count
        self._workers: list[_Worker] = []
        self._context: Any = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
        self._deaths: dict[int, int] = {}

    def __enter__(self) -> Self:
        if self._context.get_start_method() == "forkserver":
            self._context.set_forkserver_preload([__name__])
            resource_tracker.ensure_running()  # to begin, it would let Ctrl-C through again
        self._workers = [self._started() for _ in range(self._count)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
            worker.link.close()
        self._workers = []

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The processes' ids."""
        return tuple(worker.process.pid or 0 for worker in self._workers)

    def rows(self, numbers: Sequence[int]) -> Iterator[Row]:
        """Yield the rows of candidates as they come.

        Raises:
            Lost: a candidate took several processes along.
        """
        waiting = Stretches(numbers, self._count)
        while waiting or any(worker.left for worker in self._workers):
            for place, worker in enumerate(self._workers):
                if waiting and not worker.left:
                    self._give(place, worker, waiting)
            busy = [worker for worker in self._workers if worker.left]
            ready = wait([w.link for w in busy] + [w.process.sentinel for w in busy])
            for worker in busy:
                if worker.link in ready or worker.process.sentinel in ready:
                    yield from self._taken(worker, waiting)

    def _give(self, place: int, worker: _Worker, waiting: Stretches) -> None:
        worker.left.extend(waiting.take(place))
        try:
            worker.link.send(list(worker.left))
        except OSError:
            self._replace(worker, waiting)

    def _taken(self, worker: _Worker, waiting: Stretches) -> Iterator[Row]:
        """Rows that have come from a process; one that died is replaced."""
        try:
            while worker.left and worker.link.poll():
                row = worker.link.recv()
                if isinstance(row, BaseException):
                    raise row
                worker.left.remove(row[0])
                yield row
        except (EOFError, OSError):
            self._replace(worker, waiting)
            return
        if worker.left and not worker.process.is_alive() and not worker.link.poll():
            self._replace(worker, waiting)

    def _replace(self, worker: _Worker, waiting: Stretches) -> None:
        worker.process.join()
        worker.link.close()
        left = list(worker.left)
        if left:
            deaths = self._deaths[left[0]] = self._deaths.get(left[0], 0) + 1
            if deaths == MOST_DEATHS:
                point = ", ".join(f"{name} = {value}" for name, value in self._setup.values(left[0]).items())
                raise Lost(
                    f"candidate {left[0]} ({point}): {deaths} processes ended without a word while they evaluated it, "
                    f"the last with exit code {worker.process.exitcode}; the computer may be out of memory: use fewer "
                    "--workers, or leave the candidate out with --where"
                )
        place = self._workers.index(worker)
        waiting.give_back(place, left)
        self._workers[place] = self._started()

    def _started(self) -> _Worker:
        here, there = self._context.Pipe()
        process = self._context.Process(target=_work, args=(self._setup, there), daemon=True)
        with _alone():
            process.start()
        there.close()
        return _Worker(process, here)


@contextmanager
def _alone() -> Iterator[None]:
    """Begin processes that have nothing of this program, which a script that searches would run again, and no Ctrl-C.

    Ctrl-C goes to all processes of a terminal; blocked here, it is blocked in new ones from their first moment on.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    blocks = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if blocks else set()
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        if blocks:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(setup: Setup, link: Connection) -> None:
    """Evaluate what comes until the other end is gone. Ctrl-C is the other end's matter."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    evaluator = Evaluator(setup)
    try:
        while True:
            for number in link.recv():
                link.send(_row_or_error(evaluator, number))
    except (EOFError, OSError):
        return


def _row_or_error(evaluator: Evaluator, number: int) -> Row | BaseException:
    """A row, or what is wrong with this package."""
    try:
        return evaluator.row(number)
    except Exception as error:  # noqa: BLE001 - raised again where somebody sees it
        return error


def usable_cores() -> int:
    """Return how many processes run at once here."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
