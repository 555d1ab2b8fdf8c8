"""Damaged consensus stores and data directories that are none: what is wrong is named before anything is done."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.catalog.model import Sequence
from storage.catalog.oids import OID_KEY
from storage.catalog.sequences import SEQUENCE_PREFIX, SequenceStore
from storage.clock import SystemClock
from storage.doubles.clock import SeededRandomness
from storage.durable.state import unframed
from storage.environment.local_environment import open_local_environment
from storage.errors import CorruptData, ForeignEnvironment, StorageError
from storage.offline.admin import Inspector
from storage.offline.fsck import fsck
from storage.stores.blob_local import LocalBlob
from storage.stores.consensus_sqlite import SqliteConsensus
from storage.timestamps.in_process import WINDOW_KEY
from storage.transactions.xid_blocks import XID_KEY
from tests.storage.environments import create, insert, read

SEQUENCE = Sequence(oid=20000, name="s", schema=2200, owner=10)


async def used(data: Path) -> None:
    """An environment with some of everything, closed."""
    env = await open_local_environment(data, peers=True)
    shard = await create(env, (1, "a"))
    for number in range(40):
        await insert(env, shard, (number, "x" * 100))
    await env.oids.provide(16384)
    await env.xids.draw()
    await SequenceStore(env.consensus, env.clock).next_values(SEQUENCE, 1)
    assert len(await read(env, shard)) == 41
    await env.close()


def flip(data: Path, key: str) -> None:
    """Flip a bit in the middle of the newest value of `key`."""
    with sqlite3.connect(data / "consensus.sqlite") as store:
        newest = "SELECT seqno, data FROM diff WHERE key = ? ORDER BY seqno DESC LIMIT 1"
        ((seqno, value),) = store.execute(newest, (key,)).fetchall()
        changed = bytearray(value)
        changed[len(changed) // 2] ^= 1
        store.execute("UPDATE diff SET data = ? WHERE key = ? AND seqno = ?", (bytes(changed), key, seqno))
    store.close()


async def problems(data: Path) -> str:
    """What fsck says of `data`."""
    consensus = await SqliteConsensus.open(data / "consensus.sqlite")
    try:
        inspector = Inspector(
            blob=LocalBlob(data / "blob"), consensus=consensus, clock=SystemClock(), random=SeededRandomness(1)
        )
        return "\n".join(f"{problem.where}: {problem.what}" for problem in (await fsck(inspector)).problems)
    finally:
        await consensus.close()


@pytest.mark.parametrize("key", [OID_KEY, XID_KEY, WINDOW_KEY, f"{SEQUENCE_PREFIX}{SEQUENCE.oid}"])
async def test_a_reservation_whose_bit_flipped_is_named_and_gives_nothing_out_twice(tmp_path: Path, key: str) -> None:
    data = tmp_path / "data"
    await used(data)
    assert await problems(data) == ""
    await asyncio.to_thread(flip, data, key)
    assert "does not match its checksum; restore it from a backup" in await problems(data)
    with pytest.raises(CorruptData, match="does not match its checksum; restore it from a backup"):
        await take_one_of_each(data)


async def test_reservations_of_earlier_versions_are_read(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await used(data)

    def rewrite() -> None:
        with sqlite3.connect(data / "consensus.sqlite") as store:
            for key in (OID_KEY, XID_KEY, WINDOW_KEY, f"{SEQUENCE_PREFIX}{SEQUENCE.oid}"):
                ((value,),) = store.execute("SELECT data FROM diff WHERE key = ? ORDER BY seqno DESC LIMIT 1", (key,))
                plain = unframed(value, key)
                store.execute("UPDATE diff SET data = ? WHERE key = ?", (plain, key))
        store.close()

    await asyncio.to_thread(rewrite)
    env = await open_local_environment(data, peers=True)
    await env.oids.provide(16384)
    assert env.oids.take() >= 16384 + 16384
    assert await env.xids.draw() > 4096
    assert (await SequenceStore(env.consensus, env.clock).next_values(SEQUENCE, 1))[0] > 32
    await env.close()


async def take_one_of_each(data: Path) -> None:
    """Open the environment and have something of each reservation given out."""
    env = await open_local_environment(data, peers=True)
    try:
        await env.oids.provide(16384)
        await env.xids.draw()
        await SequenceStore(env.consensus, env.clock).next_values(SEQUENCE, 1)
    finally:
        await env.close()


def emptied_page(path: Path) -> None:
    """Make the root of the table look like an empty page."""
    content = bytearray(path.read_bytes())
    content[4096 + 3 : 4096 + 5] = b"\x00\x00"
    path.write_bytes(content)


def scattered_bits(path: Path) -> None:
    """Flip bits all over the file."""
    content = bytearray(path.read_bytes())
    for number in range(20):
        content[4096 + number * 7919 % (len(content) - 4096)] ^= 8
    path.write_bytes(content)


def half(path: Path) -> None:
    """Cut the file off."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("damage", [emptied_page, scattered_bits, half])
async def test_a_damaged_consensus_file_is_named_and_left_alone(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    data = tmp_path / "data"
    await used(data)
    path = data / "consensus.sqlite"
    await asyncio.to_thread(damage, path)
    before = await asyncio.to_thread(path.read_bytes)
    with pytest.raises(CorruptData, match=r"consensus\.sqlite is damaged: .*restore it from a backup"):
        await open_local_environment(data, peers=True)
    assert await asyncio.to_thread(path.read_bytes) == before


async def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    def fill() -> None:
        (tmp_path / "PG_VERSION").write_text("15\n")
        (tmp_path / "base").mkdir()

    await asyncio.to_thread(fill)
    with pytest.raises(ForeignEnvironment, match=r"is not empty and holds no Tidegate environment.*PG_VERSION, base"):
        await open_local_environment(tmp_path, peers=True)
    assert await asyncio.to_thread(lambda: sorted(entry.name for entry in tmp_path.iterdir())) == ["PG_VERSION", "base"]


async def test_half_an_environment_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await used(data)

    def lose_consensus() -> None:
        for file in data.glob("consensus.sqlite*"):
            file.unlink()

    await asyncio.to_thread(lose_consensus)
    with pytest.raises(StorageError, match="the consensus store is empty; restore the consensus store from a backup"):
        await open_local_environment(data, peers=True)
    with pytest.raises(StorageError, match="the consensus store is empty; restore the consensus store from a backup"):
        await problems(data)
