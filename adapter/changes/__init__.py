"""Changes of rows, INSERT, UPDATE, DELETE and COPY FROM, and COPY TO, which shares its options with COPY FROM.

A change reads at the transaction's snapshot and writes into the transaction's buffer; whether it may stand is found out
when the transaction commits. May import `queries`, `execution` and what is below them. Read `modify_table` first.
"""
