"""What reading by index costs through SQL, counted: operations of the stores, bytes, and row groups decoded.

Once a server knows the key runs of a table, a row costs the same at every size of the table: nothing when its row group
is at hand, one range of one file when it is not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.shards.indexes.reading.reader import KeyReader
from storage.shards.indexes.runs import PAGE_BYTES
from storage.stores.blob import ByteRange
from storage.stores.counting import CountingBlob, CountingConsensus, OperationCounts
from tests.adapter.harness import Client, connect, open_server

SIZES = (1_000, 100_000, 600_000)
COLD_SIZES = (1_000, 600_000)
PAD = "x" * 64
ROW_GROUP_BYTES = 1 << 20


class Sized(CountingBlob):
    """A counted store that knows how many bytes each reading of a Parquet file gave."""

    def __init__(self, inner: MemoryBlob) -> None:
        super().__init__(inner)
        self.pieces: list[int] = []

    async def get(self, key: str, byte_range: ByteRange | None = None) -> bytes | None:
        """See `Blob.get`."""
        data = await super().get(key, byte_range)
        if key.endswith(".parquet"):
            self.pieces.append(len(data or b""))
        return data


class Counted:
    """A session, and what its statements cost."""

    def __init__(self, client: Client, keys: KeyReader, blob: Sized, consensus: CountingConsensus) -> None:
        self.client = client
        self._keys = keys
        self._blob = blob
        self._consensus = consensus

    @property
    def row_groups(self) -> int:
        """Row groups decoded so far."""
        return self._keys.sources.rows.loaded

    @property
    def pages(self) -> int:
        """Pages of key runs read one by one so far."""
        return self._keys.sources.runs.pages_read

    @property
    def newest_piece(self) -> int:
        """Bytes of the Parquet file that were read last."""
        return self._blob.pieces[-1]

    async def cost(self, query: str) -> tuple[list[tuple[object, ...]], OperationCounts, int, int]:
        """The rows of a query, the operations on files, those on consensus, and the row groups that it read."""
        blob, consensus, groups = self._blob.counts.copy(), self._consensus.counts.copy(), self.row_groups
        (rows,) = await self.client.run(query)
        spent = (self._consensus.counts - consensus).total
        return rows, self._blob.counts - blob, spent, self.row_groups - groups


@asynccontextmanager
async def table(rows: int, scratch: Path, pad: str = "") -> AsyncIterator[Counted]:
    """A session of a server that has just been started over a table of so many rows, in no order of its keys. `pad`
    makes them longer."""
    blob, consensus = Sized(MemoryBlob()), CountingConsensus(MemoryConsensus())
    async with open_server(blob=blob, consensus=consensus, background=False, settings={"engine": "auto"}) as server:
        client = await connect(server)
        await client.run(
            "create table t (id int primary key, k int, code text, n numeric(10, 2)); create index on t (k)"
        )
        await client.run(
            f"insert into t select (g::bigint * 7919 % {rows + 1})::int, g % 997, 'code{pad}' || g, g "
            f"from generate_series(1, {rows}) g"
        )
    async with open_server(blob=blob, consensus=consensus, background=False, settings={"engine": "auto"}) as server:
        server.env.keys.use_scratch(scratch)
        yield Counted(await connect(server), server.env.keys, blob, consensus)


@pytest.mark.parametrize("rows", SIZES)
async def test_a_row_costs_the_same_at_every_size(rows: int, tmp_path: Path) -> None:
    async with table(rows, tmp_path) as counted:
        await counted.client.run("select 1 from t where id = 1")
        await counted.client.run("select 1 from t order by id limit 1")
        before = counted.row_groups
        for key in range(rows // 10, rows, rows // 10 - 1):
            for query in (
                f"select code from t where id = {key}",
                f"select n + 1 from t where id = {key} and k >= 0",
                f"select id, code from t where id in ({key}, {rows + 5})",
                f"select code from t where (id, k) >= ({key}, 0) order by id, k limit 1",
            ):
                found, files, consensus, groups = await counted.cost(query)
                assert len(found) == 1
                assert consensus == 0
                assert files.total == files["get"] <= groups + (not groups)
                assert files.bytes_read <= ROW_GROUP_BYTES
                assert groups <= 1
        assert counted.row_groups - before <= 12 * (rows > 8192)
        # Now they are all at hand.
        for key in range(rows // 10, rows, rows // 10 - 1):
            found, files, consensus, groups = await counted.cost(f"select code from t where id = {key}")
            assert (len(found), files.total, consensus, groups) == (1, 0, 0, 0)
        assert not (await counted.cost("select 1 from t where id = -1"))[0]


@pytest.mark.parametrize("rows", SIZES[1:])
async def test_as_many_row_groups_as_rows_at_most(rows: int, tmp_path: Path) -> None:
    async with table(rows, tmp_path) as counted:
        await counted.client.run("select 1 from t order by id limit 1")
        for query, most in (
            ("select code from t order by id desc limit 3", 3),
            ("select max(id) from t", 1),
            (f"select code from t where id between {rows // 2} and {rows // 2 + 2}", 5),
            (f"update t set n = n + 1 where id = {rows // 3} returning id", 1),
            (f"delete from t where id in ({rows // 5}, {rows // 5 + 1}) and k is not null returning id", 2),
        ):
            found, files, _, groups = await counted.cost(query)
            assert found
            assert groups <= most, query
            assert files["get"] <= most + 2, query


async def test_a_cold_point_read_costs_about_the_same_at_every_size(tmp_path: Path) -> None:
    """The first reading after a start: heads of key runs and a page of each, a file's footer and one row group."""
    costs = {}
    for rows in COLD_SIZES:
        async with table(rows, tmp_path, PAD) as counted:
            key = rows // 3
            found, files, _, groups = await counted.cost(f"select code from t where id = {key}")
            assert [str(row[0]).startswith("codex") for row in found] == [True]
            # The rows are in two files, and the key may be in both.
            assert (groups, counted.pages) == (1, 0 if rows == 1_000 else 2)
            costs[rows] = files.total, files.bytes_read - counted.newest_piece
            found, files, _, groups = await counted.cost(f"select code from t where id = {rows + 10}")
            assert (found, files.total, groups) == ([], 0, 0)
            found, files, _, groups = await counted.cost(f"select id from t where id between {key} and {key + 1}")
            assert [row[0] for row in found] == [key, key + 1]
            assert files.bytes_read <= 2 * (ROW_GROUP_BYTES + PAGE_BYTES)
    (small, small_bytes), (large, large_bytes) = costs.values()
    assert small > 0
    assert large <= 3 * small
    assert large_bytes <= 3 * small_bytes
