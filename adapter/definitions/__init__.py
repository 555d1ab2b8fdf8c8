"""DDL: statements that change the catalog. They propose records; the commit validates and publishes them.

One module for each sort of change, and `views`, which keeps stored queries true. May import `changes` (for rows that a
definition writes), `queries`, `execution` and what is below them. Read `dispatch` (how all of them work) first, then
`tables`.
"""
