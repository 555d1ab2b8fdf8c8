"""CREATE and REFRESH MATERIALIZED VIEW, and their options.

May import `definitions.indexes`, `definitions.constraints`, `definitions.common` and the rooms below the definitions.
Read `creation` first.
"""
