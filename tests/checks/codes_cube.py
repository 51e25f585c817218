"""The table of all codes, part 7: the Cube unit, additions in GM, and flags between cores."""

from dataclasses import replace

from codes_harness import A950, entry, flagged, kernels, local, ran

from ascendsim.isa.fixpipe import FixpipeParamsV220
from ascendsim.isa.load import LoadData2DParams
from ascendsim.isa.mmad import MmadParams
from ascendsim.isa.move import DataCopyParams
from ascendsim.isa.nd2nz import Nd2NzParams
from ascendsim.terms import CO2Layout, HardEvent, Pipe, QuantMode, TPosition

P = TPosition
A1, B1 = local("a1", "half", 0, 0x10000, P.A1), local("b1", "half", 0x10000, 0x10000, P.B1)
A2, B2 = local("a2", "half", 0, 0x8000, P.A2), local("b2", "half", 0, 0x8000, P.B2)
C1, C = local("scales", "int64_t", 0x20000, 0x1000, P.C1), local("c", "float", 0, 0x10000, P.CO1)
BIAS1, BIAS2 = local("bias1", "float", 0x30000, 1024, P.C1), local("bias2", "float", 0, 1024, P.C2)
U = local("u", "float", 0, 0x8000, P.VECIN)
GM = {"x": ("half", 32768), "y": {"role": "output", "shape": [8192], "dtype": "float"}}
GM_BYTES = GM | {"y": {"role": "output", "shape": [32768], "dtype": "int8_t"}}
CUBE = {"gm": GM, "kernel_type": "AIC_ONLY"}
MIX = {"gm": GM, "kernel_type": "MIX_AIC_1_2"}
TILE = Nd2NzParams(1, 64, 64, 0, 256, 64, 1, 0)
FETCH = FixpipeParamsV220(64, 64, 64, 128)
ALL = MmadParams(64, 64, 64)


def at(kernel, offset, api=""):
    """A line of a kernel as findings name it, counted from its def."""
    place = f"codes_cube.py:{kernel.__code__.co_firstlineno + offset}"
    return f"{api} ({place})" if api else place


def legal(kernel):
    """The same kernel with what it leaves out."""
    return lambda asc, *gm: kernel(asc, *gm, is_legal=True)


def staged(asc, x, tile=TILE):
    """Two tiles of 64 x 64 in L1."""
    asc.data_copy(A1, x, tile)
    asc.data_copy(B1, x[16384], TILE)
    flagged(asc, HardEvent.MTE2_MTE1)


def loaded(asc):
    """Both in L0A and L0B, in the layout of Mmad."""
    for i in range(4):
        asc.load_data(A2[i * 1024], A1[i * 256], LoadData2DParams(0, 4, 4))
        asc.load_data(B2[i * 1024], B1[i * 256], LoadData2DParams(0, 4, 4, 0, 0, True))
    flagged(asc, HardEvent.MTE1_M)


def fetched(asc, y, params=FETCH, *more):
    """The result in GM."""
    flagged(asc, HardEvent.M_FIX)
    asc.fixpipe(y, C, params, *more)


def product(asc, x, y, mmad=ALL, fix=FETCH):
    """A whole product."""
    staged(asc, x)
    loaded(asc)
    asc.mmad(C, A2, B2, mmad)
    fetched(asc, y, fix)


def cube(code, trigger, neighbour, *texts, **how):
    """A line of two kernels on a Cube core."""
    kernels(code, trigger, neighbour, *texts, **(CUBE | how))


def copied(**change):
    return lambda asc, x, y: asc.data_copy(A1, x, replace(TILE, **change))


def moved(dst, src, **change):
    """A load of one tile from L1."""

    def kernel(asc, x, y):
        staged(asc, x)
        asc.load_data(dst, src, replace(LoadData2DParams(0, 4, 4), **change))

    return kernel


def multiplied(dst=C, a=A2, b=B2, **change):
    """A product of what is loaded; its result is fetched."""

    def kernel(asc, x, y):
        staged(asc, x)
        loaded(asc)
        asc.mmad(dst, a, b, replace(ALL, **change))

    return kernel


def stored(*more, **change):
    """A product and how it is fetched."""

    def kernel(asc, x, y):
        staged(asc, x)
        loaded(asc)
        asc.mmad(C, A2, B2, ALL)
        fetched(asc, y, replace(FETCH, **change), *more)

    return kernel


