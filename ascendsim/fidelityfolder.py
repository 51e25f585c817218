"""Files of a comparison with measurements: the page, the rows, the pictures. Each is written whole."""

from pathlib import Path

from ascendsim import show_fidelity
from ascendsim.fidelity.compare import Comparison
from ascendsim.plot.fidelity import instructions_png, kernels_png
from ascendsim.runfolder import write_files


def write_fidelity(found: Comparison, folder: Path) -> tuple[Path, ...]:
    """Write a comparison into a folder and return the files.

    Raises:
        InputError: the folder cannot be used.
    """
    contents = {
        "accuracy.md": show_fidelity.markdown(found).encode(),
        "rows.csv": show_fidelity.rows_csv(found.instructions).encode(),
    }
    if found.instructions.judged:
        contents["instructions.png"] = instructions_png(found.instructions)
    if found.kernels is not None:
        contents["kernels.csv"] = show_fidelity.kernels_csv(found.kernels).encode()
        if found.kernels.covered:
            contents["kernels.png"] = kernels_png(found.kernels)
    write_files(folder, contents)
    return tuple(folder / name for name in contents)
