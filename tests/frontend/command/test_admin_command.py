"""`tidegate admin` on a data directory, while a server has it open and afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frontend.command.main import main
from storage.catalog.model import CatalogUpdate, Column, Relation
from storage.environment.environment import Environment
from storage.environment.local_environment import open_local_environment
from tests.storage.environments import SCHEMA, commit, deletion, read, rows

PUBLIC = 2200


async def populate(env: Environment) -> None:
    shard = env.new_shard_id()
    txn = env.begin()
    txn.create_shard(shard, SCHEMA)
    txn.write(shard, rows(*[(n, "x" * 200) for n in range(1000)]))
    columns = (Column(attnum=1, name="number", type_oid=20), Column(attnum=2, name="text", type_oid=25))
    relation = Relation(
        oid=env.catalog.current().next_oid, name="t", schema=PUBLIC, owner=10, kind="r", columns=columns, shard=shard
    )
    txn.update_catalog([CatalogUpdate(record=relation, diff=1)])
    await commit(env, txn)
    txn = env.begin()
    txn.delete(shard, deletion((0, 0, "x" * 200)))
    await commit(env, txn)
    assert len(await read(env, shard)) == 999


async def run(*arguments: str) -> int:
    """The command in a thread of its own, as it brings its own event loop."""
    return await asyncio.to_thread(main, arguments)


async def test_beside_a_running_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    env = await open_local_environment(data)
    await populate(env)
    assert await run("admin", "--data-dir", str(data), "overview") == 0
    told = capsys.readouterr().out
    assert env.process in told
    assert "public.t" in told
    assert await run("admin", "fsck", "--data-dir", str(data)) == 0
    assert "clean" in capsys.readouterr().out
    assert await run("admin", "--data-dir", str(data), "export", "t", str(tmp_path / "out")) == 0
    assert "999 rows of t" in capsys.readouterr().out
    table = pq.read_table(tmp_path / "out")
    assert table.column_names == ["number", "text"]
    assert sorted(table.column("number").to_pylist()) == list(range(1, 1000))
    assert await run("admin", "--data-dir", str(data), "export", "nothing", str(tmp_path / "other")) == 1
    assert 'no table "nothing"' in capsys.readouterr().err
    await env.close()


async def test_damage_makes_the_check_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env = await open_local_environment(tmp_path)
    await populate(env)
    await env.close()
    (part,) = await asyncio.to_thread(lambda: list((tmp_path / "blob" / "parts").rglob("*.parquet")))
    data = await asyncio.to_thread(part.read_bytes)
    await asyncio.to_thread(part.write_bytes, data[:200] + b"?" + data[201:])
    assert await run("admin", "--data-dir", str(tmp_path), "fsck") == 1
    assert "does not match its checksum" in capsys.readouterr().out


async def test_a_folder_without_an_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert await run("admin", "--data-dir", str(tmp_path), "overview") == 1
    assert "holds no Tidegate environment" in capsys.readouterr().err
    assert await asyncio.to_thread(lambda: list(tmp_path.iterdir())) == []


async def test_a_clone_beside_a_running_server_and_columns_that_were_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    env = await open_local_environment(data, peers=True)
    await populate(env)
    before = await env.oracle.read_ts("user")
    async with await env.leases.hold(list(env.cache.state.registered), before):
        relation = next(r for r in env.catalog.current().all() if isinstance(r, Relation) and r.name == "t")
        assert relation.shard is not None
        wide = SCHEMA.append(pa.field("c3", pa.int32()))
        txn = env.begin()
        txn.alter_schema(relation.shard, wide)
        txn.write(relation.shard, pa.table({"c1": [5000], "c2": ["new"], "c3": [7]}, schema=wide))
        added = Column(attnum=3, name="added", type_oid=23, missing="42")
        changed = msgspec.structs.replace(relation, columns=(*relation.columns, added))
        txn.update_catalog([CatalogUpdate(record=relation, diff=-1), CatalogUpdate(record=changed, diff=1)])
        await commit(env, txn)

        assert await run("admin", "--data-dir", str(data), "export", "t", str(tmp_path / "out")) == 0
        exported = pq.read_table(tmp_path / "out").to_pylist()
        assert {row["added"] for row in exported} == {42, 7}
        assert len(exported) == 1000

        assert await run("admin", "--data-dir", str(data), "clone", "t", "t_now") == 0
        assert "1000 rows of t" in capsys.readouterr().out
        assert await run("admin", "--data-dir", str(data), "clone", "public.t", "t_then", "--as-of", str(before)) == 0
        assert "999 rows" in capsys.readouterr().out
        assert await run("admin", "--data-dir", str(data), "clone", "t", "t_now") == 1
        assert "exists already" in capsys.readouterr().err
        assert await run("admin", "--data-dir", str(data), "clone", "t", "nowhere.t") == 1
        assert "no schema" in capsys.readouterr().err
        assert await run("admin", "--data-dir", str(data), "clone", "t", "x", "--as-of", str(before + 10**15)) == 1
        assert "nothing is decided yet" in capsys.readouterr().err

    # Each of them was a peer for as long as it ran; the server is alone again and takes timestamps by itself.
    for _ in range(200):
        if env.leases.sole and not env.oracle.asks_store:
            break
        await asyncio.sleep(0.05)
    assert env.leases.sole
    assert not env.oracle.asks_store
    # The server that was there all the time has both, and so has who checks.
    now = await env.oracle.read_ts("user")
    catalog = await env.catalog.snapshot_at(await env.oracle.read_ts("catalog"))
    clones = {r.name: r for r in catalog.all() if isinstance(r, Relation) and r.name.startswith("t_")}
    assert sorted(clones) == ["t_now", "t_then"]
    for name, rows_there in (("t_now", 1000), ("t_then", 999)):
        shard = clones[name].shard
        assert shard is not None
        contents = await read(env, shard, now, ("c1", "c3"))
        assert len(contents) == rows_there
        assert (1, 42) in contents.values() or name == "t_then"
    assert await run("admin", "--data-dir", str(data), "fsck") == 0
    await env.close()


async def test_a_clone_makes_no_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert await run("admin", "--data-dir", str(tmp_path), "clone", "t", "u") == 1
    assert "holds no Tidegate environment" in capsys.readouterr().err
    assert await asyncio.to_thread(lambda: list(tmp_path.iterdir())) == []
