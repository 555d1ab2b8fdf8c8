"""Expressions over the types of extensions that are other expressions, a module for each extension.

May import `resolution` and what that may. Read `hstore_rows` first.
"""
