"""Stored expressions and queries: defaults, checks, views. How their text is kept, bound again, renamed and shown.

May import `queries`, `expressions`, `resolution` and what these import. Read `deparse` first, then `views`.
"""
