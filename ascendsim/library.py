"""Which kernel lines lie inside library calls."""

from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=4096)
def is_library(line: str) -> bool:
    """Whether a kernel line lies inside a library call, which its caller cannot rewrite: by the file's name."""
    return line.rpartition(":")[0] in _library_files()


@lru_cache(maxsize=1)
def _library_files() -> frozenset[str]:
    """Files of the high-level APIs. The operators' own kernels are kernels like a user's."""
    folder = Path(__file__).parent / "op_kernel"
    return frozenset(p.name for p in folder.glob("*.py") if not _is_operator(p.stem))


def _is_operator(name: str) -> bool:
    return name.endswith("_operator") or name.startswith("fag_")
