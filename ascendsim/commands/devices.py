"""`ascendsim devices`."""

import json
from typing import Annotated

import typer

from ascendsim.commands.options import AsJson
from ascendsim.commands.terminal import out, print_json
from ascendsim.errors import InputError


def devices(
    name: Annotated[str | None, typer.Argument(help="A part or a product name; none lists all parts.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the parts, or show one with its UB limits."""
    from ascendsim import show
    from ascendsim.device import find_product, load_device, parts_of

    product = None if name is None else find_product(name)
    if product is not None and product.reason:
        raise InputError(f"{name} cannot be simulated: {product.reason}")
    if name is None or product is not None:
        names = None if product is None else parts_of(product.family)
        print_json(show.device_list(names)) if as_json else out.print(show.device_table(names))
        return
    device = load_device(name)
    print_json(json.loads(device.model_dump_json(by_alias=True))) if as_json else out.print(show.device_page(device))
