"""Servers of foreign data, user mappings and foreign tables: pg_foreign_... and pg_user_mapping, and the views
foreign_... and user_mappings of information_schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from adapter.access.privileges import Rights
from adapter.execution_context import Row
from adapter.system_catalogs.objects.content import Content
from adapter.system_catalogs.objects.objects import CatalogObjects
from adapter.system_catalogs.objects.seers import SEEN_BY, having, having_any_column
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, CatalogSnapshot, Relation
from storage.catalog.outside import LAKE_WRAPPER, LAKE_WRAPPER_OID, ForeignServer, ForeignTable, Options, UserMapping


def shown_options(options: Options) -> list[str] | None:
    """Options as the catalogs have them: ``name=value``."""
    return [f"{name}={value}" for name, value in options] or None


def pg_foreign_data_wrapper(objects: CatalogObjects) -> Content:
    """The wrapper `lake`."""
    row = {
        "oid": LAKE_WRAPPER_OID, "fdwname": LAKE_WRAPPER, "fdwowner": BOOTSTRAP_SUPERUSER_OID, "fdwhandler": 0,
        "fdwvalidator": 0,
    }  # fmt: skip
    return Content(rows=[row])


def pg_foreign_server(objects: CatalogObjects) -> Content:
    """Servers."""
    return Content(
        rows=[
            {
                "oid": server.oid,
                "srvname": server.name,
                "srvowner": server.owner,
                "srvfdw": LAKE_WRAPPER_OID,
                "srvtype": server.kind,
                "srvversion": server.version,
                "srvoptions": shown_options(server.options),
            }
            for server in objects.foreign_servers
        ]
    )


def pg_foreign_table(objects: CatalogObjects) -> Content:
    """Foreign tables."""
    return Content(
        rows=[
            {"ftrelid": table.oid, "ftserver": foreign.server, "ftoptions": shown_options(foreign.options)}
            for table, foreign in _tables(objects)
        ]
    )


def pg_user_mapping(objects: CatalogObjects) -> Content:
    """User mappings, which superusers alone may read."""
    return Content(
        rows=[
            {
                "oid": mapping.oid,
                "umuser": mapping.role,
                "umserver": server.oid,
                "umoptions": shown_options(mapping.options),
            }
            for server, mapping in _mappings(objects.foreign_servers)
        ]
    )


def visible_mappings(catalog: CatalogSnapshot, role: int) -> list[Row]:
    """pg_user_mappings as `role` sees it: the options of its own mappings, of those for PUBLIC on servers that it owns,
    of all when it is a superuser."""
    rights = Rights(catalog, role)
    servers = sorted((r for r in catalog.all() if isinstance(r, ForeignServer)), key=lambda server: server.oid)
    rows: list[Row] = []
    for server, mapping in _mappings(servers):
        owns = server.owner in rights.roles
        name: str | None
        if mapping.role == 0:
            name, shown = "public", owns
        else:
            known = catalog.roles.records.get(mapping.role)
            name = None if known is None else known.name
            shown = mapping.role == role and (owns or rights.may("S", server.oid, "U"))
        rows.append(
            {
                "umid": mapping.oid,
                "srvid": server.oid,
                "srvname": server.name,
                "umuser": mapping.role,
                "usename": name,
                "umoptions": shown_options(mapping.options) if shown or rights.is_superuser else None,
            }
        )
    return rows


def visible_mapping_options(catalog: CatalogSnapshot, role: int, database: str) -> list[Row]:
    """information_schema.user_mapping_options as `role` sees it: all names, and the values of its own mappings, of
    those for PUBLIC on servers that it owns, of all when it is a superuser."""
    rights = Rights(catalog, role)
    servers = sorted((r for r in catalog.all() if isinstance(r, ForeignServer)), key=lambda server: server.oid)
    rows: list[Row] = []
    for server, mapping in _mappings(servers):
        known = catalog.roles.records.get(mapping.role)
        shown = rights.is_superuser or (server.owner in rights.roles if mapping.role == 0 else mapping.role == role)
        row = {
            "authorization_identifier": "PUBLIC" if mapping.role == 0 else known and known.name,
            "foreign_server_catalog": database,
            "foreign_server_name": server.name,
        }
        rows += [
            {**row, "option_name": name, "option_value": value if shown else None} for name, value in mapping.options
        ]
    return rows


def _tables(objects: CatalogObjects) -> Iterator[tuple[Relation, ForeignTable]]:
    for relation in objects.relations:
        if relation.foreign is not None:
            yield relation, relation.foreign


def _mappings(servers: Iterable[ForeignServer]) -> Iterator[tuple[ForeignServer, UserMapping]]:
    for server in servers:
        for mapping in server.mappings:
            yield server, mapping


# ---------------------------------------------------------------- information_schema


def _server(objects: CatalogObjects, server: ForeignServer) -> Row:
    return {"foreign_server_catalog": objects.database, "foreign_server_name": server.name}


def _table(objects: CatalogObjects, table: Relation) -> Row:
    return {
        "foreign_table_catalog": objects.database,
        "foreign_table_schema": objects.schema_name_by_oid.get(table.schema),
        "foreign_table_name": table.name,
    }


def _options(options: Options) -> Iterator[Row]:
    for name, value in options:
        yield {"option_name": name, "option_value": value}


def foreign_data_wrappers(objects: CatalogObjects) -> Content:
    """The wrapper `lake`."""
    row = {
        "foreign_data_wrapper_catalog": objects.database,
        "foreign_data_wrapper_name": LAKE_WRAPPER,
        "authorization_identifier": objects.role_names.get(BOOTSTRAP_SUPERUSER_OID),
        "foreign_data_wrapper_language": "c",
        SEEN_BY: having(objects.snapshot, "F", LAKE_WRAPPER_OID, BOOTSTRAP_SUPERUSER_OID, "U"),
    }
    return Content(rows=[row])


def foreign_servers(objects: CatalogObjects) -> Content:
    """Servers."""
    return Content(
        rows=[
            {
                **_server(objects, server),
                "foreign_data_wrapper_catalog": objects.database,
                "foreign_data_wrapper_name": LAKE_WRAPPER,
                "foreign_server_type": server.kind,
                "foreign_server_version": server.version,
                "authorization_identifier": objects.role_names.get(server.owner),
                SEEN_BY: having(objects.snapshot, "S", server.oid, server.owner, "U"),
            }
            for server in objects.foreign_servers
        ]
    )


def foreign_server_options(objects: CatalogObjects) -> Content:
    """The options of servers."""
    return Content(
        rows=[
            {
                **_server(objects, server),
                **option,
                SEEN_BY: having(objects.snapshot, "S", server.oid, server.owner, "U"),
            }
            for server in objects.foreign_servers
            for option in _options(server.options)
        ]
    )


def foreign_tables(objects: CatalogObjects) -> Content:
    """Foreign tables."""
    by_oid = {server.oid: server for server in objects.foreign_servers}
    return Content(
        rows=[
            {
                **_table(objects, table),
                **_server(objects, by_oid[foreign.server]),
                SEEN_BY: having_any_column(objects.snapshot, table.oid, table.owner),
            }
            for table, foreign in _tables(objects)
        ]
    )


def foreign_table_options(objects: CatalogObjects) -> Content:
    """The options of foreign tables."""
    return Content(
        rows=[
            {
                **_table(objects, table),
                **option,
                SEEN_BY: having_any_column(objects.snapshot, table.oid, table.owner),
            }
            for table, foreign in _tables(objects)
            for option in _options(foreign.options)
        ]
    )


def user_mappings(objects: CatalogObjects) -> Content:
    """User mappings, without their options: see `visible_mapping_options`."""
    names = {**objects.role_names, 0: "PUBLIC"}
    return Content(
        rows=[
            {"authorization_identifier": names.get(mapping.role), **_server(objects, server)}
            for server, mapping in _mappings(objects.foreign_servers)
        ]
    )
