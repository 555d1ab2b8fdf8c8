"""Tables published as Iceberg tables, format version 2: their files as they are, with metadata that others read.

May import `reading`, `membership` and what stands below. What touches pyiceberg is imported by who publishes and not
with the server: it is slow to load. Read `publisher` first.
"""
