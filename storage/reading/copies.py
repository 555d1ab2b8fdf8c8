"""The rows of one shard in another one, without copying files.

Files become parts of the new shard too (`storage.upkeep.shared_files`), with new row ids, those of their
positions. What is small enough to lie in the state itself is copied. Deletions are written anew, for the new row ids:
that costs what has been deleted and not compacted yet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from storage.ids import ShardId
from storage.reading.reader import ShardReader
from storage.shards.parts import ROW_ID, Part
from storage.shards.shard import ShardSnapshot
from storage.timestamps.csn import Csn
from storage.transactions.txn import Txn
from storage.upkeep.shared_files import SharedFiles


async def copy_rows(reader: ShardReader, sharing: SharedFiles, txn: Txn, snapshot: ShardSnapshot, to: ShardId) -> int:
    """Let `to`, which `txn` creates with the columns of the shard of `snapshot`, have its rows. Returns their number.

    The caller holds the CSN of `snapshot` until `txn` has ended. Raises as reads do, and what noting a diff raises.
    """
    files = [part for part in snapshot.inserts if part.key is not None]
    if files:
        await sharing.share(files, to, txn)
    deletes = [await reader.read_part(part) for part in snapshot.deletes]
    ids = np.unique(np.concatenate([_ids(table) for table in deletes] or [np.empty(0, np.int64)]))
    places: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
    for part in snapshot.inserts:
        low, high = part.row_id_bounds
        hit = ids[np.searchsorted(ids, low) : np.searchsorted(ids, high, "right")]
        if part.key is None:
            rows = await reader.read_part(part, [ROW_ID, *part.columns])
            if len(hit):
                rows = rows.filter(pc.invert(pc.is_in(rows.column(ROW_ID), pa.array(hit))))
            txn.write(to, rows.remove_column(rows.column_names.index(ROW_ID)))
            await txn.spill()
            continue
        held, positions = await _positions(reader, part, hit)
        copied = await txn.write_part(to, _as_new(part))
        if len(held):
            places.append((held, positions + copied.first_row_id))
    if places:
        old, new = (np.concatenate(each) for each in zip(*places, strict=True))
        order = np.argsort(old)
        await _delete(txn, to, deletes, old[order], new[order])
    return snapshot.rows


async def _positions(
    reader: ShardReader, part: Part, ids: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Those of the row ids `ids` that `part` has, and where in it they are."""
    if not len(ids) or not part.has_row_id_column:
        return ids, ids - part.first_row_id
    stored = _ids(await reader.read_part(part, [ROW_ID]))
    positions = np.flatnonzero(np.isin(stored, ids))
    return stored[positions], positions


def _as_new(part: Part) -> Part:
    """`part` as a transaction has one that it has just written: its rows are named by their positions."""
    return replace(
        part,
        stats={name: known for name, known in part.stats.items() if name != ROW_ID},
        has_row_id_column=False,
        id=-1,
        csn=Csn(0),
        schema_version=-1,
        readable_from=Csn(0),
    )


async def _delete(
    txn: Txn, shard: ShardId, deletes: list[pa.Table], old: np.ndarray[Any, Any], new: np.ndarray[Any, Any]
) -> None:
    """Delete the rows that `deletes` name by their ids `old`, in ascending order, which are `new` ones."""
    for table in deletes:
        ids = _ids(table)
        places = np.minimum(np.searchsorted(old, ids), len(old) - 1)
        there = old[places] == ids
        renamed = table.set_column(table.column_names.index(ROW_ID), ROW_ID, pa.array(new[places]))
        txn.delete(shard, renamed.filter(pa.array(there)))
        await txn.spill()


def _ids(table: pa.Table) -> np.ndarray[Any, Any]:
    return np.asarray(table.column(ROW_ID).to_numpy())
