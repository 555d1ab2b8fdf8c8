"""The views of information_schema (PostgreSQL, chapter "The Information Schema"), computed from catalog and data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct

from adapter.execution_context import Row
from adapter.system_catalogs.objects.builtin import builtin_columns, builtin_relations
from adapter.system_catalogs.objects.content import Content
from adapter.system_catalogs.objects.definitions import (
    builtin_view_definitions,
    format_type,
    generation_sources,
    is_identity,
    is_insertable,
    is_updatable,
    shown_expression,
    updatable_columns,
    updatable_events,
    view_definition,
)
from adapter.system_catalogs.objects.named_columns import named_by
from adapter.system_catalogs.objects.objects import CatalogObjects
from adapter.system_catalogs.objects.seers import (
    OF_COLUMNS,
    SEEN_BY,
    SHOWN_TO,
    having,
    having_any_column,
    having_column,
)
from adapter.system_catalogs.objects.type_facts import type_facts
from adapter.system_catalogs.pg_catalog.catalog_views import builtin_classes
from planner.catalog_data import content as catalog_data
from planner.types.derived_oids import row_type_oid
from planner.types.type_names import type_row as pg_type_row
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, INFORMATION_SCHEMA_OID, PG_CATALOG_OID, Relation
from storage.catalog.model import Column as StoredColumn
from storage.catalog.model import Sequence as SequenceRecord
from storage.catalog.temporary import is_temporary

YES_NO = {True: "YES", False: "NO"}


class Column(Struct, frozen=True):
    """A column as information_schema.columns describes it."""

    attnum: int
    name: str
    type_oid: int
    typmod: int
    not_null: bool
    default: str | None
    collation: int | None = None
    """None: the type's."""
    stored: StoredColumn | None = None
    """The record, of a user's table or view."""

    @property
    def is_generated(self) -> bool:
        """Whether its value is computed from other columns."""
        return self.stored is not None and bool(self.stored.generated)


class Table(Struct, frozen=True):
    """A table or view and its columns."""

    oid: int
    schema: str
    name: str
    kind: str
    owner: int
    columns: Sequence[Column]


