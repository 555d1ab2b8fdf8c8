"""What every catalog record is, what tables have that needs no module of its own, lists of oids by a key, and the name
of temporary schemas."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from immutables import Map

_K = TypeVar("_K")

COLUMN_OPTIONS_FORMAT = 7
STATISTICS_FORMAT = 8
COLLATIONS_FORMAT = 8
NAN_FORMAT = 9
INDEX_METHODS_FORMAT = 10
"""From which on indexes have access methods that hold no keys: earlier versions would hold some for them."""
NEEDED_KEYS_FORMAT = 11
INDEX_STATISTICS_FORMAT = 12
BUILTIN_ACLS_FORMAT = 8
"""From which on what is built in has privileges of its own in each database: earlier versions take a second record for
a mistake, and stop."""

TEMPORARY_SCHEMA = "pg_temp"
"""What every session may call its own temporary schema."""

NEWER_FIELDS = {
    "Column.options": COLUMN_OPTIONS_FORMAT,
    "Column.statistics": COLUMN_OPTIONS_FORMAT,
    "Column.collation": COLLATIONS_FORMAT,
    "Column.holds_nan": NAN_FORMAT,
    "Index.class_options": INDEX_METHODS_FORMAT,
    "Index.statistics": INDEX_STATISTICS_FORMAT,
    "Relation.needs_keys": NEEDED_KEYS_FORMAT,
}
"""Fields of catalog records that there were not before formats had gates, and the formats (`storage.durable.formats`)
that they need."""


NEWER_RECORDS = {"ExtendedStatistics": STATISTICS_FORMAT}
"""The same of whole records."""


class Record(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """A catalog record. `oid` identifies the object over its life; the other fields are one version of it. What a later
    version of Tidegate says in it is refused, not left out. So what gets a new field omits its defaults from then on,
    and the field says something only once its format (`NEWER_FIELDS`) may be written."""

    oid: int


class IndexMarks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ALTER TABLE has said of a table's indexes. `clustered`: the oid of the one in CLUSTER ON, 0 for none.
    `identity`: pg_class.relreplident, `identity_index` the oid of the index where that is ``i``."""

    clustered: int = 0
    identity: str = "d"
    identity_index: int = 0


class ExtendedStatistics(Record, frozen=True, kw_only=True, tag="statistics"):
    """A statistics object of a table (pg_statistic_ext). `columns` are attnums, ascending; `kinds` are the letters of
    stxkind but for that of expressions, whose SQL texts are `expressions`; they read the columns `reads`."""

    name: str
    schema: int
    owner: int
    relation: int
    columns: tuple[int, ...] = ()
    kinds: str = ""
    expressions: tuple[str, ...] = ()
    reads: tuple[int, ...] = ()
    target: int = -1


def with_oid(oids: Map[_K, tuple[int, ...]], key: _K, oid: int) -> Map[_K, tuple[int, ...]]:
    """`oids`, ascending lists by some key, with `oid` in that of `key`."""
    found = (*oids.get(key, ()), oid)
    return oids.set(key, found if found[-2:] <= (oid, oid) else tuple(sorted(found)))


def without_oid(oids: Map[_K, tuple[int, ...]], key: _K, oid: int) -> Map[_K, tuple[int, ...]]:
    """`oids` without `oid` in the list of `key`, which has it."""
    rest = tuple(other for other in oids[key] if other != oid)
    return oids.set(key, rest) if rest else oids.delete(key)


LARGE_OBJECT_SCHEMA = "pg_large_objects_in_a_schema_whose_name_is_longer_than_identifiers_are"
"""The schema, in each database that has had large objects, of the tables that hold them. No statement can name it."""

LARGE_OBJECT_COMMENTS = 1 << 40
"""Added to a large object's oid for `Comment.object_oid`: other objects may have the same oid, but none so large."""


def holds_temporary(schema: str) -> bool:
    """Whether the schema is one of temporary objects. Functions there are only called with its name: else who may make
    temporary objects could put one in the place of a function that others call."""
    return schema == TEMPORARY_SCHEMA or schema.startswith(f"{TEMPORARY_SCHEMA}_")
