"""CREATE INDEX, and what else is done to indexes: dropped, renamed, kept in step with their tables.

The indexes of primary keys and unique constraints come and go with these (`definitions.constraints`). May import
`definitions.constraints`, `definitions.common` and what is below. Read `creation` first.
"""
