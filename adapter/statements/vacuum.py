"""VACUUM and ANALYZE. The storage controller compacts by itself and statistics are always current, so there is nothing
to do; but tables are named, checked, waited for and skipped as in PostgreSQL (vacuum.c: vacuum_open_relation).
"""

from __future__ import annotations

from contextlib import nullcontext

from adapter.access.ownership import may_maintain
from adapter.execution.guards import prevent_in_block
from adapter.execution.relation_names import find_relation
from adapter.execution.statement import Running
from adapter.results import Command
from adapter.transactions.locks import tags
from adapter.transactions.locks.modes import Mode
from adapter.transactions.locks.transient import keeping_nothing
from planner.statements import records as st
from storage.catalog.model import Relation


async def run_vacuum(running: Running, statement: st.Vacuum) -> Command:
    """Take and let go of the lock of one table after the other. With SKIP_LOCKED a table that others keep locked is
    left out with a warning, as is one that has gone when its lock is there. Raises 42P01 for a name of nothing, 25001
    for VACUUM in a block, and what waiting for a lock raises."""
    if not statement.analyze_only:
        prevent_in_block(running, "VACUUM")
    session, catalog = running.session, running.transaction.catalog
    verb = "analyze" if statement.analyze_only else "vacuum"
    options = dict(statement.options)
    skips = _is_on(options.get("skip_locked"))
    mode = Mode.ACCESS_EXCLUSIVE if _is_on(options.get("full")) else Mode.SHARE_UPDATE_EXCLUSIVE
    wanted: list[Relation] = []
    for name in statement.tables:
        relation = find_relation(running, catalog, name)
        if not may_maintain(catalog, session.values.identity.current, relation):
            session.warn("01000", f'skipping "{relation.name}" --- only table or database owner can {verb} it')
        elif relation.kind == "v":
            message = f'skipping "{relation.name}" --- cannot {verb} non-tables or special system tables'
            session.warn("01000", message)
        else:
            wanted.append(relation)
    for relation in wanted:
        tag = tags.relation(relation.oid)
        with nullcontext() if running.in_block else keeping_nothing(session.locks):
            if skips and not session.locks.try_lock(tag, mode):
                session.warn("55P03", f'skipping {verb} of "{relation.name}" --- lock not available')
                continue
            if not skips:
                await session.locks.lock(tag, mode)
            is_own = running.transaction.is_own_table(relation)
            if not is_own and session.newest_catalog().get(relation.oid) is None:
                session.warn("42P01", f'skipping {verb} of "{relation.name}" --- relation no longer exists')
    return Command(tag="ANALYZE" if statement.analyze_only else "VACUUM")


def _is_on(option: str | None) -> bool:
    """Whether an option is given, and not as false (defGetBoolean)."""
    return option is not None and option.lower() not in ("false", "off", "0")
