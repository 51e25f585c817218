"""What an instruction is, the row it becomes in a program, and the table of all of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import update_wrapper
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from ascendsim.device import Device, VectorCost
from ascendsim.dtypes import DType
from ascendsim.errors import Finding, Rule
from ascendsim.memory import GlobalTensor, Lanes, LocalTensor, Tensor
from ascendsim.terms import FULL_MASK, Buffer, CoreKind, HalfOverflow, HardEvent, KernelType, MaskMode, Pipe

Array = NDArray[Any]


class Reason(IntEnum):
    """Why a row may have to wait for another pipe, as the recorder knows it."""

    NONE = 0
    DATA = 1
    """A flag: the other pipe has not finished producing or consuming."""
    BUFFER = 2
    """AllocTensor: every buffer of the queue is still in use."""


@dataclass(frozen=True, slots=True, repr=False)
class TensorRef:
    """A tensor as a template knows it: an on-chip allocation, or a GM operand whose base each call supplies.

    Attributes:
        address_bytes: address of the allocation in its memory; 0 for GM.
        tensor_bytes: length of the allocation, or of the whole GM tensor.
        slot: index of the GM base in a call, -1 on chip.
        bypasses_l2: whether accesses to GM leave L2 out.
    """

    name: str
    buffer: Buffer
    position: str
    address_bytes: int
    tensor_bytes: int
    slot: int = -1
    que: int = -1
    bypasses_l2: bool = False

    def __repr__(self) -> str:
        # A template's digest is made of it, and what a dataclass has by itself takes several times as long.
        return (
            f"TensorRef(name={self.name!r}, buffer={self.buffer!r}, position={self.position!r}, "
            f"address_bytes={self.address_bytes}, tensor_bytes={self.tensor_bytes}, slot={self.slot}, que={self.que})"
        )


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of a row: which tensor of the template, where in it, read as what."""

    tensor: int
    offset_bytes: int
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Register:
    """A scalar whose value exists only when the program runs (GetValue, GatherMask). It lives inside one template.

    Python code cannot look at it: a condition, an index or a loop bound on it is an error that names the line.
    """

    number: int
    dtype: DType
    where: str
    home: int
    """Number of the template it lives in."""
    api: str = "GetValue"
    """What gave it."""

    def _refuse(self, *_: object) -> Any:
        raise RegisterUseError(
            f"the value that {self.api} read at {self.where} is known only when the program runs; Python cannot use it "
            "in a condition, an index, a bound or arithmetic. Pass it to an instruction that takes a scalar "
            "(Duplicate, Adds, Muls), or decide on the host and pass the number in with the tiling"
        )

    __bool__ = __index__ = __int__ = __float__ = __len__ = __iter__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
    __hash__ = object.__hash__
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __divmod__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rdivmod__ = _refuse
    __neg__ = __pos__ = __abs__ = __invert__ = __round__ = __trunc__ = __floor__ = __ceil__ = _refuse


class Issue(IntEnum):
    """How a micro-operation of a vector function comes to be dispatched."""

    NEXT = 0
    """Behind the one before, in the same cycle if there is room."""
    ITERATION = 1
    """First of a further iteration of a loop."""
    LOOP = 2
    """First of a loop's first iteration."""


class MicroKind(Enum):
    """What a register micro-operation does, as far as memory and ports are concerned."""

    LOAD = "load"
    STORE = "store"
    COMPUTE = "compute"
    BARRIER = "barrier"


@dataclass(frozen=True, slots=True)
class MicroInstruction:
    """One register micro-operation's declaration; `isa.micro` has the table and the arithmetic.

    Attributes:
        name: what instruction logs call it.
        results: registers it defines.
        align_bytes: alignment of its memory operand.
    """

    name: str
    kind: MicroKind
    results: int
    doc: str
    align_bytes: int = 1


