"""What does not fit into a budget (`work_mem`) goes to temporary files: rows that are kept aside (`row_spool`), keys
that a statement notes (`key_runs`), and those that it has written (`written_keys`).

Knows no session and no statement: they give it their `TemporaryFiles`. May import `settings`, `results` and the
planner's errors. Read `temporary_files` first.
"""
