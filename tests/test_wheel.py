"""The wheel, built and run from a clean environment: devices, scenarios, tilings and data are inside."""

import os
import subprocess
import sys
import venv
import zipfile

import pytest
from conftest import ROOT

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(ROOT)], check=True, capture_output=True
    )
    (found,) = out.glob("*.whl")
    return found


def test_data_is_inside(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in (
        "ascendsim/devices/arch2201.toml",
        "ascendsim/devices/Ascend910B1.toml",
        "ascendsim/devices/products.toml",
        "ascendsim/data/scenarios/softmaxgrad_960x960_float.toml",
        "ascendsim/data/scenarios/data/minilm_attention.npz",
        "ascendsim/data/scenarios/vector_add.py",
        "ascendsim/data/tilings/softmaxgrad_front_small.toml",
        "ascendsim/py.typed",
        "ascendsim/viewer/page.html",
        "ascendsim/viewer/view.js",
    ):
        assert name in names
    assert not any(n.startswith(("tests/", "docs/")) for n in names)


def test_it_runs_in_a_clean_environment(wheel, tmp_path):
    place = tmp_path / "env"
    venv.create(place)
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    # Neither a pip of its own nor the bytecode of every module of its packages, which takes as long as all the rest.
    pip = [sys.executable, "-m", "pip", "--python", str(place / "bin/python"), "install", "--no-compile"]
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *quiet, str(wheel)], check=True, env=environment, cwd=tmp_path)
    command = str(place / "bin/ascendsim")
    for arguments in (
        ["devices", "Ascend910B1"],
        ["tmpsize", "softmaxgrad", "--shape", "960,960", "--dtype", "float"],
        ["run", "softmaxgrad_minilm_attention", "--out", "real"],
        ["run", "softmaxgrad_half_front", "--out", "front"],
        ["why", "real", "--pipes", "MTE2,V"],
    ):
        done = subprocess.run(
            [command, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    assert (tmp_path / "real" / "timeline.png").stat().st_size > 10_000
