"""The views of information_schema on roles and privileges: table_privileges, role_table_grants, applicable_roles and
their like."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from adapter.access.acls import entries_of
from adapter.access.membership import memberships
from adapter.execution_context import Row
from adapter.system_catalogs.information_schema.tables import YES_NO, collation_names, object_name, tables_of
from adapter.system_catalogs.objects.content import Content
from adapter.system_catalogs.objects.objects import CatalogObjects
from adapter.system_catalogs.objects.seers import (
    OF_COLUMNS,
    OF_TABLES,
    SEEN_BY,
    Grant,
    column_entries,
    grants,
    having,
)
from adapter.system_catalogs.pg_catalog.object_rows import pg_authid
from planner.catalog_data import content as catalog_data
from planner.types.derived_oids import row_type_oid
from storage.catalog.acl import PUBLIC
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, COMPOSITE, DATABASE_OWNER_ROLE_OID, Database
from storage.catalog.outside import LAKE_WRAPPER, LAKE_WRAPPER_OID


def enabled_roles(objects: CatalogObjects) -> Content:
    """Roles whose privileges the reader has."""
    return Content(
        rows=[{"role_name": row["rolname"], SEEN_BY: frozenset({row["oid"]})} for row in pg_authid(objects).rows]
    )


def applicable_roles(objects: CatalogObjects) -> Content:
    """Memberships of roles whose privileges the reader has."""
    names = objects.role_names
    given = [(each.member, each.role, each.admin_option) for each in memberships(objects.snapshot.roles)]
    database = objects.snapshot.get(objects.snapshot.database)
    if isinstance(database, Database):
        given.append((database.owner, DATABASE_OWNER_ROLE_OID, False))
    return Content(
        rows=[
            {
                "grantee": names.get(member),
                "role_name": names.get(role),
                "is_grantable": YES_NO[admin],
                SEEN_BY: frozenset({member}),
            }
            for member, role, admin in given
        ]
    )


def administrable_role_authorizations(objects: CatalogObjects) -> Content:
    """Memberships that carry the right to pass them on."""
    return Content(rows=[row for row in applicable_roles(objects).rows if row["is_grantable"] == "YES"])


def shown_grant(grant: Grant) -> Row:
    """What all views on privileges show of one."""
    return {
        "grantor": grant.grantor,
        "grantee": grant.grantee,
        "privilege_type": grant.privilege,
        "is_grantable": YES_NO[grant.is_grantable],
        SEEN_BY: grant.seen_by,
    }


def of_roles(build: Callable[[CatalogObjects], Content]) -> Callable[[CatalogObjects], Content]:
    """The view role_..._grants of a view on privileges: without what the reader sees as one of all."""

    def builder(objects: CatalogObjects) -> Content:
        return Content(rows=[{**row, SEEN_BY: row[SEEN_BY] - {PUBLIC}} for row in build(objects).rows])

    return builder


def table_privileges(objects: CatalogObjects) -> Content:
    """Privileges on tables and views."""
    return Content(
        rows=[
            {
                **object_name(objects, "table", table.schema, table.name),
                **shown_grant(grant),
                "with_hierarchy": YES_NO[grant.privilege == "SELECT"],
            }
            for table in tables_of(objects)
            for grant in grants(
                objects, entries_of(objects.snapshot, "r", table.oid, table.owner), table.owner, OF_TABLES
            )
        ]
    )


def column_privileges(objects: CatalogObjects) -> Content:
    """Privileges on the columns of tables and views, those on the tables themselves among them."""

    def rows() -> Iterator[Row]:
        catalog = objects.snapshot
        for table in tables_of(objects):
            of_table = list(grants(objects, entries_of(catalog, "r", table.oid, table.owner), table.owner, OF_COLUMNS))
            name = object_name(objects, "table", table.schema, table.name)
            for column in table.columns:
                own = grants(objects, column_entries(catalog, table.oid, column.attnum), table.owner, OF_COLUMNS)
                for grant in dict.fromkeys([*of_table, *own]):
                    yield {**name, "column_name": column.name, **shown_grant(grant)}

    return Content(rows=list(rows()))


def udt_privileges(objects: CatalogObjects) -> Content:
    """Privileges on composite types, those of the rows of tables among them."""

    def rows() -> Iterator[Row]:
        names = objects.schema_name_by_oid
        data = catalog_data.columns("pg_type")
        kinds = zip(data["oid"], data["typnamespace"], data["typname"], data["typtype"], strict=True)
        found = [
            (oid, names.get(schema), name, BOOTSTRAP_SUPERUSER_OID) for oid, schema, name, kind in kinds if kind == "c"
        ]
        found += [(row_type_oid(r.oid), names.get(r.schema), r.name, r.owner) for r in objects.relations]
        for oid, schema, name, owner in found:
            for grant in grants(objects, entries_of(objects.snapshot, "T", oid, owner), owner, "U"):
                yield {
                    **object_name(objects, "udt", schema, name),
                    **shown_grant(grant),
                    "privilege_type": "TYPE USAGE",
                }

    return Content(rows=list(rows()))


def usage_privileges(objects: CatalogObjects) -> Content:
    """USAGE on collations, which everybody has, domains, the foreign-data wrapper, foreign servers and sequences."""

    def rows() -> Iterator[Row]:
        names = objects.schema_name_by_oid
        for name in collation_names().values():
            yield {
                **object_name(objects, "object", "pg_catalog", name),
                "object_type": "COLLATION",
                "privilege_type": "USAGE",
                "grantor": objects.role_names.get(BOOTSTRAP_SUPERUSER_OID),
                "grantee": "PUBLIC",
                "is_grantable": "NO",
                SEEN_BY: frozenset({PUBLIC, BOOTSTRAP_SUPERUSER_OID}),
            }
        data = catalog_data.columns("pg_type")
        kinds = zip(data["oid"], data["typnamespace"], data["typname"], data["typtype"], strict=True)
        found: list[tuple[str, str, int, str | None, str, int]] = [
            ("DOMAIN", "T", oid, names.get(schema), name, BOOTSTRAP_SUPERUSER_OID)
            for oid, schema, name, kind in kinds
            if kind == "d"
        ]
        found += [("DOMAIN", "T", row_type_oid(d.oid), names.get(d.schema), d.name, d.owner) for d in objects.domains]
        found.append(("FOREIGN DATA WRAPPER", "F", LAKE_WRAPPER_OID, "", LAKE_WRAPPER, BOOTSTRAP_SUPERUSER_OID))
        found += [("FOREIGN SERVER", "S", s.oid, "", s.name, s.owner) for s in objects.foreign_servers]
        for sequence in objects.sequences:
            found.append(("SEQUENCE", "s", sequence.oid, names.get(sequence.schema), sequence.name, sequence.owner))
        for what, kind, oid, schema, name, owner in found:
            for grant in grants(objects, entries_of(objects.snapshot, kind, oid, owner), owner, "U"):
                yield {**object_name(objects, "object", schema, name), "object_type": what, **shown_grant(grant)}

    return Content(rows=list(rows()))


def user_defined_types(objects: CatalogObjects) -> Content:
    """Composite types."""
    return Content(
        rows=[
            {
                **object_name(objects, "user_defined_type", objects.schema_name_by_oid.get(record.schema), record.name),
                "user_defined_type_category": "STRUCTURED",
                "is_instantiable": "YES",
                SEEN_BY: having(objects.snapshot, "T", row_type_oid(record.oid), record.owner, "U"),
            }
            for record in objects.relations
            if record.kind == COMPOSITE
        ]
    )
