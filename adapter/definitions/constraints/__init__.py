"""Definitions of constraints and generated columns, and the test of the rows that are there already.

May import `definitions.common`, `changes` and what is below them. Read `keys` first.
"""
