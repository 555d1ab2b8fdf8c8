"""Advisory locks between the servers of an environment.

May import `transactions.locks`. Read `page` first (what is written down, pure), then `between_servers`.
"""
