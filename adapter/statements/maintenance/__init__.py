"""VACUUM and ANALYZE.

May import `queries` and what stands below. Read `vacuum` first.
"""
