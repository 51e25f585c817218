"""What is left of UB, field cases F3 and F4, and the traps: exact numbers and texts."""

import pytest

import ascendsim as asc
from ascendsim.errors import Rule
from ascendsim.tmpsize import tmp_size, traps
from ascendsim.tmpsize.beside import Claim, parse_claims

SAFE = (
    "W-CAP-UB-SAFE UB: UB use 196352 B leaves less than the 8 KiB that some APIs reserve (safe up to 188160 B) "
    "(to mend it: keep below the safe limit, or avoid those APIs (Select, DropOut, LayerNorm, ...))"
)


def _left(answer):
    return {limit.name: (limit.left_bytes, limit.rows) for limit in answer.limits}


def _found(answer):
    return {finding.code: str(finding) for finding in answer.findings}


# ---- field cases ------------------------------------------------------------------------------------------------


def test_a_tbuf_of_all_visible_ub_leaves_nothing():
    """F3."""
    answer = tmp_size("softmaxgrad", (64, 128), "float", beside=["calc=196352"])
    assert (answer.min_bytes, answer.max_bytes) == (832, 53248)
    assert _left(answer) == {"hardware": (256, 0), "visible": (0, 0), "safe": (-8192, 0)}
    assert _found(answer) == {
        "E-TMP-LEFT": "E-TMP-LEFT 0 B left in the Ascend C visible UB, the API needs at least 832 B "
        "(53248 B for full speed) (to mend it: claim at most 195520 B beside it)",
        "W-CAP-UB-SAFE": SAFE,
    }


@pytest.mark.parametrize(
    ("claimed", "codes"), [(195520, {"W-CAP-UB-SAFE"}), (187328, set()), (187329, {"W-CAP-UB-SAFE"})]
)
def test_with_a_temp_of_the_minimum_it_is_accepted(claimed, codes):
    """F3: a temp of 832 B and at most 195520 B claimed."""
    answer = tmp_size("softmaxgrad", (64, 128), "float", beside=[f"calc={claimed}"], tmp_bytes=832)
    assert set(_found(answer)) == codes


def test_one_byte_more_is_not_accepted():
    answer = tmp_size("softmaxgrad", (64, 128), "float", beside=["calc=195521"], tmp_bytes=832)
    assert _found(answer)["E-CAP-UB"] == (
        "E-CAP-UB UB: UB use 196384 B exceeds the 196352 B that Ascend C sees: calc 195552 B, temp 832 B "
        "(to mend it: use a smaller tile, one buffer instead of two, or share the temp)"
    )


def test_past_the_end_of_ub():
    found = _found(tmp_size("softmaxgrad", (64, 128), "float", beside=["calc=98304x2"], tmp_bytes=832))
    assert set(found) == {"E-CAP-UB", "E-CAP-UB-HW"}
    assert found["E-CAP-UB-HW"] == (
        "E-CAP-UB-HW UB: UB address 197440 is past the end of UB (196608 B): calc 2 x 98304 B, temp 832 B "
        "(to mend it: check sizes and offsets)"
    )


def test_half_128x128():
    """F4: the maximum is more than UB; 98048 B are left, 51 rows' worth."""
    answer = tmp_size("softmaxgrad", (128, 128), "half")
    assert (answer.min_bytes, answer.max_bytes, answer.row_bytes) == (1920, 245760, 1920)
    assert answer.beside_bytes == 98304
    assert _left(answer) == {"hardware": (98304, 51), "visible": (98048, 51), "safe": (89856, 46)}
    assert _found(answer) == {
        "W-TMP-OVERUB": "W-TMP-OVERUB the maximum 245760 B is larger than UB (196608 B): it cannot be allocated "
        "(to mend it: take what is left of UB, or tile the rows)"
    }
    assert answer.choices["max"].cycles is None
    assert answer.choices["fits"].tmp_bytes == 89856


def test_float_128x128():
    """F4: the three tensors alone are over the visible limit; with dst on src 65280 B are left, 78 rows' worth."""
    answer = tmp_size("softmaxgrad", (128, 128), "float")
    assert (answer.min_bytes, answer.max_bytes, answer.beside_bytes) == (832, 106496, 196608)
    assert _left(answer) == {"hardware": (0, 0), "visible": (-256, 0), "safe": (-8448, 0)}
    assert "fits" not in answer.choices
    reused = tmp_size("softmaxgrad", (128, 128), "float", reuse_source=True)
    assert reused.beside_bytes == 131072
    assert _left(reused) == {"hardware": (65536, 78), "visible": (65280, 78), "safe": (57088, 68)}
    assert reused.choices["fits"].tmp_bytes == 57088


