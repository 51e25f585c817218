"""Running a kernel records it: the `AiCore` handle and tiles.

Nothing is computed here. A kernel is called once per core with that core's handle; what it calls becomes rows. A
function marked `@tile` is recorded once per key and afterwards logged as a call with GM base addresses. The key is
everything its rows can depend on: the function, its arguments (tensors by dtype, shape and on-chip address; where a GM
tensor begins a tile cannot ask), and the recorder's state on entry: mask, dequantisation scale, whether the
compare-mask register is set, events, queues, trace marks.
"""

import functools
import inspect
import sys
import sysconfig
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from itertools import count
from numbers import Integral, Real
from types import CellType, FrameType, FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, cast

from ascendsim.builder import (
    PartTensor,
    ProgramBuilder,
    RecordedTile,
    RecorderState,
    SharedTiles,
    SlotTensor,
    TileArgumentError,
)
from ascendsim.device import Device
from ascendsim.dtypes import DType, pack
from ascendsim.errors import AscendSimError, Finding, KernelError, Rejected, Rule, UnknownNameError
from ascendsim.isa.atomic import AtomicInstructions
from ascendsim.isa.compare import MASK_IGNORED, CompareInstructions
from ascendsim.isa.compound import CompoundInstructions
from ascendsim.isa.convert import ConvertInstructions
from ascendsim.isa.declared import declared_by
from ascendsim.isa.dequant import DequantInstructions
from ascendsim.isa.dump import DumpInstructions
from ascendsim.isa.extreme import ExtremeInstructions
from ascendsim.isa.fixpipe import FixpipeInstructions
from ascendsim.isa.forms import Form
from ascendsim.isa.gather import GatherInstructions
from ascendsim.isa.gather_mask import GatherMaskInstructions
from ascendsim.isa.instruction import (
    Body,
    Instruction,
    MaskState,
    Operand,
    Reason,
    Register,
    RegisterUseError,
    Row,
    TensorRef,
)
from ascendsim.isa.load import LoadInstructions
from ascendsim.isa.logic import LogicInstructions
from ascendsim.isa.micro import VectorFunctions
from ascendsim.isa.mmad import MmadInstructions
from ascendsim.isa.move import MoveInstructions
from ascendsim.isa.names import ascendc_name, called_here, nearest
from ascendsim.isa.reduce import ReduceInstructions
from ascendsim.isa.scalar import ScalarInstructions
from ascendsim.isa.select import SelectInstructions
from ascendsim.isa.sync import SyncInstructions
from ascendsim.isa.tensor_extreme import TensorExtremeInstructions
from ascendsim.isa.tensor_reduce import TensorReduceInstructions
from ascendsim.isa.transpose import TransposeInstructions
from ascendsim.isa.transpose_square import SquareTransposeInstructions
from ascendsim.isa.vector import VectorInstructions
from ascendsim.memory import FRAMEWORK_TMP, RESERVED_TMP, GlobalTensor, LocalTensor, Tensor
from ascendsim.program import Program, QueInfo, block_index
from ascendsim.progress import StageProgress
from ascendsim.terms import Buffer, CacheMode, CoreKind, HardEvent, KernelType, MaskMode, Pipe, TPosition
from ascendsim.tpipe import FREED_READ, FREED_WRITE, PIPE_MULTI, ROUTES, SYNC_EXHAUST, TBuf, TPipe, TQue

MASK_LEFT = MASK_IGNORED.saying(
    "counter mode is still on when the kernel ends", "call set_mask_norm and reset_mask", "asc-devkit docs, mask page"
)
EVENT_LEAK = Rule(
    "E-SYNC-LEAKID",
    "event id {got} of {operand} was taken and never released",
    "call release_event_id",
    "asc-devkit docs, TPipe pages",
    condition="An event id was taken with AllocEventID and not released when the kernel ends.",
)
ATOMIC_LEFT = Rule(
    "E-ATOMIC-LEFTON",
    "stores still add {got} when the kernel ends; what runs next would add, too",
    "call set_atomic_none behind the last store that adds",
    "asc-devkit docs, SetAtomicAdd page",
    condition="The kernel ends with SetAtomicAdd on.",
)
CORE_ROLE = Rule(
    "E-CORE-ROLE",
    "{operand} needs {got}, which {wanted} does not have",
    "split the kernel by core: `if asc.is_aic` and `if asc.is_aiv`; Mmad, LoadData and Fixpipe belong to AIC, vector "
    "instructions and UB to AIV",
    "asc-devkit docs, appendix on API pipe types",
    condition="An instruction needs a pipe or a memory that the core running it does not have: a vector instruction on "
    "an AIC, Mmad, LoadData or Fixpipe on an AIV.",
)
P = ParamSpec("P")
_EXACT = frozenset((int, bool, str, bytes, type(None), DType, LocalTensor, Pipe, HardEvent))
"""Types whose values are their own key; asked before the others because that is quick."""
_VALUES = (Real, str, bytes, type(None), Enum, DType, LocalTensor, TQue, TBuf)
_VALUE_NAMES = "numbers, text, enum members, tuples, frozen dataclasses, tensors or queues"
_MOST_ARGUMENTS = 256
"""Arguments that are remembered by identity; a kernel that makes new ones for each call starts over after so many."""
_FOREIGN = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
END_OF_KERNEL = "end of kernel"
"""Source line of what TPipe does when the kernel returns."""
_OWN_MODULES = (
    "ascendsim.isa",
    "ascendsim.record",
    "ascendsim.tpipe",
    "ascendsim.op_kernel.call_checks",
    "ascendsim.op_kernel.drop_out_checks",
    "ascendsim.op_kernel.select_with_bytes_mask_checks",
    "ascendsim.op_kernel.simple_softmax_checks",
    "ascendsim.op_kernel.softmax_grad_checks",
    "ascendsim.op_kernel.softmax_grad_surprises",
)


