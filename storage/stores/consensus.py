"""Consensus: a linearizable register per key, whose value is a run of numbered diffs.

The second of the two primitives everything durable stands on. A key's value is a sequence of `VersionedData`
with consecutive sequence numbers; a writer adds one diff with `compare_and_set`, naming the head that it
built upon. A commit therefore costs what changed and not what exists. Now and then the owner of a key writes
a rollup of its whole state to the blob store and truncates the diffs before it.

    key "txns":   12  13  14  15        head = 15;  scan(13) = [13, 14, 15];  truncate(14) leaves [14, 15]

Contract (`tests/storage/stores/test_consensus_conformance.py`):

- `compare_and_set` is linearizable and durable once it has returned True.
- Sequence numbers of one key are consecutive and start with 1. The head is never truncated away, so a key
  that was once written has a head for ever.
- Returning False is definite: the head was not `expected_seqno`, and nothing was written.
- Errors are `Determinate` or `Indeterminate`; a cancelled compare-and-set is indeterminate.
- `head` and `scan` see every write that returned before they began.
- `watch` never misses a move: it returns once the head is above the given number, whichever process moved it.
"""

from __future__ import annotations

import re
from typing import NewType, Protocol

from msgspec import Struct

from storage.errors import Determinate, InvalidKey

SeqNo = NewType("SeqNo", int)
"""Position of a diff in its key's sequence; the first is 1."""

FIRST_SEQNO = SeqNo(1)
NO_SEQNO = SeqNo(0)
"""What `watch` and `scan` take for a key that has not been written yet."""

MAX_KEY_CHARS = 256
MAX_DATA_BYTES = 16 * 1024 * 1024
"""A diff is small by design (inline parts are at most 64 KiB each); a larger one is a bug of its writer."""

_KEY = re.compile(r"[A-Za-z0-9._=/-]+")


class VersionedData(Struct, frozen=True, kw_only=True):
    """One diff of a key and its position."""

    seqno: SeqNo
    data: bytes


class Consensus(Protocol):
    """A linearizable store of numbered diffs. See the module's contract."""

    @property
    def is_low(self) -> bool:
        """Whether there is so little room left that only what frees some should be written."""
        ...

    async def head(self, key: str) -> VersionedData | None:
        """The newest diff of `key`; None when the key was never written."""
        ...

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        """Append `new` if the head's number is `expected_seqno` (None: the key was never written).

        `new.seqno` must be `expected_seqno + 1`, or 1 for a new key (ValueError otherwise). True: `new` is
        durable and is the head. False: the head is another, and nothing was written; `scan` from
        `expected_seqno + 1` shows what came in between.
        """
        ...

    async def scan(self, key: str, from_seqno: SeqNo, limit: int | None = None) -> list[VersionedData]:
        """The diffs of `key` numbered `from_seqno` and above, in order, at most `limit` of them.

        Diffs below the truncation point are silently absent: when the first number is above `from_seqno`, the
        caller needs the rollup. Empty when there are none.
        """
        ...

    async def truncate(self, key: str, seqno: SeqNo) -> int:
        """Remove the diffs numbered below `seqno`; returns how many were removed.

        Raises Determinate when `seqno` is above the head. Idempotent.
        """
        ...

    async def list_keys(self) -> list[str]:
        """Every key that was ever written, sorted."""
        ...

    async def watch(self, key: str, seqno: SeqNo) -> None:
        """Return once the head of `key` is numbered above `seqno`. Cancel it to stop waiting."""
        ...

    async def close(self) -> None:
        """Finish what was accepted and release threads and connections; later calls raise `StorageClosed`."""
        ...


def check_key(key: str) -> None:
    """Raise `InvalidKey` unless `key` is portable across consensus stores."""
    if not key or len(key) > MAX_KEY_CHARS or _KEY.fullmatch(key) is None:
        raise InvalidKey(f"invalid consensus key: {key[:MAX_KEY_CHARS]!r}")


def check_truncate(key: str, seqno: SeqNo, head: SeqNo | None) -> None:
    """Raise `Determinate` unless `seqno` is at or below the `head` of `key`, which has none when it does not exist."""
    if head is None or seqno > head:
        raise Determinate(f"cannot truncate {key!r} at {seqno}: it is above the head")


def check_set(key: str, expected_seqno: SeqNo | None, new: VersionedData) -> None:
    """Raise ValueError unless `new` is a well-formed successor of `expected_seqno`."""
    check_key(key)
    wanted = FIRST_SEQNO if expected_seqno is None else expected_seqno + 1
    if new.seqno != wanted:
        raise ValueError(f"sequence number {new.seqno} does not follow {expected_seqno} of key {key!r}")
    if len(new.data) > MAX_DATA_BYTES:
        raise ValueError(f"diff of {len(new.data)} bytes for key {key!r} exceeds {MAX_DATA_BYTES}")
