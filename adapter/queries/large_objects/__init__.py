"""Large objects: values of up to 4 TB that are read and written in pieces (PostgreSQL 15, chapter "Large Objects").

`tables` is where they are kept, `pages` reads and writes their bytes, `metadata` says which there are, who owns them
and who may do what, `descriptors` what a transaction has open, `calls` the functions of SQL. May import
`queries.by_index` and what is below `queries`. Read `tables` first.
"""
