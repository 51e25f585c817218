"""A process that draws a run's pictures while this one goes on: on two cores they then take no time of their own.

It is started early, because loading the drawing library takes as long as drawing. The two meet through files in a
folder of their own, so that nothing that either prints can disturb them. Whichever way the process begins, it runs the
module `plot.process`.
"""

import os
import pickle
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn, Protocol, Self

from ascendsim.errors import PainterError

RUN, PICTURES, MESSAGES = "run.pickle", "pictures.pickle", "messages.txt"
MODULE = "ascendsim.plot.process"


class Process(Protocol):
    """A process that draws, as the Painter uses it."""

    stdin: IO[bytes] | None
    """Closed when the run is there."""

    def wait(self) -> int:
        """Return its exit code when it has ended."""

    def kill(self) -> None:
        """End it."""

    def communicate(self) -> object:
        """Close stdin and wait."""


def started(place: Path, messages: IO[bytes]) -> Process:
    """Begin a new interpreter; possible anywhere."""
    # -P: the module is that of this installation, whatever lies in the working directory.
    return subprocess.Popen(  # noqa: S603 - this program, nothing from outside
        [sys.executable, "-P", "-m", MODULE, str(place)],
        stdin=subprocess.PIPE,
        stdout=messages,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=_environment(),
    )


class Forked:
    """A copy of this process: it has loaded what this one has, half of what drawing needs.

    Only for a process of one thread on a system where copies of processes are sound (Linux).
    """

    def __init__(self, place: Path, messages: IO[bytes]) -> None:
        reading, writing = os.pipe()
        self._code: int | None = None
        self._pid = os.fork()
        if self._pid == 0:
            os.close(writing)
            _draw(place, reading, messages)
        os.close(reading)
        self.stdin: IO[bytes] | None = os.fdopen(writing, "wb")

    def wait(self) -> int:
        """Return its exit code when it has ended."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._code

    def kill(self) -> None:
        """End it and its own copy."""
        if self._code is None:
            with suppress(ProcessLookupError):  # it has no session of its own yet
                os.killpg(self._pid, signal.SIGKILL)
            os.kill(self._pid, signal.SIGKILL)

    def communicate(self) -> None:
        """Close stdin and wait."""
        if self.stdin is not None:
            self.stdin.close()
        self.wait()


def _draw(place: Path, reading: int, messages: IO[bytes]) -> NoReturn:
    """Be the process that draws, in a session of its own as a new interpreter would be."""
    code = 1
    try:
        os.setsid()
        for number, stream in enumerate((reading, messages.fileno(), messages.fileno())):
            os.dup2(stream, number)
        sys.stdin = open(0)  # noqa: SIM115 - what this process was started with is not it
        sys.argv = [MODULE, str(place)]
        os.environ.pop("MPLBACKEND", None)
        runpy.run_module(MODULE, run_name="__main__")
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it was, this copy ends here
        os.write(2, traceback.format_exc().encode(errors="replace"))
    os._exit(code)


class Painter:
    """Starts the process on entry and ends it on exit, however far it got. It draws one run."""

    def __init__(self, begin: Callable[[Path, IO[bytes]], Process] = started) -> None:
        self._begin = begin
        self.is_begun = False
        """Whether a run is being drawn."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="ascendsim-")
        place = Path(self._folder.name)
        with (place / MESSAGES).open("wb") as messages:
            self._process = self._begin(place, messages)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def begin(self, record: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Have a run drawn, given as `stored` gives it."""
        assert not self.is_begun, "a painter draws one run"
        self.is_begun = True
        (Path(self._folder.name) / RUN).write_bytes(pickle.dumps((dict(record), dict(arrays))))
        assert self._process.stdin is not None
        self._process.stdin.close()  # tells the other that the file is there

    def pictures(self) -> dict[str, bytes]:
        """Wait for the pictures and return them, by file name.

        Raises:
            PainterError: there are none; the text says why.
        """
        code, place = self._process.wait(), Path(self._folder.name)
        if code != 0:
            messages = (place / MESSAGES).read_text(errors="replace").strip().splitlines()
            raise PainterError(f"the pictures could not be drawn (exit code {code}): {' | '.join(messages[-3:])}")
        pictures: dict[str, bytes] = pickle.loads((place / PICTURES).read_bytes())  # noqa: S301 - our own process's
        return pictures


def _environment() -> dict[str, str]:
    """This process's environment, with its own module path, and without a choice of window system."""
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    return environment | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
