"""Files that engines write in a simulation, which transactions promise (`storage.transactions.parallel_commit`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.shards.footers import footer_of
from storage.shards.parts import UploadedPart, checksum, encode_parquet

if TYPE_CHECKING:
    import pyarrow as pa

    from storage.environment.environment import Environment
    from storage.ids import ShardId


async def engine_file(env: Environment, shard: ShardId, table: pa.Table) -> UploadedPart:
    """Stores `table` as an engine does, which says all there is to know of the file. Raises what the store raises."""
    key, data = env.parts.new_key(shard), encode_parquet(table)
    await env.blob.put(key, data)
    return UploadedPart(key=key, rows=table.num_rows, bytes=len(data), checksum=checksum(data), footer=footer_of(data))
