"""Values of each type from text and to text, by PostgreSQL's input and output functions.

May import the IR, `types`, `catalog_data` and the errors. Read `text_values` first.
"""
