from pathlib import Path

import pytest

from ascendsim.device import Device, load_device

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def device() -> Device:
    return load_device("Ascend910B1")
