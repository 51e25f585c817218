"""Devices are data: complete, with sources, refused with a path where wrong."""

import tomllib
from importlib import resources

import pytest
from pydantic import ValidationError

import ascendsim as asc
from ascendsim import device as devices
from ascendsim.device import Device, describe_validation, device_names, find_product, load_device, parts_of, products
from ascendsim.terms import KernelType

TOML = resources.files("ascendsim.devices")


def test_the_parts_of_arch_2201():
    assert {"Ascend910B1", "Ascend910B2", "Ascend910B3", "Ascend910B4", "Ascend910_9392"} <= set(device_names())
    for name in device_names():
        part = load_device(name)
        assert part.name == name
        if part.npu_arch != 2201:
            continue
        assert part.aiv == 2 * part.cores.aic.value
        assert part.calibrated.value
        assert part.caution == ""


@pytest.mark.parametrize(
    ("name", "cores", "mhz"),
    [("Ascend310P1", 10, 1060), ("Ascend310P3", 8, 1060), ("Ascend310P5", 8, 800), ("Ascend310P7", 8, 550)],
)
def test_the_parts_of_arch_2002(name, cores, mhz):
    """Platform files Ascend310P*.ini; UB limits as the kernel's constants and GetCoreMemSize give them."""
    part = load_device(name)
    assert (part.npu_arch, part.core_form, part.product_family) == (2002, "combined", "Atlas inference")
    assert (part.cores.aic.value, part.aiv, part.clock_mhz) == (cores, cores, mhz)
    ub = part.ub
    assert (part.ub_bytes, ub.visible_bytes.value, ub.safe_bytes.value) == (262144, 262144, 253952)
    assert (ub.pop_stack_end_bytes.value, ub.reserved_offset_bytes.value) == (262144, 253952)
    assert (part.memory.l1_bytes.value, part.memory.l2_bytes.value) == (1048576, 16777216)
    assert (part.memory.l0c_bytes.value, part.memory.bt_bytes.value, part.memory.fb_bytes.value) == (262144, 0, 0)
    assert {c for c in part.capabilities if part.has(c)} == {
        "order_index_value", "add_deq_relu", "data_copy_ub_to_ub", "select_uses_reserved", "data_copy_nd2nz",
        "load_gm_to_l0", "load_3d_transposes_bytes", "data_copy_ub_to_l1", "data_copy_l0c_to_ub",
        "set_cmp_mask", "select_with_bytes_mask", "drop_out",
    }  # fmt: skip


def test_an_uncalibrated_device_says_so():
    part = load_device("Ascend310P3")
    assert part.caution == (
        "NOT CALIBRATED: no instruction timing of arch 2002 was found; cycles rest on arch 2201's figures"
    )
    assert {c.status for table in part.vector.values() for c in table.values()} == {"assumed"}
    assert {t.status for t in part.transfer.values()} == {"assumed"}


def test_costs_of_an_uncalibrated_device_are_those_it_names():
    """Every vector and scalar figure of arch 2002 is arch 2201's, as its sources say."""
    new, known = load_device("Ascend310P3"), load_device("Ascend910B1")
    for family, table in new.vector.items():
        for key, cost in table.items():
            other = known.vector[family][key]
            plain = {"source": "", "status": "assumed"}
            assert cost.model_copy(update=plain) == other.model_copy(update=plain)
    assert new.scalar.get_value_cycles.value == known.scalar.get_value_cycles.value
    assert set(known.vector) - set(new.vector) == {"Copy", "Brcb"}


