"""Deterministic simulation of the storage layer: several processes, faults, crashes, and checks of what they saw.

Run ``python -m tests.simulation --seeds N``; a failing seed reproduces with ``--seed S``.

- `loop`: an asyncio event loop with virtual time that picks the next ready callback by seed.
- `network`: the two primitives behind a network that delays, fails and forgets.
- `checker`: finds isolation anomalies in a history of transactions.
- `workload`, `world`: what the processes do, and the invariants that every run must keep.
- `parallel_commit_model`: the parallel commit protocol, explored exhaustively.
"""
