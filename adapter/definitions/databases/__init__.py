"""CREATE, ALTER and DROP DATABASE.

May import `definitions.common` and what is below it. Read `changes` first; `copies` gives the objects of a template
their new oids.
"""
