"""What else lies in UB, and what it leaves for a temp under each of the three limits."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ascendsim.device import Device
from ascendsim.errors import InputError
from ascendsim.terms import DATABLOCK_BYTES, align_up

_FORM = re.compile(r"(?P<name>[^=]+)=(?P<bytes>[0-9]+)(?:[xX](?P<num>[0-9]+))?")
_NO_BYTES = "want NAME=BYTES, or NAME=BYTESxNUM for a queue of NUM buffers, such as in_grad=32768x2"


@dataclass(frozen=True, slots=True)
class Claim:
    """Something in UB: a tensor, a TBuf, or a queue of `num` buffers of `buffer_bytes`, each in whole datablocks."""

    name: str
    buffer_bytes: int
    num: int = 1

    @property
    def bytes(self) -> int:
        """UB bytes of all its buffers."""
        return self.num * align_up(self.buffer_bytes, DATABLOCK_BYTES)

    def __str__(self) -> str:
        size = align_up(self.buffer_bytes, DATABLOCK_BYTES)
        return f"{self.name} {size} B" if self.num == 1 else f"{self.name} {self.num} x {size} B"


def parse_claims(texts: Iterable[str]) -> tuple[Claim, ...]:
    """Turn NAME=BYTES and NAME=BYTESxNUM into claims.

    Raises:
        InputError: another form, no bytes, or one name twice.
    """
    claims: dict[str, Claim] = {}
    for text in texts:
        found = _FORM.fullmatch(text.strip())
        if found is None:
            raise InputError(f"--beside {text}: {_NO_BYTES}")
        claim = Claim(found["name"].strip(), int(found["bytes"]), int(found["num"] or 1))
        if claim.buffer_bytes < 1 or claim.num < 1:
            raise InputError(f"--beside {text}: bytes and number must be at least 1")
        if claim.name in claims:
            raise InputError(f"--beside {text}: {claim.name} was named before; give each buffer a name of its own")
        claims[claim.name] = claim
    return tuple(claims.values())


def tensor_claims(tensors: Mapping[str, int]) -> tuple[Claim, ...]:
    """Return a call's tensors as claims."""
    return tuple(Claim(name, size) for name, size in tensors.items())


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of UB, and what is left under it.

    Attributes:
        name: "hardware", "visible" or "safe", as `ascendsim devices` explains them.
        limit_bytes: the limit.
        left_bytes: what the claims leave; negative if they go beyond.
        rows: how many rows' worth of temp that is.
    """

    name: str
    limit_bytes: int
    left_bytes: int
    rows: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers for JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def limits_of(device: Device, claims: Iterable[Claim], row_bytes: int) -> tuple[Limit, ...]:
    """Return what claims leave under each limit, the widest first."""
    used = sum(claim.bytes for claim in claims)
    limits = {
        "hardware": device.ub_bytes,
        "visible": device.ub.visible_bytes.value,
        "safe": device.ub.safe_bytes.value,
    }
    return tuple(Limit(n, size, size - used, max(0, size - used) // row_bytes) for n, size in limits.items())
