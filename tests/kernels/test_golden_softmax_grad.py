"""Every case of the golden set: instruction by instruction, output bit by bit, and what is found."""

from collections import Counter

import numpy as np
import pytest
from golden_cases import BY_ID, CASES, SOC, arrays_of, call, label, log_of, ran, same_bits, touched_end

import ascendsim as asc
from ascendsim.device import load_device
from ascendsim.dtypes import from_numpy
from ascendsim.machine import schedule
from ascendsim.terms import DATABLOCK_BYTES, align_up

SATURATING = [c for c in CASES if c["diff_bits_saturate"] not in ("", "0")]
"""Cases whose output depends on the half-overflow mode."""
IGNORED = ("index",)
FULL = hex((1 << 64) - 1)


@pytest.fixture(params=[c["case_id"] for c in CASES], ids=[label(c) for c in CASES])
def one(request):
    return ran(request.param)


def _case(number):
    """The case of a running number."""
    return next(c for c in CASES if c["case_id"].startswith(f"{number:03d}_"))


def _registers_as_here(rows):
    """Log rows of arch 3510 in the form of the others: masks in their columns, stores behind a tensor by its name."""
    for row in rows:
        if row["instr"] == "set_vector_mask":
            hi, lo = (part.split("=")[1] for part in row["note"].split(";"))
            row |= {"note": "", "mask_mode": "norm", "mask_hi": hi, "mask_lo": lo}
    return rows


def _comparable(row, is_nan_written):
    """A log row without what counts by pairing only, and without the CRC if it writes NaN, whose bits are free."""
    plain = {name: value for name, value in row.items() if name not in IGNORED}
    plain["ascendc_api"] = plain["ascendc_api"].split("#")[0]
    plain["note"] = plain["note"].split(";id=")[0] if "id=" in plain["note"] else plain["note"]
    if is_nan_written:
        plain["written_crc32"] = ""
    if plain["scalar_bits"] and _is_nan(plain["scalar_bits"]):
        plain["scalar_bits"] = "nan"
    return plain


def _is_nan(bits):
    return bool(np.isnan(np.array(int(bits, 16), np.uint32).view(np.float32)))


def _holds_nan(content, dtype):
    kind = np.float16 if dtype.endswith("f16") else np.float32  # Brcb names no type of value; it spreads row sums
    return bool(np.isnan(np.frombuffer(content, kind)).any())


def test_the_cases():
    assert Counter(c["arch"] for c in CASES) == {"2201": 157, "2002": 23, "3510": 37}
    assert set(SOC) == {c["arch"] for c in CASES} | {"3002"}
    assert all(load_device(soc).npu_arch == int(arch) for arch, soc in SOC.items())
    assert Counter((c["arch"], c["contract"]) for c in CASES) == {
        ("2201", "ok"): 142, ("2201", "model_choice"): 8, ("2201", "quirk"): 5, ("2201", "defect"): 2,
        ("2002", "ok"): 23, ("3510", "ok"): 35, ("3510", "defect"): 2,
    }  # fmt: skip
    kinds = Counter((c["format"], c["is_basic_block"]) for c in CASES)
    assert kinds[("nz", "0")] == 76
    assert kinds[("nd", "1")] == 18


def test_output_bits(one):
    want = one.arrays["dst"]
    got = one.result.outputs["dst"].reshape(want.shape)
    assert got.dtype == want.dtype
    assert same_bits(got, want).all(), f"{int((~same_bits(got, want)).sum())} of {want.size} elements differ"


def test_instruction_log(one):
    has_nan = bool(np.isnan(one.arrays["dst"]).any())  # elsewhere poison is the only NaN, and its bits are given
    want, got = log_of(one.case), one.result.instruction_log()
    if one.case["arch"] == "3510":
        want = _registers_as_here(want)
    assert list(got[0]) == list(want[0])
    for a, b in zip(got, want, strict=True):
        if b["dst_tensor"] == "OOB":
            assert (a["dst_tensor"], one.case["contract"]) == ("tmp", "defect")
            b |= {"dst_tensor": a["dst_tensor"], "dst_off_bytes": a["dst_off_bytes"]}
        crc = a["written_crc32"]
        is_nan_written = has_nan and bool(crc) and _holds_nan(one.contents[crc], a["dtype"])
        assert _comparable(a, is_nan_written) == _comparable(b, is_nan_written)
    for got_row, static in zip(got, one.result.program.instruction_log(), strict=True):
        kept = {n: v for n, v in static.items() if v or n not in ("scalar_bits", "written_bytes", "written_crc32")}
        assert all(got_row[name] == value for name, value in kept.items())


