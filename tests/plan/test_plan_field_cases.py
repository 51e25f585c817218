"""Situations that users reported, as shipped plans with the numbers they must give; and the fused SoftmaxGrad."""

import pytest
from plan_harness import lines_of, margins_of, messages_of

from ascendsim.plan.answer import answer, load_plan

SAFE, VISIBLE = 188160, 196352


def _answer(name, solve=None, **changes):
    return answer(load_plan(name, {key.replace("__", "."): value for key, value in changes.items()}), solve)


# ---- one queue, double buffered ---------------------------------------------------------------------------------


def test_a_double_buffer_of_48000_floats_does_not_fit():
    found = _answer("plan_double_buffer", tiling__elements=48000)
    assert not found.fits
    assert lines_of(found) == [("in_x", "UB", 0, 384000, 192000, 2)]
    assert messages_of(found) == [
        ("E-CAP-UB-HW", "in_x ends at 384000 B, 187392 B beyond the 196608 B of UB that exist"),
        ("E-CAP-UB", "in_x ends at 384000 B, 187648 B beyond the 196352 B of UB that Ascend C sees"),
    ]
    assert [f.where for f in found.layout.findings] == ["queues.in_x", "queues.in_x"]


def test_the_largest_double_buffer():
    found = _answer("plan_double_buffer")
    assert found.solution.largest == {"safe": 23520, "visible": 24544, "hardware": 24576}
    assert margins_of(found) == {"safe": 0, "visible": 8192, "hardware": 8448}
    assert _answer("plan_double_buffer", limit="visible").chosen == {"elements": 24544}


def test_a_single_buffer_of_48000_floats_fits_but_for_the_reserve():
    found = _answer("plan_double_buffer", tiling__elements=48000, tiling__depth=1)
    assert found.fits
    assert messages_of(found) == [
        (
            "W-CAP-UB-SAFE",
            "in_x ends at 192000 B, 3840 B beyond the 188160 B that are left when some APIs take their 8 KiB",
        )
    ]


# ---- three operands and a temp ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "n", "element", "total", "fits"),
    [
        (128, 128, "half", 163840, True),
        (160, 160, "half", 256000, False),
        (96, 96, "float", 184320, True),
        (128, 128, "float", 327680, False),
        (4, 4, "half", 3 * 32 + 1152, True),
    ],
)
def test_three_operands(m, n, element, total, fits):
    found = _answer("plan_three_operands", tiling__m=m, tiling__n=n, tiling__element=element)
    assert found.layout.used_bytes("UB") == total
    assert found.fits is fits


# ---- rows of a tile ---------------------------------------------------------------------------------------------


def test_a_row_of_16_bytes_is_no_datablock():
    message = "tile: a row of 4 elements is {} B, not a multiple of 32 B; the next legal width is {}"
    assert messages_of(_answer("plan_row_width")) == [("E-ALIGN-UB", message.format(16, 8))]
    assert messages_of(_answer("plan_row_width", tiling__element="half")) == [("E-ALIGN-UB", message.format(8, 16))]


def test_rows_of_the_next_legal_width_are_accepted():
    assert messages_of(_answer("plan_row_width", tiling__width=8)) == []
    assert messages_of(_answer("plan_row_width", tiling__width=16, tiling__element="half")) == []


# ---- L0B --------------------------------------------------------------------------------------------------------


def test_the_right_operand_whole_does_not_fit_l0b():
    found = _answer("plan_matmul_l0b")
    assert messages_of(found) == [
        ("E-CAP-L0B", "right ends at 131072 B of L0B, 65536 B beyond the 65536 B it has"),
    ]
    assert found.layout.findings[0].where == "buffers.right"


def test_two_slots_of_128_columns_fill_l0b_exactly():
    found = _answer("plan_matmul_l0b", tiling__slots=2, tiling__n=128)
    assert found.fits
    assert ("right", "L0B", 0, 65536, 32768, 2) in lines_of(found)
    assert margins_of(found) == {"L0A": 49152, "L0B": 0, "L0C": 98304}


def test_two_slots_of_144_columns_do_not():
    found = _answer("plan_matmul_l0b", tiling__slots=2, tiling__n=144)
    assert messages_of(found) == [
        ("E-CAP-L0B", "right ends at 73728 B of L0B, 8192 B beyond the 65536 B it has"),
    ]


def test_solving_for_the_columns_finds_128():
    found = _answer("plan_matmul_l0b", "n", tiling__slots=2)
    assert found.solution.largest == {"safe": 128, "visible": 128, "hardware": 128}


