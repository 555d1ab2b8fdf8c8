"""IMPORT FOREIGN SCHEMA: foreign tables for what is in a folder below the path of a server.

Each folder with files of one format is a table, and so is each Iceberg or Delta table in one, and each file; they are
called as the folder, or as the file without what its format ends in. Of a server with an Iceberg catalog the folder is
a namespace, whose views become views. Of a server of another database it is a schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from adapter.definitions.foreign.options import checked_names
from adapter.definitions.foreign.servers import require_server
from adapter.definitions.foreign.tables import RemoteColumns, create_foreign_table, remote_columns, remote_database
from adapter.definitions.foreign.views import CreateView, ViewImport
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import check_create, require_schema
from adapter.execution.statement import Running
from adapter.lake.databases import is_database
from adapter.lake.foreign_files import TABLE_OPTIONS, joined
from adapter.store_errors import sql_error
from planner.errors import DatatypeMismatch, FeatureNotSupported, InvalidName, InvalidSchemaName, SqlError
from planner.lowering.engine_errors import named_error
from planner.statements import foreign as ft
from planner.syntax.file_names import format_of, without_suffix
from planner.syntax.qualified_names import QualifiedName
from storage.catalog.outside import ForeignServer
from storage.lake.formats import SUFFIXES
from storage.lake.places import Places
from storage.lake.snapshots.catalogs import table_names, view_names
from storage.lake.tables import LakeTables
from storage.lake.troubles import FileTrouble

_MAX_NAME_BYTES = 63


async def import_foreign_schema(
    running: Running, statement: ft.ImportForeignSchema, *, create_view: CreateView
) -> None:
    """IMPORT FOREIGN SCHEMA folder FROM SERVER s INTO schema; the folder "." is the path of the server itself."""
    catalog = own_catalog(running)
    server = require_server(catalog, statement.server)
    running.session.rights(catalog).require("S", server.oid, "U")
    check_create(running, catalog, require_schema(catalog, statement.schema))
    if is_database(server):
        await _import_database(running, statement, server)
        return
    options = dict(checked_names(statement.options, TABLE_OPTIONS - {"path", "format"}))
    role = running.session.values.identity.current
    found: Mapping[str, Sequence[tuple[str, str]]]
    views: list[str] = []
    try:
        below = await running.services.file_threads.run(partial(running.services.foreign_files.below, server, role))
        if below.catalog is not None:
            work = partial(table_names, below.catalog, statement.remote)
            names = await running.services.file_threads.run(work)
            found = {name: [(f"{statement.remote}.{name}", "iceberg")] for name in names}
            views = await running.services.file_threads.run(partial(view_names, below.catalog, statement.remote))
        else:
            found = await running.services.file_threads.run(partial(_tables_in, below.files, server, statement.remote))
    except FileTrouble as trouble:
        raise sql_error(trouble) from trouble
    for name, paths in sorted(found.items()):
        if not _is_wanted(statement, name):
            continue
        path, format = _only(name, paths)
        _check_length(name, path)
        if below.catalog is None and any(char in path for char in "*?["):
            raise FeatureNotSupported(f'"{path}" cannot be imported: the path of a table is a pattern')
        made = {**options, "path" if below.catalog is None else "table": path, "format": format}
        table = QualifiedName(name=name, schema=statement.schema)
        await _create(running, ft.CreateForeignTable(name=table, server=server.name, options=tuple(made.items())))
    wanted = [name for name in views if _is_wanted(statement, name)]
    if not wanted:
        return
    for name in wanted:
        _check_length(name, f"{statement.remote}.{name}")
    try:
        await ViewImport(running, statement, server, below, wanted, create_view).run()
    except FileTrouble as trouble:
        raise sql_error(trouble) from trouble


def _is_wanted(statement: ft.ImportForeignSchema, *names: str) -> bool:
    """Whether the table with these `names`, here and there, is imported."""
    return statement.tables is None or any(name in statement.tables for name in names) != statement.but


def _check_length(name: str, path: str) -> None:
    if len(name.encode()) > _MAX_NAME_BYTES:
        raise InvalidName(f'"{path}" is too long for the name of a table')


async def _import_database(running: Running, statement: ft.ImportForeignSchema, server: ForeignServer) -> None:
    """The tables and views of a schema of another database. HV00Q for a schema that there is not."""
    from adapter.engines.spark.databases.jdbc import tables_of

    checked_names(statement.options, ())
    database = await remote_database(running, server)
    there = await running.engines.spark().ask(lambda jvm: tables_of(jvm, database, statement.remote))
    if there is None:
        # fdw_schema_not_found
        raise named_error("HV00Q", f'schema "{statement.remote}" is not present on foreign server "{server.name}"')
    schema = () if there.schema is None else (("schema_name", there.schema),)
    tables = [
        (name, (*schema, ("table_name", label))) for name, label in there.tables if _is_wanted(statement, name, label)
    ]
    for name, _ in tables:
        _check_length(name, f"{statement.remote}.{name}")
    for name, columns in await remote_columns(running, server, tables):
        table = QualifiedName(name=name, schema=statement.schema)
        made = ft.CreateForeignTable(name=table, server=server.name, options=dict(tables)[name])
        await _create(running, made, columns)


async def _create(running: Running, statement: ft.CreateForeignTable, columns: RemoteColumns | None = None) -> None:
    """One of the tables. An error says at which of them it was."""
    try:
        await create_foreign_table(running, statement, columns)
    except SqlError as error:
        error.where = error.where or f'importing foreign table "{statement.name.name}"'
        raise


def _tables_in(tables: LakeTables, server: ForeignServer, folder: str) -> Mapping[str, Sequence[tuple[str, str]]]:
    """By the name of each table the paths, below that of the server, and formats of its files; blocks. 3F000 for a
    folder without files."""
    below = "" if folder == "." else folder.strip("/") + "/"
    root = joined(server, below.rstrip("/"))
    suffixes = [suffix for of_format in SUFFIXES.values() for suffix in of_format]
    try:
        files = tables.places.files((root,), suffixes)
    except FileTrouble as trouble:
        if trouble.kind != "missing":
            raise
        raise InvalidSchemaName(f'folder "{folder}" of foreign server "{server.name}" has no files') from trouble
    found: dict[str, dict[tuple[str, str], None]] = {}
    own: dict[str, str | None] = {}
    for file in files:
        inside = file.path.removeprefix(root.removeprefix("file://")).lstrip("/")
        first, slash, _ = inside.partition("/")
        if slash and first not in own:
            own[first] = _own_format(tables.places, f"{root}/{first}")
        if first:
            name = first if slash else without_suffix(first)
            found.setdefault(name, {})[below + first, own.get(first) or format_of(inside)] = None
    return {name: list(paths) for name, paths in found.items()}


def _own_format(places: Places, folder: str) -> str | None:
    """The format of the table in `folder`, if it says itself which files it has."""
    if places.has_folder(f"{folder}/_delta_log"):
        return "delta"
    try:
        places.files((f"{folder}/metadata/*.metadata.json",), ())
    except FileTrouble as trouble:
        if trouble.kind != "missing":
            raise
        return None
    return "iceberg"


def _only(name: str, paths: Sequence[tuple[str, str]]) -> tuple[str, str]:
    if len(paths) > 1:
        one, other = (f'"{path}" ({format})' for path, format in paths[:2])
        raise DatatypeMismatch(
            f'several things would be table "{name}": {one} and {other}',
            hint="Leave it out with EXCEPT, and create it by itself.",
        )
    return paths[0]
