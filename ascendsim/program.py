"""A recorded program: templates (rows as integer columns) and calls (which template, on which core, which GM bases).

Nothing here computes or schedules. Columns are the storage and what engines see; `Template.rows` decodes them once for
the modules that walk rows.
"""

import hashlib
import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ascendsim.dtypes import DTYPES, dtype
from ascendsim.errors import InputError
from ascendsim.isa.declared import without_arithmetic
from ascendsim.isa.instruction import Body, Declaration, Issue, MicroRow, Operand, Ranges, Reason, Row, TensorRef
from ascendsim.isa.log import is_numbered, log_row, micro_log_row
from ascendsim.isa.micro_table import MICRO
from ascendsim.isa.micro_walk import uses_of
from ascendsim.isa.table import BY_OPCODE, TABLE
from ascendsim.memory import GlobalTensor
from ascendsim.terms import Buffer, CoreKind, KernelType, MaskMode, Pipe, align_up

MAX_PARAMS = 8
"""Columns of parameters; a template that has rows with more of them gets more."""
_MEMORY_STEP_BYTES = 4096
"""Memories of a core begin on this boundary of the common address; any multiple of the widest alignment would do."""
SINGLE_KIND = (KernelType.AIV_ONLY, KernelType.AICORE)
ROLES = ("dst", "src0", "src1")
ALL_ROLES = (*ROLES, "src2")
"""Templates without a third source have no columns of it."""
CROSS = ("cross_core_set_flag", "cross_core_wait_flag")
"""Instructions by which cores wait for each other."""
_NONE = -1
_MICRO_FIELDS = ("op", "register", "source0", "source1", "dtype", "src_dtype", "mask_hi", "mask_lo", "tensor", "offset",
                 "scalar_bits", "line", "step", "issue")  # fmt: skip

_MOST_KEPT = 64
"""Answers that a template or a row keeps."""

Columns = dict[str, NDArray[Any]]
T = TypeVar("T")


