"""Sizes and tilings by API name: the host functions' own numbers, options that belong to an API, and bad input."""

import csv

import pytest
from conftest import GOLDEN

import ascendsim as asc
from ascendsim.device import device_names, load_device
from ascendsim.dtypes import FLOAT
from ascendsim.terms import DATABLOCK_BYTES
from ascendsim.tmpsize import predicted_cycles, softmax_grad_tmp_size, tmp_size
from ascendsim.tmpsize.apis import APIS

NAMES = {
    "SoftMax": "softmax",
    "LogSoftMax": "logsoftmax",
    "SoftMaxFlash": "softmaxflash",
    "SoftMaxFlashV2": "softmaxflashv2",
    "SoftMaxFlashV3": "softmaxflashv3",
}
FLAGS = {
    "isUpdate": "is_update",
    "isBasicBlock": "is_basic_block",
    "isFlashOutputBrc": "is_flash_output_brc",
}


def _rows(name):
    with (GOLDEN / name).open() as file:
        return list(csv.DictReader(file))


def test_the_family_gives_the_golden_sizes():
    table = _rows("softmax_family_tmpsize.csv")[::7]
    assert {row["api"] for row in table} == set(NAMES)
    for row in table:
        api = APIS[NAMES[row["api"]]]
        pairs = (flag.split("=") for flag in row["flags"].split(";") if flag != "-")
        flags = {FLAGS[name]: value == "1" for name, value in pairs}
        flags = {name: value for name, value in flags.items() if name in api.takes}
        more = {"sum_type": row["dtype2"]} if "sum_element" in api.takes else {}
        shape = tuple(map(int, row["shape"].split("x")))
        answer = tmp_size(NAMES[row["api"]], shape, row["dtype1"], npu_arch=int(row["arch"]), **flags, **more)
        assert (answer.min_bytes, answer.max_bytes) == (int(row["min_bytes"]), int(row["max_bytes"])), row


def test_softmax_grad_gives_the_golden_sizes():
    for row in _rows("softmaxgrad_tmpsize.csv")[::11]:
        shape, is_front = (int(row["m"]), int(row["k"])), row["is_front"] == "1"
        answer = tmp_size("softmaxgrad", shape, row["dtype"], npu_arch=int(row["arch"]), is_front=is_front)
        assert (answer.min_bytes, answer.max_bytes) == (int(row["min_bytes"]), int(row["max_bytes"])), row


@pytest.mark.parametrize(
    ("api", "more", "row_bytes"),
    [
        ("softmaxgrad", {}, 4 * (128 + 80)),
        ("softmaxgrad", {"is_front": True}, 4 * (128 + 72)),
        ("softmax", {}, 4 * (128 + 8 + 64)),
        ("logsoftmax", {}, 4 * (128 + 8 + 64)),
        ("softmaxflash", {}, 4 * (128 + 8 + 64)),
        ("softmaxflash", {"is_update": True}, 4 * (2 * 128 + 4 * 8)),
        ("softmaxflashv2", {}, 4 * (8 + 64)),
        ("softmaxflashv2", {"is_basic_block": True}, 4 * (8 + 64)),
    ],
)
def test_one_row_is_where_the_tiling_begins(api, more, row_bytes):
    answer = tmp_size(api, (64, 128), "float", **more)
    assert answer.row_bytes == row_bytes
    for size, split_m in ((row_bytes, 1), (row_bytes - 4, 0), (2 * row_bytes, 2)):
        tiling = APIS[api].tiling(answer.call, size).tiling
        if tiling is not None:  # LogSoftMax divides by zero
            assert tiling.split_m == split_m


def test_half_rows():
    assert tmp_size("softmaxgrad", (8, 128), "half").row_bytes == 4 * (3 * 128 + 96)
    assert tmp_size("softmaxflashv2", (8, 128), "half", sum_type="float").row_bytes == 4 * (128 + 2 * 8 + 64)
    assert tmp_size("softmaxflashv3", (8, 1024), "half").row_bytes == 4 * (2 * 1024 + 5 * 8 + 64)


