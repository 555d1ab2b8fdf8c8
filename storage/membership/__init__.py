"""Who takes part in an environment: leases, read holds, the end of dead processes, and making room for new ones.

May import `transactions` (leases are kept in the txns shard), `catalog`, `timestamps` and what lies below. Read
`leases` first, then `watch` (how the others judge them) and `peers`.
"""
