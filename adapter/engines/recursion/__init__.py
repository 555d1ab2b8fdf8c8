"""Recursive queries in rounds, around an engine whose own WITH RECURSIVE does less than PostgreSQL's.

May import `engines.common`. Read `engine` first; what the rounds are is in `planner.lowering.rounds`.
"""