@cache
def _builtintables_of() -> tuple[Table, ...]:
    owners = {row["oid"]: row["relowner"] for row in builtin_classes()}
    data = builtin_columns("pg_attribute")
    collations = {
        (relation, attnum): collation
        for relation, attnum, collation in zip(data["attrelid"], data["attnum"], data["attcollation"], strict=True)
    }
    return tuple(
        Table(
            row.oid,
            row.schema,
            row.name,
            row.kind,
            owners[row.oid],
            [
                Column(
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
        for row in builtin_relations()
    )


def tables_of(objects: CatalogObjects) -> Iterator[Table]:
    """Tables and views, the built-in ones first. Materialized views do not belong to the standard."""
    yield from _builtintables_of()
    for relation in objects.relations:
        if relation.kind in ("r", "v", "f"):
            yield Table(
                relation.oid,
                objects.schema_name_by_oid.get(relation.schema, ""),
                relation.name,
                relation.kind,
                relation.owner,
                [
                    Column(c.attnum, c.name, c.type_oid, c.typmod, c.not_null, c.default, c.collation or None, stored=c)
                    for c in relation.live_columns()
                ],
            )


def object_name(objects: CatalogObjects, prefix: str, schema: str | None, name: str | None) -> Row:
    """The three columns `prefix`_catalog, _schema and _name of an object."""
    return {f"{prefix}_catalog": objects.database, f"{prefix}_schema": schema, f"{prefix}_name": name}


def type_row(
    objects: CatalogObjects,
    type_oid: int,
    typmod: int,
    dtd_identifier: str,
    *,
    domain: bool = True,
    collation: int | None = None,
) -> Row:
    """data_type and what follows it in columns, domains and element_types. `collation` None is the type's."""
    named = objects.type(type_oid)
    declared: Row = {}
    base_oid, base_typmod = objects.base_type(type_oid, typmod)
    if named is not None and named.kind == "d" and domain:
        declared = object_name(objects, "domain", objects.schema_name_by_oid.get(named.namespace), named.name)
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
        row = pg_type_row(type_oid)
        collation = facts.collation if row is None or row.type != "d" else row.collation
    return {
        **declared,
        **_collation(objects, collation),
        **object_name(objects, "udt", namespace, None if base is None else base.name),
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


def relation_name(objects: CatalogObjects, relation: Relation) -> Row:
    """table_catalog, table_schema and table_name of a user's relation."""
    return object_name(objects, "table", objects.schema_name_by_oid.get(relation.schema), relation.name)


@cache
def collation_names() -> Mapping[int, str]:
    """Collations by oid."""
    data = catalog_data.columns("pg_collation")
    return dict(zip(data["oid"], data["collname"], strict=True))


def _collation(objects: CatalogObjects, oid: int) -> Row:
    name = collation_names().get(oid)
    if name is None or name == "default":
        return {}
    return object_name(objects, "collation", "pg_catalog", name)


def _identity(objects: CatalogObjects, column: Column) -> Row:
    """What columns says of an identity column's sequence."""
    stored = column.stored
    sequence = objects.snapshot.get(stored.sequence) if stored is not None and stored.sequence is not None else None
    if stored is None or not isinstance(sequence, SequenceRecord):
        return {"is_identity": "NO", "identity_cycle": "NO"}
    return {
        "is_identity": "YES",
        "identity_generation": "ALWAYS" if stored.identity == "a" else "BY DEFAULT",
        "identity_start": str(sequence.start),
        "identity_increment": str(sequence.increment),
        "identity_maximum": str(sequence.maximum),
        "identity_minimum": str(sequence.minimum),
        "identity_cycle": YES_NO[sequence.cycle],
    }


def column_column_usage(objects: CatalogObjects) -> Content:
    """Generated columns and the columns that they are computed from."""
    rows: list[Row] = []
    for relation in objects.relations:
        names = {column.attnum: column.name for column in relation.live_columns()}
        table = relation_name(objects, relation)
        rows.extend(
            {
                **table,
                "column_name": names[attnum],
                "dependent_column": column.name,
                SEEN_BY: frozenset({relation.owner}),
            }
            for column in relation.live_columns()
            if column.generated
            for attnum in generation_sources(objects, relation, column)
            if attnum in names
        )
    return Content(rows=rows)


def columns(objects: CatalogObjects) -> Content:
    """All columns of tables and views."""
    rows: list[Row] = []
    updatable = {table.oid: updatable_columns(objects, table.oid) for table in tables_of(objects) if table.kind == "v"}
    rows.extend(
        {
            **object_name(objects, "table", table.schema, table.name),
            "column_name": column.name,
            "ordinal_position": column.attnum,
            "column_default": None
            if column.default is None or column.is_generated
            else shown_expression(objects, table.oid, column.default),
            "is_nullable": YES_NO[not column.not_null],
            **type_row(objects, column.type_oid, column.typmod, str(column.attnum), collation=column.collation),
            "is_self_referencing": "NO",
            **_identity(objects, column),
            "is_generated": "ALWAYS" if column.is_generated else "NEVER",
            "generation_expression": column.default if column.is_generated else None,
            "is_updatable": YES_NO[table.kind == "r" or column.attnum in updatable.get(table.oid, ())],
            SEEN_BY: seers,
        }
        for table in tables_of(objects)
        for column, seers in seen_columns(objects, table)
    )
    return Content(rows=rows)


def seen_columns(objects: CatalogObjects, table: Table) -> Iterator[tuple[Column, frozenset[int]]]:
    """The columns of a table, each with who may see it."""
    catalog = objects.snapshot
    of_table = having(catalog, "r", table.oid, table.owner, OF_COLUMNS)
    for column in table.columns:
        yield column, having_column(catalog, table.oid, column.attnum, of_table)


def _table_type(table: Table) -> str:
    if is_temporary(table.oid):
        return "LOCAL TEMPORARY"
    return {"r": "BASE TABLE", "f": "FOREIGN"}.get(table.kind, "VIEW")


def _type_of_table(objects: CatalogObjects, oid: int) -> dict[str, object]:
    """Of a typed table also the type."""
    table = objects.snapshot.get(oid)
    type_ = objects.snapshot.get(table.of_type) if isinstance(table, Relation) and table.of_type else None
    if not isinstance(type_, Relation):
        return {"is_typed": "NO"}
    schema = objects.schema_name_by_oid.get(type_.schema)
    return {"is_typed": "YES", **object_name(objects, "user_defined_type", schema, type_.name)}


def tables(objects: CatalogObjects) -> Content:
    """Tables and views."""
    return Content(
        rows=[
            {
                **object_name(objects, "table", table.schema, table.name),
                "table_type": _table_type(table),
                "is_insertable_into": YES_NO[
                    table.kind == "r" or (table.kind == "v" and is_insertable(updatable_events(objects, table.oid)))
                ],
                **_type_of_table(objects, table.oid),
                SEEN_BY: having_any_column(objects.snapshot, table.oid, table.owner),
            }
            for table in tables_of(objects)
        ]
    )


def views(objects: CatalogObjects) -> Content:
    """Views with their queries."""
    definitions = builtin_view_definitions()
    rows: list[Row] = []
    for table in tables_of(objects):
        if table.kind == "v":
            definition = definitions.get(table.oid)
            if definition is None:
                definition = view_definition(objects, table.oid)
            events = updatable_events(objects, table.oid)
            view = objects.snapshot.get(table.oid)
            option = view.check_option if isinstance(view, Relation) else None
            rows.append(
                {
                    **object_name(objects, "table", table.schema, table.name),
                    "view_definition": definition,
                    "check_option": "NONE" if option is None else option.upper(),
                    "is_updatable": YES_NO[is_updatable(events)],
                    "is_insertable_into": YES_NO[is_insertable(events)],
                    "is_trigger_updatable": "NO",
                    "is_trigger_deletable": "NO",
                    "is_trigger_insertable_into": "NO",
                    SEEN_BY: having_any_column(objects.snapshot, table.oid, table.owner),
                    SHOWN_TO: frozenset({table.owner}),
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
                SEEN_BY: having(objects.snapshot, "n", schema.oid, schema.owner, "UC"),
            }
            for schema in objects.schemas
        ]
    )


def information_schema_catalog_name(objects: CatalogObjects) -> Content:
    """The database connected to."""
    return Content(rows=[{"catalog_name": objects.database}])


def sequences(objects: CatalogObjects) -> Content:
    """Sequences, but for those of identity columns."""
    rows: list[Row] = []
    for sequence in objects.sequences:
        if is_identity(objects, sequence):
            continue
        facts = type_facts(sequence.type_oid, -1)
        rows.append(
            {
                **object_name(objects, "sequence", objects.schema_name_by_oid.get(sequence.schema), sequence.name),
                "data_type": format_type(objects, sequence.type_oid),
                "numeric_precision": facts.numeric_precision,
                "numeric_precision_radix": 2,
                "numeric_scale": 0,
                "start_value": str(sequence.start),
                "minimum_value": str(sequence.minimum),
                "maximum_value": str(sequence.maximum),
                "increment": str(sequence.increment),
                "cycle_option": YES_NO[sequence.cycle],
                SEEN_BY: having(objects.snapshot, "s", sequence.oid, sequence.owner, "rwU"),
            }
        )
    return Content(rows=rows)


def view_table_usage(objects: CatalogObjects) -> Content:
    """Tables that views read."""
    rows: list[Row] = []
    for relation in objects.relations:
        if relation.kind == "v":
            view = object_name(objects, "view", objects.schema_name_by_oid.get(relation.schema), relation.name)
            rows.extend(
                {**view, **relation_name(objects, target), SEEN_BY: frozenset({target.owner})}
                for target in _named(objects, relation)
            )
    return Content(rows=rows)


def view_column_usage(objects: CatalogObjects) -> Content:
    """Columns of tables that views name."""
    rows: list[Row] = []
    for relation in objects.relations:
        if relation.kind == "v":
            view = object_name(objects, "view", objects.schema_name_by_oid.get(relation.schema), relation.name)
            for target in _named(objects, relation):
                parts = named_by(objects, relation).parts(target.oid)
                rows.extend(
                    {
                        **view,
                        **relation_name(objects, target),
                        "column_name": column.name,
                        SEEN_BY: frozenset({target.owner}),
                    }
                    for column in target.live_columns()
                    if column.attnum in parts
                )
    return Content(rows=rows)


def _named(objects: CatalogObjects, view: Relation) -> list[Relation]:
    """The tables and views that the query of a view names."""
    found = [objects.snapshot.get(oid) for oid in sorted(named_by(objects, view).relations)]
    return [each for each in found if isinstance(each, Relation) and each.kind in ("r", "v", "f", "p")]


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
            {**object_name(objects, "collation", "pg_catalog", name), "pad_attribute": "NO PAD"}
            for name in collation_names().values()
        ]
    )


def collation_character_set_applicability(objects: CatalogObjects) -> Content:
    """The character set of each collation."""
    return Content(
        rows=[
            {**object_name(objects, "collation", "pg_catalog", name), "character_set_name": "UTF8"}
            for name in collation_names().values()
        ]
    )


def _array_under(objects: CatalogObjects, oid: int) -> Row:
    """The data_type of a domain over an array type, which PostgreSQL does not call ARRAY: a domain has no elements."""
    element = objects.element_type(oid)
    if not element:
        return {}
    named = objects.type(element)
    built_in = named is not None and named.namespace == PG_CATALOG_OID
    return {"data_type": format_type(objects, oid) if built_in else "USER-DEFINED"}


def domains(objects: CatalogObjects) -> Content:
    """Domains, information_schema's own among them."""
    data = catalog_data.columns("pg_type")
    defaults = dict(zip(data["oid"], data["typdefault"], strict=True))
    rows: list[Row] = [
        {
            **object_name(objects, "domain", "information_schema", row.name),
            **type_row(objects, row.oid, -1, "1", domain=False),
            "domain_default": defaults[row.oid],
            SEEN_BY: having(objects.snapshot, "T", row.oid, BOOTSTRAP_SUPERUSER_OID, "U"),
        }
        for row in catalog_data.types().values()
        if row.type == "d" and row.namespace == INFORMATION_SCHEMA_OID
    ]
    rows.extend(
        {
            **object_name(objects, "domain", objects.schema_name_by_oid.get(domain.schema), domain.name),
            **type_row(objects, row_type_oid(domain.oid), -1, "1", domain=False),
            **_array_under(objects, domain.base_oid),
            "domain_default": None if domain.default is None else shown_expression(objects, 0, domain.default),
            SEEN_BY: having(objects.snapshot, "T", row_type_oid(domain.oid), domain.owner, "U"),
        }
        for domain in objects.domains
    )
    return Content(rows=rows)
