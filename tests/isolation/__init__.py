"""PostgreSQL's isolation specs, run against a PostgreSQL and against Tidegate: ``make isolation``.

A spec (`spec`) has sessions with steps, and permutations: orders in which the steps are sent. What a permutation prints
(`permutation`) tells rows, errors and which steps had to wait. `page` writes what came of it; specs that differ stand
in `differences` with the reason.
"""
