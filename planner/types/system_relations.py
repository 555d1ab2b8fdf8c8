"""The relations of pg_catalog and information_schema, and the server's own, as name resolution sees them.

A system relation has the columns that PostgreSQL 15's has, in order and with its types. Columns of a domain
(information_schema) have the type under the domain, which is what PostgreSQL resolves operators with and reports to
clients. Their contents are `adapter.system_catalogs`' business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, Protocol

from planner.catalog_data import content as catalog_data
from planner.types.types import (
    BOOL,
    FLOAT8,
    INT4,
    INT8,
    INTERVAL,
    NAME,
    OID,
    TEXT,
    TID,
    TIMESTAMPTZ,
    XID,
    SqlType,
    column_type,
)

CID = 29

SYSTEM_COLUMNS: tuple[tuple[str, int, SqlType], ...] = (
    ("ctid", -1, SqlType(TID)),
    ("xmin", -2, SqlType(XID)),
    ("cmin", -3, SqlType(CID)),
    ("xmax", -4, SqlType(XID)),
    ("cmax", -5, SqlType(CID)),
    ("tableoid", -6, SqlType(OID)),
)
"""The columns that every table has besides its own: name, attnum, type."""

SYSTEM_COLUMN_NAMES = frozenset(name for name, _, _ in SYSTEM_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRelation:
    """A built-in table (kind ``r``) or view (``v``). The attnum of `columns[i]` is i + 1; `system_columns` (name,
    attnum, type) are hidden from ``*`` and empty for views."""

    oid: int
    schema: str
    name: str
    kind: Literal["r", "v"]
    columns: tuple[tuple[str, SqlType], ...]
    system_columns: tuple[tuple[str, int, SqlType], ...] = ()
    positions: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    """Attnum by column name, system columns included."""


OWN_SCHEMA = "tidegate"
"""The schema of what PostgreSQL has not (`planner.functions.own`)."""

_OWN: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "materialized_views": (
        15981,
        {
            "schemaname": NAME,
            "viewname": NAME,
            "refresh": TEXT,
            "every": INTERVAL,
            "is_populated": BOOL,
            "frontier": INT8,
            "frontier_time": TIMESTAMPTZ,
            "lag": INTERVAL,
            "is_exact": BOOL,
            "refreshed_at": TIMESTAMPTZ,
            "refresh_ms": FLOAT8,
            "changed_rows": INT8,
            "method": TEXT,
        },
    ),
    "iceberg_tables": (
        15982,
        {
            "catalog_name": TEXT,
            "table_namespace": TEXT,
            "table_name": TEXT,
            "metadata_location": TEXT,
            "previous_metadata_location": TEXT,
            "iceberg_type": TEXT,
        },
    ),
    "view_lineage": (
        15984,
        {
            "view": OID,
            "schemaname": NAME,
            "viewname": NAME,
            "column_name": NAME,
            "source": OID,
            "source_schema": NAME,
            "source_name": NAME,
            "source_column": NAME,
        },
    ),
    "sessions": (
        15985,
        {
            "pid": INT4,
            "server": TEXT,
            "worker": INT4,
            "usename": NAME,
            "datname": NAME,
            "application_name": TEXT,
            "client_addr": TEXT,
            "began_at": TIMESTAMPTZ,
            "state": TEXT,
            "isolation": TEXT,
            "transaction_began_at": TIMESTAMPTZ,
            "snapshot_csn": INT8,
            "waits_for_lock": BOOL,
            "engine": TEXT,
            "workload_class": TEXT,
            "waits_for_slot": BOOL,
            "statement": TEXT,
            "statement_began_at": TIMESTAMPTZ,
        },
    ),
    "statements": (
        15986,
        {
            "pid": INT4,
            "server": TEXT,
            "usename": NAME,
            "datname": NAME,
            "statement": TEXT,
            "engine": TEXT,
            "waits_for_lock": BOOL,
            "workload_class": TEXT,
            "waits_for_slot": BOOL,
            "queued": INTERVAL,
            "began_at": TIMESTAMPTZ,
            "elapsed": INTERVAL,
        },
    ),
    "transactions": (
        15987,
        {
            "kind": TEXT,
            "pid": INT4,
            "gid": TEXT,
            "xid": INT8,
            "txid": TEXT,
            "process": TEXT,
            "shard": TEXT,
            "csn": INT8,
            "began_at": TIMESTAMPTZ,
        },
    ),
    "shards": (
        15988,
        {
            "shard": TEXT,
            "relid": OID,
            "relation": NAME,
            "since": INT8,
            "since_time": TIMESTAMPTZ,
            "upper": INT8,
            "upper_time": TIMESTAMPTZ,
            "parts": INT4,
            "rows": INT8,
            "bytes": INT8,
            "unapplied": INT4,
        },
    ),
    "servers": (
        15989,
        {
            "process": TEXT,
            "is_this": BOOL,
            "is_alone": BOOL,
            "read_lower": INT8,
            "read_lower_time": TIMESTAMPTZ,
            "renewed_at": TIMESTAMPTZ,
        },
    ),
    "oracle": (
        15990,
        {
            "environment": TEXT,
            "csn": INT8,
            "time": TIMESTAMPTZ,
            "asks_store": BOOL,
            "first_unapplied": INT8,
            "shards": INT4,
            "servers": INT4,
            "staged": INT4,
            "prepared": INT4,
            "unapplied": INT4,
        },
    ),
    "engines": (15991, {"engine": TEXT, "is_started": BOOL, "statements": INT4}),
    "statement_statistics": (
        15992,
        {
            "userid": OID,
            "dbid": OID,
            "toplevel": BOOL,
            "queryid": INT8,
            "query": TEXT,
            "calls": INT8,
            "total_exec_time": FLOAT8,
            "min_exec_time": FLOAT8,
            "max_exec_time": FLOAT8,
            "mean_exec_time": FLOAT8,
            "stddev_exec_time": FLOAT8,
            "rows": INT8,
        },
    ),
    "statement_statistics_info": (15993, {"dealloc": INT8, "stats_reset": TIMESTAMPTZ}),
    "iceberg_namespace_properties": (
        15983,
        {"catalog_name": TEXT, "namespace": TEXT, "property_key": TEXT, "property_value": TEXT},
    ),
}
"""The server's own relations: oid, and the types of the columns. `frontier` is the CSN that the stored rows are of,
`is_exact` whether nothing that the query reads has changed since, `lag` how far the snapshot is ahead when something
has, the others tell of the last refresh."""


def own_oids() -> frozenset[int]:
    """The oids of the server's own relations."""
    return frozenset(oid for oid, _ in _OWN.values())


