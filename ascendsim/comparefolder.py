"""Files of a comparison: its text, its numbers, its pictures. Each is written whole."""

import json
from pathlib import Path

from ascendsim.plot import png
from ascendsim.plot.bad_tiles import bad_tiles_png
from ascendsim.plot.overlay import overlay_png
from ascendsim.plot.timeline import aligned_picture
from ascendsim.runfolder import write_files
from ascendsim.versus.measured import TraceComparison
from ascendsim.versus.outputs import OutputComparison
from ascendsim.versus.runs import RunComparison

Comparison = RunComparison | TraceComparison | OutputComparison


def write_comparison(found: Comparison, folder: Path) -> tuple[Path, ...]:
    """Write a comparison into a folder and return the files.

    Raises:
        InputError: the folder cannot be used.
    """
    contents = {
        "compare.txt": f"{found}\n".encode(),
        "compare.json": (json.dumps(found.to_dict(), indent=1) + "\n").encode(),
        **_pictures(found),
    }
    write_files(folder, contents)
    return tuple(folder / name for name in contents)


def _pictures(found: Comparison) -> dict[str, bytes]:
    if isinstance(found, RunComparison):
        title = found.a.name if found.a.name == found.b.name else f"{found.a.name} and {found.b.name}"
        return {"timelines.png": png(aligned_picture(f"{title}: two runs", [("A", found.a), ("B", found.b)]))}
    if isinstance(found, TraceComparison):
        return {"overlay.png": overlay_png(found)}
    bad = (tensor for tensor in found.tensors if tensor.mismatches)
    return {f"bad_tiles_{tensor.name}.png": bad_tiles_png(found.result, tensor) for tensor in bad}
