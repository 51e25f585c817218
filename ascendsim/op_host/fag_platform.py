"""What the tiling of FlashAttentionScoreGrad asks the platform for."""

from dataclasses import dataclass
from typing import Final

from ascendsim.device import Device
from ascendsim.errors import InputError

FAG_ARCHS: Final = (2201,)
"""Architectures whose templates are described here; the operator's other templates are for 3510."""

_HIDDEN_L1_BYTES = 256
"""The platform query names an L1 this much smaller than it is."""


@dataclass(frozen=True, slots=True)
class FagPlatform:
    """Core counts, and capacities [bytes] as the platform query gives them.

    Source: asc-devkit, platform_ascendc GetCoreMemSize.
    """

    aic_cores: int
    aiv_cores: int
    ub_bytes: int
    l1_bytes: int
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    l2_bytes: int
    npu_arch: int

    def launch(self, slices: int) -> int:
        """Return blockDim for work cut into `slices` for the AIVs: each block brings all AIVs of one AIC.

        Source: ops-transformer, tiling_base.
        """
        per_block = self.aiv_cores // self.aic_cores
        return -(-slices // per_block) if per_block else slices


def fag_platform(device: Device) -> FagPlatform:
    """Return the device as the tiling sees it.

    Raises:
        InputError: an architecture other than those of `FAG_ARCHS`, or a device without cube cores.
    """
    if device.npu_arch not in FAG_ARCHS:
        raise InputError(
            f"device {device.name}: arch {device.npu_arch}; the FlashAttentionScoreGrad tiling known here is of arch "
            f"{', '.join(map(str, FAG_ARCHS))}, choose a device of Atlas A2 or A3"
        )
    if device.cores.aic.value < 1 or device.aiv < 1:
        raise InputError(f"device {device.name}: {device.cores.aic.value} AIC and {device.aiv} AIV; needs both")
    memory = device.memory
    return FagPlatform(
        aic_cores=device.cores.aic.value,
        aiv_cores=device.aiv,
        ub_bytes=device.ub.visible_bytes.value,
        l1_bytes=memory.l1_bytes.value - _HIDDEN_L1_BYTES,
        l0a_bytes=memory.l0a_bytes.value,
        l0b_bytes=memory.l0b_bytes.value,
        l0c_bytes=memory.l0c_bytes.value,
        l2_bytes=memory.l2_bytes.value,
        npu_arch=device.npu_arch,
    )