@cache
def _own(name: str) -> SystemRelation | None:
    found = _OWN.get(name)
    if found is None:
        return None
    oid, columns = found
    return SystemRelation(
        oid=oid,
        schema=OWN_SCHEMA,
        name=name,
        kind="v",
        columns=tuple((column, SqlType(type_oid)) for column, type_oid in columns.items()),
        positions={column: number for number, column in enumerate(columns, 1)},
    )


class SystemRelations(Protocol):
    """Where the binder looks up system relations."""

    def lookup(self, schema: str, name: str) -> SystemRelation | None:
        """The relation `schema`.`name`, or None."""
        ...


@cache
def _builtin(schema: str, name: str) -> SystemRelation | None:
    row = catalog_data.relations().get((schema, name))
    if row is None:
        return None
    columns = tuple((column.name, column_type(column.base_type_oid, column.base_typmod)) for column in row.columns)
    system_columns = SYSTEM_COLUMNS if row.kind == "r" else ()
    positions = {column_name: number for number, (column_name, _) in enumerate(columns, 1)}
    positions.update({column_name: number for column_name, number, _ in system_columns})
    return SystemRelation(
        oid=row.oid,
        schema=schema,
        name=name,
        kind=row.kind,
        columns=columns,
        system_columns=system_columns,
        positions=positions,
    )


class BuiltinRelations:
    """PostgreSQL 15's own relations, and the server's."""

    def lookup(self, schema: str, name: str) -> SystemRelation | None:
        """The relation `schema`.`name`, or None."""
        return _own(name) if schema == OWN_SCHEMA else _builtin(schema, name)
