"""The table of all codes, part 4: SoftmaxGrad calls in kernels."""

from codes_harness import A310B, A310P, A950, B2, entry, kernels

from ascendsim.dtypes import dtype
from ascendsim.memory import LocalTensor
from ascendsim.op_host.softmax import soft_max_grad_tiling_func
from ascendsim.op_kernel.softmax_grad import SoftMaxShapeInfo, softmax_grad, softmax_grad_front
from ascendsim.scenario import load_scenario
from ascendsim.terms import Pipe, TPosition

TILE = {"tensors.grad.shape": [48, 128], "tensors.src.shape": [48, 128], "tensors.dst.shape": [48, 128],
        "tiling.tile_m": 16, "block_dim": 1}  # fmt: skip
"""What makes the shipped scenario one of a tile of 16 x 128."""


def by_hand(split_m):
    """What the notes of a scenario with split_m by hand say; None for SoftMaxGradTilingFunc's own."""
    more = {} if split_m is None else {"tiling.split_m": split_m}
    scenario = load_scenario("softmaxgrad_960x960_float", TILE | more)
    operator = scenario.find_operator()
    shapes = {name: (tuple(spec.shape), spec.element) for name, spec in scenario.tensors.items()}
    return operator.notes(shapes, operator.tiling_model.model_validate(scenario.tiling), {})


entry(
    "W-SMG-SPLIT",
    lambda: by_hand(12),
    lambda: by_hand(None),
    (
        (
            "split_m = 12 by hand: SoftMaxGradTilingFunc gives it for no temp of a tile of 16 x 128, so a kernel gets "
            "it from constants only; it gives 6, 7, 8, 16"
        ),
        "take one that it gives, or leave split_m out",
    ),
)
entry(
    "I-SMG-SPLIT",
    lambda: by_hand(5),
    lambda: by_hand(None),
    (
        "split_m = 5 by hand: SoftMaxGradTilingFunc gives it for a tile of 16 x 128 from a temp of 4160 B on",
        "leave split_m out, and set tmp_bytes = 4160",
    ),
)

ND, NZ = {}, {"data_format": "NZ"}
FRONT, BLOCKS = {"is_front": True, "kind": "float"}, {"is_basic_block": True, "kind": "float"}
STALE = {"is_temp_filled": True, "kind": "float"}
NZ_FRONT = NZ | {"is_front": True}


def tensor(name, kind, address, length):
    return LocalTensor(name, TPosition.VECCALC, dtype(kind), address, length)


