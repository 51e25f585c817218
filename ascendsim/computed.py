"""Which tiles of a program were computed, if not all."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Tile:
    """One use of a @tile function that writes GM: on which core, and the how-many-th there."""

    core: int
    function: str
    number: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What of a program was computed.

    Attributes:
        tiles: the tiles whose output is there.
        tiles_there: how many tiles the program has.
        calls_run: calls that were computed.
        calls: calls that the program has.
    """

    tiles: tuple[Tile, ...]
    tiles_there: int
    calls_run: int
    calls: int
