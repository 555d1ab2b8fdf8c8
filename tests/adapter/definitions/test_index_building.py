"""The files of a table have the key runs of a new index when the statement that makes it is done."""

from __future__ import annotations

import pytest

from adapter.sessions.server import Server
from storage.catalog.model import Relation
from tests.adapter.harness import Client, connect

ADDED = {
    "CREATE INDEX": "CREATE INDEX i ON t (n)",
    "an expression": "CREATE INDEX i ON t (lower(label))",
    "CONCURRENTLY": "CREATE INDEX CONCURRENTLY i ON t (n)",
    "UNIQUE": "CREATE UNIQUE INDEX i ON t (id)",
    "ADD PRIMARY KEY": "ALTER TABLE t ADD PRIMARY KEY (id)",
    "ADD UNIQUE": "ALTER TABLE t ADD CONSTRAINT i UNIQUE (id)",
    "EXCLUDE": "ALTER TABLE t ADD CONSTRAINT i EXCLUDE USING btree (id WITH =)",
}


async def filled(client: Client) -> None:
    await client.run("CREATE TABLE t (id int, n int, label text)")
    await client.run("INSERT INTO t SELECT g, g % 10, repeat(md5(g::text), 20) FROM generate_series(1, 3000) g")


def run_counts(server: Server) -> list[int]:
    """For each file of the table t, how many indexes it has key runs of."""
    catalog = server.env.catalog.current()
    (table,) = [record for record in catalog.all() if isinstance(record, Relation) and record.name == "t"]
    assert table.shard is not None
    handle = server.env.handles.opened(table.shard)
    assert handle is not None
    files = [part for part in handle.state.parts.values() if part.key is not None and part.kind == "insert"]
    return [len(part.runs) for part in files]


@pytest.mark.parametrize("added", ADDED)
async def test_files_have_the_runs_of_a_new_index(server: Server, added: str) -> None:
    client = await connect(server)
    await filled(client)
    await client.run(ADDED[added])
    assert run_counts(server) == [1]


async def test_runs_of_an_index_that_does_not_come_go_again(server: Server) -> None:
    client = await connect(server)
    await filled(client)
    await client.run("BEGIN; CREATE INDEX i ON t (n)")
    assert run_counts(server) == [1]
    await client.run("ROLLBACK")
    (table,) = [record for record in server.env.catalog.current().all() if isinstance(record, Relation)]
    assert table.shard is not None
    await server.env.maintenance.indexer.index(table.shard)
    assert run_counts(server) == [0]
    assert await client.value("SELECT count(*) FROM t WHERE n = 3") == 300
