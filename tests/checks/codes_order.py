"""The table of all codes, part 2: order between pipes and cores, flags, queues, and the life of what UB holds."""

from codes_harness import entry, flagged, kernels, local, ready

from ascendsim.machine import run
from ascendsim.terms import HardEvent, Pipe, TPosition

A, F = local("a", "float", 0, 1024), local("f", "float", 0x10000, 2048)
MTE2_V, V_MTE2, V_MTE3 = HardEvent.MTE2_V, HardEvent.V_MTE2, HardEvent.V_MTE3


def at(kernel, offset, api=""):
    """A line of a kernel as findings name it, counted from its def."""
    place = f"codes_order.py:{kernel.__code__.co_firstlineno + offset}"
    return f"{api} ({place})" if api else place


def legal(kernel):
    """The same kernel with what it leaves out."""
    return lambda asc, *gm: kernel(asc, *gm, is_legal=True)


# ---- races between pipes and cores --------------------------------------------------------------------------------


def read_too_early(asc, x, y, is_legal=False):
    asc.data_copy(A, x, 256)
    if is_legal:
        flagged(asc, MTE2_V)
    asc.adds(F, A, 1.0, 256)


kernels(
    "E-RACE-RAW",
    read_too_early,
    legal(read_too_early),
    (
        (
            f"Adds on V may read UB bytes 0 to 1023 of a before {at(read_too_early, 1, 'DataCopy')} on MTE2 has "
            "written them"
        ),
        (
            f"set_flag(HardEvent.MTE2_V, id) behind {at(read_too_early, 1)} and wait_flag(HardEvent.MTE2_V, id) before "
            f"{at(read_too_early, 4)}"
        ),
    ),
)


def overwritten_too_early(asc, x, y, is_legal=False):
    ready(asc)
    if not is_legal:
        asc.set_flag(V_MTE2, 0)
    asc.adds(F, A, 1.0, 256)
    if is_legal:
        asc.set_flag(V_MTE2, 0)
    asc.wait_flag(V_MTE2, 0)
    asc.data_copy(A, x, 256)


kernels(
    "E-RACE-WAR",
    overwritten_too_early,
    legal(overwritten_too_early),
    (
        (
            "DataCopy on MTE2 may overwrite UB bytes 0 to 1023 of a that "
            f"{at(overwritten_too_early, 4, 'Adds')} on V still reads"
        ),
        (
            f"set_flag(HardEvent.V_MTE2, id) behind {at(overwritten_too_early, 4)} and "
            f"wait_flag(HardEvent.V_MTE2, id) before {at(overwritten_too_early, 8)}"
        ),
    ),
)


def written_in_no_order(asc, x, y, is_legal=False):
    asc.duplicate(A, 0.0, 256)
    if is_legal:
        flagged(asc, V_MTE2)
    asc.data_copy(A, x, 128)


kernels(
    "E-RACE-WAW",
    written_in_no_order,
    legal(written_in_no_order),
    (
        (
            f"DataCopy on MTE2 and {at(written_in_no_order, 1, 'Duplicate')} on V write UB bytes 0 to 511 of a in no "
            "order"
        ),
        (
            f"set_flag(HardEvent.V_MTE2, id) behind {at(written_in_no_order, 1)} and wait_flag(HardEvent.V_MTE2, id) "
            f"before {at(written_in_no_order, 4)}"
        ),
    ),
)


def one_place_for_all_cores(asc, x, y, is_legal=False):
    asc.duplicate(A, 0.0, 128)
    flagged(asc, V_MTE3)
    asc.data_copy(y[128 * asc.get_block_idx()] if is_legal else y, A, 128)


kernels(
    "E-RACE-GM",
    one_place_for_all_cores,
    legal(one_place_for_all_cores),
    (
        (
            "cores 0 and 1 touch bytes 0 to 511 of GM tensor y in no order: "
            f"{at(one_place_for_all_cores, 3, 'DataCopy')} and {at(one_place_for_all_cores, 3, 'DataCopy')}"
        ),
        "give each core its own part, by get_block_idx and the tail",
    ),
    cores=2,
)

# ---- order inside a pipe ------------------------------------------------------------------------------------------


def no_barrier(asc, x, y, is_legal=False):
    asc.duplicate(A, 0.0, 256)
    if is_legal:
        asc.pipe_barrier(Pipe.V)
    asc.adds(F, A, 1.0, 256)


