"""Who a client is: the rules of pg_hba.conf and pg_ident.conf, and the methods that they name.

Pure but for `rules` (files) and `login` (the exchange with the client). May import `protocol` and the rooms below. Read
`login` first.
"""
