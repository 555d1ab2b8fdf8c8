"""Queries: their session values filled in, their tables resolved, an engine chosen, their rows streamed; and the
functions that read or act on the session (`session_functions`, `acting`, `sequences`).

May import `execution` and what is below it. Read `read` first.
"""
