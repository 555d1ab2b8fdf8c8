"""PostgreSQL's views over its catalogs: pg_tables, pg_views, pg_indexes, pg_roles, pg_sequences and their like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from adapter.access.membership import memberships
from adapter.execution_context import Row
from adapter.system_catalogs.objects.builtin import builtin_columns
from adapter.system_catalogs.objects.content import Content
from adapter.system_catalogs.objects.definitions import builtin_view_definitions, view_definition
from adapter.system_catalogs.objects.index_definitions import index_definition
from adapter.system_catalogs.objects.objects import CatalogObjects
from adapter.system_catalogs.pg_catalog.object_rows import pg_authid
from planner.catalog_data import content as catalog_data


@cache
def builtin_classes() -> tuple[Row, ...]:
    """pg_class of the built-in relations, as rows."""
    data = builtin_columns("pg_class")
    return tuple(dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True))


@cache
def shared_catalogs() -> frozenset[int]:
    """The built-in relations that all databases share."""
    return frozenset([row["oid"] for row in builtin_classes() if row["relisshared"]])


def _schema(objects: CatalogObjects, oid: int) -> str:
    return objects.schema_name_by_oid.get(oid, "")


def pg_tables(objects: CatalogObjects) -> Content:
    """Tables."""
    rows: list[Row] = []
    rows.extend(
        {
            "schemaname": _schema(objects, row["relnamespace"]),
            "tablename": row["relname"],
            "tableowner": objects.role_names.get(row["relowner"]),
            "tablespace": "pg_global" if row["relisshared"] else None,
            "hasindexes": row["relhasindex"],
            "hasrules": row["relhasrules"],
            "hastriggers": row["relhastriggers"],
            "rowsecurity": row["relrowsecurity"],
        }
        for row in builtin_classes()
        if row["relkind"] == "r"
    )
    referenced = {c.foreign_relation for c in objects.constraints if c.foreign_relation is not None}
    indexed = {index.relation for index, _ in objects.indexes}
    for relation in objects.relations:
        if relation.kind == "r":
            constraints = objects.constraints_by_relation.get(relation.oid, ())
            rows.append(
                {
                    "schemaname": _schema(objects, relation.schema),
                    "tablename": relation.name,
                    "tableowner": objects.role_names.get(relation.owner),
                    "hasindexes": relation.oid in indexed,
                    "hasrules": False,
                    "hastriggers": relation.oid in referenced or any(c.kind == "f" for c in constraints),
                    "rowsecurity": objects.snapshot.policies.of(relation.oid).enabled,
                }
            )
    return Content(rows=rows)


def pg_views(objects: CatalogObjects) -> Content:
    """Views."""
    definitions = builtin_view_definitions()
    rows: list[Row] = [
        {
            "schemaname": _schema(objects, row["relnamespace"]),
            "viewname": row["relname"],
            "viewowner": objects.role_names.get(row["relowner"]),
            "definition": definitions.get(row["oid"]),
        }
        for row in builtin_classes()
        if row["relkind"] == "v"
    ]
    rows.extend(
        {
            "schemaname": _schema(objects, relation.schema),
            "viewname": relation.name,
            "viewowner": objects.role_names.get(relation.owner),
            "definition": view_definition(objects, relation.oid),
        }
        for relation in objects.relations
        if relation.kind == "v"
    )
    return Content(rows=rows)


def pg_matviews(objects: CatalogObjects) -> Content:
    """Materialized views."""
    return Content(
        rows=[
            {
                "schemaname": _schema(objects, relation.schema),
                "matviewname": relation.name,
                "matviewowner": objects.role_names.get(relation.owner),
                "hasindexes": bool(objects.snapshot.indexes(relation.oid)),
                "ispopulated": relation.materialized is None or relation.materialized.populated,
                "definition": view_definition(objects, relation.oid),
            }
            for relation in objects.relations
            if relation.kind == "m"
        ]
    )


@cache
def _builtin_index_rows() -> tuple[tuple[int, int], ...]:
    data = catalog_data.columns("pg_index")
    return tuple(zip(data["indexrelid"], data["indrelid"], strict=True))


def pg_indexes(objects: CatalogObjects) -> Content:
    """Indexes with their CREATE INDEX text."""
    rows: list[Row] = []

    shared = shared_catalogs()

    def add(index_oid: int, table_oid: int) -> None:
        index, table = objects.relation(index_oid), objects.relation(table_oid)
        if index is not None and table is not None:
            rows.append(
                {
                    "schemaname": _schema(objects, table.namespace),
                    "tablename": table.name,
                    "indexname": index.name,
                    "tablespace": "pg_global" if table_oid in shared else None,
                    "indexdef": index_definition(objects, index_oid),
                }
            )

    for index_oid, table_oid in _builtin_index_rows():
        add(index_oid, table_oid)
    for index, relation in objects.indexes:
        add(index.oid, relation.oid)
    return Content(rows=rows)


def pg_sequences(objects: CatalogObjects) -> Content:
    """Sequences, with their oids; `last_value` is no catalog data: see `adapter.queries.session_facts`."""
    return Content(
        rows=[
            {
                "oid": sequence.oid,
                "schemaname": _schema(objects, sequence.schema),
                "sequencename": sequence.name,
                "sequenceowner": objects.role_names.get(sequence.owner),
                "data_type": sequence.type_oid,
                "start_value": sequence.start,
                "min_value": sequence.minimum,
                "max_value": sequence.maximum,
                "increment_by": sequence.increment,
                "cycle": sequence.cycle,
                "cache_size": sequence.cache,
            }
            for sequence in objects.sequences
        ]
    )


def _role_config(objects: CatalogObjects, role: int) -> list[str] | None:
    settings = [f"{s.name}={s.value}" for s in objects.settings if s.role == role and s.database == 0]
    return settings or None


def pg_roles(objects: CatalogObjects) -> Content:
    """Roles without their passwords."""
    return Content(
        rows=[
            {**row, "rolpassword": "********", "rolconfig": _role_config(objects, row["oid"])}
            for row in pg_authid(objects).rows
        ]
    )


def _users(objects: CatalogObjects) -> Iterator[Row]:
    for row in pg_authid(objects).rows:
        if row["rolcanlogin"]:
            yield {
                "usename": row["rolname"],
                "usesysid": row["oid"],
                "usecreatedb": row["rolcreatedb"],
                "usesuper": row["rolsuper"],
                "userepl": row["rolreplication"],
                "usebypassrls": row["rolbypassrls"],
                "passwd": row.get("rolpassword"),
                "valuntil": row.get("rolvaliduntil"),
                "useconfig": _role_config(objects, row["oid"]),
            }


def pg_user(objects: CatalogObjects) -> Content:
    """Roles that can log in."""
    return Content(rows=[{**row, "passwd": "********"} for row in _users(objects)])


def pg_shadow(objects: CatalogObjects) -> Content:
    """Roles that can log in, with their password verifiers."""
    return Content(rows=list(_users(objects)))


def pg_group(objects: CatalogObjects) -> Content:
    """Roles that cannot log in, with their members."""
    members: dict[int, list[int]] = {}
    for membership in memberships(objects.snapshot.roles):
        members.setdefault(membership.role, []).append(membership.member)
    return Content(
        rows=[
            {"groname": row["rolname"], "grosysid": row["oid"], "grolist": members.get(row["oid"], [])}
            for row in pg_authid(objects).rows
            if not row["rolcanlogin"]
        ]
    )


_COUNTERS = tuple(
    re.findall(
        r"\w+",
        """
    seq_scan seq_tup_read idx_scan idx_tup_fetch n_tup_ins n_tup_upd n_tup_del n_tup_hot_upd n_live_tup n_dead_tup
    n_mod_since_analyze n_ins_since_vacuum vacuum_count autovacuum_count analyze_count autoanalyze_count
    heap_blks_read heap_blks_hit idx_blks_read idx_blks_hit toast_blks_read toast_blks_hit tidx_blks_read tidx_blks_hit
    """,
    )
)


def _table_statistics(objects: CatalogObjects, *, system: bool, user: bool) -> Content:
    rows: list[Row] = []
    zeros = dict.fromkeys(_COUNTERS, 0)
    if system:
        rows.extend(
            {
                **zeros,
                "relid": row["oid"],
                "schemaname": _schema(objects, row["relnamespace"]),
                "relname": row["relname"],
            }
            for row in builtin_classes()
            if row["relkind"] == "r"
        )
    if user:
        rows.extend(
            {
                **zeros,
                "relid": relation.oid,
                "schemaname": _schema(objects, relation.schema),
                "relname": relation.name,
            }
            for relation in objects.relations
            if relation.kind in ("r", "m")
        )
    return Content(rows=rows)


def all_table_statistics(objects: CatalogObjects) -> Content:
    """pg_stat_xact_all_tables, pg_statio_all_tables: what is not counted here, so that all is zero."""
    return _table_statistics(objects, system=True, user=True)


def system_table_statistics(objects: CatalogObjects) -> Content:
    """pg_statio_sys_tables and its like."""
    return _table_statistics(objects, system=True, user=False)


def user_table_statistics(objects: CatalogObjects) -> Content:
    """pg_statio_user_tables and its like."""
    return _table_statistics(objects, system=False, user=True)


_INDEX_COUNTERS = ("idx_blks_read", "idx_blks_hit")


def _index_statistics(objects: CatalogObjects, *, system: bool, user: bool) -> Content:
    pairs = list(_builtin_index_rows()) if system else []
    if user:
        pairs.extend((index.oid, relation.oid) for index, relation in objects.indexes)
    rows: list[Row] = []
    zeros = dict.fromkeys(_INDEX_COUNTERS, 0)
    for index_oid, table_oid in pairs:
        index, table = objects.relation(index_oid), objects.relation(table_oid)
        if index is not None and table is not None:
            rows.append(
                {
                    **zeros,
                    "relid": table_oid,
                    "indexrelid": index_oid,
                    "schemaname": _schema(objects, table.namespace),
                    "relname": table.name,
                    "indexrelname": index.name,
                }
            )
    return Content(rows=rows)


def all_index_statistics(objects: CatalogObjects) -> Content:
    """pg_statio_all_indexes: blocks are not counted, so all counters are zero."""
    return _index_statistics(objects, system=True, user=True)


def system_index_statistics(objects: CatalogObjects) -> Content:
    """pg_statio_sys_indexes."""
    return _index_statistics(objects, system=True, user=False)


def user_index_statistics(objects: CatalogObjects) -> Content:
    """pg_statio_user_indexes."""
    return _index_statistics(objects, system=False, user=True)
