"""CREATE, ALTER and DROP EXTENSION: the record, and the script that makes what belongs to it.

May import `definitions.types`, `definitions.common`, the rooms below and the planner. Read `changes` first.
"""
