"""Tables whose own metadata says which files they have: Iceberg's and Delta's.

May import `lake` and what stands below. Everything blocks and runs on threads. Read `tables` first, then `listings`.
"""
