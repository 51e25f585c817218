"""Time every candidate of a space of FlashAttention backward: what tests/tune hold the guided search against.

    python tools/make_fag_space.py            writes tests/tune/data/fag_space.csv
    python tools/make_fag_space.py --check    times all of them again and compares

The file has a line for each candidate: its number in the space, its cycles, or the code of the check that it fails.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from ascendsim.progress import silent
from ascendsim.scenario import load_scenario
from ascendsim.tuner.evaluation import Row, Setup
from ascendsim.tuner.parts import Parts, local
from ascendsim.tuner.request import Asked, search_for
from ascendsim.tuner.space import parse_space
from ascendsim.tuner.store import CsvTable, load_results

FILE = Path(__file__).parent.parent / "tests" / "tune" / "data" / "fag_space.csv"
SCENARIO = "fag_same_ab_small"
VARY = (
    "cv_s1=64:256:64",
    "cv_s2=64:256:64",
    "look_ahead=0:2",
    "score_buffers=1:3",
    "l1_buffers=1,2",
    "l0_buffers=1,2",
    "block_order=blocks,rows",
)


def setup() -> Setup:
    """Return the space of the file."""
    scenario = load_scenario(SCENARIO)
    return Setup(scenario, parse_space(VARY, scenario))


def line(one: Setup, row: Row) -> str:
    """Return a candidate's line."""
    cells = dict(zip(one.columns, row, strict=True))
    return f"{cells['candidate']},{'' if cells['cycles'] is None else cells['cycles']},{cells['code'] or ''}"


def text(results: Path) -> str:
    """Return what the file should hold, by the results of a search."""
    found = load_results(results, CsvTable())
    lines = [line(found.setup, found.rows[number]) for number in sorted(found.rows) if number]
    return "\n".join(["candidate,cycles,code", *lines]) + "\n"


def main() -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    parser.add_argument("--results", type=Path, help="where the search keeps its results, so that it can go on")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = asked.results or Path(folder) / "fag.csv"
        what = Asked(VARY, (), (), "exhaustive", None, 0, results)
        search_for(load_scenario(SCENARIO), what, Parts(CsvTable(), local(None)), silent)
        found = text(results)
    if asked.check:
        same = found == FILE.read_text(encoding="utf-8")
        print("as in the file" if same else f"another one than {FILE}")
        return 0 if same else 1
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(found, encoding="utf-8")
    print(f"wrote {FILE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
