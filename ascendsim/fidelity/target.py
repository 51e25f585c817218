"""Which device a measurement is compared with."""

from functools import lru_cache

from ascendsim.device import Device, device_names, load_device
from ascendsim.fidelity.measured import Measured, MeasuredKernel, Uncovered

_DEFAULT = {2201: "Ascend910B1", 3510: "Ascend950PR_9589"}
"""Where the source names a family of parts only."""


def device_of(row: Measured | MeasuredKernel) -> Device:
    """Return the part that a measurement names, else the usual one of its architecture.

    Raises:
        Uncovered: no part of that architecture is calibrated here, or the part that is named has another one.
    """
    if row.soc in device_names():
        device = _device(row.soc)
        if device.npu_arch != row.arch:
            raise Uncovered(f"the row says architecture {row.arch}; {row.soc} has {device.npu_arch}")
        return device
    if row.arch not in _DEFAULT:
        raise Uncovered(f"architecture {row.arch} has no calibrated device")
    return _device(_DEFAULT[row.arch])


@lru_cache(maxsize=8)
def _device(name: str) -> Device:
    return load_device(name)
