"""What a commit does to one shard: as it leaves the transaction, and as it stands in the txns shard.

ShardWrites(shard="s4k...", parts=(Part(kind="insert", ...),))          from a sealed transaction, at no CSN yet
Write(shard="s4k...", csn=118..., parts=(Part(kind="insert", ...),))    committed, until it has been applied
"""

from __future__ import annotations

import msgspec

from storage.ids import ShardId
from storage.shards.parts import Part
from storage.timestamps.csn import Csn


class ShardWrites(msgspec.Struct, frozen=True, kw_only=True):
    """What a sealed transaction does to one shard."""

    shard: ShardId
    parts: tuple[Part, ...] = ()
    schema: bytes | None = None
    create: bool = False
    drop: bool = False


class Write(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one commit does to one shard, in this order: new schema, parts, drop."""

    shard: ShardId
    csn: Csn
    parts: tuple[Part, ...] = ()
    schema: bytes | None = None
    drop: bool = False


class PromisedPart(msgspec.Struct, frozen=True, array_like=True):
    """A file that a staged transaction depends on: present means stored under `key` with `length` bytes."""

    key: str
    length: int
    checksum: str
