"""The bytes of large objects, in the rows of ``pages``: what PostgreSQL's inv_api.c does, page by page.

A page that nothing was written to has no row and reads as zeros. A page may be shorter than `PAGE_BYTES`; the last one
says where the large object ends. What a transaction appends to needs no look at what is there: it knows the last page
of what it has written to (`Touched`), so that a large object of any size is written in time that is in proportion to
it; its pages go into the transaction's buffer, which spills.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pyarrow as pa

from adapter.execution.statement import Running
from adapter.queries.by_index.key_scan import visible_parts
from adapter.queries.large_objects.metadata import begin_to_write, known_tables, touch, touched
from adapter.queries.large_objects.tables import PAGE_BYTES, Table
from adapter.store_errors import CONCURRENT_DDL, serialization_failure
from adapter.transactions.pending import Descriptor, Touched
from planner.errors import InvalidParameterValue
from storage.errors import AsOfNotReadable, UnknownShard
from storage.shards.indexes.reading.found import Found
from storage.shards.indexes.reading.ranges import Bound, KeyRange
from storage.shards.parts import ROW_ID

MAX_BYTES = 2147483647 * PAGE_BYTES
"""Of one large object (MAX_LARGE_OBJECT_SIZE)."""

READ_PAGES = 4096
"""So many pages are read at a time: 8 MB."""

WRITTEN_PAGES = 1024
"""So many are written at a time, as others wait meanwhile."""

AHEAD_PAGES = 128
"""So many are read at least where nothing of them changes, as who reads a piece mostly goes on to the next."""


async def _rows(
    running: Running,
    keys: KeyRange,
    view: Descriptor | None,
    *,
    limit: int | None = None,
    descending: bool = False,
    columns: int | None = None,
) -> Found | None:
    """The rows of pages in a range, as `view` sees them (None: as the transaction does), or so many of their first
    columns; None when there are no pages in the database."""
    tables = known_tables(running)
    if tables is None:
        return None
    keyed, transaction, table = running.services.env.keys, running.transaction, tables.pages
    transaction.rely_on([table.relation], to_read=True)
    as_of = None if view is None else view.as_of
    try:
        parts, local = await visible_parts(running.services.env, transaction, table.relation, newest=True, as_of=as_of)
        if view is not None and as_of is not None:
            local = view.own
        wanted = table.columns[:columns]
        found = keyed.range_now(parts, table.index, keys, wanted, local=local, descending=descending, limit=limit)
        return found or await keyed.range(
            parts, table.index, keys, wanted, local=local, descending=descending, limit=limit
        )
    except (UnknownShard, AsOfNotReadable) as error:
        raise serialization_failure(CONCURRENT_DDL) from error


def _range(oid: int, first: int, last: int | None = None) -> KeyRange:
    return KeyRange(equal=(oid,), low=Bound((first,)), high=None if last is None else Bound((last,)))


async def end_of(running: Running, oid: int, view: Descriptor | None = None) -> Touched:
    """The last page of a large object."""
    if view is None or view.as_of is None:
        known = touched(running, oid)
        if known is not None:
            return known
    found = await _rows(running, KeyRange(equal=(oid,)), view, limit=1, descending=True)
    if found is None or not len(found.row_ids):
        return Touched()
    _, number, data = found.rows.columns
    return Touched(page=number[0].as_py(), row_id=int(found.row_ids[0]), data=data[0].as_py())


def size_of(end: Touched) -> int:
    """The length of a large object that ends so."""
    return 0 if end.page < 0 else end.page * PAGE_BYTES + len(end.data)


async def read(running: Running, oid: int, position: int, length: int, view: Descriptor | None = None) -> bytes:
    """At most `length` bytes from `position` on: fewer where the large object ends."""
    if length <= 0:
        return b""
    if view is not None and view.as_of is not None and view.ahead_from <= position:
        at = position - view.ahead_from
        if at + length <= len(view.ahead):
            return view.ahead[at : at + length]
    first = position // PAGE_BYTES
    last = min((position + length - 1) // PAGE_BYTES, MAX_BYTES // PAGE_BYTES - 1)
    if view is not None and view.as_of is not None:
        last = max(last, first + AHEAD_PAGES - 1)
    whole = await _read_pages(running, oid, first, last, view)
    if view is not None and view.as_of is not None:
        keep = len(whole) if len(whole) <= 2 * AHEAD_PAGES * PAGE_BYTES else 0
        view.ahead_from, view.ahead = first * PAGE_BYTES, whole[:keep]
    at = position - first * PAGE_BYTES
    return whole[at : at + length]


async def _read_pages(running: Running, oid: int, first: int, last: int, view: Descriptor | None) -> bytes:
    """All bytes of the pages from `first` to `last`, up to the end of the large object."""
    pieces: list[bytes] = []
    reached = first * PAGE_BYTES
    start = first
    while start <= last:
        stop = min(last, start + READ_PAGES - 1)
        found = await _rows(running, _range(oid, start, stop), view)
        if found is not None:
            _, numbers, datas = found.rows.columns
            for number, data in zip(numbers.to_pylist(), datas.to_pylist(), strict=True):
                if number * PAGE_BYTES > reached:
                    pieces.append(bytes(number * PAGE_BYTES - reached))
                pieces.append(data)
                reached = number * PAGE_BYTES + len(data)
        start = stop + 1
        if start <= last and reached < start * PAGE_BYTES and size_of(await end_of(running, oid, view)) <= reached:
            break
    wanted = (last + 1) * PAGE_BYTES
    if reached < wanted:
        # What follows the last row that was read is a hole, unless the large object ends there.
        end = min(size_of(await end_of(running, oid, view)), wanted)
        if end > reached:
            pieces.append(bytes(end - reached))
    return b"".join(pieces)


async def write(running: Running, oid: int, position: int, data: bytes) -> None:
    """Put `data` at `position`. 22023 beyond `MAX_BYTES`."""
    if position + len(data) > MAX_BYTES:
        raise InvalidParameterValue(f"invalid large object write request size: {len(data)}")
    at = 0
    while at < len(data):
        stop = min(len(data), at + WRITTEN_PAGES * PAGE_BYTES - (position + at) % PAGE_BYTES)
        await _write(running, oid, position + at, data[at:stop])
        at = stop


async def _write(running: Running, oid: int, position: int, data: bytes) -> None:
    await begin_to_write(running, oid)
    end = await end_of(running, oid)
    first, last = position // PAGE_BYTES, (position + len(data) - 1) // PAGE_BYTES
    old = await _old_pages(running, oid, first, last, end)
    pages: list[bytes] = []
    for number in range(first, last + 1):
        start = number * PAGE_BYTES
        low, high = max(position, start), min(position + len(data), start + PAGE_BYTES)
        piece = data[low - position : high - position]
        if len(piece) < PAGE_BYTES:
            before, at = old[number][1] if number in old else b"", low - start
            piece = before[:at].ljust(at, b"\0") + piece + before[high - start :]
        pages.append(piece)
    await _replace(running, oid, old, first, pages, end)
    # For others, where one call writes much.
    await asyncio.sleep(0)


async def truncate(running: Running, oid: int, length: int) -> None:
    """Let a large object have `length` bytes: zeros where it had fewer."""
    await begin_to_write(running, oid)
    end = await end_of(running, oid)
    page, off = length // PAGE_BYTES, length % PAGE_BYTES
    if end.page > page:
        await remove(running, oid, page + 1)
    old = await _old_pages(running, oid, page, page, end)
    before = old[page][1] if page in old else b""
    await _replace(running, oid, old, page, [before[:off].ljust(off, b"\0")], Touched())


async def remove(running: Running, oid: int, first: int = 0) -> None:
    """Delete the pages of a large object from number `first` on."""
    while True:
        found = await _rows(running, _range(oid, first), None, limit=READ_PAGES, columns=2)
        if found is None or not len(found.row_ids):
            return
        numbers = found.rows.column(1)
        _delete(running, oid, numbers, pa.array(found.row_ids, pa.int64()))
        first = numbers[-1].as_py() + 1
        await _spill(running)


async def _old_pages(
    running: Running, oid: int, first: int, last: int | None, end: Touched
) -> dict[int, tuple[int, bytes]]:
    """The pages from `first` to `last` that there are: by number, the ids of their rows and what they hold."""
    if first > end.page:
        return {}
    if first == end.page:
        return {end.page: (end.row_id, end.data)}
    found = await _rows(running, _range(oid, first, last), None)
    if found is None:
        return {}
    _, numbers, datas = found.rows.columns
    rows = zip(numbers.to_pylist(), found.row_ids.tolist(), datas.to_pylist(), strict=True)
    return {number: (row_id, data) for number, row_id, data in rows}


async def _replace(
    running: Running, oid: int, old: dict[int, tuple[int, bytes]], first: int, pages: Sequence[bytes], end: Touched
) -> None:
    """Put `pages`, from number `first` on, in the places of those that are `old`."""
    tables = known_tables(running)
    assert tables is not None
    table, transaction = tables.pages, running.transaction
    transaction.rely_on([table.relation])
    txn = transaction.writable(running.services.env, table.shard)
    if old:
        row_ids = [row_id for row_id, _ in old.values()]
        _delete(running, oid, pa.array(list(old), table.columns[1].type), pa.array(row_ids, pa.int64()))
    numbers = list(range(first, first + len(pages)))
    row_id = txn.write(table.shard, _batch(table, oid, numbers, pages))
    if numbers[-1] >= end.page or end.page in old:
        # Of those that are left none comes after the last one.
        end = Touched(page=numbers[-1], row_id=row_id + len(pages) - 1, data=pages[-1])
    touch(running, oid, end)
    await _spill(running)


def _batch(table: Table, oid: int, numbers: Sequence[int], pages: Sequence[bytes]) -> pa.RecordBatch:
    types = [column.type for column in table.columns]
    arrays = [pa.array([oid] * len(numbers), types[0]), pa.array(numbers, types[1]), pa.array(pages, types[2])]
    return pa.RecordBatch.from_arrays(arrays, names=list(table.names))


def _delete(running: Running, oid: int, numbers: pa.Array, row_ids: pa.Array) -> None:
    """Delete pages. What they held is not noted: nobody looks for changed rows by that."""
    tables = known_tables(running)
    assert tables is not None
    table = tables.pages
    running.transaction.rely_on([table.relation])
    names = [ROW_ID, *table.names[:2]]
    oids = pa.array([oid] * len(numbers), table.columns[0].type)
    rows = pa.RecordBatch.from_arrays([row_ids, oids, numbers], names=names)
    running.transaction.writable(running.services.env, table.shard).delete(table.shard, rows)


async def _spill(running: Running) -> None:
    txn = running.transaction.txn
    if txn is not None and txn.spill_due:
        await txn.spill()
