"""The SQL that each engine writes: types, literals, and the constructions that the engines spell differently.

May import types, the IR and the errors. `literals.Literals` and `dialect.Dialect` are the two halves of what a lowering
asks of an engine, `local` (DuckDB) and `spark` the answers, `of_engine` finds them. Read `dialect` first.
"""
