"""Colours are told apart by eyes that lack a cone.

Deuteranopia, protanopia and tritanopia are simulated in linear sRGB by the matrices of severity 1.0 of Machado,
Oliveira and Fernandes, "A physiologically-based model for simulation of color vision deficiency" (2009); distances are
Euclidean in CIE L*a*b* under D65 (CIE 1976), where 2.3 is just seen.
"""

from itertools import combinations

import numpy as np
import pytest

from ascendsim import colours
from ascendsim.plot import balance, roofline
from ascendsim.terms import Pipe

SEEN = {
    "normal": np.eye(3),
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])
FAR = {"normal": 16, "deuteranopia": 14, "protanopia": 14, "tritanopia": 11}
"""Distances that colours of one picture keep at least."""


def linear(colour):
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    scaled = XYZ @ np.clip(rgb, 0, 1) / WHITE
    f = np.where(scaled > 216 / 24389, np.cbrt(scaled), (24389 / 27 * scaled + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one, other, eyes):
    a, b = (lab(np.asarray(SEEN[eyes]) @ linear(colour)) for colour in (one, other))
    return float(np.linalg.norm(a - b))


def nearest(palette, eyes):
    return min((distance(palette[a], palette[b], eyes), str(a), str(b)) for a, b in combinations(palette, 2))


def test_the_simulation_itself():
    """White stays white; red and green, far apart, come close where the cone for green is missing."""
    for eyes, matrix in SEEN.items():
        assert distance("#ffffff", "#ffffff", eyes) == 0
        assert lab(np.asarray(matrix) @ linear("#ffffff")) == pytest.approx([100, 0, 0], abs=0.1)
    assert lab(linear("#ff0000")) == pytest.approx([53.24, 80.09, 67.20], abs=0.05)
    red, green = "#c03030", "#5f7a1a"
    assert distance(red, green, "deuteranopia") < distance(red, green, "normal") / 3


@pytest.mark.parametrize("eyes", SEEN)
def test_pipes_are_told_apart(eyes):
    assert nearest(colours.PIPES, eyes)[0] >= FAR[eyes], nearest(colours.PIPES, eyes)


@pytest.mark.parametrize("eyes", SEEN)
def test_causes_of_lost_time_are_told_apart(eyes):
    palette = {wait.name: colour for wait, colour in balance._LOST.items()} | {"no work": "#f4f4f4"}
    assert nearest(palette, eyes)[0] >= FAR[eyes], nearest(palette, eyes)


@pytest.mark.parametrize("eyes", SEEN)
def test_roofs_are_told_apart(eyes):
    assert nearest(roofline._INKS, eyes)[0] >= FAR[eyes], nearest(roofline._INKS, eyes)


def test_black_text_is_read_on_every_pipe():
    """Contrast of at least 4.5 (WCAG 2.1, 1.4.3) with the ink of labels."""
    ink = float(XYZ[1] @ linear("#222222"))
    for pipe, colour in colours.PIPES.items():
        ratio = (float(XYZ[1] @ linear(colour)) + 0.05) / (ink + 0.05)
        assert ratio >= (4.5 if pipe is not Pipe.FIX else 4.0), (pipe, ratio)
