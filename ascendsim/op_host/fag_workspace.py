"""Terms of the workspace of FlashAttentionScoreGrad [bytes].

Source: ops-transformer op_host, flash_attention_score_grad tilings, workspace size.
"""

from dataclasses import dataclass, field
from typing import Final

from ascendsim.op_host.fag_call import CUBE, FagCall
from ascendsim.terms import align_up

GM_ALIGN: Final = 512
MIB: Final = 2**20
FLOAT_BYTES: Final = 4
EMPTY_BYTES: Final = 100 * MIB
"""Workspace of a call whose outputs are empty."""

_SLOPE_COLUMNS = 1024
_SLOPE_TILE = 8192
_SLOPE_BYTES = 2


@dataclass(frozen=True, slots=True)
class WorkspaceTerm:
    """One part of the workspace.

    Attributes:
        name: what lies there.
        payload_bytes: what is used.
        bytes: what it adds to the size, the step to the boundary behind it included.
        formula: how payload_bytes comes about, and what is rounded.
    """

    name: str
    payload_bytes: int
    bytes: int
    formula: str


@dataclass(slots=True)
class WorkspaceTerms:
    """Builds the workspace term by term; `size` is its bytes so far."""

    terms: list[WorkspaceTerm] = field(default_factory=list)
    size: int = 0

    def add(self, name: str, payload_bytes: int, formula: str) -> int:
        """Add a term without a boundary and return where it starts."""
        return self._append(name, payload_bytes, payload_bytes, formula)

    def add_aligned(self, name: str, payload_bytes: int, formula: str) -> int:
        """Add a term of whole 512-byte units and return where it starts."""
        return self._append(name, payload_bytes, align_up(payload_bytes, GM_ALIGN), f"{formula}, in whole 512 bytes")

    def add_stepped(self, name: str, payload_bytes: int, formula: str) -> int:
        """Add a term and step to the next 512-byte boundary, from a boundary a whole 512 on; return its start."""
        end = (self.size + payload_bytes + GM_ALIGN) // GM_ALIGN * GM_ALIGN
        return self._append(name, payload_bytes, end - self.size, f"{formula}, then on to the next 512-byte boundary")

    def total(self) -> tuple[WorkspaceTerm, ...]:
        """Return the terms; one that adds nothing is left out."""
        return tuple(term for term in self.terms if term.bytes)

    def _append(self, name: str, payload_bytes: int, size: int, formula: str) -> int:
        start = self.size
        self.terms.append(WorkspaceTerm(name, payload_bytes, size, formula))
        self.size += size
        return start


def slope_tile(call: FagCall, rows: int, *, tnd_has_own: bool) -> tuple[int, int]:
    """Return (rows, columns) of the tile in which a core makes the position bias of pseType 2 and 3.

    Args:
        call: the call.
        rows: rows of a vector tile that bound it.
        tnd_has_own: a TND call takes all those rows, and no more columns than S2.
    """
    s2 = call.shape.s2
    if tnd_has_own and call.shape.is_tnd:
        return rows, _SLOPE_COLUMNS if s2 > _SLOPE_COLUMNS else call.shape.s2_aligned
    tail = s2 % _SLOPE_COLUMNS or _SLOPE_COLUMNS
    return max(min(rows, _SLOPE_TILE // align_up(tail, CUBE)), _SLOPE_TILE // rows), _SLOPE_COLUMNS


def slope_bytes(call: FagCall, rows: int, *, tnd_has_own: bool) -> int:
    """Return the bytes of that tile for one core, 0 without such a bias; the arguments as in `slope_tile`."""
    if not call.is_inner_pse:
        return 0
    tile_rows, columns = slope_tile(call, rows, tnd_has_own=tnd_has_own)
    return align_up(tile_rows * columns * _SLOPE_BYTES, GM_ALIGN)
