"""Extended statistics: what CREATE STATISTICS names is kept, checked, shown and dumped, and nothing is planned by it.

May import `definitions.common`. Read `changes` first; `upkeep` follows the table.
"""
