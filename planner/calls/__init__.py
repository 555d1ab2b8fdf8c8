"""Function calls: which routine is meant, its arguments, and what becomes of aggregates, windows and sets.

May import `expressions`, whose handlers the calls are among, `resolution`, the function registry and all below. Read
`calls` first, then `overloads`.
"""
