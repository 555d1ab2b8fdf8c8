"""Types: what they are, how they are named, the signatures of routines, the shapes of numerics.

May import `syntax`, `catalog_data` and the errors. Read `types` first.
"""
