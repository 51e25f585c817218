"""Colours of pipes and positions wherever they are shown.

After Okabe and Ito: told apart with red-green blindness, too, and light enough for black text. The tests simulate that.
"""

from ascendsim.terms import Pipe

PIPES = {
    Pipe.S: "#cc79a7",
    Pipe.MTE2: "#56b4e9",
    Pipe.MTE1: "#7c92f0",
    Pipe.M: "#f0e442",
    Pipe.FIX: "#d55e00",
    Pipe.V: "#1fae85",
    Pipe.MTE3: "#e69f00",
}
POSITIONS = {
    "VECIN": PIPES[Pipe.MTE2],
    "VECCALC": PIPES[Pipe.V],
    "VECOUT": PIPES[Pipe.MTE3],
    "A1": PIPES[Pipe.MTE2],
    "B1": "#7fcdbb",
    "C1": "#d9c39a",
    "A2": PIPES[Pipe.MTE1],
    "B2": "#b8a0d9",
    "C2": "#c9a66b",
    "CO1": PIPES[Pipe.M],
    "C2PIPE2GM": PIPES[Pipe.FIX],
}
"""Colour of a position: that of the pipe that fills it, and others for the right matrix and for biases."""
