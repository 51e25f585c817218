"""The table of all codes, part 3: buffers and what fits, in kernels, plans and temp sizes."""

from codes_harness import A950, B2, checked, entry, flagged, kernels, local, planned, ready, refused, sized, vector

from ascendsim.machine import BLOCKS
from ascendsim.terms import HardEvent, SelMode, TPosition

A, F = local("a", "float", 0, 1024), local("f", "float", 0x10000, 1024)
VECIN, VECOUT, VECCALC = TPosition.VECIN, TPosition.VECOUT, TPosition.VECCALC

# ---- what a kernel's UB has to hold -------------------------------------------------------------------------------


def tbuf(length, get=lambda buf: buf.get("float")):
    """A kernel with one TBuf, of which it uses a datablock."""

    def kernel(asc, *_):
        buf = asc.t_buf(VECCALC, "t")
        asc.t_pipe().init_buffer(buf, 1, length)
        asc.duplicate(get(buf), 0.0, 8)

    return kernel


kernels(
    "E-CAP-UB",
    tbuf(196384),
    tbuf(188160),
    (
        "UB use 196384 B exceeds the 196352 B that Ascend C sees: t 1 x 196384 B",
        "use a smaller tile, one buffer instead of two, or share the temp",
    ),
)
kernels(
    "W-CAP-UB-SAFE",
    tbuf(188192),
    tbuf(188160),
    (
        "UB use 188192 B leaves less than the 8 KiB that some APIs reserve (safe up to 188160 B)",
        "keep below the safe limit, or avoid those APIs (Select, DropOut, LayerNorm, ...)",
    ),
)
kernels(
    "E-CAP-UB-HW",
    tbuf(196640),
    tbuf(188160),
    (
        "UB address 196640 is past the end of UB (196608 B): t 1 x 196640 B",
        "check sizes and offsets",
    ),
    beside=("E-CAP-UB",),
)
U8, B = local("u", "uint8_t", 0x2600, 256), local("b", "float", 0x500, 1024)


def selected_to(address):
    """Select whose result lies there."""
    dst = local("top", "float", address, 64)
    return lambda asc, *_: asc.select(dst, U8, A, B, SelMode.VSEL_TENSOR_TENSOR_MODE, 16)


vector(
    "E-CAP-UB-RESERVED",
    selected_to(188416),
    selected_to(188160 - 64),
    (
        "Select dst top reaches UB address 0x2e03f: the library keeps temporaries from 0x2e000 on",
        "end allocations below the reserved 8 KiB",
    ),
)


def tbufs(count):
    """A kernel with so many TBufs of different lengths, each used."""

    def kernel(asc, *_):
        pipe = asc.t_pipe()
        for i in range(count):
            buf = asc.t_buf(VECCALC, f"t{i}")
            pipe.init_buffer(buf, 1, 32 * (1 + i * i % 7))
            asc.duplicate(buf.get("float"), 0.0, 8)

    return kernel


kernels("E-CAP-BUF", tbufs(65), tbufs(64), ("65 buffers in one kernel, at most 64", "merge TBufs"))


def loading(num=1, length=1024):
    """A kernel that loads into a queue of so many buffers."""

    def kernel(asc, x, y):
        que = asc.t_que(VECIN, 1, "q")
        asc.t_pipe().init_buffer(que, num, length)
        tensor = que.alloc_tensor("float")
        asc.data_copy(tensor, x, 256)
        que.enque(tensor)
        tensor = que.deque("float")
        asc.adds(F, tensor, 1.0, 256)
        que.free_tensor(tensor)

    return kernel


kernels(
    "E-CAP-QUE",
    loading(9),
    loading(8),
    ("9 queue buffers on VECIN, at most 8", "merge queues or use one buffer each"),
)
entry(
    "W-CAP-BLOCKS",
    lambda: refused(BLOCKS, lambda: checked(loading(), cores=49)),
    lambda: refused(BLOCKS, lambda: checked(loading(), cores=48)),
)

# ---- buffers ------------------------------------------------------------------------------------------------------

kernels(
    "E-BUF-LENGTH",
    loading(0),
    loading(1),
    ("InitBuffer q: 0 x 1024 B; it takes 1 .. 64 of at least 1 B", "give a positive length and 1..64 buffers"),
)


def initialised(is_first):
    """TBuf.get behind or before InitBuffer."""

    def kernel(asc, *_):
        pipe, buf = asc.t_pipe(), asc.t_buf(VECCALC, "t")
        if is_first:
            pipe.init_buffer(buf, 1, 1024)
        asc.duplicate(buf.get("float"), 0.0, 256)

    return kernel


