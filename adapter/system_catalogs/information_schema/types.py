"""The views of information_schema over types: attributes, element_types, column_udt_usage and others."""

from __future__ import annotations

from adapter.execution_context import Row
from adapter.system_catalogs.information_schema.tables import object_name, seen_columns, tables_of, type_row
from adapter.system_catalogs.objects.content import Content
from adapter.system_catalogs.objects.objects import CatalogObjects
from adapter.system_catalogs.objects.seers import SEEN_BY, having
from planner.catalog_data import content as catalog_data
from planner.catalog_data.content import TypeRow
from planner.types.derived_oids import row_type_oid
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, COMPOSITE, INFORMATION_SCHEMA_OID


def element_types(objects: CatalogObjects) -> Content:
    """The element types of columns that are arrays."""
    rows: list[Row] = []
    for table in tables_of(objects):
        for column, seers in seen_columns(objects, table):
            element = objects.element_type(column.type_oid)
            if element:
                described = type_row(
                    objects,
                    element,
                    column.typmod,
                    f"a{column.attnum}",
                    domain=False,
                    collation=column.collation,
                )
                kept = ("udt_catalog", "udt_schema", "udt_name", "data_type", "dtd_identifier")
                rows.append(
                    {
                        **object_name(objects, "object", table.schema, table.name),
                        "object_type": "TABLE",
                        "collection_type_identifier": str(column.attnum),
                        **{name: described.get(name) for name in kept},
                        **{name: value for name, value in described.items() if name.startswith("collation_")},
                        SEEN_BY: seers,
                    }
                )
    return Content(rows=rows)


def attributes(objects: CatalogObjects) -> Content:
    """The fields of composite types."""
    rows: list[Row] = []
    for relation in objects.relations:
        if relation.kind != COMPOSITE:
            continue
        named = object_name(objects, "udt", objects.schema_name_by_oid.get(relation.schema), relation.name)
        seers = having(objects.snapshot, "T", row_type_oid(relation.oid), relation.owner, "U")
        for column in relation.live_columns():
            described = type_row(
                objects,
                column.type_oid,
                column.typmod,
                str(column.attnum),
                domain=False,
                collation=column.collation or None,
            )
            type_ = objects.type(column.type_oid)
            if type_ is not None and type_.kind == "d":
                # A domain stands for itself here.
                schema = objects.schema_name_by_oid.get(type_.namespace)
                itself = object_name(objects, "udt", schema, type_.name)
                described = {**described, **itself, "data_type": "USER-DEFINED"}
            rows.append(
                {
                    **described,
                    **{f"attribute_{name}": described[name] for name in named},
                    **named,
                    "attribute_name": column.name,
                    "ordinal_position": column.attnum,
                    "is_nullable": "YES",
                    "is_derived_reference_attribute": "NO",
                    SEEN_BY: seers,
                }
            )
    return Content(rows=rows)


def column_udt_usage(objects: CatalogObjects) -> Content:
    """The type of each column."""
    rows: list[Row] = []
    for table in tables_of(objects):
        for column in table.columns:
            named = objects.type(objects.base_type(column.type_oid, -1)[0])
            if named is not None:
                rows.append(
                    {
                        **object_name(objects, "udt", objects.schema_name_by_oid.get(named.namespace), named.name),
                        **object_name(objects, "table", table.schema, table.name),
                        "column_name": column.name,
                        SEEN_BY: frozenset({named.owner}),
                    }
                )
    return Content(rows=rows)


def column_domain_usage(objects: CatalogObjects) -> Content:
    """Columns whose type is a domain."""
    rows: list[Row] = []
    for table in tables_of(objects):
        for column in table.columns:
            named = objects.type(column.type_oid)
            if named is not None and named.kind == "d":
                schema = objects.schema_name_by_oid.get(named.namespace)
                rows.append(
                    {
                        **object_name(objects, "domain", schema, named.name),
                        **object_name(objects, "table", table.schema, table.name),
                        "column_name": column.name,
                        SEEN_BY: frozenset({named.owner}),
                    }
                )
    return Content(rows=rows)


def _domains() -> list[TypeRow]:
    return [row for row in catalog_data.types().values() if row.type == "d" and row.namespace == INFORMATION_SCHEMA_OID]


def domain_udt_usage(objects: CatalogObjects) -> Content:
    """The types under domains."""
    types = catalog_data.types()
    rows: list[Row] = [
        {
            **object_name(objects, "udt", "pg_catalog", types[row.basetype].name),
            **object_name(objects, "domain", "information_schema", row.name),
            SEEN_BY: frozenset({BOOTSTRAP_SUPERUSER_OID}),
        }
        for row in _domains()
    ]
    names = objects.schema_name_by_oid
    for domain in objects.domains:
        base = objects.type(domain.base_oid)
        if base is not None:
            rows.append(
                {
                    **object_name(objects, "udt", names.get(base.namespace), base.name),
                    **object_name(objects, "domain", names.get(domain.schema), domain.name),
                    SEEN_BY: frozenset({base.owner}),
                }
            )
    return Content(rows=rows)


def domain_constraints(objects: CatalogObjects) -> Content:
    """The checks of domains."""
    catalog = objects.snapshot
    names = {row.oid: row.name for row in _domains()}
    data = catalog_data.columns("pg_constraint")
    checks = [
        (
            *("information_schema", name, names[domain]),
            having(catalog, "T", domain, BOOTSTRAP_SUPERUSER_OID, "U"),
        )
        for name, domain in zip(data["conname"], data["contypid"], strict=True)
        if domain
    ]
    for check, own in objects.domain_checks.values():
        seers = having(catalog, "T", row_type_oid(own.oid), own.owner, "U")
        checks.append((objects.schema_name_by_oid.get(own.schema, ""), check.name, own.name, seers))
    return Content(
        rows=[
            {
                **object_name(objects, "constraint", schema, name),
                **object_name(objects, "domain", schema, domain_name),
                "is_deferrable": "NO",
                "initially_deferred": "NO",
                SEEN_BY: seers,
            }
            for schema, name, domain_name, seers in checks
        ]
    )
