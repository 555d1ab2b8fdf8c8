"""Locks that are not kept until the end of the transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from adapter.transactions.locks.lock_table import SessionLocks


@contextmanager
def keeping_nothing(locks: SessionLocks) -> Iterator[None]:
    """What the transaction locks within it is let go of at its end; what it had before stays."""
    table, owner = locks.table, locks.owner
    mark = table.mark(owner)
    try:
        yield
    finally:
        table.release_since(owner, mark)
        table.forget_mark(owner, mark)
