"""System relations as Arrow tables, cached by catalog snapshot.

`SystemCatalogs` is shared by all sessions. A relation's table is made on first use and kept as long as its snapshot is
among the last `MAX_SNAPSHOTS` used; what does not depend on the catalog is made once. Column i of a table is called
``c<attnum>`` and has `planner.ir.physical.arrow_type` of its declared type. The system columns (ctid, xmin, ...) are
not in the table: `system_column_sql` says what they are.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import pyarrow as pa

from adapter.system_catalogs.objects.builtin import builtin_columns
from adapter.system_catalogs.objects.content import Content
from adapter.system_catalogs.objects.objects import CatalogObjects
from adapter.system_catalogs.objects.seers import SEEN_BY, SHOWN_TO
from adapter.system_catalogs.relations.all import STATIC_INFORMATION_SCHEMA, STATIC_PG_CATALOG, builder, is_static
from planner.errors import UndefinedTable
from planner.ir.physical import arrow_type
from planner.types.system_relations import BuiltinRelations, SystemRelation
from planner.types.type_scope import types_of
from planner.types.types import SqlType
from storage.bounded_map import BoundedMap
from storage.catalog.acl import PUBLIC
from storage.catalog.model import CatalogSnapshot

ArrowTable: TypeAlias = Any

SEEN_COLUMN, SHOWN_COLUMN = "seen_by", "shown_to"
"""Columns besides the relation's own: the roles that see a row, and those that see all of it (`objects.seers`)."""

MAX_SNAPSHOTS = 16
"""Open transactions with DDL of their own see snapshots of their own; more than a few at once is rare, and a snapshot
that was dropped is only made again."""


def arrow_table(relation: SystemRelation, content: Content) -> ArrowTable:
    """`content` as a table of `relation`'s columns."""
    rows = _table(relation, {name: [row.get(name) for row in content.rows] for name, _ in relation.columns})
    for key, name in ((SEEN_BY, SEEN_COLUMN), (SHOWN_TO, SHOWN_COLUMN)):
        if any(key in row for row in content.rows):
            # Whoever has no privileges sees a row for which nobody was named.
            values = [[PUBLIC] if key not in row else sorted(row[key]) for row in content.rows]
            rows = rows.append_column(name, pa.array(values, pa.list_(pa.int64())))
    if content.columns is None:
        return rows
    is_changed = content.columns is not builtin_columns(relation.name)
    first = _table(relation, content.columns) if is_changed else _generated(relation.schema, relation.name)
    return pa.concat_tables([first, rows])


@cache
def _generated(schema: str, name: str) -> ArrowTable:
    """The generated data of a relation, which begin the tables of all snapshots."""
    relation = BuiltinRelations().lookup(schema, name)
    assert relation is not None
    return _table(relation, builtin_columns(name))


def _table(relation: SystemRelation, values: Mapping[str, Sequence[Any]]) -> ArrowTable:
    arrays = [_array(values[name], type) for name, type in relation.columns]
    return pa.table(arrays, names=[f"c{number}" for number in range(1, len(arrays) + 1)])


def _array(values: Sequence[Any], type: SqlType) -> Any:
    target = arrow_type(type)
    if pa.types.is_temporal(target):
        return pa.array(values, pa.timestamp("us", tz="UTC")).cast(target)
    return pa.array(values, target)


def system_column_sql(relation: SystemRelation, attnum: int) -> str:
    """The SQL of a system column, to be computed over a table that has DuckDB's `rowid`."""
    if attnum == -1:
        return "('(0,' || (rowid + 1) || ')')"
    if attnum == -6:
        return f"CAST({relation.oid} AS BIGINT)"
    return "CAST(1 AS BIGINT)" if attnum == -2 else "CAST(0 AS BIGINT)"


class SystemCatalogs:
    """The cache. Safe for use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._objects: BoundedMap[tuple[int, str], CatalogObjects] = BoundedMap(max_entries=MAX_SNAPSHOTS)
        self._tables: dict[tuple[int, str, str, str], ArrowTable] = {}
        self._static: dict[tuple[str, str], ArrowTable] = {}
        self._relations = BuiltinRelations()

    def objects(self, snapshot: CatalogSnapshot, database: str) -> CatalogObjects:
        """The look-ups over `snapshot`."""
        key = (id(snapshot.records), database)
        with self._lock:
            found = self._objects.get(key)
            if found is not None:
                self._objects.touch(key)
                return found
            found = CatalogObjects(snapshot, database)
            for old, _ in self._objects.put(key, found):
                self._tables = {entry: table for entry, table in self._tables.items() if entry[:2] != old}
            return found

    def relation(self, schema: str, name: str) -> SystemRelation:
        """The relation; UndefinedTable when there is none."""
        found = self._relations.lookup(schema, name)
        if found is None:
            raise UndefinedTable(f'relation "{schema}.{name}" does not exist')
        return found

    def table(self, schema: str, name: str, snapshot: CatalogSnapshot, database: str) -> ArrowTable:
        """The relation's rows in `snapshot`; not for session relations (session_relations.session_content)."""
        with self._lock:
            if is_static(schema, name):
                if (schema, name) not in self._static:
                    self._static[schema, name] = arrow_table(self.relation(schema, name), _static_content(schema, name))
                return self._static[schema, name]
            objects = self.objects(snapshot, database)
            key = (id(snapshot.records), database, schema, name)
            found = self._tables.get(key)
            if found is None:
                build = builder(schema, name)
                assert build is not None, name
                # Rows are the same for all sessions: names are written for the usual search path.
                with types_of(snapshot, ("public",)):
                    found = arrow_table(self.relation(schema, name), build(objects))
                self._tables[key] = found
            return found


def _static_content(schema: str, name: str) -> Content:
    known = STATIC_PG_CATALOG if schema == "pg_catalog" else STATIC_INFORMATION_SCHEMA
    return Content(columns=builtin_columns(name)) if name in known else Content()
