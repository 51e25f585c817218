"""What an operator says of its own work: floating-point operations and how it counts them, blocks of each core."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one call.

    Attributes:
        flop: floating-point operations.
        convention: how they are counted, in words.
        factors: element type of the products' factors.
        kind: the kind of cores that blocks are dealt to.
        blocks: how many each of these cores has.
        block_flop: the operations in them.
    """

    flop: int
    convention: str
    factors: str
    kind: str
    blocks: tuple[int, ...]
    block_flop: tuple[int, ...]
