"""Functions that act on the session, carried out where and when PostgreSQL evaluates them: in an expression whose
columns are known (`calls`), for each row of a select list (`select_lists`), in WHERE (`filters`).

May import `procedures` and what `queries` may. Read `calls` first.
"""
