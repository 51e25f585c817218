"""Functions that a scenario names in the user's own files. Loading one runs the file's code."""

import importlib.util
from pathlib import Path
from typing import Any

from ascendsim.errors import InputError


def load_function(text: str, folder: Path, what: str) -> Any:
    """Import `file.py:name` and return the function. This runs the file's code.

    Raises:
        InputError: no such file or function, or the file cannot be imported.
    """
    file_name, _, name = text.partition(":")
    path = folder / file_name
    if not name or not path.is_file():
        raise InputError(f'{what} = {text!r}: want "file.py:function" beside the scenario; {path} is not there')
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{what} = {text!r}: importing {path} failed: {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if not callable(found):
        raise InputError(f"{what} = {text!r}: {path} has no function {name}")
    return found
