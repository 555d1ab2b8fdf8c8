"""Servers with a mistake in them that the audit must find: ``MISTAKE=... python -m tests.faults.audit.mutants serve``.

A mistake is put into the running code before the command line begins, as a person would make it in one line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

VARIABLE = "MISTAKE"


def replaced(owner: Any, name: str, value: Any) -> None:
    """Let `owner` have `value` in the place of what it calls `name`. AttributeError when it has nothing of the kind."""
    getattr(owner, name)
    setattr(owner, name, value)


def no_check_inside_the_group() -> None:
    """A commit is not held against the others of its group."""
    from adapter.transactions import group_changes, group_commit, validation

    real = validation.conflict

    async def conflict(env: Any, catalog: Any, request: Any, until: Any, accepted: Any) -> Any:
        return await real(env, catalog, request, until, group_changes.Accepted())

    replaced(group_commit, "conflict", conflict)


def no_check_across_servers() -> None:
    """The compare-and-set does not ask what other servers have written since the validation."""
    from storage.transactions.txns_shard import TxnsShard

    real = TxnsShard.commit_at

    async def commit(self: TxnsShard, *args: Any, **kwargs: Any) -> Any:
        return await real(self, *args, **{**kwargs, "validated": None})

    replaced(TxnsShard, "commit_at", commit)


def stale_filter() -> None:
    """The filter of a key run lacks one key in a hundred."""
    from storage.shards.indexes import filters

    real = filters.build
    replaced(filters, "build", lambda hashes: real(hashes[np.arange(len(hashes)) % 100 != 99]))


def key_lock_forgotten() -> None:
    """Who writes a unique key does not lock it."""
    from adapter.changes import on_conflict
    from adapter.changes.constraints import key_checks

    async def nothing(*_: Any) -> None:
        return None

    replaced(on_conflict, "lock_keys", nothing)
    replaced(key_checks, "lock_keys", nothing)


def row_lock_forgotten() -> None:
    """UPDATE, DELETE and FOR UPDATE do not lock their rows."""
    from adapter.transactions.locks.lock_table import SessionLocks

    async def lock_rows(self: SessionLocks, *_: Any, **__: Any) -> bool:
        return False

    replaced(SessionLocks, "lock_rows", lock_rows)


def skips_no_lock() -> None:
    """SKIP LOCKED takes rows that others have locked."""
    from adapter.transactions.locks.lock_table import SessionLocks

    async def try_rows(self: SessionLocks, relation_oid: int, row_ids: Any, mode: Any, **_: Any) -> Any:
        return row_ids[:0]

    replaced(SessionLocks, "try_rows", try_rows)


def advisory_lock_forgotten() -> None:
    """An advisory lock is had by whoever asks for it."""
    from adapter.transactions.locks.lock_table import SessionLocks

    async def lock(self: SessionLocks, *_: Any, **__: Any) -> bool:
        return False

    replaced(SessionLocks, "lock", lock)


def advisory_lock_of_one_server() -> None:
    """An advisory lock holds against the sessions of its own server alone."""
    from adapter.transactions.locks.servers import between_servers

    replaced(between_servers, "blockers", lambda entry, waiter: [])


def claims_not_checked_again() -> None:
    """The commit does not look whether the keys that a transaction relies on are still there, or still free."""
    from adapter.transactions import validation

    async def nothing(*_: Any) -> None:
        return None

    replaced(validation, "broken", nothing)


def no_key_share() -> None:
    """Who refers to a row does not lock it."""
    from adapter.changes.constraints import key_checks, key_locks

    async def find_only(running: Any, relation: Any, find: Any) -> Any:
        as_of = key_locks.newest(running)
        return await find(as_of), as_of

    replaced(key_checks, "lock_referred", find_only)


def change_beside_forgotten() -> None:
    """Of changes of one row that are carried out together, each begins with the row as it was before all of them."""
    from adapter.changes.together import _Changes

    real = _Changes.change

    def change(self: Any, found: Any, place: int, given: Any) -> int:
        self._rows.pop(int(found.row_ids[place]), None)
        return real(self, found, place, given)

    replaced(_Changes, "change", change)


def follower_answered_early() -> None:
    """Who goes on from a result that is not durable yet is answered when its own is decided."""
    from adapter.transactions.group_commit import GroupCommitter

    real = GroupCommitter.commit

    async def commit(self: GroupCommitter, request: Any) -> Any:
        if not request.follows:
            return await real(self, request)
        waiting = await self._enqueue(request)
        waiting.done.add_done_callback(lambda done: done.cancelled() or done.exception())
        return request.snapshot

    replaced(GroupCommitter, "commit", commit)


class Mistake(Struct, frozen=True, kw_only=True):
    """How a mistake is put in, where it can be seen, and what is seen of it."""

    apply: Callable[[], None]
    sign: str
    """A pattern of one of the faults that must be found."""
    servers: int = 1
    kills: bool = False
    """Whether it is seen only when a server is killed."""
    loads: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is called."""
        return self.apply.__name__


AT_COMMIT = "at read committed, COMMIT: "

MISTAKES = (
    Mistake(apply=no_check_inside_the_group, loads=("write skew",), sign="write skew: .* of SELECT"),
    Mistake(
        apply=no_check_across_servers,
        servers=2,
        loads=("hot row", "transfers", "upserts"),
        sign="were told twice|transfers: .* of SELECT|is there, between",
    ),
    Mistake(apply=stale_filter, loads=("rows in files",), sign="not found by key|taken for free|count"),
    Mistake(apply=key_lock_forgotten, loads=("unique keys",), sign=AT_COMMIT + "23"),
    Mistake(apply=row_lock_forgotten, loads=("hot row", "transfers"), sign=AT_COMMIT + "40001"),
    Mistake(apply=skips_no_lock, loads=("queue",), sign="has job .* which client|is gone"),
    Mistake(apply=advisory_lock_forgotten, loads=("advisory locks",), sign="has advisory lock|had it not"),
    Mistake(apply=advisory_lock_of_one_server, servers=2, loads=("advisory locks",), sign="has advisory lock"),
    Mistake(
        apply=claims_not_checked_again,
        servers=2,
        loads=("unique keys", "foreign keys"),
        sign="(unique|foreign) keys: .* of SELECT",
    ),
    Mistake(apply=no_key_share, loads=("foreign keys",), sign=AT_COMMIT + "23503"),
    Mistake(apply=change_beside_forgotten, loads=("beside",), sign="beside: .* is there, between"),
    Mistake(apply=follower_answered_early, kills=True, loads=("hot row",), sign="hot: .* is there, between"),
)


def main() -> int:
    """The server's command line, with the mistake that the environment names."""
    from frontend.command.main import main as command_line

    mistakes = {mistake.name: mistake for mistake in MISTAKES}
    mistakes[os.environ[VARIABLE]].apply()
    return command_line()


if __name__ == "__main__":
    sys.exit(main())