@dataclass(frozen=True, slots=True)
class MicroRow:
    """One micro-operation of a vector function, decoded.

    Attributes:
        register: number of the first virtual register it defines, counted through the body; -1 for none.
        sources: virtual registers it reads.
        dtype: element type of the result, or of what is stored.
        src_dtype: element type of what is read; differs from dtype for a cast.
        mask: bit i is lane i; lanes outside become 0 in a result and stay as they are in memory.
        memory: where it loads from or stores to.
        scalar_bits: its immediate.
        issue: where it stands in a loop.
    """

    op: MicroInstruction
    register: int
    sources: tuple[int, ...]
    dtype: DType
    src_dtype: DType
    mask: int
    memory: Operand | None
    scalar_bits: int
    line: int
    step: int
    issue: Issue = Issue.NEXT


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What a vector function touches of one tensor: bytes first to end, relative to the operand's start."""

    role: str
    operand: Operand
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Body:
    """The micro-operations of one vector function, and what memory they touch."""

    rows: tuple[MicroRow, ...]
    uses: tuple[MemoryUse, ...]


class RegisterUseError(Exception):
    """Python code used a `Register` as a number; the recorder turns this into a KernelError."""


@dataclass(slots=True)
class Row:
    """One instruction of a template, decoded."""

    op: "Instruction"
    pipe: Pipe
    dst: Operand | None = None
    src0: Operand | None = None
    src1: Operand | None = None
    params: tuple[int, ...] = ()
    mask_mode: MaskMode = MaskMode.NORMAL
    mask_hi: int = FULL_MASK
    mask_lo: int = FULL_MASK
    scalar_bits: int = 0
    register: int = -1
    line: int = 0
    step: int = 0
    que: int = -1
    reason: Reason = Reason.NONE
    body: Body | None = None
    """Of a vector function: what runs inside it."""
    src2: Operand | None = None
    """A third source: the bias of Mmad, the scales of Fixpipe."""
    _touched: "Ranges | None" = field(default=None, init=False, repr=False, compare=False)

    @property
    def touched(self) -> "Ranges":
        """What its operands touch, found once: a row does not change behind its recording."""
        if self._touched is None:
            self._touched = self.op.touch(self)
        return self._touched

    @touched.setter
    def touched(self, known: "Ranges") -> None:
        """Spare the search: a row that differs in addresses only touches the same."""
        self._touched = known

    def param(self, name: str) -> int:
        """Return one parameter by its declared name."""
        return self.params[self.op.params.index(name)]

    @property
    def operands(self) -> tuple[tuple[str, Operand], ...]:
        """The operands that are present, with their roles."""
        if self.body is not None:
            return tuple((use.role, use.operand) for use in self.body.uses)
        found = []
        if self.dst is not None:
            found.append(("dst", self.dst))
        if self.src0 is not None:
            found.append(("src0", self.src0))
        if self.src1 is not None:
            found.append(("src1", self.src1))
        if self.src2 is not None:
            found.append(("src2", self.src2))
        return tuple(found)

    @property
    def operand_types(self) -> tuple[DType | None, ...]:
        """The element types of dst, src0, src1 and src2."""
        return tuple(None if o is None else o.dtype for o in (self.dst, self.src0, self.src1, self.src2))

    @property
    def scalar_dtype(self) -> DType:
        """Type of the row's scalar: that of the operand its instruction names."""
        operand = dict(self.operands)[self.op.scalar_role]
        return operand.dtype


Step = Callable[[], None]
"""One execution of a row."""


@dataclass(slots=True)
class CompareMask:
    """The compare-mask register of a core: bits that Select looks at, as bytes, the lowest bit first."""

    content: Array


