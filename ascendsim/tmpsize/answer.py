"""The answer for one call: minimum and maximum temp, what each size gives, what is left of UB, and traps."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from operator import index
from typing import Any

from ascendsim.device import Device, Platform, load_device
from ascendsim.dtypes import FLOAT, DType, dtype
from ascendsim.errors import Finding, InputError
from ascendsim.op_host.softmax_outcome import CannOutcome, SoftMaxTiling
from ascendsim.op_host.softmax_tiles import ROW_GROUP
from ascendsim.terms import DATABLOCK_BYTES, DEFAULT_SOC, DataFormat
from ascendsim.tmpsize.apis import APIS, Call, api_of, check_call
from ascendsim.tmpsize.beside import Claim, Limit, limits_of, parse_claims, tensor_claims
from ascendsim.tmpsize.cycles import Form, Predictor
from ascendsim.tmpsize.high_water import Unit, reserved_bytes, touched_bytes, unit_of
from ascendsim.tmpsize.traps import Sized, plan_findings, traps

NAMES = {"min": "minimum", "max": "maximum", "fits": "largest that fits", "given": "given"}
"""Of the sizes in an answer, in words."""


@dataclass(frozen=True, slots=True)
class TmpChoice:
    """One temp size and what it gives.

    Attributes:
        tmp_bytes: the size.
        tiling: what CANN's tiling function makes of it; None where it crashes.
        reserved_bytes: what the tiling reserves for a tile. SoftmaxGrad only, like all that follow.
        touched_bytes: the highest byte of temp that the call touches, plus one.
        cycles: predicted for one call; None where no row fits in temp, the temp is larger than UB, or no part is known.
    """

    tmp_bytes: int
    tiling: SoftMaxTiling | None
    reserved_bytes: int | None = None
    touched_bytes: int | None = None
    cycles: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers for JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {
            "tiling": None if self.tiling is None else asdict(self.tiling)
        }


@dataclass(frozen=True, slots=True)
class TmpSize:
    """The answer for one call.

    Attributes:
        call: what was asked.
        device: the part; None if only the architecture was named.
        min_bytes, max_bytes: CANN's sizes.
        row_bytes: what the tiling reserves for one row.
        tensors: the call's own tensors.
        beside: what lies in UB beside the temp: buffers that were named, or else the tensors.
        limits: what that leaves under each limit of UB, the widest first; empty without a part.
        choices: "min", "max", "fits" (the largest within the safe limit) and "given", where they exist.
        largest_tile_m: rows whose tensors fit into UB together with their minimum temp; None where buffers were named.
        wrapped: CANN's 32-bit arithmetic overflowed on the way; its numbers are what it would return, and useless.
        findings: the plan's errors and the traps.
    """

    call: Call
    device: Device | None
    min_bytes: int
    max_bytes: int
    row_bytes: int
    tensors: tuple[Claim, ...]
    beside: tuple[Claim, ...]
    limits: tuple[Limit, ...]
    choices: dict[str, TmpChoice]
    largest_tile_m: int | None
    wrapped: bool
    findings: tuple[Finding, ...]

    @property
    def title(self) -> str:
        """The call in a few words."""
        call, flags = self.call, _flags(self.call)
        shape = "x".join(str(axis) for axis in call.shape)
        kinds = call.element.name if call.sum_element is call.element else f"{call.element}, sums {call.sum_element}"
        return ", ".join([f"{APIS[call.api].title} {shape} {kinds}", *flags])

    @property
    def beside_bytes(self) -> int:
        """UB bytes of what lies beside the temp."""
        return sum(claim.bytes for claim in self.beside)

    @property
    def left_bytes(self) -> int | None:
        """What that leaves under the safe limit; negative if it does not fit; None without a part."""
        return self.limits[-1].left_bytes if self.limits else None

    @property
    def recommended(self) -> TmpChoice:
        """The size to take if nothing else is said: the given one, else the largest that fits, else the minimum."""
        names = [name for name in ("given", "fits", "min") if name in self.choices]
        return self.choices[names[0]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers for JSON."""
        call = self.call
        return {
            "api": call.api,
            "shape": list(call.shape),
            "dtype": call.element.name,
            "sum_dtype": call.sum_element.name,
            "is_front": call.is_front,
            "is_update": call.is_update,
            "is_basic_block": call.is_basic_block,
            "is_flash_output_brc": call.is_flash_output_brc,
            "data_format": call.data_format.value,
            "reuse_source": call.reuse_source,
            "npu_arch": call.npu_arch,
            "soc": None if self.device is None else self.device.name,
            "calibrated": None if self.device is None else self.device.calibrated.value,
            "min_bytes": self.min_bytes,
            "max_bytes": self.max_bytes,
            "row_bytes": self.row_bytes,
            "tensors": {claim.name: claim.bytes for claim in self.tensors},
            "tensor_bytes": sum(claim.bytes for claim in self.tensors),
            "beside": {claim.name: claim.bytes for claim in self.beside},
            "beside_bytes": self.beside_bytes,
            "left_bytes": self.left_bytes,
            "limits": [limit.to_dict() for limit in self.limits],
            "largest_tile_m": self.largest_tile_m,
            "choices": {name: choice.to_dict() for name, choice in self.choices.items()},
            "wrapped": self.wrapped,
            "findings": [finding.to_dict() for finding in self.findings],
        }


