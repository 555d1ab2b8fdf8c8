"""CREATE, ALTER and DROP of functions and procedures.

May import `definitions.common`, the rooms below and the planner. Read `creation` first.
"""
