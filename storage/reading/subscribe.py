"""Following a shard: its snapshot at a CSN, then every later write, in CSN order, with progress.

Driven by the txns shard, so progress comes with every commit of the environment, also when the shard is idle.
The sum of everything delivered up to a CSN is the shard's contents at that CSN.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypeAlias

from msgspec import Struct

from storage.ids import ShardId
from storage.membership.leases import Leases
from storage.reading.reader import ShardReader
from storage.shards.parts import Part
from storage.shards.shard import ShardChanges, ShardSnapshot
from storage.timestamps.csn import Csn
from storage.transactions.txns_cache import TxnsCache


class Progress(Struct, frozen=True, kw_only=True):
    """Every write at or below `csn` has been delivered."""

    csn: Csn


SubscribeEvent: TypeAlias = ShardSnapshot | ShardChanges | Progress


async def subscribe(
    cache: TxnsCache,
    reader: ShardReader,
    leases: Leases,
    shard: ShardId,
    as_of: Csn,
    until: Csn | None = None,
) -> AsyncIterator[SubscribeEvent]:
    """The snapshot at `as_of`, then `ShardChanges` of one CSN each, and `Progress` between.

    Ends after `until` (inclusive), or at the CSN at which the shard is dropped; without either it is endless.
    Raises as `ShardReader.snapshot` does.
    """
    async with await leases.hold([shard], as_of) as hold:
        yield await reader.snapshot(shard, as_of)
        seen = as_of
        yield Progress(csn=seen)
        while until is None or seen < until:
            if cache.upper - 1 <= seen:
                await cache.changed()
                continue
            target = Csn(cache.upper - 1)
            dropped = cache.state.forgotten.get(shard)
            if dropped is not None:
                target = min(target, dropped)
            if until is not None:
                target = min(target, until)
            if target > seen:
                changes = await reader.changes_before_drop(shard, seen, target)
                for change in by_csn(changes):
                    yield change
                seen = target
                hold.advance(seen)
                yield Progress(csn=seen)
            if dropped is not None and seen >= dropped:
                return


def by_csn(changes: ShardChanges) -> list[ShardChanges]:
    """One `ShardChanges` per CSN, ascending."""
    inserts: dict[Csn, list[Part]] = {}
    deletes: dict[Csn, list[Part]] = {}
    for part in changes.inserts:
        inserts.setdefault(part.csn, []).append(part)
    for part in changes.deletes:
        deletes.setdefault(part.csn, []).append(part)
    return [
        ShardChanges(
            shard=changes.shard,
            after=Csn(csn - 1),
            until=csn,
            inserts=tuple(inserts.get(csn, ())),
            deletes=tuple(deletes.get(csn, ())),
        )
        for csn in sorted({*inserts, *deletes})
    ]
