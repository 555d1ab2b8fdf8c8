"""Which collation the columns of a query and the values of expressions have.

Nothing is sorted by it, for all texts are in the order of their bytes: it is what the catalog says of columns and keys.
May import `planner.ir`, `planner.types`, `planner.catalog_data` and what is below them. Read `derivation` first.
"""
