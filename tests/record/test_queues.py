"""TPipe, TQue and TBuf: addresses, the buffer state machine, events, and what is left at the kernel's end."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_harness import DEVICE, VECCALC, VECIN, VECOUT, flags, local, messages, recorded, rows

from ascendsim import tpipe
from ascendsim.checks import check_rows
from ascendsim.errors import KernelError, Rule
from ascendsim.execute import execute
from ascendsim.record import record
from ascendsim.terms import HardEvent, Pipe

STATE = "follow AllocTensor, EnQue, DeQue, FreeTensor for each buffer"


def with_que(body, num=2, position=VECIN, depth=2, length=64):
    """A kernel that makes one queue q and runs body(asc, q)."""

    def kernel(asc):
        q = asc.t_que(position, depth, "q")
        asc.t_pipe().init_buffer(q, num, length)
        body(asc, q)

    return kernel


def stopped(body, **how):
    """(code, message) of the one finding that ended the recording."""
    recording = recorded(with_que(body, **how))
    assert not recording.complete
    (found,) = messages(recording)
    return found


# ---- memory -----------------------------------------------------------------------------------------------------


def test_buffers_are_rounded_to_datablocks_and_laid_out_in_order():
    seen = {}

    def kernel(asc):
        pipe = asc.t_pipe()
        a, b = asc.t_que(VECIN, 1, "a"), asc.t_que(VECOUT, 1, "b")
        c, d = asc.t_buf(VECCALC, "c"), asc.t_buf(VECCALC, "d")
        for que, num, length in ((b, 2, 33), (a, 1, 1), (d, 1, 32), (c, 1, 100)):  # the order of InitBuffer counts
            pipe.init_buffer(que, num, length)
        seen.update({q.name: (q.address_bytes, q.buffer_bytes, q.num) for q in (a, b, c, d)}, end=pipe.end_bytes)

    assert recorded(kernel).findings == ()
    assert seen == {"b": (0, 64, 2), "a": (128, 32, 1), "d": (160, 32, 1), "c": (192, 128, 1), "end": 320}


def test_the_program_lists_queues_and_how_far_they_reach():
    def kernel(asc):
        pipe = asc.t_pipe()
        q, t, unused = asc.t_que(VECIN, 1, "q"), asc.t_buf(VECCALC, "t"), asc.t_buf(VECCALC, "unused")
        pipe.init_buffer(q, 2, 100)
        pipe.init_buffer(t, 1, 64)
        assert unused.address_bytes < 0

    program = recorded(kernel, cores=3).program
    assert [(q.name, q.position, q.address_bytes, q.buffer_bytes, q.num) for q in program.ques if q.num] == [
        ("q", "VECIN", 0, 128, 2),
        ("t", "VECCALC", 256, 64, 1),
    ]
    assert program.ub_high_water_bytes == 320


def two_pipes(asc, lengths=(96, 32)):
    """One TPipe after the other, each with a queue of the same name that is used once."""
    for length in lengths:
        pipe = asc.t_pipe()
        q, t = asc.t_que(VECIN, 2, "q"), asc.t_buf(VECCALC, "t")
        pipe.init_buffer(q, 2, length)
        pipe.init_buffer(t, 1, 64)
        q.free_tensor(q.alloc_tensor("float"))
        pipe.destroy()


def test_a_destroyed_pipe_makes_room_for_another():
    recording = recorded(two_pipes)
    assert recording.complete
    assert recording.findings == ()
    program = recording.program
    assert [(q.name, q.address_bytes, q.buffer_bytes, q.num) for q in program.ques] == [
        ("q", 0, 96, 2),
        ("t", 192, 64, 1),
    ]
    assert program.ub_high_water_bytes == 256
    assert [(row.op.name, *row.params) for row in rows(program)] == [
        *(("set_flag", HardEvent.V_MTE2, 0), ("wait_flag", HardEvent.V_MTE2, 0), ("pipe_barrier", Pipe.ALL)),
    ] * 2


def test_the_furthest_queue_of_a_name_is_listed():
    assert recorded(two_pipes).program.ques == recorded(lambda asc: two_pipes(asc, (32, 96))).program.ques


def test_what_is_left_in_a_destroyed_pipe_is_found():
    def kernel(asc):
        pipe = asc.t_pipe()
        q = asc.t_que(VECIN, 2, "q")
        pipe.init_buffer(q, 2, 64)
        taken = q.alloc_tensor("float")
        pipe.destroy()
        asc.duplicate(taken, 0.0, 8)

    assert [code for code, _ in messages(recorded(kernel))] == ["E-MEM-LEAK", "E-MEM-FREED-WRITE"]


def test_tensors_are_whole_buffers_and_named_after_the_queue():
    def body(asc, q):
        first, second = q.alloc_tensor("half"), q.alloc_tensor("float")
        assert [(t.name, t.address_bytes, t.allocation_bytes, t.offset_bytes) for t in (first, second)] == [
            ("q[0]", 0, 64, 0),
            ("q[1]", 64, 64, 0),
        ]
        assert [(t.dtype.name, t.count, t.position) for t in (first, second)] == [
            ("half", 32, VECIN),
            ("float", 16, VECIN),
        ]
        for t in (first, second):
            q.free_tensor(t)

    assert recorded(with_que(body)).findings == ()


def test_a_single_buffer_has_the_plain_name():
    def body(asc, q):
        t = q.alloc_tensor("half")
        assert t.name == "q"
        q.free_tensor(t)

    assert recorded(with_que(body, num=1)).findings == ()


@pytest.mark.parametrize(("num", "length"), [(0, 64), (65, 64), (1, 0), (1, -32)])
def test_a_queue_needs_a_length_and_1_to_64_buffers(num, length):
    found = stopped(lambda asc, q: None, num=num, length=length)
    assert found == ("E-BUF-LENGTH", f"InitBuffer q: {num} x {length} B; it takes 1 .. 64 of at least 1 B")


def test_a_tbuf_has_one_buffer():
    def kernel(asc):
        asc.t_pipe().init_buffer(asc.t_buf(VECCALC, "t"), 2, 64)

    recording = recorded(kernel)
    assert not recording.complete
    assert messages(recording) == [("E-BUF-LENGTH", "InitBuffer t: 2 x 64 B; it takes 1 of at least 1 B")]


def buffers(*groups):
    """A kernel with queues of (position, buffers) and TBufs of (None, how many)."""

    def kernel(asc):
        pipe = asc.t_pipe()
        for i, (position, num) in enumerate(groups):
            if position is None:
                for j in range(num):
                    pipe.init_buffer(asc.t_buf(VECCALC, f"t{i}.{j}"), 1, 32)
            else:
                pipe.init_buffer(asc.t_que(position, 1, f"q{i}"), num, 32)

    return kernel


def test_eight_queue_buffers_fit_on_a_position():
    assert recorded(buffers((VECIN, 4), (VECOUT, 8), (VECIN, 4), (None, 20))).findings == ()


def test_a_ninth_queue_buffer_does_not():
    recording = recorded(buffers((VECIN, 4), (VECOUT, 8), (VECIN, 5)))
    assert messages(recording) == [("E-CAP-QUE", "9 queue buffers on VECIN, at most 8")]
    assert recording.complete
    assert messages(recorded(buffers((VECOUT, 9)))) == [("E-CAP-QUE", "9 queue buffers on VECOUT, at most 8")]


def test_sixty_four_buffers_fit_in_a_kernel_and_one_more_does_not():
    assert recorded(buffers((VECIN, 8), (None, 56))).findings == ()
    recording = recorded(buffers((VECIN, 8), (None, 57)))
    assert messages(recording) == [("E-CAP-BUF", "65 buffers in one kernel, at most 64")]
    assert recording.complete


def test_a_second_tpipe_is_refused():
    recording = recorded(lambda asc: (asc.t_pipe(), asc.t_pipe()))
    assert not recording.complete
    assert messages(recording) == [("E-PIPE-MULTI", "a second TPipe is alive")]


# ---- TBuf and the framework's temp ------------------------------------------------------------------------------


def tbuf(body, length=64):
    def kernel(asc):
        t = asc.t_buf(VECCALC, "t")
        asc.t_pipe().init_buffer(t, 1, length)
        body(asc, t)

    return kernel


def test_a_tbuf_gives_the_whole_buffer_in_any_type_without_events():
    def body(asc, t):
        x = t.get("half")
        assert (x.name, x.address_bytes, x.allocation_bytes, x.count) == ("t", 0, 64, 32)
        assert t.get("float", 16).count == 16
        asc.duplicate(x, 0, 32)

    recording = recorded(tbuf(body))
    assert recording.findings == ()
    assert flags(recording.program) == []


def test_a_tbuf_view_beyond_the_buffer_is_found():
    recording = recorded(tbuf(lambda asc, t: t.get("float", 17)))
    assert messages(recording) == [("E-BUF-OFFSET", "TBuf t: a view of 68 B does not fit, the buffer has 64 B")]
    assert recording.complete


def test_the_framework_temp_is_what_lies_behind_the_last_buffer():
    def body(asc, t):
        tmp = asc.pop_stack_buffer("uint8_t")
        assert (tmp.name, tmp.address_bytes, tmp.allocation_bytes) == ("framework_tmp", 1024, 196480 - 1024)
        assert (tmp.position, tmp.dtype.name) == (VECCALC, "uint8_t")
        assert asc.pop_stack_buffer("float") == tmp.reinterpret_cast(asc.pop_stack_buffer("float").dtype)

    recording = recorded(tbuf(body, length=1000))
    assert recording.findings == ()
    assert recording.program.ub_high_water_bytes == 1024


def test_the_framework_temp_counts_as_far_as_it_is_touched():
    def body(asc, t):
        asc.duplicate(asc.pop_stack_buffer("uint32_t")[(188160 - 64) // 4 - 8], 0, 8)
        asc.duplicate(asc.pop_stack_buffer("uint32_t"), 0, 8)

    assert check_rows(recorded(tbuf(body)).program, DEVICE) == ()

    def beyond(asc, t):
        asc.duplicate(asc.pop_stack_buffer("uint32_t")[(188160 - 64) // 4], 0, 1)

    (found,) = check_rows(recorded(tbuf(beyond)).program, DEVICE)
    assert found.code == "W-CAP-UB-SAFE"
    assert found.got == "188164"


def test_the_last_datablock_below_the_message_slot_is_framework_temp():
    def body(asc, t):
        assert asc.pop_stack_buffer("uint8_t").allocation_bytes == 32

    assert recorded(tbuf(body, length=196448)).complete


def test_no_framework_temp_is_left_above():
    recording = recorded(tbuf(lambda asc, t: asc.pop_stack_buffer("uint8_t"), length=196480))
    assert not recording.complete
    assert messages(recording) == [
        ("E-BUF-POPSTACK", "no framework temp left: queues end at 196480, the temp area ends at 196480")
    ]


def test_the_framework_temp_needs_a_tpipe():
    def kernel(asc):
        asc.pop_stack_buffer("uint8_t")

    line = kernel.__code__.co_firstlineno + 1
    with pytest.raises(KernelError) as caught:
        recorded(kernel)
    assert str(caught.value) == (
        f"test_queues.py:{line}: framework temp needs a TPipe: call asc.t_pipe() first, or pass a shared temp buffer"
    )


# ---- the state machine ------------------------------------------------------------------------------------------


def to_state(q, state):
    """A tensor of q in this state."""
    t = q.alloc_tensor("half")
    if state in ("ENQUEUED", "DEQUEUED"):
        q.enque(t)
    if state == "DEQUEUED":
        t = q.deque("half")
    if state == "FREE":
        q.free_tensor(t)
    return t


def test_the_usual_round_is_legal():
    def body(asc, q):
        for _ in range(5):
            q.enque(q.alloc_tensor("half"))
            q.free_tensor(q.deque("half"))

    assert recorded(with_que(body)).findings == ()


@pytest.mark.parametrize("state", ["FREE", "ENQUEUED"])
def test_enque_needs_an_occupied_or_dequeued_buffer(state):
    found = stopped(lambda asc, q: q.enque(to_state(q, state)))
    assert found == ("E-QUE-STATE", f"queue q: EnQue of a buffer that is {state}, must be OCCUPIED or DEQUEUED")


@pytest.mark.parametrize("state", ["OCCUPIED", "DEQUEUED"])
def test_enque_takes_an_occupied_or_dequeued_buffer(state):
    def body(asc, q):
        q.enque(to_state(q, state))
        q.free_tensor(q.deque("half"))

    assert recorded(with_que(body)).findings == ()


def test_free_tensor_needs_a_buffer_that_is_not_free():
    found = stopped(lambda asc, q: q.free_tensor(to_state(q, "FREE")))
    assert found == (
        "E-QUE-STATE", "queue q: FreeTensor of a buffer that is FREE, must be OCCUPIED or ENQUEUED or DEQUEUED",
    )  # fmt: skip


@pytest.mark.parametrize("state", ["OCCUPIED", "DEQUEUED"])
def test_free_tensor_takes_an_occupied_or_dequeued_buffer(state):
    assert recorded(with_que(lambda asc, q: q.free_tensor(to_state(q, state)))).findings == ()


def test_deque_needs_something_in_the_queue():
    for state in ("FREE", "OCCUPIED", "DEQUEUED"):
        found = stopped(lambda asc, q, state=state: (to_state(q, state), q.deque("half")))
        assert found == ("E-QUE-EMPTY", "queue q: DeQue on an empty queue")


def test_deque_takes_the_oldest():
    def body(asc, q):
        first, second = q.alloc_tensor("half"), q.alloc_tensor("half")
        q.enque(second)
        q.enque(first)
        assert [q.deque("half").name for _ in range(2)] == ["q[1]", "q[0]"]
        q.free_tensor(first)
        q.free_tensor(second)

    assert recorded(with_que(body)).findings == ()


def test_alloc_tensor_needs_a_free_buffer():
    def body(asc, q):
        q.enque(q.alloc_tensor("half"))
        q.alloc_tensor("half")
        q.alloc_tensor("half")

    assert stopped(body) == (
        "E-QUE-LEAK",
        "queue q: AllocTensor finds none of its 2 buffers free (ENQUEUED, OCCUPIED); the hardware would spin forever",
    )


def test_alloc_tensor_goes_round():
    def body(asc, q):
        names = []
        for _ in range(4):
            t = q.alloc_tensor("half")
            names.append(t.name)
            q.free_tensor(t)
        assert names == ["q[0]", "q[1]", "q[2]", "q[0]"]
        held = q.alloc_tensor("half")
        assert held.name == "q[1]"
        q.free_tensor(q.alloc_tensor("half"))
        q.free_tensor(q.alloc_tensor("half"))
        t = q.alloc_tensor("half")
        assert t.name == "q[2]"  # q[1] is still held and is passed over
        q.free_tensor(t)
        q.free_tensor(held)

    assert recorded(with_que(body, num=3)).findings == ()


@pytest.mark.parametrize("depth", [1, 2])
def test_more_enque_than_the_depth_is_found_and_recording_goes_on(depth):
    def body(asc, q, extra):
        for _ in range(depth + extra):
            q.enque(q.alloc_tensor("half"))
        for _ in range(depth + extra):
            q.free_tensor(q.deque("half"))

    assert recorded(with_que(lambda asc, q: body(asc, q, 0), num=4, depth=depth)).findings == ()
    recording = recorded(with_que(lambda asc, q: body(asc, q, 1), num=4, depth=depth))
    assert messages(recording) == [("E-QUE-DEPTH", f"queue q: {depth + 1} EnQue without a DeQue, its depth is {depth}")]
    assert recording.complete


def test_a_window_into_a_buffer_stands_for_the_buffer():
    def body(asc, q):
        q.enque(q.alloc_tensor("half")[8])
        q.free_tensor(q.deque("float")[3])

    assert recorded(with_que(body)).findings == ()


@pytest.mark.parametrize("op", ["EnQue", "FreeTensor"])
def test_a_tensor_of_another_queue_is_refused(op):
    def kernel(asc):
        pipe = asc.t_pipe()
        p, q = asc.t_que(VECIN, 1, "p"), asc.t_que(VECIN, 1, "q")
        for que in (p, q):
            pipe.init_buffer(que, 1, 64)
        t = p.alloc_tensor("half")
        (q.enque if op == "EnQue" else q.free_tensor)(t)

    recording = recorded(kernel)
    assert not recording.complete
    (found,) = (f for f in recording.findings if f.code != "E-MEM-LEAK")
    assert (found.code, found.where) == ("E-BUF-POSITION", f"test_queues.py:{kernel.__code__.co_firstlineno + 6}")
    assert found.message == f"{op}: tensor p belongs to p, not to queue q on VECIN"


def test_a_tensor_of_no_queue_is_refused():
    def kernel(asc):
        pipe, q = asc.t_pipe(), asc.t_que(VECIN, 1, "q")
        pipe.init_buffer(q, 1, 64)
        q.enque(local("t", "half", 4096, 64))

    (found,) = recorded(kernel).findings
    assert (found.code, found.message) == (
        "E-BUF-POSITION",
        "EnQue: tensor t belongs to no queue, not to queue q on VECIN",
    )


@pytest.mark.parametrize(
    ("count", "offset", "messages_"),
    [
        (8, 32, []),
        (16, 0, []),
        (9, 32, [("E-BUF-OFFSET", "TBuf b: a view of 68 B does not fit, the buffer has 64 B")]),
        (1, 16, [("E-BUF-OFFSET", "TBuf b: a view from byte 16 on is no multiple of 32 B past the buffer's start")]),
        (1, -32, [("E-BUF-OFFSET", "TBuf b: a view from byte -32 on is no multiple of 32 B past the buffer's start")]),
    ],
)
def test_a_view_of_a_tbuf_starts_on_a_datablock_inside(count, offset, messages_):
    def kernel(asc):
        pipe, buf = asc.t_pipe(), asc.t_buf(VECCALC, "b")
        pipe.init_buffer(buf, 1, 64)
        assert buf.get_with_offset("float", count, offset).start_bytes == offset

    assert messages(recorded(kernel)) == messages_


@pytest.mark.parametrize("use", ["alloc_tensor", "deque", "get"])
def test_use_before_init_buffer(use):
    def kernel(asc):
        owner = asc.t_buf(VECCALC, "q") if use == "get" else asc.t_que(VECIN, 1, "q")
        getattr(owner, use)("half")

    recording = recorded(kernel)
    assert not recording.complete
    assert messages(recording) == [("E-BUF-NOINIT", "q: used before InitBuffer")]


@pytest.mark.parametrize(
    ("position", "depth", "text"),
    [
        (
            VECCALC,
            1,
            (
                "queue q: position VECCALC has no queue here; "
                "use VECIN, VECOUT, A1, B1, C1, A2, B2, C2, CO1, CO2 or a TBuf"
            ),
        ),
        (VECIN, 0, "queue q: depth 0; in-place queues (depth 0) are not simulated, use 1"),
    ],
)
def test_queues_that_are_not_simulated(position, depth, text):
    def kernel(asc):
        asc.t_que(position, depth, "q")

    line = kernel.__code__.co_firstlineno + 1
    with pytest.raises(KernelError) as caught:
        recorded(kernel)
    assert str(caught.value) == f"test_queues.py:{line}: {text}"


@pytest.mark.parametrize("second", ["t_que", "t_buf"])
def test_names_of_queues_and_buffers_differ(second):
    def kernel(asc):
        asc.t_que(VECIN, 1, "q")
        asc.t_que(VECOUT, 1, "q") if second == "t_que" else asc.t_buf(VECCALC, "q")

    line = kernel.__code__.co_firstlineno + 2
    with pytest.raises(KernelError) as caught:
        recorded(kernel)
    assert str(caught.value) == (
        f"test_queues.py:{line}: two queues or buffers are called 'q'; names tell them apart in reports"
    )


# ---- events -----------------------------------------------------------------------------------------------------

ROUTES = {VECIN: ("MTE2_V", "V_MTE2"), VECOUT: ("V_MTE3", "MTE3_V")}


@pytest.mark.parametrize("position", ROUTES)
def test_a_round_sets_and_awaits_both_flags_of_the_route(position):
    def body(asc, q):
        q.enque(q.alloc_tensor("half"))
        q.free_tensor(q.deque("half"))

    forward, backward = ROUTES[position]
    recording = recorded(with_que(body, position=position))
    assert flags(recording.program) == [
        ("set", forward, 0, "DATA"),
        ("wait", forward, 0, "DATA"),
        ("set", backward, 0, "DATA"),
        ("wait", backward, 0, "DATA"),  # the kernel's end gives the flag back
    ]
    sets, waits = rows(recording.program)[:2]
    assert (sets.pipe.name, waits.pipe.name) == tuple(forward.split("_"))
    assert {row.que for row in rows(recording.program)} == {0}


def test_alloc_tensor_waits_only_where_this_buffer_has_a_flag_pending():
    def body(asc, q):
        for _ in range(3):
            q.free_tensor(q.alloc_tensor("half"))

    assert flags(recorded(with_que(body)).program) == [
        ("set", "V_MTE2", 0, "DATA"),  # buffer 0 given back
        ("set", "V_MTE2", 1, "DATA"),  # buffer 1: taken for the first time, no wait
        ("wait", "V_MTE2", 0, "BUFFER"),  # buffer 0 again
        ("set", "V_MTE2", 0, "DATA"),
        ("wait", "V_MTE2", 0, "DATA"),  # kernel end, buffer by buffer
        ("wait", "V_MTE2", 1, "DATA"),
    ]


def test_event_ids_are_taken_lowest_first_and_given_back():
    def body(asc, q):
        taken = asc.alloc_event_id(HardEvent.MTE2_V)
        assert taken == 0
        q.enque(q.alloc_tensor("half"))
        q.enque(q.alloc_tensor("half"))
        asc.release_event_id(HardEvent.MTE2_V, taken)
        first = q.deque("half")
        assert asc.fetch_event_id(HardEvent.MTE2_V) == 0  # shown, not taken
        assert asc.fetch_event_id(HardEvent.MTE2_V) == 0
        q.enque(first)
        q.deque("half")
        q.deque("half")

    program = recorded(with_que(body, num=2, depth=3)).program
    assert [f[:3] for f in flags(program)] == [
        ("set", "MTE2_V", 1),
        ("set", "MTE2_V", 2),
        ("wait", "MTE2_V", 1),
        ("set", "MTE2_V", 0),
        ("wait", "MTE2_V", 2),
        ("wait", "MTE2_V", 0),
    ]


def test_ids_belong_to_one_flag_pair():
    def kernel(asc):
        assert [asc.alloc_event_id(HardEvent.V_S) for _ in range(3)] == [0, 1, 2]
        assert asc.alloc_event_id(HardEvent.S_V) == 0
        asc.release_event_id(HardEvent.V_S, 1)
        assert asc.alloc_event_id(HardEvent.V_S) == 1
        for event, event_id in ((HardEvent.V_S, 0), (HardEvent.V_S, 1), (HardEvent.V_S, 2), (HardEvent.S_V, 0)):
            asc.release_event_id(event, event_id)

    assert recorded(kernel).findings == ()


@pytest.mark.parametrize("call", ["alloc_event_id", "fetch_event_id"])
def test_the_ninth_event_id_of_a_pair_does_not_exist(call):
    def kernel(asc):
        assert [asc.alloc_event_id(HardEvent.V_S) for _ in range(8)] == list(range(8))
        getattr(asc, call)(HardEvent.V_S)

    recording = recorded(kernel)
    assert not recording.complete
    assert messages(recording) == [("E-SYNC-EXHAUST", "8 event ids of V_S are in use, the device has 8")]


# ---- the kernel's end -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["OCCUPIED", "ENQUEUED", "DEQUEUED"])
def test_a_buffer_that_is_not_given_back_is_found(state):
    recording = recorded(with_que(lambda asc, q: to_state(q, state)))
    want = [("E-MEM-LEAK", f"queue q: a buffer is {state} when the kernel ends")]
    if state == "ENQUEUED":
        want.append(("E-SYNC-LEAKID", "event id 0 of MTE2_V was taken and never released"))
    assert messages(recording) == want
    assert {f.where for f in recording.findings} == {"end of kernel"}


def test_an_event_id_that_is_not_released_is_found():
    recording = recorded(lambda asc: (asc.alloc_event_id(HardEvent.S_V), asc.alloc_event_id(HardEvent.S_V)))
    assert messages(recording) == [
        ("E-SYNC-LEAKID", f"event id {i} of S_V was taken and never released") for i in (0, 1)
    ]


def test_a_finding_of_every_core_is_counted():
    recording = recorded(with_que(lambda asc, q: to_state(q, "OCCUPIED")), cores=1)
    assert [f.count for f in recording.findings] == [1]
    recording = record(with_que(lambda asc, q: to_state(q, "OCCUPIED")), DEVICE, 3, (), ())
    assert [f.count for f in recording.findings] == [3]


def test_every_queue_rule_was_broken_above():
    """The codes that this file names are all that the module declares."""
    text = Path(__file__).read_text(encoding="utf-8")
    declared = {r.code for r in vars(tpipe).values() if isinstance(r, Rule)}
    assert {code for code in declared if f'"{code}"' not in text} == set()


def test_hints_of_the_state_rules():
    recording = recorded(with_que(lambda asc, q: q.enque(to_state(q, "FREE"))))
    assert recording.findings[0].hint == STATE
    assert recording.findings[0].source == "asc-devkit docs, TQue pages; kernel_tquebind"


# ---- random rounds against a model -------------------------------------------------------------------------------


class Model:
    """A queue as the documents describe it, beside the real one; `want` is every flag row it expects."""

    def __init__(self, q, num, depth, position):
        self.q, self.num, self.depth = q, num, depth
        self.forward, self.backward = ROUTES[position]
        self.state = ["FREE"] * num
        self.tensors, self.pending, self.fifo, self.turn = {}, {}, [], 0
        self.used = {self.forward: set(), self.backward: set()}
        self.want = []

    def take(self, event):
        """Set a flag with the smallest id that is not in use."""
        event_id = min(set(range(8)) - self.used[event])
        self.used[event].add(event_id)
        self.want.append(("set", event, event_id, "DATA"))
        return event_id

    def give(self, event, event_id, reason="DATA"):
        """Wait for a flag and give its id back."""
        self.used[event].discard(event_id)
        self.want.append(("wait", event, event_id, reason))

    def held(self):
        """Buffers that the kernel has in hand."""
        return [s for s in range(self.num) if self.state[s] in ("OCCUPIED", "DEQUEUED")]

    def alloc(self):
        free = [s for i in range(self.num) if self.state[s := (self.turn + i) % self.num] == "FREE"]
        if free:
            slot = free[0]
            self.turn = (slot + 1) % self.num
            if slot in self.pending:
                self.give(self.backward, self.pending.pop(slot), "BUFFER")
            self.state[slot] = "OCCUPIED"
            self.tensors[slot] = self.q.alloc_tensor("half")
            assert self.tensors[slot].address_bytes == 64 * slot

    def enque(self):
        if self.held() and len(self.fifo) < self.depth:
            slot = self.held()[0]
            self.fifo.append((slot, self.take(self.forward)))
            self.state[slot] = "ENQUEUED"
            self.q.enque(self.tensors[slot])

    def deque(self):
        if self.fifo:
            slot, event_id = self.fifo.pop(0)
            self.give(self.forward, event_id)
            self.state[slot] = "DEQUEUED"
            self.tensors[slot] = self.q.deque("half")
            assert self.tensors[slot].address_bytes == 64 * slot

    def free(self):
        if self.held():
            slot = self.held()[0]
            self.pending[slot] = self.take(self.backward)
            self.state[slot] = "FREE"
            self.q.free_tensor(self.tensors[slot])

    def leave_nothing(self):
        for _ in range(self.num):
            self.deque()
            self.free()
        for _ in range(self.num):
            self.free()
        for slot in sorted(self.pending):
            self.give(self.backward, self.pending[slot])


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from([VECIN, VECOUT]),
    st.integers(1, 4),
    st.integers(1, 4),
    st.lists(st.sampled_from(["alloc", "enque", "deque", "free"]), max_size=30),
)
def test_random_legal_calls_issue_the_flags_of_the_model(position, num, depth, calls):
    models = []

    def body(asc, q):
        model = Model(q, num, depth, position)
        models.append(model)
        for call in calls:
            getattr(model, call)()
        model.leave_nothing()

    recording = recorded(with_que(body, num=num, position=position, depth=depth))
    assert recording.findings == ()
    assert flags(recording.program) == models[0].want
    assert execute(recording.program, DEVICE, ()).findings == ()


# ---- known gaps -------------------------------------------------------------------------------------------------


def test_a_buffer_freed_while_enqueued_leaves_the_queue():
    """FreeTensor takes an ENQUEUED buffer (memory model, section 3); DeQue needs ENQUEUED."""

    def body(asc, q):
        t = q.alloc_tensor("half")
        q.enque(t)
        q.free_tensor(t)
        q.deque("half")

    recording = recorded(with_que(body))
    assert "E-QUE-EMPTY" in {f.code for f in recording.findings} or "E-QUE-STATE" in {
        f.code for f in recording.findings
    }


def test_a_queue_in_use_cannot_be_moved():
    def kernel(asc):
        pipe, que = asc.t_pipe(), asc.t_que(VECOUT, 1, "q")
        pipe.init_buffer(que, 2, 256)
        que.alloc_tensor("float")
        pipe.init_buffer(que, 2, 512)

    (finding,) = recorded(kernel).findings
    assert finding.code == "E-QUE-STATE"
    assert finding.message == "queue q: InitBuffer of a buffer that is OCCUPIED, must be FREE"


# ---- a tensor behind its end -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "found"),
    [
        (
            lambda asc, t: asc.adds(local("f", "half", 4096, 64), t, 1.0, 16),
            ("E-MEM-FREED-READ", "Adds src0 reads q[0], which FreeTensor has given back"),
        ),
        (
            lambda asc, t: asc.duplicate(t, 0.0, 16),
            ("E-MEM-FREED-WRITE", "Duplicate dst writes q[0], which FreeTensor has given back"),
        ),
        (
            lambda asc, t: asc.duplicate(t[16], 0.0, 16),
            ("E-MEM-FREED-WRITE", "Duplicate dst writes q[0], which FreeTensor has given back"),
        ),
    ],
)
def test_a_freed_tensor_is_neither_read_nor_written(use, found):
    def body(asc, q, *, is_late):
        t = q.alloc_tensor("half")
        asc.duplicate(t, 0.0, 32)
        if is_late:
            q.free_tensor(t)
        use(asc, t)
        if not is_late:
            q.free_tensor(t)

    assert recorded(with_que(lambda asc, q: body(asc, q, is_late=False))).findings == ()
    recording = recorded(with_que(lambda asc, q: body(asc, q, is_late=True)))
    assert recording.complete
    assert messages(recording) == [found]


def test_the_same_buffer_handed_out_again_may_be_used_through_the_old_tensor():
    """Only the buffer's state counts: what the old name touches has an owner again."""

    def body(asc, q):
        old = q.alloc_tensor("half")
        q.free_tensor(old)
        new = q.alloc_tensor("half")
        asc.duplicate(old, 0.0, 32)
        q.free_tensor(new)

    assert recorded(with_que(body, num=1)).findings == ()
