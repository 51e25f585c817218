"""Rules that single instructions must keep. Each is a small factory: given its parameter, it returns the check.

A check looks at one row of a template and returns findings; it is evaluated once per template, not per call. Codes and
conditions follow the catalogue in docs/provenance.md; a rule names its public source.
"""

from collections.abc import Iterable

from ascendsim.device import Device
from ascendsim.dtypes import BFLOAT16, FLOAT, HALF, DType, unpack
from ascendsim.errors import Finding, Rule
from ascendsim.isa.instruction import Check, Operand, Row, TensorRef, finds
from ascendsim.isa.lanes import active_lanes, lanes_of
from ascendsim.terms import DATABLOCK_BYTES, MAX_REPEAT_TIMES, Buffer, MaskMode

ALIGN_UB = Rule(
    "E-ALIGN-UB",
    "{api} {operand} {tensor}: UB address {got} is {off} B past a 32 B boundary",
    "start operands on whole datablocks (32 B): round offsets to a multiple of {got} elements",
    "asc-devkit docs, general constraints, table 2",
    condition="An operand in UB starts off the boundary that its instruction needs (32 B, for scalar access a "
    "whole element, in vector functions that of the load or store), or a plan has rows in UB that are"
    " no multiple of 32 B.",
)
ALIGN_ELEMENT = ALIGN_UB.saying(
    "{api} {operand} {tensor}: UB address {got} is {off} B past an element's boundary, wanted {wanted}",
    "read whole elements: reinterpret_cast from an offset that is a multiple of the wider type",
    "asc-devkit docs, general constraints",
)
ALIGN_REDUCE = Rule(
    "E-ALIGN-REDUCE",
    "{api} {operand} {tensor}: reduce destination at UB address {got} needs {wanted} B alignment",
    "move the destination to an aligned element",
    "asc-devkit docs, ReduceRepeat page, table 3",
    condition="The destination of a reduction starts at a UB address that is no multiple of one result: of "
    "eight elements for a reduction of datablocks, of value and index where both are written.",
)
ALIGN_GM = Rule(
    "E-ALIGN-GM",
    "{api} {operand} {tensor}: GM offset {got} is not a multiple of the element size {wanted}",
    "use element offsets",
    "asc-devkit docs, DataCopy pages",
    condition="The GM side of DataCopy starts at a byte offset that is no multiple of the element size.",
)
OOB_LOCAL = Rule(
    "E-OOB-LOCAL",
    "{api} {operand} touches {past} B past the end of {tensor} ({got} B needed, {wanted} B there)",
    "reduce the count or repeat, or enlarge the tensor",
    "asc-tools, kernel_base_check and npu-check ErrorRead3/ErrorWrite2",
    condition="Active lanes of an operand touch bytes before the start or behind the end of its tensor in UB.",
)
OOB_MASKED = Rule(
    "W-OOB-MASKED",
    "{api} {operand}: lanes that the mask leaves out lie up to {past} B past the end of {tensor}",
    "harmless as long as they stay masked; enlarge the tensor if the mask may grow",
    "asc-tools, api_check kernel_base_check, which counts active lanes",
    level="I",
    condition="Lanes of a source that a normal-mode mask leaves out lie past the tensor's end, all others inside.",
)
OOB_LOCAL_BEFORE = OOB_LOCAL.saying(
    "{api} {operand} touches {past} B before the start of {tensor}",
    "begin at or behind the tensor's first element",
    "asc-tools, kernel_base_check and npu-check ErrorRead3/ErrorWrite2",
)
DTYPE_OP = Rule(
    "E-DTYPE-OP",
    "{api} does not support {got} for {operand}; it takes {wanted}",
    "use one of the types named; reinterpret_cast if the bits are meant",
    "asc-devkit docs, the instruction's own page",
    condition="An operand has an element type that the instruction does not take, alone or together with the "
    "other operands.",
)
DTYPE_HERE = DTYPE_OP.saying("{api} does not support {got} for {operand} on arch {arch}; there it takes {wanted}")
DTYPE_BF16 = Rule(
    "E-DTYPE-BF16",
    "{api} {operand}: arch {arch} has no bfloat16_t arithmetic",
    "cast to float, compute, cast back",
    "asc-devkit docs, precision guide",
    condition="An operand is bfloat16_t in an instruction that does not compute with that type, on this "
    "architecture or in this model.",
)
BF16_NOT_MODELLED = DTYPE_BF16.saying(
    "{api} {operand}: the bfloat16_t arithmetic of arch {arch} is not modelled",
    "cast to float, compute, cast back; see docs/limits.md",
    "asc-devkit docs, the instruction's own page",
)
DTYPE_PAIR = DTYPE_OP.saying(
    "{api} does not support {got}; it takes {wanted}",
    "cast to one of the pairs first",
    "asc-devkit docs, the instruction's own page",
)
DTYPE_PAIR_HERE = DTYPE_PAIR.saying("{api} does not support {got} on arch {arch}; there it takes {wanted}")
DTYPE_SAME = DTYPE_OP.saying(
    "{api} operands differ in dtype: {got}",
    "use one dtype for all operands",
    "asc-devkit docs, the instruction's own page",
)
RANGE_REPEAT = Rule(
    "E-RANGE-REPEAT",
    "{api} repeat {got} does not fit the 8-bit field (at most {wanted})",
    "split the call, or use the count form",
    "asc-devkit docs, high-dimension splitting page",
    condition="The number of repeats of an instruction is negative or does not fit its field: at most 255, of "
    "GatherMask 65535.",
)
RANGE_REPEAT_WIDE = RANGE_REPEAT.saying(
    "{api} repeat {got} does not fit the 16-bit field (at most {wanted})",
    "split the call",
    "asc-devkit, GatherMaskParams",
)
REPEAT_ZERO = Rule(
    "W-REPEAT-ZERO",
    "{api} does nothing: its {what} is 0",
    "guard the call",
    "asc-devkit docs, instruction pages; vector theory table",
    condition="A call does nothing: its count, its number of repeats or the body of its vector function is empty.",
)
RANGE_STRIDE = Rule(
    "E-RANGE-STRIDE",
    "{api} {what} {got} is out of range {wanted}",
    "strides count datablocks; loop over rows that lie further apart",
    "asc-devkit docs, high-dimension splitting and Copy pages",
    condition="A block or repeat stride does not fit its field, or a destination block stride is 0.",
)
RANGE_MASK = Rule(
    "E-RANGE-MASK",
    "{api} mask {got} exceeds the {wanted} lanes of a repeat",
    "use the count form, or more repeats",
    "asc-devkit docs, mask page",
    condition="A mask given as a number of lanes, in normal mode, is negative or larger than the lanes of a repeat.",
)
RANGE_MASK_BITS = RANGE_MASK.saying(
    "{api} mask {got} names lanes beyond the {wanted} of a repeat",
    hint="leave the bits above the lanes 0: elements of 32 bits use the low word only",
)
MASK_ZERO = Rule(
    "E-MASK-ZERO",
    "{api} under mask 0: arch {arch} takes no repeat without a lane",
    "guard the call",
    "asc-tools, api_check of vector instructions",
    condition="A vector instruction runs in normal mode under a mask that selects none of its lanes.",
    archs=(2002,),
)
RANGE_SHIFT = Rule(
    "E-RANGE-SHIFT",
    "{api} by {got} bits: out of range {wanted}",
    "shift by no more bits than the type has",
    "asc-devkit docs, ShiftLeft and ShiftRight pages",
    condition="ShiftLeft or ShiftRight gets a number of bits below 0 or above the width of the type.",
)
ROUND_SHIFT = Rule(
    "W-SHIFT-ROUND",
    "ShiftRight round_en has no effect on {got}",
    "leave round_en out, or use a signed type",
    "asc-devkit docs, ShiftRight page",
    condition="ShiftRight is asked to round an unsigned type.",
)
RANGE_COPY = Rule(
    "E-RANGE-COPY",
    "{api} {what} {got} is out of range {wanted}",
    "split the copy",
    "asc-devkit, data copy checks",
    condition="A field of DataCopy or DataCopyPad (number of bursts, length, gap or stride) does not fit its bits.",
)
RANGE_PAD = Rule(
    "E-RANGE-PAD",
    "{api} {what} {got}: {wanted}",
    "pad at most 32 B on a side, in whole elements",
    "asc-devkit docs, DataCopyPad page",
    condition="DataCopyPad pads more than 32 B on a side, has a length that is no whole number of elements, or "
    "pads a 64-bit type with something other than 0.",
)
MOST_WIDE_REPEATS = 65535
"""Repeats of GatherMask, whose field has 16 bits (asc-devkit, GatherMaskParams)."""
MOST_BURSTS = 4095
"""Bursts of one copy (asc-devkit docs, DataCopy and DataCopyPad pages)."""
COPY_ZERO = Rule(
    "E-COPY-ZERO",
    "{api} copies nothing: {what} is 0",
    "guard the call",
    "asc-devkit, data copy checks, where it is a warning",
    level="W",
    condition="DataCopy, DataCopyPad or Fixpipe gets a length or a number of bursts of 0.",
)
BRCB_STRIDE = Rule(
    "E-BRCB-SRC",
    "Brcb dst_blk_stride 0 is taken as 1",
    "write 1",
    "asc-devkit docs, Brcb page, where it is a warning",
    level="W",
    condition="Brcb gets a destination block stride of 0, which the hardware takes as 1.",
)
OVERLAP_GATHER = Rule(
    "E-OVERLAP-GATHER",
    "Brcb cannot be in place: dst overlaps src",
    "give dst its own memory",
    "asc-devkit docs, Brcb page",
    condition="The destination of Brcb, Gather, Gatherb or TransDataTo5HD shares bytes with what the "
    "instruction reads; TransDataTo5HD may get one list for both.",
)
ALIGN_COUNT = Rule(
    "E-ALIGN-COUNT",
    "{api} count {got} is no multiple of 32 B: the hardware silently drops the last {past} B",
    "round the tile up, or use data_copy_pad",
    "asc-devkit docs, continuous DataCopy page",
    condition="The count form of DataCopy gets a count whose bytes are no multiple of 32 B.",
)
CAST_PAIR = Rule(
    "E-CAST-PAIR",
    "Cast: no conversion {got} on this device",
    "go through another type",
    "asc-devkit docs, Cast page",
    condition="Cast gets a pair of source and destination types that the architecture does not convert.",
)
CAST_ROUND = Rule(
    "E-CAST-ROUND",
    "Cast {got}: rounding mode {mode} is not allowed, only {wanted}",
    "use one of the allowed modes; lossless casts take CAST_NONE only",
    "asc-devkit docs, Cast page",
    condition="Cast gets a rounding mode that its pair of types does not allow.",
)