class Kept:
    """What follows from something that does not change, found once."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, int], tuple[object, object]] = {}

    def answer(self, question: Hashable, of: object, find: Callable[[], T]) -> T:
        """Return an answer.

        Args:
            question: what is asked, and all else that the answer depends on.
            of: what it is asked of, such as a device, as itself: it does not change.
            find: finds the answer, which nobody changes.
        """
        known = self._known.get((question, id(of)))
        if known is None:
            if len(self._known) == _MOST_KEPT:
                self._known.clear()
            known = self._known[question, id(of)] = (of, find())  # `of` lives on, so that its id is its own
        return cast("T", known[1])


class RowShape(Kept):
    """All of a row but where it stands and where its tensors lie: the instruction, types, parameters and mask.

    Attributes:
        touched: as of its rows.
    """

    __slots__ = ("touched",)

    def __init__(self, touched: Ranges) -> None:
        super().__init__()
        self.touched = touched


class RowForm(Kept):
    """All of a row but its kernel line and step: two rows of one form do the same to the same tensors.

    Attributes:
        shape: what it has in common with those that do the same elsewhere.
    """

    __slots__ = ("shape",)

    def __init__(self, shape: RowShape) -> None:
        super().__init__()
        self.shape = shape


class RowForms:
    """The forms of the rows of many templates. What is known of a row is known of all others of its form."""

    def __init__(self) -> None:
        self._tensors: dict[TensorRef, int] = {}
        self._forms: dict[Hashable, RowForm] = {}
        self._shapes: dict[Hashable, RowShape] = {}

    def __len__(self) -> int:
        return len(self._forms)

    def of(self, rows: Sequence[Row], tensors: tuple[TensorRef, ...]) -> tuple[RowForm, ...]:
        """Return the form of each row of a template."""
        numbers = [self._tensors.setdefault(tensor, len(self._tensors)) for tensor in tensors]
        found = []
        for row in rows:
            if row.body is not None:
                found.append(RowForm(RowShape(row.touched)))
                continue
            dst, src0, src1, src2 = row.dst, row.src0, row.src1, row.src2
            operands = (
                None if dst is None else (numbers[dst.tensor], dst.offset_bytes, dst.dtype.code),
                None if src0 is None else (numbers[src0.tensor], src0.offset_bytes, src0.dtype.code),
                None if src1 is None else (numbers[src1.tensor], src1.offset_bytes, src1.dtype.code),
                None if src2 is None else (numbers[src2.tensor], src2.offset_bytes, src2.dtype.code),
            )
            # Enum members by their identity, which is quicker to hash.
            named = (id(row.op), id(row.pipe), id(row.mask_mode), id(row.reason))
            key = (named, row.params, row.mask_hi, row.mask_lo, row.scalar_bits, row.register, row.que, operands)
            form = self._forms.get(key)
            if form is None:
                form = self._forms[key] = RowForm(self._shape_of(row))
            found.append(form)
        return tuple(found)

    def _shape_of(self, row: Row) -> RowShape:
        named = (id(row.op), id(row.pipe), id(row.mask_mode))
        key = (named, row.params, row.mask_hi, row.mask_lo, row.operand_types)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = RowShape(row.touched)
        row.touched = shape.touched
        return shape


@dataclass(frozen=True, slots=True)
class QueInfo:
    """A queue or TBuf: where its buffers lie in UB."""

    name: str
    position: str
    address_bytes: int
    buffer_bytes: int
    num: int

    @property
    def end_bytes(self) -> int:
        """Where its last buffer ends."""
        return self.address_bytes + self.buffer_bytes * self.num


class Touched(NamedTuple):
    """Bytes of a tensor between the first and the last that an operand touches, counted from the tensor's first.

    Attributes:
        role: the operand's.
        tensor: the tensor's number in its template.
        start: where the operand begins.
    """

    role: str
    tensor: int
    start: int
    first: int
    end: int


def _touched(row: Row, ranges: Ranges) -> tuple[Touched, ...]:
    operands, found = dict(row.operands), []
    for role, first, end in ranges:
        start = operands[role].offset_bytes
        found.append(Touched(role, operands[role].tensor, start, start + first, start + end))
    return tuple(found)


@dataclass(frozen=True)
class Template:
    """Rows recorded once. GM operands are relative to the slots that each call fills in."""

    name: str
    columns: Columns
    tensors: tuple[TensorRef, ...]
    slots: int
    registers: int
    micro: Columns = field(default_factory=dict)
    """Micro-operations of all vector functions, one behind the other; empty where there are none."""

    @classmethod
    def of_rows(
        cls,
        name: str,
        rows: list[Row],
        tensors: tuple[TensorRef, ...],
        slots: int,
        registers: int,
        forms: tuple[RowForm, ...] | None = None,
    ) -> Self:
        """Return a template of these rows, which need not be decoded again, with their forms if they are known."""
        template = cls(name, encode(rows), tensors, slots, registers, encode_bodies(rows))
        vars(template)["rows"] = tuple(rows)
        if forms is not None:
            vars(template)["forms"] = forms
        return template

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The rows, decoded."""
        rows = [_decode(self.columns, i) for i in range(len(self))]
        for at, body in bodies_of(self.micro).items():
            rows[at].body = body
        return tuple(rows)

    @cached_property
    def forms(self) -> tuple[RowForm, ...]:
        """The form of each row."""
        return RowForms().of(self.rows, self.tensors)

    @cached_property
    def touched(self) -> tuple[tuple[Touched, ...], ...]:
        """What each row touches."""
        forms = zip(self.rows, self.forms, strict=True)
        return tuple([_touched(row, form.shape.touched) if form.shape.touched else () for row, form in forms])

    def __len__(self) -> int:
        return len(self.columns["op"])

    def kept(self, question: Hashable, of: object, find: Callable[[], T]) -> T:
        """Return what follows from the rows and one object, as `Kept.answer`."""
        return self._kept.answer(question, of, find)

    @cached_property
    def _kept(self) -> Kept:
        return Kept()

    @cached_property
    def op_names(self) -> frozenset[str]:
        """Names of the instructions that the rows are."""
        return frozenset(row.op.name for row in self.rows)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over content; equal templates have equal digests."""
        h = hashlib.sha256(f"{self.name} {self.slots} {self.registers} {self.tensors}".encode())
        h.update("".join(f"{i} bypasses L2 " for i, t in enumerate(self.tensors) if t.bypasses_l2).encode())
        for name in sorted(self.columns):
            column = self.columns[name]
            # Opcodes depend on declaration order; names do not.
            named = ",".join(BY_OPCODE[o].name for o in column).encode() if name == "op" else column.tobytes()
            h.update(name.encode() + named)
        for name in sorted(self.micro):
            h.update(name.encode() + self.micro[name].tobytes())
        return h.hexdigest()


def encode(rows: list[Row]) -> Columns:
    """Turn rows into columns."""
    n = len(rows)
    columns: Columns = {
        "op": np.array([r.op.opcode for r in rows], np.int16),
        "pipe": np.array([r.pipe for r in rows], np.int8),
        "mask_mode": np.array([r.mask_mode for r in rows], np.int8),
        "mask_hi": np.array([r.mask_hi for r in rows], np.uint64),
        "mask_lo": np.array([r.mask_lo for r in rows], np.uint64),
        "scalar_bits": np.array([r.scalar_bits for r in rows], np.uint64),
        "register": np.array([r.register for r in rows], np.int32),
        "line": np.array([r.line for r in rows], np.int32),
        "step": np.array([r.step for r in rows], np.int32),
        "que": np.array([r.que for r in rows], np.int16),
        "reason": np.array([r.reason for r in rows], np.int8),
        "params": np.zeros((n, max([MAX_PARAMS, *(len(r.params) for r in rows)])), np.int64),
    }
    for role in ROLES if all(r.src2 is None for r in rows) else ALL_ROLES:
        operands: list[Operand | None] = [getattr(r, role) for r in rows]
        columns[f"{role}_tensor"] = np.array([_NONE if o is None else o.tensor for o in operands], np.int16)
        columns[f"{role}_offset"] = np.array([0 if o is None else o.offset_bytes for o in operands], np.int64)
        columns[f"{role}_dtype"] = np.array([_NONE if o is None else o.dtype.code for o in operands], np.int8)
    for i, r in enumerate(rows):
        columns["params"][i, : len(r.params)] = r.params
    return columns


def encode_bodies(rows: list[Row]) -> Columns:
    """Turn the bodies of vector functions into columns, "row" saying whose they are; empty where there are none."""
    micro = [(at, m) for at, row in enumerate(rows) if row.body is not None for m in row.body.rows]
    if not micro:
        return {}
    names = list(MICRO)
    word = (1 << 64) - 1
    memory = [m.memory for _, m in micro]
    sources = [(*m.sources, _NONE, _NONE)[:2] for _, m in micro]
    return {
        "row": np.array([at for at, _ in micro], np.int32),
        "op": np.array([names.index(m.op.name) for _, m in micro], np.int8),
        "register": np.array([m.register for _, m in micro], np.int32),
        "source0": np.array([s[0] for s in sources], np.int32),
        "source1": np.array([s[1] for s in sources], np.int32),
        "dtype": np.array([m.dtype.code for _, m in micro], np.int8),
        "src_dtype": np.array([m.src_dtype.code for _, m in micro], np.int8),
        "mask_hi": np.array([m.mask >> 64 for _, m in micro], np.uint64),
        "mask_lo": np.array([m.mask & word for _, m in micro], np.uint64),
        "tensor": np.array([_NONE if o is None else o.tensor for o in memory], np.int16),
        "offset": np.array([0 if o is None else o.offset_bytes for o in memory], np.int64),
        "scalar_bits": np.array([m.scalar_bits for _, m in micro], np.uint64),
        "line": np.array([m.line for _, m in micro], np.int32),
        "step": np.array([m.step for _, m in micro], np.int32),
        "issue": np.array([m.issue for _, m in micro], np.int8),
    }


def bodies_of(c: Columns) -> dict[int, Body]:
    """Undo `encode_bodies`: the body of each row that has one."""
    if not c:
        return {}
    ops = list(MICRO.values())
    found: dict[int, list[MicroRow]] = {}
    for at, values in zip(
        c["row"].tolist(), zip(*(c[name].tolist() for name in _MICRO_FIELDS), strict=True), strict=True
    ):
        op, register, source0, source1, kind, src_kind, hi, lo, tensor, offset, scalar, line, step, issue = values
        element = DTYPES[kind]
        found.setdefault(at, []).append(
            MicroRow(
                ops[op],
                register,
                tuple(s for s in (source0, source1) if s != _NONE),
                element,
                DTYPES[src_kind],
                hi << 64 | lo,
                None if tensor == _NONE else Operand(tensor, offset, element),
                scalar,
                line,
                step,
                Issue(issue),
            )
        )
    return {at: Body(tuple(rows), uses_of(rows)) for at, rows in found.items()}


def _decode(c: Columns, i: int) -> Row:
    op = BY_OPCODE[c["op"][i]]
    operands = [
        None
        if f"{role}_tensor" not in c or c[f"{role}_tensor"][i] == _NONE
        else Operand(int(c[f"{role}_tensor"][i]), int(c[f"{role}_offset"][i]), DTYPES[c[f"{role}_dtype"][i]])
        for role in ALL_ROLES
    ]
    return Row(
        op,
        Pipe(int(c["pipe"][i])),
        operands[0],
        operands[1],
        operands[2],
        params=tuple(int(p) for p in c["params"][i, : len(op.params)]),
        mask_mode=MaskMode(int(c["mask_mode"][i])),
        mask_hi=int(c["mask_hi"][i]),
        mask_lo=int(c["mask_lo"][i]),
        scalar_bits=int(c["scalar_bits"][i]),
        register=int(c["register"][i]),
        line=int(c["line"][i]),
        step=int(c["step"][i]),
        que=int(c["que"][i]),
        reason=Reason(int(c["reason"][i])),
        src2=operands[3],
    )


def block_index(kernel_type: KernelType, core: int) -> int:
    """Return what GetBlockIdx gives on a core: it counts the cores of its kind."""
    kinds = kernel_type.kinds
    block, place = divmod(core, len(kinds))
    return block * kinds.count(kinds[place]) + kinds[:place].count(kinds[place])


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a template, decoded: its slots' GM tensors and base addresses."""

    index: int
    core: int
    template: int
    tile: int
    slot_tensor: tuple[int, ...]
    slot_base_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Places:
    """The on-chip memories of a core one behind the other, UB first: one address for each byte."""

    bases: dict[Buffer, int]
    length_bytes: int

    def of(self, tensor: TensorRef) -> int:
        """Return the address of an allocation's first byte."""
        return self.bases[tensor.buffer] + tensor.address_bytes