FORM = "want NAME=BYTES, or NAME=BYTESxNUM for a queue of NUM buffers, such as in_grad=32768x2"


# ---- claims -----------------------------------------------------------------------------------------------------


def test_claims():
    assert parse_claims(["in_grad=32768x2", " tmp=33 "]) == (Claim("in_grad", 32768, 2), Claim("tmp", 33))
    assert [claim.bytes for claim in parse_claims(["a=33x3", "b=1"])] == [192, 32]
    assert list(map(str, parse_claims(["a=33x3", "b=64"]))) == ["a 3 x 64 B", "b 64 B"]
    assert tmp_size("softmaxgrad", (64, 128), "float", beside=["a=32768x2", "b=32768"]).left_bytes == 89856


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["calc"], f"--beside calc: {FORM}"),
        (["calc=1.5"], f"--beside calc=1.5: {FORM}"),
        (["calc=0"], "--beside calc=0: bytes and number must be at least 1"),
        (["calc=32x0"], "--beside calc=32x0: bytes and number must be at least 1"),
        (["a=32", "a=64"], "--beside a=64: a was named before; give each buffer a name of its own"),
    ],
)
def test_bad_claims(texts, message):
    with pytest.raises(asc.InputError) as raised:
        parse_claims(texts)
    assert str(raised.value) == message


# ---- traps ------------------------------------------------------------------------------------------------------

FRESH = "use a fresh struct for each call of the tiling function, or test splitM before rangeM"
HARMLESS = (
    "harmless on this architecture, whose kernel does not look at the split, unless it tiles anew for a tile of "
    "another shape: then it divides by zero"
)
CASES = {
    "E-TMP-LEFT": (
        ("softmaxgrad", (8, 64), "float"),
        {"beside": ["q=200000"]},
        "0 B left in the Ascend C visible UB, the API needs at least 576 B (4608 B for full speed)",
        "claim at most 195776 B beside it",
    ),
    "E-TMP-MIN": (
        ("softmax", (8, 64), "float"),
        {"tmp_bytes": 512},
        "SoftMax temp has 512 B, the minimum is 544 B",
        "pass at least the minimum",
    ),
    "W-TMP-MINMAX": (
        ("softmaxgrad", (1, 8), "float"),
        {"npu_arch": 3510},
        "the minimum 512 B is above the maximum 352 B",
        "reserve 512 B; do not assert min <= max",
    ),
    "W-TMP-BELOWROW": (
        ("softmaxgrad", (64, 128), "float"),
        {"npu_arch": 3510},
        "minimum 512 B is below one row (832 B): the tiling has split_m 0",
        f"pass at least 832 B; {HARMLESS}",
    ),
    "W-TMP-HALVED": (
        ("softmaxgrad", (64, 16384), "float"),
        {},
        (
            "maximum 4214784 B: tiles of more than 8 rows are halved below 16384 elements, which leaves no "
            "row of K = 16384: the tiling has split_m 0"
        ),
        "pass 65856 to 526848 B, for 1 to 8 rows",
    ),
    "W-TMP-DIVZERO": (
        ("logsoftmax", (64, 16384), "float"),
        {},
        "maximum 4212736 B: LogSoftMaxTilingFunc divides by zero, because no row is left of its tile",
        "pass 65824 to 526592 B, for 1 to 8 rows",
    ),
    "W-TMP-ODDTILE": (
        ("softmaxgrad", (56, 4096), "float"),
        {},
        (
            "maximum 935424 B: halving below 16384 elements ends at tiles of 3 rows, no multiple of 8 and no "
            "divisor of 56: 2 rows are left over"
        ),
        "pass 133632 B: 8 rows a tile, which are not halved",
    ),
    "W-TMP-STALE": (
        ("softmaxgrad", (64, 128), "float"),
        {"tmp_bytes": 64},
        "with split_m 0 CANN does not write rangeM: a struct that was used before keeps the old value",
        FRESH,
    ),
    "W-TMP-LOGGED": (
        ("softmaxflashv2", (20, 40), "float"),
        {"is_flash_output_brc": True, "tmp_bytes": 1440},
        "given 1440 B: CANN logs E_BRC_REDUCE_M and still fills the struct, split_m with 5",
        (
            "with is_flash_output_brc a tile of 5 rows must be a multiple of 8 or hold all rows; choose "
            "another local_work_space_size"
        ),
    ),
    "W-TMP-OVERUB": (
        ("softmaxgrad", (960, 960), "float"),
        {},
        "the maximum 3993600 B is larger than UB (196608 B): it cannot be allocated",
        "take what is left of UB, or tile the rows",
    ),
    "W-TMP-NEVERFITS": (
        ("softmaxflashv2", (40, 8192), "half"),
        {"is_basic_block": True},
        "the minimum 264704 B is larger than UB (196608 B): the API cannot work on this shape",
        "tile the rows, or use shorter ones",
    ),
    "W-TMP-NZFRONT": (
        ("softmaxgrad", (64, 128), "half"),
        {"npu_arch": 3510, "is_front": True, "data_format": "NZ"},
        ("the minimum 256 B counts one float a row of NZ front results, the kernel works on two: it touches 512 B"),
        "give the temp 512 B",
    ),
    "W-TMP-NZRETILE": (
        ("softmaxgrad", (64, 128), "float"),
        {"is_front": True, "data_format": "NZ"},
        (
            "a kernel that tiles again counts 8 floats a row more for NZ front results than the host: the "
            "minimum 800 B gives it no row"
        ),
        "pass at least 832 B, one row by the kernel's count",
    ),
    "I-TMP-UNUSED": (
        ("softmaxgrad", (64, 128), "float"),
        {"npu_arch": 5102},
        ("SoftmaxGrad in ND on this architecture works in registers: no byte of temp is touched, whatever its size"),
        "pass the minimum, which the checks ask for; one row where a tail tile uses the same struct",
    ),
    "W-TMP-WRAPPED": (
        ("softmaxgrad", (65536, 32768), "half"),
        {},
        "CANN's 32-bit arithmetic overflows here: these are the numbers it returns, and they are useless",
        "tile the rows",
    ),
}
"""Of each rule: a call that meets it, the message, and how to mend it."""