API_PRODUCT = Rule(
    "E-API-PRODUCT",
    "{api} is no instruction of {got} (arch {arch}): {why}",
    "use an instruction that the device has, or another device",
    "asc-devkit docs, the product tables of the instructions' pages",
    condition="The device file says that the part lacks the instruction, or the mode of it that the call asks for.",
)


NUM_RECIP = Rule(
    "W-NUM-RECIP",
    "{api} approximates: its error may pass {wanted}",
    "where that is too much use Div (1 / x) or Sqrt and Div (1 / sqrt x)",
    "asc-devkit docs, Reciprocal and Rsqrt pages",
    level="I",
    condition="A kernel calls Reciprocal or Rsqrt, which the hardware approximates; values here are exact.",
)
NUM_HALF_SUM = Rule(
    "W-NUM-HALFREDUCE",
    "{api} adds halves: slower than float, and each step is rounded to half",
    "cast to float, reduce, cast back",
    "asc-devkit docs, constraints page of arch 2201",
    condition="A reduction sums elements of half.",
    archs=(2201,),
)
DEQ_SCALE = Rule(
    "E-CAST-DEQSCALE",
    "{api} multiplies by the scale of SetDeqScale, which was never set",
    "call set_deq_scale before",
    "asc-devkit docs, SetDeqScale and Cast pages",
    condition="A Cast from int32_t to half, or AddDeqRelu, is called before SetDeqScale has set a scale.",
)
RESERVED_UB = Rule(
    "E-CAP-UB-RESERVED",
    "{api} {operand} {tensor} reaches UB address {got}: the library keeps temporaries from {wanted} on",
    "end allocations below the reserved 8 KiB",
    "asc-devkit docs, static tensor programming page",
    condition="An operand of Select or AddDeqRelu meets the bytes at the top of UB in which the library keeps "
    "temporaries for that call.",
)


