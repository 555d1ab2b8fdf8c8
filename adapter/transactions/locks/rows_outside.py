"""Rows and keys that the sessions of one worker hold against the other workers of the server.

Two files have a byte for each row (or key, by its hash) of each table. Locks of the operating system on them mean:

    FOR KEY SHARE        a read lock in the first
    FOR SHARE            a read lock in the second
    FOR NO KEY UPDATE    a write lock in the second
    FOR UPDATE           a write lock in both

which exclude each other exactly as the modes do. Neighbours are locked together. A row is given back when no
transaction of the worker has it any more; one that ROLLBACK TO SAVEPOINT weakens keeps its strength, which is late
rather than early.

A worker has a row as a whole, and its own lock table says which of its sessions. See `outside` for the rest.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adapter.transactions.locks.lock import Owner
from adapter.transactions.locks.modes import FOR_KEY_SHARE, FOR_NO_KEY_UPDATE, FOR_SHARE, FOR_UPDATE, Mode, bits
from adapter.transactions.locks.outside import locked_from, set_lock
from adapter.transactions.locks.row_sets import RowSet

MAX_ROWS = 5_000
"""Rows that are taken at once against other workers, in some milliseconds. Of more the commit alone decides."""

_NUMBER_BITS = 44
_RELATION_BITS = 18

KEYS, ROWS = 0, 1

_NEEDS: dict[Mode, tuple[tuple[int, int], ...]] = {
    FOR_KEY_SHARE: ((KEYS, fcntl.F_RDLCK),),
    FOR_SHARE: ((ROWS, fcntl.F_RDLCK),),
    FOR_NO_KEY_UPDATE: ((ROWS, fcntl.F_WRLCK),),
    FOR_UPDATE: ((KEYS, fcntl.F_WRLCK), (ROWS, fcntl.F_WRLCK)),
}
"""By mode: the files and kinds of lock that it needs."""


class RowsOutside:
    """See the module's contract. Belongs to the event loop."""

    def __init__(self, folder: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._files = [os.open(folder / name, flags, 0o600) for name in ("keys.locks", "rows.locks")]
        self._taken: dict[Owner, dict[tuple[int, int, int], set[int]]] = {}
        """By owner; and by relation, file and kind: the rows."""

    def close(self) -> None:
        """Let go of everything."""
        for descriptor in self._files:
            os.close(descriptor)

    def take(self, owner: Owner, relation_oid: int, first: int, count: int, mode: Mode) -> int | None:
        """Hold neighbouring rows for `owner`; None when it has them, otherwise one that another worker has."""
        rows = range(first, first + count)
        sets = self._taken.setdefault(owner, {})
        for file, kind in _NEEDS[mode]:
            # NOTE: a read lock would take the place of the write lock that a session of this worker has.
            written = (relation_oid, file, fcntl.F_WRLCK)
            having = [sets] if kind == fcntl.F_WRLCK else self._taken.values()
            covered = [theirs[written] for theirs in having if written in theirs]
            missing = [row for row in rows if not any(row in each for each in covered)]
            for start, length in runs_of(missing):
                place = _place(relation_oid, start)
                if not set_lock(self._files[file], kind, place, length):
                    at = locked_from(self._files[file], kind, place, length)
                    return start if at is None else start + max(0, at - place)
                sets.setdefault((relation_oid, file, kind), set()).update(range(start, start + length))
            if covered and kind == fcntl.F_RDLCK:
                sets.setdefault((relation_oid, file, kind), set()).update(rows)
        return None

    def is_written_by_another(self, owner: Owner, relation_oid: int, first: int, count: int) -> bool:
        """Whether another session of this worker has taken one of these rows to change it."""
        rows = range(first, first + count)
        return any(
            other is not owner and not taken.isdisjoint(rows)
            for other, sets in self._taken.items()
            for (relation, _, kind), taken in sets.items()
            if relation == relation_oid and kind == fcntl.F_WRLCK
        )

    def holders(self, relation_oid: int, row: int) -> list[tuple[Owner, int]]:
        """The sessions of this worker that have taken a row, and in which modes."""
        found: list[tuple[Owner, int]] = []
        for owner, sets in self._taken.items():
            modes = bits(
                *(
                    mode
                    for mode, needs in _NEEDS.items()
                    if all(row in sets.get((relation_oid, file, kind), ()) for file, kind in needs)
                )
            )
            if modes:
                found.append((owner, modes))
        return found

    def release(self, owner: Owner) -> set[int]:
        """`owner` is over: let go of what no other session of this worker has. The relations concerned."""
        sets = self._taken.pop(owner, None)
        if sets is None:
            return set()
        self._let_go(sets)
        return {relation_oid for relation_oid, _, _ in sets}

    def release_all_but(self, owner: Owner, kept: Sequence[Mapping[tuple[int, Mode], RowSet]]) -> set[int]:
        """`owner` has rolled back to a savepoint, and still has the rows `kept`, by relation and mode: let go of the
        others. The relations concerned."""
        sets = self._taken.get(owner)
        if not sets:
            return set()
        left: dict[tuple[int, int, int], set[int]] = {}
        for taken in kept:
            for (relation_oid, mode), rows in taken.items():
                for file, kind in _NEEDS[mode]:
                    having = sets.get((relation_oid, file, kind))
                    if having is not None:
                        left.setdefault((relation_oid, file, kind), set()).update(row for row in having if row in rows)
        self._taken[owner] = left
        undone = {name: rows - left.get(name, set()) for name, rows in sets.items()}
        self._let_go(undone)
        return {relation_oid for (relation_oid, _, _), rows in undone.items() if rows}

    def _let_go(self, sets: Mapping[tuple[int, int, int], set[int]]) -> None:
        for (relation_oid, file, _), rows in sets.items():
            left = rows
            for other in self._taken.values():
                for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
                    left = left - other.get((relation_oid, file, kind), set())
            for first, count in runs_of(left):
                set_lock(self._files[file], fcntl.F_UNLCK, _place(relation_oid, first), count)

    def follow(self, relation_oid: int, owner: Owner, old: np.ndarray[Any, Any], new: np.ndarray[Any, Any]) -> None:
        """Take the rows `new` for those who have taken the rows `old` (ascending), but for `owner`. Whoever finds
        one with another worker is overtaken."""
        for other, sets in self._taken.items():
            if other is owner:
                continue
            for (relation, file, kind), rows in sets.items():
                if relation != relation_oid:
                    continue
                places = np.searchsorted(old, taken := np.fromiter(rows, np.int64, len(rows)))
                here = places < len(old)
                here[here] = old[places[here]] == taken[here]
                for row in new[places[here]].tolist():
                    if set_lock(self._files[file], kind, _place(relation_oid, row), 1):
                        rows.add(row)
                    else:
                        other.is_overtaken = True

    def hand_over(self, owner: Owner, heir: Owner) -> None:
        """`heir` has what `owner` had."""
        sets = self._taken.pop(owner, None)
        if sets is not None:
            self._taken[heir] = sets


def runs_of(rows: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Runs of neighbouring rows, ascending: the first of each, and their number."""
    first = count = 0
    for row in sorted(rows):
        if count and row == first + count:
            count += 1
            continue
        if count:
            yield first, count
        first, count = row, 1
    if count:
        yield first, count


def _place(relation_oid: int, row: int) -> int:
    # Two tables or rows that meet here by their numbers' length wait for each other for nothing.
    return (relation_oid % (1 << _RELATION_BITS)) << _NUMBER_BITS | row % (1 << _NUMBER_BITS)
