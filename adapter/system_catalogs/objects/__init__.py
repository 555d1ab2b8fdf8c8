"""What exists: look-ups over the built-in objects and those of a catalog snapshot, their oids, and their text as SQL.

The lowest folder of the system catalogs: may import none of the others. Read `objects` first, then `content` (what a
relation's rows are made as).
"""