def tensor_of(operand: Operand, tensors: tuple[TensorRef, ...]) -> TensorRef:
    """Return the tensor that an operand refers to."""
    return tensors[operand.tensor]


def reach_into_reserved(device: Device, used_bytes: int, start: int, end: int) -> tuple[str, str] | None:
    """Return the last UB address of start..end and the reserved offset, if they meet what the library uses there.

    Args:
        device: whose reserved offset counts.
        used_bytes: how much the library uses from there on.
        start: first UB address of an operand.
        end: the address behind its last.
    """
    first = device.ub.reserved_offset_bytes.value
    return (f"0x{end - 1:x}", f"0x{first:x}") if start < first + used_bytes and first < end else None


def why_lacking(device: Device, capability: str) -> str:
    """Return what the device file says of a capability that the device does not have."""
    known = device.capabilities.get(capability)
    return "not in its device file" if known is None else known.source


def lacking(device: Device, capability: str, api: str, where: str) -> list[Finding]:
    """Return the finding that a device does not have what `api` names, if it does not."""
    if device.has(capability):
        return []
    fill = {"api": api, "arch": device.npu_arch, "why": why_lacking(device, capability)}
    return [API_PRODUCT.finding(where, got=device.name, wanted=capability, fill=fill)]


def on_devices_with(capability: str) -> Check:
    """The device has the instruction."""

    @finds(API_PRODUCT)
    def check(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
        del tensors
        return lacking(device, capability, row.op.api, where)

    return check


def aligned(*roles: str) -> Check:
    """UB operands in these roles start on a datablock."""

    @finds(ALIGN_UB)
    def check(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
        del device
        found = []
        for role, operand in row.operands:
            tensor = tensor_of(operand, tensors)
            address = tensor.address_bytes + operand.offset_bytes
            if role in roles and tensor.buffer is Buffer.UB and address % DATABLOCK_BYTES:
                found.append(
                    ALIGN_UB.finding(
                        where,
                        operand=role,
                        got=f"0x{address:x}",
                        wanted=f"a multiple of {DATABLOCK_BYTES}",
                        hint="start operands on whole datablocks (32 B): use offsets that are multiples of "
                        f"{operand.dtype.per_datablock} elements of {operand.dtype}",
                        fill={"api": row.op.api, "tensor": tensor.name, "off": address % DATABLOCK_BYTES},
                    )
                )
        return found

    return check


def reduce_dst_aligned(elements: int) -> Check:
    """A reduction's destination is aligned to this many elements."""

    @finds(ALIGN_REDUCE)
    def check(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
        del device
        if row.dst is None:
            return []
        tensor = tensor_of(row.dst, tensors)
        address = tensor.address_bytes + row.dst.offset_bytes
        need = elements * row.dst.dtype.bytes
        if address % need == 0:
            return []
        return [
            ALIGN_REDUCE.finding(
                where, operand="dst", got=f"0x{address:x}", wanted=need, fill={"api": row.op.api, "tensor": tensor.name}
            )
        ]

    return check


@finds(ALIGN_ELEMENT)
def element_aligned(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """UB operands start on a whole element of their type."""
    del device
    found = []
    for role, operand in row.operands:
        tensor = tensor_of(operand, tensors)
        address, width = tensor.address_bytes + operand.offset_bytes, operand.dtype.bytes
        if tensor.buffer is Buffer.UB and address % width:
            fill = {"api": row.op.api, "tensor": tensor.name, "off": address % width}
            wanted = f"a multiple of {width}"
            found.append(ALIGN_ELEMENT.finding(where, operand=role, got=f"0x{address:x}", wanted=wanted, fill=fill))
    return found


@finds(ALIGN_GM)
def gm_element_aligned(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The GM side of a plain copy starts on a whole element (offsets are relative to a 512 B aligned tensor)."""
    del device
    return [
        ALIGN_GM.finding(
            where,
            operand=role,
            got=operand.offset_bytes,
            wanted=operand.dtype.bytes,
            fill={"api": row.op.api, "tensor": tensor_of(operand, tensors).name},
        )
        for role, operand in row.operands
        if tensor_of(operand, tensors).buffer is Buffer.GM and operand.offset_bytes % operand.dtype.bytes
    ]


@finds(OOB_LOCAL_BEFORE, OOB_LOCAL)
def in_bounds(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Active lanes stay inside the operand's allocation. GM operands are checked per call, where the base is known."""
    del device
    return _out_of_bounds(row, tensors, where)


def in_bounds_but(left_out: str) -> Check:
    """As `in_bounds`, but for one operand, whose length has a rule of its own."""

    @finds(OOB_LOCAL_BEFORE, OOB_LOCAL)
    def check(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
        del device
        return [found for found in _out_of_bounds(row, tensors, where) if found.operand != left_out]

    return check


def _out_of_bounds(row: Row, tensors: tuple[TensorRef, ...], where: str) -> list[Finding]:
    operands = dict(row.operands)
    found = []
    for role, first, end in row.touched:
        operand = operands[role]
        tensor = tensor_of(operand, tensors)
        if tensor.buffer is Buffer.GM or first == end:
            continue
        start, needed = operand.offset_bytes + first, operand.offset_bytes + end
        fill: dict[str, object] = {"api": row.op.api, "tensor": tensor.name}
        if start < 0:
            found.append(
                OOB_LOCAL_BEFORE.finding(where, operand=role, got=start, wanted=0, fill=fill | {"past": -start})
            )
        if needed > tensor.tensor_bytes:
            fill["past"] = needed - tensor.tensor_bytes
            found.append(OOB_LOCAL.finding(where, operand=role, got=needed, wanted=tensor.tensor_bytes, fill=fill))
    return found


def _narrow(device: Device, where: str, role: str, api: str, wanted: str) -> Finding:
    """An operand of bfloat16_t where the instruction takes none."""
    rule = BF16_NOT_MODELLED if device.has("bfloat16_arithmetic") else DTYPE_BF16
    return rule.finding(where, operand=role, got=BFLOAT16, wanted=wanted, fill={"api": api, "arch": device.npu_arch})


def _dtype_hint(allowed: tuple[DType, ...]) -> str:
    """How to mend a type: by a cast where the instruction computes with floats, else as the rule says (bits)."""
    floats = [str(d) for d in (FLOAT, HALF) if d in allowed]
    has_bits = any(d.numpy.kind == "u" for d in allowed)
    return "" if has_bits or not floats else f"cast to {' or '.join(floats)} first"


def _not_here(device: Device, where: str, what: tuple[str, DType], api: str, declared: tuple[DType, ...]) -> Finding:
    """An operand of a type that other devices take."""
    here = tuple(d for d in declared if d.name in device.types[api].value)
    fill = {"api": api, "arch": device.npu_arch}
    wanted = ", ".join(map(str, here))
    return DTYPE_HERE.finding(where, operand=what[0], got=what[1], wanted=wanted, hint=_dtype_hint(here), fill=fill)


def dtypes(allowed: Iterable[DType], *roles: str) -> Check:
    """Operands in these roles have one of these dtypes, and one that the device's file leaves the instruction."""
    names = tuple(allowed)

    @finds(BF16_NOT_MODELLED, DTYPE_BF16, DTYPE_HERE, DTYPE_OP)
    def check(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
        del tensors
        found, api = [], row.op.api
        limited = device.types.get(api)
        for role, operand in row.operands:
            if role not in roles:
                continue
            if operand.dtype in names:
                if limited is not None and operand.dtype.name not in limited.value:
                    found.append(_not_here(device, where, (role, operand.dtype), api, names))
                continue
            wanted, hint = ", ".join(str(d) for d in names), _dtype_hint(names)
            if operand.dtype is BFLOAT16:
                found.append(_narrow(device, where, role, api, wanted))
                continue
            got = operand.dtype
            found.append(DTYPE_OP.finding(where, operand=role, got=got, wanted=wanted, hint=hint, fill={"api": api}))
        return found

    return check


@finds(DTYPE_SAME)
def same_dtype(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """All operands have one dtype."""
    del tensors, device
    kinds = {o.dtype.name for _, o in row.operands}
    if len(kinds) <= 1:
        return []
    got = ", ".join(f"{role} {o.dtype}" for role, o in row.operands)
    return [DTYPE_SAME.finding(where, operand="dst", got=got, wanted="one dtype", fill={"api": row.op.api})]


def _pair_name(dst: DType, src: DType) -> str:
    """How a device file writes the types of dst and of the sources."""
    return dst.name if dst is src else f"{src}->{dst}"


def dtype_pairs(pairs: tuple[tuple[DType, DType], ...]) -> Check:
    """Types of dst and of the sources, which have one type, are one of these pairs, and one that the device has."""

    @finds(BF16_NOT_MODELLED, DTYPE_BF16, DTYPE_PAIR, DTYPE_PAIR_HERE)
    def check(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
        del tensors
        kinds = [o.dtype for _, o in row.operands]
        narrow = [role for role, o in row.operands if o.dtype is BFLOAT16]
        if narrow:
            return [_narrow(device, where, role, row.op.api, "") for role in narrow]
        limited = device.types.get(row.op.api)
        is_known = any(kinds == [dst, *[src] * (len(kinds) - 1)] for dst, src in pairs)
        here = pairs if limited is None else tuple(p for p in pairs if _pair_name(*p) in limited.value)
        if is_known and (kinds[0], kinds[1]) in here:
            return []
        got = f"{', '.join(map(str, kinds[1:]))} -> {kinds[0]}"
        wanted = ", ".join(f"{src} -> {dst}" for dst, src in here)
        fill = {"api": row.op.api, "arch": device.npu_arch}
        if is_known:
            return [DTYPE_PAIR_HERE.finding(where, operand="dst", got=got, wanted=wanted, fill=fill)]
        return [DTYPE_PAIR.finding(where, operand="dst", got=got, wanted=wanted, fill=fill)]

    return check


@finds(RANGE_SHIFT, ROUND_SHIFT)
def shift_range(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """A shift moves by at most as many bits as the type has, and rounds signed types only; registers are not known."""
    del tensors, device
    kind = row.scalar_dtype
    found = []
    if row.register < 0:
        bits = int(unpack(row.scalar_bits, kind))
        if not 0 <= bits <= 8 * kind.bytes:
            fill = {"api": row.op.api}
            found.append(RANGE_SHIFT.finding(where, got=bits, wanted=f"0..{8 * kind.bytes}", fill=fill))
    if "round_en" in row.op.params and row.param("round_en") and kind.numpy.kind == "u":
        found.append(ROUND_SHIFT.finding(where, got=kind, wanted="a signed type"))
    return found


@finds(RANGE_REPEAT, REPEAT_ZERO)
def repeat_range(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The repeat field has 8 bits; nothing to do is worth a warning."""
    del tensors, device
    found = []
    repeat = row.param("repeat")
    if not 0 <= repeat <= MAX_REPEAT_TIMES:
        found.append(RANGE_REPEAT.finding(where, got=repeat, wanted=MAX_REPEAT_TIMES, fill={"api": row.op.api}))
    counting = row.mask_mode is MaskMode.COUNTER and row.op.uses_mask
    if repeat == 0 and not counting:
        found.append(REPEAT_ZERO.finding(where, got=0, wanted="at least 1", fill={"api": row.op.api, "what": "repeat"}))
    if counting and row.mask_lo == 0:
        found.append(REPEAT_ZERO.finding(where, got=0, wanted="at least 1", fill={"api": row.op.api, "what": "count"}))
    return found


@finds(RANGE_REPEAT_WIDE, REPEAT_ZERO)
def wide_repeat_range(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The repeat field has 16 bits; nothing to do is worth a warning."""
    del tensors, device
    repeat, fill = row.param("repeat"), {"api": row.op.api}
    if not 0 <= repeat <= MOST_WIDE_REPEATS:
        return [RANGE_REPEAT_WIDE.finding(where, got=repeat, wanted=MOST_WIDE_REPEATS, fill=fill)]
    if repeat == 0:
        return [REPEAT_ZERO.finding(where, got=0, wanted="at least 1", fill=fill | {"what": "repeat"})]
    return []


@finds(MASK_ZERO)
def mask_not_zero(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """In normal mode a lane is selected, on devices that take no mask 0; what does nothing anyway is no matter."""
    del tensors
    if device.has("zero_mask") or row.mask_mode is MaskMode.COUNTER or row.param("repeat") == 0:
        return []
    if active_lanes(row.mask_hi, row.mask_lo, lanes_of(row)).size:
        return []
    fill = {"api": row.op.api, "arch": device.npu_arch}
    return [MASK_ZERO.finding(where, operand="mask", got=0, wanted="a lane", fill=fill)]


@finds(OOB_MASKED)
def masked_inside(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Lanes of sources that the mask leaves out lie inside, too; where active ones do not, that is found instead."""
    del device
    if row.mask_mode is MaskMode.COUNTER or row.param("repeat") <= 0:
        return []
    lanes = lanes_of(row)
    if active_lanes(row.mask_hi, row.mask_lo, lanes).size in (0, lanes):
        return []
    found = []
    for role, operand in row.operands:
        if role == "dst" or f"{role}_blk_stride" not in row.op.params:
            continue
        tensor = tensor_of(operand, tensors)
        blk, rep = row.param(f"{role}_blk_stride"), row.param(f"{role}_rep_stride")
        blocks = (row.param("repeat") - 1) * rep + (lanes // operand.dtype.per_datablock - 1) * blk + 1
        end, there = operand.offset_bytes + DATABLOCK_BYTES * blocks, tensor.tensor_bytes
        if end > there >= operand.offset_bytes + _touched_end(row, role):
            fill = {"api": row.op.api, "tensor": tensor.name, "past": end - there}
            found.append(OOB_MASKED.finding(where, operand=role, got=end, wanted=there, fill=fill))
    return found


def _touched_end(row: Row, role: str) -> int:
    return next((end for name, _, end in row.touched if name == role), 0)


UNDER_MASK: tuple[Check, ...] = (repeat_range, mask_not_zero, masked_inside)
"""What every instruction keeps that has repeats and a mask."""


@finds(NUM_RECIP)
def approximates(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """The instruction's result is an approximation, documented by an error that it passes."""
    del tensors, device
    wanted = "1e-3" if row.dst is not None and row.dst.dtype is HALF else "1e-4"
    return [NUM_RECIP.finding(where, operand="dst", got="an approximation", wanted=wanted, fill={"api": row.op.api})]


@finds(NUM_HALF_SUM)
def sums_floats(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Sums are float where those of half are slow and inexact."""
    del tensors
    if row.src0 is None or row.src0.dtype is not HALF or not device.has("slow_half_sum"):
        return []
    return [NUM_HALF_SUM.finding(where, operand="src0", got=HALF, wanted=FLOAT, fill={"api": row.op.api})]


def strides(blk_max: int, rep_max: int, dst_blk_min: int = 1) -> Check:
    """Strides fit their fields; a destination block stride of 0 is undefined."""
    limits = {"blk": blk_max, "rep": rep_max}

    @finds(RANGE_STRIDE)
    def check(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
        del tensors, device
        found = []
        for name, value in zip(row.op.params, row.params, strict=True):
            if not name.endswith("stride"):
                continue
            low = dst_blk_min if name == "dst_blk_stride" else 0
            high = limits[name.split("_")[1]]
            if not low <= value <= high:
                found.append(
                    RANGE_STRIDE.finding(
                        where, got=value, wanted=f"{low}..{high}", fill={"api": row.op.api, "what": name}
                    )
                )
        return found

    return check


@finds(RANGE_COPY, COPY_ZERO)
def copy_fields(row: Row, tensors: tuple[TensorRef, ...], device: Device, where: str) -> list[Finding]:
    """Fields of DataCopyParams: block count 0..4095, lengths and gaps 16 bits; zero copies nothing."""
    del tensors, device
    found = []
    for name, value in zip(row.op.params, row.params, strict=True):
        high = MOST_BURSTS if name == "block_count" else 65535
        if not 0 <= value <= high:
            found.append(
                RANGE_COPY.finding(where, got=value, wanted=f"0..{high}", fill={"api": row.op.api, "what": name})
            )
        if value == 0 and name in ("block_count", "block_len"):
            found.append(COPY_ZERO.finding(where, got=0, wanted="at least 1", fill={"api": row.op.api, "what": name}))
    return found
