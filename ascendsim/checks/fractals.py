"""Where what lies in L1, L0A and L0B comes from, and what Mmad reads of it.

Every datablock knows which row wrote it last, and for each element of what that row wrote from which byte of GM it is
(or which result of L0C), through the copies and transpositions of loads. What Mmad reads is judged by `factors`.
Not known are bytes that come on another way, what is left of a load that another one has partly overwritten, and what a
template brought before it was called again, since its GM may have been elsewhere.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ascendsim.checks.accesses import Accesses
from ascendsim.checks.factors import UNKNOWN, Source, disorder, pitch_bytes, row_in_fractals
from ascendsim.checks.lanes import shape_of
from ascendsim.checks.sites import Hazard, Sites
from ascendsim.isa.instruction import Array, Operand, Row, Step
from ascendsim.isa.mmad import factor, is_empty
from ascendsim.isa.move import burst_geometry
from ascendsim.looker import Looker
from ascendsim.memory import Lanes, distinct
from ascendsim.program import Template
from ascendsim.terms import DATABLOCK_BYTES, FRACTAL_BYTES, Buffer, CO2Layout, Layout, ceil_div

Ints = NDArray[Any]

FED = (Buffer.L1, Buffer.L0A, Buffer.L0B)
"""Memories whose bytes are followed."""
_NOBODY, _ANYBODY = 0, 1
"""Numbers of what nobody wrote, and of what nobody knows where it comes from."""

# ---- what rows bring -------------------------------------------------------------------------------------------------


class _Piece(Protocol):
    """What one row brought to one place."""

    @property
    def templates(self) -> frozenset[int]:
        """The templates of its sources."""

    def look(self, at: Ints, width: int) -> tuple[Ints, Ints]:
        """Return source and byte in it of elements of so many bytes that lie at these addresses."""


@dataclass(frozen=True, slots=True, eq=False)
class _Blocks:
    """Datablocks, each of which runs on in its source.

    Attributes:
        first: number of the first datablock.
        at: byte in the source where each begins.
        valid: bytes of each that come from there; 0 for a datablock that the row left alone.
    """

    source: int
    templates: frozenset[int]
    first: int
    at: Ints
    valid: Ints

    def look(self, at: Ints, width: int) -> tuple[Ints, Ints]:
        """See `_Piece`."""
        block, inside = np.divmod(at - self.first * DATABLOCK_BYTES, DATABLOCK_BYTES)
        is_known = inside + width <= self.valid[block]
        return np.where(is_known, self.source, UNKNOWN), self.at[block] + inside


@dataclass(frozen=True, slots=True, eq=False)
class _Elements:
    """Elements of `width` bytes from the address `first` on, each of a source of its own."""

    templates: frozenset[int]
    first: int
    width: int
    source: Ints
    at: Ints

    def look(self, at: Ints, width: int) -> tuple[Ints, Ints]:
        """See `_Piece`."""
        if width != self.width:
            return np.full(at.shape, UNKNOWN), np.zeros(at.shape, np.int64)
        element = (at - self.first) // width
        return self.source[element], self.at[element]


class _Mover(Looker):
    """Notes, of every byte that a row moves, where it comes from and where it goes."""

    def __init__(self, template: Template) -> None:
        super().__init__(template.tensors)
        self.moved: list[tuple[Ints, Ints]] = []
        """(Byte from the destination's start, byte from the source's), one after the other as they are moved."""
        self.results: list[Ints] = []
        """Elements from the destination's start that are written with computed values, in their order."""

    def mover(self, dst: Operand, dst_at: Lanes, src: Operand, src_at: Lanes) -> Step:
        """Return what moves nothing."""
        self.moved.append((dst_at.offsets, src_at.offsets))
        return super().mover(dst, dst_at, src, src_at)

    def writer(self, operand: Operand, at: Lanes) -> Callable[[Array], None]:
        """Return what takes elements of an operand."""
        self.results.append(at.offsets)
        return super().writer(operand, at)

    def written_blocks(self, start: int) -> Ints:
        """Return the datablocks that are written, given the address of the destination."""
        notes = [note.at.offsets for note in self.notes if note.writes]
        return _distinct((np.concatenate(notes) + start) // DATABLOCK_BYTES) if notes else np.zeros(0, np.int64)


def _distinct(numbers: Ints) -> Ints:
    """Different numbers in ascending order; quick where the same or the next follows the one before mostly."""
    flat = numbers.ravel()
    changes = np.ones(len(flat), np.bool_)
    np.not_equal(flat[1:], flat[:-1], out=changes[1:])
    return distinct(flat[changes])


def _looked(template: Template, row: Row) -> _Mover:
    """What a row moves."""
    mover = _Mover(template)
    mover.look(row)
    return mover


def _span(mover: _Mover, start: int) -> tuple[int, int]:
    """Datablocks from the first to behind the last that are read, given the address of the source; none for nothing."""
    if not mover.moved:
        return 0, 0
    low = min(int(src.min()) for _, src in mover.moved)
    high = max(int(src.max()) for _, src in mover.moved)
    return (start + low) // DATABLOCK_BYTES, (start + high) // DATABLOCK_BYTES + 1


# ---- the walk --------------------------------------------------------------------------------------------------------


def check_fractals(accesses: Accesses, sequences: list[list[int]], wrong: set[int]) -> Iterator[Hazard]:
    """Yield the factors of Mmads whose fractals lie wrongly, once for each row and operand.

    Args:
        accesses: of the program.
        sequences: the templates that cores call, one after the other.
        wrong: kernel lines with an error; what their rows bring is not known.
    """
    if not any(_has_mmads(template) for template in accesses.program.templates):
        return
    walk = _Walk(accesses, wrong)
    for templates in sequences:
        state = walk.start
        for template in templates:
            state = walk.after(state, template)
    yield from walk.found.values()


def _has_mmads(template: Template) -> bool:
    return template.kept("has Mmads", None, lambda: any(row.op.family == "Mmad" for row in template.rows))


@dataclass(frozen=True, slots=True)
class _Work:
    """A row that brings something to L1, L0A or L0B, or multiplies.

    Attributes:
        batch: see `Source`.
    """

    at: int
    row: Row
    batch: int


class _Walk:
    """L1, L0A and L0B through templates: which piece each datablock belongs to."""

    def __init__(self, accesses: Accesses, wrong: set[int]) -> None:
        self._program = accesses.program
        self._places = accesses.places
        self._wrong = wrong
        self._sites = Sites(accesses.program)
        self._pieces: list[_Piece | None] = [None, None]
        self._piece_numbers: dict[Hashable, tuple[int, Ints]] = {}
        self._sources: list[Source] = []
        self._source_numbers: dict[Source, int] = {}
        self._movers: dict[Hashable, _Mover] = {}
        self._work: dict[int, list[_Work]] = {}
        self._judged: set[Hashable] = set()
        self._states: list[Ints] = []
        self._numbers: dict[bytes, int] = {}
        self._known: dict[tuple[int, int], int] = {}
        self.found: dict[tuple[int, int, str], Hazard] = {}
        self.start = self._number(np.zeros(ceil_div(self._places.length_bytes, DATABLOCK_BYTES), np.int32))

    def after(self, state: int, template: int) -> int:
        """Return the state behind a template."""
        key = (state, template)
        if key not in self._known:
            ids = self._states[state].copy()
            work = self._work_of(template)
            if work:
                self._forget(ids, template)
            for one in work:
                self._take(template, one, ids)
            self._known[key] = self._number(ids) if work else state
        return self._known[key]

    def _number(self, ids: Ints) -> int:
        number = self._numbers.setdefault(ids.tobytes(), len(self._states))
        if number == len(self._states):
            self._states.append(ids)
        return number

    def _work_of(self, number: int) -> list[_Work]:
        """The rows of a template that matter here."""
        if number not in self._work:
            template, found, batch = self._program.templates[number], [], 0
            for at, row in enumerate(template.rows):
                is_mmad = row.op.family == "Mmad"
                if is_mmad or (row.dst is not None and template.tensors[row.dst.tensor].buffer in FED):
                    found.append(_Work(at, row, batch))
                batch += is_mmad
            self._work[number] = found
        return self._work[number]

    def _forget(self, ids: Ints, template: int) -> None:
        """What a template brought when it was called before may be of other places in GM than what it brings now."""
        for number in _distinct(ids).tolist():
            piece = self._pieces[number]
            if piece is not None and template in piece.templates:
                ids[ids == number] = _ANYBODY

    def _take(self, template: int, one: _Work, ids: Ints) -> None:
        if one.row.op.family != "Mmad":
            number, blocks = self._brought(template, one, ids)
            for left in _distinct(ids[blocks]).tolist():
                if left > _ANYBODY:  # what is left of it means nothing any more
                    ids[ids == left] = _ANYBODY
            ids[blocks] = number
        elif one.row.line not in self._wrong and not is_empty(one.row):
            for role in ("src0", "src1"):
                self._judge(template, one, role, ids)

    # ---- what a row brings ------------------------------------------------------------------------------------------

    def _brought(self, template: int, one: _Work, ids: Ints) -> tuple[int, Ints]:
        """(Number of the piece that a row brings, the datablocks that it lies in)."""
        row, refs = one.row, self._program.templates[template].tensors
        assert row.dst is not None
        if one.row.line in self._wrong or self._is_vast(row):
            return _ANYBODY, self._touched(template, one)
        key: Hashable = (template, one.at)
        mover = None
        if row.src0 is not None and refs[row.src0.tensor].buffer is Buffer.L1:
            mover = self._mover(template, row)
            first, end = _span(mover, self._address(template, row.src0))
            key = (template, one.at, ids[first:end].tobytes())
        known = self._piece_numbers.get(key)
        if known is None:
            mover = mover or _looked(self._program.templates[template], row)
            piece = self._new(template, one, mover, ids)
            number = _ANYBODY if piece is None else len(self._pieces)
            if piece is not None:
                self._pieces.append(piece)
            known = (number, mover.written_blocks(self._address(template, row.dst)))
            self._piece_numbers[key] = known
        return known

    def _is_vast(self, row: Row) -> bool:
        """Whether a copy writes more than the memories hold, so that it overwrites itself."""
        if row.op.cost != "transfer":
            return False
        count, length, _, _ = burst_geometry(row)
        return count * length > self._places.length_bytes

    def _touched(self, template: int, one: _Work) -> Ints:
        """Datablocks between the first and the last that a row may write, inside the memories."""
        refs = self._program.templates[template].tensors
        blocks = [
            np.arange(
                max(0, self._places.of(refs[t.tensor]) + t.first) // DATABLOCK_BYTES,
                min(ceil_div(self._places.of(refs[t.tensor]) + t.end, DATABLOCK_BYTES), len(self._states[0])),
            )
            for t in self._program.templates[template].touched[one.at]
            if t.role == "dst"
        ]
        return np.concatenate(blocks) if blocks else np.zeros(0, np.int64)

    def _mover(self, template: int, row: Row) -> _Mover:
        """What a load moves; loads of one shape are looked at once."""
        key = shape_of(self._program.templates[template], row)
        known = self._movers.get(key)
        if known is None:
            known = self._movers[key] = _looked(self._program.templates[template], row)
        return known

    def _address(self, template: int, operand: Operand) -> int:
        return self._places.of(self._program.templates[template].tensors[operand.tensor]) + operand.offset_bytes

    def _new(self, template: int, one: _Work, mover: _Mover, ids: Ints) -> _Piece | None:
        """What a row brings; None where that is not known."""
        row, refs = one.row, self._program.templates[template].tensors
        if row.src0 is None or row.dst is None:
            return None
        of, start = refs[row.src0.tensor], self._address(template, row.dst)
        if of.buffer is Buffer.GM and len(mover.moved) == 1:
            source = Source(template, one.batch, of.slot, pitch_bytes(row), of.name)
            return self._blocks(source, start, row.src0.offset_bytes, *mover.moved[0])
        if of.buffer is Buffer.L1 and len(mover.moved) == 1:
            return self._elements(start, row.dst.dtype.bytes, self._address(template, row.src0), mover.moved[0], ids)
        is_nz = "layout" in row.op.params and row.param("layout") == CO2Layout.NZ
        if of.buffer is Buffer.L0C and is_nz and len(mover.results) == 1:
            width, at = row.dst.dtype.bytes, mover.results[0]
            pitch = at.size // row.param("m_size") * width
            source = Source(template, one.batch, -1 - one.at, pitch, of.name)
            return self._results(source, start, width, at)
        return None

    def _source(self, source: Source) -> int:
        number = self._source_numbers.setdefault(source, len(self._sources))
        if number == len(self._sources):
            self._sources.append(source)
        return number

    def _blocks(self, source: Source, start: int, offset: int, dst: Ints, src: Ints) -> _Blocks:
        """What is copied from GM: each datablock of it runs on there."""
        block, inside = np.divmod(start + dst, DATABLOCK_BYTES)
        first = int(block.min())
        at = np.full(int(block.max()) - first + 1, np.iinfo(np.int64).min // 2, np.int64)
        heads = inside == 0
        at[block[heads] - first] = src[heads] + offset
        valid = np.bincount(block - first, minlength=at.size)
        valid[block[src + offset - inside != at[block - first]] - first] = 0
        return _Blocks(self._source(source), frozenset({source.template}), first, at, valid)

    def _elements(self, start: int, width: int, source: int, moved: tuple[Ints, Ints], ids: Ints) -> _Elements:
        """What is loaded from L1, element by element."""
        heads = moved[0] % width == 0
        to, come = moved[0][heads] // width, moved[1][heads] + source
        sources, at = self._look(ids, come, width)
        length = int(to.max()) + 1 + FRACTAL_BYTES // width  # its last datablock may not be full
        all_sources, all_at = np.full(length, UNKNOWN), np.zeros(length, np.int64)
        all_sources[to], all_at[to] = sources, at
        known = _distinct(sources[sources >= 0]).tolist()
        return _Elements(frozenset(self._sources[n].template for n in known), start, width, all_sources, all_at)

    def _results(self, source: Source, start: int, width: int, at: Ints) -> _Elements:
        """What Fixpipe brings from L0C: it goes row by row."""
        length = int(at.max()) + 1 + DATABLOCK_BYTES // width
        sources, places = np.full(length, UNKNOWN), np.zeros(length, np.int64)
        sources[at], places[at] = self._source(source), np.arange(at.size) * width
        return _Elements(frozenset({source.template}), start, width, sources, places)

    def _look(self, ids: Ints, at: Ints, width: int) -> tuple[Ints, Ints]:
        """(Source, byte in it) of elements at these addresses."""
        sources, places = np.full(at.shape, UNKNOWN), np.zeros(at.shape, np.int64)
        of = ids[at // DATABLOCK_BYTES]
        for number in _distinct(of).tolist():
            piece = self._pieces[number]
            if piece is not None:
                mine = of == number
                sources[mine], places[mine] = piece.look(at[mine], width)
        return sources, places

    # ---- what a Mmad reads ------------------------------------------------------------------------------------------

    def _judge(self, template: int, one: _Work, role: str, ids: Ints) -> None:
        """Look at one factor of a Mmad, once for each set of what its memory holds."""
        operand = dict(one.row.operands)[role]
        ref = self._program.templates[template].tensors[operand.tensor]
        start, end = self._address(template, operand), self._places.of(ref) + ref.tensor_bytes
        site = (template, one.at, role)
        key = (*site, ids[start // DATABLOCK_BYTES : ceil_div(end, DATABLOCK_BYTES)].tobytes())
        if key in self._judged or site in self.found:
            return
        self._judged.add(key)
        layout, offsets = factor(one.row, role)
        width = operand.dtype.bytes

        def look(at: Ints) -> tuple[Ints, Ints]:
            return self._look(ids, start + at, width)

        if layout is Layout.ND:
            told = row_in_fractals(look, self._sources, one.row.param("k"), width, end - start)
        else:
            told = disorder(*look(offsets * width), self._sources, layout, width)
        if told is None:
            return
        rule, got, wanted, fill = told
        fill |= {"api": one.row.op.api, "tensor": ref.name}
        place = (template, one.at)
        finding = rule.finding(self._sites.line(place), operand=role, got=got, wanted=wanted, fill=fill)
        self.found[site] = self._sites.hazard(finding, place)