@pytest.mark.parametrize(
    ("name", "aic", "aiv", "mhz", "l2_mib"),
    [
        ("Ascend910B1", 24, 48, 1850, 192),
        ("Ascend910B2", 24, 48, 1800, 192),
        ("Ascend910B3", 20, 40, 1800, 192),
        ("Ascend910B4", 20, 40, 1650, 96),
        ("Ascend910_9362", 20, 40, 1500, 168),
        ("Ascend910_9391", 24, 48, 1850, 192),
    ],
)
def test_numbers_of_the_platform_files(name, aic, aiv, mhz, l2_mib):
    part = load_device(name)
    assert (part.cores.aic.value, part.aiv, part.clock_mhz) == (aic, aiv, mhz)
    assert part.memory.l2_bytes.value == l2_mib * 1024**2
    assert (part.ub_bytes, part.ub.visible_bytes.value, part.ub.safe_bytes.value) == (196608, 196352, 188160)


def test_every_number_has_a_source_and_a_status():
    """Every leaf number of a device file stands in a table with source and status."""
    described = 0
    for file in TOML.iterdir():
        if not file.name.endswith(".toml") or file.name == "products.toml":
            continue
        for path, table, key, value in _leaves(tomllib.loads(file.read_text()), ()):
            if isinstance(value, int | float) and key not in ("schema", "npu_arch"):
                owners = (table, *path[-2:])  # lines and latencies stand inside the table that names their source
                assert any("source" in o for o in owners) or key in ("fixed_cycles", "bytes_per_cycle"), (
                    file.name,
                    key,
                )
                described += 1
    assert described > 200


def _leaves(tree, path):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, tree))
        else:
            yield (*path, tree), tree, key, value


def test_an_unknown_key_is_refused_with_its_path(monkeypatch):
    real = devices._read_toml

    def read(name):
        raw = real(name)
        if name == "Ascend910B1":
            raw["memory"]["ub_byte"] = raw["memory"]["l2_bytes"]
        return raw

    monkeypatch.setattr(devices, "_read_toml", read)
    load_device.cache_clear()
    with pytest.raises(asc.DeviceError, match=r"device file Ascend910B1.toml: memory.ub_byte: unknown key"):
        load_device("Ascend910B1")
    load_device.cache_clear()


def test_a_flag_takes_a_cycle_to_set():
    """The contract of the engines: a flag never rises in the cycle in which its set starts."""
    raw = load_device("Ascend910B1").model_dump(by_alias=True, mode="json")
    raw["scalar"]["wait_flag_cycles"]["value"] = 0
    Device.model_validate(raw)
    raw["scalar"]["set_flag_cycles"]["value"] = 0
    with pytest.raises(ValidationError) as caught:
        Device.model_validate(raw)
    wanted = "scalar.set_flag_cycles.value: Input should be greater than or equal to 1"
    assert describe_validation(caught.value) == wanted


def test_names_are_found_whatever_their_case():
    assert load_device("ascend910b1").name == "Ascend910B1"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Ascend910B5", "unknown device 'Ascend910B5'; did you mean Ascend910B4"),
        (
            "Atlas A2 training",
            "Atlas A2 training is a product family, not a part; choose one of its parts: Ascend910B1,",
        ),
        (
            "Atlas A3 推理系列产品",
            "is a product family, not a part; choose one of its parts: Ascend910C4, Ascend910_9362",
        ),
        ("Ascend910B", "this is a first-generation part (arch 1001), where SoftmaxGrad is not supported"),
        ("Ascend910", "Ascend910 cannot be simulated: this is a first-generation part (arch 1001), where SoftmaxGrad"),
        *(
            (
                f"{part} Vector Core",
                "cannot be simulated: SoftmaxGrad is not supported on the Vector Core of this product",
            )
            for part in ("Ascend310P1", "Ascend310P3", "Ascend310P5", "Ascend310P7", "ascend310p")
        ),
        ("Atlas 推理系列产品 Vector Core", "SoftmaxGrad is not supported on the Vector Core of this product"),
        (
            "Atlas inference",
            "a product family, not a part; choose one of its parts: Ascend310P1, Ascend310P3, Ascend310P5, Ascend310P7",
        ),
        ("Atlas 训练系列产品", "this is a first-generation part (arch 1001)"),
        ("Atlas 350", "no platform file names the Atlas 350 card itself; that it carries an Ascend 950PR is inferred"),
    ],
)
def test_what_is_no_part_is_explained(name, text):
    with pytest.raises(asc.DeviceError) as caught:
        load_device(name)
    assert text in str(caught.value)


