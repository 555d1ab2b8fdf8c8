"""An audit of what an application relies on: keys, foreign keys, upserts, locks, hot rows, from many clients at once.

    python -m tests.faults.audit --servers 2 --rounds 10

Sessions on one server or on several of one environment run the `loads` at random; servers are killed under them, and
come back. An auditor looks for broken rules all the while and, when everybody has stopped, compares what is there
with what the clients were told (`ledger`). `mutants` are servers with a mistake in them, which the audit must find.
"""
