"""The queries that bring the stored rows of a materialized view up to date.

May import `definitions` and what lies below. Read `differences` first.
"""