def test_products_cover_the_page():
    names = {n for p in products() for n in p.names}
    for name in (
        "Atlas 350 加速卡", "Atlas A3 训练系列产品", "Atlas A3 推理系列产品", "Atlas A2 训练系列产品",
        "Atlas A2 推理系列产品", "Atlas 200I/500 A2 推理产品", "Atlas 推理系列产品 AI Core",
        "Atlas 推理系列产品 Vector Core", "Atlas 训练系列产品",
    ):  # fmt: skip
        assert name in names
    assert parts_of("Atlas A2")[0] == "Ascend910B1"
    assert find_product(" atlas a2 TRAINING ").family == "Atlas A2"
    assert find_product("nothing") is None


def test_a_platform_keeps_the_limits_distance_from_the_end():
    part = load_device(asc.Platform(aic_cores=2, aiv_cores=4, ub_bytes=131072, clock_mhz=1000))
    assert (part.ub_bytes, part.ub.visible_bytes.value, part.ub.safe_bytes.value) == (131072, 130816, 122624)
    assert part.aiv == 4
    assert part.microseconds(1500) == 1.5
    with pytest.raises(asc.DeviceError, match=r"Platform\(aiv_cores=0\): must be positive"):
        load_device(asc.Platform(aic_cores=1, aiv_cores=0))
    with pytest.raises(asc.DeviceError, match="too small"):
        load_device(asc.Platform(aic_cores=1, aiv_cores=2, ub_bytes=8000))


def test_a_device_round_trips_through_json():
    part = load_device("Ascend910B4")
    assert Device.model_validate_json(part.model_dump_json(by_alias=True)) == part


def test_uncertain_numbers_are_listed():
    uncertain = load_device("Ascend910B1").uncertain_numbers()
    assert "scalar.dispatch_cycles" in uncertain
    assert "memory.ub_bytes" not in uncertain
    assert uncertain == tuple(sorted(uncertain))


def test_validation_text():
    raw = load_device("Ascend910B1").model_dump(by_alias=True, mode="json")
    raw["cores"]["aiv"]["value"] = -1
    with pytest.raises(ValidationError) as caught:
        Device.model_validate(raw)
    assert describe_validation(caught.value) == "cores.aiv.value: Input should be greater than or equal to 0"


def test_a_launch_takes_a_fixed_part_and_one_for_the_share_of_the_cores():
    device = load_device("Ascend910B1")
    assert device.launch_us(KernelType.AIV_ONLY, 48) == 8.4
    assert device.launch_us(KernelType.AIC_ONLY, 12) == 4.4
    assert load_device("Ascend950PR_9589").launch_us(KernelType.AIV_ONLY, 1) == 0.8


@pytest.mark.parametrize("name", ["Ascend310P3", "Ascend310B1"])
@pytest.mark.parametrize("path", ["gm_to_ub_miss", "gm_to_ub_hit", "ub_to_gm"])
def test_all_of_a_transfer_but_its_rates_is_arch_2201_s_where_nothing_is_published(name, path):
    device, lender = load_device(name), load_device("Ascend910B1")
    own, lent = (d.transfer[path].model_dump(exclude={"lines", "source", "status"}) for d in (device, lender))
    assert own == lent
    assert own["min_cycles"] == 20
    assert [line.fixed_cycles for line in device.transfer[path].lines] == [lender.transfer[path].lines[0].fixed_cycles]
    assert device.l2.line_bytes.value == lender.l2.line_bytes.value
    assert device.l2.segment_bytes.value == lender.l2.segment_bytes.value
