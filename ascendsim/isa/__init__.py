"""Instructions, each declared once: operands, rules, pipe, cost and arithmetic in one place.

`AiCore` (ascendsim.record) inherits the call side; `check`, `execute` and `cost` look instructions up in the TABLE.
"""
