"""pg_extension, and the views of the extensions that can be created."""

from __future__ import annotations

from adapter.execution_context import Row
from adapter.system_catalogs.objects.builtin import builtin_columns
from adapter.system_catalogs.objects.content import Content
from adapter.system_catalogs.objects.objects import PG_CLASS, PG_PROC, PLPGSQL_OID, CatalogObjects
from planner.extensions.available import AVAILABLE, PLPGSQL
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, PG_CATALOG_OID, Relation
from storage.catalog.routines import Function


def pg_extension(objects: CatalogObjects) -> Content:
    """Extensions: plpgsql, which every database has, and those that were created."""
    rows = [_extension(PLPGSQL_OID, BOOTSTRAP_SUPERUSER_OID, PG_CATALOG_OID, PLPGSQL.name, PLPGSQL.version)]
    rows += [_extension(each.oid, each.owner, each.schema, each.name, each.version) for each in objects.extensions]
    return Content(rows=rows)


def _extension(oid: int, owner: int, schema: int, name: str, version: str) -> Row:
    return {
        "oid": oid,
        "extname": name,
        "extowner": owner,
        "extnamespace": schema,
        "extrelocatable": AVAILABLE[name].relocatable,
        "extversion": version,
        "extconfig": None,
        "extcondition": None,
    }


def pg_init_privs(objects: CatalogObjects) -> Content:
    """The privileges that objects of extensions have had from the start: pg_dump writes those that others came to."""
    rows: list[Row] = []
    for extension in objects.extensions:
        first = AVAILABLE[extension.name].first_privileges
        for oid in extension.members if first else ():
            record = objects.snapshot.get(oid)
            if not isinstance(record, (Relation, Function)):
                continue
            place, name = (PG_CLASS, "pg_class") if isinstance(record, Relation) else (PG_PROC, "pg_proc")
            privileges = first.get((name, record.name))
            if privileges is not None:
                rows.append(
                    {
                        "objoid": oid,
                        "classoid": place,
                        "objsubid": 0,
                        "privtype": "e",
                        "initprivs": list(privileges),
                    }
                )
    return Content(columns=builtin_columns("pg_init_privs"), rows=rows)


def pg_available_extensions(objects: CatalogObjects) -> Content:
    """What can be created, and which version of it has been."""
    made = _versions(objects)
    return Content(
        rows=[
            {
                "name": each.name,
                "default_version": each.version,
                "installed_version": made.get(each.name),
                "comment": each.comment,
            }
            for each in AVAILABLE.values()
        ]
    )


def pg_available_extension_versions(objects: CatalogObjects) -> Content:
    """The versions that can be created."""
    made = _versions(objects)
    return Content(
        rows=[
            {
                "name": each.name,
                "version": each.version,
                "installed": made.get(each.name) == each.version,
                "superuser": True,
                "trusted": each.is_trusted,
                "relocatable": each.relocatable,
                "schema": None if each.relocatable else "pg_catalog",
                "requires": None,
                "comment": each.comment,
            }
            for each in AVAILABLE.values()
        ]
    )


def _versions(objects: CatalogObjects) -> dict[str, str]:
    """By the names of the extensions that are there."""
    return {row["extname"]: row["extversion"] for row in pg_extension(objects).rows}
