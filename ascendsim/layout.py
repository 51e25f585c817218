"""Where elements of matrices lie in GM, L1, L0A, L0B and L0C, and which elements the moves between them take.

Everything here is whole-number arithmetic on offsets in elements; nothing is read or written. Sources: asc-devkit docs,
fractal formats page and the pages of DataCopy (ND2NZ), LoadData, LoadDataWithTranspose, Fixpipe and its NZ2NZ, NZ2ND,
channel split and channel merge pages. 4-bit types are not covered.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.terms import CUBE_SIDE, DATABLOCK_BYTES, FRACTAL_BYTES, Layout, align_up, ceil_div

Array = NDArray[Any]
Offsets = NDArray[np.int64]

PADDING = -1
"""As the source of an element: none; the move writes its padding value (0 unless the instruction names another)."""

SPLIT_COLUMNS = 8
"""Columns of a block that Fixpipe writes with channel split (float)."""
MERGED_COLUMNS = 32
"""Columns of a block that Fixpipe writes for 8-bit results (channel merge)."""

FIXPIPE_ND_STRIDE_ELEMENTS = CUBE_SIDE * CUBE_SIDE
"""Unit of srcNdStride in FixpipeParamsV220: 16 C0_SIZE, that is a fractal of L0C (1024 B of 32-bit results).

