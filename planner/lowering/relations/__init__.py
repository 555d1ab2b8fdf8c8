"""Relational nodes to SELECTs: `relations` dispatches, `select` is the SELECT under construction.

The other modules each print one kind of node, given the whole as a protocol. May import `scalars` and `fragments`.
Read `select` first, then `relations`.
"""
