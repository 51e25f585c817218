"""Tiling key of FlashAttentionScoreGrad: twenty fields, the first in the lowest bits.

Source: ops-transformer op_kernel, flash_attention_score_grad template tiling key; every key of the golden rows decodes
with no bit left over.
"""

from dataclasses import dataclass
from typing import Final

from ascendsim.errors import InputError

EMPTY_KEY: Final = 90
"""The key of a call whose outputs are empty; it has no fields."""

DTYPE_FIELD: Final = {"bf16": 2, "fp16": 3, "fp32": 1}
"""Field dtype, but for fp16 of S1s2Bn2."""


@dataclass(frozen=True, slots=True)
class KeyFields:
    """The fields of a tiling key; values are those stored, an index where the key stores an index.

    Attributes:
        ub_axis_0, ub_axis_1, core_axis: axes cut in UB and over cores; 6 is none.
        is_same_ab: template SameAB.
        dtype: 0 fp16 as S1s2Bn2 has it, 1 fp32, 2 bf16, 3 fp16.
        layout: 0 BSH and BSND, 1 SBH, 2 BNSD, 3 TND, or BSND in template B.
        sparse: 1 in template B.
        matmul_config: 1 when the stride of S is beyond what the matmul's copies take.
        score_nz: S and dA leave the cube in NZ.
        gradient_nz: dQ, dK, dV leave the cube in NZ.
        drop, pse, mask: the option is present.
        l1_reuse: L1-custom of S1s2Bn2.
        tnd_ping_pong: never set on arch 2201.
        s1_template, s2_template, d_template: sizes the kernel is compiled for.
        deterministic: sums in a fixed order.
        rope: with query and key rope.
    """

    ub_axis_0: int
    ub_axis_1: int
    core_axis: int
    is_same_ab: int = 0
    dtype: int = 0
    layout: int = 0
    sparse: int = 0
    matmul_config: int = 0
    score_nz: int = 0
    gradient_nz: int = 0
    drop: int = 0
    pse: int = 0
    mask: int = 0
    l1_reuse: int = 0
    tnd_ping_pong: int = 0
    s1_template: int = 0
    s2_template: int = 0
    d_template: int = 0
    deterministic: int = 0
    rope: int = 0


KEY_BITS: Final = {
    "ub_axis_0": 4,
    "ub_axis_1": 4,
    "core_axis": 4,
    "is_same_ab": 1,
    "dtype": 2,
    "layout": 2,
    "sparse": 4,
    "matmul_config": 2,
    "score_nz": 1,
    "gradient_nz": 1,
    "drop": 1,
    "pse": 1,
    "mask": 1,
    "l1_reuse": 1,
    "tnd_ping_pong": 1,
    "s1_template": 4,
    "s2_template": 4,
    "d_template": 4,
    "deterministic": 1,
    "rope": 1,
}
"""Width of each field, in the key's order."""


def encode_key(key: KeyFields) -> int:
    """Return the tiling key.

    Raises:
        InputError: a value that its field cannot hold.
    """
    tiling_key, shift = 0, 0
    for name, bits in KEY_BITS.items():
        value = getattr(key, name)
        if not 0 <= value < 1 << bits:
            raise InputError(f"{name} = {value}: the field of the tiling key has {bits} bits, 0..{(1 << bits) - 1}")
        tiling_key |= value << shift
        shift += bits
    return tiling_key


def decode_key(tiling_key: int) -> KeyFields:
    """Return the fields of a tiling key.

    Raises:
        InputError: the key of empty outputs, or a number that is no key.
    """
    if tiling_key == EMPTY_KEY:
        raise InputError(f"tiling key {EMPTY_KEY} is that of empty outputs; it has no fields")
    values, rest = {}, tiling_key
    for name, bits in KEY_BITS.items():
        values[name] = rest & ((1 << bits) - 1)
        rest >>= bits
    if rest or tiling_key < 0:
        raise InputError(f"tiling key {tiling_key}: must be in 0..{(1 << sum(KEY_BITS.values())) - 1}")
    return KeyFields(**values)
