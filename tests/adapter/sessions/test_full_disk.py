"""What goes on when little room is left on the disk: everything that adds nothing."""

from __future__ import annotations

import pytest

from planner.errors import DiskFull
from storage.doubles.memory_consensus import MemoryConsensus
from storage.errors import StoreFull
from tests.adapter.harness import connect, open_server

LONG = "repeat(md5(g::text), 20)"
REFUSED = [
    "insert into t values (7, 'x')",
    f"insert into t select g, {LONG} from generate_series(5000, 9000) g",
    "update t set b = 'y' where a = 1",
    "begin; insert into t values (7, 'x'); commit",
    "create table new as select 1 as one",
]
GOES_ON = [
    "select count(*) from t",
    "select b from t where a = 3",
    "begin; select * from t where a = 2 for update; commit",
    "vacuum t",
    "truncate u",
    "drop table t",
    "vacuum",
]


class FillingConsensus(MemoryConsensus):
    """A store that says when little room is left."""

    is_low = False


async def test_what_adds_nothing_goes_on() -> None:
    consensus = FillingConsensus()
    async with open_server(consensus=consensus) as server:
        client = await connect(server)
        await client.run(f"create table t as select g as a, {LONG} as b from generate_series(1, 3000) g")
        await client.run("create table u (a int primary key); insert into u values (1), (2)")
        consensus.is_low = True
        for statement in REFUSED:
            error = await client.error(statement)
            assert error.sqlstate == "53100", statement
            await client.run("rollback")
        other = await connect(server)
        assert await other.value("select count(*) from t") == 3000
        assert await other.value("select count(*) from u") == 2
        for statement in GOES_ON:
            await other.run(statement)
        consensus.is_low = False
        assert await client.value("select count(*) from u") == 0
        await client.run("insert into u values (3)")


async def test_who_comes_when_the_store_fails_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_server() as server:

        async def full(*_: object) -> None:
            raise StoreFull("could not write: the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(server.env.oracle, "read_ts", full)
            with pytest.raises(DiskFull) as told:
                await connect(server)
        assert told.value.fatal
        assert "the disk is full" in told.value.message
        assert await (await connect(server)).value("select 1") == 1