kernels(
    "E-BUF-NOINIT",
    initialised(is_first=False),
    initialised(is_first=True),
    ("t: used before InitBuffer", "call pipe.init_buffer first"),
)
kernels(
    "E-BUF-OFFSET",
    tbuf(64, lambda buf: buf.get("float", 17)),
    tbuf(64, lambda buf: buf.get("float", 16)),
    ("TBuf t: a view of 68 B does not fit, the buffer has 64 B", "ask for less, or initialise it larger"),
)


def popping(length):
    """PopStackBuffer behind a TBuf of this length."""

    def kernel(asc, *_):
        buf = asc.t_buf(VECCALC, "t")
        asc.t_pipe().init_buffer(buf, 1, length)
        asc.duplicate(buf.get("float"), 0.0, 8)
        asc.duplicate(asc.pop_stack_buffer("float"), 0.0, 8)

    return kernel


kernels(
    "E-BUF-POPSTACK",
    popping(253952),
    popping(253920),
    (
        "no framework temp left: queues end at 253952, the temp area ends at 253952",
        "make the queues smaller, or pass a shared temp buffer",
    ),
    soc=A950,
)


def handed_on(is_own):
    """EnQue of a queue's own tensor, or of one at an address."""

    def kernel(asc, x, y):
        que = asc.t_que(VECIN, 1, "q")
        asc.t_pipe().init_buffer(que, 1, 1024)
        tensor = que.alloc_tensor("float") if is_own else F
        asc.data_copy(tensor, x, 256)
        que.enque(tensor)
        tensor = que.deque("float")
        asc.adds(F, tensor, 1.0, 256)
        que.free_tensor(tensor)

    return kernel


kernels(
    "E-BUF-POSITION",
    handed_on(is_own=False),
    handed_on(is_own=True),
    (
        "EnQue: tensor f belongs to no queue, not to queue q on VECIN",
        "give a tensor back to the queue that it came from; copy it to pass it on",
    ),
)


def on_position(position):
    """A load into a queue of this position."""

    def kernel(asc, x, y):
        que = asc.t_que(position, 1, "q")
        asc.t_pipe().init_buffer(que, 1, 1024)
        tensor = que.alloc_tensor("float")
        asc.data_copy(tensor, x, 256)
        flagged(asc, HardEvent.MTE2_V)
        asc.adds(F, tensor, 1.0, 256)
        que.free_tensor(tensor)

    return kernel


kernels(
    "E-BUF-ROLE",
    on_position(VECOUT),
    on_position(VECIN),
    (
        "DataCopy dst q is on VECOUT; the documented path is GM to VECIN",
        "load into a VECIN queue and store from a VECOUT queue: the flags of the other do not cover this copy",
    ),
    severity="W",
)


def beside(length):
    """A TBuf of that length from address 0 on, and an explicit tensor at 0x400."""

    def kernel(asc, *_):
        tbuf(length)(asc)
        asc.duplicate(local("e", "float", 0x400, 1024), 0.0, 16)

    return kernel


kernels(
    "E-BUF-ADDRMIX",
    beside(0x420),
    beside(0x400),
    (
        "explicit tensor e at UB 0x400 lies on buffer t at 0x0, which InitBuffer has given out",
        "take all UB from one TPipe, or place explicit tensors behind what it has given out",
    ),
)


def pipes(count):
    """A kernel that makes so many TPipes."""
    return lambda asc, *_: ([asc.t_pipe() for _ in range(count)], ready(asc))


kernels(
    *("E-PIPE-MULTI", pipes(2), pipes(1)),
    ("a second TPipe is alive", "use one TPipe in a kernel, or destroy() the first before"),
)

# ---- plans --------------------------------------------------------------------------------------------------------


def plan(place, size):
    """A plan of one buffer in a place."""
    return lambda: planned(f'[buffers.b]\nplace = "{place}"\nbytes = {size}')


for place, size in {"L1": 524288, "L0A": 65536, "L0B": 65536, "L0C": 131072, "BT": 1024, "FB": 2048}.items():
    step = {"L0A": 512, "L0B": 512, "L0C": 64, "BT": 64, "FB": 128}.get(place, 32)
    entry(
        f"E-CAP-{place}",
        plan(place, size + step),
        plan(place, size),
        (
            f"b ends at {size + step} B of {place}, {step} B beyond the {size} B it has",
            "use a smaller tile or fewer slots",
        ),
    )


