"""VACUUM and ANALYZE. The storage controller compacts by itself, so that VACUUM has nothing to do; with FULL it writes
the files of large tables anew, as their layout wants them. ANALYZE finds out what pg_stats shows. Tables are named,
checked, waited for and skipped as in PostgreSQL (vacuum.c: vacuum_open_relation).
"""

from __future__ import annotations

from contextlib import nullcontext

from adapter.access.membership import is_superuser
from adapter.access.ownership import may_maintain, owns_database
from adapter.execution.guards import prevent_in_block
from adapter.execution.relation_names import find_relation, look_up_any
from adapter.execution.statement import Running
from adapter.queries.large_objects.tables import hidden_tables
from adapter.results import Command
from adapter.statements.maintenance.analyze import gather
from adapter.system_catalogs.pg_catalog.catalog_views import shared_catalogs
from adapter.transactions.locks import tags
from adapter.transactions.locks.modes import Mode
from adapter.transactions.locks.transient import keeping_nothing
from adapter.wall_clock import utc_now
from planner.errors import DuplicateColumn, UndefinedColumn
from planner.statements import records as st
from planner.types.system_relations import SystemRelation
from storage.catalog.model import CatalogSnapshot, Relation
from storage.catalog.temporary import FIRST_TEMPORARY_OID


async def run_vacuum(running: Running, statement: st.Vacuum) -> Command:
    """Take and let go of the lock of one table after the other. With SKIP_LOCKED a table that others keep locked is
    left out with a warning, as is one that has gone when its lock is there. Raises 42P01 for a name of nothing, 25001
    for VACUUM in a block, 0A000, 42703 and 42701 for columns, and what waiting for a lock raises."""
    if not statement.analyze_only:
        prevent_in_block(running, "VACUUM")
    session, catalog = running.session, running.transaction.catalog
    verb = "analyze" if statement.analyze_only else "vacuum"
    skips = "skip_locked" in statement.options
    is_full, patience_s = "full" in statement.options, None
    analyzes = statement.analyze_only or "analyze" in statement.options
    # Others read and write while files are written anew; only definitions wait.
    mode = Mode.SHARE_UPDATE_EXCLUSIVE
    wanted: list[tuple[Relation | SystemRelation, tuple[str, ...]]] = []
    for name, columns in zip(statement.tables, statement.columns, strict=True):
        relation = look_up_any(running, catalog, name)
        if not isinstance(relation, SystemRelation):
            relation = find_relation(running, catalog, name)
        owner = _who_may(catalog, session.values.identity.current, relation)
        if owner is not None:
            session.warn("01000", f'skipping "{relation.name}" --- only {owner} can {verb} it')
        elif relation.kind == "v":
            message = f'skipping "{relation.name}" --- cannot {verb} non-tables or special system tables'
            session.warn("01000", message)
        else:
            wanted.append((relation, columns))
    if not statement.tables and (analyzes or is_full):
        role = session.values.identity.current
        hidden = hidden_tables(catalog)
        tables = [r for r in catalog.all() if isinstance(r, Relation) and r.kind in "rm" and r.oid not in hidden]
        wanted += [(table, ()) for table in sorted(tables, key=_oid) if may_maintain(catalog, role, table)]
    for relation, columns in wanted:
        tag = tags.relation(relation.oid)
        with nullcontext() if running.in_block else keeping_nothing(session.locks):
            if skips and not session.locks.try_lock(tag, mode):
                session.warn("55P03", f'skipping {verb} of "{relation.name}" --- lock not available')
                continue
            if not skips:
                await session.locks.lock(tag, mode)
            may_be_gone = isinstance(relation, Relation) and not running.transaction.is_own_table(relation)
            if may_be_gone and session.newest_catalog().get(relation.oid) is None:
                session.warn("42P01", f'skipping {verb} of "{relation.name}" --- relation no longer exists')
                continue
            _check_columns(relation, columns)
            if not isinstance(relation, Relation):
                continue
            if analyzes:
                await gather(running, relation, columns)
            if is_full and relation.oid < FIRST_TEMPORARY_OID:
                # What it needs of definitions is not loaded at the start.
                from adapter.statements.maintenance.rewriting import PATIENCE_S, rewrite

                patience_s = await rewrite(running, relation, PATIENCE_S if patience_s is None else patience_s)
            if relation.oid < FIRST_TEMPORARY_OID:
                activity, database, now = running.services.activity, session.database_oid, utc_now()
                if not statement.analyze_only:
                    activity.vacuumed(database, relation.oid, now)
                if analyzes:
                    activity.analyzed(database, relation.oid, now)
    return Command(tag="ANALYZE" if statement.analyze_only else "VACUUM")


def _oid(record: Relation) -> int:
    return record.oid


def _who_may(catalog: CatalogSnapshot, role: int, relation: Relation | SystemRelation) -> str | None:
    """Who may do it, where the role may not."""
    if isinstance(relation, Relation):
        return None if may_maintain(catalog, role, relation) else "table or database owner"
    if is_superuser(catalog, role):
        return None
    if relation.oid in shared_catalogs():
        return "superuser"
    if owns_database(catalog, role):
        return None
    return f"{'superuser' if relation.schema == 'pg_catalog' else 'table'} or database owner"


def _check_columns(relation: Relation | SystemRelation, names: tuple[str, ...]) -> None:
    known = (
        {column.name for column in relation.live_columns()}
        if isinstance(relation, Relation)
        else {name for name, _ in relation.columns}
    )
    for index, name in enumerate(names):
        if name not in known:
            raise UndefinedColumn(f'column "{name}" of relation "{relation.name}" does not exist')
        if name in names[:index]:
            raise DuplicateColumn(f'column "{name}" of relation "{relation.name}" appears more than once')
