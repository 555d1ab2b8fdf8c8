"""Functions in Python that the engines call where their SQL cannot say what PostgreSQL does.

Each takes and gives plain values of one row; `table` says how one is declared. May import `values`, `syntax`,
`dialects`, the IR, `types` and the errors. Read `table` first.
"""