def plan_of_a_call(rows, columns, temp):
    """A plan of one SoftmaxGrad with a temp of this size."""
    call = f'[apis.g]\napi = "softmax_grad"\nshape = [{rows}, {columns}]\ndtype = "float"\ntemp = "t"\n'
    return lambda: planned(f"{call}[temps.t]\nbytes = {temp}")


FLASH = 'api = "soft_max_flash_v2"\nshape = [16, {}]\nis_basic_block = true\ntemp = "t"\n[temps.t]\nbytes = 100000\n'
entry(
    "E-TMP-TILING",
    lambda: planned("[apis.f]\n" + FLASH.format(16384)),
    lambda: planned("[apis.f]\n" + FLASH.format(8192)),
    (
        "f: with 100000 B of temp the tiling has no row in a tile (split_m 0), so nothing is computed",
        "give the call fewer columns, or another temp",
    ),
)
entry(
    "E-TMP-SMALL",
    plan_of_a_call(16, 128, 800),
    plan_of_a_call(16, 128, 832),
    ("temp t has 800 B, g needs at least 832 B", 'give it more, or write bytes = "fit"'),
)

# ---- temp sizes ---------------------------------------------------------------------------------------------------

GRAD, V2 = "softmaxgrad", "softmaxflashv2"


def sizes(code, api, trigger, neighbour, beside=(), **common):
    """A line of two calls of tmpsize: shape and dtype, with what differs in each."""
    first, second = (
        (lambda one=one: sized(api, one[0], one[1], **(common | (one[2] if one[2:] else {}))))
        for one in (trigger, neighbour)
    )
    entry(code, first, second, beside=beside)


ROWS_64, NO_ROW = ((64, 128), "float"), ("W-TMP-STALE",)
LONG = ((8, 2048), "float")
NZ, NZ_FRONT = {"data_format": "NZ"}, {"is_front": True, "data_format": "NZ"}
sizes("E-TMP-LEFT", GRAD, (*LONG, {"beside": ["q=188160"]}), (*LONG, {"beside": ["q=180000"]}), soc=B2)
sizes(
    "E-TMP-MIN", "softmax", ((8, 64), "float", {"tmp_bytes": 3328}), ((8, 64), "float", {"tmp_bytes": 3360}), soc=A950
)
sizes("W-TMP-OVERUB", GRAD, ((128, 128), "half"), ((64, 128), "half"), soc=B2)
sizes("W-TMP-NEVERFITS", GRAD, ((1, 65536), "float"), ((1, 32768), "float"), soc=B2)
sizes("W-TMP-MINMAX", V2, ((56, 4096), "float", {"is_basic_block": True}), ((56, 1024), "float"), npu_arch=2201)
sizes("W-TMP-BELOWROW", GRAD, (*ROWS_64, {"tmp_bytes": 831}), (*ROWS_64, {"tmp_bytes": 832}), NO_ROW, npu_arch=2201)
sizes("W-TMP-HALVED", GRAD, ((64, 16384), "float"), ((8, 16384), "float"), NO_ROW, npu_arch=2201)
sizes(
    "W-TMP-STALE",
    GRAD,
    (*ROWS_64, {"tmp_bytes": 831}),
    (*ROWS_64, {"tmp_bytes": 832}),
    ("W-TMP-BELOWROW",),
    npu_arch=2201,
)
sizes("W-TMP-DIVZERO", "logsoftmax", ((64, 16384), "float"), ((8, 16384), "float"), npu_arch=2201)
sizes("W-TMP-ODDTILE", "softmax", ((56, 4096), "float"), ((8, 4096), "float"), npu_arch=2201)
sizes(
    "W-TMP-LOGGED",
    V2,
    ((8, 64), "float", {"tmp_bytes": 1440}),
    ((8, 64), "float"),
    npu_arch=2201,
    is_flash_output_brc=True,
)
sizes("W-TMP-WRAPPED", V2, ((65536, 32768), "float"), ((8, 32768), "float"), npu_arch=3510)
sizes("W-TMP-NZFRONT", GRAD, ((1024, 16), "half", NZ_FRONT), ((1024, 16), "half", NZ), npu_arch=3510)
sizes("W-TMP-NZRETILE", GRAD, ((64, 128), "float"), ((64, 128), "half"), npu_arch=2201, **NZ_FRONT)
sizes("I-TMP-UNUSED", GRAD, ((20, 40), "float"), ((20, 48), "float", NZ), npu_arch=3510)
