"""Two-phase commit: transactions that have answered PREPARE TRANSACTION, and wait for COMMIT or ROLLBACK PREPARED.

`note` is what is durable of one besides its rows and definitions; `prepared` is what this process holds of all of them:
their locks, and what others may not commit meanwhile. May import `transactions` and `transactions.locks`. Read
`prepared` first.
"""
