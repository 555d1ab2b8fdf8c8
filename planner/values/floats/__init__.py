"""Numbers of float4 and float8.

May import nothing of the planner. Read `float_text` first.
"""