class AiCore(
    VectorInstructions,
    CompoundInstructions,
    LogicInstructions,
    ReduceInstructions,
    ConvertInstructions,
    DequantInstructions,
    MoveInstructions,
    TransposeInstructions,
    ScalarInstructions,
    SyncInstructions,
    VectorFunctions,
    ExtremeInstructions,
    TensorReduceInstructions,
    TensorExtremeInstructions,
    CompareInstructions,
    SelectInstructions,
    GatherInstructions,
    GatherMaskInstructions,
    SquareTransposeInstructions,
    AtomicInstructions,
    LoadInstructions,
    MmadInstructions,
    FixpipeInstructions,
    DumpInstructions,
):
    """One core's handle, the `asc` that a kernel takes first. It stands where `AscendC::` stands in C++."""

    def __init__(self, builder: ProgramBuilder, core: int, own: Mapping[str, Form[Any]] = MappingProxyType({})) -> None:
        self._own = own
        """Instructions that the kernel's file declares, by name."""
        self.device = builder.device
        self.ques: list[TQue | TBuf] = []
        self.is_in_vector_function = False
        self._mask = MaskState()
        self._deq_scale: int | None = None
        self._atomic: DType | None = None
        self._cmp_mask_is_set = False
        self._builder = builder
        self._core = core
        kinds = builder.kernel_type.kinds
        self.kernel_type = builder.kernel_type
        self.kind = kinds[core % len(kinds)]
        """What this core is."""
        self._is_cube = self.is_aic
        self._own_pipes, self._own_places, self.own_events = builder.parts[self.kind]
        self._events: dict[HardEvent, set[int]] = {}
        """Event ids that are taken."""
        self._steps: list[str] = []
        self._step = -1
        """Number of the marked step that these make, -1 until a row needs it."""
        self._pipe: TPipe | None = None
        self._ended: dict[str, QueInfo] = {}
        """Queues and buffers of TPipes that were destroyed, by name, each where it reached furthest."""
        self._tiles: dict[Callable[..., None], int] = {}
        self._parts: list[int] | None = None
        """While a process is recorded: which of its GM arguments each slot so far belongs to, -1 for none."""
        self._process = ""
        """Name of the process that has been called: it ends what this core does."""
        self._replayed: RecordedTile | None = None
        """The last tile, if nothing has been recorded since: its exit state is still to be taken over."""
        self._argument_numbers: dict[int, tuple[object, int]] = {}
        """Frozen arguments by identity, kept alive, with the number of what rows can depend on."""
        self._segment = builder.new_segment("body", is_tile=False)
        self._line_text = ""

    if not TYPE_CHECKING:  # to mypy every attribute would exist

        def __getattr__(self, name: str) -> object:
            """An instruction of the kernel's own file; anything else that is not there is an error with its line."""
            form = self.__dict__.get("_own", {}).get(name)
            if form is not None:
                return form.call(self, form.op)
            if name.startswith("_"):
                raise AttributeError(f"asc has no {name!r}")
            raise UnknownNameError(f"{self._where()}: {self._missing(name)}")

    def _missing(self, name: str) -> str:
        """What to say of a name that the handle does not have."""
        known = [n for n in (*dir(type(self)), *self._own) if not n.startswith("_")]
        near = nearest(name, known)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        api = ascendc_name(name)
        if called_here(api):
            return f"{api} is called {called_here(api)} here"
        if api and api not in {ascendc_name(n) for n in near}:  # else only its spelling is AscendC's
            return f"{api} is not modelled; see docs/adding-an-instruction.md{hint}"
        return f"asc has no {name!r}{hint or '; docs/writing-a-kernel.md lists what there is'}"

    @property
    def mask(self) -> MaskState:
        """Mask mode and mask."""
        self.settle()
        return self._mask

    @property
    def atomic(self) -> DType | None:
        """Element type in which stores add to GM, None while they replace."""
        self.settle()
        return self._atomic

    @atomic.setter
    def atomic(self, kind: DType | None) -> None:
        self.settle()
        self._atomic = kind

    @property
    def deq_scale(self) -> int | None:
        """Bits of the half that SetDeqScale set last, None before the first."""
        self.settle()
        return self._deq_scale

    @deq_scale.setter
    def deq_scale(self, bits: int) -> None:
        self.settle()
        self._deq_scale = bits

    @property
    def cmp_mask_is_set(self) -> bool:
        """Whether the compare-mask register holds what SetCmpMask put there."""
        self.settle()
        return self._cmp_mask_is_set

    @cmp_mask_is_set.setter
    def cmp_mask_is_set(self, is_set: bool) -> None:
        self.settle()
        self._cmp_mask_is_set = is_set

    def settle(self) -> None:
        """Take over the state that replayed tiles left. Whatever looks at masks, events, queues or marks calls this."""
        if self._replayed is not None:
            state, self._replayed = self._replayed.exit_state, None
            self._restore(state)
        if self._process:
            raise self.fail(f"@process {self._process} is over, and with it the kernel; do this inside of it")

    def layout_changes(self) -> None:
        """A queue or buffer moves: what was known of arguments that hold it is void."""
        self._outside_of_tiles("init_buffer")
        self._argument_numbers.clear()

    # ---- system variables ---------------------------------------------------------------------------------------

    def get_block_idx(self) -> int:
        """Return this core's index, 0 .. get_block_num() - 1. Not inside a tile: pass it in as an argument."""
        once = "tile" if self._segment.is_tile else "process" if self._parts is not None else ""
        if once:
            raise self.fail(
                f"get_block_idx inside a @{once}: a {once} is recorded once for all cores. Call it outside and pass "
                f"the {once} what it needs"
            )
        return block_index(self._builder.kernel_type, self._core)

    def get_block_num(self) -> int:
        """Return the block_dim: how many cores run the kernel, in a mixed kernel how many AI Cores (GetBlockNum)."""
        return self._builder.asked_block_dim()

    def get_sub_block_idx(self) -> int:
        """Return which of its AI Core's vector cores this is, 0 on a Cube core (GetSubBlockIdx).

        Not inside a tile: pass it in.
        """
        if self._segment.is_tile:
            raise self.fail("get_sub_block_idx inside a @tile: a tile is recorded once for all cores; pass it in")
        return 0 if self.kind is CoreKind.AIC else self.get_block_idx() % self.get_task_ration()

    def get_task_ration(self) -> int:
        """Return how many vector cores a Cube core has, 1 on a Cube core (GetTaskRation as AscendC spells it)."""
        return 1 if self.kind is CoreKind.AIC else max(1, self._builder.kernel_type.kinds.count(CoreKind.AIV))

    @property
    def is_aic(self) -> bool:
        """Whether this core has the Cube unit (ASCEND_IS_AIC)."""
        return self.kind is not CoreKind.AIV

    @property
    def is_aiv(self) -> bool:
        """Whether this core has the vector unit (ASCEND_IS_AIV)."""
        return self.kind is not CoreKind.AIC

    # ---- memory and queues --------------------------------------------------------------------------------------

    def _outside_of_tiles(self, what: str) -> None:
        if self._segment.is_tile:
            raise self.fail(f"{what} inside a @tile: a tile is recorded once; make queues and buffers outside of it")

    def t_pipe(self) -> TPipe:
        """Return a TPipe; only one may be alive."""
        self._outside_of_tiles("t_pipe")
        if self._pipe is not None:
            raise self.reject(PIPE_MULTI, got=2, wanted=1)
        self._pipe = TPipe(self)
        return self._pipe

    def end_pipe(self) -> None:
        """Forget the TPipe, its queues and buffers; what they took of memories stays known. See TPipe.destroy."""
        self.settle()
        self.layout_changes()
        for q in self.ques:
            info = QueInfo(q.name, q.position.value, q.address_bytes, q.buffer_bytes, q.num)
            known = self._ended.get(q.name)
            if q.address_bytes >= 0 and (known is None or known.end_bytes < info.end_bytes):
                self._ended[q.name] = info
        for place, end_bytes in self._pipe.ends if self._pipe else ():
            self._builder.reaches(place, end_bytes)
        self.ques.clear()
        self._pipe = None

    def t_que(self, position: TPosition, depth: int, name: str) -> TQue:
        """Declare a queue between two pipes.

        VECIN: MTE2 to V. VECOUT: V to MTE3. A1, B1, C1: MTE2 to MTE1. A2, B2, C2: MTE1 to M. CO1: M to FIX, or to V
        on a core without Fixpipe, where CO2 goes on to MTE3.
        """
        if position not in ROUTES:
            names = ", ".join(p.value for p in ROUTES)
            raise self.fail(f"queue {name}: position {position.value} has no queue here; use {names} or a TBuf")
        if depth < 1:
            raise self.fail(f"queue {name}: depth {depth}; in-place queues (depth 0) are not simulated, use 1")
        que = TQue(self, position, name, self._new_que(position, name), depth=depth)
        self.ques.append(que)
        return que

    def t_buf(self, position: TPosition, name: str) -> TBuf:
        """Declare a buffer that never enters a queue."""
        buf = TBuf(self, position, name, self._new_que(position, name))
        self.ques.append(buf)
        return buf

    def _new_que(self, position: TPosition, name: str) -> int:
        self.settle()
        self._outside_of_tiles(f"queue or buffer {name!r}")
        if any(q.name == name for q in self.ques):
            raise self.fail(f"two queues or buffers are called {name!r}; names tell them apart in reports")
        return self._builder.que_index(name, position)

    def pop_stack_buffer(self, element: DType | str) -> LocalTensor:
        """Return the framework's temp: all UB between the last queue and the temp area's end."""
        if self._pipe is None:
            raise self.fail("framework temp needs a TPipe: call asc.t_pipe() first, or pass a shared temp buffer")
        return self._pipe.pop_stack_buffer(element)

    # ---- events -------------------------------------------------------------------------------------------------

    def alloc_event_id(self, event: HardEvent) -> int:
        """Take the lowest free event id of a flag pair (AllocEventID)."""
        event_id = self.fetch_event_id(event)
        self._events.setdefault(event, set()).add(event_id)
        return event_id

    def fetch_event_id(self, event: HardEvent) -> int:
        """Show the lowest free event id of a flag pair without taking it (FetchEventID)."""
        self.settle()
        ids = self.device.sync.event_ids.value
        taken = self._events.get(event, ())
        free = [i for i in range(ids) if i not in taken]
        if not free:
            raise self.reject(SYNC_EXHAUST, operand=event.name, got=ids, wanted=ids)
        return free[0]

    def release_event_id(self, event: HardEvent, event_id: int) -> None:
        """Give an event id back (ReleaseEventID)."""
        self.settle()
        self._events.get(event, set()).discard(event_id)

    # ---- trace marks --------------------------------------------------------------------------------------------

    def trace_start(self, step: str) -> None:
        """Open a marked step; rows until the matching trace_stop carry its name (TRACE_START)."""
        self.settle()
        self._steps.append(step)
        self._step = -1

    def trace_stop(self, step: str) -> None:
        """Close the step opened last (TRACE_STOP)."""
        self.settle()
        if not self._steps or self._steps[-1] != step:
            opened = self._steps[-1] if self._steps else "none"
            raise self.fail(f"trace_stop({step!r}): the step open here is {opened!r}")
        self._steps.pop()
        self._step = -1

    @contextmanager
    def trace(self, step: str) -> Iterator[None]:
        """Mark a block of the kernel, trace_start and trace_stop around it."""
        self.trace_start(step)
        yield
        self.trace_stop(step)

    # ---- recording ----------------------------------------------------------------------------------------------

    def emit(
        self,
        op: Instruction,
        *,
        dst: Tensor | None = None,
        src0: Tensor | None = None,
        src1: Tensor | None = None,
        src2: Tensor | None = None,
        params: tuple[int, ...] = (),
        scalar: object = None,
        scalar_dtype: DType | None = None,
        pipe: Pipe | None = None,
        que: int = -1,
        reason: Reason = Reason.NONE,
        body: Body | None = None,
    ) -> None:
        """Append one row to the template being recorded."""
        if self.is_in_vector_function:
            raise self.fail(f"{op.api or op.name} inside a vector function, which holds micro-operations only")
        mask = self.mask
        line, step = self.place()
        row = Row(
            op,
            pipe if pipe is not None else _pipe_of(op),
            None if dst is None else self.operand(dst),
            None if src0 is None else self.operand(src0),
            None if src1 is None else self.operand(src1),
            params,
            mask.mode,
            mask.hi,
            mask.lo,
            line=line,
            step=step,
            que=que,
            reason=reason,
            body=body,
            src2=None if src2 is None else self.operand(src2),
        )
        if scalar is not None:
            self._give_scalar(row, scalar, scalar_dtype)
        elif op.takes_scalar:
            raise self.fail(f"{op.api}: the scalar is missing (None)")
        self._check_core(row)
        self._segment.rows.append(row)
        if dst is None and src0 is None:
            return
        for role, tensor in (("dst", dst), ("src0", src0), ("src1", src1), ("src2", src2)):
            if isinstance(tensor, LocalTensor) and tensor.que >= 0:
                self._check_alive(op.api, role, tensor)

    def _give_scalar(self, row: Row, scalar: object, scalar_dtype: DType | None) -> None:
        """Give a row its scalar: a register, or a number in bits."""
        if isinstance(scalar, Register):
            row.register = self._register_number(scalar)
        elif isinstance(scalar, Real):
            assert scalar_dtype is not None
            row.scalar_bits = pack(int(scalar) if isinstance(scalar, Integral) else float(scalar), scalar_dtype)
        elif row.op.takes_scalar:
            raise self.fail(f"{row.op.api}: the scalar must be a number or a Register, got {scalar!r}")

    def _check_core(self, row: Row) -> None:
        """Find an instruction whose pipe or memory this core does not have."""
        all_places = self._segment.places
        places = [all_places[o.tensor] for o in (row.dst, row.src0, row.src1, row.src2) if o is not None]
        if row.pipe in self._own_pipes and self._own_places.issuperset(places):
            return
        missing = {part.name for part in {row.pipe} - self._own_pipes}
        missing |= {place.name for place in set(places) - self._own_places}
        self.report(CORE_ROLE, operand=row.op.api, got=" and ".join(sorted(missing)), wanted=self.kind.value)

    def buffer_of(self, tensor: Tensor) -> Buffer:
        """Return the memory that a tensor lies in.

        Raises:
            KernelError: its position is none of this architecture.
        """
        if isinstance(tensor, GlobalTensor):
            return Buffer.GM
        place = self._builder.places.get(tensor.position)
        if place is None:
            raise self.fail(f"{tensor.name}: arch {self.device.npu_arch} has no position {tensor.position.value}")
        return place

    def _check_alive(self, api: str, role: str, tensor: LocalTensor) -> None:
        """Find the use of a queue's tensor after it was freed."""
        que = next((q for q in self.ques if q.index == tensor.que), None)
        if que is None or (isinstance(que, TQue) and que.is_free(tensor)):
            rule = FREED_WRITE if role == "dst" else FREED_READ
            self.report(rule, operand=role, got="FREE", wanted="allocated", api=api, tensor=tensor.name)

    def new_register(self, dtype: DType, api: str = "GetValue") -> Register:
        """Return the next scalar register of the template being recorded."""
        number = self._segment.registers
        self._segment.registers += 1
        return Register(number, dtype, self._where(), self._segment.serial, api)

    def _register_number(self, register: Register) -> int:
        if register.home != self._segment.serial:
            raise self.fail(
                f"a scalar read at {register.where} is used outside its tile; read and use it in the same tile"
            )
        return register.number

    def place(self) -> tuple[int, int]:
        """Return the numbers of the kernel line being recorded and of its marked step."""
        if self._step < 0:
            self._step = self._builder.step("/".join(self._steps))
        frame = None if self._line_text else _kernel_frame(sys._getframe(1))  # noqa: SLF001 - the caller's line
        if frame is None:
            return self._builder.line(self._where()), self._step
        at = (frame.f_code.co_filename, frame.f_lineno)
        known = self._builder.known_lines.get(at)
        if known is None:
            text = self._noted_line(frame)
            known = self._builder.known_lines[at] = (self._builder.line(text), text)
        self._builder.named_lines[at] = known[1]
        return known[0], self._step

    def operand(self, tensor: Tensor) -> Operand:
        """Return a tensor as rows name it."""
        if not isinstance(tensor, LocalTensor):
            slot, offset_bytes = self._slot(tensor)
            past_l2 = tensor.cache_mode is CacheMode.CACHE_MODE_DISABLE
            ref = TensorRef(tensor.name, Buffer.GM, "GM", 0, tensor.tensor_bytes, slot, bypasses_l2=past_l2)
            return Operand(self._number_of(ref), offset_bytes, tensor.dtype)
        # The position by its identity, which is quicker to hash.
        key = (tensor.name, id(tensor.position), tensor.address_bytes, tensor.allocation_bytes, tensor.que)
        number = self._segment.local_tensors.get(key)
        if number is None:
            number = self._segment.local_tensors[key] = self._number_of(self._refer(tensor))
        return Operand(number, tensor.offset_bytes, tensor.dtype)

    def _number_of(self, ref: TensorRef) -> int:
        """The number of a tensor in the template being recorded."""
        segment = self._segment
        number = segment.tensors.setdefault(ref, len(segment.tensors))
        if number == len(segment.places):
            segment.places.append(ref.buffer)
        return number

    def _refer(self, tensor: LocalTensor) -> TensorRef:
        place = self.buffer_of(tensor)
        if tensor.name not in (FRAMEWORK_TMP, RESERVED_TMP):
            self._builder.reaches(place, tensor.address_bytes + tensor.allocation_bytes)
        t = tensor
        return TensorRef(t.name, place, t.position.value, t.address_bytes, t.allocation_bytes, que=t.que)

    def _slot(self, tensor: GlobalTensor) -> tuple[int, int]:
        if isinstance(tensor, SlotTensor):
            return tensor.argument, tensor.offset_bytes
        segment = self._segment
        if segment.is_tile:
            raise self.fail(f"GM tensor {tensor.name} is not among the arguments of the @tile that uses it")
        base, part = (tensor.index, tensor.base_bytes), _part_of(tensor)
        known = list(zip(segment.slots, segment.parts, strict=True))
        if (base, part) in known:
            return known.index((base, part)), tensor.offset_bytes
        segment.slots.append(base)
        segment.parts.append(part)
        return len(known), tensor.offset_bytes

    def _where(self) -> str:
        """The kernel line being executed: the innermost frame outside the recording machinery."""
        if self._line_text:
            return self._line_text
        return self._noted_line(_kernel_frame(sys._getframe(1)))  # noqa: SLF001 - the documented way to the caller's line

    def _noted_line(self, frame: FrameType | None) -> str:
        """A frame's line as text; the builder remembers its file."""
        text = _line_of(frame)
        if frame is not None:
            self._builder.source(text, frame.f_code.co_filename)
        return text

    def _blame(self) -> str:
        """The kernel line to show with a finding: the user's own, and behind it the library kernel's."""
        inner = self._where()
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
        while frame is not None and frame.f_globals.get("__name__", "").startswith("ascendsim."):
            frame = None if frame.f_code is _run_user_code.__code__ else frame.f_back
        user = self._noted_line(frame)
        return inner if frame is None or self._line_text or user == inner else f"{user}, in {inner}"

    def fail(self, message: str) -> Exception:
        """Return a KernelError with this message and the kernel line in front."""
        return KernelError(f"{self._where()}: {message}")

    def report(self, rule: Rule, *, operand: str = "", got: object = "", wanted: object = "", **fill: object) -> None:
        """Note a finding at the kernel line being recorded."""
        self._builder.note(rule.finding(self._blame(), operand=operand, got=got, wanted=wanted, fill=fill))

    def reject(
        self, rule: Rule, *, operand: str = "", got: object = "", wanted: object = "", **fill: object
    ) -> Rejected:
        """Note a finding and return the exception that ends the recording."""
        finding = rule.finding(self._blame(), operand=operand, got=got, wanted=wanted, fill=fill)
        self._builder.note(finding)
        return Rejected([finding])

    # ---- tiles --------------------------------------------------------------------------------------------------

    def call_tile(self, fn: "TileSignature", values: tuple[object, ...]) -> None:
        """Record a tile, or log a call of the one recorded for the same key. Inside a tile, just run it.

        Args:
            fn: the tile's function.
            values: its arguments behind `asc`, in the order of its parameters.
        """
        if self.is_in_vector_function:
            raise self.fail(f"@tile {fn.function.__name__} inside a vector function, which holds micro-operations only")
        if self._segment.is_tile:
            self._run_tile(fn, values)
            return
        if self._process:
            self.settle()
        self._close_segment()
        gm = [a for a in values if isinstance(a, GlobalTensor)]
        slots = [(a.index, a.base_bytes + a.offset_bytes) for a in gm]
        state = self._builder.number(self._state()) if self._replayed is None else self._replayed.exit_number
        end_bytes = self._pipe.ends if self._pipe else ()
        captured = self._captured(fn.function) if fn.function.__closure__ else ()
        key = (fn.function, self._is_cube, *map(self._key_of, values), captured, state, end_bytes)
        known = self._builder.tiles.get(key)
        if known is None:
            self.settle()
            known = self._shared_tile(fn, values, slots, key)
            self._builder.tiles[key] = known
        number = self._tiles.get(fn.function, 0)
        self._tiles[fn.function] = number + 1
        self._builder.log_call(self._core, known.template, number, slots)
        if self._parts is not None:
            self._parts += map(_part_of, gm)
        self._replayed = known

    def _shared_tile(
        self, fn: "TileSignature", values: tuple[object, ...], slots: list[tuple[int, int]], key: Hashable
    ) -> RecordedTile:
        """Take a tile over from a program before, or record it and leave it to those behind."""
        builder = self._builder
        shared_key = builder.shared_key(key, tuple(q.identity for q in self.ques))
        known = builder.taken_over(shared_key)
        if known is None:
            with builder.watched() as noted:
                known = self._record_tile(fn, values, slots)
            builder.share(shared_key, known, noted)
        return known

    def _record_tile(
        self, fn: "TileSignature", values: tuple[object, ...], slots: list[tuple[int, int]]
    ) -> RecordedTile:
        self._segment = self._builder.new_segment(fn.function.__name__, is_tile=True)
        self._segment.slots = slots
        taken = count()
        self._run_tile(fn, tuple(SlotTensor.of(v, next(taken)) if isinstance(v, GlobalTensor) else v for v in values))
        template = self._builder.intern(self._segment)
        self._segment = self._builder.new_segment("body", is_tile=False)
        state = self._state()
        return RecordedTile(template, state, self._builder.number(state))

    def _run_tile(self, fn: "TileSignature", values: tuple[object, ...]) -> None:
        bound = fn.bound((self, *values))
        if _run_kernel(fn.function, bound.args, bound.kwargs) is not None:
            raise self.fail(f"@{fn.kind} {fn.function.__name__} returns a value; a {fn.kind} may only record")

    def _key_of(self, argument: object) -> Hashable:
        """What of a tile's argument rows can depend on. Frozen dataclasses are taken apart once and then known."""
        kind = type(argument)
        if kind is GlobalTensor or isinstance(argument, GlobalTensor):
            gm: GlobalTensor = argument  # type: ignore[assignment] # what `kind` says
            return ("gm", gm.index, gm.dtype.code, gm.shape, gm.cache_mode is CacheMode.CACHE_MODE_DISABLE)
        if kind in _EXACT:
            return (kind, argument)
        known = self._argument_numbers.get(id(argument)) or self._builder.argument_numbers.get(id(argument))
        if known is not None:
            return known[1]
        if kind is tuple or not is_dataclass(argument) or isinstance(argument, _VALUES):
            return self._value_key(argument)
        number = self._builder.number(self._value_key(argument))
        if any(argument is it for it in self._builder.arguments):
            self._builder.argument_numbers[id(argument)] = (argument, number)
            return number
        if len(self._argument_numbers) == _MOST_ARGUMENTS:
            self._argument_numbers.clear()
        self._argument_numbers[id(argument)] = (argument, number)
        return number

    def _captured(self, fn: Callable[..., Any], seen: frozenset[int] = frozenset()) -> Hashable:
        """What a function takes from those around it: values, functions with what these take, else identities."""
        cells = [cell.cell_contents for cell in fn.__closure__ or () if cell != CellType()]
        return tuple(self._captured_one(it, seen | {id(fn)}) for it in cells)

    def _captured_one(self, it: object, seen: frozenset[int]) -> Hashable:
        if isinstance(it, _VALUES):
            return self._value_key(it)
        if isinstance(it, FunctionType) and id(it) not in seen:
            return (_Same(it), self._captured(it, seen))
        return _Same(it)

    def _value_key(self, argument: object) -> Hashable:
        """A value that cannot change behind our back. Floats by their bits: 0.0 is not -0.0, and 1 is not 1.0."""
        kind = type(argument)
        if kind in _EXACT:
            return (kind, argument)
        if kind is tuple:
            return (kind, tuple([self._value_key(a) for a in argument]))  # type: ignore[attr-defined] # as `kind` says
        if isinstance(argument, GlobalTensor):
            raise self.fail("a GM tensor inside another @tile argument; pass it as an argument of its own")
        if isinstance(argument, Register):
            raise self.fail("a scalar read from UB cannot be passed into a @tile; read it inside")
        if isinstance(argument, Real) and not isinstance(argument, Integral):
            return (kind, repr(argument))
        if isinstance(argument, tuple):
            return (kind, tuple(self._value_key(a) for a in argument))
        if isinstance(argument, _VALUES):
            return (kind, argument)
        values = _frozen_fields(argument)
        if values is not None:
            return (kind, tuple(self._value_key(v) for v in values))
        raise self.fail(f"a @tile argument of type {kind.__name__} may change between calls; pass {_VALUE_NAMES}")

    # ---- processes ----------------------------------------------------------------------------------------------

    def call_process(self, fn: "TileSignature", values: tuple[object, ...]) -> None:
        """Record all that is left of this core's kernel, or repeat what a core before did for the same key.

        Args:
            fn: the process' function.
            values: its arguments behind `asc`, in the order of its parameters.
        """
        name = fn.function.__name__
        self.settle()
        if self._segment.is_tile or self._parts is not None:
            raise self.fail(
                f"@process {name} inside a @{'tile' if self._segment.is_tile else 'process'}: call it outside"
            )
        if self._pipe is not None or self.ques:
            raise self.fail(f"@process {name} behind a TPipe, queue or buffer: make them inside of it")
        state = self._state()
        self._close_segment()
        builder = self._builder
        bases_bytes = [a.address_bytes for a in values if isinstance(a, GlobalTensor)]
        captured = self._captured(fn.function) if fn.function.__closure__ else ()
        counts = tuple(self._tiles.items())
        key = (fn.function, self._is_cube, *map(self._key_of, values), captured, counts, builder.number(state))
        known = builder.processes.get(key)
        if known is not None:
            builder.repeat(self._core, known, bases_bytes)
        else:
            self._record_process(fn, values, bases_bytes, key)
        self._process = name

    def _record_process(
        self, fn: "TileSignature", values: tuple[object, ...], bases_bytes: list[int], key: Hashable
    ) -> None:
        """Record a process; one with findings is looked at for each core, so that they are counted."""
        builder = self._builder
        noted, first, parts = builder.noted, builder.position, count()
        self._parts = []
        self._run_tile(fn, tuple(PartTensor.of(v, next(parts)) if isinstance(v, GlobalTensor) else v for v in values))
        self._end()
        if builder.noted == noted:
            builder.processes[key] = builder.process(first, self._parts, bases_bytes, self._ended)
        self._parts, self._line_text = None, ""

    def _close_segment(self) -> None:
        if self._segment.rows:
            template = self._builder.intern(self._segment)
            self._builder.log_call(self._core, template, -1, self._segment.slots)
            if self._parts is not None:
                self._parts += self._segment.parts
            self._segment = self._builder.new_segment("body", is_tile=False)

    def _state(self) -> RecorderState:
        events = tuple((e, tuple(sorted(ids))) for e, ids in sorted(self._events.items()) if ids)
        ques = tuple(q.state for q in self.ques if isinstance(q, TQue))
        mask = self.mask
        registers = mask.mode, mask.hi, mask.lo, self._deq_scale, self._atomic, self._cmp_mask_is_set
        return (*registers, events, ques, tuple(self._steps))

    def _restore(self, state: RecorderState) -> None:
        self._mask.mode, self._mask.hi, self._mask.lo, self._deq_scale, self._atomic, self._cmp_mask_is_set = state[:6]
        events, ques, steps = state[6:]
        self._events = {e: set(ids) for e, ids in events}
        self._steps, self._step = list(steps), -1
        for que, saved in zip((q for q in self.ques if isinstance(q, TQue)), ques, strict=True):
            que.state = saved

    def finish(self) -> None:
        """End of the kernel: what TPipe does then, and what must not be left behind. A process has done it already."""
        if not self._process:
            self._end()

    def _end(self) -> None:
        """Cores that end alike share the rows; one that leaves something behind is looked at by itself."""
        builder = self._builder
        key: Hashable = None
        if not self._segment.rows:
            state = builder.number(self._state()) if self._replayed is None else self._replayed.exit_number
            key = (self._is_cube, state, tuple(q.identity for q in self.ques))
        if key is not None and key in builder.ends_of_kernel:
            template = builder.ends_of_kernel[key]
            self._replayed = None  # nobody looks any more
            if template is not None:
                builder.log_call(self._core, template, -1, [])
        else:
            noted, before = builder.noted, builder.position
            self._record_end()
            if key is not None and builder.noted == noted:
                builder.ends_of_kernel[key] = builder.last_template if builder.position > before else None
        self.end_pipe()
        builder.ques |= self._ended

    def _record_end(self) -> None:
        """Record what the end of the kernel does."""
        self.settle()
        self._line_text = END_OF_KERNEL
        for que in self.ques:
            if isinstance(que, TQue) and que.address_bytes >= 0:
                que.free_all_event()
        for event, ids in sorted(self._events.items()):
            for event_id in sorted(ids):
                self.report(EVENT_LEAK, operand=event.name, got=event_id, wanted="released")
        self._check_modes()
        if self._steps:
            raise self.fail(f"step {self._steps[-1]!r} was opened by trace_start and never closed")
        self._close_segment()

    def _check_modes(self) -> None:
        """Find modes that are on when the kernel ends."""
        if self.mask.mode is MaskMode.COUNTER:
            self.report(MASK_LEFT, operand="mask", got="counter", wanted="normal")
        if self._atomic is not None:
            self.report(ATOMIC_LEFT, operand="atomic mode", got=self._atomic, wanted="none")