@pytest.mark.parametrize("case", SATURATING, ids=label)
def test_saturating_output_bits(case):
    arrays = arrays_of(case)
    result = call(case, arrays, half_overflow="saturate")
    want = arrays["dst_saturate_mode"]
    assert same_bits(result.outputs["dst"].reshape(want.shape), want).all()


def test_saturation_is_covered():
    with_mode = [c for c in CASES if "dst_saturate_mode" in arrays_of(c)]
    assert with_mode == SATURATING
    assert [c["dtype"] for c in SATURATING] == ["half", "half"]


@pytest.mark.parametrize("case", SATURATING, ids=label)
def test_saturation_is_the_default_of_arch_2002(case):
    """Half inputs only; the sums of arch 2002 differ, so only finiteness is compared."""
    arrays = arrays_of(case)
    result = asc.softmax_grad(arrays["grad"], arrays["src"], "Ascend310P3")
    assert np.isfinite(result.outputs["dst"]).all()


def test_event_ids_pair_up(one):
    """Ids mean only which set goes with which wait; every set has its wait, in order, for each pair."""
    open_flags = set()
    for row in one.result.instruction_log():
        if row["ascendc_api"] == "SetFlag":
            assert row["note"] not in open_flags
            open_flags.add(row["note"])
        if row["ascendc_api"] == "WaitFlag":
            open_flags.remove(row["note"])
    assert not open_flags


# ---- findings ---------------------------------------------------------------------------------------------------

DEFECTS = {"156": 224, "157": 96}
"""Bytes that the last pass writes behind dst (the index's oob_write_elems)."""


def _expected(case, dst):
    """Codes that a case must give, from its columns, its log and its output."""
    if case["arch"] == "3510":
        return _expected_of_registers(case)
    codes = set()
    is_nd = case["format"] == "nd"
    is_basic_block = case["is_basic_block"] == "1"
    k, ori_k = int(case["srcK"]), int(case["oriSrcK"])
    if (case["oriSrcM"], case["oriSrcK"]) != (case["srcM"], case["srcK"]):
        codes.add("W-SMG-PADDING")
    if case["oriSrcM"] != case["srcM"]:
        codes.add("I-SMG-ORIM")
    is_front = case["is_front"] == "1" or case["api"] == "front"
    if not is_nd and ori_k < k and (is_front or (k > 16 and int(case["splitM"]) >= 4)):
        codes.add("W-SMG-NZPAD")
    if is_basic_block and ori_k < k:
        codes.add("W-SMG-BLOCKPAD")
    if case["case_id"][:3] in DEFECTS:
        codes |= {"E-SMG-BLOCKROWS", "E-OOB-LOCAL"}
    if case["arch"] == "2002" and is_nd and not is_basic_block and ori_k > 64:
        codes |= {"I-SMG-STALE", "W-MEM-UNINIT"}
    if not np.isfinite(dst).all():
        codes.add("W-NUM-NAN")
    masks = [row["mask_lo"] for row in log_of(case) if row["instr"] == "set_vector_mask"]
    if masks[-1] != FULL:
        codes.add("I-SMG-MASK")
    return codes | _capacity(case)


