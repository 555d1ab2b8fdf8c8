"""Servers of foreign data, user mappings and foreign tables.

May import `definitions.common` and what stands below the definitions. Read `servers` first.
"""
