"""Other dialects of SQL, read and written by sqlglot.

`reading` is what a session with ``SET dialect = 'spark'`` does to each query string: it becomes PostgreSQL's, whatever
means something else is repaired (`rules`, `functions`), and whatever nobody has vouched for (`nodes`) is refused by
name. `transpiling` is tidegate.transpile, between any two dialects, which is sqlglot's own translation.

May import the rest of `planner.syntax` and the errors. Read `reading` first, then `rules`.
"""
