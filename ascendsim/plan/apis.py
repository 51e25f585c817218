"""Temp sizes and tilings of the APIs that a plan can name. The numbers are those of `tmpsize`."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ascendsim.dtypes import FLOAT, HALF, DType
from ascendsim.errors import InputError
from ascendsim.op_host.softmax import SOFTMAX_GRAD_ARCHS
from ascendsim.op_host.softmax_outcome import SoftMaxInputError, SoftMaxTiling, tiling_or_raise
from ascendsim.op_host.softmax_tiles import WHOLE_INPUT_ARCHS
from ascendsim.plan.formulas import Api
from ascendsim.tmpsize.apis import APIS
from ascendsim.tmpsize.apis import Call as TmpCall

_WRAP = 2**32
"""CANN counts bytes in uint32."""
_ELEMENTS = {element.bytes: element for element in (HALF, FLOAT)}


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
            least, most, _ = APIS[self._tmp_name].sizes(self._tmp_call())
        except SoftMaxInputError as error:
            raise InputError(f"{self.key}: {error}") from None
        return least, most

    def tiling(self, temp_bytes: int) -> tuple[SoftMaxTiling | None, str]:
        """Return how the call cuts its rows with so much temp, None where nothing does; and what CANN objects to."""
        if self.fixed_bytes is not None:
            return None, ""
        try:
            return tiling_or_raise(APIS[self._tmp_name].tiling(self._tmp_call(), temp_bytes)), ""
        except SoftMaxInputError as error:
            return None, str(error)

    @property
    def element(self) -> DType:
        """Element type of the data; `_check` has refused all but half and float."""
        return _ELEMENTS[self.element_bytes]

    @property
    def _tmp_name(self) -> str:
        """Its name in the table of APIs whose temp is known."""
        return self.api.replace("_", "")

    def _tmp_call(self) -> TmpCall:
        return TmpCall(
            api=self._tmp_name,
            shape=self.shape,
            element=self.element,
            sum_element=_ELEMENTS[self.sum_element_bytes],
            npu_arch=self.npu_arch,
            is_front=self.flags["is_front"],
            is_update=self.flags["is_update"],
            is_basic_block=self.flags["is_basic_block"],
            is_flash_output_brc=self.flags["is_flash_output_brc"],
        )

    def _check(self) -> None:
        for element_bytes in (self.element_bytes, self.sum_element_bytes):
            if element_bytes not in _ELEMENTS:
                raise InputError(f"{self.key}: elements of {element_bytes} B: want half or float")
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
