"""Colours of pipes wherever they are shown.

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
