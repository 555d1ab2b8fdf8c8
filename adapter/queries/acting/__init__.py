"""Functions that read or act on the session (`session_functions`, `sequences`, `advisory_locks`, `cursor_rows`),
carried out where and when PostgreSQL evaluates them: in an expression (`calls`), for each row of a select list
(`select_lists`, `read_before`; nextval alone in `numbered_lists`), in WHERE (`filters`).

May import `procedures` and what is below it. Read `calls` first.
"""
