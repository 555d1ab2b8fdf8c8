"""DDL: propose catalog updates, and be done. Nothing is commanded; controllers follow the catalog.

A statement reads the transaction's catalog, works out updates, and adds them to the transaction, whose later
statements see them at once. Data that a statement writes (CREATE TABLE AS, a rewritten table) goes into the same
storage transaction, so that one compare-and-set commits both. A concurrent change of what the statement relied on
makes the commit fail with 40001, or, outside a block, runs the statement again against the new catalog.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from adapter.definitions import alter as ddl_alter
from adapter.definitions import drop as ddl_drop
from adapter.definitions import objects as ddl_objects
from adapter.definitions import rename as ddl_rename
from adapter.definitions import tables as ddl_tables
from adapter.definitions.tables import create_table_as
from adapter.execution.guards import check_writable, prevent_in_block
from adapter.execution.relation_names import find_relation
from adapter.execution.statement import Running
from adapter.results import Command
from planner.errors import FeatureNotSupported, SqlSyntaxError
from planner.statements import records as st

__all__ = ["create_table_as", "find_relation", "run_ddl"]

_Handler = Callable[[Running, Any], Awaitable[None]]

_HANDLERS: dict[type, _Handler] = {
    st.CreateTable: ddl_tables.create_table,
    st.CreateView: ddl_tables.create_view,
    st.Truncate: ddl_tables.truncate,
    st.AlterTable: ddl_alter.alter_table,
    st.RenameColumn: ddl_rename.rename_column,
    st.RenameRelation: ddl_rename.rename_relation,
    st.SetSchema: ddl_rename.set_schema,
    st.Drop: ddl_drop.drop,
    st.CreateSchema: ddl_objects.create_schema,
    st.RenameObject: ddl_objects.rename_object,
    st.AlterOwner: ddl_objects.alter_owner,
    st.Comment: ddl_objects.comment,
    st.CreateSequence: ddl_objects.create_sequence,
    st.AlterSequence: ddl_objects.alter_sequence,
    st.CreateIndex: ddl_objects.create_index,
    st.CreateRole: ddl_objects.create_role,
    st.AlterRole: ddl_objects.alter_role,
    st.DropRole: ddl_objects.drop_role,
    st.CreateDatabase: ddl_objects.create_database,
    st.DropDatabase: ddl_objects.drop_database,
    st.AlterSetting: ddl_objects.alter_setting,
}

_OUTSIDE_BLOCKS: dict[type, str] = {st.CreateDatabase: "CREATE DATABASE", st.DropDatabase: "DROP DATABASE"}

_UNSUPPORTED: dict[type, str] = {
    st.RefreshMaterializedView: "REFRESH MATERIALIZED VIEW",
    st.Grant: "GRANT",
    st.GrantRole: "GRANT of roles",
    st.AlterDefaultPrivileges: "ALTER DEFAULT PRIVILEGES",
    st.AlterSystem: "ALTER SYSTEM",
    st.Cluster: "CLUSTER",
    st.Reindex: "REINDEX",
    st.Do: "DO",
    st.Call: "CALL",
}


async def run_ddl(running: Running, statement: object, tag: str) -> Command:
    """Carry out a statement that changes definitions. 0A000 for what is not supported."""
    handler = _HANDLERS.get(type(statement))
    if handler is None:
        what = _UNSUPPORTED.get(type(statement))
        if what is None:
            raise SqlSyntaxError(f"unexpected statement {type(statement).__name__}")
        raise FeatureNotSupported(f"{what} is not supported")
    check_writable(running, tag)
    if type(statement) in _OUTSIDE_BLOCKS:
        prevent_in_block(running, _OUTSIDE_BLOCKS[type(statement)])
    await running.services.provide_oids()
    await handler(running, statement)
    return Command(tag=tag)
