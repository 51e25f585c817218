"""Devices for the terminal."""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ascendsim.device import Device, Number, device_names, load_device


def device_list(names: tuple[str, ...] | None = None) -> list[dict[str, Any]]:
    """Return all parts (or these) in plain numbers."""
    parts = [load_device(n) for n in names or device_names()]
    return [
        {
            "name": d.name,
            "product_family": d.product_family,
            "npu_arch": d.npu_arch,
            "aic": d.cores.aic.value,
            "aiv": d.aiv,
            "clock_mhz": d.clock_mhz,
            "calibrated": d.calibrated.value,
            "ub_bytes": d.ub_bytes,
            "l2_bytes": d.memory.l2_bytes.value,
        }
        for d in parts
    ]


def device_table(names: tuple[str, ...] | None = None) -> Table:
    """Return all parts (or these) as a table."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("name", "family", "arch", "AIC", "AIV", "MHz", "UB KiB", "L2 MiB"):
        table.add_column(column, justify="left" if column in ("name", "family") else "right", no_wrap=True)
    for row in device_list(names):
        sizes = (str(row["ub_bytes"] // 1024), str(row["l2_bytes"] // 1024**2))
        cells = (row["name"], row["product_family"], row["npu_arch"], row["aic"], row["aiv"], row["clock_mhz"])
        table.add_row(*(str(c) for c in cells), *sizes)
    return table


def device_page(device: Device) -> RenderableType:
    """Return one part: its limits explained, then every number with source and status."""
    ub = device.ub
    less = device.ub_bytes - ub.visible_bytes.value
    told = f"{less} B less" if less else "as much"
    reserve = ub.visible_bytes.value - ub.safe_bytes.value
    spared = f"{reserve} B less again" if reserve else "as much; behind it lies the reserve"
    limits = [
        ("hardware", device.ub_bytes, "the physical UB; an address past it does not exist"),
        ("visible", ub.visible_bytes.value, f"what GetCoreMemSize(UB) tells the host, {told}: E-CAP-UB above it"),
        ("safe", ub.safe_bytes.value, f"{spared}, which some APIs use as temp: W-CAP-UB-SAFE above it"),
    ]
    table = Table(title="UB limits of one AIV", title_justify="left", box=None, padding=(0, 2), header_style="dim")
    for column, justify in (("limit", "left"), ("bytes", "right"), ("meaning", "left")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for name, size, meaning in limits:
        table.add_row(name, str(size), meaning)
    title = Text(f"{device.name}: {device.product_family}, arch {device.npu_arch}, {device.core_form} cores", "bold")
    caution = [Text(device.caution, "bold yellow")] if device.caution else []
    return Group(title, *caution, table, _numbers(device))


def _numbers(device: Device) -> Table:
    table = Table(title="Numbers", title_justify="left", box=None, padding=(0, 2), header_style="dim")
    for column in ("key", "value", "status", "source"):
        table.add_column(column, overflow="fold")
    for section in ("cores", "memory", "ub", "sync", "arithmetic", "scalar", "l2"):
        model = getattr(device, section)
        for key in type(model).model_fields:
            entry = getattr(model, key)
            if isinstance(entry, Number) or hasattr(entry, "status"):
                value = getattr(entry.value, "value", entry.value)
                table.add_row(f"{section}.{key}", str(value), entry.status, entry.source)
    return table
