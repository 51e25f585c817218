"""What an instruction found and left, and what a tensor held at a cycle: a program executed again as far as asked.

**A row** is looked at in the order in which values are computed (`turns`): what its operands hold in front of it and
behind it.

**A tensor at cycle T** holds what every row that is complete by then has left (`end` <= T in the timeline). Rows that
write it and have started but are not complete are in flight: none of their bytes counts before, all count after. Values
are those of the order of execution, which a program without races does not notice; additions to GM from several cores
happen in that order, whatever the timeline says.
"""

from ascendsim.inspection.rows import Watch, look_at_rows, row_of_core, values, watch_rows
from ascendsim.inspection.tensors import look_at_tensor
from ascendsim.inspection.views import Chosen, Replay, RowView, Run, TensorView, Times, Values, Writer

__all__ = [
    "Chosen",
    "Replay",
    "RowView",
    "Run",
    "TensorView",
    "Times",
    "Values",
    "Watch",
    "Writer",
    "look_at_rows",
    "look_at_tensor",
    "row_of_core",
    "values",
    "watch_rows",
]
