"""Ctrl-C: what it raises, and when."""

import signal
import sys
from types import FrameType

_IMPORT_WAIT_S = 0.02
"""Seconds after which a Ctrl-C that came during an import is tried again."""


class Interrupted(BaseException):
    """Ctrl-C. Not a KeyboardInterrupt, which the command-line library would turn into its own message and code."""


class Interrupt:
    """What Ctrl-C does: it raises, and says so again later, because Python drops what is raised while objects go.

    While a module is being imported it waits: compiled modules do not survive an exception from elsewhere. A second
    Ctrl-C does not wait.
    """

    def __init__(self) -> None:
        self.seen = False

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        """Raise, or try it again after an import."""
        is_first = signal_number == signal.SIGINT and not self.seen
        self.seen = True
        if _is_importing(frame) and (is_first or signal_number != signal.SIGINT) and hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, self)
            signal.setitimer(signal.ITIMER_REAL, _IMPORT_WAIT_S)
            return
        raise Interrupted

    def check(self) -> None:
        """Raise if there was a Ctrl-C."""
        if self.seen:
            raise Interrupted


interrupt = Interrupt()
"""A process has one Ctrl-C, so there is one of these: `main` makes it the handler, long work asks it."""


def unraisable(what: "sys.UnraisableHookArgs") -> None:
    """Say what Python drops, except a Ctrl-C, which is said at the end."""
    if not isinstance(what.exc_value, Interrupted):
        sys.__unraisablehook__(what)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load" and "importlib" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
