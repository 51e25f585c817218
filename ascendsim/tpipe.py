"""TPipe, TQue and TBuf: how Ascend C hands out on-chip memory and which events its queues issue.

Rules from the asc-devkit docs, resource-management pages (TPipe, TQue, TBuf, InitBuffer), as data of the device where
they are numbers. A buffer of a queue goes FREE, OCCUPIED (AllocTensor), ENQUEUED (EnQue), DEQUEUED (DeQue), FREE
(FreeTensor). EnQue sets the forward flag and DeQue waits for it; FreeTensor sets the backward flag and the AllocTensor
that gets this buffer again waits for it.
"""

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Protocol

from ascendsim.device import Device
from ascendsim.dtypes import DType, dtype
from ascendsim.errors import Rejected, Rule
from ascendsim.isa.instruction import Reason
from ascendsim.isa.sync import FlagCall
from ascendsim.memory import FRAMEWORK_TMP, LocalTensor
from ascendsim.terms import DATABLOCK_BYTES, Buffer, HardEvent, Pipe, TPosition, align_up

_TQUE = "asc-devkit docs, TQue pages; kernel_tquebind"

QUE_STATE = Rule(
    "E-QUE-STATE",
    "queue {que}: {op} of a buffer that is {got}, must be {wanted}",
    "follow AllocTensor, EnQue, DeQue, FreeTensor for each buffer",
    _TQUE,
    condition="EnQue, FreeTensor or InitBuffer meets a buffer that is not in the state the call needs.",
)
QUE_DEPTH = Rule(
    "E-QUE-DEPTH",
    "queue {que}: {got} EnQue without a DeQue, its depth is {wanted}",
    "raise the depth, or DeQue earlier",
    _TQUE,
    condition="EnQue is called while as many tensors wait in the queue as its depth allows.",
)
QUE_EMPTY = Rule(
    "E-QUE-EMPTY",
    "queue {que}: DeQue on an empty queue",
    "EnQue a tensor first",
    _TQUE,
    condition="DeQue is called while no tensor waits in the queue.",
)
QUE_LEAK = Rule(
    "E-QUE-LEAK",
    "queue {que}: AllocTensor finds none of its {wanted} buffers free ({got}); the hardware would spin forever",
    "FreeTensor on every path, or initialise the queue with more buffers",
    _TQUE,
    condition="AllocTensor is called while every buffer of the queue is in use.",
)
SYNC_EXHAUST = Rule(
    "E-SYNC-EXHAUST",
    "{got} event ids of {operand} are in use, the device has {wanted}",
    "release events earlier, or use fewer queue buffers",
    "asc-devkit docs, AllocEventID page",
    condition="An event id is asked for while all ids of that pair of pipes are in use.",
)
CAP_QUE = Rule(
    "E-CAP-QUE",
    "{got} queue buffers on {operand}, at most {wanted}",
    "merge queues or use one buffer each",
    "asc-devkit docs, TQue page",
    condition="The queues of one TPosition have more buffers together than the part allows (8; 4 on arch 1001).",
)
CAP_BUF = Rule(
    "E-CAP-BUF",
    "{got} buffers in one kernel, at most {wanted}",
    "merge TBufs",
    "asc-devkit docs, InitBuffer page",
    condition="The kernel, or a plan with its temps counted in, has more buffers than one kernel may have (64).",
)
BUF_NOINIT = Rule(
    "E-BUF-NOINIT",
    "{operand}: used before InitBuffer",
    "call pipe.init_buffer first",
    "asc-tools, npu-check ErrorBuffer0",
    condition="A queue or TBuf is asked for a tensor before InitBuffer has given it memory.",
)
BUF_OFFSET = Rule(
    "E-BUF-OFFSET",
    "TBuf {operand}: a view of {got} B does not fit, the buffer has {wanted} B",
    "ask for less, or initialise it larger",
    "asc-devkit docs, TBuf page",
    condition="TBuf.Get asks for more bytes than InitBuffer gave the buffer.",
)
BUF_VIEW = BUF_OFFSET.saying(
    "TBuf {operand}: a view from byte {got} on is no multiple of {wanted} B past the buffer's start",
    hint="start views on whole datablocks",
)
BUF_POSITION = Rule(
    "E-BUF-POSITION",
    "{op}: tensor {tensor} belongs to {got}, not to queue {operand} on {wanted}",
    "give a tensor back to the queue that it came from; copy it to pass it on",
    "asc-tools, npu-check ErrorBuffer1",
    condition="A queue is given a tensor that another queue, a TBuf or an explicit address has made.",
)
MOST_BUFFERS = 64
"""Buffers of one queue (asc-devkit docs, InitBuffer page)."""
BUF_LENGTH = Rule(
    "E-BUF-LENGTH",
    "InitBuffer {operand}: {got}; it takes {wanted}",
    "give a positive length and 1..64 buffers",
    "asc-devkit docs, InitBuffer page",
    condition="InitBuffer gets a length below 1 B, or a number of buffers outside 1..64 for a queue or other "
    "than 1 for a TBuf.",
)
BUF_POPSTACK = Rule(
    "E-BUF-POPSTACK",
    "no framework temp left: queues end at {got}, the temp area ends at {wanted}",
    "make the queues smaller, or pass a shared temp buffer",
    "asc-devkit docs, PopStackBuffer page",
    condition="The queues and buffers of TPipe reach the end of the framework's temp area, so PopStackBuffer "
    "has nothing to give.",
)
PIPE_MULTI = Rule(
    "E-PIPE-MULTI",
    "a second TPipe is alive",
    "use one TPipe in a kernel, or destroy() the first before",
    "asc-devkit, kernel_tpipe",
    condition="A kernel makes a second TPipe while the first is alive.",
)
MEM_LEAK = Rule(
    "E-MEM-LEAK",
    "queue {operand}: a buffer is {got} when the kernel ends",
    "FreeTensor what AllocTensor or DeQue gave",
    "asc-tools, npu-check ErrorLeak",
    condition="A queue still holds a buffer that was not freed when the kernel ends.",
)

