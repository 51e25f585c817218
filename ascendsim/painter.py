"""A process that draws a run's pictures while this one goes on: on two cores they then take no time of their own.

It is started early, because loading the drawing library takes as long as drawing.
"""

import pickle
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self


class PainterError(RuntimeError):
    """The process that draws has failed; its text says how. An error of this package, or the process was ended."""


class Painter:
    """Starts the process on entry and ends it on exit, however far it got."""

    def __enter__(self) -> Self:
        # -P: the module is that of this installation, whatever lies in the working directory.
        command = [sys.executable, "-P", "-m", "ascendsim.plot.process"]
        self._process = subprocess.Popen(  # noqa: S603 - this program, nothing from outside
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self, record: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Have a run drawn, given as `stored` gives it."""
        assert self._process.stdin is not None
        try:
            pickle.dump((dict(record), dict(arrays)), self._process.stdin)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed() from None

    def pictures(self) -> dict[str, bytes]:
        """Wait for the pictures and return them, by file name.

        Raises:
            PainterError: there are none.
        """
        assert self._process.stdout is not None
        try:
            pictures: dict[str, bytes] = pickle.load(self._process.stdout)  # noqa: S301 - what our own process wrote
        except EOFError:
            raise self._failed() from None
        return pictures

    def _failed(self) -> PainterError:
        assert self._process.stderr is not None
        text = self._process.stderr.read().decode(errors="replace").strip()
        return PainterError(f"drawing the pictures failed with exit code {self._process.wait()}: {text}")