# ---- where operands start -----------------------------------------------------------------------------------------

cube(
    "E-ALIGN-L1",
    lambda asc, x, y: asc.data_copy(A1[8], x, TILE),
    lambda asc, x, y: asc.data_copy(A1[16], x, TILE),
    ("DataCopy dst a1: L1 address 0x10 is not a multiple of 32 B", "start tensors in L1 on whole datablocks"),
)
cube(
    "E-ALIGN-L0",
    moved(A2[16], A1),
    moved(A2[256], A1),
    (
        "LoadData dst a2: address 0x20 is not a multiple of 512 B, a fractal",
        "start tiles in L0A and L0B on whole fractals",
    ),
)
cube(
    "E-ALIGN-L0C",
    multiplied(C[128]),
    multiplied(C[256]),
    ("Mmad dst c: L0C address 0x200 is not a multiple of 1024 B", "start results on whole fractals of 1024 B"),
)


def with_bias(first):
    """A product that starts from a bias."""

    def kernel(asc, x, y):
        staged(asc, x)
        loaded(asc)
        asc.data_copy(BIAS1, y, DataCopyParams(1, 16))
        flagged(asc, HardEvent.MTE2_MTE1, 1)
        asc.data_copy(BIAS2[first], BIAS1, DataCopyParams(1, 8))
        flagged(asc, HardEvent.MTE1_M, 1)
        asc.mmad(C, A2, B2, replace(ALL, cmatrix_init_val=False), BIAS2[first])

    return kernel


cube(
    "E-ALIGN-BT",
    lambda asc, x, y: asc.data_copy(BIAS2[8], A1.reinterpret_cast("float"), DataCopyParams(1, 1)),
    lambda asc, x, y: asc.data_copy(BIAS2[16], A1.reinterpret_cast("float"), DataCopyParams(1, 1)),
)
cube("W-ALIGN-BIAS128", with_bias(16), with_bias(32))
FB = local("fb", "int64_t", 0, 1024, P.C2PIPE2GM)
cube(
    "E-ALIGN-FB",
    lambda asc, x, y: asc.data_copy(FB[8], C1, DataCopyParams(1, 1)),
    lambda asc, x, y: asc.data_copy(FB[16], C1, DataCopyParams(1, 1)),
)

# ---- fields -------------------------------------------------------------------------------------------------------

