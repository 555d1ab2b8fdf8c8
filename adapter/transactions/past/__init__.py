"""Transactions that look back: their snapshot is of a moment in the past.

`moments` finds the CSN that a setting or an expression means, `looking_back` gives a transaction the snapshot of then.
May import `transactions`. Read `looking_back` first.
"""
