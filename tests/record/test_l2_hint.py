"""SetL2CacheHint: which rows bypass L2, in templates, tiles, stored programs and schedules."""

import numpy as np
import pytest

from ascendsim.cost import template_schedules
from ascendsim.device import load_device
from ascendsim.dtypes import HALF
from ascendsim.memory import place_in_gm
from ascendsim.program import from_arrays, to_arrays
from ascendsim.record import record, tile
from ascendsim.terms import CacheMode, TPosition

DEVICE = load_device("Ascend910B1")
GM = place_in_gm([("x", HALF, (4096,)), ("z", HALF, (4096,))])
MODES = {True: CacheMode.CACHE_MODE_DISABLE, False: CacheMode.CACHE_MODE_NORMAL}


@tile
def _load(asc, x, local):
    asc.data_copy(local, x, 128)


def _program(*hints):
    def kernel(asc, x, _z):
        pipe, buffer = asc.t_pipe(), asc.t_buf(TPosition.VECCALC, "ub")
        pipe.init_buffer(buffer, 1, 256)
        for past_l2 in hints:
            _load(asc, x.with_l2_cache_hint(MODES[past_l2])[512], buffer.get("half"))

    return record(kernel, DEVICE, 1, GM, ()).program


@pytest.mark.parametrize("stored", [False, True])
def test_a_hint_makes_a_template_of_its_own(stored):
    program = _program(True, False, True, False)
    if stored:
        program = from_arrays(to_arrays(program))
    assert len(program.templates) == 2
    assert program.calls["template"].tolist() == [0, 1, 0, 1]
    columns = [s.columns for s in template_schedules(program, DEVICE)]
    assert [c["bypass"].tolist() for c in columns] == [[1], [0]]
    assert [c["writes"].tolist() for c in columns] == [[0], [0]]


def test_a_row_past_l2_that_is_no_whole_lines_costs_memory_more():
    (past, normal) = (s.columns for s in template_schedules(_program(True, False), DEVICE))
    assert (int(past["bytes"][0]), int(normal["bytes"][0])) == (256 + 66, 256)
    assert np.array_equal(past["startup"], normal["startup"])


def test_the_default_is_normal_and_windows_keep_the_hint():
    x = GM[0]
    assert x.cache_mode is CacheMode.CACHE_MODE_NORMAL
    assert x.with_l2_cache_hint(CacheMode.CACHE_MODE_DISABLE)[7].cache_mode is CacheMode.CACHE_MODE_DISABLE
