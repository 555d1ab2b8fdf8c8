"""Tables that are read by their indexes: rows by keys (`key_scan`), the rows that conditions pick or that come first in
some order (`table_rows`), those with partners in a join (`join_scan`), and a query's tables together (`index_scan`).

May import `execution` and what is below it. Read `index_scan` first.
"""
