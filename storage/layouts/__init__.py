"""How a table wants its rows laid out in files: in which order, in files of what size.

May import `storage.catalog` and `storage.shards`. Read `layout` and `definition` first.
"""
