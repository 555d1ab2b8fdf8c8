"""Changes of rows: INSERT, UPDATE and DELETE, and in `copy` COPY.

A change reads at the transaction's snapshot and writes into the transaction's buffer; whether it may stand is found out
when the transaction commits. May import `queries`, `execution` and what is below them. Read `modify_table` first.
"""
