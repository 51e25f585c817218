"""Looking at a tensor while a kernel runs: DumpTensor and DumpAccChkPoint.

Source: asc-devkit docs, DumpTensor and DumpAccChkPoint pages; general constraints page for alignment.
"""

from collections.abc import Sequence
from typing import cast

from ascendsim.isa.cube_rules import aligned_to_memory
from ascendsim.isa.forms import Call, Form, declare
from ascendsim.isa.instruction import Context, Recorder, Row, Step, need_int, need_tensor, touch_nothing
from ascendsim.memory import GlobalTensor, Lanes, LocalTensor, Tensor
from ascendsim.terms import Buffer, Pipe

MOST_AXES = 8
"""Axes of a ShapeInfo."""
MOST_DUMP_BYTES = 1 << 20
"""What one call prints at most; of a longer one the real library prints nothing."""
PARAMS = ("desc", "dump_size", *(f"axis{i}" for i in range(MOST_AXES)))
"""Parameters of a row: the number that tells dumps apart, elements, axes of the shape to print (0 for none)."""
_PRINTED = (Buffer.UB, Buffer.L1, Buffer.L0C)
"""On-chip memories that DumpTensor prints."""
_WORD = 1 << 32


def shape_of(row: Row) -> tuple[int, ...]:
    """Return the shape that a dump is printed in; () for one row."""
    return tuple(axis for axis in row.params[2:] if axis)


def _run_dump(ctx: Context, row: Row) -> Step:
    assert row.src0 is not None
    return ctx.dumper(row.src0, Lanes.run(row.param("dump_size") * row.src0.dtype.bytes))


class DumpTensorCall(Call):
    """tensor, desc, dump_size in elements, shape_info."""

    def __call__(self, tensor: Tensor, desc: int, dump_size: int, shape_info: Sequence[int] = ()) -> None:
        """Record the call."""
        need_tensor(self.asc, self.op.api, "tensor", tensor)
        need_int(self.asc, self.op.api, "desc", desc)
        need_int(self.asc, self.op.api, "dump_size", dump_size)
        if not 0 <= desc < _WORD:
            raise self.asc.fail(f"{self.op.api}: desc is {desc}, want 0 to {_WORD - 1} (uint32_t)")
        self._check_length(tensor, dump_size)
        axes = self._axes(shape_info)
        self._check_memory(tensor)
        self.asc.emit(self.op, src0=tensor, params=(desc, dump_size, *axes, *(0,) * (MOST_AXES - len(axes))))

    def _check_length(self, tensor: Tensor, count: int) -> None:
        if count < 1:
            raise self.asc.fail(f"{self.op.api}: dump_size is {count}, want at least 1 element")
        length_bytes = count * tensor.dtype.bytes
        if length_bytes > MOST_DUMP_BYTES:
            raise self.asc.fail(
                f"{self.op.api}: {count} elements are {length_bytes} B; one call prints at most {MOST_DUMP_BYTES} B, "
                "and nothing of a longer one"
            )
        if isinstance(tensor, LocalTensor) and count > tensor.count:
            raise self.asc.fail(
                f"{self.op.api}: dump_size is {count}, {tensor.name} has {max(0, tensor.count)} elements from there on"
            )

    def _axes(self, shape_info: Sequence[int]) -> tuple[int, ...]:
        is_shape = isinstance(shape_info, Sequence) and not isinstance(shape_info, str)
        whole = is_shape and all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in shape_info)
        if not whole or len(shape_info) > MOST_AXES:
            raise self.asc.fail(
                f"{self.op.api}: shape_info is {shape_info!r}, want up to {MOST_AXES} axes of at least 1 element"
            )
        return tuple(shape_info)

    def _check_memory(self, tensor: Tensor) -> None:
        if isinstance(tensor, GlobalTensor):
            return
        place = self.asc.buffer_of(tensor)
        if place not in _PRINTED:
            names = ", ".join(b.name for b in _PRINTED)
            raise self.asc.fail(
                f"{self.op.api}: {tensor.name} lies in {place.name}; DumpTensor prints what is in {names} and GM"
            )


class DumpInstructions:
    """DumpTensor and DumpAccChkPoint."""

    dump_tensor = Form(
        declare(
            "dump_tensor",
            """Print elements of a tensor in UB, L1, L0C or GM, with a number that tells dumps apart.

            Here it takes no time and orders nothing. The real one waits for all pipes, copies the elements, padded to
            32 B, and a head of 32 B to GM, waits for all pipes again and writes the data cache back: it costs time, and
            may hide a missing flag. Values are those that its barrier would let it see: what every row before it has
            left. Source: asc-devkit docs, DumpTensor page.
            """,
            api="DumpTensor",
            mnemonic="dump_tensor",
            pipe=Pipe.S,
            params=PARAMS,
            cost="scalar",
            family="dump",
            execute=_run_dump,
            touch=touch_nothing,
            checks=(aligned_to_memory,),
            uses_mask=False,
        ),
        DumpTensorCall,
    )

    def dump_acc_chk_point(self, tensor: Tensor, index: int, count_off: int, dump_size: int) -> None:
        """Print elements of a tensor from `count_off` on (DumpAccChkPoint); `index` as `desc` of dump_tensor."""
        asc = cast("Recorder", self)
        need_tensor(asc, "DumpAccChkPoint", "tensor", tensor)
        need_int(asc, "DumpAccChkPoint", "count_off", count_off)
        if count_off < 0:
            raise asc.fail(f"DumpAccChkPoint: count_off is {count_off}, want 0 or more")
        form = DumpInstructions.dump_tensor
        form.call(asc, form.op)(tensor[count_off], index, dump_size)
