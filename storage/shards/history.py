"""The history of a shard: what reads before its since need.

A compaction swaps parts for others that hold the same rows at every CSN from the since on. The state forgets the parts
that it took out, so that reads of the present cost what they would without a past; a shard whose `earliest` is before
its since writes them into an *archive* first, a file that the state names until nobody may read so far back.

SUBTLE: why the parts of one read fit together. A part that a compaction made is `readable_from` the since of that
compaction, and the parts it was made of are read before that and not after (`Archive.until`). So at any CSN exactly one
side of each compaction is read, whichever others came before and after. Parts that a commit wrote have no such bound:
together, those in the state and those in archives are everything that was ever written, in the order of their ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from storage.bounded_map import BoundedMap
from storage.cache_memory import aging, share
from storage.errors import CorruptPart
from storage.ids import ShardId
from storage.shards.part_store import PartStore
from storage.shards.parts import Part, checksum
from storage.shards.shard import written_in
from storage.shards.shard_state import Archive, ShardState
from storage.timestamps.csn import Csn

CACHE_BYTES = share(128)
"""Bytes of archives whose parts are kept in memory."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Part, ...])


class Archives:
    """Writes and reads the archives of an environment."""

    def __init__(self, parts: PartStore) -> None:
        self._parts = parts
        self._cache: BoundedMap[str, tuple[Part, ...]] = aging(BoundedMap(max_bytes=CACHE_BYTES))

    async def write(self, shard: ShardId, taken_out: Sequence[Part]) -> Archive:
        """A new archive with these parts of `shard`, without their key runs. It is in flight until it is released."""
        kept = tuple([msgspec.structs.replace(part, runs={}) for part in taken_out])
        data = _encoder.encode(kept)
        key = self._parts.new_key(shard, "history")
        await self._parts.add_file(key, data)
        return Archive(
            key=key,
            bytes=len(data),
            checksum=checksum(data),
            first=min(max(part.csn, part.readable_from) for part in kept),
            files=tuple([part.key for part in kept if part.key is not None]),
        )

    async def read(self, archive: Archive) -> tuple[Part, ...]:
        """Its parts. Raises MissingBlob and CorruptPart."""
        known = self._cache.get(archive.key)
        if known is not None:
            self._cache.touch(archive.key)
            return known
        data = await self._parts.read_file(archive.key)
        if checksum(data) != archive.checksum:
            raise CorruptPart(f"{archive.key} does not match its checksum")
        try:
            parts = _decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise CorruptPart(f"{archive.key} cannot be decoded: {error}") from error
        self._cache.put(archive.key, parts, archive.bytes)
        return parts

    async def parts_at(self, state: ShardState, as_of: Csn) -> list[Part]:
        """The parts that make up the shard at `as_of`, which is before its since."""
        found = [part for part in state.parts.values() if part.readable_from <= as_of and part.csn <= as_of]
        for archive in state.history.values():
            if archive.first <= as_of < archive.until:
                found += [p for p in await self.read(archive) if p.readable_from <= as_of and p.csn <= as_of]
        return _in_order(found)

    async def written(self, state: ShardState, after: Csn, until: Csn) -> list[Part]:
        """The parts that commits have written in (`after`, `until`]."""
        known = written_in(state, after, until)
        found = [part for part in known if not part.readable_from and after < part.csn <= until]
        for archive in state.history.values():
            if archive.first <= until and archive.until > after:
                found += [p for p in await self.read(archive) if not p.readable_from and after < p.csn <= until]
        return _in_order(found)


def _in_order(parts: Iterable[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: part.id)