def _expected_of_registers(case):
    """Vector functions write data only; in NZ they mask the last slab and take two floats of temp a row."""
    codes = set()
    m, k, tmp_bytes = (int(case[n]) for n in ("srcM", "srcK", "tmp_bytes"))
    if (case["oriSrcM"], case["oriSrcK"]) != (case["srcM"], case["srcK"]):
        codes.add("I-SMG-PADKEPT")
    if case["format"] == "nz" and int(case["oriSrcK"]) < k:
        codes.add("I-SMG-MASK")
    if case["format"] == "nz" and int(case["oriSrcK"]) < k - 16:
        codes.add("W-SMG-NZSLABS")
    if case["format"] == "nz" and 8 * m > tmp_bytes:
        codes |= {"E-SMG-NZTEMP", "E-OOB-LOCAL"}
    return codes | _capacity(case)


def _capacity(case):
    """Tensors and temp one behind the other, against the limits of the part."""
    size = int(case["srcM"]) * int(case["srcK"]) * (2 if case["dtype"] == "half" else 4)
    is_front = case["is_front"] == "1" or case["api"] == "front"
    dst = int(case["srcM"]) * DATABLOCK_BYTES if is_front else size
    if case["reuse_src"] == "1":
        dst = 0
    used = sum(align_up(n, DATABLOCK_BYTES) for n in (size, size, dst)) + int(case["tmp_bytes"])
    device = load_device(SOC[case["arch"]])
    if used > device.ub_bytes:
        return {"E-CAP-UB", "E-CAP-UB-HW"}
    return {"W-CAP-UB-SAFE"} if used > device.ub.safe_bytes.value else set()


def test_findings(one):
    assert one.codes == _expected(one.case, one.result.outputs["dst"])


def test_what_the_index_calls_no_documented_use_is_found(one):
    """A quirk or a defect has a finding of its own, anything else none but padding, capacity, and advice."""
    own = {"W-SMG-NZPAD", "W-SMG-BLOCKPAD", "E-SMG-BLOCKROWS", "E-SMG-NZTEMP"}
    if one.case["contract"] in ("quirk", "defect"):
        assert one.codes & own
        return
    allowed = {"W-SMG-PADDING", "W-SMG-NZPAD", "W-CAP-UB-SAFE", "E-CAP-UB", "E-CAP-UB-HW", "W-NUM-NAN", "W-MEM-UNINIT"}
    assert {code for code in one.codes if not code.startswith("I-")} <= allowed


def test_masks_left_behind_are_counted():
    """15 of the 165 documented uses leave eight lanes, all of float row sums."""
    on_memory = [c for c in CASES if c["contract"] == "ok" and c["arch"] != "3510"]
    left = [c["case_id"] for c in on_memory if "I-SMG-MASK" in ran(c["case_id"]).codes]
    assert len(left) == 15
    assert {BY_ID[i]["dtype"] for i in left} == {"float"}


@pytest.mark.parametrize(("number", "past"), [(156, 224), (157, 96)])
def test_a_basic_block_pass_of_one_row_writes_behind_dst(number, past):
    case = _case(number)
    assert case["oob_write_elems"] == str(past)
    found = {f.code: f for f in ran(case["case_id"]).result.findings}
    assert found["E-SMG-BLOCKROWS"].message == (
        f"SoftmaxGradFront with basic block and 1 rows a pass: the last pass writes {past} B behind dst"
    )
    assert found["E-OOB-LOCAL"].message.startswith(f"{'Brcb' if past == 224 else 'Cast'} dst touches {past} B past")
    assert ran(case["case_id"]).result.despite_findings
    with pytest.raises(asc.Rejected, match="E-SMG-BLOCKROWS"):
        call(case, arrays_of(case), despite_findings=False)


@pytest.mark.parametrize(
    ("number", "used", "codes"),
    [(116, 193024, {"W-CAP-UB-SAFE"}), (126, 257280, {"E-CAP-UB", "E-CAP-UB-HW"})],
)
def test_more_ub_than_there_is_still_gives_values(number, used, codes):
    case = _case(number)
    result = call(case, arrays_of(case), despite_findings=False)
    assert {(f.code, f.got) for f in result.findings} == {(code, str(used)) for code in codes}
    assert same_bits(result.outputs["dst"], arrays_of(case)["dst"]).all()


# ---- temp, examples, time -----------------------------------------------------------------------------------------