class Context(Protocol):
    """What an instruction's arithmetic sees when a program is executed.

    It is asked once for each row of a template which bytes the row touches; what it gives back is called at every
    execution of the row, with addresses and lanes resolved.
    """

    @property
    def overflow(self) -> HalfOverflow:
        """Half-overflow mode in force."""

    def distance(self, a: Operand, b: Operand) -> int | None:
        """Return the bytes from the start of `a` to the start of `b`; None where they cannot meet, in GM and in UB."""

    def reader(self, operand: Operand, at: Lanes) -> Callable[[], Array]:
        """Return what gives the elements of an operand, 1-D; `at` in elements. Unwritten ones are noted."""

    def writer(self, operand: Operand, at: Lanes) -> Callable[[Array], None]:
        """Return what writes elements of an operand; `at` in elements."""

    def mover(self, dst: Operand, dst_at: Lanes, src: Operand, src_at: Lanes) -> Step:
        """Return what moves bytes (`at` in bytes), unwritten ones staying unwritten."""

    def filler(self, dst: Operand, at: Lanes, value: Array | None) -> Step:
        """Return what writes raw bytes (`at` in bytes); None leaves them undefined."""

    def disowner(self, dst: Operand, at: Lanes) -> Step:
        """Return what counts bytes as never written (`at` in bytes), whatever they hold."""

    def loader(self, operand: Operand, at: Lanes) -> Callable[[], tuple[Array, Array | None]]:
        """Return what gives elements, 1-D, and which of them are written; None where all are. Nothing is noted."""

    def tensor_bytes(self, operand: Operand) -> int:
        """Return the length of the operand's tensor."""

    def storer(self, operand: Operand, at: Lanes) -> Callable[[Array, Array | None], None]:
        """Return what writes elements, and says which of them count as written; None for all."""

    @property
    def keeps_log(self) -> bool:
        """Whether the micro-operations of a vector function are to run one by one, each followed by `logged`."""

    def dumper(self, operand: Operand, at: Lanes) -> Step:
        """Return what shows bytes of an operand to whoever runs the program (`at` in bytes). Nothing is noted."""

    def logged(self, number: int) -> None:
        """Say that micro-operation `number` of the running row is done."""

    def picker(self, operand: Operand, length_bytes: int, unit_bytes: int) -> Callable[[Array], Array]:
        """Return what gives the elements of `unit_bytes` at each of the byte offsets that only the run knows.

        An offset outside the operand's first `length_bytes`, or no multiple of the unit, is found and reads 0.
        """

    def placer(self, operand: Operand, length_bytes: int) -> Callable[[Array], None]:
        """Return what writes as many elements from the operand's start on as there are values.

        Values that do not fit into `length_bytes` are found and dropped.
        """

    def accumulate(self, a: Array, b: Array, c: Array, fractal_k: int) -> None:
        """Add a [m, k] times b [k, n] to c [m, n] in the device's order; `fractal_k` is the depth of a fractal."""

    @property
    def compare_mask(self) -> CompareMask:
        """The core's compare-mask register."""

    def scalar(self, row: Row) -> Callable[[], Array]:
        """Return what gives the scalar of a row, 0-d: its register's value, or its immediate, in the scalar's dtype."""

    def register(self, row: Row) -> Callable[[Array], None]:
        """Return what sets the register that a row names."""


Execute = Callable[[Context, Row], Step | None]
"""Ask the context for a row's operands and return its execution; None for a row that touches no data."""
Ranges = tuple[tuple[str, int, int], ...]
"""Byte range of each operand, relative to the operand's start: (role, first, end)."""
Touch = Callable[[Row], Ranges]
Geometry = Callable[[Row], tuple[int, int, int, int]]
"""Of a copy: bursts, bytes of each, source pitch and destination pitch in bytes, as GM sees them."""
Check = Callable[[Row, tuple[TensorRef, ...], Device, str], "list[Finding]"]


