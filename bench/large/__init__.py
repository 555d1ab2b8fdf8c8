"""Large statements beside PostgreSQL's: how long they take, what memory, and how long another session waits meanwhile.

`python -m bench.large`. Start with `cases`, the statements; `second_session` is the process that feels them.
"""
