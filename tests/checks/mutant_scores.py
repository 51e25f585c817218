"""How many mistakes of each kind are found: all mutants of all kernels, `python tests/checks/mutant_scores.py`."""

import sys
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])] if __name__ == "__main__" else []

from kernels_to_mutate import CUBE, LIBRARY, SCENARIOS, recorded  # noqa: E402 - when called by itself
from mutants import changes_values_only, found, is_caught, is_equivalent, mutants_of  # noqa: E402

NAMES = (*SCENARIOS, *LIBRARY, *CUBE)
VERDICTS = ("caught", "missed", "equivalent", "values only")
KINDS = {"set_flag deleted", "wait_flag deleted", "pipe_barrier deleted", "event id swapped", "repeat above 255",
         "buffer 32 B shorter", "UB operand 4 B further", "GM operand 4 B further", "L1 operand 4 B further",
         "L0A operand 4 B further", "L0B operand 4 B further", "L0C operand 4 B further", "cross_core_set_flag deleted",
         "cross_core_wait_flag deleted", "cross-core id swapped", "cross-core flag set by another pipe",
         "cross-core flag set too early"}  # fmt: skip
LEAST = 0.98


class Judge:
    """One kernel: its program, and what is found in it as it is."""

    def __init__(self, name):
        self.program, self.device, self.lives = recorded(name)
        self.before = found(self.program, self.device, self.lives)
        self.mutants = list(mutants_of(self.program))

    def verdict(self, mutant):
        if is_caught(self.program, mutant, self.before, self.device, self.lives):
            return "caught"
        if changes_values_only(self.program, mutant):
            return "values only"
        return "equivalent" if is_equivalent(self.program, mutant) else "missed"

    def place(self, mutant):
        row = self.program.templates[mutant.template].rows[mutant.at]
        return f"{mutant.kind}: {row.op.name} at {self.program.lines[row.line]}"


def main():
    """Judge all mutants and write a table for docs/checks.md; 1 if too many are missed."""
    score = Counter()
    for name in NAMES:
        judge = Judge(name)
        for mutant in judge.mutants:
            verdict = judge.verdict(mutant)
            score[mutant.kind, verdict] += 1
            if verdict == "missed":
                sys.stderr.write(f"missed: {name}: {judge.place(mutant)}\n")
        sys.stderr.write(f"{name}: {len(judge.mutants)} mutants\n")
    sys.stdout.write(f"| mistake | {' | '.join(VERDICTS)} |\n|---|{'---|' * len(VERDICTS)}\n")
    for kind in sorted(KINDS):
        counts = [score[kind, verdict] for verdict in VERDICTS]
        sys.stdout.write(f"| {kind} | {' | '.join(map(str, counts))} |\n")
    caught, missed = (sum(score[kind, verdict] for kind in KINDS) for verdict in ("caught", "missed"))
    sys.stdout.write(f"{100 * caught / (caught + missed):.2f} % of {caught + missed} are caught\n")
    return int(caught < LEAST * (caught + missed))


if __name__ == "__main__":
    sys.exit(main())
