"""What a search gives: rows, the best of them, what ties with it, what each field matters, what is gained and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascendsim import late
from ascendsim.scenario import Scenario
from ascendsim.tuner.evaluation import Cells, Setup
from ascendsim.tuner.export import chosen, number_of, point_text, write_candidate
from ascendsim.tuner.space import Value

OBJECTIVES: Mapping[str, str] = {
    "cycles": "cycles",
    "peak_ub": "peak_ub_bytes",
    "peak_l1": "peak_l1_bytes",
    "workspace": "workspace_bytes",
}
"""What can be made small: the column of each objective."""
CYCLES = "cycles"
TOP = 10
"""Candidates that a page lists unless it is told how many."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What one value of a field comes to.

    Attributes:
        value: of the field.
        timed: candidates with it that were timed.
        best: the least objective of them, None where there are none.
    """

    value: Value
    timed: int
    best: int | None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How much a field matters.

    Attributes:
        field: its name.
        effects: of each of its values.
        spread: how much worse than the best of all the best candidate with its worst value is, as a share.
    """

    field: str
    effects: tuple[Effect, ...]
    spread: float


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the makespan of one pipe, the mean of its cores: busy, lost to a cause, or without work."""

    what: str
    default_cycles: float
    best_cycles: float

    @property
    def saved_cycles(self) -> float:
        """What the best candidate spends less."""
        return self.default_cycles - self.best_cycles


@dataclass(frozen=True, slots=True)
class Gain:
    """The best candidate against the scenario as it stands.

    Attributes:
        default_cycles, best_cycles: makespans.
        pipe: the pipe with the most work in the default, as reports call it.
        parts: where its cycles go in both, the largest saving first; each side adds up to its makespan.
        is_tie: the difference lies within the model's stated error.
    """

    default_cycles: int
    best_cycles: int
    pipe: str
    parts: tuple[Part, ...]
    is_tie: bool

    @property
    def share(self) -> float:
        """What is gained of the default's makespan."""
        return 1 - self.best_cycles / self.default_cycles if self.default_cycles else 0.0


@dataclass(frozen=True, slots=True)
class TuneResult:
    """What a search has found; `str` of it is the page that `ascendsim tune` prints.

    Rows are mappings of column to cell: "candidate", the fields, "status", "cycles", ...

    Attributes:
        setup: of the search: `scenario`, `space`, `where`.
        objectives: what was to be small; with several, the front counts.
        rows: all candidates that this search asked for, by number; first the scenario as it stands, number 0.
        counts: candidates by what became of them, dropped ones by code.
        ranked: those that were timed, best first.
        front: of them, those that no other beats in every objective, by the first objective.
        default: the scenario as it stands, None where it was not timed.
        why_no_default: the reason then.
        error: how far off the best one's makespan may be, as a share; None where the model states nothing.
        ties: how many of the first ranks the model cannot tell apart, the best among them.
        sensitivities: of each field, the most important first.
        gain: of the best candidate, None without a default or a best.
        file: of the results, None where they are in memory only.
        evaluated: rows that were made now.
        resumed: rows that the file had before.
    """

    setup: Setup
    objectives: tuple[str, ...]
    rows: tuple[Cells, ...]
    counts: Mapping[str, Mapping[str, int]]
    ranked: tuple[Cells, ...]
    front: tuple[Cells, ...]
    default: Cells | None
    why_no_default: str
    error: float | None
    ties: int
    sensitivities: tuple[Sensitivity, ...]
    gain: Gain | None
    file: Path | None = None
    evaluated: int = 0
    resumed: int = 0

    @property
    def best(self) -> Cells | None:
        """The best candidate."""
        return self.ranked[0] if self.ranked else None

    def us(self, cells: Cells) -> float:
        """Return the makespan of a row in microseconds."""
        cycles = cells[CYCLES]
        assert isinstance(cycles, int)
        return self.setup.scenario.load_device().microseconds(cycles)

    def scenario(self, candidate: int | None = None) -> Scenario:
        """Return the scenario of the best candidate, or of the one with a number, for `ascendsim.run`.

        Raises:
            InputError: it was not timed.
        """
        return self.setup.scenario_of(number_of(chosen(self.ranked, candidate)))

    def export(self, folder: str | Path, candidate: int | None = None) -> tuple[Path, ...]:
        """Write the best candidate, or the one with a number, as a scenario and as a tiling header; return the files.

        Raises:
            InputError: it was not timed, or nothing can be written there.
        """
        return write_candidate(self.setup, chosen(self.ranked, candidate), Path(folder))

    def __str__(self) -> str:
        return "\n".join(late.tune_lines().page(self))

    def __repr__(self) -> str:
        """One line; rows may be many."""
        best = "none timed"
        if self.best is not None:
            best = f"best {self.best[CYCLES]} cycles with {point_text(self.setup, self.best)}"
        return f"TuneResult({self.setup.scenario.name}, {len(self.ranked)} of {self.setup.space.count} timed, {best})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        page: str = late.tune_pages().tune_html(self)
        return page

    def to_dict(self, top: int = TOP) -> dict[str, Any]:
        """Return all as plain values; of the ranked rows the first ones."""
        return {
            "scenario": self.setup.scenario.name,
            "space": {f.name: list(f.values) for f in self.setup.space.fields},
            "objectives": list(self.objectives),
            "counts": {kind: dict(codes) for kind, codes in self.counts.items()},
            "stated_error": self.error,
            "ties": self.ties,
            "ranked": [dict(cells) for cells in self.ranked[:top]],
            "front": [dict(cells) for cells in self.front],
            "default": None if self.default is None else dict(self.default),
            "sensitivities": [
                {
                    "field": s.field,
                    "spread": round(s.spread, 6),
                    "values": [{"value": e.value, "timed": e.timed, "best": e.best} for e in s.effects],
                }
                for s in self.sensitivities
            ],
            "gain": None if self.gain is None else _gain_dict(self.gain),
        }


def _gain_dict(gain: Gain) -> dict[str, Any]:
    return {
        "default_cycles": gain.default_cycles,
        "best_cycles": gain.best_cycles,
        "share": round(gain.share, 6),
        "is_tie": gain.is_tie,
        "pipe": gain.pipe,
        "parts": [
            {"what": p.what, "default_cycles": round(p.default_cycles), "best_cycles": round(p.best_cycles)}
            for p in gain.parts
        ],
    }
