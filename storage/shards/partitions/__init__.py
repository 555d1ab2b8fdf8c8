"""Partitions of tables: Iceberg's transforms of column values, and what parts say of theirs.

May import nothing of `storage`. Read `transforms` first.
"""
