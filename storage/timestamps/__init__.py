"""CSNs, and the oracles that give them out: of one process, or shared by many, with one contract.

May import `durable` and `stores`. Read `oracle` (the contract) first, then `in_process` and `shared`.
"""
