"""Areas of SameAB's workspace that begin elsewhere than the operator has them: what an unaligned begin costs."""

from dataclasses import fields, replace

from ascendsim.errors import InputError
from ascendsim.op_host.fag_kernels import FagKernelTiling
from ascendsim.op_host.fag_parts import FLOAT_BYTES
from ascendsim.op_host.fag_same_ab import GmAreas, SameAbTiling


def shifted(tiling: FagKernelTiling, shift_bytes: int) -> FagKernelTiling:
    """Return a tiling all of whose areas begin so many bytes later, in a workspace that is as much longer.

    Args:
        tiling: what a kernel takes.
        shift_bytes: whole datablocks; the operator's own areas begin at multiples of 512 B.

    Raises:
        InputError: another template than SameAB has the call.
    """
    if not shift_bytes:
        return tiling
    if not isinstance(tiling, SameAbTiling):
        raise InputError(
            f"tiling.workspace_shift_bytes = {shift_bytes}: only template SameAB (15500) moves its areas; leave it out"
        )
    floats = shift_bytes // FLOAT_BYTES
    starts = {f.name: getattr(tiling.areas, f.name) for f in fields(GmAreas)}
    moved = {name: None if at is None else at + floats for name, at in starts.items()}
    return replace(tiling, areas=replace(tiling.areas, **moved), workspace_bytes=tiling.workspace_bytes + shift_bytes)
