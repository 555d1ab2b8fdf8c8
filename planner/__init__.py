"""Text to bound plan, bound plan to an engine's SQL.

Pure: no I/O, no clock, no async; of the storage it may import the catalog's immutable snapshot and the numbers in it.
Read `analyze` first, the entry of binding, then `ir.nodes`, what it makes, and `lowering`, which prints that.

*Analysis* is the whole way from a parsed statement to what can be run; as in PostgreSQL it raises every error that
does not depend on data. To *bind* a part of the statement (`bind`, `bind_query`, `bind_insert`) is to look its names
up and give it its types, which makes nodes of the IR; the *binder* is all that does that, from `definitions` down to
`resolution`. To *lower* is to print the IR as one engine's SQL.

    SELECT a FROM t WHERE b = 1
      syntax      a parse tree of libpg_query
      binding     Project(Filter(Scan(t), b = 1), a)          the IR (`ir`): every type, cast and column explicit
      lowering    SELECT t1.c1 AS c3 FROM <t> AS t1 WHERE (t1.c2 = 1)
"""