def call(
    shape=(16, 64),
    ori=None,
    kind="half",
    tmp=16384,
    is_front=False,
    is_basic_block=False,
    data_format="ND",
    tiling=None,
    places=None,
    temp=None,
    is_temp_filled=False,
    **other,
):
    """A kernel of one call on tensors that lie apart and hold ones; `other` replaces tensors by name."""
    m, k = shape
    size = m * k * dtype(kind).bytes
    step = -(-size // 512) * 512 + 256  # no two in the same bank groups
    at = {"grad": 0, "src": step, "dst": 65536, "tmp": 131072 + 256} | (places or {})
    front = is_front or is_basic_block
    sizes = {"grad": size, "src": size, "dst": 32 * m if front else size}
    tensors = {name: tensor(name, kind, at[name], length) for name, length in sizes.items()}
    tensors = tensors | {"tmp": temp or tensor("tmp", "uint8_t", at["tmp"], tmp)} | other
    cut = tiling or soft_max_grad_tiling_func((m, -(-k // 16) * 16), dtype(kind).bytes, tmp, front)
    info = SoftMaxShapeInfo(m, k, *(ori or shape))

    def kernel(asc, *_):
        asc.duplicate(tensor("ub", "half", 0, at["src"] + size), 1.0, (at["src"] + size) // 2)
        if is_temp_filled:
            asc.duplicate(tensors["tmp"].reinterpret_cast("half"), 0.0, tmp // 2)
        asc.pipe_barrier(Pipe.V)
        operands = [tensors[name] for name in ("dst", "grad", "src", "tmp")]
        if is_basic_block:
            softmax_grad_front(asc, *operands, cut, info, data_format=data_format, is_basic_block=True)
        else:
            softmax_grad(asc, *operands, cut, is_front, info, data_format=data_format)

    return kernel


def calls(code, trigger, neighbour, *texts, soc=B2, **how):
    """A line of two calls, given by what differs from the ordinary one."""
    kernels(code, call(**trigger), call(**neighbour), *texts, soc=soc, **how)


calls("E-SMG-DTYPE", {"dst": tensor("dst", "float", 65536, 4096)}, {})
calls("E-SMG-SHAPE", {"dst": tensor("dst", "half", 65536, 2016)}, {})
calls(
    "E-ALIGN-LASTAXIS",
    {"shape": (16, 56)},
    {"shape": (16, 48)},
    (
        "SoftmaxGrad last axis 56 is 112 B, no multiple of 32 B",
        "pad the last axis to 64 elements and pass the real length as ori_src_k",
    ),
)
FLOATS = NZ_FRONT | {"kind": "float"}
calls("E-SMG-NZ", FLOATS | {"shape": (16, 24)}, FLOATS | {"shape": (16, 32)})
calls("E-MODE-NZ", NZ, ND, soc=A310B)
calls("E-SMG-BASIC", BLOCKS | {"shape": (16, 96)}, BLOCKS | {"shape": (16, 128)})
calls("E-SMG-BLOCKROWS", BLOCKS | {"tmp": 4 * 544}, BLOCKS | {"tmp": 8 * 544})
calls("E-TMP-DTYPE", {"temp": tensor("tmp", "float", 131072 + 256, 16384)}, {})
calls("E-TMP-SMALL", {"temp": tensor("tmp", "uint8_t", 131072 + 256, 512)}, {})
calls("E-OVERLAP-TMP", {"places": {"tmp": 65536 + 1024}}, {"places": {"tmp": 65536 + 2048}})
calls("E-SMG-ORI", {"ori": (16, 65)}, {"ori": (16, 64)})
calls("W-SMG-DSTGRAD", {"places": {"dst": 0}}, {"places": {"dst": 8192}})
calls("W-SMG-FRONTREUSE", FRONT | {"places": {"dst": 0}}, FRONT)
calls("W-SMG-PADDING", {"ori": (16, 60)}, {})
calls("W-SMG-NZPAD", NZ | {"ori": (16, 57)}, NZ, beside=("W-SMG-PADDING",))
calls("W-SMG-BLOCKPAD", BLOCKS | {"ori": (16, 60)}, BLOCKS, beside=("W-SMG-PADDING",))
calls("W-SMG-NZSLABS", NZ | {"ori": (16, 40)}, NZ, soc=A950, beside=("I-SMG-PADKEPT", "I-SMG-MASK"))
calls("I-SMG-ORIM", {"ori": (11, 64)}, {}, beside=("W-SMG-PADDING",))
calls("I-SMG-MASK", FRONT | {"shape": (15, 64)}, FRONT)
calls("I-SMG-STALE", STALE | {"shape": (16, 72)}, STALE | {"shape": (16, 64)}, soc=A310P)
calls("I-SMG-NOBLOCKS", BLOCKS, FRONT, soc=A950)
calls("I-SMG-PADKEPT", {"ori": (16, 60)}, {}, soc=A950)
calls(
    "E-SMG-NZTEMP",
    NZ_FRONT | {"shape": (64, 128), "tmp": 256},
    NZ_FRONT | {"shape": (64, 128), "tmp": 512},
    soc=A950,
)
ONE_ROW = NZ_FRONT | {"places": {"src": 0, "dst": 131072, "tmp": 131072 + 512}}
calls("E-SMG-COUNTER", ONE_ROW | {"shape": (1, 65536)}, ONE_ROW | {"shape": (1, 65520)}, soc=A950)
ROWS = FRONT | {"places": {"src": 0, "dst": 73728, "tmp": 81920}}
calls("E-SMG-ROWS", ROWS | {"shape": (256, 72), "tmp": 147456}, ROWS | {"shape": (248, 72), "tmp": 142848}, soc=A310B)
calls("E-SMG-NOTILE", {"tiling": soft_max_grad_tiling_func((16, 64), 2, 64, False)}, {})
