"""Functions in FROM that read what is not in the catalog of today: files, and tables as they were. Pure: the files, and
the definitions of then, have been looked up before.

May import `calls`, `resolution` and what stands below. Read `read_calls` first.
"""