class _Same:
    """An object as itself: equal to nothing else, and kept alive so that nothing else takes its place."""

    def __init__(self, it: object) -> None:
        self._it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._it is self._it

    def __hash__(self) -> int:
        return id(self._it)


def _frozen_fields(argument: object) -> list[object] | None:
    """The field values of a frozen dataclass; None for anything else."""
    names = _frozen_names(cast("Hashable", type(argument)))  # a type is; mypy sees __hash__ of its instances
    return None if names is None else [getattr(argument, name) for name in names]


@functools.lru_cache(maxsize=256)
def _frozen_names(kind: type) -> tuple[str, ...] | None:
    """The fields of a frozen dataclass; None for any other type."""
    own = vars(kind).get("__dataclass_params__")  # not a base's: a subclass may hold more than its fields
    return None if own is None or not own.frozen else tuple(f.name for f in fields(kind))


def _kernel_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that belongs to a kernel, not to recording."""
    while frame is not None and _is_own_module(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return frame


@functools.cache
def _is_own_module(name: str) -> bool:
    return name.startswith(_OWN_MODULES) or name == "contextlib"


def _line_of(frame: FrameType | None) -> str:
    return "?" if frame is None else _line_text(frame.f_code.co_filename, frame.f_lineno)


@functools.lru_cache(maxsize=4096)
def _line_text(path: str, line: int) -> str:
    file = path.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{file}:{line}"


def _pipe_of(op: Instruction) -> Pipe:
    assert op.pipe is not None, f"{op.name}: the call must say which pipe"
    return op.pipe


def _run_kernel(
    fn: Callable[..., Any], arguments: tuple[object, ...], keywords: Mapping[str, object] = MappingProxyType({})
) -> object:
    """Call kernel code; what it asks of registers and tile arguments becomes a KernelError with its line."""
    try:
        return fn(*arguments, **keywords)
    except RegisterUseError as error:
        raise KernelError(f"{_raised_at(error)}: {error}") from None
    except TileArgumentError as error:
        raise KernelError(f"{_raised_at(error)}: {error}") from None


def _part_of(tensor: GlobalTensor) -> int:
    """Which argument of the process being recorded a GM tensor belongs to, -1 for none."""
    return tensor.argument if isinstance(tensor, PartTensor) else -1


class TileSignature:
    """A tile's or process' function, and how its arguments are put in the order of its parameters.

    Args:
        kind: "tile" or "process", for messages.
        function: takes the handle first.
    """

    def __init__(self, kind: str, function: Callable[..., None]) -> None:
        self.kind = kind
        self.function = function
        signature = inspect.signature(function)
        self._signature = signature
        self._names = tuple(signature.parameters)
        kinds = {p.kind for p in signature.parameters.values()}
        self._is_plain = kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD}

    def fits(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bool:
        """Whether arguments are already in order: all of them, by position."""
        return self._is_plain and not kwargs and len(args) == len(self._names) - 1

    def values(self, asc: AiCore, args: tuple[object, ...], kwargs: Mapping[str, object]) -> tuple[object, ...]:
        """Return arguments in the order of the parameters, defaults filled in.

        Raises:
            KernelError: they do not fit the function.
        """
        try:
            bound = self._signature.bind(asc, *args, **kwargs)
        except TypeError as error:
            raise asc.fail(f"@{self.kind} {self.function.__name__}: {error}") from None
        bound.apply_defaults()
        return tuple(bound.arguments.values())[1:]

    def bound(self, values: tuple[object, ...]) -> inspect.BoundArguments:
        """Return values in the order of the parameters as arguments of a call."""
        return inspect.BoundArguments(self._signature, OrderedDict(zip(self._names, values, strict=True)))


class TileFunction(Protocol[P]):
    """A tile or process as kernels call it."""

    def __call__(self, asc: AiCore, *args: P.args, **kwargs: P.kwargs) -> None:
        """Record it, or log that it is called."""


def tile(fn: Callable[Concatenate[AiCore, P], None]) -> TileFunction[P]:
    """Mark a function as a tile: recorded once per key, replayed as a call afterwards.

    GM tensors it uses must be its arguments; it returns nothing and does not ask for the block index. The key is its
    arguments, what it takes from the functions around it, and the state of masks, events and queues. What it reads of
    module globals, inside a list or dict, or of attributes of an object from around it must not change while a kernel
    is recorded: that is not seen.
    """
    signature = TileSignature("tile", fn)

    @functools.wraps(fn)
    def wrapper(asc: AiCore, *args: P.args, **kwargs: P.kwargs) -> None:
        asc.call_tile(signature, args if signature.fits(args, kwargs) else signature.values(asc, args, kwargs))

    return wrapper


def process(fn: Callable[Concatenate[AiCore, P], None]) -> TileFunction[P]:
    """Mark a function as a process: all that a core does from its TPipe on, the last that a kernel calls.

    Cores that call it with equal arguments do the same in other parts of GM, so it is recorded for the first of them,
    with the tiles it calls, and repeated for the others. GM tensors are its arguments as they are a tile's, and the key
    is made in the same way. The program is the same as without the mark, and recorded sooner on many cores.
    """
    signature = TileSignature("process", fn)

    @functools.wraps(fn)
    def wrapper(asc: AiCore, *args: P.args, **kwargs: P.kwargs) -> None:
        asc.call_process(signature, args if signature.fits(args, kwargs) else signature.values(asc, args, kwargs))

    return wrapper


class Kernel(Protocol):
    """What runs on every core."""

    def __call__(self, asc: AiCore, *arguments: Any) -> None:
        """Record one core."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A program and what was found while recording it.

    Attributes:
        complete: False when recording had to stop.
        sources: the files that each kernel line, "file.py:31", was seen in.
    """

    program: Program
    findings: tuple[Finding, ...]
    complete: bool
    sources: Mapping[str, tuple[str, ...]]


def record(
    kernel: Kernel,
    device: Device,
    block_dim: int,
    gm: tuple[GlobalTensor, ...],
    arguments: tuple[object, ...],
    progress: StageProgress | None = None,
    kernel_type: KernelType | None = None,
    shared: SharedTiles | None = None,
) -> Recording:
    """Run a kernel once per core and return the program it recorded.

    Args:
        kernel: called as kernel(asc, *gm, *arguments) for each core.
        device: the part.
        block_dim: blocks that run the kernel: cores, or with a mixed kernel AI Cores.
        gm: GM tensors, placed.
        arguments: passed on, usually the tiling.
        progress: told how many cores are recorded.
        kernel_type: which cores of a block run it; None for the device's usual, vector cores or combined ones.
        shared: tiles of programs recorded before, to take over; for shipped kernels only.

    Raises:
        KernelError: the kernel cannot be recorded; the text names its line.
    """
    kind = kernel_type or device.kernel_types()[0]
    builder = ProgramBuilder(device, block_dim, gm, kind, shared)
    builder.arguments = arguments
    own = _own_instructions(kernel)
    complete = True
    try:
        cores = block_dim * len(kind.kinds)
        for core in range(cores):
            asc = AiCore(builder, core, own)
            _run_user_code(asc, kernel, (*gm, *arguments))
            asc.finish()
            if progress is not None:
                progress(core + 1, cores)
    except Rejected:
        complete = False
    sources: dict[str, tuple[str, ...]] = {}
    for text, file in builder.sources:
        sources[text] = (*sources.get(text, ()), file)
    return Recording(builder.build(), tuple(builder.findings.values()), complete, sources)


def _own_instructions(kernel: Kernel) -> dict[str, Form[Any]]:
    """Instructions of the kernel's own file; none may hide what the handle has.

    Raises:
        KernelError: one has the name of an attribute of the handle.
    """
    own = declared_by(kernel)
    for name, form in own.items():
        if hasattr(AiCore, name) and form.op.declared is not None:
            where = form.op.declared.where
            raise KernelError(f"{where}: instruction {name} has the name of asc.{name}; give it another name")
    return own


def _run_user_code(asc: AiCore, kernel: Kernel, arguments: tuple[object, ...]) -> None:
    """Call the kernel; an exception of its own becomes a KernelError that names file, line and cause."""
    try:
        _run_kernel(kernel, (asc, *arguments))
    except AscendSimError:
        raise
    except SystemExit as error:
        raise KernelError(f"{_raised_at(error)}: the kernel ended the program (sys.exit); let it return") from error
    except Exception as error:
        where = _raised_at(error)
        raise KernelError(f"{where}: the kernel raised {type(error).__name__}: {error}") from error


def _is_foreign(file: str) -> bool:
    """Whether a source file belongs to Python or an installed package."""
    return file.startswith(_FOREIGN) or file.startswith("<frozen")


def _raised_at(error: BaseException) -> str:
    """The innermost line of the user's own code that an exception went through, else of a library kernel."""
    user = library = "?"
    traceback = error.__traceback__
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__", "")
        file = traceback.tb_frame.f_code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
        if not module.startswith("ascendsim.") and not _is_foreign(traceback.tb_frame.f_code.co_filename):
            user = f"{file}:{traceback.tb_lineno}"
        elif module.startswith("ascendsim.op_kernel"):
            library = f"{file}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return library if user == "?" else user