BETWEEN = f"pipe_barrier(Pipe.V) between {at(no_barrier, 1)} and {at(no_barrier, 4)}"
NOT_FINISHED = f"Adds reads UB bytes 0 to 1023 of a that {at(no_barrier, 1, 'Duplicate')} has not finished writing"
kernels(
    "E-HAZARD-V",
    no_barrier,
    legal(no_barrier),
    (NOT_FINISHED, f"the compiler adds it if automatic synchronisation is on; else {BETWEEN}"),
    severity="W",
)
kernels("E-HAZARD-V", no_barrier, legal(no_barrier), (NOT_FINISHED, BETWEEN), severity="E", auto_sync=False)


def copies_on_one_place(asc, x, y, is_legal=False):
    asc.data_copy(A, x, 128)
    if is_legal:
        asc.pipe_barrier(Pipe.MTE2)
    asc.data_copy(A[64], x[512], 128)


kernels(
    "E-HAZARD-MTE",
    copies_on_one_place,
    legal(copies_on_one_place),
    (
        (
            "DataCopy writes UB bytes 256 to 511 of a that "
            f"{at(copies_on_one_place, 1, 'DataCopy')}, on the same MTE2, has not finished writing"
        ),
        f"pipe_barrier(Pipe.MTE2) between {at(copies_on_one_place, 1)} and {at(copies_on_one_place, 4)}",
    ),
)

# ---- flags --------------------------------------------------------------------------------------------------------


def never_awaited(asc, x, y, is_legal=False):
    asc.duplicate(A, 0.0, 256)
    asc.set_flag(V_MTE2, 3)
    if is_legal:
        asc.wait_flag(V_MTE2, 3)


kernels(
    "E-SYNC-UNPAIRED",
    never_awaited,
    legal(never_awaited),
    ("flag V_MTE2 id 3 is set and never waited for", "wait for it, or remove the set"),
)


def set_twice(asc, x, y, is_legal=False):
    asc.duplicate(A, 0.0, 256)
    asc.set_flag(V_MTE3, 5)
    if is_legal:
        asc.wait_flag(V_MTE3, 5)
    asc.duplicate(F, 0.0, 128)
    asc.set_flag(V_MTE3, 5)
    asc.wait_flag(V_MTE3, 5)


kernels(
    "E-SYNC-DUPLICATE",
    set_twice,
    legal(set_twice),
    ("flag V_MTE3 id 5 is set again before anybody waited for it", "use another id, or wait first"),
)


def another_id(asc, x, y, is_legal=False):
    asc.data_copy(A, x, 256)
    asc.set_flag(MTE2_V, 0)
    asc.wait_flag(MTE2_V, 0 if is_legal else 1)
    asc.adds(F, A, 1.0, 256)


kernels(
    "E-SYNC-MISMATCH",
    another_id,
    legal(another_id),
    (
        f"flag MTE2_V id 0 is set at {at(another_id, 2, 'SetFlag')}, but V waits for MTE2_V id 1",
        "use the same pair and id in SetFlag and WaitFlag",
    ),
)


def waits_first(asc, x, y, is_legal=False):
    if is_legal:
        asc.data_copy(A, x, 256)
        asc.set_flag(MTE2_V, 0)
    asc.wait_flag(MTE2_V, 0)
    asc.duplicate(F, 0.0, 256)


kernels(
    "E-SYNC-DEADLOCK",
    waits_first,
    legal(waits_first),
    (
        f"deadlock: V waits at {at(waits_first, 4, 'WaitFlag')} for MTE2_V id 0, which MTE2 never sets",
        "set the flag before the wait, on the pipe that its name begins with",
    ),
)


def number_of_ids(count):
    """Take so many ids, use each, give them back."""

    def kernel(asc, x, y):
        ids = [asc.alloc_event_id(V_MTE3) for _ in range(count)]
        for event_id in ids:
            asc.duplicate(A[event_id * 8], 0.0, 8)
            flagged(asc, V_MTE3, event_id)
            asc.release_event_id(V_MTE3, event_id)

    return kernel


kernels(
    "E-SYNC-EXHAUST",
    number_of_ids(9),
    number_of_ids(8),
    ("8 event ids of V_MTE3 are in use, the device has 8", "release events earlier, or use fewer queue buffers"),
)


def kept_id(asc, x, y, is_legal=False):
    event_id = asc.alloc_event_id(V_MTE3)
    asc.duplicate(A, 0.0, 256)
    flagged(asc, V_MTE3, event_id)
    if is_legal:
        asc.release_event_id(V_MTE3, event_id)


kernels(
    "E-SYNC-LEAKID",
    kept_id,
    legal(kept_id),
    ("event id 0 of V_MTE3 was taken and never released", "call release_event_id"),
)


