"""Arrow's columns as parts have them: memory that they take, row groups out of bytes, wider types, repeated values.

May import nothing of `storage`. Read `widening` first.
"""
