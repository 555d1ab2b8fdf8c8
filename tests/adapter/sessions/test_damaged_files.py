"""A damaged file is an error that names it, on the engine that reads it, and never a wrong answer."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adapter.engines.local import scans as local_scans
from planner.lowering.engine_errors import translate
from storage.doubles.memory_blob import MemoryBlob
from tests.adapter.harness import connect, open_server


class Damaged(MemoryBlob):
    """A store in memory whose objects a test can spoil."""

    async def spoil(self, damage: str) -> str:
        """Damage the largest part."""
        entries = [entry async for entry in self.list("parts/")]
        key = max(entries, key=lambda entry: entry.bytes).key
        data = bytearray(await self.get(key) or b"")
        match damage:
            case "bit":
                data[len(data) // 3] ^= 4
                await self.put(key, bytes(data))
            case "truncated":
                await self.put(key, bytes(data[:-100]))
            case _:
                await self.delete(key)
        return key


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize(
    ("damage", "says"),
    [("bit", "does not match its checksum"), ("truncated", "bytes, expected"), ("gone", "is not in the blob store")],
)
async def test_a_damaged_file_is_an_error(
    monkeypatch: pytest.MonkeyPatch, damage: str, says: str, memory: bool
) -> None:
    if not memory:
        # The engine opens the file itself instead of being given its rows.
        monkeypatch.setattr(local_scans, "MEMORY_BYTES", -1)
    blob = Damaged()
    async with open_server(blob=blob) as server:
        client = await connect(server)
        await client.run("create table t (a int, b text)")
        await client.run("insert into t select g, md5(g::text) || md5((g + 1)::text) from generate_series(1, 20000) g")
        key = await blob.spoil(damage)
        error = await client.error("select count(*) from t where b like '%zz%'")
        assert error.sqlstate == "XX001"
        assert says in error.message
        assert key in error.message
        assert error.hint is not None
        assert "tidegate admin fsck" in error.hint


def test_a_file_that_spark_cannot_read_is_named() -> None:
    message = (
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///data/blob/parts/s5/server-m.parquet."
        "  SQLSTATE: KD001"
    )
    error = translate("spark", message, "FAILED_READ_FILE.NO_HINT")
    assert error.sqlstate == "XX001"
    assert error.message == "file file:///data/blob/parts/s5/server-m.parquet cannot be read, or is damaged"
    assert error.hint is not None
    assert "tidegate admin fsck" in error.hint


@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
def test_a_file_that_the_local_engine_cannot_read_is_damaged(compression: str, tmp_path: Path) -> None:
    whole, spoilt = tmp_path / "whole.parquet", tmp_path / "spoilt.parquet"
    rows = pa.table({"a": range(20_000), "b": [f"row {number % 1000}" for number in range(20_000)]})
    pq.write_table(rows, str(whole), compression=compression)
    data, chance, found = whole.read_bytes(), random.Random(3), list[str]()
    for kind in ["cut", "zeros", "noise", "header"] * 15:
        spoiled = bytearray(data)
        place = chance.randrange(4, 60) if kind == "header" else chance.randrange(4, len(data) - 8)
        if kind == "cut":
            del spoiled[place:]
        else:
            put = bytes(64) if kind == "zeros" else chance.randbytes(8)
            spoiled[place : place + len(put)] = put
        spoilt.write_bytes(spoiled)
        try:
            duckdb.execute(f"SELECT sum(a), max(b) FROM read_parquet('{spoilt}')").fetchall()
        except duckdb.Error as error:
            found.append(str(error))
    assert len(found) > 15
    assert [message for message in found if translate("local", message).sqlstate != "XX001"] == []


def test_what_a_text_says_is_no_damage() -> None:
    message = "Conversion Error: Could not convert string 'Failed to read file' to INT32"
    assert translate("local", message).sqlstate != "XX001"
