"""What a table asks of the rows that a statement writes: NOT NULL, CHECK, unique and foreign keys and their actions.

May import `changes.rows`, `queries`, `execution` and what is below them. Read `table_checks` first, which is what a
statement is held to; `key_checks` finds the keys of other rows.
"""
