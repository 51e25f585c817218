"""Options that several commands have, and what their texts mean."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ascendsim.errors import InputError
from ascendsim.files import parse_toml
from ascendsim.terms import DEFAULT_SOC

Scenario = Annotated[str, typer.Argument(help="Scenario file, or the name of a shipped one.", metavar="SCENARIO")]
CallFile = Annotated[
    str | None,
    typer.Argument(
        help="Call in a TOML file, or the name of a shipped one; options count more.",
        metavar="FILE",
        show_default=False,
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a key: --set tiling.tile_m=32 --set queues.in_p.num=2.", metavar="KEY=VALUE"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Soc = Annotated[str, typer.Option("--soc", help="Part, such as Ascend910B1; a product name lists its parts.")]
SocOfCall = Annotated[str | None, typer.Option("--soc", help=f"Part, default {DEFAULT_SOC}.")]
Scale = Annotated[float | None, typer.Option(help="scaleValue; default 1 / sqrt(D).")]


def given(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def parse_changes(changes: list[str] | None) -> dict[str, Any]:
    """Turn KEY=VALUE options into values: TOML where it parses as TOML, else text.

    Raises:
        InputError: an option without "=", or a value that TOML does not have.
    """
    parsed: dict[str, Any] = {}
    for change in changes or []:
        key, equals, text = change.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--set {change}: want KEY=VALUE, such as tiling.tile_m=32")
        try:
            parsed[key.strip()] = parse_toml(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            parsed[key.strip()] = text
        except ValueError as error:
            raise InputError(f"--set {key}: {str(error).removeprefix('value: ')}") from None
    return parsed


def parse_shape(text: str) -> tuple[int, ...]:
    """Turn "960,960" into (960, 960).

    Raises:
        InputError: not whole numbers joined by commas.
    """
    return _whole_numbers("--shape", text, "960,960")


def parse_numbers(option: str, text: str, example: str) -> tuple[int, ...]:
    """Turn "1,2" into (1, 2), and "" into ().

    Raises:
        InputError: not whole numbers joined by commas.
    """
    return _whole_numbers(option, text, example) if text.strip() else ()


def _whole_numbers(option: str, text: str, example: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text}: want whole numbers joined by commas, such as {example}") from None


def need_folder(option: str, path: Path | None) -> None:
    """Refuse a folder that nothing can be written into before anything is computed.

    Raises:
        InputError: nothing can be written into it.
    """
    if path is not None:
        from ascendsim.runfolder import check_place

        check_place(option, path)
