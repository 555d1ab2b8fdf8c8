"""Geometric types: their values, numbers and texts.

May import the types, the errors and the texts of floats. Read `shapes` first.
"""
