"""The two primitives that everything durable stands on, and each of their implementations.

May import the clock and the errors alone. Read `blob` and `consensus` (the contracts, with one conformance suite each)
first; `blob_local` and `consensus_sqlite` are the defaults.
"""
