"""What rows of one form or shape share of their costs is what each costs by itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim.builder import SharedTiles
from ascendsim.cost import gm_bases_of, row_costs, template_schedules
from ascendsim.device import load_device
from ascendsim.dtypes import FLOAT, HALF
from ascendsim.engine.base import SCHEDULE_COLUMNS
from ascendsim.isa.forms import BinaryRepeatParams
from ascendsim.machine import Series, judged
from ascendsim.memory import LocalTensor
from ascendsim.record import record
from ascendsim.scenario import load_scenario
from ascendsim.terms import TPosition

DEVICES = {soc: load_device(soc) for soc in ("Ascend910B1", "Ascend310P3", "Ascend950PR_9589")}


def alone(program, device):
    """Schedule columns of each template, each row asked by itself; those of unit flags are 0 in vector programs."""
    for template, bases in zip(program.templates, gm_bases_of(program), strict=True):
        columns = dict(zip(SCHEDULE_COLUMNS, np.zeros((len(SCHEDULE_COLUMNS), len(template)), np.int64), strict=True))
        for at, fields in enumerate(row_costs(template, template.rows, device, bases)):
            for name, value in (fields | {"pipe": template.rows[at].pipe}).items():
                columns[name][at] = value
        yield columns


def agree(program, device):
    """Shared columns are those of rows alone; returns how many rows there were."""
    for ours, one in zip(template_schedules(program, device), alone(program, device), strict=True):
        for name in SCHEDULE_COLUMNS:
            assert np.array_equal(ours.columns[name], one[name]), name
    return sum(map(len, program.templates))


operand = st.tuples(
    st.sampled_from([0, 32, 64, 256, 512, 1024, 0xFFE0, 0x10000, 0x10020, 0x1FF00, 0x20000]), st.integers(0, 9)
)


@settings(max_examples=150)
@given(
    soc=st.sampled_from(sorted(DEVICES)),
    calls=st.lists(
        st.tuples(
            st.sampled_from(["add", "mul", "sub", "max"]),
            st.sampled_from([FLOAT, HALF]),
            operand,
            operand,
            operand,
            st.integers(1, 700),
            st.one_of(
                st.none(), st.tuples(st.integers(1, 9), st.sampled_from([1, 2, 16]), st.sampled_from([8, 16, 1]))
            ),
        ),
        min_size=2,
        max_size=12,
    ),
)
def test_vector_rows_at_any_addresses(soc, calls):
    device = DEVICES[soc]

    def kernel(asc):
        for name, dtype, dst, src0, src1, count, strides in calls:
            tensors = [
                LocalTensor(f"t{at}", TPosition.VECCALC, dtype, at, 0x8000)[more * dtype.per_datablock]
                for at, more in (dst, src0, src1)
            ]
            if strides is None:
                getattr(asc, name)(*tensors, count)
            else:
                repeats, blk, rep = strides
                params = BinaryRepeatParams(1, blk, 1, 8, rep, 8)
                getattr(asc, name)(*tensors, min(count, dtype.per_repeat), repeats, params)

    program = record(kernel, device, 1, (), (), shared=SharedTiles(device)).program
    assert agree(program, device) > len(calls)


@pytest.mark.parametrize("dtype", ["float", "half"])
def test_programs_of_a_search_one_after_the_other(dtype):
    device = load_device("Ascend910B1")
    series, rows = Series(device), 0
    for tile_m in (1, 3, 4, 7, 20):
        for k in (64, 96, 320):
            changes = {f"tensors.{name}.shape": [200, k] for name in ("grad", "src", "dst")}
            changes |= {f"tensors.{name}.dtype": dtype for name in ("grad", "src", "dst")}
            scenario = load_scenario("softmaxgrad_960x960_float", changes | {"tiling.tile_m": tile_m})
            rows += agree(judged(scenario, series).program, device)
    assert rows > 1000