def with_id(event_id):
    """A flag of this id between a load and its use."""

    def kernel(asc, x, y):
        asc.data_copy(A, x, 256)
        flagged(asc, MTE2_V, event_id)
        asc.adds(F, A, 1.0, 256)

    return kernel


NO_ID, TAKE = "Flag MTE2_V: event id 8 does not exist, ids are 0..7", "take an id from alloc_event_id, or 0..5"
kernels("E-SYNC-ID", with_id(8), with_id(7), (f"Set{NO_ID}", TAKE), (f"Wait{NO_ID}", TAKE))


def barrier_of(pipe):
    """A barrier between two vector instructions."""

    def kernel(asc, x, y):
        asc.duplicate(A, 0.0, 256)
        asc.pipe_barrier(pipe)
        asc.duplicate(F, 0.0, 128)

    return kernel


kernels(
    "E-SYNC-BARRIER-S",
    barrier_of(Pipe.S),
    barrier_of(Pipe.V),
    ("PipeBarrier<PIPE_S> is not allowed", "the scalar unit is in order by itself; remove the barrier"),
)


def flag_of_what_is_known(asc, x, y, is_legal=False):
    asc.data_copy(A, x, 256)
    flagged(asc, MTE2_V)
    if not is_legal:
        flagged(asc, MTE2_V, 1)
    asc.adds(F, A, 1.0, 256)


kernels(
    "W-SYNC-REDUNDANT",
    flag_of_what_is_known,
    legal(flag_of_what_is_known),
    (
        "WaitFlag MTE2_V id 1 orders nothing that is not ordered already; without it the program takes 1 cycles less",
        "remove it, a wait with its set_flag",
    ),
)


def two_barriers(asc, x, y, is_legal=False):
    ready(asc)
    if not is_legal:
        asc.pipe_barrier(Pipe.V)
    asc.adds(F, A, 1.0, 256)


kernels(
    "W-SYNC-REDUNDANT",
    two_barriers,
    legal(two_barriers),
    (
        "PipeBarrier<PIPE_V> orders nothing that is not ordered already; without it the program takes 0 cycles less",
        "remove it, a wait with its set_flag",
    ),
)


def all_pipes(asc, x, y, is_legal=False):
    asc.data_copy(A, x, 256)
    if is_legal:
        flagged(asc, MTE2_V)
    else:
        asc.pipe_barrier(Pipe.ALL)
    asc.adds(F, A, 1.0, 256)


kernels(
    "W-SYNC-BARRIERALL",
    all_pipes,
    legal(all_pipes),
    (
        "PipeBarrier<ALL> stops every pipe (1 times), but what stands around it depends on V behind MTE2 only",
        "SetFlag and WaitFlag of MTE2_V",
    ),
)

FOUR = {"tiling.tile_m": 4, "queues.in_grad.num": 4, "queues.in_p.num": 4}
entry(
    "W-SYNC-DUPLICATE",
    lambda: run("softmaxgrad_960x960_float", set=FOUR).findings,
    lambda: run("softmaxgrad_960x960_float", set={"tiling.tile_m": 4}).findings,
)

# ---- queues -------------------------------------------------------------------------------------------------------


def loading(body, num=1, depth=1):
    """A kernel with one queue q for loads, and what it does with it."""

    def kernel(asc, x, y):
        que = asc.t_que(TPosition.VECIN, depth, "q")
        asc.t_pipe().init_buffer(que, num, 1024 + 256)  # two buffers in different bank groups
        body(asc, que, x)

    return kernel


def loaded(asc, que, x):
    """A buffer of the queue that is loaded and waits in it."""
    tensor = que.alloc_tensor("float")
    asc.data_copy(tensor, x, 256)
    que.enque(tensor)


def used(asc, que, dst=F):
    """The next buffer of the queue, added to what goes to dst."""
    tensor = que.deque("float")
    asc.adds(dst, tensor, 1.0, 256)
    return tensor


def freed(times):
    """FreeTensor, so many times."""

    def body(asc, que, x):
        loaded(asc, que, x)
        tensor = used(asc, que)
        for _ in range(times):
            que.free_tensor(tensor)

    return loading(body)


kernels(
    "E-QUE-STATE",
    freed(2),
    freed(1),
    (
        "queue q: FreeTensor of a buffer that is FREE, must be OCCUPIED or ENQUEUED or DEQUEUED",
        "follow AllocTensor, EnQue, DeQue, FreeTensor for each buffer",
    ),
)
kernels(
    "E-MEM-LEAK",
    freed(0),
    freed(1),
    ("queue q: a buffer is DEQUEUED when the kernel ends", "FreeTensor what AllocTensor or DeQue gave"),
)


