"""System relations inside the local engine: tables of its own, made from the catalog when a query first reads them.

A native table is scanned several times faster than an Arrow table that Python hands over, and has statistics. Tables of
relations that never change are made once; those that follow from the catalog once for each snapshot, and are dropped
when `MAX_SNAPSHOTS` newer snapshots have been used and no query is reading. Relations that sessions describe are bound
for one query only.

Usage, around the execution of one query on `cursor`, a cursor of the connection's database::

    with local_catalog.entered(scan_needs(query.rel).system, context, cursor) as scope:
        lower(..., tables={**tables, **scope.sources}) ... execute ...
        # a catalog function's error is in scope.error
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from msgspec import Struct, field

from adapter.access.privileges import rights_of
from adapter.execution_context import ExecutionContext
from adapter.system_catalogs.functions import contexts
from adapter.system_catalogs.functions import register as udfs
from adapter.system_catalogs.functions.shown_names import SHOWN
from adapter.system_catalogs.relations.all import SHOWN_TO_FEWER, is_session_relation, is_static
from adapter.system_catalogs.relations.contents import (
    MAX_SNAPSHOTS,
    SEEN_COLUMN,
    SHOWN_COLUMN,
    SystemCatalogs,
    arrow_table,
    system_column_sql,
)
from adapter.system_catalogs.relations.extent_columns import computed_columns, is_computed
from adapter.system_catalogs.relations.session import session_content
from planner.ir import nodes as ir
from planner.lowering.fragments.sources import ScanSource
from storage.bounded_map import BoundedMap
from storage.catalog.acl import PUBLIC
from storage.catalog.model import CatalogSnapshot
from storage.clock import SystemClock

DuckConnection: TypeAlias = Any

SCHEMA = "tg_system"


class _Version(Struct):
    """The native tables of one snapshot. `snapshot` keeps the snapshot alive, for it is known by its identity."""

    snapshot: CatalogSnapshot
    suffix: str
    tables: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    """What has been made, with the columns that say who sees a row."""
    readers: int = 0


class Scope(Struct, frozen=True, kw_only=True):
    """What a query needs to run: the FROM items of its system relations by oid, and the entered context."""

    sources: Mapping[int, ScanSource]
    context: contexts.Entered


def _with_extents(table: str, context: ExecutionContext) -> str:
    """pg_class, with the columns in it that follow from what is stored."""
    token = context.token.replace("'", "''")
    columns = [f"{name}('{token}', c1, c{place}) AS c{place}" for place, name in computed_columns()]
    return f"(SELECT * REPLACE ({', '.join(columns)}), rowid FROM {table})"


class LocalCatalog:
    """The system relations and catalog functions of one local engine's database."""

    def __init__(
        self,
        connection: DuckConnection,
        catalogs: SystemCatalogs | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """Creates the schema and the functions in `connection`'s database."""
        self.catalogs = catalogs if catalogs is not None else SystemCatalogs()
        self._now_ms = now_ms if now_ms is not None else SystemClock().now_ms
        self._lock = threading.Lock()
        self._static: dict[tuple[str, str], frozenset[str]] = {}
        self._versions: BoundedMap[tuple[int, str], _Version] = BoundedMap(
            max_entries=MAX_SNAPSHOTS, pinned=lambda _, version: version.readers > 0
        )
        self._numbers = itertools.count(1)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        udfs.register(connection)

    @contextmanager
    def entered(
        self, scans: Mapping[int, tuple[ir.SystemScan, bool]], context: ExecutionContext, cursor: DuckConnection
    ) -> Iterator[Scope]:
        """Makes the system relations of `scans` (`scan_sources.ScanNeeds.system`) available to `cursor` for the length
        of the block, and `context` to catalog functions."""
        registered: list[str] = []
        with contexts.entered(context, self.catalogs) as entered:
            version = self._acquire(context, cursor) if scans else None
            try:
                sources: dict[int, ScanSource] = {}
                for oid, (scan, wants_system_columns) in scans.items():
                    table = self._table(scan, context, version, cursor, registered)
                    table = self._seen(scan, table, version, context)
                    if is_computed(scan) and context.facts is not None and context.facts.knows_extents:
                        table = _with_extents(table, context)
                    if (scan.schema, scan.name) in SHOWN:
                        table = self._with_shown(scan, table, context)
                    sources[oid] = ScanSource(self._from_item(scan, table, wants_system_columns))
                yield Scope(sources=sources, context=entered)
            finally:
                for name in registered:
                    cursor.unregister(name)
                if version is not None:
                    with self._lock:
                        version.readers -= 1

    def _with_shown(self, scan: ir.SystemScan, table: str, context: ExecutionContext) -> str:
        """A relation with its texts in the names that the session's search_path finds."""
        places = self.catalogs.relation(scan.schema, scan.name).positions
        token = context.token.replace("'", "''")
        shown = []
        for column, (function, keys) in SHOWN[scan.schema, scan.name].items():
            given = ", ".join([f"c{places[key]}" for key in (*keys, column)])
            shown.append(f"{function}('{token}', {given}) AS c{places[column]}")
        return f"(SELECT * REPLACE ({', '.join(shown)}), rowid FROM {table})"

    def _from_item(self, scan: ir.SystemScan, table: str, wants_system_columns: bool) -> str:
        if not wants_system_columns:
            return table
        relation = self.catalogs.relation(scan.schema, scan.name)
        extra = ", ".join(
            f"{system_column_sql(relation, attnum)} AS s{-attnum}" for _, attnum, _ in relation.system_columns
        )
        return f"(SELECT *, {extra} FROM {table})"

    def _seen(self, scan: ir.SystemScan, table: str, version: _Version | None, context: ExecutionContext) -> str:
        """What the statement's role sees of a relation, as a FROM item."""
        hidden = version.tables.get((scan.schema, scan.name)) if version is not None else None
        if not hidden:
            return table
        rights = rights_of(context.catalog, context.user)
        if rights.is_superuser:
            return table
        roles = ", ".join(str(oid) for oid in sorted({*rights.roles, PUBLIC}))
        shown = ""
        if SHOWN_COLUMN in hidden:
            relation = self.catalogs.relation(scan.schema, scan.name)
            masked = [f"c{relation.positions[name]}" for name in SHOWN_TO_FEWER[scan.name]]
            whole = f"list_has_any({SHOWN_COLUMN}, [{roles}])"
            shown = " REPLACE (" + ", ".join(f"CASE WHEN {whole} THEN {name} END AS {name}" for name in masked) + ")"
        return f"(SELECT *{shown}, rowid FROM {table} WHERE list_has_any({SEEN_COLUMN}, [{roles}]))"

    def _acquire(self, context: ExecutionContext, cursor: DuckConnection) -> _Version:
        key = (id(context.catalog.records), context.database)
        with self._lock:
            version = self._versions.get(key)
            if version is None:
                version = _Version(context.catalog, str(next(self._numbers)))
                for _, old in self._versions.put(key, version):
                    for schema, name in old.tables:
                        cursor.execute(f'DROP TABLE IF EXISTS {SCHEMA}."{schema}.{name}.{old.suffix}"')
            else:
                self._versions.touch(key)
            version.readers += 1
            return version

    def _table(
        self,
        scan: ir.SystemScan,
        context: ExecutionContext,
        version: _Version | None,
        cursor: DuckConnection,
        registered: list[str],
    ) -> str:
        name = (scan.schema, scan.name)
        if is_session_relation(*name):
            content = session_content(scan.name, context.settings, context.facts, self._now_ms)
            table = f"tg_session_{scan.name}_{next(self._numbers)}"
            cursor.register(table, arrow_table(self.catalogs.relation(*name), content))
            registered.append(table)
            return table
        assert version is not None
        static = is_static(*name)
        native = f'{SCHEMA}."{scan.schema}.{scan.name}' + ('"' if static else f'.{version.suffix}"')
        with self._lock:
            made = self._static if static else version.tables
            if name not in made:
                rows = self.catalogs.table(*name, context.catalog, context.database)
                view = f"tg_new_{next(self._numbers)}"
                cursor.register(view, rows)
                cursor.execute(f"CREATE OR REPLACE TABLE {native} AS SELECT * FROM {view}")
                cursor.unregister(view)
                made[name] = frozenset(rows.column_names) & {SEEN_COLUMN, SHOWN_COLUMN}
        return native
