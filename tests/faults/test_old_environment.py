"""An environment that an earlier version wrote, and that kill -9 ended, is served by this one, every row of it.

``tests/data/environments/before_folders.tar.xz`` was made by ``python -m tests.faults.old_environment`` with the server
of commit b78e2f4, the last one before the code was put into folders: `tests.faults.old_environment` says how and with
which statements. What it has to hold is what PostgreSQL answers after the same statements.
"""

from __future__ import annotations

import asyncio
import tarfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from storage.clock import SystemClock, SystemRandomness
from storage.environment.named_stores import StoreNames, opened_stores
from storage.offline.admin import Inspector, Overview
from storage.offline.fsck import Report, fsck
from tests.faults.old_environment import AGAIN, FIRST, LAST, QUERIES, answers, write
from tests.support.postgres import start_postgres
from tests.support.server import TidegateServer

ARCHIVE = Path(__file__).parents[1] / "data" / "environments" / "before_folders.tar.xz"


@pytest.fixture(scope="module")
def expected() -> dict[str, list[tuple[str | None, ...]]]:
    """What PostgreSQL answers."""
    with start_postgres() as postgres:
        write(postgres.dsn(), (*FIRST, *AGAIN, *LAST))
        return answers(postgres.dsn())


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """The old environment, as the kill left it."""
    folder = tmp_path / "data"
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.fixture
def old(data_dir: Path) -> Iterator[TidegateServer]:
    """A server of today over the old environment, started."""
    server = TidegateServer(data_dir, arguments=("--spark-start", "lazy"))
    server.start()
    yield server
    server.kill()


def inspected(data_dir: Path) -> tuple[Overview, Report]:
    """What is outstanding in the environment, and whether it is whole."""

    async def look() -> tuple[Overview, Report]:
        clock = SystemClock()
        async with opened_stores(StoreNames(data_dir=data_dir), clock) as (blob, consensus):
            inspector = Inspector(blob=blob, consensus=consensus, clock=clock, random=SystemRandomness())
            return await inspector.overview(), await fsck(inspector)

    return asyncio.run(look())


def test_the_kill_left_work_of_every_kind(data_dir: Path) -> None:
    overview, report = inspected(data_dir)
    assert report.problems == ()
    assert len(overview.staged) == 1
    assert overview.pending_writes > len(overview.staged)
    assert sum(shard.unapplied_writes for shard in overview.shards) > 5
    assert len(overview.leases) == 1
    assert any(shard.files and shard.inline_parts and shard.delete_parts for shard in overview.shards)
    assert [usage.prefix for usage in overview.blobs if usage.objects] == ["parts/", "rollups/"]


def test_every_row_is_there(old: TidegateServer, expected: dict[str, list[tuple[str | None, ...]]]) -> None:
    found = answers(old.dsn())
    for query in QUERIES:
        assert found[query] == expected[query], query
    # Again after a crash of today's server, and after a clean stop, which applies what was left.
    old.kill()
    old.start()
    assert answers(old.dsn()) == expected
    assert old.stop() == 0
    overview, report = inspected(old.data_dir)
    assert report.problems == ()
    assert overview.pending_writes == len(overview.staged) == len(overview.leases) == 0
    old.start()
    assert answers(old.dsn()) == expected


def test_it_is_written_to_as_ever(old: TidegateServer) -> None:
    with psycopg.connect(old.dsn(), autocommit=True) as connection:
        # Numbers that were drawn before are not drawn again, and those after them keep the step.
        drawn = connection.execute("SELECT nextval('numbers'), nextval('placed')").fetchone()
        assert drawn is not None
        assert drawn[0] > 105
        assert drawn[0] % 5 == 0
        assert drawn[1] > 4711
        connection.execute("INSERT INTO counted (what) VALUES ('later')")
        assert connection.execute("SELECT count(*), count(DISTINCT id) FROM counted").fetchone() == (4, 4)
        connection.execute("DELETE FROM sales.orders WHERE id > 40000")
        connection.execute("UPDATE small SET squared = 0 WHERE n = 1001")
        connection.execute("ALTER TABLE grown ADD COLUMN d text DEFAULT 'today'")
        assert connection.execute("SELECT max(id) FROM sales.orders").fetchone() == (40000,)
        assert connection.execute("SELECT squared FROM small WHERE n = 1001").fetchone() == (0,)
        assert connection.execute("SELECT a, d FROM grown ORDER BY a").fetchone() == (1, "today")
    with psycopg.connect(old.dsn() + " user=clerk", autocommit=True) as connection:
        assert connection.execute("SHOW datestyle").fetchone() == ("German, DMY",)
