"""Functions in FROM that read files, and the types of what is in files. Pure: the files have been looked at before.

May import `calls`, `resolution` and what stands below. Read `read_calls` first.
"""