@dataclass(frozen=True)
class Program:
    """Templates, and calls as columns: core, template, tile index, and where its slots start in the slot columns."""

    soc: str
    block_dim: int
    kernel_type: KernelType
    templates: tuple[Template, ...]
    calls: Columns
    slot_tensor: NDArray[np.int32]
    slot_base_bytes: NDArray[np.int64]
    gm: tuple[GlobalTensor, ...]
    ques: tuple[QueInfo, ...]
    lines: tuple[str, ...]
    steps: tuple[str, ...]
    high_water_bytes: dict[Buffer, int]
    """By on-chip memory: the end of its highest allocation."""

    @property
    def ub_high_water_bytes(self) -> int:
        """The end of the highest allocation in UB."""
        return self.high_water_bytes.get(Buffer.UB, 0)

    @property
    def core_count(self) -> int:
        """Cores that run the program: those of one block behind those of the one before."""
        return self.block_dim * len(self.kernel_type.kinds)

    def core_kind(self, core: int) -> CoreKind:
        """Return what a core is."""
        return self.kernel_type.kinds[core % len(self.kernel_type.kinds)]

    @property
    def block_cores(self) -> int:
        """Cores of one block: 1, or in a mixed kernel those of an AI Core."""
        return len(self.kernel_type.kinds)

    def cores_of_kind(self, kind: CoreKind) -> int:
        """Return how many cores of a kind run the program."""
        return self.block_dim * self.kernel_type.kinds.count(kind)

    def core_name(self, core: int) -> str:
        """Return what reports call a core: its number, or in a mixed kernel its kind and its block index."""
        if not self.kernel_type.is_mix:
            return f"core {core}"
        return f"{self.core_kind(core).name} {block_index(self.kernel_type, core)}"

    def places(self, capacity_bytes: Mapping[Buffer, int]) -> Places:
        """Return where the on-chip memories lie that the program uses; UB is always there.

        Args:
            capacity_bytes: what each has at least; an allocation behind its end makes it longer.
        """
        ends = {Buffer.UB: 0} | dict(self.high_water_bytes)
        for template in self.templates:
            for tensor in template.tensors:
                if tensor.buffer is not Buffer.GM:
                    end = tensor.address_bytes + tensor.tensor_bytes
                    ends[tensor.buffer] = max(ends.get(tensor.buffer, 0), end)
        at, bases = 0, {}
        for buffer in sorted(ends):
            bases[buffer] = at
            at += align_up(max(ends[buffer], capacity_bytes.get(buffer, 0)), _MEMORY_STEP_BYTES)
        return Places(bases, at)

    @cached_property
    def is_cross(self) -> bool:
        """Whether cores set flags for each other, or wait for them."""
        return any(not template.op_names.isdisjoint(CROSS) for template in self.templates)

    def call(self, index: int) -> Call:
        """Return one call."""
        c = self.calls
        template = int(c["template"][index])
        start = int(c["slot_start"][index])
        end = start + self.templates[template].slots
        return Call(
            index,
            int(c["core"][index]),
            template,
            int(c["tile"][index]),
            tuple(int(t) for t in self.slot_tensor[start:end]),
            tuple(int(b) for b in self.slot_base_bytes[start:end]),
        )

    @cached_property
    def calls_of_template(self) -> tuple[NDArray[np.int64], ...]:
        """The calls of each template, in program order."""
        called = self.calls["template"]
        order = np.argsort(called, kind="stable")
        ends = np.searchsorted(called[order], np.arange(1, len(self.templates) + 1))
        return tuple(np.split(order, ends[:-1])) if len(self.templates) else ()

    def slots_of(self, template: int, slot: int) -> NDArray[np.int64]:
        """Return where the calls of a template name what is in one of its slots, in program order."""
        places: NDArray[np.int64] = self.calls["slot_start"][self.calls_of_template[template]] + slot
        return places

    @cached_property
    def gm_spans(self) -> NDArray[np.int64]:
        """Address of each GM tensor's first byte, and below it how long each is."""
        return np.array([[g.base_bytes for g in self.gm], [g.tensor_bytes for g in self.gm]], np.int64)

    @cached_property
    def first_rows(self) -> NDArray[np.int64]:
        """Number of the first row of each call, and behind them the number of rows."""
        lengths = np.array([len(t) for t in self.templates], np.int64)
        counts = lengths[self.calls["template"]] if len(lengths) else np.zeros(0, np.int64)
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])

    def calls_of(self, core: int) -> Iterator[Call]:
        """Calls of one core, in program order."""
        for index in np.flatnonzero(self.calls["core"] == core):
            yield self.call(int(index))

    def __len__(self) -> int:
        """Rows of the whole program."""
        return int(self.first_rows[-1])

    @cached_property
    def digest(self) -> str:
        """SHA-256 over everything a result depends on; the same scenario gives the same digest everywhere."""
        h = hashlib.sha256(f"{self.soc} {self.block_dim} {self.gm} {self.ques} {self.lines} {self.steps}".encode())
        if self.kernel_type not in SINGLE_KIND:  # with one kind of core its name changes nothing
            h.update(self.kernel_type.name.encode())
        h.update(str(self.ub_high_water_bytes).encode())
        others = {b.name: end for b, end in sorted(self.high_water_bytes.items()) if b is not Buffer.UB}
        if others:
            h.update(str(others).encode())
        for template in self.templates:
            h.update(template.digest.encode())
        for name in sorted(self.calls):
            h.update(name.encode() + self.calls[name].tobytes())
        h.update(self.slot_tensor.tobytes() + self.slot_base_bytes.tobytes())
        return h.hexdigest()

    def instruction_log(self, core: int = 0) -> list[dict[str, str]]:
        """Return the log of one core; columns of data (scalar_bits of registers, written_*) stay empty."""
        log: list[dict[str, str]] = []
        number = 0
        for call in self.calls_of(core):
            template = self.templates[call.template]
            for row in template.rows:
                if row.body is not None:
                    log += [micro_log_row(m, len(log) + i, template.tensors) for i, m in enumerate(row.body.rows)]
                    continue
                numbered = is_numbered(row)
                number += numbered
                entry = log_row(row, len(log), number if numbered else 0, template.tensors)
                if row.op.takes_scalar and row.register < 0:
                    entry["scalar_bits"] = f"0x{row.scalar_bits:x}"
                log.append(entry)
        return log