class RowCheck:
    """A check that says which rules it may find; it is called like any other."""

    def __init__(self, check: Check, rules: tuple[Rule, ...]) -> None:
        update_wrapper(self, check)
        self._check = check
        self.rules = rules

    def __call__(self, row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
        """Return what the check finds in a row."""
        return self._check(row, tensors, device, where)


def finds(*rules: Rule) -> Callable[[Check], RowCheck]:
    """Declare which rules the decorated check may find."""
    return lambda check: RowCheck(check, rules)


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a user's file says of an instruction it declares, but for the arithmetic (see `ascendsim.isa.declared`).

    Attributes:
        cost: the AscendC name of an instruction that costs as much, or coefficients.
        where: file and line of the arithmetic.
        is_stored: whether it comes from a stored program, without arithmetic.
    """

    name: str
    form: str
    api: str
    mnemonic: str
    dtypes: tuple[str, ...]
    cost: str | dict[str, Any]
    doc: str
    where: str
    is_stored: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction's declaration. Everything that is known about it is here or in the function it was made from."""

    api: str
    """AscendC name, or "" for mask set-up."""
    mnemonic: str
    """Name in instruction logs and traces; Cast refines it by dtype and rounding."""
    pipe: Pipe | None
    """Its pipe; None where the call decides (flags, barriers, copies)."""
    params: tuple[str, ...]
    """Names of its integer parameters, in column order; those that instruction logs know keep the log's names."""
    cost: str
    """Cost shape, see ascendsim.cost."""
    family: str
    """Row of the device's cost tables."""
    execute: Execute
    touch: Touch
    checks: tuple[Check, ...]
    uses_mask: bool
    takes_scalar: bool
    """Whether a number or a Register is an operand."""
    doc: str
    name: str
    scalar_role: str = "dst"
    """Operand in whose type the scalar is."""
    reads_dst: bool = False
    """Whether dst is a source, too: dst = dst + ..."""
    lane_roles: tuple[str, ...] = ("dst", "src0", "src1")
    """Operands whose widest element says how many lanes a repeat has."""
    geometry: Geometry | None = None
    """What a copy moves, where its parameters are not those of DataCopy or DataCopyPad."""
    own_cost: VectorCost | None = None
    """Coefficients that the declaration brings along; the device's table of the family holds without."""
    declared: Declaration | None = None
    """Of an instruction that is not built in."""
    opcode: int = field(default=-1, compare=False)


TABLE: dict[str, Instruction] = {}
"""Every instruction by its Python name. Filled while the isa modules are imported, not changed afterwards."""

BY_OPCODE: list[Instruction] = []
"""Every instruction at its opcode: those of the table, then those that users declared."""


def register_instruction(instruction: Instruction) -> Instruction:
    """Enter an instruction into the table under its Python name and give it its opcode.

    Raises:
        ValueError: the name is taken, or the docstring names no source.
    """
    if instruction.name in TABLE:
        raise ValueError(f"instruction {instruction.name} is declared twice")
    if "Source:" not in instruction.doc:
        raise ValueError(f"instruction {instruction.name}: its docstring names no source")
    object.__setattr__(instruction, "opcode", len(BY_OPCODE))
    TABLE[instruction.name] = instruction
    BY_OPCODE.append(instruction)
    return instruction


@dataclass(slots=True)
class MaskState:
    """The mask registers of one core."""

    mode: MaskMode = MaskMode.NORMAL
    hi: int = FULL_MASK
    lo: int = FULL_MASK


@runtime_checkable
class Recorder(Protocol):
    """The side of `AiCore` that instructions use when a kernel calls them."""

    device: Device
    kind: CoreKind
    """What the core is."""
    kernel_type: KernelType
    """Which cores run the kernel."""
    own_events: frozenset[HardEvent]
    """Flag pairs that the core has."""
    is_in_vector_function: bool
    """Whether a vector function is open, which holds micro-operations only."""

    @property
    def mask(self) -> MaskState:
        """Mask mode and mask."""

    @property
    def atomic(self) -> DType | None:
        """Element type in which stores add to GM (SetAtomicAdd), None while they replace."""

    @atomic.setter
    def atomic(self, kind: DType | None) -> None: ...

    @property
    def deq_scale(self) -> int | None:
        """Bits of the half that SetDeqScale set last, None before the first."""

    @deq_scale.setter
    def deq_scale(self, bits: int) -> None: ...

    @property
    def cmp_mask_is_set(self) -> bool:
        """Whether the compare-mask register holds what SetCmpMask put there."""

    @cmp_mask_is_set.setter
    def cmp_mask_is_set(self, is_set: bool) -> None: ...

    def emit(
        self,
        op: Instruction,
        *,
        dst: Tensor | None = None,
        src0: Tensor | None = None,
        src1: Tensor | None = None,
        src2: Tensor | None = None,
        params: tuple[int, ...] = (),
        scalar: "int | float | Register | None" = None,
        scalar_dtype: DType | None = None,
        pipe: Pipe | None = None,
        que: int = -1,
        reason: Reason = Reason.NONE,
        body: Body | None = None,
    ) -> None:
        """Append one row."""

    def operand(self, tensor: Tensor) -> Operand:
        """Return a tensor as rows name it."""

    def buffer_of(self, tensor: Tensor) -> Buffer:
        """Return the memory that a tensor lies in."""

    def place(self) -> tuple[int, int]:
        """Return the numbers of the kernel line being recorded and of its marked step."""

    def report(self, rule: Rule, *, operand: str = "", got: object = "", wanted: object = "", **fill: object) -> None:
        """Note a finding at the kernel line being recorded."""

    def new_register(self, dtype: DType, api: str = "GetValue") -> Register:
        """Return the next scalar register of the template being recorded."""

    def fetch_event_id(self, event: HardEvent) -> int:
        """Show the lowest free event id of a flag pair without taking it (FetchEventID)."""

    def fail(self, message: str) -> "Exception":
        """Return a KernelError with this message and the kernel line in front."""


def in_turn(steps: list[Step]) -> Step:
    """Return the execution of all these, one after another."""

    def step() -> None:
        for each in steps:
            each()

    return step


def run_nothing(ctx: Context, row: Row) -> None:
    """The execution of a row that touches no data: flags, barriers, masks, registers that travel with other rows."""
    del ctx, row


def touch_nothing(row: Row) -> tuple[tuple[str, int, int], ...]:
    """The byte ranges of a row that touches no data."""
    del row
    return ()


def need_tensor(asc: Recorder, api: str, arg: str, value: object) -> None:
    """Raise a KernelError unless `value` is a tensor."""
    if not isinstance(value, LocalTensor | GlobalTensor):
        raise asc.fail(f"{api}: {arg} must be a tensor, got {type(value).__name__}")


def need_local(asc: Recorder, api: str, arg: str, value: object) -> None:
    """Raise a KernelError unless `value` is a LocalTensor."""
    if not isinstance(value, LocalTensor):
        what = "a GlobalTensor (copy it to UB first)" if isinstance(value, GlobalTensor) else type(value).__name__
        raise asc.fail(f"{api}: {arg} must be a LocalTensor in UB, got {what}")


def need_count(asc: Recorder, api: str, arg: str, value: object) -> int:
    """Return a count of elements; raise a KernelError unless it is a whole number that is not negative."""
    need_int(asc, api, arg, value)
    count: int = value  # type: ignore[assignment]
    if count < 0:
        raise asc.fail(f"{api}: {arg} must not be negative, got {count}")
    return count


def need_member(asc: Recorder, api: str, arg: str, value: object, kind: type[Enum]) -> None:
    """Raise a KernelError unless `value` is a member of an enum."""
    if not isinstance(value, kind):
        raise asc.fail(f"{api}: {arg} must be a {kind.__name__} such as {next(iter(kind)).name}, got {value!r}")


def need_int(asc: Recorder, api: str, arg: str, value: object) -> None:
    """Raise a KernelError unless `value` is a plain whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise asc.fail(f"{api}: {arg} must be a whole number, got {value!r}")
