"""Statements that meet a NaN where numerics are held as decimals, which have none: they are carried out again, with
values of numeric(p, s) held as texts (`TypeScope.holds_nan`) and the columns that get one stored so.

May import what `adapter.statements` may, and no statement by its kind. Read `again` first.
"""
