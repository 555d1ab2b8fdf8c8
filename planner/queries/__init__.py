"""Queries: SELECT with all its clauses, VALUES, set operations, WITH; changes of rows are in `changes`.

A query is bound in two steps: analysis makes an object that knows its output columns (`SelectQuery`, `SetQuery`,
`ValuesQuery`), from which its relation is made once the columns have their types.

May import `calls`, `expressions`, `resolution`, the IR and all below. Read `select` first; `grammar` puts together
everything that binds.
"""
