"""The functions in Python (`udfs`) as an engine calls them.

May import `udfs`, `dialects` and the errors. Read `local` first; `spark` takes over what it has.
"""
