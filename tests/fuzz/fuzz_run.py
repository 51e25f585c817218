"""Run many cases and print what went wrong, each kind of it once. `python tests/fuzz/fuzz_run.py --cases 100000`.

`--only NUMBER` runs one case of a series and prints what the command says; its files stay in `--place`.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fuzz_cases import KINDS, case_of
from fuzz_watch import empty, snapshot, told_by, watching, wrong

import ascendsim as asc

PROGRESS = 10_000
"""Cases between two lines that say how far it is."""


def one(seed, number, place, kinds=tuple(KINDS)):
    """Run one case; return it, what the command said, and what is wrong."""
    case = case_of(seed, number, place / "good", kinds)
    empty(place / "case")
    case.write(place / "case" / "work")
    before = snapshot(place / "case")
    told = told_by(case.argv)
    return case, told, wrong(case.argv, told, before, snapshot(place / "case"))


def series(seed, numbers, place, kinds=tuple(KINDS)):
    """Run cases; yield each with its number, its seconds, what the command said, and what is wrong."""
    (place / "case" / "work").mkdir(parents=True, exist_ok=True)
    asc.run("vector_add")  # compiling, where nothing is compiled yet, takes about as long as a case may
    with watching(place / "case" / "work"):
        for number in numbers:
            begun = time.monotonic()
            case, told, found = one(seed, number, place, kinds)
            yield number, time.monotonic() - begun, case, told, found


def main():
    """Run a series from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--place", type=Path)
    parser.add_argument("--slow", type=float, default=5.0, help="Seconds from which a case is told.")
    asked = parser.parse_args()
    kinds = tuple(asked.kinds.split(","))
    with tempfile.TemporaryDirectory(prefix="ascendsim-fuzz-") as temporary:
        place = (asked.place or Path(temporary)).resolve()
        numbers = [asked.only] if asked.only is not None else range(asked.first, asked.first + asked.cases)
        sys.exit(run(asked.seed, numbers, place, kinds, asked.slow))


def run(seed, numbers, place, kinds, slow):
    """Run cases and print a line for each new kind of mistake; return 1 if there is any."""
    failures, codes, seconds = Counter(), Counter(), Counter()
    begun, busy_begun = time.monotonic(), time.process_time()
    for number, took, case, told, found in series(seed, numbers, place, kinds):
        codes[case.kind, told.code] += 1
        seconds[case.kind] += took
        if len(numbers) == 1:
            print(case.argv, told.out, told.err, told.escaped, sep="\n")
        if number and number % PROGRESS == 0:
            print(f"{number} cases after {time.monotonic() - begun:.0f} s", flush=True)
        if took > slow:
            print(f"case {number} ({case.kind}) took {took:.1f} s: {case.argv}", flush=True)
        for text in found:
            failures[text] += 1
            if failures[text] == 1:
                print(f"case {number} ({case.kind}): {text}: {case.argv}", flush=True)
    whole, busy = time.monotonic() - begun, time.process_time() - busy_begun
    for kind in kinds:
        of_kind = {code: count for (name, code), count in sorted(codes.items()) if name == kind}
        count = sum(of_kind.values())
        told_codes = ", ".join(f"{count} with {code}" for code, count in of_kind.items())
        print(f"{kind}: {count} cases, {1000 * seconds[kind] / max(1, count):.1f} ms each; exit codes: {told_codes}")
    mistakes = f"{sum(failures.values())} mistakes of {len(failures)} kinds"
    print(f"{len(numbers)} cases in {whole:.0f} s ({busy:.0f} s of processor time), seed {seed}: {mistakes}")
    for text, count in failures.most_common():
        print(f"{count:6} {text}")
    return 1 if failures else 0


if __name__ == "__main__":
    main()
