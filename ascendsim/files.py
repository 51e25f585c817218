"""What a user's computer has: the files they name, the TOML in them, and its memory."""

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ascendsim.errors import InputError

MOST_NESTED = 50
"""Tables and arrays inside each other; whatever reads them may call itself so often."""
_NUMBERS = range(-(2**63), 2**63)
"""Whole numbers of TOML. Source: TOML 1.0.0, integer."""
_TOO_DEEP = f"tables and arrays lie deeper than {MOST_NESTED} inside each other"
_TOO_LARGE = "a whole number must lie in -2^63..2^63 - 1"


def is_file(path: Path) -> bool:
    """Whether a file is there; a name that no file can have, such as one of 300 characters, is not."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for such names


def is_folder(path: Path) -> bool:
    """Whether a folder is there, under the same condition."""
    return os.path.isdir(path)  # noqa: PTH112 - as above


def exists(path: Path) -> bool:
    """Whether anything is there, under the same condition."""
    return os.path.exists(path)  # noqa: PTH110 - as above


def memory_bytes() -> int | None:
    """How much memory this computer has; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def read_toml(file: Path) -> dict[str, Any]:
    """Return what a TOML file says.

    Raises:
        InputError: it cannot be read, or is no TOML.
    """
    try:
        return parse_toml(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"{file}: not a text file in UTF-8") from None
    except ValueError as error:
        raise InputError(f"{file}: not valid TOML: {error}") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return what a TOML text says.

    Raises:
        tomllib.TOMLDecodeError: it is no TOML.
        ValueError: it is, but with a number that TOML does not have, or too deeply nested.
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python turns no text of thousands of digits into a number
        raise ValueError(_TOO_LARGE) from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    for key, value, depth in _all_values(tree):
        if depth > MOST_NESTED:
            raise ValueError(f"{'.'.join(key.split('.')[:3])}: {_TOO_DEEP}")
        if isinstance(value, int) and value not in _NUMBERS:
            raise ValueError(f"{key}: {_TOO_LARGE}")
    return tree


def _all_values(tree: dict[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Every value of a tree with its dotted key and how deep it lies, down to one below MOST_NESTED."""
    left: list[tuple[str, Any, int]] = [("", tree, 0)]
    while left:
        key, value, depth = left.pop()
        yield key, value, depth
        if depth <= MOST_NESTED and isinstance(value, dict | list):
            named = value.items() if isinstance(value, dict) else enumerate(value)
            left += [(f"{key}.{name}" if key else str(name), below, depth + 1) for name, below in named]
