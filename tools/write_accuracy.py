"""Compare the model with the shipped measurements and write what comes of it.

That is docs/accuracy.md between its markers, its two pictures, and ascendsim/known_errors.toml, which every run reads
for the range of its makespan.

python tools/write_accuracy.py
"""

from pathlib import Path

from ascendsim.device import Status, load_device
from ascendsim.fidelity.compare import Comparison, compare
from ascendsim.fidelity.families import RUN_FAMILIES
from ascendsim.known_errors import Family, write_errors
from ascendsim.plot.fidelity import instructions_png, kernels_png
from ascendsim.show_fidelity import markdown

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "accuracy.md"
STATUSES: tuple[Status, ...] = ("documented", "measured", "fitted", "inferred", "assumed")
CALIBRATED = ("Ascend910B1", "Ascend950PR_9589")


def statuses() -> str:
    """Return how many numbers of each calibrated architecture have which status."""
    lines = ["| device | " + " | ".join(STATUSES) + " |", "|---" * (len(STATUSES) + 1) + "|"]
    for name in CALIBRATED:
        device = load_device(name)
        lines.append(f"| {name} | " + " | ".join(str(len(device.numbers(status))) for status in STATUSES) + " |")
    return "\n".join(lines)


def between(page: str, name: str, text: str) -> str:
    """Return a page with what stands between two marker comments written anew."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{text.strip()}\n{end}{rest.partition(end)[2]}"


def errors_by_family(found: Comparison) -> dict[Family, list[float]]:
    """Return the relative errors that a run's range is made of, with their signs."""
    verdicts = {v.family.name: v for v in found.instructions.verdicts}
    errors = {
        Family(verdicts[name].family.title, verdicts[name].family.arch, covers): [
            j.bias for j in verdicts[name].covered
        ]
        for name, covers in RUN_FAMILIES.items()
    }
    assert found.kernels is not None
    for arch in sorted({j.row.arch for j in found.kernels.judged}):
        biases = [j.bias for j in found.kernels.judged if j.row.arch == arch]
        errors[Family("whole kernels", arch, ("link.*", "scalar.*", "sync.*"))] = biases
    return errors


def main() -> None:
    """Write all of it."""
    found = compare()
    assert found.kernels is not None
    page = between(PAGE.read_text(encoding="utf-8"), "statuses", statuses())
    PAGE.write_text(between(page, "fidelity", markdown(found)), encoding="utf-8")
    (DOCS / "images" / "accuracy_instructions.png").write_bytes(instructions_png(found.instructions))
    (DOCS / "images" / "accuracy_kernels.png").write_bytes(kernels_png(found.kernels))
    write_errors(errors_by_family(found))


if __name__ == "__main__":
    main()
