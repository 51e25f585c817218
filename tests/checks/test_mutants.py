"""Mistakes put into every kernel of the repository are found: 200 of them, chosen by seed; `make deep` takes all."""

import random
from collections import Counter

import pytest
from mutant_scores import KINDS, NAMES, Judge

SAMPLE, SEED = 200, 20261130
LEAST = 0.98


@pytest.fixture(scope="module")
def judges():
    return {name: Judge(name) for name in NAMES}


def test_there_are_some_thousand_mutants_of_every_kind(judges):
    kinds = Counter(m.kind for judge in judges.values() for m in judge.mutants)
    assert set(kinds) == KINDS
    assert kinds.total() >= 2000


def test_a_kernel_as_it_is_has_no_errors(judges):
    for name, judge in judges.items():
        errors = {f.code for f in judge.before.values() if f.severity.value == "E"}
        assert errors == ({"E-HAZARD-V"} if name == "3002 float" else set())  # see docs/limits.md


def test_mutants_are_caught(judges):
    every = [(name, m) for name, judge in judges.items() for m in judge.mutants]
    chosen = random.Random(SEED).sample(every, SAMPLE)
    score = Counter((m.kind, judges[name].verdict(m)) for name, m in chosen)
    verdicts = Counter()
    for (_, verdict), count in score.items():
        verdicts[verdict] += count
    caught, missed = verdicts["caught"], verdicts["missed"]
    assert caught >= LEAST * (caught + missed), score
