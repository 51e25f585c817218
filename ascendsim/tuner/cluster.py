"""Candidates evaluated by a dask.distributed cluster that is there already (extra `cluster`).

Tasks are batches of neighbours. A worker that dies is the scheduler's matter, which gives its batches to others; rows
are yielded once, whoever made them. Each worker keeps what the candidates of a search share, and sees before the first
one that it is of the same version, also if it came late.
"""

import logging
import pickle
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from itertools import islice
from types import TracebackType
from typing import Any, Self

from distributed import CancelledError, Client, KilledWorker, as_completed

from ascendsim import __version__
from ascendsim.errors import AscendSimError, InputError
from ascendsim.tuner.evaluation import Evaluator, Row, Setup
from ascendsim.tuner.executors import BATCH, Executor, Lost
from ascendsim.tuner.head import kernel_digest

CONNECT_SECONDS = 10
"""How long a scheduler, and then a worker, is waited for."""
_CONNECT_TRIES = 1.5
"""Of CONNECT_SECONDS, until who does not keep to them is given up."""
ALONE_SECONDS = 60
"""How long a search goes on without any worker."""
LOOK_SECONDS = 0.02
"""Between two looks at what has come."""
_AHEAD = 4
"""Batches for each worker that are on their way."""
_ONE_AT_A_TIME = threading.Lock()
"""A worker may have several threads; the recorder and a user's own kernel expect one."""
_ADDRESS = re.compile(r"dask://(\[[0-9A-Fa-f:.]+\]|[^\s/:@\[\]]+):([0-9]{1,5})")
_PORTS = range(1, 2**16)

Wanted = tuple[str, str]
"""What all who take part have in common: the version, and the digest of a kernel's own file."""


