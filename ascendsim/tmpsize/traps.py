"""Known traps of temp sizes, each with a stable code, and whether a plan of UB holds. Findings, never exceptions.

What a rule says about CANN is in docs/temp-size.md with an example each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ascendsim.checks.static import CAP_UB, CAP_UB_HW, CAP_UB_SAFE
from ascendsim.device import Device
from ascendsim.dtypes import FLOAT
from ascendsim.errors import Finding, Rule
from ascendsim.op_host.softmax_outcome import CannOutcome
from ascendsim.op_host.softmax_tiles import LANES, ROW_GROUP
from ascendsim.terms import DataFormat, align_up
from ascendsim.tmpsize.apis import APIS, Call
from ascendsim.tmpsize.beside import Claim
from ascendsim.tmpsize.high_water import Unit, unit_of

_HOST = "asc-devkit 9.1.0, softmax tiling (host)"
_KERNEL = "asc-devkit 9.1.0, SoftmaxGrad kernels"

LEFT = Rule(
    "E-TMP-LEFT",
    "{got} B left in the Ascend C visible UB, the API needs at least {wanted} B ({most} B for full speed)",
    "claim less beside it",
    "asc-devkit, kernel_pop_stack_buffer; platform_ascendc GetCoreMemSize(UB)",
    condition="The claims beside a softmax API leave less of the UB that Ascend C sees than the minimum of its "
    "temp, and the framework is to give the temp.",
)
BELOW_MIN = Rule(
    "E-TMP-MIN",
    "{operand} temp has {got} B, the minimum is {wanted} B",
    "pass at least the minimum",
    _HOST,
    condition="A temp passed to a softmax API of `tmpsize` is smaller than the minimum of its size function.",
)
MIN_ABOVE_MAX = Rule(
    "W-TMP-MINMAX",
    "the minimum {got} B is above the maximum {wanted} B",
    "reserve the minimum, and do not assert min <= max",
    _HOST,
    condition="The minimum of a size function is larger than its maximum.",
)
BELOW_ROW = Rule(
    "W-TMP-BELOWROW",
    "{operand} {got} B is below one row ({wanted} B): the tiling has split_m 0",
    "pass at least one row",
    _HOST,
    condition="A temp size is smaller than one row of the tiling needs.",
)
HALVED = Rule(
    "W-TMP-HALVED",
    "{operand} {got} B: tiles of more than 8 rows are halved below 16384 elements, which leaves no row of K = {k}: the "
    "tiling has split_m 0",
    "pass temp for at most 8 rows",
    _HOST,
    condition="A temp size holds more than eight rows, and halving them below 16384 elements leaves none.",
)
DIVIDES_BY_ZERO = Rule(
    "W-TMP-DIVZERO",
    "{operand} {got} B: LogSoftMaxTilingFunc divides by zero, because no row is left of its tile",
    "pass temp for 1 to 8 rows",
    "asc-devkit 9.1.0, logsoftmax tiling (host)",
    condition="The tiling function of LogSoftMax divides by zero with a temp size.",
)
ODD_TILE = Rule(
    "W-TMP-ODDTILE",
    "{operand} {got} B: halving below 16384 elements ends at tiles of {rows} rows, no multiple of 8 and no divisor of "
    "{m}: {tail} rows are left over",
    "pass temp for at most 8 rows, which are not halved",
    _HOST,
    condition="Halving below 16384 elements ends at tiles whose rows are no multiple of 8 and leave rows over, "
    "though the rows of the shape are a multiple of 8.",
)
STALE = Rule(
    "W-TMP-STALE",
    "with split_m 0 CANN does not write {got}: a struct that was used before keeps the old value",
    "use a fresh struct for each call of the tiling function, or test splitM before rangeM",
    _HOST,
    condition="The tiling has split_m 0 and leaves fields of its struct unwritten.",
)
LOGGED = Rule(
    "W-TMP-LOGGED",
    "{operand} {got} B: {said}",
    "choose another size",
    _HOST,
    condition="The tiling function logs an error with a temp size for which no other rule of this list speaks.",
)
OVER_UB = Rule(
    "W-TMP-OVERUB",
    "the maximum {got} B is larger than UB ({wanted} B): it cannot be allocated",
    "take what is left of UB, or tile the rows",
    "asc-devkit docs, tiling pages: the maximum may be larger than what is left of UB",
    condition="The maximum of a size function is larger than the part's UB.",
)
NEVER_FITS = Rule(
    "W-TMP-NEVERFITS",
    "the minimum {got} B is larger than UB ({wanted} B): the API cannot work on this shape",
    "tile the rows, or use shorter ones",
    _HOST,
    condition="The minimum of a size function is larger than the part's UB.",
)
NZ_FRONT = Rule(
    "W-TMP-NZFRONT",
    "the minimum {got} B counts one float a row of NZ front results, the kernel works on two: it touches {wanted} B",
    "give the temp what the kernel touches",
    _KERNEL,
    condition="The minimum for SoftmaxGrad front results in NZ counts fewer floats than the kernel of this "
    "architecture works on.",
    archs=(3510, 5102),
)
NZ_RETILE = Rule(
    "W-TMP-NZRETILE",
    "a kernel that tiles again counts 8 floats a row more for NZ front results than the host: the minimum {got} B "
    "gives it no row",
    "pass at least one row by the kernel's count, or the tensor's own shape in the struct",
    "asc-devkit 9.1.0, softmax_tiling_func (kernel)",
    condition="The minimum for SoftmaxGrad front results of floats in NZ is smaller than one row as the kernel "
    "counts when it tiles again.",
    archs=(2201, 2002),
)
UNUSED = Rule(
    "I-TMP-UNUSED",
    "SoftmaxGrad in ND on this architecture works in registers: no byte of temp is touched, whatever its size",
    "pass the minimum, which the checks ask for; one row where a tail tile uses the same struct",
    _KERNEL,
    condition="The temp size of a SoftmaxGrad in ND is asked for on an architecture whose kernel touches no temp.",
    archs=(3510, 3003, 3113, 5102),
)
WRAPPED = Rule(
    "W-TMP-WRAPPED",
    "CANN's 32-bit arithmetic overflows here: these are the numbers it returns, and they are useless",
    "tile the rows",
    _HOST,
    condition="A size function or tiling function exceeds 32 bits for the shape.",
)

_RETILE_BYTES = 8 * FLOAT.bytes
"""What the kernel's own tiling counts more for a row of NZ front results."""


