"""The views of information_schema (PostgreSQL, chapter "The Information Schema"), computed from catalog and data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from adapter.system_catalogs.catalog_views import builtin_classes
from adapter.system_catalogs.content import Content, Row
from adapter.system_catalogs.definitions import (
    builtin_view_definitions,
    column_name,
    constraint_definition,
    format_type,
    terminated,
)
from adapter.system_catalogs.object_rows import pg_authid
from adapter.system_catalogs.objects import CatalogObjects
from adapter.system_catalogs.type_facts import type_facts
from planner import catalog_data
from planner.identifiers import quote_identifier
from storage.catalog_model import INFORMATION_SCHEMA_OID, PG_CATALOG_OID, Constraint, Relation

YES_NO = {True: "YES", False: "NO"}
_ACTIONS = ("DELETE", "INSERT", "REFERENCES", "SELECT", "TRIGGER", "TRUNCATE", "UPDATE")


@dataclass(frozen=True, slots=True)
class _Column:
    """A column as information_schema.columns describes it."""

    attnum: int
    name: str
    type_oid: int
    typmod: int
    not_null: bool
    default: str | None
    collation: int | None = None
    """None: the type's."""


@dataclass(frozen=True, slots=True)
class _Table:
    oid: int
    schema: str
    name: str
    kind: str
    owner: int
    columns: Sequence[_Column]


@cache
def _builtin_tables() -> tuple[_Table, ...]:
    owners = {row["oid"]: row["relowner"] for row in builtin_classes()}
    data = catalog_data.columns("pg_attribute")
    collations = {
        (relation, attnum): collation
        for relation, attnum, collation in zip(data["attrelid"], data["attnum"], data["attcollation"], strict=True)
    }
    return tuple(
        _Table(
            row.oid,
            row.schema,
            row.name,
            row.kind,
            owners[row.oid],
            [
                _Column(
                    number,
                    column.name,
                    column.type_oid,
                    column.typmod,
                    column.not_null,
                    None,
                    collations[row.oid, number],
                )
                for number, column in enumerate(row.columns, 1)
            ],
        )
        for row in catalog_data.relations().values()
    )


def _tables(objects: CatalogObjects) -> Iterator[_Table]:
    """Tables and views, the built-in ones first. Materialized views do not belong to the standard."""
    yield from _builtin_tables()
    for relation in objects.relations:
        if relation.kind in ("r", "v"):
            yield _Table(
                relation.oid,
                objects.schema_name_by_oid.get(relation.schema, ""),
                relation.name,
                relation.kind,
                relation.owner,
                [
                    _Column(c.attnum, c.name, c.type_oid, c.typmod, c.not_null, c.default)
                    for c in relation.live_columns()
                ],
            )


def _name(objects: CatalogObjects, prefix: str, schema: str | None, name: str | None) -> Row:
    """The three columns `prefix`_catalog, _schema and _name of an object."""
    return {f"{prefix}_catalog": objects.database, f"{prefix}_schema": schema, f"{prefix}_name": name}


def _type_row(
    objects: CatalogObjects,
    type_oid: int,
    typmod: int,
    dtd_identifier: str,
    *,
    domain: bool = True,
    collation: int | None = None,
) -> Row:
    """data_type and what follows it in columns, domains and element_types. `collation` None is the type's."""
    row = catalog_data.types().get(type_oid)
    declared: Row = {}
    base_oid, base_typmod = type_oid, typmod
    if row is not None and row.type == "d":
        if domain:
            declared = _name(objects, "domain", objects.schema_name_by_oid.get(row.namespace), row.name)
        base_oid, base_typmod = row.basetype, row.typmod
    facts = type_facts(base_oid, base_typmod)
    base = objects.type(base_oid)
    namespace = None if base is None else objects.schema_name_by_oid.get(base.namespace)
    if objects.element_type(base_oid):
        data_type = "ARRAY"
    elif base is not None and base.namespace == PG_CATALOG_OID:
        data_type = format_type(objects, base_oid)
    else:
        data_type = "USER-DEFINED"
    if collation is None:
        collation = facts.collation if row is None or row.type != "d" else row.collation
    return {
        **declared,
        **_collation(objects, collation),
        **_name(objects, "udt", namespace, None if base is None else base.name),
        "data_type": data_type,
        "character_maximum_length": facts.character_maximum_length,
        "character_octet_length": facts.character_octet_length,
        "numeric_precision": facts.numeric_precision,
        "numeric_precision_radix": facts.numeric_precision_radix,
        "numeric_scale": facts.numeric_scale,
        "datetime_precision": facts.datetime_precision,
        "interval_type": facts.interval_type,
        "dtd_identifier": dtd_identifier,
    }


