"""Tables of SQL as published ones: which there are, how their columns look, and the process's publisher.

May import `transactions` and what stands below. Read `published_tables` first.
"""
