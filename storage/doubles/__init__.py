"""Stand-ins for tests, simulations and benchmarks: stores in memory, stores that fail or count, a clock set by hand.

May import `stores`. Nothing else of the storage imports it. Read `memory_consensus` first: the shortest implementation
of that contract.
"""
