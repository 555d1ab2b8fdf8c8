"""OIDs of the objects that PostgreSQL keeps beside a user's object and that our catalog does not record.

A table has a row type and that type's array, a view a rewrite rule, a primary key or unique constraint an index, a
column default a pg_attrdef row. Their oids follow from the owner's oid, so they are stable over the object's life and
equal in every process. All stay below 2**31 because some clients read oids as int4; the catalog's own oids stay below
`SPAN`.
"""

from __future__ import annotations

SPAN = 400_000_000
"""How many oids each kind of derived object has."""

FIRST_USER_TYPE = 2 * SPAN
"""Types of users, and the arrays over them, have oids above this one."""

_INDEX = SPAN
_ROW_TYPE = 2 * SPAN
_ARRAY_TYPE = 3 * SPAN
_RULE = 4 * SPAN
ATTRDEF_START = 5 * SPAN
"""Defaults are numbered from here, in the order of relation and column."""


def index_oid(constraint_oid: int) -> int:
    """The index that a primary key or unique constraint shows as."""
    return constraint_oid + _INDEX


def owner(oid: int) -> int:
    """The object itself, or the one that it is derived from."""
    return oid % SPAN


def row_type_oid(record_oid: int) -> int:
    """The type that a record stands for: of a relation's rows, an enum."""
    return record_oid + _ROW_TYPE


def array_type_oid(record_oid: int) -> int:
    """The array over the type `row_type_oid`."""
    return record_oid + _ARRAY_TYPE


def rule_oid(relation_oid: int) -> int:
    """The _RETURN rule of a view."""
    return relation_oid + _RULE


def owner_of_index(oid: int) -> int | None:
    """The constraint whose index `oid` is, or None when `oid` is no derived index."""
    return oid - _INDEX if _INDEX < oid < _INDEX + SPAN else None


def owner_of_row_type(oid: int) -> int | None:
    """The record (a relation, an enum) whose type `oid` is, or None."""
    return oid - _ROW_TYPE if _ROW_TYPE < oid < _ROW_TYPE + SPAN else None


def owner_of_array_type(oid: int) -> int | None:
    """The record over whose type `oid` is the array, or None."""
    return oid - _ARRAY_TYPE if _ARRAY_TYPE < oid < _ARRAY_TYPE + SPAN else None


def owner_of_rule(oid: int) -> int | None:
    """The view whose rule `oid` is, or None."""
    return oid - _RULE if _RULE < oid < _RULE + SPAN else None