# ---- files ------------------------------------------------------------------------------------------------------


def to_arrays(program: Program) -> dict[str, NDArray[Any]]:
    """Return a program as named arrays; `from_arrays` is the inverse.

    Instructions are numbered anew, because opcodes depend on what else was declared in this process.
    """
    used = sorted({int(o) for t in program.templates for o in np.unique(t.columns["op"])})
    number = np.zeros(len(BY_OPCODE), np.int16)
    number[used] = np.arange(len(used))
    header = {
        "soc": program.soc,
        "block_dim": program.block_dim,
        "kernel_type": program.kernel_type.name,
        "high_water_bytes": {b.name: end for b, end in program.high_water_bytes.items()},
        "lines": program.lines,
        "steps": program.steps,
        "ques": [asdict(q) for q in program.ques],
        "gm": [[g.name, g.dtype.name, list(g.shape), g.index, g.base_bytes] for g in program.gm],
        "ops": [BY_OPCODE[o].name for o in used],
        "declared": {op.name: asdict(op.declared) for op in (BY_OPCODE[o] for o in used) if op.declared is not None},
        "templates": [
            {
                "name": t.name,
                "slots": t.slots,
                "registers": t.registers,
                "tensors": [[r.name, r.buffer.name, r.position, r.address_bytes, r.tensor_bytes, r.slot, r.que]
                            for r in t.tensors],
                "past_l2": [i for i, r in enumerate(t.tensors) if r.bypasses_l2],
            }
            for t in program.templates
        ],
    }  # fmt: skip
    arrays: dict[str, NDArray[Any]] = {
        "program": np.frombuffer(json.dumps(header, sort_keys=True).encode(), np.uint8),
        "slot_tensor": program.slot_tensor,
        "slot_base_bytes": program.slot_base_bytes,
    }
    arrays |= {f"call.{name}": column for name, column in program.calls.items()}
    for i, t in enumerate(program.templates):
        columns = t.columns | {"op": number[t.columns["op"]]}
        arrays |= {f"template{i}.{name}": column for name, column in columns.items()}
        arrays |= {f"micro{i}.{name}": column for name, column in t.micro.items()}
    return arrays


