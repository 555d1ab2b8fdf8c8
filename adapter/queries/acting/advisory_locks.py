"""pg_advisory_lock and its family: locks that mean what applications agree on.

A key is a bigint, or two integers; the two kinds do not meet. Locks of the session last until they are unlocked as
often as they were taken, or until it ends, whatever becomes of its transactions; those of a transaction (``xact``) end
with it (PostgreSQL, "Advisory Lock Functions"). They hold in all servers of the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from adapter.execution.statement import Running
from adapter.transactions.locks import tags
from adapter.transactions.locks.modes import Mode
from adapter.transactions.locks.tags import Tag

_UINT4 = 0xFFFFFFFF


def _tag(running: Running, keys: tuple[int, ...]) -> Tag:
    database = running.session.locks.owner.database_oid
    if len(keys) == 1:
        return tags.advisory(database, keys[0] >> 32 & _UINT4, keys[0] & _UINT4, 1)
    return tags.advisory(database, keys[0] & _UINT4, keys[1] & _UINT4, 2)


async def _take(running: Running, mode: Mode, tag: Tag, *, for_session: bool, wait: bool) -> bool:
    """Take a lock in this process, then against the other servers; whether it is had. Raises what waiting raises."""
    locks, servers = running.session.locks, running.services.between_servers
    owner, had = locks.owner, False
    mark = locks.table.mark(owner)
    try:
        with servers.asking(owner, tag, mode):
            if wait:
                await locks.lock(tag, mode, for_session=for_session)
            elif not locks.try_lock(tag, mode, for_session=for_session):
                return False
            try:
                had = await servers.take(owner, tag, mode, locks.patience(), wait=wait)
            finally:
                if not had and for_session:
                    locks.unlock(tag, mode)
                elif not had:
                    locks.table.release_since(owner, mark)
    finally:
        locks.table.forget_mark(owner, mark)
    return had


async def _lock(mode: Mode, for_session: bool, running: Running, *keys: int) -> str:
    await _take(running, mode, _tag(running, keys), for_session=for_session, wait=True)
    return ""


async def _try_lock(mode: Mode, for_session: bool, running: Running, *keys: int) -> bool:
    return await _take(running, mode, _tag(running, keys), for_session=for_session, wait=False)


async def _unlock(mode: Mode, running: Running, *keys: int) -> bool:
    tag = _tag(running, keys)
    if running.session.locks.unlock(tag, mode):
        await running.services.between_servers.told([tag])
        return True
    running.session.warn("01000", f"you don't own a lock of type {mode.lock_name}")
    return False


async def _unlock_all(running: Running) -> str:
    tags_had = [lock.tag for lock, _ in running.session.locks.owner.session_level]
    running.session.locks.unlock_all()
    await running.services.between_servers.told(tags_had)
    return ""


def _family(suffix: str, mode: Mode) -> Mapping[str, Callable[..., Any]]:
    return {
        f"pg_advisory_lock{suffix}": partial(_lock, mode, True),
        f"pg_advisory_xact_lock{suffix}": partial(_lock, mode, False),
        f"pg_try_advisory_lock{suffix}": partial(_try_lock, mode, True),
        f"pg_try_advisory_xact_lock{suffix}": partial(_try_lock, mode, False),
        f"pg_advisory_unlock{suffix}": partial(_unlock, mode),
    }


ADVISORY_LOCKS: Mapping[str, Callable[..., Any]] = {
    **_family("", Mode.EXCLUSIVE),
    **_family("_shared", Mode.SHARE),
    "pg_advisory_unlock_all": _unlock_all,
}
"""By function: what carries it out."""
