"""The views of information_schema over constraints: table_constraints, key_column_usage and their like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from adapter.execution_context import Row
from adapter.system_catalogs.information_schema.tables import object_name, relation_name, tables_of
from adapter.system_catalogs.objects.content import Content
from adapter.system_catalogs.objects.definitions import column_name, constraint_definition, shown_check
from adapter.system_catalogs.objects.objects import CatalogObjects
from adapter.system_catalogs.objects.seers import (
    CHANGING_COLUMNS,
    CHANGING_TABLES,
    OF_COLUMNS,
    SEEN_BY,
    having,
    having_any_column,
    having_column,
)
from adapter.system_catalogs.pg_catalog.catalog_views import builtin_classes
from planner.catalog_data import content as catalog_data
from planner.syntax.identifiers import quote_identifier
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, Constraint, Relation

_CONSTRAINT_TYPES = {"p": "PRIMARY KEY", "u": "UNIQUE", "f": "FOREIGN KEY", "c": "CHECK"}


def _constraints(objects: CatalogObjects) -> Iterator[tuple[Constraint, Relation, Row]]:
    """Each constraint with its table and the columns constraint_catalog, _schema and _name."""
    for constraint in objects.constraints:
        relation = objects.snapshot.get(constraint.relation)
        if isinstance(relation, Relation):
            schema = objects.schema_name_by_oid.get(relation.schema)
            yield constraint, relation, object_name(objects, "constraint", schema, constraint.name)


@cache
def _builtin_constraints() -> tuple[tuple[str, str, str, str, int, tuple[int, ...]], ...]:
    """Name, kind, schema and table of each key of a built-in table, its oid and columns."""
    by_oid = {row.oid: row for row in catalog_data.relations().values()}
    data = catalog_data.columns("pg_constraint")
    return tuple(
        (name, kind, by_oid[table].schema, by_oid[table].name, table, tuple(keys))
        for name, kind, table, keys in zip(
            data["conname"], data["contype"], data["conrelid"], data["conkey"], strict=True
        )
        if table
    )


def _seers(objects: CatalogObjects, table: int, owner: int) -> frozenset[int]:
    """Who sees the constraints of a table."""
    return having_any_column(objects.snapshot, table, owner, CHANGING_TABLES, CHANGING_COLUMNS)


def _column_seers(objects: CatalogObjects, table: int, owner: int, attnum: int) -> frozenset[int]:
    of_table = having(objects.snapshot, "r", table, owner, OF_COLUMNS)
    return having_column(objects.snapshot, table, attnum, of_table)


def table_constraints(objects: CatalogObjects) -> Content:
    """Constraints, NOT NULL as a check among them, as PostgreSQL lists it."""
    rows: list[Row] = []
    fixed = {"is_deferrable": "NO", "initially_deferred": "NO", "enforced": "YES"}
    rows.extend(
        {
            **object_name(objects, "constraint", schema, name),
            **object_name(objects, "table", schema, table_name),
            **fixed,
            "constraint_type": _CONSTRAINT_TYPES[kind],
            "nulls_distinct": "YES" if kind == "u" else None,
            SEEN_BY: _seers(objects, oid, BOOTSTRAP_SUPERUSER_OID),
        }
        for name, kind, schema, table_name, oid, _ in _builtin_constraints()
    )
    rows.extend(
        {
            **constraint_name,
            **relation_name(objects, relation),
            **fixed,
            "is_deferrable": "YES" if constraint.deferrable else "NO",
            "initially_deferred": "YES" if constraint.deferred else "NO",
            "constraint_type": _CONSTRAINT_TYPES[constraint.kind],
            "nulls_distinct": ("NO" if constraint.nulls_not_distinct else "YES") if constraint.kind == "u" else None,
            SEEN_BY: _seers(objects, relation.oid, relation.owner),
        }
        for constraint, relation, constraint_name in _constraints(objects)
        if constraint.kind in _CONSTRAINT_TYPES
    )
    namespaces = {row["oid"]: row["relnamespace"] for row in builtin_classes()}
    for table in tables_of(objects):
        if table.kind != "r":
            continue
        record = objects.snapshot.get(table.oid)
        namespace = record.schema if isinstance(record, Relation) else namespaces[table.oid]
        seers = _seers(objects, table.oid, table.owner)
        for column in table.columns:
            if column.not_null:
                name = f"{namespace}_{table.oid}_{column.attnum}_not_null"
                rows.append(
                    {
                        **object_name(objects, "constraint", table.schema, name),
                        **object_name(objects, "table", table.schema, table.name),
                        **fixed,
                        "constraint_type": "CHECK",
                        SEEN_BY: seers,
                    }
                )
    return Content(rows=rows)


def _key_positions(objects: CatalogObjects, constraint: Constraint) -> Sequence[int | None]:
    """For a foreign key, the place of each referenced column in the key it refers to."""
    if constraint.kind != "f":
        return [None] * len(constraint.columns)
    key = _referenced_key(objects, constraint)
    if key is None:
        return [None] * len(constraint.columns)
    return [key.columns.index(attnum) + 1 for attnum in constraint.foreign_columns]


def _referenced_key(objects: CatalogObjects, constraint: Constraint) -> Constraint | None:
    for candidate in objects.constraints_by_relation.get(constraint.foreign_relation or 0, ()):
        if candidate.kind in ("p", "u") and sorted(candidate.columns) == sorted(constraint.foreign_columns):
            return candidate
    return None


def key_column_usage(objects: CatalogObjects) -> Content:
    """Columns of primary keys, unique constraints and foreign keys."""
    rows: list[Row] = []
    rows.extend(
        {
            **object_name(objects, "constraint", schema, name),
            **object_name(objects, "table", schema, table_name),
            "column_name": column_name(objects, oid, attnum),
            "ordinal_position": position,
            SEEN_BY: _column_seers(objects, oid, BOOTSTRAP_SUPERUSER_OID, attnum),
        }
        for name, _, schema, table_name, oid, keys in _builtin_constraints()
        for position, attnum in enumerate(keys, 1)
    )
    for constraint, relation, constraint_name in _constraints(objects):
        if constraint.kind in ("p", "u", "f"):
            referenced = _key_positions(objects, constraint)
            rows.extend(
                {
                    **constraint_name,
                    **relation_name(objects, relation),
                    "column_name": column_name(objects, relation.oid, attnum),
                    "ordinal_position": position,
                    "position_in_unique_constraint": referenced[position - 1],
                    SEEN_BY: _column_seers(objects, relation.oid, relation.owner, attnum),
                }
                for position, attnum in enumerate(constraint.columns, 1)
            )
    return Content(rows=rows)


_RULES = {"a": "NO ACTION", "r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}


def referential_constraints(objects: CatalogObjects) -> Content:
    """Foreign keys and the keys they refer to."""
    rows: list[Row] = []
    for constraint, relation, constraint_name in _constraints(objects):
        if constraint.kind == "f":
            key = _referenced_key(objects, constraint)
            target = objects.snapshot.get(constraint.foreign_relation or 0)
            unique: Row = {}
            if key is not None and isinstance(target, Relation):
                schema = objects.schema_name_by_oid.get(target.schema)
                unique = object_name(objects, "unique_constraint", schema, key.name)
            rows.append(
                {
                    **constraint_name,
                    **unique,
                    "match_option": "FULL" if constraint.match == "f" else "NONE",
                    "update_rule": _RULES[constraint.on_update],
                    "delete_rule": _RULES[constraint.on_delete],
                    SEEN_BY: _seers(objects, relation.oid, relation.owner),
                }
            )
    return Content(rows=rows)


def _usage(objects: CatalogObjects, *, with_columns: bool) -> Content:
    """Tables (and columns) that a key consists of, that a foreign key refers to or that a check reads."""
    rows: list[Row] = []
    rows.extend(
        {
            **object_name(objects, "table", schema, table),
            "column_name": column_name(objects, oid, attnum),
            **object_name(objects, "constraint", schema, name),
            SEEN_BY: frozenset({BOOTSTRAP_SUPERUSER_OID}),
        }
        for name, _, schema, table, oid, keys in _builtin_constraints()
        for attnum in (keys if with_columns else keys[:1])
    )
    for constraint, relation, constraint_name in _constraints(objects):
        used: Relation = relation
        attnums = constraint.columns
        if constraint.kind == "f":
            target = objects.snapshot.get(constraint.foreign_relation or 0)
            if not isinstance(target, Relation):
                continue
            used, attnums = target, constraint.foreign_columns
        elif constraint.kind == "c" and not with_columns:
            continue
        rows.extend(
            {
                **relation_name(objects, used),
                "column_name": column_name(objects, used.oid, attnum),
                **constraint_name,
                SEEN_BY: frozenset({used.owner}),
            }
            for attnum in (attnums if with_columns else attnums[:1])
        )
    return Content(rows=rows)


def constraint_column_usage(objects: CatalogObjects) -> Content:
    """Columns that constraints use."""
    return _usage(objects, with_columns=True)


def constraint_table_usage(objects: CatalogObjects) -> Content:
    """Tables that keys and foreign keys use."""
    return _usage(objects, with_columns=False)


def check_constraints(objects: CatalogObjects) -> Content:
    """CHECK constraints of tables and of domains, NOT NULL among them."""
    rows: list[Row] = []
    data = catalog_data.columns("pg_constraint")
    for name, kind, expression in zip(data["conname"], data["contype"], data["conbin"], strict=True):
        if kind == "c":
            rows.append(
                {
                    **object_name(objects, "constraint", "information_schema", name),
                    "check_clause": f"({expression})",
                    SEEN_BY: frozenset({BOOTSTRAP_SUPERUSER_OID}),
                }
            )
    for constraint, relation, constraint_name in _constraints(objects):
        if constraint.kind == "c":
            definition = constraint_definition(objects, constraint.oid, ())
            clause = (definition or "").removeprefix("CHECK ")
            rows.append({**constraint_name, "check_clause": clause, SEEN_BY: frozenset({relation.owner})})
    for check, domain in objects.domain_checks.values():
        schema = objects.schema_name_by_oid.get(domain.schema)
        clause = f"({shown_check(objects, check, domain)})"
        rows.append(
            {
                **object_name(objects, "constraint", schema, check.name),
                "check_clause": clause,
                SEEN_BY: frozenset({domain.owner}),
            }
        )
    namespaces = {row["oid"]: row["relnamespace"] for row in builtin_classes()}
    for table in tables_of(objects):
        record = objects.snapshot.get(table.oid)
        namespace = record.schema if isinstance(record, Relation) else namespaces[table.oid]
        for column in table.columns:
            if column.not_null and table.kind == "r":
                name = f"{namespace}_{table.oid}_{column.attnum}_not_null"
                rows.append(
                    {
                        **object_name(objects, "constraint", table.schema, name),
                        "check_clause": f"{quote_identifier(column.name)} IS NOT NULL",
                        SEEN_BY: frozenset({table.owner}),
                    }
                )
    return Content(rows=rows)
