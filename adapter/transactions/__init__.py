"""SQL transactions over storage's: snapshots, what was read and written, validation, the commit.

`transaction` is one transaction of a session, `snapshots` what a query reads of its tables, `validation` whether a
transaction may commit, `group_commit` how those that wait commit together. May import `engines.common` (for what
engines are given to read), `plans` and `settings`. Read `transaction` first, then `group_commit`.
"""