cube(
    "E-RANGE-ND2NZ",
    copied(dst_nz_n_stride=0),
    copied(),
    ("DataCopy ND2NZ: dst_nz_n_stride 0 is out of range 1..16384", "split the copy"),
)
cube(
    "E-RANGE-LOAD",
    moved(A2, A1, repeat_times=1, src_stride=65536),
    moved(A2, A1, repeat_times=1, src_stride=65535),
    ("LoadData: src_stride 65536 is out of range 0..65535", "split the load"),
)
cube(
    "E-LOAD-NOP",
    moved(A2, A1, repeat_times=0),
    moved(A2, A1),
    ("LoadData loads nothing: repeat_times is 0", "guard the call"),
    severity="W",
)
FLOATS = [t.reinterpret_cast("float") for t in (A2, A1)]
cube("E-LOAD-TRANS", moved(*FLOATS, if_transpose=True), moved(A2, A1, if_transpose=True))
cube(
    "E-ALIGN-FRACTAL",
    multiplied(a=local("thin", "half", 0, 20 * 64 * 2, P.A2), m=20, n=16, k=64),
    multiplied(a=local("whole", "half", 0, 32 * 64 * 2, P.A2), m=32, n=16, k=64),
    (
        "Mmad src0 thin has room for 20 x 64 elements, not for whole fractals: 2560 B there, 4096 B needed",
        "fill both sides up to whole fractals: 16 on one side, 32 B on the other; in L0C 16 x 16",
    ),
)
DEEP = [local(name, "int8_t", 0, 65536, place) for name, place in (("a", P.A2), ("b", P.B2))]
CI = C.reinterpret_cast("int32_t")
cube(
    "E-MMAD-DIM",
    multiplied(CI, *DEEP, m=16, n=16, k=4096),
    multiplied(),
    ("Mmad: k 4096 is out of range 0..4095", "split the product"),
)
BYTES = [t.reinterpret_cast("uint8_t") for t in (A2, B2)]
cube(
    "E-MMAD-DTYPE",
    multiplied(CI, *BYTES),
    multiplied(),
    (
        (
            "Mmad has no uint8_t*uint8_t->int32_t on arch 2201; it has int8_t*int8_t->int32_t, half*half->float, "
            "bfloat16_t*bfloat16_t->float, float*float->float"
        ),
        "cast the operands to one of these first",
    ),
)
cube(
    "E-MMAD-K",
    multiplied(k_direction_align=True),
    multiplied(),
    (
        "Mmad: k_direction_align is True, which half does not have",
        "leave k_direction_align False, or load A transposed as float on arch 2201",
    ),
)
cube("E-FIX-PARAM", stored(src_stride=48), stored())
cube("E-FIX-QUANT", stored(quant_pre=QuantMode.F322F16), stored())
cube(
    "E-FIX-SPLIT",
    stored(is_channel_split=True),
    stored(CO2Layout.NZ, is_channel_split=True, dst_stride=64),
    (
        "Fixpipe: channel split is not possible as ND; it splits float results into GM as NZ",
        "split float results on their way to GM as NZ, without the unit flag",
    ),
)
AS_BYTES = {"dst_stride": 512, "quant_pre": QuantMode.QF322B8_PRE}
cube("E-FIX-QUANTVAL", stored(**AS_BYTES, deq_scalar=1e-40), stored(**AS_BYTES, deq_scalar=0.5), gm=GM_BYTES)
cube(
    "W-FIX-SCALELOSS",
    stored(**AS_BYTES, deq_scalar=1 + 2.0**-20),
    stored(**AS_BYTES, deq_scalar=1 + 2.0**-10),
    (
        "Fixpipe: the scale 1.0000009536743164 is read as 1.0: the low 13 bits of its mantissa are dropped",
        "choose a scale with 10 bits of mantissa",
    ),
    gm=GM_BYTES,
)
cube(
    "W-HAZARD-FIX",
    stored(dst_stride=60),
    stored(),
    (
        "Fixpipe writes 1008 B of the destination twice in one call: dst_stride is 60",
        "make the strides of the destination at least as long as what lies between them",
    ),
    beside=("W-ALIGN-GM",),
)

# ---- what fits ----------------------------------------------------------------------------------------------------


def buffers(position, num, length, element, use):
    """A kernel with one queue, of which it uses the first buffer."""

    def kernel(asc, x, y):
        que = asc.t_que(position, num, "q")
        asc.t_pipe().init_buffer(que, num, length)
        tensor = que.alloc_tensor(element)
        use(asc, tensor, x, y)
        que.free_tensor(tensor)

    return kernel


def bias_in(asc, tensor, x, y):
    asc.data_copy(tensor, BIAS1, DataCopyParams(1, 1))


def product_in(asc, tensor, x, y):
    staged(asc, x)
    loaded(asc)
    asc.mmad(tensor, A2, B2, ALL)


SMALLER = "use a smaller tile, or fewer buffers"
for place, position, element, most, use in (
    ("L1", P.A1, "half", 524288, lambda asc, t, x, y: asc.data_copy(t, x, TILE)),
    ("L0A", P.A2, "half", 65536, lambda asc, t, x, y: asc.load_data(t, A1, LoadData2DParams(0, 4, 4))),
    ("L0B", P.B2, "half", 65536, lambda asc, t, x, y: asc.load_data(t, A1, LoadData2DParams(0, 4, 4))),
    ("L0C", P.CO1, "float", 131072, product_in),
    ("BT", P.C2, "float", 1024, bias_in),
    ("FB", P.C2PIPE2GM, "int64_t", 2048, lambda asc, t, x, y: asc.data_copy(t, C1, DataCopyParams(1, 1))),
):
    if place == "FB":  # no queue, as nothing is enqueued there
        continue
    cube(
        f"E-CAP-{place}",
        buffers(position, 1, most + 32, element, use),
        buffers(position, 1, most, element, use),
        (f"{place} use {most + 32} B exceeds its {most} B: q 1 x {most + 32} B", SMALLER),
    )


def fb_up_to(end):
    """A kernel with scales whose tensor ends there."""
    tensor = local("fb", "int64_t", 0, end, P.C2PIPE2GM)
    return lambda asc, x, y: asc.data_copy(tensor, C1, DataCopyParams(1, 1))