FREED_READ = Rule(
    "E-MEM-FREED-READ",
    "{api} {operand} reads {tensor}, which FreeTensor has given back",
    "free a tensor behind its last use",
    "asc-tools, npu-check ErrorRead1",
    condition="An instruction reads a queue's tensor whose buffer is free when the instruction is issued.",
)
FREED_WRITE = Rule(
    "E-MEM-FREED-WRITE",
    "{api} {operand} writes {tensor}, which FreeTensor has given back",
    "free a tensor behind its last use, or AllocTensor again",
    "asc-tools, npu-check ErrorWrite1",
    condition="An instruction writes a queue's tensor whose buffer is free when the instruction is issued.",
)


class State(Enum):
    """Life of a queue buffer."""

    FREE = "FREE"
    OCCUPIED = "OCCUPIED"
    ENQUEUED = "ENQUEUED"
    DEQUEUED = "DEQUEUED"


ROUTES = {
    TPosition.VECIN: (HardEvent.MTE2_V, HardEvent.V_MTE2),
    TPosition.VECOUT: (HardEvent.V_MTE3, HardEvent.MTE3_V),
    TPosition.A1: (HardEvent.MTE2_MTE1, HardEvent.MTE1_MTE2),
    TPosition.B1: (HardEvent.MTE2_MTE1, HardEvent.MTE1_MTE2),
    TPosition.C1: (HardEvent.MTE2_MTE1, HardEvent.MTE1_MTE2),
    TPosition.A2: (HardEvent.MTE1_M, HardEvent.M_MTE1),
    TPosition.B2: (HardEvent.MTE1_M, HardEvent.M_MTE1),
    TPosition.C2: (HardEvent.MTE1_M, HardEvent.M_MTE1),
    TPosition.CO1: (HardEvent.M_FIX, HardEvent.FIX_M),
    TPosition.CO2: (HardEvent.V_MTE3, HardEvent.MTE3_V),
}
"""(forward, backward) flags of a queue on each position."""


