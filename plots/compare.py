"""Write docs/images/compare_*.png: two tilings, a run over a trace, and where an output is wrong (docs/compare.md)."""

import tempfile
from pathlib import Path

import ascendsim as asc
from ascendsim.comparefolder import write_comparison
from ascendsim.trace import trace_json

ROOT = Path(__file__).parent.parent
SINGLE = {"queues.in_x.num": 1, "queues.in_y.num": 1}


def main() -> None:
    """Draw the three pictures of the page."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        result, hit = asc.run("vector_add"), asc.run("vector_add", set={"machine.l2": "hit"})
        (place / "trace.json").write_text(trace_json(hit))
        board = result.outputs["z"].copy()
        board[5000:5100] = 0
        board.tofile(place / "z.bin")
        for found, picture in (
            (asc.compare(result, "vector_add", set_b=SINGLE), "timelines"),
            (asc.compare_trace(result, place / "trace.json"), "overlay"),
            (asc.compare_outputs(result, place), "bad_tiles_z"),
        ):
            write_comparison(found, place / "out")
            target = ROOT / "docs" / "images" / f"compare_{picture.removesuffix('_z')}.png"
            target.write_bytes((place / "out" / f"{picture}.png").read_bytes())
            print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
