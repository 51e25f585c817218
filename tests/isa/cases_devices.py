"""Rules whose outcome differs between architectures, each broken once."""

from lane_harness import local

from ascendsim.device import load_device
from ascendsim.isa import convert, rules
from ascendsim.terms import ReduceOrder, RoundMode

A310P, A310B, A950 = (load_device(n) for n in ("Ascend310P3", "Ascend310B1", "Ascend950PR_9579"))
F, G, H = local("f", "float", 0x400, 1024), local("g", "float", 0x800, 1024), local("h", "half", 0xC00, 1024)
I32, J32 = local("i", "int32_t", 0x1000, 1024), local("j", "int32_t", 0x1400, 1024)
BF, CF = local("w", "bfloat16_t", 0x3000, 64), local("v", "bfloat16_t", 0x3100, 64)
ORDERS = "asc-devkit, ReduceRepeat page, orders of this product"

CASES = []
"""(rule, kernel that breaks it, messages, kernels that keep it, device)."""


def case(rule, broken, *messages, kept=(), device):
    CASES.append((rule, broken, messages, kept if isinstance(kept, tuple) else (kept,), device))


def order(name, which):
    return lambda asc, *_: getattr(asc, name)(F, G, 64, 1, 1, 1, 8, ReduceOrder[f"ORDER_{which}"])


for api, name in (("WholeReduceMax", "whole_reduce_max"), ("WholeReduceMin", "whole_reduce_min")):
    for device, text, lacks, has in (
        (A310P, "Ascend310P3 (arch 2002)", ("ONLY_VALUE", "ONLY_INDEX"), ("VALUE_INDEX", "INDEX_VALUE")),
        (A310B, "Ascend310B1 (arch 3002)", ("INDEX_VALUE", "ONLY_INDEX"), ("VALUE_INDEX", "ONLY_VALUE")),
    ):
        for which in lacks:
            case(
                rules.API_PRODUCT,
                order(name, which),
                f"{api} with ORDER_{which} is no instruction of {text}: {ORDERS}",
                kept=tuple(order(name, w) for w in has),
                device=device,
            )

case(
    rules.API_PRODUCT,
    lambda asc, *_: asc.gather_mask(F, G, 7, False, 0),
    "GatherMask pattern 7 is no instruction of Ascend310P3 (arch 2002): asc-devkit, GatherMask page: patterns 1 to 6",
    kept=tuple(lambda asc, *_, p=p: asc.gather_mask(F, G, p, False, 0) for p in range(1, 7)),
    device=A310P,
)
case(
    rules.API_PRODUCT,
    lambda asc, *_: (asc.set_deq_scale(1.0), asc.add_deq_relu(H, I32, J32, 64)),
    "AddDeqRelu is no instruction of Ascend310B1 (arch 3002): asc-devkit, AddDeqRelu page, product table",
    device=A310B,
)
case(
    rules.API_PRODUCT,
    lambda asc, *_: asc.set_cmp_mask(F),
    "SetCmpMask is no instruction of Ascend310B1 (arch 3002): asc-devkit, SetCmpMask page, product table",
    device=A310B,
)
case(
    rules.DTYPE_BF16,
    lambda asc, *_: asc.exp(CF, BF, 16),
    "Exp dst: arch 2002 has no bfloat16_t arithmetic",
    "Exp src0: arch 2002 has no bfloat16_t arithmetic",
    kept=lambda asc, *_: asc.exp(F, G, 16),
    device=A310P,
)
case(
    rules.DTYPE_BF16,
    lambda asc, *_: asc.axpy(CF, BF, 1.0, 16),
    "Axpy dst: arch 3002 has no bfloat16_t arithmetic",
    "Axpy src0: arch 3002 has no bfloat16_t arithmetic",
    kept=lambda asc, *_: asc.axpy(F, G, 1.0, 16),
    device=A310B,
)
case(
    rules.BF16_NOT_MODELLED,
    lambda asc, *_: asc.adds(CF, BF, 1.0, 16),
    "Adds dst: the bfloat16_t arithmetic of arch 3510 is not modelled",
    "Adds src0: the bfloat16_t arithmetic of arch 3510 is not modelled",
    kept=lambda asc, *_: (asc.adds(F, G, 1.0, 16), asc.cast(F, BF, RoundMode.CAST_NONE, 16)),
    device=A950,
)
case(
    convert.CAST_UNDOCUMENTED,
    lambda asc, *_: asc.cast(I32, F, RoundMode.CAST_RINT, 64),
    "Cast: float->int32_t is in the library's code for arch 2002, not on the page",
    kept=lambda asc, *_: asc.cast(H, F, RoundMode.CAST_NONE, 64),
    device=A310P,
)
