"""What is known from programs before changes no finding."""

import random

import pytest
from mutant_scores import NAMES, Judge

from ascendsim.checks import Quiet, check_program
from ascendsim.checks.quiet import _is_plain

SAMPLE, SEED = 60, 20261201


def judges():
    """Those of kernels that use vector cores alone, as far as `Quiet` looks at them."""
    found = (Judge(name) for name in NAMES)
    return [judge for judge in found if all(map(_is_plain, judge.program.templates))]


@pytest.fixture(scope="module")
def plain():
    return judges()


def test_mistakes_are_found_behind_the_kernel_without_them(plain):
    every = [(judge, m.program) for judge in plain for m in judge.mutants]
    chosen = random.Random(SEED).sample(every, SAMPLE)
    known = {id(judge): Quiet(judge.device) for judge, _ in chosen}
    noisy = 0
    for judge, mutant in chosen:
        quiet = known[id(judge)]
        for program in (judge.program, mutant, mutant):
            found = check_program(program, judge.device)
            assert check_program(program, judge.device, quiet=quiet) == found
            noisy += bool(found)
    assert noisy > SAMPLE


def test_kernels_as_they_are(plain):
    quiet = [Quiet(judge.device).is_quiet(judge.program) for judge in plain]
    assert True in quiet
    for judge, is_quiet in zip(plain, quiet, strict=True):
        codes = {f.code for f in check_program(judge.program, judge.device)}
        assert not is_quiet or not any(code.startswith(("E-SYNC", "E-HAZARD", "E-RACE", "W-SYNC")) for code in codes)
