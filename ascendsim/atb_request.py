"""Tensors of an ATB operation from the command line: NAME=HOW for those that the parameters do not imply."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ascendsim.call_file import name_and_how
from ascendsim.errors import InputError
from ascendsim.op_host.atb import OperationIni, TensorDesc

_HOW = "null, empty, a type, a shape, format=NZ, or some of them joined by colons, such as bf16:2,3,4"


def parse_tensors(options: Sequence[str], ini: OperationIni) -> dict[str, str]:
    """Turn NAME=HOW and NAME:HOW into a mapping.

    Raises:
        InputError: neither, or the operation has no such tensor.
    """
    names = [one.name for one in (*ini.inputs, *ini.outputs)]
    found = {}
    for text in options:
        name, how = name_and_how(text)
        if not how:
            raise InputError(f"--tensor {text}: want NAME=HOW, such as {names[0]}=bf16; HOW is {_HOW}")
        if name not in names:
            raise InputError(f"--tensor {text}: {ini.name} has {', '.join(names)}")
        found[name] = how
    return found


def given_tensors(
    ini: OperationIni, implied: Mapping[str, TensorDesc], given: Mapping[str, str]
) -> tuple[list[TensorDesc], list[TensorDesc]]:
    """Return descriptions of the inputs and outputs; one that is given as null is left out.

    Args:
        ini: the operation.
        implied: what the parameters imply, by name.
        given: how some are given, by name.

    Raises:
        InputError: an unknown way.
    """
    found: tuple[list[TensorDesc], list[TensorDesc]] = [], []
    for into, side in zip(found, (ini.inputs, ini.outputs), strict=True):
        for one in side:
            how = given.get(one.name, "")
            if how != "null":
                into.append(given_tensor(one.name, how, implied[one.name]))
    return found


def given_tensor(name: str, how: str, desc: TensorDesc) -> TensorDesc:
    """Return a description changed as the words say.

    Raises:
        InputError: an unknown way.
    """
    for part in filter(None, how.split(":")):
        word, equals, value = part.strip().partition("=")
        if word == "format" and value:
            desc = replace(desc, format=value)
        elif word == "empty" and not equals:
            desc = replace(desc, dims=())
        elif equals or not word:
            raise InputError(f"--tensor {name}={how}: want {_HOW}")
        elif word.replace(",", "").isdecimal():
            desc = replace(desc, dims=tuple(map(int, filter(None, word.split(",")))))
        else:
            desc = replace(desc, dtype=word)
    return desc