class Core(Protocol):
    """The side of AiCore that queues use."""

    device: Device
    ques: "list[TQue | TBuf]"

    def settle(self) -> None:
        """Bring masks, events and queues up to date after replayed tiles."""

    def layout_changes(self) -> None:
        """A queue or buffer moves: what was known of arguments that hold it is void."""

    @property
    def set_flag(self) -> FlagCall:
        """SetFlag."""

    @property
    def wait_flag(self) -> FlagCall:
        """WaitFlag."""

    def alloc_event_id(self, event: HardEvent) -> int:
        """Take the lowest free id."""

    def release_event_id(self, event: HardEvent, event_id: int) -> None:
        """Give an id back."""

    def pipe_barrier(self, pipe: Pipe) -> None:
        """Let a pipe, or all, finish what was issued before."""

    def end_pipe(self) -> None:
        """Forget the TPipe and its queues and buffers."""

    def report(self, rule: Rule, *, operand: str = "", got: object = "", wanted: object = "", **fill: object) -> None:
        """Note a finding at the kernel line."""

    def reject(
        self, rule: Rule, *, operand: str = "", got: object = "", wanted: object = "", **fill: object
    ) -> Rejected:
        """Note a finding and return the exception that ends the recording."""

    def fail(self, message: str) -> Exception:
        """Return a KernelError with the kernel line in front."""


QueState = tuple[tuple[State, ...], tuple[int, ...], tuple[tuple[int, int], ...], int]


@dataclass(eq=False)
class _Buffers:
    """What TQue and TBuf share: a name, a place in UB, equality by declaration (so tiles recognise them)."""

    asc: Core = field(repr=False)
    position: TPosition
    name: str
    index: int
    address_bytes: int = -1
    buffer_bytes: int = 0
    num: int = 0

    @property
    def identity(self) -> tuple[object, ...]:
        """What tells it from others: equal ones are the same to a kernel."""
        return (
            type(self).__name__,
            self.index,
            self.name,
            self.position,
            self.address_bytes,
            self.buffer_bytes,
            self.num,
            getattr(self, "depth", 0),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Buffers) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def _tensor(self, slot: int, element: DType | str) -> LocalTensor:
        at = self.address_bytes + slot * self.buffer_bytes
        name = self.name if self.num == 1 else f"{self.name}[{slot}]"
        return LocalTensor(name, self.position, dtype(element), at, self.buffer_bytes, que=self.index)

    def _need_init(self) -> None:
        self.asc.settle()
        if self.address_bytes < 0:
            raise self.asc.reject(BUF_NOINIT, operand=self.name, got="no memory", wanted="init_buffer first")


@dataclass(eq=False)
class TBuf(_Buffers):
    """One buffer that never enters a queue and carries no event."""

    def get(self, element: DType | str, count: int | None = None) -> LocalTensor:
        """Return the buffer as a tensor of `element`; `count` elements must fit if given."""
        self._need_init()
        if count is not None and count * dtype(element).bytes > self.buffer_bytes:
            got = count * dtype(element).bytes
            self.asc.report(BUF_OFFSET, operand=self.name, got=got, wanted=self.buffer_bytes)
        return self._tensor(0, element)

    def get_with_offset(self, element: DType | str, count: int, offset_bytes: int) -> LocalTensor:
        """Return the view of `count` elements that starts `offset_bytes` into the buffer (GetWithOffset)."""
        self._need_init()
        end = offset_bytes + count * dtype(element).bytes
        if offset_bytes % DATABLOCK_BYTES or offset_bytes < 0:
            self.asc.report(BUF_VIEW, operand=self.name, got=offset_bytes, wanted=DATABLOCK_BYTES)
        elif end > self.buffer_bytes:
            self.asc.report(BUF_OFFSET, operand=self.name, got=end, wanted=self.buffer_bytes)
        return replace(self._tensor(0, element), offset_bytes=offset_bytes)


