"""Functions on types that no engine knows, held as text or bytes.

May import `udfs.table`, the types and their values. Read `network` first.
"""
