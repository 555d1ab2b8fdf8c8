"""What other transactions of this process will write, on top of a snapshot.

That is their buffered parts, with provisional row ids that do not meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from storage.ids import ShardId
from storage.shards.parts import PROVISIONAL_ROW_ID, ROW_ID, Part, inline_part, read_table
from storage.transactions.rows_ahead import MAX_AHEAD, MAX_PLACES, ROWS_AHEAD, rows_named

if TYPE_CHECKING:
    from storage.environment.environment import Environment
    from storage.transactions.txn import Txn


def parts_ahead(transactions: Sequence[Txn], shard: ShardId) -> tuple[Part, ...]:
    """What `transactions` write to `shard`, in order, as parts whose provisional row ids do not meet.

    A transaction that deletes rows of its own from a file is left out: its ids are fixed.
    """
    most = MAX_AHEAD - MAX_PLACES
    moved = (moved_parts(txn, shard, number) for number, txn in enumerate(transactions[:most], 1))
    return tuple(part for parts in moved if parts is not None for part in parts)


def moved_parts(txn: Txn, shard: ShardId, number: int) -> tuple[Part, ...] | None:
    """What `txn` writes to `shard`, with the provisional row ids of its place, or if it has none of this `number`, from
    1 on; None when it deletes rows of its own from a file, whose ids are fixed."""
    found: list[Part] = []
    place = txn.place or MAX_PLACES + number
    for part in txn.local_parts(shard):
        moved = _moved(part, place)
        if moved is None:
            return None
        found.append(moved)
    return tuple(found)


async def moved_rows(env: Environment, txn: Txn, shard: ShardId, number: int) -> tuple[Part, ...]:
    """As `moved_parts` of any transaction, for who asks of deleted rows only which they are. Raises what reading a
    file raises."""
    found: list[Part] = []
    place = txn.place or MAX_PLACES + number
    await txn.make_local_parts(shard)
    for part in txn.local_parts(shard):
        moved = _moved(part, place)
        if moved is None:
            moved = _raised(await env.reader.read_part(part, [ROW_ID]), place)
        found.append(moved)
    return tuple(found)


def _moved(part: Part, place: int) -> Part | None:
    """`part` with its provisional row ids as those of `place`; None when it has to be read for that."""
    if part.kind == "insert":
        return msgspec.structs.replace(part, first_row_id=part.first_row_id + place * ROWS_AHEAD)
    if part.row_id_bounds[1] < PROVISIONAL_ROW_ID:
        return part
    return None if part.inline is None else _raised(read_table(part, part.inline), place)


def _raised(table: pa.Table, place: int) -> Part:
    moved = pa.array(rows_named(table.column(ROW_ID).to_numpy(), place), pa.int64())
    return inline_part("delete", table.set_column(0, table.schema.field(0), moved))
