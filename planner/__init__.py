"""Text to bound plan: parser, PostgreSQL types and functions, binder, typed IR, lowering to an engine's SQL.

Pure: no I/O, no clock, no async.
"""
