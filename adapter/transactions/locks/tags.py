"""What can be locked, and PostgreSQL's words for it.

Examples::

    relation(16384)                  a table, in one of the eight modes
    row(16384, 7)                    the row with id 7 of that table, or a key with that hash of an index
    every_row(16384)                 all its rows at once (escalation)
    advisory(5, 0, 42, 1)            pg_advisory_lock(42) in the database with oid 5
    advisory(5, 1, 2, 2)             pg_advisory_lock(1, 2)
    name(5, 2200, "orders")          the name of what is being made in the schema with oid 2200
"""

from __future__ import annotations

import zlib
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["relation", "tuple", "rows", "advisory", "name"]

ROWS_OF_A_BLOCK = 32767
"""A row's id is shown as PostgreSQL shows a row's place: block and number, which begins at 1 and is an int2 in
pg_locks."""


class Tag(NamedTuple):
    """The name of a lock. `space` is a relation, an index or a database; `item` what is locked of it."""

    kind: Kind
    space: int
    item: int | tuple[int, int, int] = 0


def relation(oid: int) -> Tag:
    """A table, view, sequence or index as a whole."""
    return Tag("relation", oid)


def row(relation_oid: int, row_id: int) -> Tag:
    """One row."""
    return Tag("tuple", relation_oid, row_id)


def every_row(relation_oid: int) -> Tag:
    """All rows of a table, for an owner whose rows are too many to list."""
    return Tag("rows", relation_oid)


def advisory(database_oid: int, class_id: int, object_id: int, sub_id: int) -> Tag:
    """An advisory lock: the halves of a bigint and 1, or two integers and 2."""
    return Tag("advisory", database_oid, (class_id, object_id, sub_id))


def name(database_oid: int, schema_oid: int, name: str) -> Tag:
    """A name that something new is to have: of a schema, or with 0 that of a schema or a role. Names with the same hash
    share a lock, which costs a wait and no more."""
    return Tag("name", database_oid, (schema_oid, zlib.crc32(name.encode()), 0))


def place(row_id: int) -> tuple[int, int]:
    """A row id as block and number."""
    block, number = divmod(row_id, ROWS_OF_A_BLOCK)
    return block, number + 1


def described(tag: Tag, database_oid: int) -> str:
    """What is locked, in the words of PostgreSQL's messages (DescribeLockTag)."""
    match tag:
        case Tag("relation", oid, _):
            return f"relation {oid} of database {database_oid}"
        case Tag("tuple", oid, int(row_id)):
            block, number = place(row_id)
            return f"tuple ({block},{number}) of relation {oid} of database {database_oid}"
        case Tag("rows", oid, _):
            return f"all tuples of relation {oid} of database {database_oid}"
        case Tag("advisory", database, (class_id, object_id, sub_id)):
            return f"advisory lock [{database},{class_id},{object_id},{sub_id}]"
        case Tag("name", database, (schema, hashed, _)):
            return f"object {hashed} of class {schema} of database {database}"
        case _:
            return f"{tag.kind} {tag.space} of database {database_oid}"
