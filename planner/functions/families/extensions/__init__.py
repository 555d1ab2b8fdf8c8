"""The operators and aggregates over the types that extensions make, a module for each type.

May import `families` and what these may. Read `citext` first.
"""
