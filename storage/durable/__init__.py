"""State on a consensus store: runs of diffs with rollups, small registers, and trying again what a store failed at.

May import `stores`. Read `state` first.
"""