@dataclass(frozen=True, slots=True)
class Sized:
    """A size under a name ("minimum", "maximum", ...) and CANN's tiling for it."""

    name: str
    tmp_bytes: int
    outcome: CannOutcome


def traps(
    call: Call, sizes: tuple[int, int], sized: tuple[Sized, ...], device: Device | None, *, wrapped: bool
) -> tuple[Finding, ...]:
    """Return what is surprising about a call's temp sizes.

    Args:
        call: the call.
        sizes: minimum and maximum [bytes].
        sized: the sizes in question with their tilings.
        device: the part, None if only the architecture is known.
        wrapped: CANN's 32 bits overflowed.
    """
    low, high = sizes
    found: list[Finding] = []
    if wrapped:
        found.append(WRAPPED.finding())
    if low > high:
        found.append(MIN_ABOVE_MAX.finding(got=low, wanted=high, hint=f"reserve {low} B; do not assert min <= max"))
    if device is not None and low > device.ub_bytes:
        found.append(NEVER_FITS.finding(operand="min", got=low, wanted=device.ub_bytes))
    elif device is not None and high > device.ub_bytes:
        found.append(OVER_UB.finding(operand="max", got=high, wanted=device.ub_bytes))
    for one in sized:
        found += _of_tiling(call, one)
    if call.is_grad:
        found += _of_grad(call, low)
    unique = {(finding.code, finding.message): finding for finding in found}
    return tuple(unique.values())


