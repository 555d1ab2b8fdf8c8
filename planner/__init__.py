"""Text to bound plan: parser, PostgreSQL types and functions, binder, typed IR, lowering to an engine's SQL.

Pure: no I/O, no clock, no async; of the storage it may import the catalog's immutable snapshot and the numbers in it.
Read `analyze` first, the entry of binding, then `ir.nodes`, what it makes, and `lowering`, which prints that.
"""