def _flags(call: Call) -> list[str]:
    named = {
        "front": call.is_front,
        "update": call.is_update,
        "basic block": call.is_basic_block,
        "sums not broadcast": call.is_flash_output_brc,
        "NZ": call.data_format is DataFormat.NZ,
        "dst on src": call.reuse_source,
    }
    return [name for name, is_set in named.items() if is_set]


def tmp_size(
    api: str,
    shape: Sequence[int],
    data_type: str,
    soc: str | Platform = DEFAULT_SOC,
    *,
    npu_arch: int | None = None,
    sum_type: str | None = None,
    is_front: bool = False,
    is_update: bool = False,
    is_basic_block: bool = False,
    is_flash_output_brc: bool = False,
    data_format: DataFormat | str = DataFormat.ND,
    reuse_source: bool = False,
    beside: Iterable[str] = (),
    tmp_bytes: int | None = None,
) -> TmpSize:
    """Return how big a softmax API's temp must and may be, what fits in UB, and what each size gives and costs.

    Args:
        api: softmaxgrad, softmax, logsoftmax, softmaxflash, softmaxflashv2 or softmaxflashv3.
        shape: axes of the data in UB, padded: the last one whole datablocks.
        data_type: "half" or "float".
        soc: the part.
        npu_arch: an architecture number instead of a part: sizes and tilings only.
        sum_type: dtype of max and sum; as data_type if None, for softmaxflashv3 float.
        is_front: of softmaxgrad, only the row sums.
        is_update: of the Flash APIs.
        is_basic_block: of softmaxflashv2 and v3; of softmaxgrad with is_front, SoftmaxGradFront's.
        is_flash_output_brc: of softmaxflashv2: row results are [m, 1].
        data_format: of softmaxgrad, NZ for [k / 16, m, 16].
        reuse_source: dst lies on src; of the Flash APIs also the new row results on the old ones.
        beside: "NAME=BYTES" or "NAME=BYTESxNUM" of each buffer in UB; none counts the call's own tensors.
        tmp_bytes: a temp that the caller passes; None asks what there is.

    Raises:
        InputError: an input that the API cannot take, or that CANN refuses or logs an error for.
        DeviceError: no such part.
    """
    try:
        axes = tuple(index(axis) for axis in shape)
    except TypeError:
        raise InputError(f"shape {shape!r}: want whole numbers, such as (64, 128)") from None
    kind = dtype(data_type)
    known = api_of(api)
    device = load_device(soc) if npu_arch is None else None
    arch = npu_arch if device is None else device.npu_arch
    assert arch is not None
    if data_format not in [*DataFormat, *(known_format.value for known_format in DataFormat)]:
        raise InputError(f"--format {data_format}: want ND or NZ")
    call = Call(
        api=api.casefold(),
        shape=axes,
        element=kind,
        sum_element=_sum_element(known.title, kind, sum_type),
        npu_arch=arch,
        is_front=is_front,
        is_update=is_update,
        is_basic_block=is_basic_block,
        is_flash_output_brc=is_flash_output_brc,
        data_format=DataFormat(data_format),
        reuse_source=reuse_source,
    )
    flags = {"is_front": is_front, "is_update": is_update, "is_basic_block": is_basic_block}
    flags |= {"is_flash_output_brc": is_flash_output_brc, "sum_element": sum_type is not None}
    flags["data_format"] = call.data_format is not DataFormat.ND
    check_call(call, frozenset(name for name, is_given in flags.items() if is_given))
    claims = parse_claims(beside)
    if claims and device is None:
        raise InputError("--beside: an architecture has no UB to lie in; name a part with --soc")
    if tmp_bytes is not None and tmp_bytes < 1:
        raise InputError(f"--temp {tmp_bytes}: must be at least 1 B")
    return size_call(call, device, claims, tmp_bytes)


