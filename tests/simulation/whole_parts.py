"""Deletions of whole parts in a simulation (`storage.shards.whole_deletions`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from storage.shards.parts import ROW_ID, Part

if TYPE_CHECKING:
    from storage.environment.environment import Environment
    from storage.ids import ShardId
    from storage.timestamps.csn import Csn


async def parts_of_rows(
    env: Environment, shard: ShardId, as_of: Csn, ids: Collection[int]
) -> list[tuple[Part, set[int]]]:
    """The files of `shard` that have no other rows than those of `ids`, which are all there, with their ids."""
    found: list[tuple[Part, set[int]]] = []
    for part in (await env.reader.snapshot(shard, as_of)).inserts:
        if part.key is not None and part.rows <= len(ids):
            rows = set((await env.reader.read_part(part, [ROW_ID])).column(0).to_pylist())
            if rows <= set(ids):
                found.append((part, rows))
    return found