def _of_tiling(call: Call, one: Sized) -> Iterator[Finding]:
    outcome, row = one.outcome, FLOAT.bytes * APIS[call.api].row_floats(call)
    name, size = one.name, one.tmp_bytes
    if outcome.status == "crash_SIGFPE":
        yield DIVIDES_BY_ZERO.finding(
            operand=name, got=size, hint=f"pass {row} to {ROW_GROUP * row} B, for 1 to {ROW_GROUP} rows"
        )
        return
    tiling = outcome.tiling
    if tiling is None:
        return
    if tiling.split_m == 0:
        yield _no_row(call, one, row)
        if outcome.fields_left_stale != "none":
            yield STALE.finding(got=outcome.fields_left_stale)
    elif one.tmp_bytes // row > ROW_GROUP and tiling.split_m % ROW_GROUP and tiling.tail_m and call.m % ROW_GROUP == 0:
        fill = {"rows": tiling.split_m, "m": call.m, "tail": tiling.tail_m}
        hint = f"pass {ROW_GROUP * row} B: {ROW_GROUP} rows a tile, which are not halved"
        yield ODD_TILE.finding(operand=name, got=size, hint=hint, fill=fill)
    elif outcome.is_error:
        yield LOGGED.finding(operand=name, got=size, hint=outcome.problem, fill={"said": outcome.cann_does})


def _no_row(call: Call, one: Sized, row: int) -> Finding:
    """Why a tiling has no row."""
    is_ignored = call.is_grad and unit_of(call.npu_arch) is Unit.VECTOR_FUNCTION
    harmless = (
        "; harmless on this architecture, whose kernel does not look at the split, unless it tiles anew for a tile of "
        "another shape: then it divides by zero"
        if is_ignored
        else ""
    )
    if one.tmp_bytes < row:
        hint = f"pass at least {row} B{harmless}"
        return BELOW_ROW.finding(operand=one.name, got=one.tmp_bytes, wanted=row, hint=hint)
    hint = f"pass {row} to {ROW_GROUP * row} B, for 1 to {ROW_GROUP} rows{harmless}"
    return HALVED.finding(operand=one.name, got=one.tmp_bytes, hint=hint, fill={"k": call.k})


def _of_grad(call: Call, low: int) -> Iterator[Finding]:
    unit, is_nz = unit_of(call.npu_arch), call.data_format is DataFormat.NZ
    if unit is Unit.VECTOR_FUNCTION and not is_nz:
        yield UNUSED.finding()
    if not (is_nz and call.is_front):
        return
    if unit is Unit.VECTOR_FUNCTION:
        need = FLOAT.bytes * align_up(2 * call.m, 2 * LANES)
        if FLOAT.bytes * 2 * call.m > low:  # up to 32 rows it only reads behind the minimum
            yield NZ_FRONT.finding(got=low, wanted=need, hint=f"give the temp {need} B")
    elif call.element is FLOAT:
        need = low + _RETILE_BYTES
        yield NZ_RETILE.finding(got=low, wanted=need, hint=f"pass at least {need} B, one row by the kernel's count")


def plan_findings(
    call: Call, sizes: tuple[int, int], claims: tuple[Claim, ...], device: Device, tmp_bytes: int | None
) -> tuple[Finding, ...]:
    """Return whether a plan of UB holds: claims, and a temp of so many bytes beside them or the framework's (None)."""
    low, high = sizes
    used = sum(claim.bytes for claim in claims)
    visible = device.ub.visible_bytes.value
    found: list[Finding] = []
    if tmp_bytes is None and visible - used < low:
        hint = f"claim at most {visible - low} B beside it"
        found.append(LEFT.finding(got=max(0, visible - used), wanted=low, hint=hint, fill={"most": high}))
    if tmp_bytes is not None and tmp_bytes < low:
        found.append(BELOW_MIN.finding(operand=APIS[call.api].title, got=tmp_bytes, wanted=low))
    parts = ", ".join([*map(str, claims), *([] if tmp_bytes is None else [f"temp {tmp_bytes} B"])])
    total = used + (tmp_bytes or 0)
    if total > device.ub_bytes:
        found.append(_capacity(CAP_UB_HW, total, device.ub_bytes, {"parts": parts}))
    if total > visible:
        found.append(_capacity(CAP_UB, total, visible, {"parts": parts}))
    elif total > device.ub.safe_bytes.value:
        found.append(_capacity(CAP_UB_SAFE, total, device.ub.safe_bytes.value, {}))
    return tuple(found)


def _capacity(rule: Rule, got: int, wanted: int, fill: Mapping[str, object]) -> Finding:
    return rule.finding(where="UB", operand="UB", got=got, wanted=wanted, fill=fill)