@pytest.mark.parametrize(
    ("api", "more", "tensors"),
    [
        ("softmaxgrad", {}, {"grad": 1024, "src": 1024, "dst": 1024}),
        ("softmaxgrad", {"is_front": True}, {"grad": 1024, "src": 1024, "dst": 256}),
        ("softmaxgrad", {"reuse_source": True}, {"grad": 1024, "src": 1024}),
        ("softmax", {}, {"src": 1024, "dst": 1024, "sum": 256, "max": 256}),
        ("logsoftmax", {"reuse_source": True}, {"src": 1024, "sum": 256, "max": 256}),
        ("softmaxflash", {}, {"src": 1024, "dst": 1024, "sum": 256, "max": 256, "exp_max": 256}),
        (
            "softmaxflashv2",
            {"is_update": True},
            {"src": 1024, "dst": 1024, "sum": 256, "max": 256, "exp_max": 256, "in_sum": 256, "in_max": 256},
        ),
        (
            "softmaxflashv2",
            {"is_update": True, "reuse_source": True, "is_flash_output_brc": True},
            {"src": 1024, "sum": 32, "max": 32, "exp_max": 32},
        ),
    ],
)
def test_tensors_of_a_call(api, more, tensors):
    answer = tmp_size(api, (8, 32), "float", **more)
    assert {claim.name: claim.bytes for claim in answer.tensors} == tensors
    assert answer.beside == answer.tensors


def test_tensors_of_v3():
    answer = tmp_size("softmaxflashv3", (8, 1024), "half", is_update=True)
    names = ["src", "dst", "sum", "max", "exp_max", "in_sum", "in_max", "mean", "in_mean"]
    assert [claim.name for claim in answer.tensors] == names
    assert answer.beside_bytes == 2 * 8 * 1024 * 2 + 7 * 8 * DATABLOCK_BYTES
    assert answer.call.sum_element is FLOAT


@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend310P3", "Ascend950PR_9589"])
@pytest.mark.parametrize(("shape", "is_front"), [((960, 960), False), ((4096, 264), True), ((8192, 8192), False)])
def test_the_largest_tile_is_the_largest(soc, shape, is_front):
    def fits(m):
        small = tmp_size("softmaxgrad", (m, shape[1]), "float", soc, is_front=is_front)
        return small.left_bytes >= small.min_bytes

    most = tmp_size("softmaxgrad", shape, "float", soc, is_front=is_front).largest_tile_m
    assert fits(most)
    assert not fits(most + 1)


def test_basic_blocks_are_tiled_in_whole_groups():
    assert tmp_size("softmaxgrad", (960, 512), "float", is_front=True, is_basic_block=True).largest_tile_m % 8 == 0


def test_every_api_works_on_every_part():
    for soc in device_names():
        for api in APIS:
            kind, shape = ("half", (8, 1024)) if api == "softmaxflashv3" else ("float", (8, 64))
            answer = tmp_size(api, shape, kind, soc)
            whole = api == "softmaxflashv3" and answer.call.npu_arch in (3510, 5102)
            assert answer.choices["max"].tiling.split_m == (4 if whole else 8)
            assert (answer.choices["max"].cycles is not None) is (api == "softmaxgrad")
            assert answer.to_dict()["api"] == api


def test_what_each_size_of_softmax_grad_gives():
    answer = tmp_size("softmaxgrad", (64, 128), "float", tmp_bytes=16384)
    sizes = {
        name: (c.tmp_bytes, c.reserved_bytes, c.touched_bytes, c.tiling.split_m) for name, c in answer.choices.items()
    }
    assert sizes == {
        "min": (832, 832, 576, 1),
        "max": (53248, 53248, 36864, 64),
        "fits": (53248, 53248, 36864, 64),
        "given": (16384, 13312, 9216, 16),
    }
    assert answer.recommended is answer.choices["given"]


def test_formats_and_forms_of_softmax_grad():
    nz = tmp_size("softmaxgrad", (64, 128), "half", is_front=True, data_format="NZ").choices["max"]
    assert nz.touched_bytes == 4 * 64 * (2 * 128 + 16)
    block = tmp_size("softmaxgrad", (64, 128), "float", is_front=True, is_basic_block=True).choices["max"]
    assert block.touched_bytes == 4 * 64 * (128 + 1)
    assert None not in (nz.cycles, block.cycles)
    assert block.cycles != tmp_size("softmaxgrad", (64, 128), "float", is_front=True).choices["max"].cycles


