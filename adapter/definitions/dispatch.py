"""DDL: which function carries out which definition, and how all of them work.

A definition reads the transaction's catalog, works out updates, and adds them to the transaction, whose later
statements see them at once. That is all: what else follows from the catalog follows when it has changed. Data that a
statement writes (CREATE TABLE AS, a rewritten table) goes into the same storage transaction, so that one
compare-and-set commits both. A concurrent change of what the statement relied on makes the commit fail with 40001, or,
outside a block, runs the statement again against the new catalog.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import copy
from functools import partial
from typing import Any

from msgspec.structs import replace

from adapter.definitions import alter, copies, drop, objects, owned, rename, sequences, tables
from adapter.definitions.databases import changes as databases
from adapter.definitions.extensions import changes as extensions
from adapter.definitions.foreign import importing, servers
from adapter.definitions.foreign import tables as foreign_tables
from adapter.definitions.indexes import creation, marks, rebuilding
from adapter.definitions.large_objects import grants as large_object_grants
from adapter.definitions.materialized import refreshing
from adapter.definitions.policies import changes as policies
from adapter.definitions.privileges import grants
from adapter.definitions.roles import attributes, memberships, stored_settings
from adapter.definitions.routines import alteration
from adapter.definitions.routines import creation as routines
from adapter.definitions.statistics import changes as statistics
from adapter.definitions.types import changes, composites, domains, enums, ranges
from adapter.execution.guards import own_catalog, prevent_in_block
from adapter.execution.statement import Running
from adapter.plans.plan_cache import Plan, make_plan
from adapter.results import Command
from planner.command_tags import command_tag
from planner.errors import FeatureNotSupported, InvalidSchemaDefinition, SqlSyntaxError
from planner.statements import foreign as ft
from planner.statements import records as st
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import Parsed, split_and_parse
from planner.syntax.qualified_names import QualifiedName

_Handler = Callable[[Running, Any], Awaitable[None]]

_HANDLERS: dict[type, _Handler] = {
    st.CreateTable: tables.create_table,
    st.CloneTable: copies.clone_table,
    st.UndropTable: copies.undrop_table,
    st.CreateView: tables.create_view,
    st.Truncate: tables.truncate,
    st.RefreshMaterializedView: refreshing.refresh,
    st.AlterTable: alter.alter_table,
    st.RenameColumn: rename.rename_column,
    st.RenameRelation: rename.rename_relation,
    st.SetSchema: rename.set_schema,
    st.Drop: drop.drop,
    st.CreateSchema: objects.create_schema,
    st.RenameObject: objects.rename_object,
    st.SetSchemaOptions: objects.set_schema_options,
    st.AlterOwner: objects.alter_owner,
    st.Comment: objects.comment,
    st.CreateSequence: sequences.create_sequence,
    st.AlterSequence: sequences.alter_sequence,
    st.CreateComposite: composites.create_composite,
    st.CreateEnum: enums.create_enum,
    st.CreateRange: ranges.create_range,
    st.AddEnumValue: enums.add_value,
    st.RenameEnumValue: enums.rename_value,
    st.ChangeTypeOwner: changes.change_owner,
    st.CreateDomain: domains.create_domain,
    st.SetDomainDefault: domains.set_default,
    st.SetDomainNotNull: domains.set_not_null,
    st.AddDomainCheck: domains.add_check,
    st.ValidateDomainCheck: domains.validate_check,
    st.DropDomainCheck: domains.drop_check,
    st.CreateRoutine: routines.create_routine,
    st.AlterRoutine: alteration.alter_routine,
    st.CreateIndex: creation.create_index,
    st.Cluster: marks.cluster,
    st.Reindex: rebuilding.reindex,
    st.CreateRole: attributes.create_role,
    st.AlterRole: attributes.alter_role,
    st.AlterGroup: memberships.alter_group,
    st.GrantRole: memberships.grant_role,
    st.DropRole: owned.drop_role,
    st.CreateStatistics: statistics.create_statistics,
    st.AlterStatistics: statistics.alter_statistics,
    st.CreatePolicy: policies.create_policy,
    st.AlterPolicy: policies.alter_policy,
    st.ReassignOwned: owned.reassign_owned,
    st.DropOwned: owned.drop_owned,
    st.CreateDatabase: databases.create_database,
    st.AlterDatabase: databases.alter_database,
    st.RefreshCollation: databases.refresh_collation,
    st.AlterExtension: extensions.alter,
    st.DropDatabase: databases.drop_database,
    st.AlterSetting: stored_settings.alter_setting,
    st.AlterSystem: stored_settings.alter_system,
    st.Grant: large_object_grants.grant,
    st.AlterDefaultPrivileges: grants.alter_default_privileges,
    ft.CreateServer: servers.create_server,
    ft.AlterServer: servers.alter_server,
    ft.CreateUserMapping: servers.create_mapping,
    ft.AlterUserMapping: servers.alter_mapping,
    ft.DropUserMapping: servers.drop_mapping,
    ft.CreateForeignTable: foreign_tables.create_foreign_table,
    ft.ImportForeignSchema: partial(importing.import_foreign_schema, create_view=tables.create_view),
}

_OUTSIDE_BLOCKS: dict[type, str] = {
    st.CreateDatabase: "CREATE DATABASE",
    st.DropDatabase: "DROP DATABASE",
    st.AlterSystem: "ALTER SYSTEM",
}

_UNSUPPORTED: dict[type, str] = {
    st.Do: "DO",
}


async def run_definition(running: Running, statement: object, tag: str) -> Command:
    """Carry out a statement that changes definitions. 0A000 for what is not supported."""
    if isinstance(statement, st.CreateTableAs):
        return await tables.create_table_as(running, statement)
    handler = _HANDLERS.get(type(statement))
    if isinstance(statement, st.CreateExtension):
        handler = _create_extension
    if handler is None:
        what = _UNSUPPORTED.get(type(statement))
        if what is None:
            raise SqlSyntaxError(f"unexpected statement {type(statement).__name__}")
        raise FeatureNotSupported(f"{what} is not supported")
    if not isinstance(statement, st.AlterSystem):
        # What it changes is no data of a database: PostgreSQL takes it for one that only reads.
        running.transaction.check_writable(tag)
    if type(statement) in _OUTSIDE_BLOCKS:
        prevent_in_block(running, _OUTSIDE_BLOCKS[type(statement)])
    await running.services.provide_oids()
    await handler(running, statement)
    if isinstance(statement, st.CreateSchema) and statement.elements:
        await _make_elements(running, statement)
    return Command(tag=tag)


async def _create_extension(running: Running, statement: st.CreateExtension) -> None:
    """CREATE EXTENSION: its types, and its functions, which its script makes, in the extension's schema. Raises what
    `begin` and `make_types` raise."""
    begun = extensions.begin(running, statement)
    if begun is None:
        return
    known, schema = begun
    before = own_catalog(running).records
    extensions.make_types(running, known, schema)
    parsed = split_and_parse(known.script) if known.has_script else ()
    with extensions.as_first_superuser(running):
        await _carry_out(running, schema.name, parsed)
    extensions.make_natives(running, known, schema)
    extensions.finish(running, known, schema, before)


_ELEMENTS: Mapping[str, int] = {
    "create_seq_stmt": 0,
    "create_stmt": 1,
    "view_stmt": 2,
    "index_stmt": 3,
    "create_trig_stmt": 4,
    "grant_stmt": 5,
}
"""The statements that may stand in CREATE SCHEMA, and when each is carried out: what others refer to comes first
(PostgreSQL's transformCreateSchemaStmtElements)."""


async def _make_elements(running: Running, schema: st.CreateSchema) -> None:
    """Carry out the statements inside CREATE SCHEMA, with the new schema first in the search path.

    Raises what they raise, and 42P15 for one that names another schema."""
    name = objects.name_of_schema(running, schema)
    await _carry_out(running, name, sorted(schema.elements, key=lambda element: _ELEMENTS[element.kind]))


async def _carry_out(running: Running, schema: str, elements: Iterable[Parsed]) -> None:
    """Carry out definitions with `schema` first in the search path, all of which are planned before the first."""
    session = running.session
    values = session.values
    path = f"{quote_identifier(schema)}, {values['search_path']}"
    session.values = values.with_local("search_path", path)
    try:
        made = []
        for element in elements:
            context = session.bind_context(own_catalog(running))
            made.append((element, _in_schema(make_plan(element, context, ()), schema)))
        for element, plan in made:
            await running.transaction.lock(plan.locks, begin_again=False)
            within = copy(running)
            within.parsed = element
            await run_definition(within, plan.statement, command_tag(plan.statement))
    finally:
        session.values = values


def _in_schema(plan: Plan, schema: str) -> Plan:
    statement = plan.statement
    match statement:
        case st.CreateTable() | st.CreateView() | st.CreateSequence():
            return replace(plan, statement=replace(statement, name=_qualified(statement.name, schema)))
        case st.CreateIndex():
            return replace(plan, statement=replace(statement, table=_qualified(statement.table, schema)))
        case _:
            return plan


def _qualified(name: QualifiedName, schema: str) -> QualifiedName:
    if name.schema not in (None, schema):
        raise InvalidSchemaDefinition(
            f"CREATE specifies a schema ({name.schema}) different from the one being created ({schema})"
        )
    return replace(name, schema=schema)
