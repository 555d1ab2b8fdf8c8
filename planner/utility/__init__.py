"""From parse trees to utility statements (`planner.statements`).

May import `definitions`, `statements`, `types`, `syntax` and `catalog_data`. Read `statements` first: it is the entry,
and every other module makes the statements about one thing.
"""
