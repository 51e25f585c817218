"""Names of AscendC, so that a kernel that asks for one which is not modelled is told so."""

import difflib
from collections.abc import Iterable

ASCENDC = (
    *("Abs", "Add", "AddDeqRelu", "AddRelu", "AddReluCast", "Adds", "And", "Ands", "Axpy", "Cast", "CastDeq", "Div"),
    *("Divs", "Exp", "FusedMulAdd", "FusedMulAddRelu", "LeakyRelu", "Ln", "Max", "Maxs", "Min", "Mins", "Mul"),
    *("MulAddDst", "MulAddRelu", "MulCast", "Muls", "Neg", "Not", "Or", "Ors", "Prelu", "Reciprocal", "Relu", "Rsqrt"),
    *("ShiftLeft", "ShiftRight", "Sqrt", "Sub", "SubRelu", "SubReluCast", "Subs", "BilinearInterpolation"),
    *("BlockReduceMax", "BlockReduceMin", "BlockReduceSum", "PairReduceSum", "ReduceDataBlock", "ReduceMax"),
    *("ReduceMin", "ReducePairElem", "ReduceRepeat", "ReduceSum", "RepeatReduceSum", "WholeReduceMax"),
    *("WholeReduceMin", "WholeReduceSum", "GetAccVal", "GetReduceMaxMinCount", "GetReduceRepeatSumSpr"),
    *("Compare", "CompareScalar", "Compares", "GetCmpMask", "SetCmpMask", "Select", "Selects", "Gather"),
    *("GatherMask", "Gatherb", "GetGatherMaskRemainCount", "Scatter", "Interleave", "DeInterleave"),
    *("Brcb", "Copy", "CreateVecIndex", "DataCopy", "DataCopyPad", "Duplicate", "TransDataTo5HD", "Transpose"),
    *("Sort", "Sort32", "MrgSort", "MrgSort4", "RpSort16", "ProposalConcat", "ProposalExtract", "Concat", "Extract"),
    *("Mmad", "MmadWithSparse", "Gemm", "Conv2D", "LoadData", "LoadDataWithTranspose", "LoadDataWithSparse"),
    *("LoadImageToLocal", "Fixpipe", "SetFixPipeConfig", "SetFixpipeNz2ndFlag", "SetFixpipePreQuantFlag", "Fill"),
    *("SetLoadDataBoundary", "SetLoadDataPaddingValue", "SetLoadDataRepeat", "SetHF32Mode", "SetHF32TransMode"),
    *("BroadCastVecToMM", "BroadCast", "Broadcast", "Matmul", "IterateAll", "GetTensorC"),
    *("SetAtomicAdd", "SetAtomicMax", "SetAtomicMin", "SetAtomicNone", "SetAtomicType"),
    *("CrossCoreSetFlag", "CrossCoreWaitFlag", "IBSet", "IBWait", "SyncAll", "NotifyNextBlock", "WaitPreBlock"),
    *("SetFlag", "WaitFlag", "PipeBarrier", "DataSyncBarrier", "DataCacheCleanAndInvalid", "DataCachePreload"),
    *("GetBlockIdx", "GetBlockNum", "GetSubBlockIdx", "GetSubBlockNum", "GetTaskRation", "GetSystemCycle"),
    *("GetProgramCounter", "GetDataBlockSizeInBytes", "GetArchVersion", "GetWorkspace", "ScalarCast"),
    *("SetMaskCount", "SetMaskNorm", "SetVectorMask", "ResetMask", "SetSaturationFlag", "SetCtrlSpr", "GetCtrlSpr"),
    *("SetDeqScale", "SetAippFunctions", "DumpTensor", "DumpAccChkPoint", "PrintTimeStamp", "Trap"),
    *("SoftMax", "SimpleSoftMax", "SoftmaxFlash", "SoftmaxFlashV2", "SoftmaxFlashV3", "SoftmaxGrad"),
    *("SoftmaxGradFront", "AdjustSoftMaxRes", "LogSoftMax", "LayerNorm", "LayerNormGrad", "LayerNormGradBeta"),
    *("RmsNorm", "BatchNorm", "GroupNorm", "DeepNorm", "Normalize", "WelfordUpdate", "WelfordFinalize", "Gelu"),
    *("FasterGelu", "FasterGeluV2", "GeGLU", "SwiGLU", "ReGlu", "Silu", "Swish", "Sigmoid", "Tanh", "Sin", "Cos"),
    *("Tan", "Sinh", "Cosh", "Asin", "Acos", "Atan", "Asinh", "Acosh", "Atanh", "Erf", "Erfc", "Log", "Log2"),
    *("Log10", "Power", "Pow", "Sign", "Floor", "Ceil", "Round", "Trunc", "Frac", "Fmod", "Lgamma", "Digamma"),
    *("Clamp", "ClampMax", "ClampMin", "CumSum", "Mean", "Sum", "Xor", "TopK", "Arange", "ArithProgression"),
    *("Pad", "UnPad", "DropOut", "SelectWithBytesMask", "ConfusionTranspose", "TransData", "AscendQuant"),
    *("AscendDequant", "AscendAntiQuant", "Hcomm", "AllReduce", "AllGather", "ReduceScatter", "InitGlobalMemory"),
)  # fmt: skip
"""Functions of AscendC that a vector kernel may look for (asc-devkit docs, list of APIs); some of them are modelled."""


CALLED_HERE = {
    "ReduceDataBlock": ("block_reduce_sum", "block_reduce_max", "block_reduce_min"),
    "ReduceRepeat": ("whole_reduce_sum", "whole_reduce_max", "whole_reduce_min"),
    "ReducePairElem": ("pair_reduce_sum",),
}
"""Newer names of AscendC for what is modelled under its older ones (asc-devkit docs, reduction pages)."""


def _key(name: str) -> str:
    return name.replace("_", "").lower()


_BY_KEY = {_key(name): name for name in ASCENDC}


def ascendc_name(name: str) -> str:
    """Return AscendC's spelling of a name in snake_case or CamelCase; "" if AscendC has none like it."""
    return _BY_KEY.get(_key(name), "")


def called_here(api: str) -> str:
    """Return what the calls of a renamed function of AscendC are here, "a, b or c"; "" if it has not been renamed."""
    *others, last = CALLED_HERE.get(api, ("",))
    return f"{', '.join(others)} or {last}" if others else last


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return up to two known names that look like this one, the nearest first."""
    by_key = {_key(k): k for k in sorted(known)}
    return [by_key[k] for k in difflib.get_close_matches(_key(name), by_key, n=2, cutoff=0.75)]
