"""Order between pipes: flags and barriers."""

from ascendsim.errors import Rule
from ascendsim.isa.forms import Call, Form, declare
from ascendsim.isa.instruction import Reason, need_int, run_nothing, touch_nothing
from ascendsim.terms import HardEvent, Pipe

SYNC_ID = Rule(
    "E-SYNC-ID",
    "{api} {operand}: event id {got} does not exist, ids are {wanted}",
    "take an id from alloc_event_id, or 0..5",
    "asc-devkit docs, SetFlag/WaitFlag page",
    condition="SetFlag or WaitFlag gets an event id that the part does not have (0..7; 0..3 on arch 1001).",
)
SYNC_BARRIER_S = Rule(
    "E-SYNC-BARRIER-S",
    "PipeBarrier<PIPE_S> is not allowed",
    "the scalar unit is in order by itself; remove the barrier",
    "asc-devkit docs, PipeBarrier page",
    condition="PipeBarrier is called for the scalar pipe.",
)

FLAG = ("event", "event_id")


class FlagCall(Call):
    """event, event_id."""

    reports = (SYNC_ID,)

    def __call__(self, event: HardEvent, event_id: int, *, que: int = -1, reason: Reason = Reason.DATA) -> None:
        """Record the call."""
        need_int(self.asc, self.op.api, "event_id", event_id)
        ids = self.asc.device.sync.event_ids.value
        if not 0 <= event_id < ids:
            self.asc.report(SYNC_ID, operand=event.name, got=event_id, wanted=f"0..{ids - 1}", api=self.op.api)
        pipe = event.src if self.op.name == "set_flag" else event.dst
        self.asc.emit(self.op, params=(int(event), event_id), pipe=pipe, que=que, reason=reason)


class BarrierCall(Call):
    """pipe."""

    reports = (SYNC_BARRIER_S,)

    def __call__(self, pipe: Pipe) -> None:
        """Record the call."""
        if pipe is Pipe.S:
            self.asc.report(SYNC_BARRIER_S, operand="pipe", got="PIPE_S", wanted="another pipe")
            return
        self.asc.emit(self.op, params=(int(pipe),), pipe=Pipe.S if pipe is Pipe.ALL else pipe)


class SyncInstructions:
    """SetFlag, WaitFlag, PipeBarrier."""

    set_flag = Form(
        declare(
            "set_flag",
            """Raise a one-bit flag once the source pipe has finished everything before; the pipe goes on meanwhile.

            Source: asc-devkit docs, SetFlag/WaitFlag page.
            """,
            api="SetFlag",
            mnemonic="set_flag",
            pipe=None,
            params=FLAG,
            cost="set_flag",
            family="set_flag",
            execute=run_nothing,
            touch=touch_nothing,
            checks=(),
            uses_mask=False,
        ),
        FlagCall,
    )
    wait_flag = Form(
        declare(
            "wait_flag",
            """Hold the destination pipe until the flag is 1, then clear it.

            Source: asc-devkit docs, SetFlag/WaitFlag page.
            """,
            api="WaitFlag",
            mnemonic="wait_flag",
            pipe=None,
            params=FLAG,
            cost="wait_flag",
            family="wait_flag",
            execute=run_nothing,
            touch=touch_nothing,
            checks=(),
            uses_mask=False,
        ),
        FlagCall,
    )
    pipe_barrier = Form(
        declare(
            "pipe_barrier",
            """Hold a pipe until all its earlier instructions have finished; PIPE_ALL holds the scalar unit for all.

            Source: asc-devkit docs, PipeBarrier page.
            """,
            api="PipeBarrier",
            mnemonic="pipe_barrier",
            pipe=None,
            params=("barrier_pipe",),
            cost="barrier",
            family="barrier",
            execute=run_nothing,
            touch=touch_nothing,
            checks=(),
            uses_mask=False,
        ),
        BarrierCall,
    )
