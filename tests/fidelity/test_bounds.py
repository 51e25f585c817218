"""The bounds that this version promises, over all shipped measurements."""

import pytest
from fidelity_harness import cycles_of, kernel_of

from ascendsim.fidelity.families import FAMILIES
from ascendsim.fidelity.judge import judge
from ascendsim.fidelity.judge_kernels import EXAMPLES, KernelVerdict, judge_kernels
from ascendsim.fidelity.measured import read_instructions, read_kernels
from ascendsim.fidelity.reasons import UNKNOWN


def told(done, total):
    assert 0 < done <= total


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_holds_its_bound_and_what_is_far_off_has_a_reason(family):
    (verdict,) = judge(read_instructions(), [family], cycles_of, told).verdicts
    assert verdict.covered
    assert verdict.broken == ()
    if family.bound is not None:
        assert [j.row.id for j in verdict.outside if j.why_off == UNKNOWN] == []


@pytest.fixture(scope="module")
def kernels() -> KernelVerdict:
    rows = (row for row in read_kernels() if any(f"/{name}/" in row.source for name in EXAMPLES))
    return judge_kernels(rows, kernel_of, told)


def test_kernels_hold_their_bounds(kernels):
    assert kernels.broken == ()
    assert len(kernels.judged) >= 60
    assert {r.kernel.partition(":")[0] for r in kernels.rankings} == {
        f"{op}, arch {arch}"
        for op in ("Add", "Matmul (high-level API)", "GM_TO_UB", "GM_TO_L1")
        for arch in (2201, 3510)
    }
