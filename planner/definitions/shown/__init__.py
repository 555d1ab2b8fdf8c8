"""Queries of views and statements of functions as PostgreSQL's ruleutils.c shows them, printed of what their texts were
bound as.

May import `definitions.expression_text`, `queries` and what these import. Read `queries` first, then `scalars`, then
`changes`.
"""