@dataclass(eq=False)
class TQue(_Buffers):
    """A queue of `num` buffers between two pipes; `depth` is how many may wait in it."""

    depth: int = 1

    def __post_init__(self) -> None:
        self._states: list[State] = []
        self._backward: list[int] = []
        self._fifo: list[tuple[int, int]] = []
        self._next = 0

    def attach(self) -> None:
        """Start the state machine once InitBuffer has given buffers."""
        self._states = [State.FREE] * self.num
        self._backward = [-1] * self.num
        self._fifo, self._next = [], 0

    def check_unused(self) -> None:
        """Refuse a queue whose buffers are in use: InitBuffer would move them."""
        used = next((state for state in self._states if state is not State.FREE), None)
        if used is not None:
            free = State.FREE.value
            raise self.asc.reject(
                QUE_STATE, operand=self.name, got=used.value, wanted=free, que=self.name, op="InitBuffer"
            )

    @cached_property
    def _events(self) -> tuple[HardEvent, HardEvent]:
        if self.position is TPosition.CO1 and not self.asc.device.has("fixpipe"):
            return HardEvent.M_V, HardEvent.V_M  # results leave through the vector unit
        return ROUTES[self.position]

    def alloc_tensor(self, element: DType | str) -> LocalTensor:
        """Take the next free buffer; waits for its backward flag if one is pending."""
        self._need_init()
        slot = self._free_slot()
        if self._backward[slot] >= 0:
            event = self._events[1]
            self.asc.wait_flag(event, self._backward[slot], que=self.index, reason=Reason.BUFFER)
            self.asc.release_event_id(event, self._backward[slot])
            self._backward[slot] = -1
        self._states[slot] = State.OCCUPIED
        self._next = (slot + 1) % self.num
        return self._tensor(slot, element)

    def _free_slot(self) -> int:
        for i in range(self.num):
            slot = (self._next + i) % self.num
            if self._states[slot] is State.FREE:
                return slot
        states = ", ".join(s.value for s in self._states)
        raise self.asc.reject(QUE_LEAK, operand=self.name, got=states, wanted=self.num, que=self.name)

    def enque(self, tensor: LocalTensor) -> None:
        """Put a tensor into the queue and set the forward flag."""
        slot = self._slot_of(tensor, "EnQue", (State.OCCUPIED, State.DEQUEUED))
        if len(self._fifo) >= self.depth:
            got = len(self._fifo) + 1
            self.asc.report(QUE_DEPTH, operand=self.name, got=got, wanted=self.depth, que=self.name)
        event = self._events[0]
        event_id = self.asc.alloc_event_id(event)
        self.asc.set_flag(event, event_id, que=self.index)
        self._fifo.append((slot, event_id))
        self._states[slot] = State.ENQUEUED

    def deque(self, element: DType | str) -> LocalTensor:
        """Take the oldest tensor out of the queue and wait for its forward flag."""
        self._need_init()
        if not self._fifo:
            raise self.asc.reject(QUE_EMPTY, operand=self.name, got=0, wanted="at least 1", que=self.name)
        slot, event_id = self._fifo.pop(0)
        event = self._events[0]
        self.asc.wait_flag(event, event_id, que=self.index)
        self.asc.release_event_id(event, event_id)
        self._states[slot] = State.DEQUEUED
        return self._tensor(slot, element)

    def free_tensor(self, tensor: LocalTensor) -> None:
        """Give a buffer back and set its backward flag."""
        slot = self._slot_of(tensor, "FreeTensor", (State.OCCUPIED, State.ENQUEUED, State.DEQUEUED))
        self._fifo = [entry for entry in self._fifo if entry[0] != slot]  # its forward flag stays set, unpaired
        event = self._events[1]
        event_id = self.asc.alloc_event_id(event)
        self.asc.set_flag(event, event_id, que=self.index)
        self._backward[slot] = event_id
        self._states[slot] = State.FREE

    def free_all_event(self) -> None:
        """Wait for the backward flags that are still pending, as TPipe does when the kernel ends."""
        self.asc.settle()
        for slot, event_id in enumerate(self._backward):
            if event_id >= 0:
                event = self._events[1]
                self.asc.wait_flag(event, event_id, que=self.index, reason=Reason.DATA)
                self.asc.release_event_id(event, event_id)
                self._backward[slot] = -1
        for state in self._states:
            if state is not State.FREE:
                self.asc.report(MEM_LEAK, operand=self.name, got=state.value, wanted=State.FREE.value)

    def is_free(self, tensor: LocalTensor) -> bool:
        """Whether the buffer of one of this queue's tensors is free; one of a destroyed TPipe's queue is."""
        if tensor.allocation_bytes != self.buffer_bytes:
            return True
        slot = (tensor.address_bytes - self.address_bytes) // self.buffer_bytes
        return self._states[slot] is State.FREE

    def _slot_of(self, tensor: LocalTensor, op: str, allowed: tuple[State, ...]) -> int:
        self.asc.settle()
        if tensor.que != self.index:
            owner = next((q.name for q in self.asc.ques if q.index == tensor.que), "no queue")
            raise self.asc.reject(
                BUF_POSITION, operand=self.name, got=owner, wanted=self.position.value, op=op, tensor=tensor.name
            )
        slot = (tensor.address_bytes - self.address_bytes) // self.buffer_bytes
        if self._states[slot] not in allowed:
            wanted = " or ".join(s.value for s in allowed)
            got = self._states[slot].value
            raise self.asc.reject(QUE_STATE, operand=self.name, got=got, wanted=wanted, que=self.name, op=op)
        return slot

    @property
    def state(self) -> QueState:
        """Everything that later calls depend on."""
        self.asc.settle()
        return (tuple(self._states), tuple(self._backward), tuple(self._fifo), self._next)

    @state.setter
    def state(self, state: QueState) -> None:
        states, backward, fifo, self._next = state
        self._states, self._backward, self._fifo = list(states), list(backward), list(fifo)