def two_wait(asc, que, x):
    loaded(asc, que, x)
    loaded(asc, que, x[256])
    first, second = que.deque("float"), que.deque("float")
    asc.add(F, first, second, 128)
    que.free_tensor(first)
    que.free_tensor(second)


kernels(
    "E-QUE-DEPTH",
    loading(two_wait, num=2, depth=1),
    loading(two_wait, num=2, depth=2),
    ("queue q: 2 EnQue without a DeQue, its depth is 1", "raise the depth, or DeQue earlier"),
)


def taken_out(is_put_in):
    """DeQue, with and without an EnQue before."""

    def body(asc, que, x):
        tensor = que.alloc_tensor("float")
        asc.data_copy(tensor, x, 256)
        if is_put_in:
            que.enque(tensor)
        que.free_tensor(used(asc, que))

    return loading(body)


kernels(
    "E-QUE-EMPTY",
    taken_out(is_put_in=False),
    taken_out(is_put_in=True),
    ("queue q: DeQue on an empty queue", "EnQue a tensor first"),
)


def rounds(is_freed):
    """Two rounds through a queue of one buffer."""

    def body(asc, que, x):
        for i in range(2):
            loaded(asc, que, x[i * 256])
            tensor = used(asc, que, F[i * 256])
            if is_freed:
                que.free_tensor(tensor)

    return loading(body)


kernels(
    "E-QUE-LEAK",
    rounds(is_freed=False),
    rounds(is_freed=True),
    (
        "queue q: AllocTensor finds none of its 1 buffers free (DEQUEUED); the hardware would spin forever",
        "FreeTensor on every path, or initialise the queue with more buffers",
    ),
)

# ---- the life of what UB holds ------------------------------------------------------------------------------------


def read_behind_its_end(is_legal):
    """The use of a tensor behind FreeTensor, or before it."""

    def body(asc, que, x):
        loaded(asc, que, x)
        tensor = que.deque("float")
        if not is_legal:
            que.free_tensor(tensor)
        asc.adds(F, tensor, 1.0, 256)
        if is_legal:
            que.free_tensor(tensor)

    return loading(body)


kernels(
    "E-MEM-FREED-READ",
    read_behind_its_end(is_legal=False),
    read_behind_its_end(is_legal=True),
    ("Adds src0 reads q, which FreeTensor has given back", "free a tensor behind its last use"),
)


def written_behind_its_end(is_legal):
    """A write to a tensor behind FreeTensor, or before it."""

    def body(asc, que, x):
        loaded(asc, que, x)
        tensor = used(asc, que)
        if not is_legal:
            que.free_tensor(tensor)
        asc.duplicate(tensor, 0.0, 128)
        if is_legal:
            que.free_tensor(tensor)

    return loading(body)


kernels(
    "E-MEM-FREED-WRITE",
    written_behind_its_end(is_legal=False),
    written_behind_its_end(is_legal=True),
    (
        "Duplicate dst writes q, which FreeTensor has given back",
        "free a tensor behind its last use, or AllocTensor again",
    ),
)


def half_of_it(asc, x, y, is_legal=False):
    asc.data_copy(A, x, 256 if is_legal else 128)
    flagged(asc, MTE2_V)
    asc.adds(F, A, 1.0, 256)


kernels(
    "W-MEM-UNINIT",
    half_of_it,
    legal(half_of_it),
    (
        "Adds src0 reads 512 bytes of a that nobody wrote",
        "load or Duplicate the buffer first, or mask the tail",
    ),
)


def written_twice(asc, x, y, is_legal=False):
    asc.duplicate(A, 0.0, 256)
    asc.pipe_barrier(Pipe.V)
    asc.duplicate(A, 1.0, 128 if is_legal else 256)


kernels(
    "W-MEM-DEADSTORE",
    written_twice,
    legal(written_twice),
    (
        (
            "what Duplicate wrote to a, 1024 B from UB byte 0 on, is overwritten by "
            f"{at(written_twice, 3, 'Duplicate')} before anybody reads it"
        ),
        "remove the first, or read it before",
    ),
)


def without_use(asc, x, y, is_legal=False):
    buf = asc.t_buf(TPosition.VECCALC, "t")
    asc.t_pipe().init_buffer(buf, 1, 1024)
    asc.duplicate(buf.get("float") if is_legal else F, 0.0, 256)


kernels(
    "W-BUF-UNUSED",
    without_use,
    legal(without_use),
    (
        "t: 1024 B of UB are given to it and no instruction touches them",
        "remove the buffer; a work buffer that an API demands may be as small as its page says",
    ),
)
