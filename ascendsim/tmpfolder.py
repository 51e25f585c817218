"""Files of a temp size: the picture of its curve, its tiling as TOML, and AscendC host lines. Each is written whole."""

from pathlib import Path

from ascendsim.errors import InputError
from ascendsim.plot.tmp_curve import curve_png, curve_svg
from ascendsim.runfolder import write_whole
from ascendsim.tmpsize import Curve, TmpChoice, TmpSize
from ascendsim.tmpsize.export import file_stem, host_lines, tiling_toml


def write_curve(curve: Curve, folder: Path, percent: float | None = None) -> Path:
    """Write the picture of a curve into a folder and return it; with a percentage as `curve_png`.

    Raises:
        InputError: the folder cannot be used.
    """
    file = folder / f"{file_stem(curve.answer)}_curve.png"
    _write("--out", file, curve_png(curve, percent))
    return file


def write_curve_svg(curve: Curve, folder: Path, percent: float | None = None) -> Path:
    """As `write_curve`, as SVG."""
    file = folder / f"{file_stem(curve.answer)}_curve.svg"
    _write("--out", file, curve_svg(curve, percent))
    return file


def write_tiling(answer: TmpSize, choice: TmpChoice, folder: Path) -> list[Path]:
    """Write a choice as TOML, where an operator takes it, and as AscendC lines; return the files.

    Raises:
        InputError: there is no tiling to export, or the folder cannot be used.
    """
    stem = file_stem(answer)
    texts = {f"{stem}.toml": tiling_toml(answer, choice), f"{stem}_tiling.h": host_lines(answer, choice)}
    files = {folder / name: text for name, text in texts.items() if text is not None}
    for file, text in files.items():
        _write("--export", file, text.encode())
    return list(files)


def _write(option: str, file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content)
    except OSError as error:
        reason = f"{error.strerror}; name another folder"
        raise InputError(f"{option} {file.parent}: {file.name} cannot be written: {reason}") from None