@cache
def _collation_names() -> Mapping[int, str]:
    data = catalog_data.columns("pg_collation")
    return dict(zip(data["oid"], data["collname"], strict=True))


def _collation(objects: CatalogObjects, oid: int) -> Row:
    name = _collation_names().get(oid)
    if name is None or name == "default":
        return {}
    return _name(objects, "collation", "pg_catalog", name)


def columns(objects: CatalogObjects) -> Content:
    """All columns of tables and views."""
    rows: list[Row] = []
    rows.extend(
        {
            **_name(objects, "table", table.schema, table.name),
            "column_name": column.name,
            "ordinal_position": column.attnum,
            "column_default": column.default,
            "is_nullable": YES_NO[not column.not_null],
            **_type_row(objects, column.type_oid, column.typmod, str(column.attnum), collation=column.collation),
            "is_self_referencing": "NO",
            "is_identity": "NO",
            "identity_cycle": "NO",
            "is_generated": "NEVER",
            "is_updatable": YES_NO[table.kind == "r"],
        }
        for table in _tables(objects)
        for column in table.columns
    )
    return Content(rows=rows)


def tables(objects: CatalogObjects) -> Content:
    """Tables and views."""
    return Content(
        rows=[
            {
                **_name(objects, "table", table.schema, table.name),
                "table_type": "BASE TABLE" if table.kind == "r" else "VIEW",
                "is_insertable_into": YES_NO[table.kind == "r"],
                "is_typed": "NO",
            }
            for table in _tables(objects)
        ]
    )


def views(objects: CatalogObjects) -> Content:
    """Views with their queries."""
    definitions = builtin_view_definitions()
    rows: list[Row] = []
    for table in _tables(objects):
        if table.kind == "v":
            definition = definitions.get(table.oid)
            if definition is None:
                relation = objects.snapshot.get(table.oid)
                definition = terminated(relation.definition) if isinstance(relation, Relation) else None
            rows.append(
                {
                    **_name(objects, "table", table.schema, table.name),
                    "view_definition": definition,
                    "check_option": "NONE",
                    "is_updatable": "NO",
                    "is_insertable_into": "NO",
                    "is_trigger_updatable": "NO",
                    "is_trigger_deletable": "NO",
                    "is_trigger_insertable_into": "NO",
                }
            )
    return Content(rows=rows)


def schemata(objects: CatalogObjects) -> Content:
    """Schemas."""
    return Content(
        rows=[
            {
                "catalog_name": objects.database,
                "schema_name": schema.name,
                "schema_owner": objects.role_names.get(schema.owner),
            }
            for schema in objects.schemas
        ]
    )


def information_schema_catalog_name(objects: CatalogObjects) -> Content:
    """The database connected to."""
    return Content(rows=[{"catalog_name": objects.database}])


_CONSTRAINT_TYPES = {"p": "PRIMARY KEY", "u": "UNIQUE", "f": "FOREIGN KEY", "c": "CHECK"}


def _constraints(objects: CatalogObjects) -> Iterator[tuple[Constraint, Relation, Row]]:
    """Each constraint with its table and the columns constraint_catalog, _schema and _name."""
    for constraint in objects.constraints:
        relation = objects.snapshot.get(constraint.relation)
        if isinstance(relation, Relation):
            schema = objects.schema_name_by_oid.get(relation.schema)
            yield constraint, relation, _name(objects, "constraint", schema, constraint.name)


def _table_name(objects: CatalogObjects, relation: Relation) -> Row:
    return _name(objects, "table", objects.schema_name_by_oid.get(relation.schema), relation.name)


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


