"""Queries: their session values filled in, their tables resolved, an engine chosen, their rows streamed; and the
functions that read or act on the session (`acting`).

May import `execution` and what is below it. Read `read` first.
"""
