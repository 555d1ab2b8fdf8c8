"""Locks: writers wait for writers, so that the optimistic commit behind them seldom has to refuse anybody.

A lock only *orders*. Whether a transaction may commit is judged by `adapter.transactions.validation` alone, so a lock
that is lost (a server ends, another server of the environment knows nothing of it) makes no answer wrong; it brings
back a serialization failure where there would have been a wait.

May import nothing of the adapter. Read `modes` first and `tags`, then `lock` (one lock, pure), `row_locks` (the rows of
a table), `deadlock`, `lock_table`.
"""
