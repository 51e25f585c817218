"""How wide texts are, measured with the fonts that matplotlib draws them in."""

from functools import cache
from pathlib import Path

from matplotlib import get_data_path
from matplotlib.font_manager import fontManager, get_font
from matplotlib.ft2font import FT2Font, LoadFlags

_CHINESE = ("Noto Sans CJK SC", "Source Han Sans SC", "WenQuanYi Micro Hei", "Microsoft YaHei", "PingFang SC", "SimHei")
"""Fonts for Chinese names, of which the first that is installed is used; without one they become squares."""
_EM = 100


def _families() -> list[str]:
    installed = {entry.name for entry in fontManager.ttflist}
    return ["DejaVu Sans", *[name for name in _CHINESE if name in installed][:1]]


FAMILIES = _families()
"""DejaVu Sans comes with matplotlib."""


MISSING = "\u25a1"
"""What stands for a character that no font has: an empty square."""


@cache
def _fonts(bold: bool) -> tuple[FT2Font, ...]:
    own = Path(get_data_path()) / "fonts" / "ttf" / f"DejaVuSans{'-Bold' * bold}.ttf"
    more = [entry.fname for name in FAMILIES[1:] for entry in fontManager.ttflist if entry.name == name]
    return tuple(get_font(str(path)) for path in (own, *more[:1]))


@cache
def drawable(char: str) -> str:
    """Return a character, or what stands for it where no font has it."""
    return char if any(font.get_char_index(ord(char)) for font in _fonts(False)) else MISSING


@cache
def _advance(char: str, bold: bool) -> float:
    """How far a character moves the pen, in ems."""
    code = ord(drawable(char))
    font = next((f for f in _fonts(bold) if f.get_char_index(code)), _fonts(bold)[0])
    font.set_size(_EM, 72)
    return float(font.load_char(code, flags=LoadFlags.NO_HINTING).linearHoriAdvance) / 65536 / _EM


def text_width(line: str, size: float, *, bold: bool = False) -> float:
    """Width of a line of text in inches, its size in points."""
    return sum(_advance(char, bold) for char in line) * size / 72
