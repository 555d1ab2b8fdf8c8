"""Durable, timestamped collections: blob, consensus, shards, transactions, CSN oracle, catalog.

Knows nothing of SQL.
"""
