"""Moments that a statement names: evaluated before it is bound, so that the definitions of then are known.

May import `queries` and what stands below it. Read `evaluated_moments` first.
"""
