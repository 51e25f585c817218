"""Which templates of FlashAttentionScoreGrad have a kernel, and what each is given."""

from collections.abc import Callable
from typing import Final

from ascendsim.errors import InputError
from ascendsim.op_host.fag_b import b_kernel
from ascendsim.op_host.fag_call import FagCall
from ascendsim.op_host.fag_n import n_kernel
from ascendsim.op_host.fag_result import FagTiling
from ascendsim.op_host.fag_s1s2_bn2 import S1s2Bn2Tiling, s1s2_bn2_kernel
from ascendsim.op_host.fag_s1s2_bn2gs1s2 import S1s2Bn2gs1s2Tiling, s1s2_bn2gs1s2_kernel
from ascendsim.op_host.fag_same_ab import SameAbTiling, same_ab_kernel
from ascendsim.op_host.fag_whole_heads import WholeHeadsTiling

FagKernelTiling = SameAbTiling | S1s2Bn2Tiling | S1s2Bn2gs1s2Tiling | WholeHeadsTiling
"""What a kernel takes."""

KERNELS: Final[dict[str, Callable[[FagCall, FagTiling, tuple[str, ...]], FagKernelTiling]]] = {
    "SameAB": same_ab_kernel,
    "SameAB_deterministic": same_ab_kernel,
    "Ngs1s2_BN": n_kernel,
    "Ungs1s2_B": b_kernel,
    "S1s2Bn2": s1s2_bn2_kernel,
    "S1s2Bn2_deterministic": s1s2_bn2_kernel,
    "S1s2Bn2gs1s2": s1s2_bn2gs1s2_kernel,
}
"""By template: (call as the kernel gets it, its tiling, names of the GM tensors) -> what the kernel takes."""


def kernel_tiling(call: FagCall, tiling: FagTiling, names: tuple[str, ...]) -> FagKernelTiling:
    """Return what the template's kernel takes.

    Args:
        call: as the kernel gets it.
        tiling: of it.
        names: the GM tensors that the kernel is called with.

    Raises:
        InputError: the template has no kernel, or its kernel does not do what the call asks.
    """
    if tiling.template not in KERNELS:
        raise InputError(
            f"template {tiling.template} takes this call, of which there is no kernel yet; longer sequences go to "
            "SameAB, and tiling.template = 15500 asks for it"
        )
    return KERNELS[tiling.template](call, tiling, names)
