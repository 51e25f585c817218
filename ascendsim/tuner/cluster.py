"""Candidates evaluated by a dask.distributed cluster that is there already (extra `cluster`).

Tasks are batches of neighbours. A worker that dies is the scheduler's matter, which gives its batches to others; rows
are yielded once, whoever made them. Each worker keeps what the candidates of a search share.
"""

import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from types import TracebackType
from typing import Any, Self

from distributed import Client, KilledWorker, as_completed
from distributed.comm import CommClosedError

from ascendsim import __version__
from ascendsim.errors import AscendSimError, InputError
from ascendsim.tuner.evaluation import Evaluator, Row, Setup
from ascendsim.tuner.executors import BATCH, Executor
from ascendsim.tuner.store import kernel_digest

CONNECT_SECONDS = 10
"""How long a scheduler, and then a worker, is waited for."""
_AHEAD = 4
"""Batches for each worker that are on their way."""
_ONE_AT_A_TIME = threading.Lock()
"""A worker may have several threads; the recorder and a user's own kernel expect one."""


def cluster(address: str) -> Callable[[Setup], Executor]:
    """Return an executor of a cluster.

    Args:
        address: "dask://HOST:PORT" of its scheduler.
    """
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
        self._address = address
        self._client: Client | None = None

    def __enter__(self) -> Self:
        """Connect, and see that workers are there and are of the same version.

        Raises:
            InputError: they are not.
        """
        where = f"--executor {self._address}"
        tcp = "tcp://" + self._address.removeprefix("dask://")
        try:
            self._client = Client(tcp, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(
                f"{where}: no scheduler answers at {tcp} ({type(error).__name__}); start one with `dask scheduler`, or "
                "name its address"
            ) from None
        try:
            self._check_workers(where)
        except BaseException:
            self._client.close()
            raise
        return self

    def _check_workers(self, where: str) -> None:
        assert self._client is not None
        try:
            self._client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            raise InputError(
                f"{where}: the scheduler has no workers; start some: dask worker ADDRESS --nthreads 1"
            ) from None
        wanted = (__version__, kernel_digest(self._setup.scenario))
        try:
            found = self._client.run(_what_is_there, self._packed)
        except Exception as error:  # noqa: BLE001 - whatever a worker lacks comes as a bare Exception
            raise InputError(
                f"{where}: a worker cannot take part: {error}; install ascendsim {__version__} there, too"
            ) from None
        for worker, (version, kernel) in sorted(found.items()):
            if version != wanted[0]:
                raise InputError(f"{where}: {worker} has ascendsim {version}, here is {wanted[0]}; install the same")
            if kernel != wanted[1]:
                raise InputError(
                    f"{where}: {worker} has not the same {self._setup.scenario.kernel}; put the scenario where all "
                    "workers see it under the same path"
                )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._client is not None:
            self._client.close()

    def rows(self, numbers: Sequence[int]) -> Iterator[Row]:
        """Yield the rows of candidates as they come.

        Raises:
            InputError: the cluster went away, or a candidate took several workers along.
        """
        assert self._client is not None
        batches = [list(numbers[first : first + BATCH]) for first in range(0, len(numbers), BATCH)]
        workers = max(1, len(self._client.scheduler_info()["workers"]))
        waiting = iter(batches)
        first = [self._submitted(batch) for batch in islice(waiting, _AHEAD * workers)]
        futures = as_completed(first, loop=self._client.loop)
        try:
            for future in futures:
                yield from future.result()
                for batch in waiting:
                    futures.add(self._submitted(batch))
                    break
        except KilledWorker as error:
            raise InputError(
                f"--executor {self._address}: several workers died at the same candidates ({error.task}); they may be "
                "out of memory. What is done is kept"
            ) from None
        except (CommClosedError, OSError) as error:
            raise InputError(
                f"--executor {self._address}: the cluster went away ({type(error).__name__}). What is done is kept; "
                "the same command goes on"
            ) from None

    def _submitted(self, batch: Sequence[int]) -> Any:
        assert self._client is not None
        return self._client.submit(_rows_of, self._packed, tuple(batch), pure=False)


def _what_is_there(packed: bytes) -> tuple[str, str]:
    """On a worker: its version, and the digest of its file of the kernel."""
    setup: Setup = pickle.loads(packed)  # noqa: S301 - from the search that started it
    try:
        return __version__, kernel_digest(setup.scenario)
    except AscendSimError:
        return __version__, "none"


def _rows_of(packed: bytes, numbers: Sequence[int]) -> list[Row]:
    """On a worker: evaluate a batch."""
    with _ONE_AT_A_TIME:
        return [_evaluator(packed).row(number) for number in numbers]


@lru_cache(maxsize=4)
def _evaluator(packed: bytes) -> Evaluator:
    return Evaluator(pickle.loads(packed))  # noqa: S301 - as above