def _sum_element(title: str, element: DType, sum_type: str | None) -> DType:
    if sum_type is not None:
        return dtype(sum_type)
    return FLOAT if title == APIS["softmaxflashv3"].title else element


def softmax_grad_tmp_size(
    shape: Sequence[int], element: DType, is_front: bool, npu_arch: int, device: Device | None
) -> TmpSize:
    """Return temp sizes of SoftmaxGrad for a shape; with a device also what fits, and predicted cycles.

    Raises:
        InputError: a shape or dtype that CANN refuses or logs an error for; the text says what CANN would do.
    """
    call = Call("softmaxgrad", tuple(shape), element, element, npu_arch, is_front=is_front)
    check_call(call, frozenset())
    return size_call(call, device, (), None)


def size_call(call: Call, device: Device | None, named: tuple[Claim, ...], tmp_bytes: int | None) -> TmpSize:
    """Return the answer for a call that was checked.

    Args:
        call: the call.
        device: the part, None for sizes and tilings only.
        named: what lies in UB; nothing stands for the call's own tensors.
        tmp_bytes: a temp that the caller passes, or None.
    """
    api = APIS[call.api]
    low, high, wrapped = api.sizes(call)
    row_bytes = FLOAT.bytes * api.row_floats(call)
    tensors = tensor_claims(api.tensors(call))
    beside = named or tensors
    limits = () if device is None else limits_of(device, beside, row_bytes)
    sizes = {"min": low, "max": high}
    if limits and limits[-1].left_bytes >= low:
        sizes["fits"] = max(low, min(high, limits[-1].left_bytes // DATABLOCK_BYTES * DATABLOCK_BYTES))
    if tmp_bytes is not None:
        sizes["given"] = tmp_bytes
    outcomes = {name: api.tiling(call, size) for name, size in sizes.items()}
    predictor = predictor_of(call, device)
    sized = tuple(Sized(NAMES[name], sizes[name], outcome) for name, outcome in outcomes.items())
    planned: tuple[Finding, ...] = ()
    if device is not None and (named or tmp_bytes is not None):
        planned = plan_findings(call, (low, high), beside, device, tmp_bytes)
    return TmpSize(
        call=call,
        device=device,
        min_bytes=low,
        max_bytes=high,
        row_bytes=row_bytes,
        tensors=tensors,
        beside=beside,
        limits=limits,
        choices={name: choice_of(call, predictor, sizes[name], outcome) for name, outcome in outcomes.items()},
        largest_tile_m=None if device is None or named else _largest_tile(call, device),
        wrapped=wrapped,
        findings=planned + traps(call, (low, high), sized, device, wrapped=wrapped),
    )


def predictor_of(call: Call, device: Device | None) -> Predictor | None:
    """Return what predicts cycles of a call; None for an API without a kernel here, and without a part."""
    if device is None or not call.is_grad:
        return None
    return Predictor(device, Form(call.element, call.is_front, call.data_format, call.is_basic_block))


def choice_of(call: Call, predictor: Predictor | None, tmp_bytes: int, outcome: CannOutcome) -> TmpChoice:
    """Return what one size gives."""
    tiling = outcome.tiling
    if tiling is None or not call.is_grad:
        return TmpChoice(tmp_bytes, tiling)
    form = {"is_front": call.is_front, "data_format": call.data_format, "is_basic_block": call.is_basic_block}
    touched = touched_bytes(tiling, call.element, call.npu_arch, **form)  # type: ignore[arg-type]
    works = tiling.split_m > 0 or unit_of(call.npu_arch) is Unit.VECTOR_FUNCTION
    is_possible = predictor is not None and works and tmp_bytes <= predictor.device.ub_bytes
    cycles = predictor.cycles(tiling, tmp_bytes) if predictor is not None and is_possible else None
    return TmpChoice(tmp_bytes, tiling, reserved_bytes(tiling, call.element, call.is_front), touched, cycles)


def _largest_tile(call: Call, device: Device) -> int:
    """Rows that fit under the safe limit with the call's tensors and the minimum temp: the most, by halving."""
    api, safe = APIS[call.api], device.ub.safe_bytes.value
    fits, too_many = 0, min(call.m, safe // (call.k * call.element.bytes)) + 1
    while too_many - fits > 1:
        rows = (fits + too_many) // 2
        smaller = Call(**{name: getattr(call, name) for name in Call.__dataclass_fields__} | {"shape": (rows, call.k)})
        used = sum(claim.bytes for claim in tensor_claims(api.tensors(smaller))) + api.sizes(smaller)[0]
        fits, too_many = (rows, too_many) if used <= safe else (fits, rows)
    return fits // ROW_GROUP * ROW_GROUP if call.is_basic_block else fits
