"""ascendsim: AscendC operators on simulated Ascend AI Cores, from one scenario file.

The public names are imported on first use, so that `ascendsim --help` does not pay for NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ascendsim import atb, fag, lag, plot
    from ascendsim.api import softmax_grad, softmax_grad_front
    from ascendsim.device import Platform, load_device
    from ascendsim.errors import AscendSimError, Deadlock, DeviceError, Finding, InputError, KernelError, Rejected
    from ascendsim.isa.cube_out import DataCopyEnhancedParams
    from ascendsim.isa.declared import Cost, instruction
    from ascendsim.isa.fixpipe import FixpipeParamsV220
    from ascendsim.isa.forms import BinaryRepeatParams, UnaryRepeatParams
    from ascendsim.isa.gather import GatherRepeatParams
    from ascendsim.isa.gather_mask import GatherMaskParams
    from ascendsim.isa.load import LoadData2DParams, LoadData2dTransposeParams, LoadData3DParamsV2
    from ascendsim.isa.mmad import MmadParams
    from ascendsim.isa.move import (
        BrcbRepeatParams,
        CopyRepeatParams,
        DataCopyExtParams,
        DataCopyPadExtParams,
        DataCopyParams,
    )
    from ascendsim.isa.nd2nz import Nd2NzParams
    from ascendsim.isa.transpose import TransDataTo5HDParams
    from ascendsim.machine import check, run
    from ascendsim.record import process, tile
    from ascendsim.rerun import load_run
    from ascendsim.result import RunResult
    from ascendsim.scenario import load_scenario
    from ascendsim.terms import (
        BlockMode,
        CacheMode,
        CmpMode,
        CO2Layout,
        DataFormat,
        HardEvent,
        KernelType,
        Pipe,
        QuantMode,
        ReduceOrder,
        RoundMode,
        SelMode,
        TPosition,
    )
    from ascendsim.tmpsize import tmp_curve, tmp_size
    from ascendsim.tuner import tune
    from ascendsim.versus import compare, compare_outputs, compare_trace

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
    "Cost": "isa.declared",
    "instruction": "isa.declared",
    "BinaryRepeatParams": "isa.forms",
    "UnaryRepeatParams": "isa.forms",
    "GatherMaskParams": "isa.gather_mask",
    "GatherRepeatParams": "isa.gather",
    "BrcbRepeatParams": "isa.move",
    "CopyRepeatParams": "isa.move",
    "DataCopyExtParams": "isa.move",
    "DataCopyPadExtParams": "isa.move",
    "DataCopyParams": "isa.move",
    "TransDataTo5HDParams": "isa.transpose",
    "check": "machine",
    "run": "machine",
    "process": "record",
    "tile": "record",
    "RunResult": "result",
    "load_run": "rerun",
    "load_scenario": "scenario",
    "CmpMode": "terms",
    "DataFormat": "terms",
    "HardEvent": "terms",
    "Pipe": "terms",
    "ReduceOrder": "terms",
    "RoundMode": "terms",
    "SelMode": "terms",
    "TPosition": "terms",
    "BlockMode": "terms",
    "CacheMode": "terms",
    "CO2Layout": "terms",
    "KernelType": "terms",
    "QuantMode": "terms",
    "DataCopyEnhancedParams": "isa.cube_out",
    "FixpipeParamsV220": "isa.fixpipe",
    "LoadData2DParams": "isa.load",
    "LoadData2dTransposeParams": "isa.load",
    "LoadData3DParamsV2": "isa.load",
    "MmadParams": "isa.mmad",
    "Nd2NzParams": "isa.nd2nz",
    "tmp_curve": "tmpsize",
    "tmp_size": "tmpsize",
    "tune": "tuner",
    "compare": "versus",
    "compare_outputs": "versus",
    "compare_trace": "versus",
}

_MODULES = ("atb", "fag", "lag", "plot")
"""Modules that are public themselves."""

__all__ = [
    "AscendSimError",
    "BinaryRepeatParams",
    "BlockMode",
    "BrcbRepeatParams",
    "CO2Layout",
    "CacheMode",
    "CmpMode",
    "CopyRepeatParams",
    "Cost",
    "DataCopyEnhancedParams",
    "DataCopyExtParams",
    "DataCopyPadExtParams",
    "DataCopyParams",
    "DataFormat",
    "Deadlock",
    "DeviceError",
    "EnginesDiffer",
    "Finding",
    "FixpipeParamsV220",
    "GatherMaskParams",
    "GatherRepeatParams",
    "HardEvent",
    "InputError",
    "KernelError",
    "KernelType",
    "LoadData2DParams",
    "LoadData2dTransposeParams",
    "LoadData3DParamsV2",
    "MmadParams",
    "Nd2NzParams",
    "PainterError",
    "Pipe",
    "Platform",
    "QuantMode",
    "ReduceOrder",
    "Rejected",
    "RoundMode",
    "RunResult",
    "SelMode",
    "TPosition",
    "TransDataTo5HDParams",
    "UnaryRepeatParams",
    "atb",
    "check",
    "compare",
    "compare_outputs",
    "compare_trace",
    "fag",
    "instruction",
    "lag",
    "load_device",
    "load_run",
    "load_scenario",
    "plot",
    "process",
    "run",
    "softmax_grad",
    "softmax_grad_front",
    "tile",
    "tmp_curve",
    "tmp_size",
    "tune",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"ascendsim.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'ascendsim' has no attribute {name!r}")
    return getattr(import_module(f"ascendsim.{_HOME[name]}"), name)
