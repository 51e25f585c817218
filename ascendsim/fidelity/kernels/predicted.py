"""What is predicted of a whole kernel."""

from dataclasses import dataclass

PIPES = ("vec", "mac", "scalar", "mte1", "mte2", "mte3", "fixpipe")
"""The profiler's names of pipes, as in "aic_mac_time"."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Times of a kernel, comparable with those of a `MeasuredKernel`.

    Attributes:
        us: task duration in microseconds.
        pipe_us: microseconds by the profiler's names, such as "aic_mac_time", means over the cores.
        bottleneck: the slowest pipe, by the profiler's name without core and "_time": "mac".
    """

    us: float
    pipe_us: dict[str, float]
    bottleneck: str


def bottleneck_of(pipe_us: dict[str, float]) -> str:
    """Return the pipe with the most time, "" where no pipe has one."""
    of_pipe = {
        pipe: us
        for name, us in pipe_us.items()
        if name.endswith("_time") and (pipe := name.removesuffix("_time").partition("_")[2]) in PIPES
    }
    return max(of_pipe, key=lambda pipe: of_pipe[pipe], default="")
