"""Privileges in the system catalogs: the columns ``...acl`` of those that have one, pg_default_acl and
pg_parameter_acl."""

from __future__ import annotations

from collections.abc import Mapping

from adapter.access.acls import shown_entries
from adapter.execution_context import Row
from adapter.system_catalogs.objects.builtin import builtin_columns
from adapter.system_catalogs.objects.content import Builder, Content
from adapter.system_catalogs.objects.objects import CatalogObjects
from storage.catalog.acl import Acl


def with_privileges(build: Builder, column: str) -> Builder:
    """What `build` makes, with the privileges of each row's object in `column`."""

    def builder(objects: CatalogObjects) -> Content:
        content = build(objects)
        granted = {acl.object_oid: acl for acl in objects.snapshot.acls.all() if not acl.subid and not acl.parameter}
        return _marked(objects, content, "oid", column, granted) if granted else content

    return builder


def built_in(relation: str) -> Builder:
    """A system relation of which there are the generated rows alone."""
    return lambda objects: Content(columns=builtin_columns(relation))


def _marked(objects: CatalogObjects, content: Content, key: str, column: str, granted: Mapping[int, Acl]) -> Content:
    def shown(oid: int) -> list[str]:
        return shown_entries(granted[oid].entries, objects.role_names)

    columns = content.columns
    if columns is not None and any(oid in granted for oid in columns[key]):
        items = zip(columns[key], columns[column], strict=True)
        columns = {**columns, column: [shown(oid) if oid in granted else acl for oid, acl in items]}
    rows = [{**row, column: shown(row[key])} if row[key] in granted else row for row in content.rows]
    return Content(columns=columns, rows=rows)


def with_column_privileges(build: Builder) -> Builder:
    """pg_attribute with the privileges of columns."""

    def builder(objects: CatalogObjects) -> Content:
        content = build(objects)
        granted = {(acl.object_oid, acl.subid): acl for acl in objects.snapshot.acls.all() if acl.subid}
        if not granted:
            return content
        rows: list[Row] = []
        for row in content.rows:
            acl = granted.get((row["attrelid"], row["attnum"]))
            rows.append(row if acl is None else {**row, "attacl": shown_entries(acl.entries, objects.role_names)})
        return Content(columns=content.columns, rows=rows)

    return builder


def pg_default_acl(objects: CatalogObjects) -> Content:
    """What ALTER DEFAULT PRIVILEGES has set."""
    return Content(
        rows=[
            {
                "oid": acl.oid,
                "defaclrole": acl.role,
                "defaclnamespace": acl.schema,
                "defaclobjtype": acl.kind,
                "defaclacl": shown_entries(acl.entries, objects.role_names),
            }
            for acl in objects.snapshot.acls.defaults
        ]
    )


def pg_parameter_acl(objects: CatalogObjects) -> Content:
    """The privileges on parameters."""
    return Content(
        rows=[
            {"oid": acl.oid, "parname": acl.parameter, "paracl": shown_entries(acl.entries, objects.role_names)}
            for acl in objects.snapshot.acls.all()
            if acl.parameter
        ]
    )
