"""Order between pipes and between cores: flags and barriers."""

from ascendsim.errors import Rule
from ascendsim.isa import rules
from ascendsim.isa.forms import Call, Form, declare
from ascendsim.isa.instruction import Instruction, Reason, need_int, need_member, run_nothing, touch_nothing
from ascendsim.terms import CoreKind, CrossMode, HardEvent, Pipe

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

SYNC_PAIR = Rule(
    "E-SYNC-PAIR",
    "{api} {operand}: {wanted} has no such pair; the library drops the call without a word",
    "use a pair of pipes that this core has",
    "asc-devkit, kernel_event",
    condition="SetFlag or WaitFlag names a pair of pipes that the core does not have, such as MTE2_V on an AIC.",
)
XSYNC_MODE = Rule(
    "E-XSYNC-MODE",
    "{api}: {operand} {got} is not possible, {wanted}",
    "use mode 0, 1 or 2 in a mixed kernel, and one of the pipes V, M, MTE1, MTE2, MTE3, FIX",
    "asc-devkit docs, CrossCoreSetFlag page",
    condition="A cross-core flag has a mode that is not 0, 1 or 2, is set by PIPE_ALL or PIPE_S, or the kernel runs on "
    "one kind of core.",
)
XSYNC_ID = Rule(
    "E-XSYNC-ID",
    "{api}: flag id {got} is {operand}; kernels may use {wanted}",
    "choose another id",
    "asc-devkit docs, CrossCoreSetFlag page; SyncAll uses 11 to 14",
    condition="A cross-core flag id is not 0..15, or one of 11..14 in a kernel that also calls SyncAll.",
)

FLAG = ("event", "event_id")
CROSS_FLAG = ("mode", "flag_id")
CROSS_IDS = 16
"""Ids of cross-core flags (asc-devkit docs, CrossCoreSetFlag page)."""
SYNC_ALL_IDS = {CrossMode.SAME_KIND: 14, CrossMode.ALL: 13}
"""Ids that the hardware SyncAll uses on vector cores alone and on all cores (asc-devkit, SyncAll for 2201)."""


class FlagCall(Call):
    """event, event_id."""

    reports = (SYNC_ID, SYNC_PAIR)

    def __call__(self, event: HardEvent, event_id: int, *, que: int = -1, reason: Reason = Reason.DATA) -> None:
        """Record the call."""
        need_int(self.asc, self.op.api, "event_id", event_id)
        ids = self.asc.device.sync.event_ids.value
        if not 0 <= event_id < ids:
            self.asc.report(SYNC_ID, operand=event.name, got=event_id, wanted=f"0..{ids - 1}", api=self.op.api)
        if event not in self.asc.own_events:
            kind = self.asc.kind.value
            self.asc.report(SYNC_PAIR, operand=event.name, got=event.name, wanted=kind, api=self.op.api)
            return
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


class CrossCall(Call):
    """mode, pipe, flag_id, as CrossCoreSetFlag<mode, pipe>(flag_id)."""

    reports = (XSYNC_MODE, XSYNC_ID)

    def __call__(self, mode: int, pipe: Pipe, flag_id: int) -> None:
        """Record the call."""
        asc, api = self.asc, self.op.api
        need_int(asc, api, "mode", mode)
        need_member(asc, api, "pipe", pipe, Pipe)
        need_int(asc, api, "flag_id", flag_id)
        is_set = self.op.name == "cross_core_set_flag"
        if mode not in (CrossMode.SAME_KIND, CrossMode.AIVS_OF_BLOCK, CrossMode.AIC_AIV):
            asc.report(XSYNC_MODE, operand="mode", got=mode, wanted="modes are 0, 1 and 2", api=api)
            return
        if is_set and pipe in (Pipe.ALL, Pipe.S):
            wanted = "the flag rises when one pipe has finished"
            asc.report(XSYNC_MODE, operand="pipe", got=f"PIPE_{pipe.name}", wanted=wanted, api=api)
            return
        if not 0 <= flag_id < CROSS_IDS:
            asc.report(XSYNC_ID, operand="no flag", got=flag_id, wanted=f"0..{CROSS_IDS - 1}", api=api)
            return
        if not asc.kernel_type.is_mix:
            asc.report(
                XSYNC_MODE, operand="kernel type", got=asc.kernel_type.name, wanted="it takes a mixed kernel", api=api
            )
            return
        self.emit_flag(CrossMode(mode), pipe, flag_id)

    def emit_flag(self, mode: CrossMode, pipe: Pipe, flag_id: int) -> None:
        """Record the flag. A wait holds the scalar unit where the hardware holds all that follows."""
        holds_all = self.op.name == "cross_core_wait_flag" and self.asc.device.has("cross_wait_holds_all")
        self.asc.emit(self.op, params=(int(mode), flag_id), pipe=Pipe.S if holds_all else pipe)


class SyncAllCall(Call):
    """is_aiv_only: whether the vector cores wait for each other, or all cores of a mixed kernel."""

    def __call__(self, *, is_aiv_only: bool = True) -> None:
        """Record the call: what the core has issued is finished, then it waits until every core got here."""
        asc = self.asc
        mode = CrossMode.SAME_KIND if is_aiv_only else CrossMode.ALL
        pipe = Pipe.FIX if asc.kind is CoreKind.AIC else Pipe.MTE3
        BarrierCall(asc, SyncInstructions.pipe_barrier.op)(Pipe.ALL)
        CrossCall(asc, SyncInstructions.cross_core_set_flag.op).emit_flag(mode, pipe, SYNC_ALL_IDS[mode])
        CrossCall(asc, self.op).emit_flag(mode, Pipe.S, SYNC_ALL_IDS[mode])


def _cross_op(name: str, doc: str, api: str, cost: str) -> Instruction:
    return declare(
        name,
        doc,
        api=api,
        mnemonic=name,
        pipe=None,
        params=CROSS_FLAG,
        cost=cost,
        family=cost,
        execute=run_nothing,
        touch=touch_nothing,
        checks=(rules.on_devices_with("cross_core_flags"),),
        uses_mask=False,
    )


class SyncInstructions:
    """SetFlag, WaitFlag, PipeBarrier, CrossCoreSetFlag, CrossCoreWaitFlag, SyncAll."""

    cross_core_set_flag = Form(
        _cross_op(
            "cross_core_set_flag",
            """Raise a flag of other cores once this pipe has finished everything before.

            Mode 0: all cores of one kind; 1: the vector cores of one AI Core; 2: an AIC and its vector cores. It rises
            when every core of the group has set it. Source: asc-devkit docs, CrossCoreSetFlag page.
            """,
            "CrossCoreSetFlag",
            "cross_set",
        ),
        CrossCall,
    )
    cross_core_wait_flag = Form(
        _cross_op(
            "cross_core_wait_flag",
            """Hold what follows until the flag of other cores is up, and take it.

            On arch 2201 it holds the issue of every pipe, whatever pipe is named. Source: asc-devkit docs,
            CrossCoreWaitFlag page.
            """,
            "CrossCoreWaitFlag",
            "cross_wait",
        ),
        CrossCall,
    )

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
    sync_all = Form(cross_core_wait_flag.op, SyncAllCall)
