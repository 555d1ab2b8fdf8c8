"""PostgreSQL's own regression SQL, run on a PostgreSQL 15 and on Tidegate statement by statement: ``make regress``.

`script` reads a file as psql does, into statements and backslash commands; `target` sends a statement to one server and
keeps what comes back; `run` carries a file out on both; `compare` says whether two answers are the same; `reasons` says
why one is not; `page` writes docs/regression.md.
"""
