"""REINDEX: the key runs of files are made anew from the files, whatever there is, and uniqueness is looked at again.

Runs are no part of the transaction: those that have been made stay when it fails, since they are right. What is known
of rows that are in no file yet is in memory alone, and made from them again and again.

Source of the rules: PostgreSQL's ExecReindex.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adapter.access.membership import is_superuser
from adapter.definitions.common.owners import require_owner
from adapter.definitions.constraints.existing_rows import NewRules, check_existing_rows
from adapter.definitions.indexes.creation import check_tablespace
from adapter.execution.guards import own_catalog, prevent_in_block
from adapter.execution.relation_names import kind_of, look_up_any, missing, require_schema
from adapter.execution.statement import Running
from adapter.queries.large_objects.tables import hidden_tables
from adapter.results import Notice
from adapter.transactions.locks import tags
from adapter.transactions.locks.modes import Mode
from planner.errors import FeatureNotSupported, InsufficientPrivilege, WrongObjectType
from planner.statements import records as st
from planner.types.system_relations import SystemRelation
from planner.types.table_indexes import constraint_of_index, indexes_of
from storage.catalog.model import Database, Index, Relation


async def reindex(running: Running, statement: st.Reindex) -> None:
    """REINDEX. Raises 42P01, 42809, 3F000, 0A000, 25001; 23505 when a unique index turns out to be none."""
    if statement.concurrently:
        prevent_in_block(running, "REINDEX CONCURRENTLY")
    elif statement.kind not in ("index", "table"):
        prevent_in_block(running, f"REINDEX {statement.kind.upper()}")
    check_tablespace(statement.tablespace)
    if statement.name is not None:
        for relation, indexes in _named(running, statement, statement.name).items():
            await _rebuild(running, relation, indexes, verbose=statement.verbose)
        return
    locks = running.transaction.locks
    mode = Mode.SHARE_UPDATE_EXCLUSIVE if statement.concurrently else Mode.SHARE
    for relation, indexes in _all_of(running, statement).items():
        # Nobody waits for longer than the rebuilding of one table.
        mark = locks.table.mark(locks.owner)
        await running.transaction.lock([(tags.relation(relation.oid), mode)])
        await _rebuild(running, relation, indexes, verbose=statement.verbose)
        locks.table.release_since(locks.owner, mark)


def _all_of(running: Running, statement: st.Reindex) -> Mapping[Relation, list[Index]]:
    """What is to be rebuilt of a schema or the database, by table."""
    catalog = own_catalog(running)
    hidden = hidden_tables(catalog)
    tables: Iterable[Relation] = (
        r for r in catalog.all() if isinstance(r, Relation) and r.kind in ("r", "m") and r.oid not in hidden
    )
    if statement.kind == "schema":
        schema = require_schema(catalog, statement.target or "")
        require_owner(running, schema)
        tables = (table for table in tables if table.schema == schema.oid)
    else:
        if statement.target != running.session.database:
            raise FeatureNotSupported("can only reindex the currently open database")
        database = catalog.get(catalog.database)
        assert isinstance(database, Database)
        require_owner(running, database)
        if statement.kind == "system":
            if statement.concurrently:
                raise FeatureNotSupported("cannot reindex system catalogs concurrently")
            tables = ()
    return {table: indexes_of(catalog, table) for table in sorted(tables, key=lambda table: table.oid)}


def _named(running: Running, statement: st.Reindex, name: st.QualifiedName) -> Mapping[Relation, list[Index]]:
    catalog = own_catalog(running)
    record = look_up_any(running, catalog, name)
    if record is None:
        raise missing(catalog, name)
    if isinstance(record, SystemRelation):
        return _of_system(running, statement, record)
    if statement.kind == "index":
        if not isinstance(record, Index):
            raise WrongObjectType(f'"{record.name}" is not an index')
        require_owner(running, record)
        table = catalog.get(record.relation)
        assert isinstance(table, Relation)
        return {table: [record]}
    if not isinstance(record, Relation) or kind_of(record) not in ("table", "materialized view"):
        raise WrongObjectType(f'"{record.name}" is not a table or materialized view')
    require_owner(running, record)
    indexes = indexes_of(catalog, record)
    if not indexes:
        rest = "that can be reindexed concurrently" if statement.concurrently else "to reindex"
        message = f'table "{record.name}" has no indexes {rest}'
        running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))
    return {record: indexes}


def _of_system(running: Running, statement: st.Reindex, relation: SystemRelation) -> Mapping[Relation, list[Index]]:
    """Nothing: system catalogs are made from the catalog when they are read, and are never out of date."""
    if statement.kind == "index":
        raise WrongObjectType(f'"{relation.name}" is not an index')
    if relation.kind == "v":
        raise WrongObjectType(f'"{relation.name}" is not a table or materialized view')
    if not is_superuser(own_catalog(running), running.session.values.identity.current):
        raise InsufficientPrivilege(f"must be owner of table {relation.name}")
    if statement.concurrently:
        raise FeatureNotSupported("cannot reindex system catalogs concurrently")
    return {}


async def _rebuild(running: Running, relation: Relation, indexes: list[Index], *, verbose: bool) -> None:
    catalog, env = own_catalog(running), running.services.env
    oids = []
    for index in indexes:
        constraint = constraint_of_index(catalog, index.oid)
        oids.append(index.oid if constraint is None else constraint.oid)
    unique = [oid for oid, index in zip(oids, indexes, strict=True) if index.unique]
    await check_existing_rows(
        running, relation.oid, NewRules(keys=unique, known=set(unique).intersection(relation.constraints))
    )
    if relation.shard is not None and not running.transaction.is_own_table(relation):
        # Files of the latest commits are known to their shard once they have been copied there.
        await env.applier.apply_all()
        await env.maintenance.indexer.rebuild(relation.shard, frozenset(oids))
    for index in indexes if verbose else ():
        message = f'index "{index.name}" was reindexed'
        running.session.notice(Notice(severity="INFO", sqlstate="00000", message=message))
