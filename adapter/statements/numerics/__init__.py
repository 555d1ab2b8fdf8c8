"""Statements that meet a numeric which decimals have no room for, a NaN or one of more than 38 digits: they are carried
out again, with such numerics held as texts (`TypeScope.held`), and with the columns that get a NaN stored so.

May import what `adapter.statements` may, and no statement by its kind. Read `again` first.
"""
