"""Temp sizes and tilings of the APIs that a plan can name. The numbers are those of `op_host`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ascendsim.errors import InputError
from ascendsim.op_host.softmax import (
    SOFTMAX_GRAD_ARCHS,
    get_soft_max_grad_max_tmp_size,
    get_soft_max_grad_min_tmp_size,
    soft_max_grad_tiling_func,
)
from ascendsim.op_host.softmax_family import (
    get_log_soft_max_max_tmp_size,
    get_log_soft_max_min_tmp_size,
    get_soft_max_flash_max_tmp_size,
    get_soft_max_flash_min_tmp_size,
    get_soft_max_max_tmp_size,
    get_soft_max_min_tmp_size,
    log_soft_max_tiling_func,
    soft_max_flash_tiling_func,
    soft_max_tiling_func,
)
from ascendsim.op_host.softmax_flash_v2 import (
    get_soft_max_flash_v2_max_tmp_size,
    get_soft_max_flash_v2_min_tmp_size,
    soft_max_flash_v2_tiling_func,
)
from ascendsim.op_host.softmax_flash_v3 import get_soft_max_flash_v3_max_min_tmp_size, soft_max_flash_v3_tiling_func
from ascendsim.op_host.softmax_outcome import SoftMaxInputError, SoftMaxTiling
from ascendsim.op_host.softmax_tiles import WHOLE_INPUT_ARCHS
from ascendsim.plan.formulas import Api

_WRAP = 2**32
"""CANN counts bytes in uint32."""


@dataclass(frozen=True, slots=True)
class Call:
    """One API call with its arguments in numbers; `fixed_bytes` for one with a size of its own."""

    name: str
    api: str
    temp: str
    shape: tuple[int, ...]
    element_bytes: int
    sum_element_bytes: int
    flags: Mapping[str, bool]
    npu_arch: int
    fixed_bytes: int | None
    key: str
    """File and key, for messages."""

    @property
    def rows(self) -> int:
        """Rows of the tensor: the product of all axes but the last."""
        return prod(self.shape[:-1])

    @property
    def ignores_tiles(self) -> bool:
        """Whether its kernel works on all rows at once, whatever the tiling says (SoftmaxGrad of 3510 and 5102)."""
        return self.api == "softmax_grad" and self.npu_arch in WHOLE_INPUT_ARCHS

    def sizes(self) -> tuple[int, int]:
        """Return least and most temp bytes.

        Raises:
            InputError: a shape or dtype that CANN refuses or logs an error for.
        """
        if self.fixed_bytes is not None:
            return self.fixed_bytes, self.fixed_bytes
        self._check()
        try:
            return _SIZES[self.api](self)
        except SoftMaxInputError as error:
            raise InputError(f"{self.key}: {error}") from None

    def tiling(self, temp_bytes: int) -> tuple[SoftMaxTiling | None, str]:
        """Return how the call cuts its rows with so much temp, None where nothing does; and what CANN objects to."""
        if self.fixed_bytes is not None:
            return None, ""
        try:
            return _TILINGS[self.api](self, temp_bytes), ""
        except SoftMaxInputError as error:
            return None, str(error)

    def _check(self) -> None:
        if self.api == "softmax_grad" and self.npu_arch not in SOFTMAX_GRAD_ARCHS:
            raise InputError(f"{self.key}: architecture {self.npu_arch} has no SoftmaxGrad")
        bytes_at_most = 4 * (self.rows + 8) * (3 * self.shape[-1] + 256)
        if bytes_at_most >= _WRAP:
            raise InputError(f"{self.key}: shape {list(self.shape)}: CANN's 32-bit arithmetic could overflow")


def call_of(api: Api, names: Mapping[str, int], npu_arch: int) -> Call:
    """Return an API call in numbers.

    Raises:
        InputError: an expression without a value, or an axis below 1.
    """
    source = api.element_bytes
    return Call(
        name=api.name,
        api=api.api,
        temp=api.temp,
        shape=tuple(axis.value_in(names, 1, None, "an axis") for axis in api.shape),
        element_bytes=api.element_bytes.value(names),
        sum_element_bytes=api.sum_element_bytes.value(names),
        flags={name: bool(flag.value(names)) for name, flag in api.flags.items()},
        npu_arch=npu_arch,
        fixed_bytes=None if api.bytes is None else api.bytes.value_in(names, 0, None, "a size"),
        key=f"{source.file}: apis.{api.name}",
    )


Size = Callable[[Sequence[int], int, int], int]


def _plain(least: Size, most: Size) -> Callable[[Call], tuple[int, int]]:
    return lambda c: (
        least(c.shape, c.element_bytes, c.npu_arch),
        most(c.shape, c.element_bytes, c.npu_arch),
    )


def _softmax_grad(c: Call) -> tuple[int, int]:
    arguments = c.shape, c.element_bytes, c.flags["is_front"], c.npu_arch
    return get_soft_max_grad_min_tmp_size(*arguments), get_soft_max_grad_max_tmp_size(*arguments)


def _flash(c: Call) -> tuple[int, int]:
    arguments = c.shape, c.element_bytes, c.flags["is_update"], c.npu_arch
    return get_soft_max_flash_min_tmp_size(*arguments), get_soft_max_flash_max_tmp_size(*arguments)


def _flash_v2(c: Call) -> tuple[int, int]:
    def size(function: Callable[..., int]) -> int:
        return function(
            c.shape,
            c.element_bytes,
            c.sum_element_bytes,
            c.flags["is_update"],
            c.npu_arch,
            is_basic_block=c.flags["is_basic_block"],
            is_flash_output_brc=c.flags["is_flash_output_brc"],
        )

    return size(get_soft_max_flash_v2_min_tmp_size), size(get_soft_max_flash_v2_max_tmp_size)


def _flash_v3(c: Call) -> tuple[int, int]:
    both = get_soft_max_flash_v3_max_min_tmp_size(
        c.shape, c.element_bytes, c.sum_element_bytes, c.flags["is_update"], c.npu_arch
    )
    return both.min_value, both.max_value


def _flash_v2_tiling(c: Call, temp_bytes: int) -> SoftMaxTiling:
    return soft_max_flash_v2_tiling_func(
        c.shape,
        c.element_bytes,
        c.sum_element_bytes,
        temp_bytes,
        c.flags["is_update"],
        is_basic_block=c.flags["is_basic_block"],
        is_flash_output_brc=c.flags["is_flash_output_brc"],
    )


def _flash_v3_tiling(c: Call, temp_bytes: int) -> SoftMaxTiling:
    return soft_max_flash_v3_tiling_func(
        c.shape, c.element_bytes, c.sum_element_bytes, temp_bytes, c.flags["is_update"]
    )


_SIZES: dict[str, Callable[[Call], tuple[int, int]]] = {
    "softmax_grad": _softmax_grad,
    "soft_max": _plain(get_soft_max_min_tmp_size, get_soft_max_max_tmp_size),
    "soft_max_flash": _flash,
    "soft_max_flash_v2": _flash_v2,
    "soft_max_flash_v3": _flash_v3,
    "log_soft_max": _plain(get_log_soft_max_min_tmp_size, get_log_soft_max_max_tmp_size),
}
_TILINGS: dict[str, Callable[[Call, int], SoftMaxTiling]] = {
    "softmax_grad": lambda c, w: soft_max_grad_tiling_func(c.shape, c.element_bytes, w, c.flags["is_front"]),
    "soft_max": lambda c, w: soft_max_tiling_func(c.shape, c.element_bytes, w),
    "soft_max_flash": lambda c, w: soft_max_flash_tiling_func(c.shape, c.element_bytes, w, c.flags["is_update"]),
    "soft_max_flash_v2": _flash_v2_tiling,
    "soft_max_flash_v3": _flash_v3_tiling,
    "log_soft_max": lambda c, w: log_soft_max_tiling_func(c.shape, c.element_bytes, w),
}
