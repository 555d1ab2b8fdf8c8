"""Views that other engines define, as ours.

Pure. May import `planner.definitions` and what stands below. Read `imported` first.
"""