def test_the_older_function_gives_the_same():
    device = load_device("Ascend910B1")
    assert softmax_grad_tmp_size((64, 128), FLOAT, False, 2201, device) == tmp_size("softmaxgrad", (64, 128), "float")
    assert predicted_cycles(device, FLOAT, (64, 128), False, 832) == 27228


def test_public_name():
    assert asc.tmp_size("softmaxgrad", [64, 128], "float").min_bytes == 832


@pytest.mark.parametrize(
    ("arguments", "more", "text"),
    [
        (
            ("softmin", (8, 8), "float"),
            {},
            (
                "softmin: its temp is not known here; known: softmaxgrad, softmax, logsoftmax, softmaxflash, "
                "softmaxflashv2, softmaxflashv3"
            ),
        ),
        (("softmax", (8, 0), "float"), {}, "shape [8, 0]: every axis must be at least 1"),
        (("softmax", (), "float"), {}, "shape []: every axis must be at least 1"),
        (("softmax", (8, 8), "int8_t"), {}, "--dtype int8_t: SoftMax supports half and float"),
        (
            ("softmaxflashv2", (8, 8), "half"),
            {"sum_type": "int32_t"},
            "--sum-dtype int32_t: SoftMaxFlashV2 supports half and float",
        ),
        (
            ("softmax", (8, 8), "float"),
            {"is_front": True},
            "--front: SoftMax has no such argument; those that have it: softmaxgrad",
        ),
        (
            ("softmaxgrad", (8, 8), "float"),
            {"is_update": True},
            (
                "--update: SoftmaxGrad has no such argument; those that have it: softmaxflash, softmaxflashv2, "
                "softmaxflashv3"
            ),
        ),
        (
            ("softmaxflash", (8, 8), "float"),
            {"is_flash_output_brc": True},
            "--brc: SoftMaxFlash has no such argument; those that have it: softmaxflashv2",
        ),
        (
            ("softmaxflash", (8, 8), "float"),
            {"sum_type": "float"},
            "--sum-dtype: SoftMaxFlash has no such argument; those that have it: softmaxflashv2, softmaxflashv3",
        ),
        (("softmaxgrad", (8, 8), "float"), {"data_format": "ZN"}, "--format ZN: want ND or NZ"),
        (
            ("softmaxgrad", (8, 24), "float"),
            {"data_format": "NZ"},
            "--format NZ: last axis 24 is no multiple of 16, the columns of a slab; pad it",
        ),
        (
            ("softmaxgrad", (8, 64), "float", "Ascend310B1"),
            {"data_format": "NZ"},
            "--format NZ: SoftmaxGrad on architecture 3002 has ND without basic block only",
        ),
        (
            ("softmaxgrad", (8, 64), "float"),
            {"is_basic_block": True},
            "--basic-block: only SoftmaxGradFront has a basic-block form; add --front",
        ),
        (
            ("softmaxgrad", (9, 64), "float"),
            {"is_basic_block": True, "is_front": True},
            (
                "--basic-block: needs rows % 8 == 0, last axis % 64 == 0 and 64 <= last axis < 2048, the shape "
                "is 9x64; leave it out"
            ),
        ),
        (
            ("softmaxgrad", (8, 64), "float"),
            {"reuse_source": True, "is_front": True},
            "--reuse-source with --front: the row sums are too short for src; leave one out",
        ),
        (
            ("softmaxgrad", (8, 64), "float"),
            {"npu_arch": 1001},
            (
                "architecture 1001 has no SoftmaxGrad, or is not known here; known: "
                "2002, 2201, 3002, 3003, 3113, 3510, 5102"
            ),
        ),
        (("softmaxgrad", (8, 64), "float"), {"tmp_bytes": 0}, "--temp 0: must be at least 1 B"),
        (
            ("softmaxgrad", (8, 12), "float"),
            {},
            (
                "GetSoftMaxGradMinTmpSize: last axis 12 of 4-byte elements is 48 bytes, not a multiple of 32; pad K to "
                "16. CANN logs E_LAST_AXIS_UNALIGNED and still returns 368."
            ),
        ),
    ],
)
def test_bad_input(arguments, more, text):
    with pytest.raises(asc.InputError) as raised:
        tmp_size(*arguments, **more)
    assert str(raised.value) == text
