"""Relational nodes to SELECTs: `relations` dispatches, `select` is the SELECT under construction.

The other modules each print one kind of node, given the whole as a protocol. It imports `scalars` and `fragments`. Read
`select.py` first, then `relations.py`.
"""
