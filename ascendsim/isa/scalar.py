"""The scalar unit: mask set-up and reading one element into a register."""

from typing import cast

from ascendsim.isa import rules
from ascendsim.isa.forms import MASK_OPS, Call, Form, declare, declare_setter, set_mask, set_mask_mode
from ascendsim.isa.instruction import Context, Recorder, Register, Row, Step, need_int, run_nothing, touch_nothing
from ascendsim.memory import Lanes, LocalTensor
from ascendsim.terms import FULL_MASK, MaskMode, Pipe


def _touch_element(row: Row) -> tuple[tuple[str, int, int], ...]:
    assert row.src0 is not None
    return (("src0", 0, row.src0.dtype.bytes),)


def _run_get_value(ctx: Context, row: Row) -> Step:
    assert row.src0 is not None
    read, keep = ctx.reader(row.src0, Lanes.run(1)), ctx.register(row)
    return lambda: keep(read()[0])


MASK_OPS |= {
    "count": declare_setter("set_mask_count", "Counter mode. Source: asc-devkit docs, SetMaskCount page."),
    "norm": declare_setter("set_mask_norm", "Normal mode. Source: asc-devkit docs, SetMaskNorm page."),
    "mask": declare_setter(
        "set_vector_mask", "Set the 128-bit vector mask. Source: asc-devkit docs, SetVectorMask page."
    ),
}


class GetValueCall(Call):
    """tensor, index in elements; returns a Register."""

    def __call__(self, tensor: LocalTensor, index: int = 0) -> Register:
        """Record the call."""
        self.locals(tensor=tensor)
        need_int(self.asc, self.op.api, "index", index)
        register = self.asc.new_register(tensor.dtype)
        self.asc.emit(self.op, src0=tensor[index], scalar=register)
        return register


class ScalarWorkCall(Call):
    """cycles."""

    def __call__(self, cycles: int) -> None:
        """Record the call."""
        need_int(self.asc, "scalar_work", "cycles", cycles)
        if cycles < 0:
            raise self.asc.fail(f"scalar_work: cycles is {cycles}, want 0 or more")
        self.asc.emit(self.op, params=(cycles,))


class ScalarInstructions:
    """SetMaskCount, SetMaskNorm, SetVectorMask, ResetMask, GetValue, and work that has no name."""

    scalar_work = Form(
        declare(
            "scalar_work",
            """Keep the scalar unit busy for a number of cycles: address arithmetic and loops of code that is not here.

            No instruction of AscendC. It stands for what a library does between the instructions it issues, whose
            cycles are known from measurements. Source: asc-devkit, matmul_high_performance example: scalar time is part
            of every iteration of the Matmul library.
            """,
            api="",
            mnemonic="scalar_work",
            pipe=Pipe.S,
            params=("cycles",),
            cost="scalar",
            family="work",
            execute=run_nothing,
            touch=touch_nothing,
            checks=(),
            uses_mask=False,
        ),
        ScalarWorkCall,
    )

    get_value = Form(
        declare(
            "get_value",
            """Read one element of UB into a scalar register, on the scalar unit.

            Source: asc-devkit docs, LocalTensor GetValue page.
            """,
            api="GetValue",
            mnemonic="scalar_load",
            pipe=Pipe.S,
            params=(),
            cost="scalar",
            family="get_value",
            execute=_run_get_value,
            touch=_touch_element,
            checks=(rules.element_aligned, rules.in_bounds),
            uses_mask=False,
        ),
        GetValueCall,
    )

    def set_mask_count(self) -> None:
        """Read the mask as a count of elements from now on."""
        set_mask_mode(self, MaskMode.COUNTER)  # type: ignore[arg-type]

    def set_mask_norm(self) -> None:
        """Read the mask as a bit per lane from now on."""
        set_mask_mode(self, MaskMode.NORMAL)  # type: ignore[arg-type]

    def set_vector_mask(self, mask_high: int, mask_low: int) -> None:
        """Set the mask register's two 64-bit words."""
        asc = cast("Recorder", self)
        for arg, word in (("mask_high", mask_high), ("mask_low", mask_low)):
            need_int(asc, "SetVectorMask", arg, word)
        set_mask(asc, mask_high, mask_low)

    def reset_mask(self) -> None:
        """Set every bit of the mask register."""
        set_mask(self, FULL_MASK, FULL_MASK)  # type: ignore[arg-type]
