"""What all definitions share: changing records of the catalog.

May import `changes` and what is below it. Read `catalog_changes` first.
"""
