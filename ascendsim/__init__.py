"""ascendsim: AscendC operators on simulated Ascend AI Cores, from one scenario file.

The public names are imported on first use, so that `ascendsim --help` does not pay for NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ascendsim.api import softmax_grad, softmax_grad_front
    from ascendsim.device import Platform, load_device
    from ascendsim.errors import AscendSimError, Deadlock, DeviceError, Finding, InputError, KernelError, Rejected
    from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
    from ascendsim.isa.move import (
        BrcbRepeatParams,
        CopyRepeatParams,
        DataCopyExtParams,
        DataCopyPadExtParams,
        DataCopyParams,
    )
    from ascendsim.isa.transpose import TransDataTo5HDParams
    from ascendsim.machine import check, run
    from ascendsim.record import tile
    from ascendsim.result import RunResult
    from ascendsim.runfolder import load_run
    from ascendsim.scenario import load_scenario
    from ascendsim.terms import DataFormat, HardEvent, Pipe, RoundMode, TPosition

__version__ = "0.1.0"

_HOME = {
    "softmax_grad": "api",
    "softmax_grad_front": "api",
    "Platform": "device",
    "load_device": "device",
    "AscendSimError": "errors",
    "Deadlock": "errors",
    "DeviceError": "errors",
    "EnginesDiffer": "errors",
    "Finding": "errors",
    "InputError": "errors",
    "KernelError": "errors",
    "PainterError": "errors",
    "Rejected": "errors",
    "BinaryRepeatParams": "isa.forms",
    "UnaryRepeatParams": "isa.forms",
    "BrcbRepeatParams": "isa.move",
    "CopyRepeatParams": "isa.move",
    "DataCopyExtParams": "isa.move",
    "DataCopyPadExtParams": "isa.move",
    "DataCopyParams": "isa.move",
    "TransDataTo5HDParams": "isa.transpose",
    "check": "machine",
    "run": "machine",
    "tile": "record",
    "RunResult": "result",
    "load_run": "runfolder",
    "load_scenario": "scenario",
    "DataFormat": "terms",
    "HardEvent": "terms",
    "Pipe": "terms",
    "RoundMode": "terms",
    "TPosition": "terms",
}

__all__ = [
    "AscendSimError",
    "BinaryRepeatParams",
    "BrcbRepeatParams",
    "CopyRepeatParams",
    "DataCopyExtParams",
    "DataCopyPadExtParams",
    "DataCopyParams",
    "DataFormat",
    "Deadlock",
    "DeviceError",
    "EnginesDiffer",
    "Finding",
    "HardEvent",
    "InputError",
    "KernelError",
    "PainterError",
    "Pipe",
    "Platform",
    "Rejected",
    "RoundMode",
    "RunResult",
    "TPosition",
    "TransDataTo5HDParams",
    "UnaryRepeatParams",
    "check",
    "load_device",
    "load_run",
    "load_scenario",
    "run",
    "softmax_grad",
    "softmax_grad_front",
    "tile",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ascendsim' has no attribute {name!r}")
    return getattr(import_module(f"ascendsim.{_HOME[name]}"), name)
