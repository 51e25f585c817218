"""The field's own words as enums: pipes, buffers, positions, events, modes. Imports nothing of this package.

Spelling follows AscendC (asc-devkit docs, appendix "API pipe types" and the data-structure pages).
"""

from collections.abc import Iterator
from enum import Enum, IntEnum
from functools import cache


class Pipe(IntEnum):
    """An instruction queue of an AI Core. Each runs in order; pipes meet through flags and barriers only."""

    S = 0
    V = 1
    M = 2
    MTE1 = 3
    MTE2 = 4
    MTE3 = 5
    FIX = 6
    ALL = 7
    """Only as an argument of PipeBarrier."""


class Buffer(IntEnum):
    """A physical memory. A TPosition is a role; a Buffer is a place."""

    GM = 0
    UB = 1
    L1 = 2
    L0A = 3
    L0B = 4
    L0C = 5
    BT = 6
    FB = 7


class TPosition(Enum):
    """Logical position of a tensor: a role. Which memory plays it is the device's (`Device.buffer_of`)."""

    GM = "GM"
    VECIN = "VECIN"
    VECCALC = "VECCALC"
    VECOUT = "VECOUT"
    A1 = "A1"
    """Left matrix, staged."""
    B1 = "B1"
    """Right matrix, staged."""
    C1 = "C1"
    """Bias or scales, staged."""
    A2 = "A2"
    """Left operand of Mmad."""
    B2 = "B2"
    """Right operand of Mmad."""
    C2 = "C2"
    """Bias of Mmad."""
    CO1 = "CO1"
    """Result of Mmad."""
    CO2 = "CO2"
    """A result that has left the Cube unit."""
    C2PIPE2GM = "C2PIPE2GM"
    """Scales of Fixpipe, one for each column."""
    TSCM = "TSCM"
    """Staging memory that the kernel manages itself."""


class CoreKind(Enum):
    """What a core of an AI Core can do."""

    AIV = "AIV"
    """Vector core."""
    AIC = "AIC"
    """Cube core."""
    AICORE = "AICORE"
    """A core with both units, as of arch 2002."""


class KernelType(Enum):
    """Which cores run a kernel (asc-devkit docs, kernel type page); a value says the cores of one block."""

    AIV_ONLY = ("AIV",)
    AIC_ONLY = ("AIC",)
    MIX_AIC_1_1 = ("AIC", "AIV")
    MIX_AIC_1_2 = ("AIC", "AIV", "AIV")
    AICORE = ("AICORE",)

    @property
    def kinds(self) -> tuple[CoreKind, ...]:
        """The cores of one block."""
        return _kinds_of(self)

    @property
    def is_mix(self) -> bool:
        """Whether Cube and Vector cores work together."""
        return len(self.value) > 1

    @property
    def block_word(self) -> str:
        """What block_dim counts, as a plural."""
        words = {KernelType.AIC_ONLY: "AICs", KernelType.AIV_ONLY: "AIVs"}
        return words.get(self, "AI Cores")


@cache
def _kinds_of(kernel_type: KernelType) -> tuple[CoreKind, ...]:
    return tuple(map(CoreKind, kernel_type.value))


class HardEvent(IntEnum):
    """A flag pair `source_destination` (asc-devkit, SetFlag/WaitFlag page; kernel_event).

    Which of them a core has is data of the device.
    """

    MTE2_V = 0
    V_MTE2 = 1
    MTE3_V = 2
    V_MTE3 = 3
    V_V = 4
    MTE3_MTE2 = 5
    MTE2_MTE3 = 6
    S_V = 7
    V_S = 8
    S_MTE2 = 9
    MTE2_S = 10
    S_MTE3 = 11
    MTE3_S = 12
    MTE2_MTE1 = 13
    MTE1_MTE2 = 14
    MTE1_M = 15
    M_MTE1 = 16
    M_FIX = 17
    FIX_M = 18
    M_V = 19
    V_M = 20
    MTE3_MTE1 = 21
    MTE1_MTE3 = 22
    MTE1_V = 23
    V_MTE1 = 24
    MTE2_M = 25
    M_MTE2 = 26
    MTE2_FIX = 27
    FIX_MTE2 = 28
    FIX_S = 29
    M_S = 30
    FIX_MTE3 = 31
    MTE1_FIX = 32
    FIX_MTE1 = 33
    FIX_FIX = 34

    @property
    def src(self) -> Pipe:
        """The pipe that sets the flag."""
        return _pipes_of(self)[0]

    @property
    def dst(self) -> Pipe:
        """The pipe that waits for the flag."""
        return _pipes_of(self)[1]