def cluster(address: str) -> Callable[[Setup], Executor]:
    """Return an executor of a cluster.

    Args:
        address: "dask://HOST:PORT" of its scheduler.

    Raises:
        InputError: it is no such address.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found[2]) not in _PORTS:
        raise InputError(f"--executor {address}: no address; want dask://HOST:PORT such as dask://127.0.0.1:8786")
    return lambda setup: Cluster(setup, address)


class Cluster:
    """Evaluates on the workers of a cluster.

    Args:
        setup: of the search.
        address: "dask://HOST:PORT" of its scheduler.
    """

    def __init__(self, setup: Setup, address: str) -> None:
        self._packed = pickle.dumps(setup)
        self._setup = setup
        self._wanted: Wanted = (__version__, kernel_digest(setup.scenario))
        self._address = address
        self._where = f"--executor {address}"
        self._stack = ExitStack()
        self._client: Any = None

    def __enter__(self) -> Self:
        """Connect, and see that workers are there and are of the same version.

        Raises:
            InputError: they are not.
        """
        tcp = "tcp://" + self._address.removeprefix("dask://")
        with ExitStack() as stack:
            stack.enter_context(_silence())
            try:
                self._client = _connected(tcp)
            except Exception as error:  # noqa: BLE001 - whoever else listens there has answers of its own
                raise InputError(
                    f"{self._where}: no scheduler answers at {tcp} ({type(error).__name__}); start one with "
                    "`dask scheduler`, or name its address"
                ) from None
            stack.callback(self._client.close)
            self._check_workers()
            self._stack = stack.pop_all()
        return self

    def _check_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
            found = self._client.run(_what_is_there, self._wanted, self._packed, on_error="return")
        except TimeoutError:
            raise InputError(
                f"{self._where}: the scheduler has no workers; start some: dask worker ADDRESS --nthreads 1"
            ) from None
        except (OSError, CancelledError):
            raise self._gone() from None
        for worker, what in sorted(found.items()):
            self._check_worker(worker, what)
        try:
            self._client.run_on_scheduler(_is_there)
        except (OSError, CancelledError):
            raise self._gone() from None
        except Exception as error:  # noqa: BLE001 - whatever it lacks comes as a bare Exception
            raise self._unfit("the scheduler", error) from None

    def _check_worker(self, worker: str, found: Wanted | Exception) -> None:
        if isinstance(found, Exception):
            raise self._unfit(worker, found)
        version, kernel = found
        if version != self._wanted[0]:
            raise InputError(
                f"{self._where}: {worker} has ascendsim {version}, here is {self._wanted[0]}; install the same"
            )
        if kernel != self._wanted[1]:
            raise InputError(
                f"{self._where}: {worker} has not the same {self._setup.scenario.kernel}; put the scenario where "
                "all workers see it under the same path"
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def rows(self, numbers: Sequence[int]) -> Iterator[Row]:
        """Yield the rows of candidates as they come.

        Raises:
            Lost: the cluster went away, a candidate took several workers along, or one cannot take part.
        """
        try:
            yield from self._rows(numbers)
        except KilledWorker as error:
            raise Lost(
                f"{self._where}: several workers died at the same candidates ({error.task}); they may be out of memory"
            ) from None
        except (OSError, CancelledError):
            raise self._gone() from None
        except Lost:
            raise
        except InputError as error:  # of a worker
            raise Lost(f"{self._where}: {error}") from None
        except ImportError as error:
            raise self._unfit("a worker", error) from None
        except Exception:
            if self._client.status != "running":
                raise self._gone() from None
            raise

    def _rows(self, numbers: Sequence[int]) -> Iterator[Row]:
        batches = [list(numbers[first : first + BATCH]) for first in range(0, len(numbers), BATCH)]
        waiting = iter(batches)
        first = [self._submitted(batch) for batch in islice(waiting, _AHEAD * max(1, self._workers()))]
        futures = as_completed(first, loop=self._client.loop, with_results=True)
        for rows in self._completed(futures):
            yield from rows
            for batch in waiting:
                futures.add(self._submitted(batch))
                break

    def _completed(self, futures: Any) -> Iterator[list[Row]]:
        """Yield results as they come, but do not wait for ever where there is nobody who makes them any more."""
        last = time.monotonic()
        while not futures.is_empty():
            if futures.has_ready():
                future, result = next(futures)
                if future.cancelled():
                    raise self._gone()
                yield result
                last = time.monotonic()
            elif self._client.status != "running":
                raise self._gone()
            elif time.monotonic() < last + ALONE_SECONDS:
                time.sleep(LOOK_SECONDS)
            elif self._workers():
                last = time.monotonic()
            else:
                raise Lost(f"{self._where}: no worker has been there for {ALONE_SECONDS} s; start some")

    def _workers(self) -> int:
        return len(self._client.nthreads())

    def _submitted(self, batch: Sequence[int]) -> Any:
        return self._client.submit(_rows_of, self._wanted, self._packed, tuple(batch), pure=False)

    def _gone(self) -> Lost:
        return Lost(
            f"{self._where}: the cluster went away; start it again, or leave --executor out to go on without it"
        )

    def _unfit(self, worker: str, error: BaseException) -> Lost:
        return Lost(f"{self._where}: {worker} cannot take part: {error}; install ascendsim {__version__} there")


def _connected(tcp: str) -> Client:
    """Connect, in a thread of its own: where something else than a scheduler listens, distributed may wait for ever."""
    found: list[Client | Exception] = []

    def connect() -> None:
        try:
            found.append(Client(tcp, timeout=CONNECT_SECONDS, set_as_default=False))
        except Exception as error:  # noqa: BLE001 - raised again by who waits
            found.append(error)

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(_CONNECT_TRIES * CONNECT_SECONDS)
    if not found:
        raise TimeoutError
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


@contextmanager
def _silence() -> Iterator[None]:
    """Keep the logs of distributed off the terminal: what they tell of a lost cluster, messages here do."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in ("distributed", "tornado")]
    loggers = [logger for logger in map(logging.getLogger, names) if not logger.disabled]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loggers:
            logger.disabled = False


def _is_there() -> bool:
    """On the scheduler, which unpacks tasks on their way to workers."""
    return True


def _what_is_there(wanted: Wanted, packed: bytes) -> Wanted:
    """On a worker: its version and, if that is the wanted one, the digest of its file of the kernel."""
    if __version__ != wanted[0]:
        return __version__, ""
    setup: Setup = pickle.loads(packed)  # noqa: S301 - from the search that started it
    try:
        return __version__, kernel_digest(setup.scenario)
    except AscendSimError:
        return __version__, "none"


def _rows_of(wanted: Wanted, packed: bytes, numbers: Sequence[int]) -> list[Row]:
    """On a worker: evaluate a batch."""
    with _ONE_AT_A_TIME:
        return [_evaluator(wanted, packed).row(number) for number in numbers]


@lru_cache(maxsize=4)
def _evaluator(wanted: Wanted, packed: bytes) -> Evaluator:
    found = _what_is_there(wanted, packed)
    if found != wanted:
        what = f"ascendsim {found[0]}, not {wanted[0]}" if found[0] != wanted[0] else "another file of the kernel"
        raise InputError(f"a worker that came late has {what}; install the same")
    return Evaluator(pickle.loads(packed))  # noqa: S301 - as above