cube("E-CAP-FB", fb_up_to(2176), fb_up_to(2048), ("FB use 2176 B exceeds its 2048 B: explicit tensors", SMALLER))


def mixed(end):
    """A kernel for all cores that uses L1 up to there."""

    def kernel(asc, x, y):
        if asc.is_aic:
            asc.data_copy(local("a", "half", end - 8192, 8192, P.A1), x, TILE)
        else:
            asc.duplicate(U, 1.0, 64)

    return kernel


kernels(
    "E-CAP-L1",
    mixed(524288),
    mixed(524032),
    (
        (
            "L1 use 524288 B leaves less than the 256 B that the framework takes of a mixed kernel's (up to 524032 B): "
            "explicit tensors"
        ),
        (
            "keep below, unless vector cores hand no products to the matmul library: a public kernel without such "
            "calls pins all of L1"
        ),
    ),
    severity="W",
    **MIX,
)


def right_tile(columns, slots):
    """Slots of L0B for tiles of half with 128 rows: public field case, a right operand of 512 columns."""
    load = LoadData2DParams(0, 8, 1)
    return buffers(P.B2, slots, columns * 128 * 2, "half", lambda asc, t, x, y: asc.load_data(t, A1, load))


cube(
    "E-CAP-L0B",
    right_tile(512, 1),
    right_tile(128, 2),
    ("L0B use 131072 B exceeds its 65536 B: q 1 x 131072 B", SMALLER),
)
cube(
    "E-CAP-L0B",
    right_tile(144, 2),
    right_tile(128, 2),
    ("L0B use 73728 B exceeds its 65536 B: q 2 x 36864 B", SMALLER),
)

# ---- sums ---------------------------------------------------------------------------------------------------------