@cache
def _pipes_of(event: HardEvent) -> tuple[Pipe, Pipe]:
    source, destination = event.name.split("_")
    return Pipe[source], Pipe[destination]


class CrossMode(IntEnum):
    """Who sets and who waits for a cross-core flag (asc-devkit docs, CrossCoreSetFlag and SyncAll pages)."""

    SAME_KIND = 0
    """All Cube cores, or all vector cores, among each other."""
    AIVS_OF_BLOCK = 1
    """The vector cores of one AI Core."""
    AIC_AIV = 2
    """The Cube core of an AI Core releases both vector cores, and both of them release it."""
    ALL = 3
    """Every core of the kernel: SyncAll of a mixed kernel. No mode that CrossCoreSetFlag takes."""


class QuantMode(IntEnum):
    """What Fixpipe makes of a result on its way out of L0C (asc-devkit docs, quantisation page: quantPre)."""

    NO_QUANT = 0
    F322F16 = 1
    F322BF16 = 2
    QF322B8_PRE = 3
    VQF322B8_PRE = 4
    DEQF16 = 5
    VDEQF16 = 6
    REQ8 = 7
    VREQ8 = 8

    @property
    def is_per_column(self) -> bool:
        """Whether each column has a scale of its own."""
        return self.name.startswith("V")


class CacheMode(Enum):
    """How accesses to a GM tensor use L2 (AscendC CacheMode)."""

    CACHE_MODE_DISABLE = 0
    CACHE_MODE_NORMAL = 1


class BlockMode(IntEnum):
    """What DataCopy counts on the way from L0C to UB (asc-devkit docs, enhanced DataCopy page)."""

    BLOCK_MODE_NORMAL = 0
    BLOCK_MODE_MATRIX = 1
    """Fractals of 16 x 16."""


class CO2Layout(IntEnum):
    """How Fixpipe lays its result out."""

    NZ = 0
    ROW_MAJOR = 1


class RoundMode(IntEnum):
    """Rounding of Cast (asc-devkit, precision_conversion page)."""

    CAST_NONE = 0
    """RINT where precision is lost, exact otherwise."""
    CAST_RINT = 1
    """To nearest, ties to even."""
    CAST_FLOOR = 2
    CAST_CEIL = 3
    CAST_ROUND = 4
    """To nearest, ties away from zero."""
    CAST_TRUNC = 5
    CAST_ODD = 6
    """The last kept bit becomes 1 when anything was dropped (von Neumann rounding)."""


class CmpMode(IntEnum):
    """Relation of Compare and Compares (asc-devkit docs, Compare page)."""

    LT = 0
    GT = 1
    EQ = 2
    LE = 3
    GE = 4
    NE = 5


class SelMode(IntEnum):
    """What Select takes where a bit is 0, and how far its bits reach (asc-devkit docs, Select page)."""

    VSEL_CMPMASK_SPR = 0
    """Another tensor; every repeat uses the same bits."""
    VSEL_TENSOR_SCALAR_MODE = 1
    """A scalar; each repeat uses the bits that follow."""
    VSEL_TENSOR_TENSOR_MODE = 2
    """Another tensor; each repeat uses the bits that follow."""


