"""Keys that transactions under way have written where not only equal ones exclude each other: ranges that must not
overlap.

Each is locked by a number, like the key of a unique index (`adapter.changes.constraints.key_locks`), and noted here
with its value, so that who writes another one can tell which of them it has to wait for. What is noted holds as long as
its lock is held; it is looked through when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adapter.transactions.locks.lock import Owner
from adapter.transactions.locks.lock_table import LockTable

MAX_NOTED = 1000
"""Keys of one index: those beyond are not noted, and nobody waits for who has written them."""


class WrittenKeys:
    """See the module. Belongs to the event loop."""

    def __init__(self, locks: LockTable) -> None:
        self._locks = locks
        self._noted: dict[int, dict[int, Any]] = {}
        """By oid of the index, by number."""

    def note(self, key_oid: int, keys: Mapping[int, Any]) -> None:
        """Keys, by their numbers, of the index `key_oid` have been locked and are being written."""
        noted = self._noted.setdefault(key_oid, {})
        if len(noted) + len(keys) > MAX_NOTED:
            self._forget_old(key_oid)
            noted = self._noted.setdefault(key_oid, {})
        for number, key in keys.items():
            if len(noted) < MAX_NOTED:
                noted[number] = key

    def of_others(self, owner: Owner, key_oid: int) -> Iterable[tuple[int, Any]]:
        """The keys that others than `owner` are writing, with their numbers."""
        self._forget_old(key_oid)
        return [
            (number, key)
            for number, key in self._noted.get(key_oid, {}).items()
            if any(holder is not owner for holder in self._locks.holders_of_row(key_oid, number))
        ]

    def _forget_old(self, key_oid: int) -> None:
        noted = self._noted.get(key_oid, {})
        for number in [number for number in noted if not self._locks.holders_of_row(key_oid, number)]:
            del noted[number]
        if not noted:
            self._noted.pop(key_oid, None)