The Fixpipe and SetFixpipeNz2ndFlag pages say so; the example of the NZ2ND page counts C0_SIZE, which is the unit of
FixpipeParamsArch3510 (`FIXPIPE_ND_STRIDE_ELEMENTS_3510`).
"""
FIXPIPE_ND_STRIDE_ELEMENTS_3510 = CUBE_SIDE
"""Unit of srcNdStride in FixpipeParamsArch3510: C0_SIZE, a row of a fractal of L0C."""


@dataclass(frozen=True, slots=True)
class Moves:
    """Elements that a move writes, in the order in which it writes them.

    Attributes:
        dst: offsets from the start of the destination, in its elements, 1-D.
        src: offsets from the start of the source, in its elements; `PADDING` where a padding value is written.
    """

    dst: Offsets
    src: Offsets


@dataclass(frozen=True, slots=True)
class FractalMoves:
    """Fractals that a load takes; a square that is transposed has one or two of them.

    Attributes:
        dst: starts of fractals in the destination, in fractals of 512 B, [repeat, fractals of a square].
        src: starts of fractals in the source, likewise.
    """

    dst: Offsets
    src: Offsets


# ---- layouts ---------------------------------------------------------------------------------------------------------


def c0_elements(element_bytes: int) -> int:
    """Return C0, the elements of a datablock: the short side's length of a fractal for 32-bit types, 8.

    Args:
        element_bytes: 1, 2 or 4.
    """
    return DATABLOCK_BYTES // element_bytes


def fractal_shape(layout: Layout, element_bytes: int) -> tuple[int, int]:
    """Return rows and columns of a fractal; (1, 1) for ND, which has none."""
    c0 = c0_elements(element_bytes)
    return {
        Layout.ND: (1, 1),
        Layout.NZ: (CUBE_SIDE, c0),
        Layout.ZZ: (CUBE_SIDE, c0),
        Layout.ZN: (c0, CUBE_SIDE),
        Layout.NZ_L0C: (CUBE_SIDE, CUBE_SIDE),
    }[layout]


def fractal_elements(layout: Layout, element_bytes: int) -> int:
    """Return the elements of a fractal: 512 B of them, but 256 in L0C."""
    rows, columns = fractal_shape(layout, element_bytes)
    return rows * columns


def offsets(layout: Layout, rows: int, columns: int, element_bytes: int, row_stride: int | None = None) -> Offsets:
    """Return the offset of every element of a matrix, in elements, [rows, columns].

    Args:
        layout: how it lies. Rows and columns of ZN are k and n.
        rows: rows of the matrix, which need not fill its last fractals.
        columns: columns of the matrix.
        element_bytes: 1, 2 or 4; without effect on ND and L0C.
        row_stride: elements from one row to the next, for ND only; as many as there are columns if None.

    Source: formulas of the fractal formats page.
    """
    r, c = np.arange(rows, dtype=np.int64)[:, None], np.arange(columns, dtype=np.int64)
    if layout is Layout.ND:
        nd: Offsets = r * (columns if row_stride is None else row_stride) + c
        return nd
    height, width = fractal_shape(layout, element_bytes)
    outer_r, inner_r = np.divmod(r, height)
    outer_c, inner_c = np.divmod(c, width)
    if layout in (Layout.NZ, Layout.NZ_L0C):
        fractal = outer_c * ceil_div(rows, height) + outer_r
    else:
        fractal = outer_r * ceil_div(columns, width) + outer_c
    inner = inner_c * height + inner_r if layout is Layout.ZN else inner_r * width + inner_c
    at: Offsets = fractal * (height * width) + inner
    return at


def elements(layout: Layout, rows: int, columns: int, element_bytes: int) -> int:
    """Return the elements that a matrix occupies with its last fractals filled up."""
    height, width = fractal_shape(layout, element_bytes)
    return align_up(rows, height) * align_up(columns, width)


def pack(matrix: Array, layout: Layout, fill: object) -> Array:
    """Return the elements of a matrix [rows, columns] in a layout, 1-D, `fill` where a fractal is not filled."""
    rows, columns = matrix.shape
    width = matrix.dtype.itemsize
    flat = np.full(elements(layout, rows, columns, width), fill, matrix.dtype)
    flat[offsets(layout, rows, columns, width)] = matrix
    return flat


def unpack(flat: Array, layout: Layout, rows: int, columns: int) -> Array:
    """Return the matrix [rows, columns] of elements that lie in a layout, 1-D."""
    matrix: Array = flat[offsets(layout, rows, columns, flat.dtype.itemsize)]
    return matrix


# ---- GM -> L1 --------------------------------------------------------------------------------------------------------


def nd2nz_offsets(
    nd_num: int,
    n_value: int,
    d_value: int,
    src_nd_matrix_stride: int,
    src_d_value: int,
    dst_nz_c0_stride: int,
    dst_nz_n_stride: int,
    dst_nz_matrix_stride: int,
    element_bytes: int,
) -> Moves:
    """Return what DataCopy with Nd2NzParams moves: row by row of each matrix, each row padded with zeros to 32 B.

    Rows beyond n_value are not written. Arguments have the order, units and meaning of the struct: matrix strides and
    src_d_value in elements, dst_nz_c0_stride and dst_nz_n_stride in datablocks of 32 B. A count of 0 moves nothing.

    Source: asc-devkit docs, ND2NZ page (GM to L1); where element (n, d) lands is inferred from its strides and agrees
    with both figures there.
    """
    c0 = c0_elements(element_bytes)
    matrix = np.arange(nd_num, dtype=np.int64)[:, None, None]
    n = np.arange(n_value, dtype=np.int64)[:, None]
    d = np.arange(align_up(d_value, c0), dtype=np.int64)
    dst = matrix * dst_nz_matrix_stride + (d // c0 * dst_nz_c0_stride + n * dst_nz_n_stride) * c0 + d % c0
    src = np.where(d < d_value, matrix * src_nd_matrix_stride + n * src_d_value + d, PADDING)
    return Moves(dst.reshape(-1), src.reshape(-1))


# ---- L1 -> L0A, L0B by fractals --------------------------------------------------------------------------------------


def square_fractals(element_bytes: int) -> int:
    """Return how many fractals make the square that is transposed at once: 2 for 8 and 32 bits, 1 for 16 bits."""
    return square_side(element_bytes) ** 2 * element_bytes // FRACTAL_BYTES


def square_side(element_bytes: int) -> int:
    """Return rows and columns of the square that is transposed at once: 32 for 8 bits, 16 for 16 and 32 bits."""
    return max(CUBE_SIDE, c0_elements(element_bytes))


def square_sources(element_bytes: int) -> Offsets:
    """Return the transposition of a square: for each element of it, where in the source square it comes from.

    Both squares are whole fractals one behind the other: 8-bit ones lie below each other (16 x 32 twice), 32-bit ones
    side by side (16 x 8 twice).

    Returns:
        Offsets in elements, [fractals of a square, elements of a fractal].

    Source: asc-devkit docs, LoadDataWithTranspose page and the pseudo-code that it links to.
    """
    side = square_side(element_bytes)
    at = offsets(Layout.NZ, side, side, element_bytes)
    found = np.empty(side * side, np.int64)
    found[at] = at.T
    return found.reshape(square_fractals(element_bytes), -1)


def load_data_2d_fractals(
    start_index: int, repeat_times: int, src_stride: int, dst_gap: int, addr_mode: int = 0
) -> FractalMoves:
    """Return the fractals that LoadData with LoadData2DParams takes, [repeat, 1].

    Args:
        start_index: first fractal of the source.
        repeat_times: fractals moved; 0 moves nothing.
        src_stride: from the head of a source fractal to that of the next, in fractals.
        dst_gap: from the tail of a destination fractal to the head of the next, in fractals.
        addr_mode: 1 counts source fractals downwards.

    Source: asc-devkit docs, LoadData (2D) page.
    """
    i = np.arange(repeat_times, dtype=np.int64)[:, None]
    step = -src_stride if addr_mode else src_stride
    return FractalMoves(dst=i * (dst_gap + 1), src=start_index + i * step)


def transpose_fractals(
    start_index: int,
    repeat_times: int,
    src_stride: int,
    dst_gap: int,
    dst_frac_gap: int,
    element_bytes: int,
    addr_mode: int = 0,
) -> FractalMoves:
    """Return the fractals that LoadDataWithTranspose with LoadData2dTransposeParams takes, [repeat, square's fractals].

    Args:
        start_index: first square of the source.
        repeat_times: squares moved; 0 moves nothing.
        src_stride: from the head of a square to that of the next, in squares.
        dst_gap: from the end of the first fractal of a square to the first fractal of the next, in fractals.
        dst_frac_gap: from the end of a fractal of a square to the next fractal of that square, in fractals.
        element_bytes: 1, 2 or 4.
        addr_mode: 1 counts source squares downwards.

    Source: asc-devkit docs, LoadDataWithTranspose page.
    """
    unit = square_fractals(element_bytes)
    return transpose_fractals_v2(
        start_index * unit, repeat_times, src_stride * unit, dst_gap, dst_frac_gap, 0, element_bytes, addr_mode
    )


def transpose_fractals_v2(
    start_index: int,
    repeat_times: int,
    src_stride: int,
    dst_gap: int,
    dst_frac_gap: int,
    src_frac_gap: int,
    element_bytes: int,
    addr_mode: int = 0,
) -> FractalMoves:
    """Return the fractals that LoadDataWithTranspose with LoadData2dTransposeParamsV2 takes, as `transpose_fractals`.

    start_index and src_stride count fractals here, and src_frac_gap fractals lie between those of a source square. The
    page speaks of four fractals for 32-bit types where the rest of it has two; two are taken.

    Source: asc-devkit docs, LoadDataWithTranspose page, table 4.
    """
    i = np.arange(repeat_times, dtype=np.int64)[:, None]
    f = np.arange(square_fractals(element_bytes), dtype=np.int64)
    step = -src_stride if addr_mode else src_stride
    return FractalMoves(
        dst=i * (dst_gap + 1) + f * (dst_frac_gap + 1), src=start_index + i * step + f * (src_frac_gap + 1)
    )


def copied(fractals: FractalMoves, element_bytes: int) -> Moves:
    """Return the elements moved when fractals are copied as they are."""
    inner = np.arange(FRACTAL_BYTES // element_bytes, dtype=np.int64)
    dst, src = (at[..., None] * inner.size + inner for at in (fractals.dst, fractals.src))
    return Moves(dst.reshape(-1), src.reshape(-1))


def transposed(fractals: FractalMoves, element_bytes: int) -> Moves:
    """Return the elements moved when the squares made of these fractals are transposed.

    Takes fractals of LoadDataWithTranspose, or those of LoadData 2D with ifTranspose for 16-bit types, whose square is
    one fractal.
    """
    inner = np.arange(FRACTAL_BYTES // element_bytes, dtype=np.int64)
    fractal, element = np.divmod(square_sources(element_bytes), inner.size)
    dst = fractals.dst[..., None] * inner.size + inner
    src = fractals.src[:, fractal] * inner.size + element
    return Moves(dst.reshape(-1), src.reshape(-1))


# ---- L1 -> L0A, L0B with image to column -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """A feature map in L1 and the kernel that slides over it: LoadData3DParamsV2 without its window.

    It lies as [C1, l1_h, l1_w, C0]. Channels that do not fill C0 (4, 8 or 16 of them, or as many behind full ones) lie
    as a last block [l1_h, l1_w, rest] and take `rest` columns for each point of the kernel: the page's figures show so
    for four channels, for the rest it is inferred. Strides and dilations are at least 1; filter_w and filter_h contain
    the 256 of filterSizeW and filterSizeH.
    """

    l1_h: int
    l1_w: int
    channel_size: int
    pad_left: int = 0
    pad_right: int = 0
    pad_top: int = 0
    pad_bottom: int = 0
    stride_w: int = 1
    stride_h: int = 1
    filter_w: int = 1
    filter_h: int = 1
    dilation_filter_w: int = 1
    dilation_filter_h: int = 1

    @property
    def out_w(self) -> int:
        """Positions of the kernel along the width."""
        free = self.l1_w + self.pad_left + self.pad_right - (self.filter_w - 1) * self.dilation_filter_w - 1
        return max(0, free // self.stride_w + 1)

    @property
    def out_h(self) -> int:
        """Positions of the kernel along the height."""
        free = self.l1_h + self.pad_top + self.pad_bottom - (self.filter_h - 1) * self.dilation_filter_h - 1
        return max(0, free // self.stride_h + 1)

    @property
    def rows(self) -> int:
        """Rows of the matrix: one for each position of the kernel."""
        return self.out_h * self.out_w

    @property
    def columns(self) -> int:
        """Columns of the matrix: one for each point of the kernel and channel."""
        return self.filter_h * self.filter_w * self.channel_size

    def sources(self, row: Offsets, column: Offsets, element_bytes: int) -> Offsets:
        """Return where elements of the matrix lie in L1, in elements; `PADDING` outside the map.

        Row m is the kernel at (m div out_w, m mod out_w); columns run over C1, the kernel's points row by row, and the
        channels of a block, the last fastest. `row` and `column` are broadcast against each other.
        """
        c0 = c0_elements(element_bytes)
        points = self.filter_h * self.filter_w
        block = column // (points * c0)
        width = np.where(block < self.channel_size // c0, c0, self.channel_size % c0 or c0)
        point, channel = np.divmod(column - block * (points * c0), width)
        h = row // self.out_w * self.stride_h - self.pad_top + point // self.filter_w * self.dilation_filter_h
        w = row % self.out_w * self.stride_w - self.pad_left + point % self.filter_w * self.dilation_filter_w
        inside = (h >= 0) & (h < self.l1_h) & (w >= 0) & (w < self.l1_w)
        at = block * (self.l1_h * self.l1_w * c0) + (h * self.l1_w + w) * width + channel
        return np.where(inside, at, PADDING)


def load_data_3d(
    image: FeatureMap,
    m_start: int,
    m_extension: int,
    k_start: int,
    k_extension: int,
    layout: Layout,
    element_bytes: int,
    *,
    en_transpose: bool = False,
) -> Moves:
    """Return what LoadData with LoadData3DParamsV2 moves: a window of the image-to-column matrix into L0A or L0B.

    Into L0A the window [m_extension, k_extension] lands as it is, or with en_transpose as [k_extension, m_extension].
    Into L0B (ZN) it becomes a matrix of m_extension rows (k of Mmad) and k_extension columns (n of Mmad), whose
    fractals are the transposed ones. A transposed move works on squares, so both sides are filled up to squares (for
    32-bit types L0A then holds k in multiples of 16, which is what Mmad's kDirectionAlign is for). The pages do not say
    what is written where the window does not fill its last fractal, or reaches beyond the matrix; here nothing is, as
    in the pseudo-code for 32-bit types. Mmad does not look at it.

    Args:
        image: the feature map and its kernel.
        m_start: first row of the window.
        m_extension: rows of the window; 0 moves nothing.
        k_start: first column of the window, a multiple of C0.
        k_extension: columns of the window; 0 moves nothing.
        layout: of the destination: ZZ or NZ for L0A (by the part), ZN for L0B.
        element_bytes: 1, 2 or 4.
        en_transpose: transposes into L0A; without effect on L0B.

    Source: asc-devkit docs, LoadData (convolution) page and the pseudo-code that it links to.
    """
    m = np.arange(max(0, min(m_extension, image.rows - m_start)), dtype=np.int64)[:, None]
    k = np.arange(max(0, min(k_extension, image.columns - k_start)), dtype=np.int64)
    side = square_side(element_bytes)
    square = align_up(m_extension, side), align_up(k_extension, side)
    if layout is Layout.ZN:
        at = offsets(layout, *square, element_bytes)
    elif en_transpose:
        at = offsets(layout, *square[::-1], element_bytes).T
    else:
        at = offsets(layout, m_extension, k_extension, element_bytes)
    if m.size == 0 or k.size == 0:
        return Moves(np.empty(0, np.int64), np.empty(0, np.int64))
    src = image.sources(m_start + m, k_start + k, element_bytes)
    return Moves(at[: m.size, : k.size].reshape(-1), src.reshape(-1))


# ---- L0C -> GM, L1 ---------------------------------------------------------------------------------------------------


def fixpipe_nz_offsets(
    n_size: int, m_size: int, src_stride: int, dst_stride_elements: int, block_columns: int = CUBE_SIDE
) -> Moves:
    """Return what Fixpipe moves with NZ output (CFG_NZ): m_size rows of whole blocks of columns.

    Args:
        n_size: columns; a last block that they do not fill is moved whole.
        m_size: rows.
        src_stride: from one column of fractals in L0C to the next, in C0_SIZE (rows of 16 elements).
        dst_stride_elements: from one block of columns in the destination to the next, in its elements. The struct
            counts 32 B in FixpipeParamsV220 and elements in FixpipeParamsArch3510.
        block_columns: `SPLIT_COLUMNS` with channel split, `MERGED_COLUMNS` for 8-bit results, else 16. Merged, an odd
            last 16 columns stay a block of rows of 16.

    Source: asc-devkit docs, NZ2NZ, Int8 Channel Merge and F32 Channel Split pages. With channel split the stride goes
    from one block of 8 columns to the next, as "adjacent Z" has it and shipped kernels use it.
    """
    m = np.arange(m_size, dtype=np.int64)[:, None]
    n = np.arange(align_up(n_size, min(block_columns, CUBE_SIDE)), dtype=np.int64)
    block = n // block_columns
    width = np.minimum(block_columns, n.size - block * block_columns)
    dst = block * dst_stride_elements + m * width + n % block_columns
    return Moves(dst.reshape(-1), _l0c(m, n, src_stride).reshape(-1))


def fixpipe_nd_offsets(
    n_size: int,
    m_size: int,
    src_stride: int,
    dst_stride: int,
    nd_num: int = 1,
    src_nd_stride_elements: int = 0,
    dst_nd_stride: int = 0,
) -> Moves:
    """Return what Fixpipe moves with ND output (CFG_ROW_MAJOR): nd_num matrices, row by row.

    Args:
        n_size: columns; only these are written.
        m_size: rows.
        src_stride: from one column of fractals in L0C to the next, in C0_SIZE (rows of 16 elements).
        dst_stride: elements from one row of the destination to the next.
        nd_num: matrices; 0 moves nothing.
        src_nd_stride_elements: from one matrix in L0C to the next, in elements: the struct's srcNdStride times
            `FIXPIPE_ND_STRIDE_ELEMENTS`, or `FIXPIPE_ND_STRIDE_ELEMENTS_3510`.
        dst_nd_stride: elements from one matrix of the destination to the next.

    Source: asc-devkit docs, NZ2ND page.
    """
    matrix = np.arange(nd_num, dtype=np.int64)[:, None, None]
    m = np.arange(m_size, dtype=np.int64)[:, None]
    n = np.arange(n_size, dtype=np.int64)
    dst = matrix * dst_nd_stride + m * dst_stride + n
    src = matrix * src_nd_stride_elements + _l0c(m, n, src_stride)
    return Moves(dst.reshape(-1), src.reshape(-1))


def _l0c(m: Offsets, n: Offsets, src_stride: int) -> Offsets:
    """Offsets in L0C of rows m and columns n, for columns of fractals that lie src_stride rows apart."""
    return n // CUBE_SIDE * (src_stride * CUBE_SIDE) + m * CUBE_SIDE + n % CUBE_SIDE
