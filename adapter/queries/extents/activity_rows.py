"""The rows of pg_stat_all_tables, pg_stat_all_indexes and their like, from what was counted and what is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adapter.queries.extents.extents import Extents
from adapter.statistics.activity import IndexActivity, TableActivity
from adapter.system_catalogs.objects.objects import CatalogObjects
from adapter.system_catalogs.pg_catalog.catalog_views import builtin_classes
from adapter.system_catalogs.relations.extent_columns import INDEXES, TABLES
from planner.catalog_data.content import columns

_NEVER: Mapping[str, Any] = {"n_tup_hot_upd": 0, "autovacuum_count": 0, "autoanalyze_count": 0}
"""What does not happen here: rows are never changed in place, and compaction is nobody's VACUUM."""

_TABLE_COUNTS = TableActivity.__struct_fields__
_INDEX_COUNTS = IndexActivity.__struct_fields__
_NO_TABLE: Mapping[str, Any] = {name: getattr(TableActivity(), name) for name in _TABLE_COUNTS}
_NO_INDEX: Mapping[str, Any] = {name: getattr(IndexActivity(), name) for name in _INDEX_COUNTS}


def activity_rows(
    name: str,
    objects: CatalogObjects,
    database: int,
    counted: Mapping[tuple[str, int, int], Mapping[str, Any]],
    extents: Extents,
) -> list[Mapping[str, Any]]:
    """The rows of the relation `name`, one of `TABLES` and `INDEXES`."""
    which = TABLES.get(name) or INDEXES[name]
    return [
        row
        for is_system, row in (_tables if name in TABLES else _indexes)(objects, database, counted, extents)
        if which == "all" or is_system == (which == "sys")
    ]


def _schema(objects: CatalogObjects, oid: int) -> str:
    return objects.schema_name_by_oid.get(oid, "")


def _tables(
    objects: CatalogObjects,
    database: int,
    counted: Mapping[tuple[str, int, int], Mapping[str, Any]],
    extents: Extents,
) -> list[tuple[bool, Mapping[str, Any]]]:
    found: list[tuple[bool, Mapping[str, Any]]] = []
    for row in builtin_classes():
        if row["relkind"] == "r":
            named = {
                "relid": row["oid"],
                "schemaname": _schema(objects, row["relnamespace"]),
                "relname": row["relname"],
            }
            found.append((True, {**_NO_TABLE, **_NEVER, "n_live_tup": 0, "n_dead_tup": 0, **named}))
    for relation in objects.relations:
        if relation.kind in ("r", "m"):
            counts = counted.get(("r", database, relation.oid), _NO_TABLE)
            row = {
                **{name: counts[name] for name in _TABLE_COUNTS},
                **_NEVER,
                "n_live_tup": extents.rows.get(relation.oid, 0),
                "n_dead_tup": extents.dead.get(relation.oid, 0),
                "relid": relation.oid,
                "schemaname": _schema(objects, relation.schema),
                "relname": relation.name,
            }
            found.append((False, row))
    return found


def _indexes(
    objects: CatalogObjects,
    database: int,
    counted: Mapping[tuple[str, int, int], Mapping[str, Any]],
    extents: Extents,
) -> list[tuple[bool, Mapping[str, Any]]]:
    found: list[tuple[bool, Mapping[str, Any]]] = []
    classes = {row["oid"]: row for row in builtin_classes()}
    of_system = columns("pg_index")
    for index, table in zip(of_system["indexrelid"], of_system["indrelid"], strict=True):
        at, on = classes.get(index), classes.get(table)
        if at is not None and on is not None:
            named = {
                "relid": table,
                "indexrelid": index,
                "schemaname": _schema(objects, on["relnamespace"]),
                "relname": on["relname"],
                "indexrelname": at["relname"],
            }
            found.append((True, {**_NO_INDEX, **named}))
    for record, relation in objects.indexes:
        counts = counted.get(("i", database, record.oid), _NO_INDEX)
        row = {
            **{name: counts[name] for name in _INDEX_COUNTS},
            "relid": relation.oid,
            "indexrelid": record.oid,
            "schemaname": _schema(objects, relation.schema),
            "relname": relation.name,
            "indexrelname": record.name,
        }
        found.append((False, row))
    return found
