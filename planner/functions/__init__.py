"""The function registry: each PostgreSQL function, operator, aggregate and window function, once.

`families` gives each its form on the engines, `forms` what a form is, `udfs` the functions in Python, `engines` brings
those to an engine. May import `types` and its own folders. Read `registry` first.
"""
