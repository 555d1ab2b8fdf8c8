"""Arrow columns to PostgreSQL's text and binary representations, and those to messages.

A column of a record batch becomes an `Encoded` (`columns`): its bytes for every row at once, made with Arrow compute
and NumPy. `rows` interleaves the columns of a batch into DataRow messages or COPY data. Nothing in the common path
runs Python per row; what does (years beyond 9999, rare DateStyles, distinct intervals) says so where it does.

The lowest room of the frontend: may import none of the others, only the planner's types and values. Read `columns`
first, then `encoders` and `rows`.
"""
