"""Expressions to SQL.

`scalars` dispatches to the modules that print one kind of expression each, which `handlers` gathers. Casts and texts
are templates by type; aggregates are here too, for they print like calls. May import `fragments` and what
that imports, and asks for subqueries through a protocol. Read `scalars` first.
"""
