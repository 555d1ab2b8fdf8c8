"""Arrow columns to PostgreSQL's text and binary representations, and those to messages.

A column of a record batch becomes an `Encoded` (columns.py): its bytes for every row at once, made with Arrow compute
and NumPy. `rows.py` interleaves the columns of a batch into DataRow messages or COPY data. Nothing in the common path
runs Python per row; what does (years beyond 9999, rare DateStyles, distinct intervals) says so where it does.
"""
