"""What pg_locks and pg_stat_activity show of locks.

Beside relations and advisory locks pg_locks has the rows that somebody waits for or shares, each session's own virtual
transaction, and its transaction id where one was given out. Who waits for a row waits for its ``tuple``; PostgreSQL
shows the transaction that has it. A prepared transaction has no process, and its id instead of a number of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from adapter.execution.services import Services
from adapter.execution.session_registry import Backend
from adapter.transactions.locks import tags
from adapter.transactions.locks.lock import Owner
from adapter.transactions.locks.lock_table import LockTable
from adapter.transactions.locks.modes import Mode, modes_of
from adapter.transactions.locks.servers.between_servers import BetweenServers
from adapter.transactions.locks.tags import Tag

WAIT_EVENTS: Mapping[str, str] = {
    "relation": "relation", "tuple": "tuple", "rows": "tuple", "advisory": "advisory", "name": "object"
}  # fmt: skip
"""By kind of lock: pg_stat_activity.wait_event (PostgreSQL, "Wait Events of Type Lock")."""


BLOCKED = "blocked"
"""What each server is asked for, of its sessions that wait for others of it, in place of a relation's name."""


def lock_rows(table: LockTable, servers: BetweenServers, backends: Iterable[Backend]) -> list[Mapping[str, Any]]:
    """The rows of pg_locks. Who waits for a lock that another server has has it in this process."""
    rows: list[Mapping[str, Any]] = []
    for backend in backends:
        owner, transaction = backend.state.locks.owner, backend.state.transaction
        if transaction is None:
            continue
        own = _row(owner, Mode.EXCLUSIVE, granted=True)
        rows.append({**own, "locktype": "virtualxid", "virtualxid": _virtual(owner)})
        if transaction.id is not None:
            rows.append({**own, "locktype": "transactionid", "transactionid": transaction.id & 0xFFFFFFFF})
    prepared = {owner: None for _, owner, _ in table.held() if not owner.pid}
    rows += [
        {**_row(owner, Mode.EXCLUSIVE, granted=True), "locktype": "transactionid", "transactionid": owner.transactions}
        for owner in prepared
    ]
    for lock, owner, held in table.held():
        for mode in modes_of(held):
            granted = not servers.is_awaited(owner, lock.tag, mode)
            rows.append({**_row(owner, mode, granted=granted), **_named(lock.tag, owner)})
    for request in table.waiting():
        row = _row(request.owner, request.mode, granted=False)
        since = datetime.fromtimestamp(request.since_ms / 1000, UTC)
        rows.append({**row, **_named(request.lock.tag, request.owner), "waitstart": since})
    if table.between_workers is not None:
        for owner, waiting in table.between_workers.row_waits.items():
            rows.append({**_row(owner, Mode(waiting.mode), granted=False), **_named(waiting.tag, owner)})
    return rows


def wait_event(owner: Owner, services: Services) -> str | None:
    """The kind of lock that a session waits for, as pg_stat_activity names it; None when it waits for none."""
    if owner.waiting is not None:
        return WAIT_EVENTS[owner.waiting.lock.tag.kind]
    between = services.locks.between_workers
    if between is not None and owner in between.row_waits:
        return "tuple"
    return "advisory" if services.between_servers.awaits(owner) else None


async def blocked_rows(services: Services) -> list[Mapping[str, Any]]:
    """Which sessions wait for which at this server, as it tells others: the rows of `BLOCKED`."""
    locks = services.locks
    found = {request.owner.pid: locks.blocking(request.owner.pid) for request in locks.waiting()}
    if locks.between_workers is not None:
        for pid, (_, blockers) in (await locks.between_workers.edges()).items():
            found[pid] = [*found.get(pid, ()), *blockers]
    return [{"pid": pid, "blockers": blockers} for pid, blockers in found.items()]


async def blocked_elsewhere(services: Services) -> Mapping[int, Sequence[int]]:
    """By the pid of each session that waits: for whom, as far as more than this process is needed to know that."""
    rows = await services.colleagues.rows(BLOCKED, of_workers=False)
    if services.locks.between_workers is not None:
        rows = [*rows, *await blocked_rows(services)]
    # A server of an earlier version answers something else.
    told = [(row["pid"], row["blockers"]) for row in rows if "blockers" in row]
    found: dict[int, dict[int, None]] = {}
    for pid, blockers in (*told, *(await services.between_servers.blocked()).items()):
        found.setdefault(pid, {}).update(dict.fromkeys(blockers))
    return {pid: tuple(blockers) for pid, blockers in found.items()}


def _virtual(owner: Owner) -> str:
    if not owner.pid:
        return f"-1/{owner.transactions}"
    return f"{owner.pid}/{owner.transactions + 1}"


def _row(owner: Owner, mode: Mode, *, granted: bool) -> Mapping[str, Any]:
    return {
        "virtualtransaction": _virtual(owner),
        "pid": owner.pid or None,
        "mode": mode.lock_name,
        "granted": granted,
        "fastpath": False,
    }


def _named(tag: Tag, owner: Owner) -> Mapping[str, Any]:
    match tag:
        case Tag("advisory", database, (class_id, object_id, sub_id)):
            return {
                "locktype": "advisory",
                "database": database,
                "classid": class_id,
                "objid": object_id,
                "objsubid": sub_id,
            }
        case Tag("name", database, (schema_oid, hashed, _)):
            return {"locktype": "object", "database": database, "classid": schema_oid, "objid": hashed, "objsubid": 0}
        case Tag("tuple", relation_oid, int(row_id)):
            page, number = tags.place(row_id)
            named = {"locktype": "tuple", "relation": relation_oid, "page": page, "tuple": number}
            return {**named, "database": owner.database_oid}
        case _:
            kind = "relation" if tag.kind in ("relation", "rows") else "object"
            return {"locktype": kind, "database": owner.database_oid, "relation": tag.space}
