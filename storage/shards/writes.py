"""What a commit does to one shard: as it leaves the transaction, and as it stands in the txns shard.

ShardWrites(shard="s4k...", parts=(Part(kind="insert", ...),))          from a sealed transaction, at no CSN yet
Write(shard="s4k...", csn=118..., parts=(Part(kind="insert", ...),))    committed, until it has been applied
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from storage.durable.state import BASE_FORMAT
from storage.ids import ShardId
from storage.shards.links import LINKS_FORMAT
from storage.shards.parts import RUNS_FORMAT, Part
from storage.shards.whole_deletions import WHOLE_FORMAT
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


def format_of_parts(parts: Iterable[Part]) -> int:
    """The format (`storage.durable.state`) of what has `parts` in it."""
    found = BASE_FORMAT
    for part in parts:
        if part.whole:
            return WHOLE_FORMAT
        if part.link is not None:
            found = LINKS_FORMAT
        elif part.runs:
            found = max(found, RUNS_FORMAT)
    return found
