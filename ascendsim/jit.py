"""Compilation of the hot loops: numba, cached on disk.

Whole numbers of 64 bits wrap around silently. Times are below LAST_CYCLE (engine/loop.py), units on a link below 2**62.
Floating-point arithmetic is IEEE's: nothing is reordered or contracted.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache

F = TypeVar("F", bound=Callable[..., Any])

_njit = cast("Any", numba.njit)
"""Its stubs leave some options out, of them `_nrt`, which has no documentation either: without it the engine is right
but several times slower."""
_FAST = {"boundscheck": False, "error_model": "numpy"}
_PACKAGE = Path(__file__).parent
_SOURCES = (
    *sorted((_PACKAGE / "engine").glob("*.py")),
    *(_PACKAGE / name for name in ("isa/mmad_arithmetic.py", "jit.py", "terms.py")),
)
VERSION = hashlib.sha256(b"".join(path.read_bytes() for path in _SOURCES)).hexdigest()[:12]
"""Of all that compiled code is made from. The cache looks at the file of a function only, not at what that imports."""


def is_compiled(function: object) -> bool:
    """Whether a function made by `compiled_in_place` is compiled or lies in the cache on disk."""
    dispatcher = cast("Any", function)
    if not hasattr(dispatcher, "overloads"):
        return True  # compiling is switched off
    if dispatcher.overloads or dispatcher.stats.cache_path is None:
        return bool(dispatcher.overloads)
    return any(Path(dispatcher.stats.cache_path).glob(f"*.{dispatcher.__name__}_{VERSION}-*.nbc"))


def compiled_in_place(function: F) -> F:
    """Compile a function of numbers and arrays when it is first called, or take it from the cache on disk.

    Other threads run meanwhile. It makes no arrays, and the caller keeps those that it is given alive. So references
    are not counted, which makes
    small functions on many arrays several times as fast; and a cached one needs nothing of numba's that makes arrays,
    which takes 0.06 s to load.
    """
    return _cached(function, _nrt=False, nogil=True, **_FAST)


def _cached(function: F, **options: object) -> F:
    """Compile with a cache on disk; without one where nothing can be written, neither beside the code nor at home."""
    function.__qualname__ = f"{function.__qualname__}_{VERSION}"
    try:
        dispatcher = _njit(cache=True, **options)(function)
        if not hasattr(dispatcher, "signatures"):
            return cast("F", dispatcher)  # compiling is switched off
        dispatcher._cache = cast("Any", _WarmCache)(function)  # noqa: SLF001 - what enable_caching sets
    except RuntimeError:
        return cast("F", _njit(**options)(function))
    return cast("F", dispatcher)


class _WarmCache(FunctionCache):
    """A cache whose hits need none of the tables that compiling needs.

    Numba fills them before it looks into its cache, which takes longer than all else that a short run does at start-up.
    After a miss the compiler fills them itself.
    """

    def load_overload(self, sig: object, target_context: object) -> object:
        """Return the compiled code of a signature, or None."""
        with self._guard_against_spurious_io_errors():
            return cast("Any", self)._load_overload(sig, target_context)  # noqa: SLF001


def inlined(function: F) -> F:
    """Make a part of functions that are `compiled_in_place`; it cannot be called from Python."""
    return cast(
        "F", _njit(_nrt=False, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **_FAST)(function)
    )


def called(function: F) -> F:
    """Make a part as `inlined`, but one that is seldom needed and would be in the way of what is needed often."""
    return cast("F", _njit(_nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, **_FAST)(function))
