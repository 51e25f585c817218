"""FlashAttentionScoreGrad: the kernel of the template that took the call."""

from ascendsim.memory import GlobalTensor
from ascendsim.op_host.fag_kernels import FagKernelTiling
from ascendsim.op_host.fag_s1s2_bn2 import S1s2Bn2Tiling
from ascendsim.op_host.fag_s1s2_bn2gs1s2 import S1s2Bn2gs1s2Tiling
from ascendsim.op_host.fag_whole_heads import WholeHeadsTiling
from ascendsim.op_kernel.fag_b import fag_b
from ascendsim.op_kernel.fag_n import fag_n
from ascendsim.op_kernel.fag_s1s2_bn2 import fag_s1s2_bn2
from ascendsim.op_kernel.fag_s1s2_bn2gs1s2 import fag_s1s2_bn2gs1s2
from ascendsim.op_kernel.fag_same_ab import fag_same_ab
from ascendsim.op_kernel.fag_tensors import Tensors
from ascendsim.record import AiCore


def flash_attention_score_grad(asc: AiCore, *arguments: GlobalTensor | FagKernelTiling) -> None:
    """Run on one core.

    Args:
        asc: the core.
        arguments: the tensors that the tiling names, then the tiling.

    Raises:
        KernelError: block_dim is not the tiling's.
    """
    *given, t = arguments
    assert not isinstance(t, GlobalTensor)
    gm = Tensors(**{name: x for name, x in zip(t.names, given, strict=True) if isinstance(x, GlobalTensor)})
    if isinstance(t, WholeHeadsTiling):
        (fag_n if t.split.axis == "head" else fag_b)(asc, gm, t)
    elif isinstance(t, S1s2Bn2Tiling):
        fag_s1s2_bn2(asc, gm, t)
    elif isinstance(t, S1s2Bn2gs1s2Tiling):
        fag_s1s2_bn2gs1s2(asc, gm, t)
    else:
        fag_same_ab(asc, gm, t)