@pytest.mark.parametrize("code", CASES)
def test_a_trap_and_its_words(code):
    arguments, more, message, hint = CASES[code]
    found = [f for f in tmp_size(*arguments, **more).findings if f.code == code]
    assert [(f.message, f.hint) for f in found] == [(message, hint)]
    assert found[0].source


def test_every_trap_has_a_case():
    rules = {rule.code for rule in vars(traps).values() if isinstance(rule, Rule)}
    assert rules - set(CASES) == {"E-CAP-UB", "E-CAP-UB-HW", "W-CAP-UB-SAFE"}


def test_v3_keeps_more_of_a_used_struct():
    found = _found(tmp_size("softmaxflashv3", (8, 1024), "half", tmp_bytes=64))
    assert "rangeM, tailM, tailSplitSize, tailReduceSize" in found["W-TMP-STALE"]


@pytest.mark.parametrize(
    ("api", "shape", "more"),
    [
        ("softmaxgrad", (64, 128), {}),
        ("softmaxgrad", (32, 128), {"npu_arch": 2201, "data_format": "NZ"}),
        ("softmaxgrad", (48, 128), {"is_front": True}),
        ("softmax", (64, 128), {}),
        ("softmaxflashv2", (64, 128), {}),
    ],
)
def test_ordinary_calls_have_no_trap(api, shape, more):
    assert tmp_size(api, shape, "float", **more).findings == ()


@pytest.mark.parametrize(("m", "codes"), [(32, set()), (33, {"W-TMP-NZFRONT"}), (64, {"W-TMP-NZFRONT"})])
def test_nz_front_needs_more_from_33_rows_on(m, codes):
    answer = tmp_size("softmaxgrad", (m, 128), "half", npu_arch=3510, is_front=True, data_format="NZ")
    need = {f.wanted for f in answer.findings if f.code == "W-TMP-NZFRONT"}
    assert {f.code for f in answer.findings} & {"W-TMP-NZFRONT"} == codes
    assert need <= {"512"}
    assert answer.choices["min"].touched_bytes == 512


@pytest.mark.parametrize(("size", "is_odd"), [(133632, False), (150336, False), (267264, False), (400896, True)])
def test_halving_begins_above_eight_rows(size, is_odd):
    """8, 9 and 16 rows' worth: tiles of 8, 8 and 1 (of 16); 24 rows' worth ends at 3."""
    answer = tmp_size("softmaxgrad", (56, 4096), "float", npu_arch=2201, tmp_bytes=size)
    found = [f for f in answer.findings if f.code == "W-TMP-ODDTILE" and f.message.startswith("given")]
    tiling = answer.choices["given"].tiling
    assert bool(found) is (tiling.split_m % 8 != 0 and 56 % tiling.split_m != 0)
