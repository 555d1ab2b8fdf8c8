"""CREATE MATERIALIZED VIEW, and ALTER MATERIALIZED VIEW ... SET and RESET."""

from __future__ import annotations

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import (
    change,
    check_column_count,
    exists_already,
    new_oid,
    new_shard_id,
    owner_oid,
)
from adapter.definitions.common.columns import stored_columns, with_kept_fields
from adapter.definitions.common.table_options import as_reloptions, retained_of, with_options
from adapter.definitions.common.table_rows import make_shard
from adapter.definitions.materialized.options import OF_VIEWS, checked, kept
from adapter.definitions.materialized.refreshing import fill, source_plan
from adapter.execution.guards import own_catalog
from adapter.execution.relation_locks import lock_read
from adapter.execution.relation_names import creation_schema
from adapter.execution.statement import Running
from adapter.materialized.journal import JOURNAL_SCHEMA
from adapter.plans.plan_cache import Plan
from adapter.results import Command
from planner.analyze import define_query
from planner.definitions.mutability import is_reproducible
from planner.errors import FeatureNotSupported
from planner.statements import records as st
from planner.syntax.parse import Parsed
from planner.utility.tables import check_column_name
from storage.catalog.materialized import Materialized
from storage.catalog.model import Relation
from storage.catalog.temporary import is_temporary

TITLE = "CREATE MATERIALIZED VIEW"


async def create_materialized_view(running: Running, statement: st.CreateTableAs) -> Command:
    """CREATE MATERIALIZED VIEW: its rows are those of its query at the statement's snapshot. Raises 0A000 for a query
    that cannot be stored, and what making a table of it raises."""
    running.transaction.check_writable(TITLE)
    if statement.unlogged:
        raise FeatureNotSupported("materialized views cannot be unlogged")
    if _changes_rows(statement.query):
        raise FeatureNotSupported("materialized views must not use data-modifying statements in WITH")
    await running.services.provide_oids()
    catalog = own_catalog(running)
    context = running.session.bind_context(catalog)
    given = (statement.query, statement.column_names, context)
    too_many = "too many column names were specified"
    definition = (
        define_query(*given, too_many=too_many)
        if running.parsed.is_brief
        else await running.services.plans.aside(define_query, *given, too_many=too_many)
    )
    if any(map(is_temporary, definition.depends_on)):
        raise FeatureNotSupported("materialized views must not use temporary tables or views")
    schema = creation_schema(running, catalog, statement.name)
    if is_temporary(schema.oid):
        raise FeatureNotSupported("materialized views cannot be temporary")
    if exists_already(running, catalog, schema, statement.name, skip=statement.if_not_exists):
        return Command(tag=TITLE)
    check_column_count(len(definition.columns))
    for name, _ in definition.columns:
        check_column_name(name)
    options = checked(statement.options)
    refresh, interval_us = kept(options.get("refresh", "manual"))
    read = [catalog.get(oid) for oid in definition.depends_on]
    if refresh != "manual" and any(isinstance(each, Relation) and each.foreign is not None for each in read):
        raise FeatureNotSupported(
            "materialized views over foreign tables cannot be refreshed by the server",
            detail="Nobody tells the server when files change.",
        )
    await lock_read(running, definition.depends_on)
    needed = (*definition.depends_on, *definition.needs_keys)
    running.transaction.rely_on(r for oid in needed if (r := catalog.get(oid)) is not None)
    oid = new_oid(running, schema.oid)
    view = Relation(
        oid=oid,
        name=statement.name.name,
        schema=schema.oid,
        owner=owner_oid(running),
        kind="m",
        columns=stored_columns(definition.columns, definition.collations),
        shard=new_shard_id(running, oid),
        definition=definition.definition,
        depends_on=definition.depends_on,
        needs_keys=definition.needs_keys,
        materialized=Materialized(
            populated=statement.with_data,
            refresh=refresh,
            interval_us=interval_us,
            parameters=as_reloptions(options),
            journal=running.services.env.new_shard_id(),
        ),
        retain_ms=retained_of(options),
    )
    view = await with_kept_fields(running, view)
    plan = await source_plan(running, catalog, view)
    _check_reproducible(plan, view)
    change(running, added=[view])
    make_shard(running, view)
    assert view.materialized is not None
    txn = running.transaction.writable(running.services.env)
    txn.create_shard(view.materialized.journal, JOURNAL_SCHEMA)
    running.transaction.created_shards.add(view.materialized.journal)
    if not statement.with_data:
        return Command(tag=TITLE)
    rows = await fill(running, catalog, view, plan, before=None)
    return Command(tag=f"SELECT {rows}")


def _changes_rows(query: Parsed) -> bool:
    """Whether the WITH of the query has an INSERT, UPDATE, DELETE or MERGE."""
    tree = query.tree
    if query.kind != "select_stmt" or not tree.HasField("with_clause"):
        return False
    steps = [cte.common_table_expr.ctequery for cte in tree.with_clause.ctes]
    return any(step.WhichOneof("node") != "select_stmt" for step in steps)


def _check_reproducible(plan: Plan, view: Relation) -> None:
    """0A000 for a view refreshed on commit whose query does not give the same rows for the same tables for ever."""
    assert plan.query is not None
    how = view.materialized
    if how is not None and how.refresh == "on commit" and not is_reproducible(plan.query):
        raise FeatureNotSupported(
            f'materialized view "{view.name}" cannot be refreshed on commit',
            detail="Its query uses functions that are not immutable, settings, or system catalogs.",
            hint="Let it be refreshed 'every' so often instead, or manually.",
        )


async def set_options(running: Running, view: Relation, action: st.SetStorageOptions) -> None:
    """ALTER MATERIALIZED VIEW ... SET (...) and RESET (...). Raises 22023 and 0A000."""
    how = view.materialized
    assert how is not None
    if not action.options:
        return
    options = with_options(how.parameters, action.options, reset=action.reset, others=OF_VIEWS)
    refresh, interval_us = kept(options.get("refresh", "manual"))
    changed = replace(
        view,
        materialized=replace(how, refresh=refresh, interval_us=interval_us, parameters=as_reloptions(options)),
        retain_ms=retained_of(options),
    )
    if refresh == "on commit":
        _check_reproducible(await source_plan(running, own_catalog(running), changed), changed)
    change(running, removed=[view], added=[changed])
