"""A process that draws a run's pictures while this one goes on: on two cores they then take no time of their own.

It is started early, because loading the drawing library takes as long as drawing. The two meet through files in a
folder of their own, so that nothing that either prints can disturb them.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ascendsim.errors import PainterError

RUN, PICTURES, MESSAGES = "run.pickle", "pictures.pickle", "messages.txt"


class Painter:
    """Starts the process on entry and ends it on exit, however far it got. It draws one run."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="ascendsim-")
        place = Path(self._folder.name)
        with (place / MESSAGES).open("wb") as messages:
            # -P: the module is that of this installation, whatever lies in the working directory.
            self._process = subprocess.Popen(  # noqa: S603 - this program, nothing from outside
                [sys.executable, "-P", "-m", "ascendsim.plot.process", str(place)],
                stdin=subprocess.PIPE,
                stdout=messages,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=_environment(),
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def begin(self, record: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Have a run drawn, given as `stored` gives it."""
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