class ReduceOrder(IntEnum):
    """What a maximum or minimum leaves for each repeat, and in which order (asc-devkit docs, ReduceRepeat page)."""

    ORDER_VALUE_INDEX = 0
    ORDER_INDEX_VALUE = 1
    ORDER_ONLY_VALUE = 2
    ORDER_ONLY_INDEX = 3


class MaskMode(IntEnum):
    """How the vector mask is read: a bit per lane of a repeat, or a count of elements of the whole instruction."""

    NORMAL = 0
    COUNTER = 1

    @property
    def log_name(self) -> str:
        """Spelling used in instruction logs."""
        return "norm" if self is MaskMode.NORMAL else "count"


class DataFormat(Enum):
    """How a matrix of rows and columns lies in UB."""

    ND = "ND"
    """Row behind row, [m, k]."""
    NZ = "NZ"
    """Slabs of 16 columns, [k / 16, m, 16]: in each slab row behind row."""


class Layout(Enum):
    """How a matrix lies in the buffers of the cube: small blocks (fractals) and their order.

    The first letter says how fractals follow each other (N: column of fractals behind column; Z: row behind row), the
    second how elements follow inside one (Z: row by row; N: column by column).
    Source: asc-devkit docs, fractal formats page.
    """

    ND = "ND"
    """No fractals: row behind row."""
    NZ = "NZ"
    """Fractals of 16 rows x C0 columns, column of fractals first, row by row inside. L1; L0A on some parts."""
    ZZ = "ZZ"
    """Fractals of 16 rows x C0 columns, row of fractals first, row by row inside. L0A."""
    ZN = "ZN"
    """Fractals of C0 rows x 16 columns, row of fractals first, column by column inside. L0B."""
    NZ_L0C = "NZ_L0C"
    """NZ with fractals of 16 x 16 elements, whatever the element type. L0C."""


class HalfOverflow(Enum):
    """What a half or bfloat16 result beyond the largest finite value becomes (CTRL bit 48)."""

    INF_NAN = "inf_nan"
    """Infinities and NaN are kept."""
    SATURATE = "saturate"
    """Infinity becomes the largest finite value, NaN becomes 0."""


class MmadOrder(Enum):
    """In which steps Mmad adds products of floats up; the documents leave it open."""

    STEP = "step"
    """One product after the other along k, each sum rounded to float."""
    FRACTAL = "fractal"
    """The products of a fractal along k are added exactly, and the sum rounded to float once for each fractal."""


DEFAULT_SOC = "Ascend910B1"
"""The part where none is named."""

DATABLOCK_BYTES = 32
"""A datablock, the unit of UB addresses and strides."""

REPEAT_BYTES = 256
"""One repeat of a vector instruction: 8 datablocks."""

DATABLOCKS_PER_REPEAT = 8

FRACTAL_BYTES = 512
"""A fractal, the unit of addresses and strides of L0A and L0B (asc-devkit docs, fractal formats page)."""

CUBE_SIDE = 16
"""Rows of a fractal in NZ and ZZ, columns in ZN, both in L0C (asc-devkit docs, fractal formats page)."""

NZ_COLUMNS = 16
"""Columns of one slab of the NZ format, whatever the element type (asc-devkit docs, data formats)."""

MAX_REPEAT_TIMES = 255
"""The repeat field has 8 bits (asc-devkit docs, high-dimension splitting page)."""

FULL_MASK = (1 << 64) - 1
"""All lanes of one 64-bit mask word."""


def ceil_div(a: int, b: int) -> int:
    """Return a / b rounded up, for b > 0."""
    return -(-a // b)


def pieces(length: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield (length, how many) of the pieces of a length that is cut into steps: whole ones, then what is left."""
    whole, rest = divmod(length, step)
    if whole:
        yield step, whole
    if rest:
        yield rest, 1


def ascendc_field(name: str) -> str:
    """Return AscendC's spelling of a field: split_m is splitM."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def align_up(n: int, unit: int) -> int:
    """Return the smallest multiple of `unit` that is at least `n`."""
    return ceil_div(n, unit) * unit
