"""Locks between the workers of one server, on tables and on what applications agree on (advisory).

Each worker orders its own sessions in its lock table. What that grants the worker holds against the others too, by
locks of the operating system on bytes of files in the workers' folder: they are taken and looked at in a microsecond,
without asking anybody, and go with the process that has them, however it ends.

    advisory     one byte for each lock: read-locked for SHARE, write-locked for EXCLUSIVE. Its place is a hash.
    relations    one byte for each mode of each table, read-locked by a worker that has the mode. Who wants a mode takes
                 its byte first and then looks whether somebody else has one that excludes it. Of two who do so at one
                 moment both may find the other, and both try again.

A lock that another worker has is waited for by trying again: when that worker says that it has let go of one
(`wanted_by` tells it that somebody waits), and every few milliseconds.

NOTE: the kernel drops all of a process's locks on a file when it closes any descriptor of it. Nothing else may open
these files.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
from pathlib import Path

from adapter.transactions.locks.modes import CONFLICTS, Mode, modes_of
from adapter.transactions.locks.tags import Tag
from storage.catalog.temporary import FIRST_TEMPORARY_OID
from storage.host_memory import HostMemory

KINDS = frozenset({"relation", "advisory", "name"})
"""The kinds of locks that hold against other workers."""

_FLOCK = struct.Struct("hhqqi")
"""Linux's struct flock: type, whence, start, length, process."""

_BYTES_OF_A_RELATION = 16
_BUCKETS = 64


def _runs(modes: int) -> tuple[tuple[int, int], ...]:
    """Neighbouring modes of a set, each as the first of them and their number."""
    runs: list[tuple[int, int]] = []
    for mode in modes_of(modes):
        if runs and sum(runs[-1]) == mode:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((mode, 1))
    return tuple(runs)


_EXCLUDING = tuple(_runs(modes) for modes in CONFLICTS)
"""By mode, where the bytes are of the modes that exclude it."""


def is_shared(tag: Tag) -> bool:
    """Whether the other workers must know of the lock. What is temporary is only its session's, and its oid may be
    another thing's in another worker."""
    return tag.kind in KINDS and tag.space < FIRST_TEMPORARY_OID


class OutsideLocks:
    """What one worker holds against the others. See the module's contract."""

    def __init__(self, folder: Path, memory: HostMemory) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._relations = os.open(folder / "relations.locks", flags, 0o600)
        self._advisory = os.open(folder / "advisory.locks", flags, 0o600)
        self._memory = memory

    def close(self) -> None:
        """Let go of everything."""
        os.close(self._relations)
        os.close(self._advisory)

    def take(self, tag: Tag, mode: Mode, held: int) -> bool:
        """Hold `tag` in `mode`, beside the modes `held` already; False when another worker excludes that."""
        place = _place(tag)
        if tag.kind != "relation":
            if held >> Mode.EXCLUSIVE & 1:
                return True
            return set_lock(self._advisory, fcntl.F_RDLCK if mode is Mode.SHARE else fcntl.F_WRLCK, place)
        set_lock(self._relations, fcntl.F_RDLCK, place + mode)
        if self._is_excluded(place, mode):
            set_lock(self._relations, fcntl.F_UNLCK, place + mode)
            return False
        return True

    def excludes(self, tag: Tag, mode: Mode) -> bool:
        """Whether another worker excludes `mode` now."""
        place = _place(tag)
        if tag.kind == "relation":
            return self._is_excluded(place, mode)
        kind = fcntl.F_RDLCK if mode is Mode.SHARE else fcntl.F_WRLCK
        return locked_from(self._advisory, kind, place, 1) is not None

    def _is_excluded(self, place: int, mode: Mode) -> bool:
        """Whether another worker has one of the modes that exclude `mode` of the relation whose bytes begin there."""
        return any(
            locked_from(self._relations, fcntl.F_WRLCK, place + first, count) is not None
            for first, count in _EXCLUDING[mode]
        )

    def release(self, tag: Tag, mode: Mode, left: int) -> None:
        """Let go of `mode`; the modes `left` are still held."""
        place = _place(tag)
        if tag.kind == "relation":
            set_lock(self._relations, fcntl.F_UNLCK, place + mode)
        elif not left:
            set_lock(self._advisory, fcntl.F_UNLCK, place)
        elif not left >> Mode.EXCLUSIVE & 1:
            set_lock(self._advisory, fcntl.F_RDLCK, place)

    def want(self, tags: list[Tag]) -> None:
        """Tell the others which locks this worker waits for, instead of those it said before."""
        wanted = 0
        for tag in tags:
            wanted |= 1 << _bucket(tag)
        self._memory.wanted.own = wanted

    def wanted_by(self, tag: Tag) -> list[int]:
        """The other workers that may wait for this lock, and for few others."""
        bit = 1 << _bucket(tag)
        return [
            worker
            for worker, wanted in enumerate(self._memory.wanted.of_all())
            if wanted & bit and worker != self._memory.own
        ]


def _place(tag: Tag) -> int:
    """The first byte of a lock in the file of its kind."""
    if tag.kind == "relation":
        return tag.space * _BYTES_OF_A_RELATION
    named = hashlib.blake2b(repr((tag.space, tag.item)).encode(), digest_size=8).digest()
    return int.from_bytes(named, "big") >> 2


def _bucket(tag: Tag) -> int:
    return (tag.space if tag.kind == "relation" else _place(tag)) % _BUCKETS


def set_lock(descriptor: int, kind: int, place: int, count: int = 1) -> bool:
    """Lock (or unlock) bytes for this process; False, and nothing has changed, when another one excludes that."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLK, _FLOCK.pack(kind, os.SEEK_SET, place, count, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def locked_from(descriptor: int, kind: int, place: int, count: int) -> int | None:
    """Where the bytes begin of another process's lock that excludes one of this kind; None when there is none."""
    answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(kind, os.SEEK_SET, place, count, 0))
    found = _FLOCK.unpack_from(answer)
    return None if found[0] == fcntl.F_UNLCK else int(found[2])
