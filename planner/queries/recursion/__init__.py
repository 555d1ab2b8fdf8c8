"""WITH RECURSIVE: how a common table may refer to itself, and its clauses SEARCH and CYCLE, on parse trees.

May import `resolution`, the IR and all below. Read `rules` first.
"""
