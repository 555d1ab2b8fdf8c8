"""Files of others in statements: looked up before a statement is planned, read by engines.

May import `transactions`, `settings` and what stands below. Read `file_tables` first.
"""