def from_arrays(arrays: dict[str, NDArray[Any]]) -> Program:
    """Rebuild a program from `to_arrays`.

    An instruction that the kernel's own file declared is rebuilt from what was stored: all of it but its arithmetic, so
    the program can be shown and scheduled, and asking for its values says which file is missing.

    Raises:
        InputError: an instruction that this version does not know.
    """
    header = json.loads(arrays["program"].tobytes())
    declared = {n: Declaration(**d | {"dtypes": tuple(d["dtypes"])}) for n, d in header.get("declared", {}).items()}
    unknown = [name for name in header["ops"] if name not in TABLE and name not in declared]
    if unknown:
        raise InputError(f"this run was written by another version: unknown instructions {unknown}")
    ops = [without_arithmetic(declared[name]) if name in declared else TABLE[name] for name in header["ops"]]
    opcode = np.array([op.opcode for op in ops], np.int16)
    templates = []
    for i, t in enumerate(header["templates"]):
        prefix = f"template{i}."
        columns = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
        micro = {k.removeprefix(f"micro{i}."): v for k, v in arrays.items() if k.startswith(f"micro{i}.")}
        columns["op"] = opcode[columns["op"]]
        past_l2 = t.get("past_l2", ())
        refs = tuple(
            TensorRef(n, Buffer[b], pos, a, size, s, q, bypasses_l2=number in past_l2)
            for number, (n, b, pos, a, size, s, q) in enumerate(t["tensors"])
        )
        templates.append(Template(t["name"], columns, refs, t["slots"], t["registers"], micro))
    return Program(
        soc=header["soc"],
        block_dim=header["block_dim"],
        kernel_type=KernelType[header.get("kernel_type", KernelType.AIV_ONLY.name)],
        templates=tuple(templates),
        calls={k.removeprefix("call."): v for k, v in arrays.items() if k.startswith("call.")},
        slot_tensor=arrays["slot_tensor"],
        slot_base_bytes=arrays["slot_base_bytes"],
        gm=tuple(GlobalTensor(n, dtype(d), tuple(s), i, b) for n, d, s, i, b in header["gm"]),
        ques=tuple(QueInfo(**q) for q in header["ques"]),
        lines=tuple(header["lines"]),
        steps=tuple(header["steps"]),
        high_water_bytes=_high_water(header),
    )


def _high_water(header: dict[str, Any]) -> dict[Buffer, int]:
    """Ends of the on-chip memories; runs of earlier versions know UB only."""
    ends: dict[str, int] = header.get("high_water_bytes") or {"UB": header.get("ub_high_water_bytes", 0)}
    return {Buffer[name]: end for name, end in ends.items()}