class TPipe:
    """Hands out each on-chip memory from address 0 upward, in declaration order."""

    def __init__(self, asc: Core) -> None:
        self.asc = asc
        self._ends: dict[Buffer, int] = {}
        self.ends: tuple[tuple[Buffer, int], ...] = ()
        """How far each memory is handed out."""

    @property
    def end_bytes(self) -> int:
        """How far UB is handed out."""
        return self._ends.get(Buffer.UB, 0)

    def init_buffer(self, que: TQue | TBuf, num: int, length_bytes: int) -> None:
        """Give a queue `num` buffers (a TBuf: 1) of `length_bytes` each, rounded up to 32 B."""
        most = MOST_BUFFERS if isinstance(que, TQue) else 1
        if length_bytes <= 0 or not 1 <= num <= most:
            wanted = f"1 .. {most} of at least 1 B" if most > 1 else "1 of at least 1 B"
            raise self.asc.reject(BUF_LENGTH, operand=que.name, got=f"{num} x {length_bytes} B", wanted=wanted)
        self.asc.settle()
        self.asc.layout_changes()
        if isinstance(que, TQue):
            que.check_unused()
        que.num = num
        que.buffer_bytes = align_up(length_bytes, DATABLOCK_BYTES)
        place = self.asc.device.buffer_of(que.position)
        if place is None or place is Buffer.GM:
            arch = self.asc.device.npu_arch
            raise self.asc.fail(f"{que.name}: position {que.position.value} is no on-chip memory of arch {arch}")
        que.address_bytes = self._ends.get(place, 0)
        self._ends[place] = que.address_bytes + que.buffer_bytes * num
        self.ends = tuple(sorted(self._ends.items()))
        if isinstance(que, TQue):
            que.attach()
        self._check_counts(que)

    def _check_counts(self, que: TQue | TBuf) -> None:
        sync = self.asc.device.sync
        ques = [q for q in self.asc.ques if q.address_bytes >= 0]
        total = sum(q.num for q in ques)
        if total > sync.max_buffers.value:
            self.asc.report(CAP_BUF, got=total, wanted=sync.max_buffers.value)
        same = sum(q.num for q in ques if isinstance(q, TQue) and q.position is que.position)
        if isinstance(que, TQue) and same > sync.queue_buffers_per_position.value:
            wanted = sync.queue_buffers_per_position.value
            self.asc.report(CAP_QUE, operand=que.position.value, got=same, wanted=wanted)

    def destroy(self) -> None:
        """End this TPipe, its queues and buffers, so that the kernel may make another from address 0 on.

        Waits for the flags that are still pending, then for all pipes, as the destructor does at the end of a block of
        code in C++. Source: asc-devkit docs, TPipe Destroy page; kernel_tpipe.
        """
        for que in self.asc.ques:
            if isinstance(que, TQue) and que.address_bytes >= 0:
                que.free_all_event()
        self.asc.pipe_barrier(Pipe.ALL)
        self.asc.end_pipe()

    def pop_stack_buffer(self, element: DType | str) -> LocalTensor:
        """Return everything between the last queue and the end of the framework's temp area (PopStackBuffer)."""
        end = self.asc.device.ub.pop_stack_end_bytes.value
        if self.end_bytes >= end:
            raise self.asc.reject(BUF_POPSTACK, operand="framework temp", got=self.end_bytes, wanted=end)
        return LocalTensor(FRAMEWORK_TMP, TPosition.VECCALC, dtype(element), self.end_bytes, end - self.end_bytes)
