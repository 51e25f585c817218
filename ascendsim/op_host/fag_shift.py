"""Areas of SameAB's workspace that begin elsewhere than the operator has them: what an unaligned begin costs."""

from dataclasses import replace
from typing import Final

from ascendsim.errors import InputError
from ascendsim.op_host.fag_kernels import FagKernelTiling
from ascendsim.op_host.fag_parts import FLOAT_BYTES
from ascendsim.op_host.fag_same_ab import SameAbTiling
from ascendsim.terms import DATABLOCK_BYTES

SHIFT_STEP_BYTES: Final = DATABLOCK_BYTES
"""Areas begin at whole datablocks, or copies to UB could not take them."""


def shifted(tiling: FagKernelTiling, shift_bytes: int) -> FagKernelTiling:
    """Return a tiling all of whose areas begin so many bytes later, in a workspace that is as much longer.

    Args:
        tiling: what a kernel takes.
        shift_bytes: whole datablocks; the operator's own areas begin at multiples of 512 B.

    Raises:
        InputError: another template than SameAB has the call, or its sums are deterministic.
    """
    if not shift_bytes:
        return tiling
    if not isinstance(tiling, SameAbTiling) or tiling.private:
        raise InputError(
            f"tiling.workspace_shift_bytes = {shift_bytes}: only template SameAB (15500) without deterministic sums "
            "moves its areas; leave it out"
        )
    areas, floats = tiling.areas, shift_bytes // FLOAT_BYTES
    moved = replace(
        areas,
        dq=areas.dq + floats,
        dk=areas.dk + floats,
        dv=areas.dv + floats,
        row_term=areas.row_term + floats,
        d_a=areas.d_a + floats,
        scores=areas.scores + floats,
        kept=None if areas.kept is None else areas.kept + floats,
    )
    return replace(tiling, areas=moved, workspace_bytes=tiling.workspace_bytes + shift_bytes)