# ---- attention backward -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("block_m", "blocks"), [(64, 32), (128, 16)])
def test_the_attention_plan(block_m, blocks):
    found = _answer("plan_attention_backward", tiling__block_m=block_m)
    assert found.layout.used_bytes("UB") == 161792
    assert margins_of(found) == {"safe": 26368, "visible": 34560, "hardware": 34816}
    assert found.layout.names["blocks"] == blocks


# ---- a TBuf and SoftmaxGrad -------------------------------------------------------------------------------------


def test_a_tbuf_of_all_of_ub_leaves_no_temp():
    found = _answer("plan_tbuf_and_softmax_grad")
    assert margins_of(found)["hardware"] == -576
    assert messages_of(found) == [
        ("E-CAP-UB-HW", "tmp ends at 197184 B, 576 B beyond the 196608 B of UB that exist"),
        (
            "E-CAP-UB",
            (
                "tmp: 0 B are left of the 196352 B of UB that Ascend C sees, grad needs at least 832 B of temp"
                " (53248 B for full speed)"
            ),
        ),
    ]


def test_a_temp_between_the_visible_and_the_hardware_limit():
    found = _answer("plan_tbuf_and_softmax_grad", tiling__claimed=196608 - 832)
    assert [code for code, _ in messages_of(found)] == ["E-CAP-UB"]
    assert "tmp: 576 B are left" in messages_of(found)[0][1]


@pytest.mark.parametrize(("claimed", "fits"), [(195520, True), (195521, False), (100000, True)])
def test_a_temp_of_832_bytes_beside_it(claimed, fits):
    found = _answer("plan_tbuf_and_softmax_grad", tiling__claimed=claimed, temps__tmp__bytes=832)
    assert found.fits is fits
    assert lines_of(found)[1][4] == 832


def test_a_temp_below_the_least():
    found = _answer("plan_tbuf_and_softmax_grad", tiling__claimed=1024, temps__tmp__bytes=800)
    assert ("E-TMP-SMALL", "temp tmp has 800 B, grad needs at least 832 B") in messages_of(found)


# ---- fused SoftmaxGrad ------------------------------------------------------------------------------------------


def test_fused_rows_and_temp_are_solved_together():
    found = _answer("plan_fused_softmax_grad")
    assert found.solution.largest == {"safe": 8, "visible": 9, "hardware": 9}
    assert found.chosen == {"rows": 9}
    assert found.layout.without_temps_bytes == 9 * 20480
    assert [use.least_bytes for use in found.layout.temps] == [4416]


def test_the_table_of_the_fused_plan():
    found = _answer("plan_fused_softmax_grad")
    rows = [
        (
            r.value,
            r.limits,
            r.without_temps_bytes,
            r.cut.temp_bytes,
            r.cut.tiling.split_m,
            r.cut.loops,
            r.cut.tiling.tail_m,
        )
        for r in found.table
        if r.value >= 6
    ]
    assert rows == [
        (9, ("visible",), 184320, 12032, 2, 5, 1),
        (8, ("safe",), 163840, 24320, 5, 2, 3),
        (8, ("visible",), 163840, 32512, 7, 2, 1),
        (7, ("safe", "visible"), 143360, 30912, 7, 1, 0),
        (6, ("safe", "visible"), 122880, 26496, 6, 1, 0),
    ]
    assert [r.value for r in found.table] == [9, 8, 8, 7, 6, 5, 4, 3, 2, 1]
    assert found.fastest.value == 7
    cycles = {r.value: r.cycles for r in found.table if "visible" in r.limits}
    assert cycles[9] > cycles[8] > cycles[7] > 0, "more tiles take longer"


def test_the_fused_plan_below_the_safe_limit():
    found = _answer("plan_fused_softmax_grad", limit="safe")
    assert found.chosen == {"rows": 8}
    assert messages_of(found) == []
    assert margins_of(found) == {"safe": 0, "visible": 8192, "hardware": 8448}


def test_two_apis_share_a_temp():
    found = _answer("plan_softmax_steps")
    (temp,) = found.layout.temps
    assert [call.name for call in temp.calls] == ["softmax", "gradient"]
    assert (temp.least_bytes, temp.most_bytes) == (4 * (512 + 80), 4 * 16 * (512 + 80)), "SoftmaxGrad's, the larger"
    assert [(c.call.name, c.tiling.split_m) for c in found.layout.cuts] == [("softmax", 16), ("gradient", 16)]
    assert [(p.first.name, p.second.name, p.saved_bytes) for p in found.reuse[:2]] == [
        ("in_scores", "in_grad", 32768),
        ("in_scores", "out", 32768),
    ]
    assert [(a.bytes, a.step, a.used_bytes) for a in found.alive] == [(137216, 3, 171008)]
