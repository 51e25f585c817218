"""Functions that a scenario names in the user's own files. Loading one runs the file's code."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ascendsim.errors import InputError
from ascendsim.files import is_file


def load_function(text: str, folder: Path, what: str) -> Any:
    """Import `file.py:name` and return the function. This runs the file's code.

    While it runs, the file can import the modules beside it.

    Raises:
        InputError: no such file or function, or the file cannot be imported.
    """
    file_name, _, name = text.partition(":")
    path = folder / file_name
    if not name or path.suffix != ".py":
        raise InputError(f'{what} = {text!r}: want "file.py:function", a file beside the scenario and a function in it')
    if not is_file(path):
        raise InputError(f'{what} = {text!r}: want "file.py:function" beside the scenario; {path} is not there')
    try:
        module = _load_module(path)
    except SystemExit as error:
        raise InputError(
            f"{what} = {text!r}: importing {path} failed: it calls sys.exit({error.code!r}); a file that is imported "
            'must not end the program, so put that call under if __name__ == "__main__"'
        ) from error
    except Exception as error:
        raise InputError(f"{what} = {text!r}: importing {path} failed: {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if not callable(found):
        raise InputError(f"{what} = {text!r}: {path} has no function {name}")
    return found


def _load_module(path: Path) -> ModuleType:
    """Run a file as a module. Its name is one that no other module has, so that a json.py of the user shadows none."""
    name = f"_ascendsim_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        with _importable(path.parent.resolve()):
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let modules of the folder be imported; forget them afterwards, because another folder may have the same names."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - before:
            package = name.partition(".")[0]
            if package not in before and (is_file(folder / f"{package}.py") or (folder / package).is_dir()):
                del sys.modules[name]