def sums(*mmads, barrier=False):
    """Mmads onto one result one behind the other."""

    def kernel(asc, x, y):
        staged(asc, x)
        loaded(asc)
        for i, params in enumerate(mmads):
            if i and barrier:
                asc.pipe_barrier(Pipe.M)
            asc.mmad(C, A2, B2, params)
        last = mmads[-1]
        fetched(asc, y, FixpipeParamsV220(last.n, last.m, 16 * -(-last.m // 16), 128))

    return kernel


SMALL, ONTO = MmadParams(48, 48, 16), MmadParams(64, 64, 16, cmatrix_init_val=False)
SMALL_ONTO = replace(SMALL, cmatrix_init_val=False)
SUM = sums(SMALL, SMALL_ONTO)
cube(
    "E-HAZARD-MM",
    SUM,
    sums(SMALL, SMALL_ONTO, barrier=True),
    (
        (
            f"Mmad adds to L0C bytes 0 to 9215 of c, 9 fractals of 16 x 16, that {at(SUM, 6, 'Mmad')} has not finished "
            "writing; no barrier is needed from 10 fractals on"
        ),
        f"pipe_barrier(Pipe.M) between one turn of {at(SUM, 6)} and the next",
    ),
)
cube("E-HAZARD-MM", SUM, sums(ALL, ONTO))
cube(
    "E-MMAD-INIT",
    sums(ONTO),
    sums(ALL, ONTO),
    (
        "Mmad adds to 16384 B of c that nobody wrote",
        "let the first Mmad of a sum start from zero (cmatrix_init_val) or from a bias",
    ),
)
LOST = sums(ALL, ALL)
cube(
    "E-MMAD-INIT",
    LOST,
    sums(ALL, ONTO),
    (
        f"Mmad starts anew in c and overwrites the 16384 B that {at(LOST, 6, 'Mmad')} made before anybody reads them",
        "let only the first Mmad of a sum start from zero (cmatrix_init_val), or fetch the result before",
    ),
)


def rows_loaded(n_value):
    """A left tile of which so many rows are loaded, and all are multiplied."""

    def kernel(asc, x, y):
        staged(asc, x, replace(TILE, n_value=n_value))
        loaded(asc)
        asc.mmad(C, A2, B2, ALL)

    return kernel


cube(
    "W-ND2NZ-ROWS",
    rows_loaded(60),
    rows_loaded(64),
    (
        (
            "Mmad src0 multiplies 512 bytes of a2 that nobody wrote: rows behind the n_value of a copy ND2NZ stay as "
            "they are"
        ),
        "fill rows up to 16 with zeros, or multiply only those that were loaded",
    ),
)


def factors(value):
    """What a run finds whose left factor holds a value."""
    x = {"role": "input", "shape": [32768], "dtype": "half", "fill": "constant", "value": value}
    y = {"role": "output", "shape": [64, 64], "dtype": "float"}
    fix = FixpipeParamsV220(64, 64, 64, 64)
    return lambda: ran(lambda asc, *gm: product(asc, *gm, fix=fix), {"x": x, "y": y}, kernel_type="AIC_ONLY")


entry(
    "W-MMAD-NAN",
    factors(float("nan")),
    factors(1.0),
    beside=("W-NUM-NAN",),
)

# ---- fractals -----------------------------------------------------------------------------------------------------


def as_zz(asc):
    """The left tile as L0A of arch 2201 has it."""
    for i in range(4):
        asc.load_data(A2[i * 1024], A1[i * 256], LoadData2DParams(0, 4, 4))


def as_nz(asc):
    """The left tile as L0A of arch 3510 has it."""
    asc.load_data(A2, A1, LoadData2DParams(0, 16, 1))


def as_zn(asc, is_turned=True):
    """The right tile as L0B has it."""
    for i in range(4):
        asc.load_data(B2[i * 1024], B1[i * 256], LoadData2DParams(0, 4, 4, 0, 0, is_turned))


def not_turned(asc):
    as_zn(asc, is_turned=False)


def turned_in_a_run(asc):
    asc.load_data(B2, B1, LoadData2DParams(0, 16, 1, 0, 0, True))


def laid(left, right, tile=TILE, mmad=ALL):
    """A product of tiles that are loaded like this."""

    def kernel(asc, x, y):
        staged(asc, x, tile)
        left(asc)
        right(asc)
        flagged(asc, HardEvent.MTE1_M)
        asc.mmad(C, A2, B2, mmad)
        fetched(asc, y, replace(FETCH, m_size=mmad.m, src_stride=16 * -(-mmad.m // 16)))

    return kernel


ORDER = (
    "let fractals lie in L0A as ZZ (as NZ on arch 3510) and in L0B as ZN, in the order that m, n and k of Mmad ask "
    "for; a B that lies in rows along n is transposed on the way to L0B"
)
ROWS_RIGHT = "from (0, 0) to (0, 16) it goes 16 rows of x and from (0, 0) to (16, 0) it goes 32 B of x"
ROWS_DOWN = "from (0, 0) to (0, 16) it goes 32 B of x and from (0, 0) to (16, 0) it goes 16 rows of x"
cube(
    "E-MMAD-LAYOUT",
    laid(as_nz, as_zn),
    laid(as_zz, as_zn),
    (f"wrong fractal layout for Mmad src0 a2, which is read as ZZ: {ROWS_RIGHT}", ORDER),
)
cube(
    "E-MMAD-LAYOUT",
    laid(as_zz, as_zn),
    laid(as_nz, as_zn),
    (f"wrong fractal layout for Mmad src0 a2, which is read as NZ: {ROWS_RIGHT}", ORDER),
    soc=A950,
)
for soc, left in (("Ascend910B2", as_zz), (A950, as_nz)):
    cube(
        "E-MMAD-LAYOUT",
        laid(left, not_turned),
        laid(left, as_zn),
        (f"wrong fractal layout for Mmad src1 b2, which is read as ZN: {ROWS_DOWN}", ORDER),
        soc=soc,
    )
    cube(
        "E-MMAD-LAYOUT",
        laid(left, turned_in_a_run),
        laid(left, as_zn),
        (f"wrong fractal layout for Mmad src1 b2, which is read as ZN: {ROWS_RIGHT}", ORDER),
        soc=soc,
    )
cube(  # L1 is no NZ
    "E-MMAD-LAYOUT",
    laid(as_zz, as_zn, tile=replace(TILE, dst_nz_c0_stride=1, dst_nz_n_stride=4)),
    laid(as_zz, as_zn),
    (
        (
            "wrong fractal layout for Mmad src0 a2, which is read as ZZ: from (0, 0) to (0, 16) it goes 16 rows of x "
            "and from (0, 0) to (16, 0) it goes 4 rows of x"
        ),
        ORDER,
    ),
)
cube(  # rows of 4 fractals, read as rows of 3
    "E-MMAD-LAYOUT",
    laid(as_zz, as_zn, mmad=replace(ALL, k=48)),
    laid(as_zz, as_zn),
    (
        (
            "wrong fractal layout for Mmad src0 a2, which is read as ZZ: from (0, 15) to (0, 16) it goes 2 B of x, but "
            "from (16, 15) to (16, 16) it goes 16 rows and -126 B of x"
        ),
        ORDER,
    ),
)
for soc, left, at_byte in (("Ascend910B2", as_zz, 512), (A950, as_nz, 2048)):
    cube(
        "E-MMAD-GEMV",
        laid(left, as_zn, mmad=replace(ALL, m=1)),
        laid(left, as_zn, mmad=replace(ALL, m=16) if left is as_zz else ALL),
        (
            (
                "Mmad with m 1 reads src0 a2 as a plain row, but it lies in fractals: element 16 of the row of x is at "
                f"byte {at_byte}, not at 32"
            ),
            "bring a single row to L1 with dst_nz_c0_stride 1 and on to L0A as it is, or let m be 16",
        ),
        soc=soc,
    )

# ---- the unit flag ------------------------------------------------------------------------------------------------


def flags(*mmads, fix=3, columns=64):
    """Products with these unit flags, and what fetches so many columns of each."""

    def kernel(asc, x, y):
        staged(asc, x)
        loaded(asc)
        for flag in mmads:
            asc.mmad(C, A2, B2, replace(ALL, unit_flag=flag))
            if flag != 2:
                asc.fixpipe(y, C, replace(FETCH, n_size=columns, unit_flag=fix))

    return kernel


cube(
    "E-UNITFLAG",
    multiplied(unit_flag=1),
    flags(3),
    (
        "Mmad: unit_flag 1 does not exist; there are 0, 2 and 3",
        "use 0 without the unit flag; with it 2, and 3 for the last Mmad of a result and for its Fixpipe",
    ),
)
cube(
    "E-UNITFLAG",
    lambda asc, x, y: product(asc, x, y, replace(ALL, unit_flag=2), replace(FETCH, unit_flag=3)),
    flags(3),
    (
        "Fixpipe with unit_flag 3 waits for ever: the last Mmad of 16384 B of c had unit_flag 2",
        "give the last Mmad of a result unit_flag 3, and 0 to Fixpipe where Mmad has none",
    ),
)
cube(
    "E-UNITFLAG",
    lambda asc, x, y: product(asc, x, y, replace(ALL, unit_flag=3)),
    flags(3),
    (
        (
            "Fixpipe without the unit flag fetches 16384 B of c of which Mmad had unit_flag 3: the bit stays up, and "
            "the next Mmad waits for ever"
        ),
        "give Fixpipe unit_flag 3, too",
    ),
)
cube(
    "E-UNITFLAG",
    flags(3, 3, columns=48),
    flags(3, 3),
    (
        (
            "Mmad with unit_flag 3 waits for ever: 4096 B of c, which an earlier Mmad has handed over, are not fetched "
            "by a Fixpipe with unit_flag 3"
        ),
        "fetch all that the Mmads made",
    ),
)

# ---- additions in GM ----------------------------------------------------------------------------------------------


def adds(asc, y, *, at_end=True, element="float"):
    """One addition to GM from UB that holds something."""
    values = U.reinterpret_cast(y.dtype)
    asc.duplicate(values, 1, 64)
    flagged(asc, HardEvent.V_MTE3)
    asc.set_atomic_add(element)
    asc.data_copy(y, values, 64)
    if at_end:
        asc.set_atomic_none()


kernels(
    "E-ATOMIC-LEFTON",
    lambda asc, x, y: adds(asc, y, at_end=False),
    lambda asc, x, y: adds(asc, y),
    (
        "stores still add float when the kernel ends; what runs next would add, too",
        "call set_atomic_none behind the last store that adds",
    ),
    gm=GM,
)
kernels(
    "E-DTYPE-ATOMIC",
    lambda asc, x, y: adds(asc, y, element="half"),
    lambda asc, x, y: adds(asc, y),
    (
        "DataCopy dst: SetAtomicAdd was set for half, the store writes float",
        "call set_atomic_add with the type that is stored",
    ),
    gm=GM,
)
kernels(
    "E-DTYPE-ATOMIC",
    lambda asc, x, y: asc.set_atomic_add("uint32_t"),
    lambda asc, x, y: (asc.set_atomic_add("int32_t"), asc.set_atomic_none()),
    gm=GM,
)
kernels(
    "W-RACE-ATOMICORDER",
    lambda asc, x, y: adds(asc, y),
    lambda asc, x, y: adds(asc, y[128 * asc.get_block_idx()]),
    gm=GM,
    cores=2,
)
WORDS = {"x": ("half", 64), "y": {"role": "output", "shape": [64], "dtype": "int32_t"}}


def zeroed(asc, x, y):
    """An addition to zeros."""
    zeros = U.reinterpret_cast("int32_t")
    asc.duplicate(zeros, 0, 64)
    flagged(asc, HardEvent.V_MTE3)
    asc.data_copy(y, zeros, 64)
    asc.pipe_barrier(Pipe.MTE3)
    flagged(asc, HardEvent.MTE3_V)
    adds(asc, y, element="int32_t")


entry(
    "W-ATOMIC-NOINIT",
    lambda: ran(lambda asc, x, y: adds(asc, y, element="int32_t"), WORDS),
    lambda: ran(zeroed, WORDS),
    (
        "DataCopy adds to 256 bytes of GM tensor y that nobody wrote",
        "zero the output before the first addition",
    ),
)

# ---- cores --------------------------------------------------------------------------------------------------------

kernels(
    "E-CORE-ROLE",
    lambda asc, x, y: asc.duplicate(U, 1.0, 64),
    mixed(8192),
    gm=GM,
    kernel_type="MIX_AIC_1_1",
)
cube(
    "E-SYNC-PAIR",
    lambda asc, x, y: flagged(asc, HardEvent.V_MTE3),
    copied(),
    (
        "SetFlag V_MTE3: AIC has no such pair; the library drops the call without a word",
        "use a pair of pipes that this core has",
    ),
    (
        "WaitFlag V_MTE3: AIC has no such pair; the library drops the call without a word",
        "use a pair of pipes that this core has",
    ),
)


def signal(mode=2, pipe=Pipe.FIX, flag_id=0):
    """A flag from the Cube core to its vector cores."""

    def kernel(asc, *_):
        if asc.is_aic:
            asc.cross_core_set_flag(mode, pipe, flag_id)
        else:
            asc.cross_core_wait_flag(mode, Pipe.V, flag_id)

    return kernel


kernels("E-XSYNC-MODE", signal(mode=5), signal(), **MIX)
kernels("E-XSYNC-MODE", signal(pipe=Pipe.ALL), signal(), beside=("E-SYNC-DEADLOCK",), **MIX)
kernels("E-XSYNC-ID", signal(flag_id=16), signal(flag_id=15), **MIX)


def beside_sync_all(flag_id):
    """The same, in a kernel that also calls SyncAll."""

    def kernel(asc, *gm):
        signal(flag_id=flag_id)(asc, *gm)
        asc.sync_all(is_aiv_only=False)

    return kernel


RESERVED = beside_sync_all(12)
kernels("E-XSYNC-ID", RESERVED, beside_sync_all(10), **MIX)


def handed_over(asc, x, y, is_legal=False, pipe=Pipe.FIX):
    if asc.is_aic:
        product(asc, x, y)
        if is_legal or pipe is not Pipe.FIX:
            asc.cross_core_set_flag(2, pipe, 0)
    else:
        if is_legal or pipe is not Pipe.FIX:
            asc.cross_core_wait_flag(2, Pipe.MTE2, 0)
        asc.data_copy(U, y[4096 * asc.get_sub_block_idx()], 4096)


OVER = (
    (
        f"AIC 0 and AIV 0 touch bytes 0 to 255 of GM tensor y in no order: {at(fetched, 3, 'Fixpipe')} and "
        f"{at(handed_over, 8, 'DataCopy')}"
    ),
    (
        f"cross_core_set_flag(2, Pipe.FIX, id) behind {at(fetched, 3)} and cross_core_wait_flag(2, Pipe.MTE2, id) "
        f"before {at(handed_over, 8)}"
    ),
)
kernels("E-RACE-GM", handed_over, legal(handed_over), OVER, **MIX)
kernels("E-RACE-GM", lambda *a: handed_over(*a, pipe=Pipe.MTE2), legal(handed_over), OVER, **MIX)


def cleared(asc, x, y, is_legal=False):
    if asc.is_aiv:
        part = y[128 * asc.get_sub_block_idx()] if is_legal else y
        asc.duplicate(U, 0.0, 64)
        flagged(asc, HardEvent.V_MTE3)
        asc.data_copy(part, U, 64)
    else:
        staged(asc, x)


kernels(
    "E-RACE-SUBBLOCK",
    cleared,
    legal(cleared),
    (
        (
            "AIV 0 and AIV 1, the vector cores of one AI Core, write the same bytes 0 to 255 of GM tensor y at "
            f"{at(cleared, 5, 'DataCopy')}"
        ),
        "halve the work between them by get_sub_block_idx",
    ),
    **MIX,
)


def signals(count, back=0):
    """So many flags to the vector cores, each answered up to `back`."""

    def kernel(asc, *_):
        for i in range(count):
            if asc.is_aic:
                if i >= count - back:
                    asc.cross_core_wait_flag(2, Pipe.FIX, 1)
                asc.cross_core_set_flag(2, Pipe.FIX, 0)
            else:
                asc.cross_core_wait_flag(2, Pipe.V, 0)
                if i < back:
                    asc.cross_core_set_flag(2, Pipe.MTE3, 1)

    return kernel


FLOOD = signals(16)
kernels(
    "E-XSYNC-OVERFLOW",
    FLOOD,
    signals(16, back=1),
    *(
        (
            f"cross-core flag 0 of mode 2: 16 sets can be ahead of the waits of AIV {i}, its counter holds 15",
            "wait more often, or let the core that sets wait for a flag from the other side",
        )
        for i in range(1)
    ),
    **MIX,
)


def not_all(asc, x, y, is_legal=False):
    if is_legal or asc.get_block_idx() == 0:
        asc.sync_all()


kernels(
    "E-XSYNC-BLOCK",
    not_all,
    legal(not_all),
    (
        "core 0 waits in SyncAll for core 1, which never gets there",
        "call sync_all on every core, however many tiles it has, and as often",
    ),
    gm=GM,
    cores=2,
)


def each_for_the_other(asc, x, y, is_legal=False):
    mine, other = (0, 1) if asc.is_aic else (1, 0)
    if is_legal and asc.is_aic:
        asc.cross_core_set_flag(2, Pipe.FIX, mine)
    asc.cross_core_wait_flag(2, Pipe.MTE2, other)
    if not (is_legal and asc.is_aic):
        asc.cross_core_set_flag(2, Pipe.FIX if asc.is_aic else Pipe.MTE3, mine)


kernels(
    "E-SYNC-DEADLOCK",
    each_for_the_other,
    legal(each_for_the_other),
    (
        (
            f"deadlock: AIC 0 waits at {at(each_for_the_other, 4, 'CrossCoreWaitFlag')} for cross-core flag 1 of mode "
            f"2, which AIV 0 sets only later, at {at(each_for_the_other, 6, 'CrossCoreSetFlag')}; AIV 0 waits at "
            f"{at(each_for_the_other, 4, 'CrossCoreWaitFlag')} for cross-core flag 0 of mode 2, which AIC 0 sets only "
            f"later, at {at(each_for_the_other, 6, 'CrossCoreSetFlag')}"
        ),
        "let every core of the group set the flag before the others wait for it",
    ),
    **MIX,
)


def never_taken(asc, x, y, is_legal=False):
    if asc.is_aic:
        asc.cross_core_set_flag(2, Pipe.FIX, 3)
    elif is_legal or asc.get_sub_block_idx() == 0:
        asc.cross_core_wait_flag(2, Pipe.MTE2, 3)


kernels(
    "E-SYNC-UNPAIRED",
    never_taken,
    legal(never_taken),
    (
        "cross-core flag 3 of mode 2 is set 1 times, and AIV 1 waits for it 0 times",
        "wait for every set, on every core that it is for: the rest is still there for the next kernel",
    ),
    **MIX,
)

# ---- advice -------------------------------------------------------------------------------------------------------

cube(
    "W-CUBE-UTIL",
    sums(MmadParams(17, 64, 64)),
    sums(MmadParams(48, 64, 64)),
    (
        "Mmad uses 53 % of the Cube unit: m 17, n 64, k 64 are filled up to fractals of 16 x 16 x 16",
        "choose tiles whose m and n are multiples of 16 and whose k is one of 16",
    ),
)
