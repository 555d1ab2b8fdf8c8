"""Definitions of large objects: their owners, their privileges, comments on them, and what becomes of them when a role
goes. The objects themselves are rows (`adapter.queries.large_objects`).

May import `definitions.privileges` and what is below it. Read `changes` first.
"""
