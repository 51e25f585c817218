"""Recording small kernels and reading what became of them."""

import numpy as np

from ascendsim.checks import check_program
from ascendsim.device import load_device
from ascendsim.dtypes import dtype
from ascendsim.execute import execute
from ascendsim.memory import Bytes, LocalTensor, place_in_gm
from ascendsim.record import record
from ascendsim.terms import HardEvent, TPosition

DEVICE = load_device("Ascend910B1")
VECIN, VECOUT, VECCALC = TPosition.VECIN, TPosition.VECOUT, TPosition.VECCALC


def local(name, kind, address, length):
    return LocalTensor(name, VECCALC, dtype(kind), address, length)


def gm_tensors(*specs):
    """(name, type, elements) of each."""
    return place_in_gm([(n, dtype(k), (c,)) for n, k, c in specs])


def recorded(kernel, *gm, cores=1, arguments=()):
    return record(kernel, DEVICE, cores, tuple(gm), tuple(arguments))


def messages(recording, *codes):
    """(code, message) of what recording found; only these codes if some are given."""
    return [(f.code, f.message) for f in recording.findings if not codes or f.code in codes]


def rows(program, core=0):
    """Decoded rows of one core, in program order."""
    return [row for call in program.calls_of(core) for row in program.templates[call.template].rows]


def flags(program, core=0):
    """Flag rows as ("set"|"wait", event name, id, reason name)."""
    return [
        (row.op.name.split("_")[0], HardEvent(row.params[0]).name, row.params[1], row.reason.name)
        for row in rows(program, core)
        if row.op.name in ("set_flag", "wait_flag")
    ]


def run(kernel, inputs, outputs, cores=1, arguments=()):
    """Run kernel(asc, *inputs, *outputs, *arguments); `inputs` maps names to arrays, `outputs` to (type, elements)."""
    arrays = {n: np.ascontiguousarray(a).reshape(-1) for n, a in inputs.items()}
    kinds = {n: {"f": "float", "e": "half", "i": "int32_t"}[a.dtype.char] for n, a in arrays.items()}
    specs = [(n, kinds[n], a.size) for n, a in arrays.items()] + [(n, k, c) for n, (k, c) in outputs.items()]
    gm = gm_tensors(*specs)
    recording = recorded(kernel, *gm, cores=cores, arguments=arguments)
    assert recording.complete
    assert recording.findings == ()
    assert [f for f in check_program(recording.program, DEVICE) if f.code != "W-ALIGN-GM"] == []
    memory = tuple(Bytes.of(arrays[g.name]) if g.name in arrays else Bytes(g.tensor_bytes) for g in gm)
    done = execute(recording.program, DEVICE, memory)
    results = {g.name: memory[g.index].content.view(g.dtype.numpy) for g in gm if g.name in outputs}
    return results, recording.program, done.findings