def table_constraints(objects: CatalogObjects) -> Content:
    """Constraints, NOT NULL as a check among them, as PostgreSQL lists it."""
    rows: list[Row] = []
    fixed = {"is_deferrable": "NO", "initially_deferred": "NO", "enforced": "YES"}
    rows.extend(
        {
            **_name(objects, "constraint", schema, name),
            **_name(objects, "table", schema, table_name),
            **fixed,
            "constraint_type": _CONSTRAINT_TYPES[kind],
            "nulls_distinct": "YES" if kind == "u" else None,
        }
        for name, kind, schema, table_name, _, _ in _builtin_constraints()
    )
    rows.extend(
        {
            **constraint_name,
            **_table_name(objects, relation),
            **fixed,
            "constraint_type": _CONSTRAINT_TYPES[constraint.kind],
            "nulls_distinct": "YES" if constraint.kind == "u" else None,
        }
        for constraint, relation, constraint_name in _constraints(objects)
    )
    namespaces = {row["oid"]: row["relnamespace"] for row in builtin_classes()}
    for table in _tables(objects):
        if table.kind != "r":
            continue
        record = objects.snapshot.get(table.oid)
        namespace = record.schema if isinstance(record, Relation) else namespaces[table.oid]
        for column in table.columns:
            if column.not_null:
                name = f"{namespace}_{table.oid}_{column.attnum}_not_null"
                rows.append(
                    {
                        **_name(objects, "constraint", table.schema, name),
                        **_name(objects, "table", table.schema, table.name),
                        **fixed,
                        "constraint_type": "CHECK",
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
            **_name(objects, "constraint", schema, name),
            **_name(objects, "table", schema, table_name),
            "column_name": column_name(objects, oid, attnum),
            "ordinal_position": position,
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
                    **_table_name(objects, relation),
                    "column_name": column_name(objects, relation.oid, attnum),
                    "ordinal_position": position,
                    "position_in_unique_constraint": referenced[position - 1],
                }
                for position, attnum in enumerate(constraint.columns, 1)
            )
    return Content(rows=rows)


def referential_constraints(objects: CatalogObjects) -> Content:
    """Foreign keys and the keys they refer to."""
    rows: list[Row] = []
    for constraint, _, constraint_name in _constraints(objects):
        if constraint.kind == "f":
            key = _referenced_key(objects, constraint)
            target = objects.snapshot.get(constraint.foreign_relation or 0)
            unique: Row = {}
            if key is not None and isinstance(target, Relation):
                schema = objects.schema_name_by_oid.get(target.schema)
                unique = _name(objects, "unique_constraint", schema, key.name)
            rows.append(
                {
                    **constraint_name,
                    **unique,
                    "match_option": "NONE",
                    "update_rule": "NO ACTION",
                    "delete_rule": "NO ACTION",
                }
            )
    return Content(rows=rows)


