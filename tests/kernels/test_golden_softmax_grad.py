"""Every arch-2201 ND case of the golden set: instruction by instruction, and output bit by bit."""

import csv
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import GOLDEN

import ascendsim as asc
from ascendsim.dtypes import from_numpy
from ascendsim.machine import schedule
from ascendsim.op_host.softmax import soft_max_grad_tiling_func

FOLDER = GOLDEN / "softmaxgrad_cpu"


def _load(case):
    with np.load(FOLDER / case["npz"]) as archive:
        return {name: archive[name] for name in archive.files}


with (FOLDER / "index.csv").open() as file:
    CASES = list(csv.DictReader(file))
SATURATING = [c for c in CASES if c["diff_bits_saturate"] not in ("", "0")]
"""Cases whose output depends on the half-overflow mode."""
IGNORED = ("index",)


def _result(case, **more):
    arrays = _load(case)
    m, k = int(case["srcM"]), int(case["srcK"])
    tmp_bytes = int(case["tmp_bytes"])
    is_front = case["is_front"] == "1"
    # "device" cases were made by passing a tiling of another shape, so that the kernel re-tiles.
    rows = m + (case["tiling_source"] == "device")
    tiling = soft_max_grad_tiling_func((rows, k), arrays["src"].itemsize, tmp_bytes, is_front)
    common = {
        "ori_shape": (int(case["oriSrcM"]), int(case["oriSrcK"])),
        "tmp_bytes": tmp_bytes,
        "tiling": tiling,
        **more,
    }
    if case["api"] == "front":
        return arrays, asc.softmax_grad_front(arrays["grad"], arrays["src"], **common)
    reuse = case["reuse_src"] == "1"
    return arrays, asc.softmax_grad(arrays["grad"], arrays["src"], is_front=is_front, reuse_source=reuse, **common)


def _same_bits(got, want):
    unsigned = f"u{want.dtype.itemsize}"
    return (got.view(unsigned) == want.view(unsigned)) | (np.isnan(got) & np.isnan(want))


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


def test_there_are_85_cases():
    assert len(CASES) == 85
    assert {c["arch"] for c in CASES} == {"2201"}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["case_id"][:48])
def test_output_bits(case):
    arrays, result = _result(case)
    want = arrays["dst"]
    got = result.outputs["dst"].reshape(want.shape)
    assert got.dtype == want.dtype
    assert _same_bits(got, want).all(), f"{int((~_same_bits(got, want)).sum())} of {want.size} elements differ"


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["case_id"][:48])
def test_instruction_log(case, monkeypatch):
    written = {}

    def crc32(content):
        crc = zlib.crc32(content)
        written[f"{crc:08x}"] = content
        return crc

    monkeypatch.setattr("ascendsim.execute.zlib", SimpleNamespace(crc32=crc32))
    arrays, result = _result(case)
    has_nan = bool(np.isnan(arrays["dst"]).any())  # elsewhere poison is the only NaN, and its bits are given
    with (FOLDER / case["log"]).open() as file:
        want = list(csv.DictReader(file))
    got = result.instruction_log()
    assert list(got[0]) == list(want[0])
    for a, b in zip(got, want, strict=True):
        is_nan_written = has_nan and bool(a["written_crc32"]) and _holds_nan(written[a["written_crc32"]], a["dtype"])
        assert _comparable(a, is_nan_written) == _comparable(b, is_nan_written)
    for got_row, static in zip(got, result.program.instruction_log(), strict=True):
        kept = {n: v for n, v in static.items() if v or n not in ("scalar_bits", "written_bytes", "written_crc32")}
        assert all(got_row[name] == value for name, value in kept.items())


@pytest.mark.parametrize("case", SATURATING, ids=lambda c: c["case_id"][:48])
def test_saturating_output_bits(case):
    arrays = _load(case)
    _, result = _result(case, half_overflow="saturate")
    want = arrays["dst_saturate_mode"]
    assert _same_bits(result.outputs["dst"].reshape(want.shape), want).all()


def test_saturation_is_covered():
    with_mode = [c for c in CASES if "dst_saturate_mode" in _load(c)]
    assert with_mode == SATURATING
    assert [c["dtype"] for c in SATURATING] == ["half", "half"]


def test_event_ids_pair_up():
    """Ids mean only which set goes with which wait; every set has its wait, in order, for each pair."""
    for case in CASES[:20]:
        _, result = _result(case)
        open_flags = set()
        for row in result.instruction_log():
            if row["ascendc_api"] == "SetFlag":
                assert row["note"] not in open_flags
                open_flags.add(row["note"])
            if row["ascendc_api"] == "WaitFlag":
                open_flags.remove(row["note"])
        assert not open_flags


def test_no_findings_but_padding():
    for case in CASES:
        _, result = _result(case)
        assert {f.code for f in result.findings} <= {"W-SMG-PADDING", "W-CAP-UB-SAFE", "W-NUM-NAN"}
        assert ("W-NUM-NAN" in {f.code for f in result.findings}) == (not np.isfinite(result.outputs["dst"]).all())
        assert (case["oriSrcK"] != case["srcK"] or case["oriSrcM"] != case["srcM"]) == any(
            f.code == "W-SMG-PADDING" for f in result.findings
        )


def test_temp_high_water_mark():
    """Highest byte of the temp that is written, plus one."""
    for case in CASES:
        _, result = _result(case)
        top = 0
        for template in result.program.templates:
            for row in template.rows:
                operands = dict(row.operands)
                for role, _, end in row.op.touch(row):
                    if role == "dst" and template.tensors[operands["dst"].tensor].name == "tmp":
                        top = max(top, operands["dst"].offset_bytes + end)
        assert top == int(case["tmp_high_water_bytes"]), case["case_id"]


def test_documented_example_float():
    """8x8 gradients and src all 2: the bits of the float result, row by row."""
    arrays, result = _result(next(c for c in CASES if c["case_id"].startswith("000")))
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
    assert arrays["src"].shape == (8, 8)
    assert (arrays["src"] == 2).all()
    got = [f"{bits:08x}" for bits in result.outputs["dst"].reshape(-1).view(np.uint32)]
    assert got == want


def test_documented_example_half():
    _, result = _result(next(c for c in CASES if c["case_id"].startswith("001")))
    want = """
        64ec 6514 653c 6550 6578 658c 6596 65a0   58f0 5900 5910 5920 5930 5940 5950 5960
        4cda 4d1a 4d33 4d4d 4d5a 4d60 4d66 4d6d   434a 437d 43b0 43e3 440b 4425 4439 443e
        c216 c215 c20c c1e3 c1b0 c17d c14a c116   cc40 cc3a cc33 cc2d cc26 cc1a cc00 cbcd
        d878 d870 d860 d850 d840 d830 d820 d810   e436 e434 e42a e420 e40c e3c8 e3a0 e350
    """.split()
    got = [f"{bits:04x}" for bits in result.outputs["dst"][:, :8].reshape(-1).view(np.uint16)]
    assert got == want


def test_timeline_covers_every_row():
    _, result = _result(CASES[10])
    assert len(result.timeline) == len(result.program) == int(CASES[10]["log_rows"])
    again = schedule(result.program, result.device)
    assert all((again[name] == result.timeline[name]).all() for name in result.timeline.columns)
    assert from_numpy(result.outputs["dst"].dtype).name == "float"
