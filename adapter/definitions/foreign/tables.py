"""CREATE and ALTER FOREIGN TABLE."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import (
    change,
    check_column_count,
    exists_already,
    new_oid,
    owner_oid,
    require_column,
    with_column,
)
from adapter.definitions.common.columns import collation_of, column_of_type, retyped, with_kept_fields
from adapter.definitions.foreign.options import altered, checked_names
from adapter.definitions.foreign.servers import require_server
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import creation_schema
from adapter.execution.statement import Running
from adapter.lake import databases
from adapter.lake.foreign_files import COLUMN_OPTIONS, TABLE_OPTIONS, check_column_options
from adapter.results import Notice
from planner.errors import DuplicateColumn, FeatureNotSupported, InvalidParameterValue
from planner.files.read_calls import identifier, shown_type
from planner.ir.file_rows import FileTable
from planner.statements import foreign as ft
from planner.statements import records as st
from storage.catalog.model import Column, Relation
from storage.catalog.outside import ForeignServer, ForeignTable, Options
from storage.catalog.temporary import is_temporary

RemoteColumns: TypeAlias = tuple[tuple[Column, ...], Sequence[tuple[str, Options]]]
"""Columns, and the options of those that are called otherwise in the other database."""


async def create_foreign_table(
    running: Running, statement: ft.CreateForeignTable, known: RemoteColumns | None = None
) -> None:
    """CREATE FOREIGN TABLE. Without columns it has those of the files, or of the other database; `known` are those that
    it has been asked for."""
    catalog = own_catalog(running)
    schema = creation_schema(running, catalog, statement.name, located=True)
    if is_temporary(schema.oid):
        raise FeatureNotSupported("foreign tables cannot be temporary")
    if exists_already(running, catalog, schema, statement.name, skip=statement.if_not_exists):
        return
    server = require_server(catalog, statement.server)
    running.session.rights(catalog).require("S", server.oid, "U")
    running.transaction.rely_on([server])
    await _check_table(running, server, statement.options)
    own: Sequence[tuple[str, Options]] = statement.column_options
    if known is not None:
        columns, own = known
    elif statement.columns:
        columns = _columns(statement)
    else:
        columns, own = await _inferred(running, server, statement.options)
    check_column_count(len(columns))
    for _, of_column in own:
        check_column_options(checked_names(of_column, COLUMN_OPTIONS), statement.options)
    attnums = {column.name: column.attnum for column in columns}
    relation = Relation(
        oid=new_oid(running, schema.oid),
        name=statement.name.name,
        schema=schema.oid,
        owner=owner_oid(running),
        kind="f",
        columns=columns,
        foreign=ForeignTable(
            server=server.oid,
            options=statement.options,
            columns=tuple((attnums[name], checked_names(options, COLUMN_OPTIONS)) for name, options in own),
        ),
    )
    change(running, added=[await with_kept_fields(running, relation)])


def _columns(statement: ft.CreateForeignTable) -> tuple[Column, ...]:
    for definition in statement.columns:
        if definition.default is not None:
            raise FeatureNotSupported(f'column "{definition.name}" of a foreign table cannot have a default')
    return tuple(_column(definition, attnum) for attnum, definition in enumerate(statement.columns, 1))


def _column(definition: st.ColumnDefinition, attnum: int) -> Column:
    collation = collation_of(definition.type, definition.collation)
    return column_of_type(attnum, definition.name, definition.type, not_null=definition.not_null, collation=collation)


async def _inferred(running: Running, server: ForeignServer, options: Options) -> RemoteColumns:
    role = running.session.values.identity.current
    if databases.is_database(server):
        ((_, found_columns),) = await remote_columns(running, server, [("", options)])
        return found_columns
    work = partial(running.services.foreign_files.inferred, server, options, role)
    found = await running.services.file_threads.run(work)
    return columns_of_files(found)


def columns_of_files(found: FileTable) -> RemoteColumns:
    """The columns of a foreign table over files with those of `found`."""
    names = [(identifier(name), name) for name, _ in found.columns]
    columns = tuple(
        Column(attnum=attnum, name=name, type_oid=shown.oid, typmod=shown.typmod)
        for attnum, ((name, _), (_, type)) in enumerate(zip(names, found.columns, strict=True), 1)
        for shown in [shown_type(type)]
    )
    return columns, [(name, (("column_name", held),)) for name, held in names if name != held]


async def remote_database(running: Running, server: ForeignServer) -> databases.Database:
    """The database of `server`. Raises what `check_access` and `database_of` raise."""
    role = running.session.values.identity.current
    database = await running.services.file_threads.run(partial(running.services.foreign_files.database, server, role))
    databases.check_access(database, superuser=running.session.rights(own_catalog(running)).is_superuser)
    return database


async def remote_columns(
    running: Running, server: ForeignServer, tables: Sequence[tuple[str, Options]]
) -> list[tuple[str, RemoteColumns]]:
    """The columns that tables of another database have there, by names. What there is no type for here is text.
    Raises what the other database raises, and 55000 without Spark."""
    from adapter.engines.spark.databases.jdbc import columns_of

    database = await remote_database(running, server)
    sources = [databases.remote_source(database.kind, options) for _, options in tables]
    found = await running.engines.spark().ask(lambda jvm: columns_of(jvm, database, sources))
    return [
        (
            name,
            (
                tuple(
                    column_of_type(attnum, column.name, databases.local_type(column.type), not_null=column.not_null)
                    for attnum, column in enumerate(columns, 1)
                ),
                [(column.name, (("column_name", column.label),)) for column in columns if column.name != column.label],
            ),
        )
        for (name, _), columns in zip(tables, found, strict=True)
    ]


async def _check_table(running: Running, server: ForeignServer, options: Options) -> None:
    """HV00D, 22023, 42501 for options that a table of the server cannot have."""
    if databases.is_database(server):
        checked_names(options, databases.TABLE_OPTIONS)
        databases.check_table(options)
        return
    checked_names(options, TABLE_OPTIONS)
    if not {"path", "table"} & dict(options).keys():
        raise InvalidParameterValue(
            'option "path" is required for foreign tables',
            hint="It names files below the path of the server: a file, a folder or a pattern; or table a table of its "
            "catalog.",
        )
    role = running.session.values.identity.current
    work = partial(running.services.foreign_files.check_table, server, options, role)
    await running.services.file_threads.run(work)


def check_foreign_action(relation: Relation, action: st.AlterTableAction) -> None:
    """Raises 0A000 for what ALTER FOREIGN TABLE cannot do, whatever the table has."""
    match action:
        case st.AddColumn(constraints=constraints, column=column):
            if constraints or column.default or column.generation or column.serial or column.identity:
                raise FeatureNotSupported(
                    f'column "{column.name}" of foreign table "{relation.name}" can have neither values of its own nor '
                    "constraints"
                )
        case st.SetColumnType(using=using) if using is not None:
            raise FeatureNotSupported("ALTER COLUMN ... USING of foreign tables is not supported")
        case _:
            pass


async def alter_foreign_table(running: Running, relation: Relation, action: st.AlterTableAction) -> None:
    """Carry out an action of ALTER FOREIGN TABLE that is about its columns or its options."""
    match action:
        case st.AddColumn(column=definition):
            if relation.column(definition.name) is None:
                check_column_count(len(relation.columns) + 1)
                column = _column(definition, len(relation.columns) + 1)
                changed = await with_kept_fields(running, replace(relation, columns=(*relation.columns, column)))
                change(running, removed=[relation], added=[changed])
                return
            message = f'column "{definition.name}" of relation "{relation.name}" already exists'
            if not action.if_not_exists:
                raise DuplicateColumn(message)
            running.session.notice(Notice(severity="NOTICE", sqlstate="42701", message=f"{message}, skipping"))
        case st.SetColumnType():
            if any(relation.oid in r.depends_on for r in own_catalog(running).all() if isinstance(r, Relation)):
                raise FeatureNotSupported("cannot alter type of a column used by a view or rule")
            collation = collation_of(action.type, action.collation)
            typed = retyped(require_column(relation, action.name), action.type, collation=collation)
            changed = await with_kept_fields(running, with_column(relation, typed))
            change(running, removed=[relation], added=[changed])
        case st.SetNotNull():
            column = replace(require_column(relation, action.name), not_null=action.not_null)
            change(running, removed=[relation], added=[with_column(relation, column)])
        case ft.SetForeignOptions():
            await _set_options(running, relation, action)


async def _set_options(running: Running, relation: Relation, action: ft.SetForeignOptions) -> None:
    foreign = relation.foreign
    assert foreign is not None
    if action.column is not None:
        attnum = require_column(relation, action.column).attnum
        options = checked_names(altered(foreign.column_options(attnum), action.changes), COLUMN_OPTIONS)
        check_column_options(options, foreign.options)
        others = tuple(pair for pair in foreign.columns if pair[0] != attnum)
        changed = replace(foreign, columns=tuple(sorted((*others, (attnum, options)))))
    else:
        server = own_catalog(running).get(foreign.server)
        assert isinstance(server, ForeignServer)
        changed = replace(foreign, options=altered(foreign.options, action.changes))
        running.session.rights(own_catalog(running)).require("S", server.oid, "U")
        await _check_table(running, server, changed.options)
    change(running, removed=[relation], added=[replace(relation, foreign=changed)])
