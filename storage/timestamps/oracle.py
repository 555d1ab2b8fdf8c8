"""The CSN oracle: which timestamp to read at, and which to write at.

There are two timelines, ``user`` (data) and ``catalog`` (definitions). Both draw their write timestamps from one
hybrid logical clock, since one transaction may carry data and definitions and commits at one CSN; each has a read
timestamp of its own, so that the catalog's stands still between definitions.

Contract (`tests/storage/timestamps/test_oracle_conformance.py`), across all processes of an environment:

- `read_ts` is at or above every `apply_write` that returned before it began, and below every `write_ts` that
  begins after it returned.
- `write_ts` is above every earlier `read_ts` and `write_ts`. An oracle that only *proposes* write timestamps
  keeps this through the compare-and-set that allocates them: a proposal that is not above fails there.
- After a commit is visible, none with a lower CSN commits.
- No timestamp is ever cached past the call that asked for it.

How a commit uses it:

    ts = await oracle.write_ts("user")
    try:
        ... make the commit at `ts` durable ...
    except BaseException:
        oracle.abandon_write("user", ts)      # or, when the outcome is unknown, once it is resolved
        raise
    await oracle.apply_write("user", ts)      # returns once the commit is visible to every new snapshot

SUBTLE: `apply_write` waits for lower CSNs of this process that are still under way (ordered visibility). A
writer that dies without `abandon_write` would block all later ones; `acquired` does it for you.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Literal, Protocol, TypeAlias

from storage.timestamps.csn import Csn

Timeline: TypeAlias = Literal["user", "catalog"]
TIMELINES: tuple[Timeline, ...] = ("user", "catalog")


class Oracle(Protocol):
    """A source of read and write timestamps. See the module's contract."""

    async def read_ts(self, timeline: Timeline) -> Csn:
        """The newest CSN that every commit at or below is visible at."""
        ...

    async def write_ts(self, timeline: Timeline) -> Csn:
        """A CSN to commit at, acquired until `apply_write` or `abandon_write`."""
        ...

    async def apply_write(self, timeline: Timeline, ts: Csn, *, wait: bool = True) -> None:
        """Publish the durable commit at `ts`; with `wait`, return only once it is visible. Idempotent."""
        ...

    def abandon_write(self, timeline: Timeline, ts: Csn) -> None:
        """Give up an acquired `ts`: nothing has committed or will commit at it. Idempotent."""
        ...

    def observe(self, ts: Csn) -> None:
        """Make every later `write_ts` be above `ts`, for example the least committable CSN of a conflict."""
        ...

    async def close(self) -> None:
        """Release what is held; timestamps already given out stay valid."""
        ...


@contextlib.asynccontextmanager
async def acquired(oracle: Oracle, timeline: Timeline) -> AsyncIterator[Csn]:
    """A write timestamp that is abandoned on the way out unless `apply_write` was called for it."""
    ts = await oracle.write_ts(timeline)
    try:
        yield ts
    finally:
        oracle.abandon_write(timeline, ts)
