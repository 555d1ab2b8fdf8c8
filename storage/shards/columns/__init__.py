"""Arrow's columns as parts have them: the memory that they take, one row group out of bytes, wider types.

May import nothing of `storage`. Read `widening` first.
"""
