"""Text: parsing by PostgreSQL's grammar, names and identifiers, layout, and other dialects.

May import `catalog_data` and the errors. Read `parse` first.
"""