def test_temp_high_water_mark(one):
    """Highest byte of the temp that is written, plus one; the index counts no byte behind it."""
    written = touched_end(one.result.program, "tmp", ("dst",))
    assert min(written, int(one.case["tmp_bytes"])) == int(one.case["tmp_high_water_bytes"])


@pytest.mark.parametrize("number", [0, 2])
def test_documented_example_float(number):
    """8x8 gradients and src all 2: the bits of the float result, row by row, alike on 2201 and 2002."""
    one = ran(_case(number)["case_id"])
    want = """
        449d8000 44a28000 44a78000 44aa0000 44af0000 44b18000 44b2c000 44b40000
        431e0000 43200000 43220000 43240000 43260000 43280000 432a0000 432c0000
        419b3334 41a33334 41a66667 41a9999a 41ab3334 41ac0001 41acccce 41ad999a
        4069374e 406f9db4 4076041a 407c6a81 40816874 40849ba7 40872b03 4087be78
        c042d0e5 c042b020 c0418937 c03c6a7f c0360418 c02f9db2 c029374b c022d0e5
        c1880000 c1873333 c1866667 c185999a c184cccd c1833333 c1800000 c179999a
        c30f0000 c30e0000 c30c0000 c30a0000 c3080000 c3060000 c3040000 c3020000
        c486c000 c4868000 c4854000 c4840000 c4818000 c4790000 c4740000 c46a0000
    """.split()
    assert one.arrays["src"].shape == (8, 8)
    assert (one.arrays["src"] == 2).all()
    got = [f"{bits:08x}" for bits in one.result.outputs["dst"].reshape(-1).view(np.uint32)]
    assert got == want


@pytest.mark.parametrize("number", [1, 3])
def test_documented_example_half(number):
    want = """
        64ec 6514 653c 6550 6578 658c 6596 65a0   58f0 5900 5910 5920 5930 5940 5950 5960
        4cda 4d1a 4d33 4d4d 4d5a 4d60 4d66 4d6d   434a 437d 43b0 43e3 440b 4425 4439 443e
        c216 c215 c20c c1e3 c1b0 c17d c14a c116   cc40 cc3a cc33 cc2d cc26 cc1a cc00 cbcd
        d878 d870 d860 d850 d840 d830 d820 d810   e436 e434 e42a e420 e40c e3c8 e3a0 e350
    """.split()
    result = ran(_case(number)["case_id"]).result
    got = [f"{bits:04x}" for bits in result.outputs["dst"][:, :8].reshape(-1).view(np.uint16)]
    assert got == want


@pytest.mark.parametrize("number", [182, 190, 215])
def test_a_vector_function_is_one_row_of_the_timeline(number):
    case = _case(number)
    result = ran(case["case_id"]).result
    set_up = int(case["format"] == "nz")  # these have padded columns, whose mask is set first
    assert len(result.timeline) == len(result.program) == 1 + set_up
    assert len(result.instruction_log()) == int(case["log_rows"])


@pytest.mark.parametrize("number", [197, 215])
def test_nz_front_with_the_minimum_temp_writes_behind_it(number):
    """48 rows need 96 floats, the minimum is 64: 128 bytes too few."""
    case = _case(number)
    found = {f.code: f for f in ran(case["case_id"]).result.findings}
    assert found["E-SMG-NZTEMP"].message == (
        "SoftmaxGrad NZ works in 512 B of temp for 48 rows (two floats a row, 128 at a time), it has 256 B: 128 B are "
        "written behind it"
    )
    assert found["E-OOB-LOCAL"].message.startswith("VectorFunction tmp writes 128 B past the end of tmp")
    with pytest.raises(asc.Rejected, match="E-SMG-NZTEMP"):
        call(case, arrays_of(case), despite_findings=False)


@pytest.mark.parametrize("number", [16, 90, 125, 163])
def test_timeline_covers_every_row(number):
    case = _case(number)
    result = ran(case["case_id"]).result
    assert len(result.timeline) == len(result.program) == int(case["log_rows"])
    again = schedule(result.program, result.device)
    assert all((again[name] == result.timeline[name]).all() for name in result.timeline.columns)
    assert from_numpy(result.outputs["dst"].dtype).name == case["dtype"]