def _usage(objects: CatalogObjects, *, with_columns: bool) -> Content:
    """Tables (and columns) that a key consists of, that a foreign key refers to or that a check reads."""
    rows: list[Row] = []
    rows.extend(
        {
            **_name(objects, "table", schema, table),
            "column_name": column_name(objects, oid, attnum),
            **_name(objects, "constraint", schema, name),
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
                **_table_name(objects, used),
                "column_name": column_name(objects, used.oid, attnum),
                **constraint_name,
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
    """CHECK constraints of tables and of information_schema's domains, NOT NULL among them."""
    rows: list[Row] = []
    data = catalog_data.columns("pg_constraint")
    for name, kind, expression in zip(data["conname"], data["contype"], data["conbin"], strict=True):
        if kind == "c":
            rows.append({**_name(objects, "constraint", "information_schema", name), "check_clause": f"({expression})"})
    for constraint, _, constraint_name in _constraints(objects):
        if constraint.kind == "c":
            definition = constraint_definition(objects, constraint.oid, ())
            rows.append({**constraint_name, "check_clause": (definition or "").removeprefix("CHECK ")})
    namespaces = {row["oid"]: row["relnamespace"] for row in builtin_classes()}
    for table in _tables(objects):
        record = objects.snapshot.get(table.oid)
        namespace = record.schema if isinstance(record, Relation) else namespaces[table.oid]
        for column in table.columns:
            if column.not_null and table.kind == "r":
                name = f"{namespace}_{table.oid}_{column.attnum}_not_null"
                rows.append(
                    {
                        **_name(objects, "constraint", table.schema, name),
                        "check_clause": f"{quote_identifier(column.name)} IS NOT NULL",
                    }
                )
    return Content(rows=rows)


def sequences(objects: CatalogObjects) -> Content:
    """Sequences."""
    rows: list[Row] = []
    for sequence in objects.sequences:
        facts = type_facts(sequence.type_oid, -1)
        rows.append(
            {
                **_name(objects, "sequence", objects.schema_name_by_oid.get(sequence.schema), sequence.name),
                "data_type": format_type(objects, sequence.type_oid),
                "numeric_precision": facts.numeric_precision,
                "numeric_precision_radix": 2,
                "numeric_scale": 0,
                "start_value": str(sequence.start),
                "minimum_value": str(sequence.minimum),
                "maximum_value": str(sequence.maximum),
                "increment": str(sequence.increment),
                "cycle_option": YES_NO[sequence.cycle],
            }
        )
    return Content(rows=rows)


def view_table_usage(objects: CatalogObjects) -> Content:
    """Tables that views read."""
    rows: list[Row] = []
    for relation in objects.relations:
        if relation.kind == "v":
            view = _name(objects, "view", objects.schema_name_by_oid.get(relation.schema), relation.name)
            for oid in relation.depends_on:
                target = objects.snapshot.get(oid)
                if isinstance(target, Relation):
                    rows.append({**view, **_table_name(objects, target)})
    return Content(rows=rows)


def character_sets(objects: CatalogObjects) -> Content:
    """The one character set."""
    return Content(
        rows=[
            {
                "character_set_name": "UTF8",
                "character_repertoire": "UCS",
                "form_of_use": "UTF8",
                "default_collate_catalog": objects.database,
            }
        ]
    )


def collations(objects: CatalogObjects) -> Content:
    """Collations."""
    return Content(
        rows=[
            {**_name(objects, "collation", "pg_catalog", name), "pad_attribute": "NO PAD"}
            for name in _collation_names().values()
        ]
    )


def collation_character_set_applicability(objects: CatalogObjects) -> Content:
    """The character set of each collation."""
    return Content(
        rows=[
            {**_name(objects, "collation", "pg_catalog", name), "character_set_name": "UTF8"}
            for name in _collation_names().values()
        ]
    )


def domains(objects: CatalogObjects) -> Content:
    """information_schema's own domains; there are no others."""
    data = catalog_data.columns("pg_type")
    defaults = dict(zip(data["oid"], data["typdefault"], strict=True))
    return Content(
        rows=[
            {
                **_name(objects, "domain", "information_schema", row.name),
                **_type_row(objects, row.oid, -1, "1", domain=False),
                "domain_default": defaults[row.oid],
            }
            for row in catalog_data.types().values()
            if row.type == "d" and row.namespace == INFORMATION_SCHEMA_OID
        ]
    )


def enabled_roles(objects: CatalogObjects) -> Content:
    """Roles; a superuser has all of them."""
    return Content(rows=[{"role_name": row["rolname"]} for row in pg_authid(objects).rows])


def applicable_roles(objects: CatalogObjects) -> Content:
    """Memberships among roles."""
    data = catalog_data.columns("pg_auth_members")
    names = objects.role_names
    return Content(
        rows=[
            {"grantee": names.get(member), "role_name": names.get(role), "is_grantable": YES_NO[admin]}
            for role, member, admin in zip(data["roleid"], data["member"], data["admin_option"], strict=True)
        ]
    )


def table_privileges(objects: CatalogObjects) -> Content:
    """What owners may do with their tables and views, and everybody's right to read the system's."""
    rows: list[Row] = []
    for table in _tables(objects):
        owner = objects.role_names.get(table.owner)
        common = {**_name(objects, "table", table.schema, table.name), "grantor": owner}
        rows.extend(
            {
                **common,
                "grantee": owner,
                "privilege_type": action,
                "is_grantable": "YES",
                "with_hierarchy": YES_NO[action == "SELECT"],
            }
            for action in _ACTIONS
        )
        if table.schema in ("pg_catalog", "information_schema"):
            rows.append(
                {
                    **common,
                    "grantee": "PUBLIC",
                    "privilege_type": "SELECT",
                    "is_grantable": "NO",
                    "with_hierarchy": "YES",
                }
            )
    return Content(rows=rows)


def column_privileges(objects: CatalogObjects) -> Content:
    """What owners may do with the columns of their tables and views."""
    rows: list[Row] = []
    for table in _tables(objects):
        owner = objects.role_names.get(table.owner)
        rows.extend(
            {
                **_name(objects, "table", table.schema, table.name),
                "grantor": owner,
                "grantee": owner,
                "column_name": column.name,
                "privilege_type": action,
                "is_grantable": "YES",
            }
            for column in table.columns
            for action in ("INSERT", "REFERENCES", "SELECT", "UPDATE")
        )
    return Content(rows=rows)


def role_table_grants(objects: CatalogObjects) -> Content:
    """table_privileges without those of PUBLIC."""
    return Content(rows=[row for row in table_privileges(objects).rows if row["grantee"] != "PUBLIC"])


def administrable_role_authorizations(objects: CatalogObjects) -> Content:
    """Memberships that carry the right to pass them on."""
    return Content(rows=[row for row in applicable_roles(objects).rows if row["is_grantable"] == "YES"])
