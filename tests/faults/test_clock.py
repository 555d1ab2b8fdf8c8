"""A system clock that jumps an hour ahead, back and two hours back, under real servers and a real load.

The servers run under libfaketime, whose offset is changed while they run. CSNs are read from the txns shard itself.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

from storage.clock import SystemClock, SystemRandomness
from storage.environment.named_stores import StoreNames, opened_stores
from storage.offline.admin import Inspector
from storage.timestamps.csn import Csn
from tests.faults.rounds import Load, Tally, check_round, prepare
from tests.storage.store_servers import postgres_url
from tests.support.postgres import start_postgres
from tests.support.server import TidegateServer

HOUR_S = 3600
LIBRARIES = "*/faketime/libfaketimeMT.so.1"
"""Where Debian has it below /usr/lib, whatever the processor."""

GO_ON_S = 120.0


def library() -> Path:
    """Debian's libfaketime. Skips where it is not installed, and fails where that may not be."""
    found = next(Path("/usr/lib").glob(LIBRARIES), None)
    if found is None:
        assert not os.environ.get("CI"), "libfaketime is missing; install Debian's package libfaketime"
        pytest.skip("libfaketime is not installed")
    return found


class FakeClock:
    """The clock of one server: `set` moves it by seconds against the real one, also while the server runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.set(0)

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process go by this clock. Durations stay real."""
        return {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_CACHE_DURATION": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, seconds: int) -> None:
        """Let the clock be `seconds` ahead of the real one."""
        # NOTE: replaced as a whole. An empty file would be read as no offset at all.
        new = self._path.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self._path)


class Witness:
    """Commits one transaction after another, each begun after the one before was acknowledged, on whatever server."""

    def __init__(self) -> None:
        self.xids: list[int] = []

    def commit(self, server: TidegateServer, count: int) -> None:
        """Commits `count` transactions; each reads what the one before wrote."""
        with psycopg.connect(server.dsn()) as connection:
            for _ in range(count):
                seen = connection.execute("SELECT coalesce(max(n), 0), count(*) FROM witness").fetchone()
                assert seen == (len(self.xids), len(self.xids)), "a later snapshot misses an acknowledged commit"
                xid = connection.execute("SELECT txid_current()").fetchone()
                assert xid is not None
                connection.execute("INSERT INTO witness VALUES (%s)", (len(self.xids) + 1,))
                connection.commit()
                self.xids.append(xid[0])


async def outcomes(names: StoreNames) -> dict[int, Csn]:
    """CSNs by xid, from the txns shard."""
    clock = SystemClock()
    async with opened_stores(names, clock) as (blob, consensus):
        inspector = Inspector(blob=blob, consensus=consensus, clock=clock, random=SystemRandomness())
        return dict((await inspector.txns()).outcomes)


def wait_for_clock(server: TidegateServer, seconds: int) -> None:
    """Return once the server's clock is `seconds` ahead of the real one."""
    deadline = time.monotonic() + GO_ON_S
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        while True:
            found = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
            assert found is not None
            if abs(found[0] - time.time() - seconds) < HOUR_S / 60:
                return
            assert time.monotonic() < deadline, "the clock did not jump"
            time.sleep(0.1)


@contextmanager
def two_servers(store: str, folder: Path) -> Iterator[tuple[list[TidegateServer], list[FakeClock], StoreNames]]:
    """Two servers, not started, each with a clock of its own, on one environment."""
    with ExitStack() as stack:
        arguments: tuple[str, ...] = ("--spark-start", "lazy", "--set", "engine=local")
        names = StoreNames(data_dir=folder / "data")
        if store == "postgres":
            url = postgres_url(stack.enter_context(start_postgres()))
            arguments += ("--consensus", url)
            names = StoreNames(data_dir=folder / "data", consensus=url)
        clocks = [FakeClock(folder / f"{name}.clock") for name in ("one", "two")]
        servers = []
        for number, clock in enumerate(clocks):
            server = TidegateServer(folder / "data", arguments=arguments, environment=clock.environment)
            server.log = folder / f"{number}.log"
            stack.callback(server.kill)
            servers.append(server)
        yield servers, clocks, names


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_clock_that_jumps_loses_nothing_and_keeps_the_order(store: str, tmp_path: Path) -> None:
    with two_servers(store, tmp_path) as ((one, two), (first, second), names):
        one.start()
        prepare(one)
        with psycopg.connect(one.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE witness (n int NOT NULL)")
        witness = Witness()
        progress = threading.Semaphore(0)
        load = Load(one, 0, 1, progress)
        load.start()
        witness.commit(one, 1)
        for seconds in (HOUR_S, -HOUR_S, 0):
            first.set(seconds)
            wait_for_clock(one, seconds)
            witness.commit(one, 1)
            while progress.acquire(blocking=False):
                pass
            assert progress.acquire(timeout=GO_ON_S), "commits do not go on"
        assert one.output().count("the system clock jumped") >= 3
        assert "seconds=3600" in one.output()

        # A second server joins whose clock is an hour behind, and the first one dies.
        second.set(-HOUR_S)
        two.start()
        witness.commit(two, 1)
        witness.commit(one, 1)
        first.set(HOUR_S)
        wait_for_clock(one, HOUR_S)
        witness.commit(one, 1)
        witness.commit(two, 1)
        one.kill()
        load.join()
        assert load.failure is None, f"{load.failure!r}\n{one.output()[-3000:]}"
        witness.commit(two, 1)
        assert load.outcomes.acknowledged
        check_round(0, two, [load.outcomes], Tally())
        assert two.stop() == 0

        # Started again with a clock far behind what has been committed.
        first.set(-HOUR_S)
        one.start()
        assert "the newest commit is ahead of the system clock" in one.output()
        witness.commit(one, 1)
        check_round(0, one, [load.outcomes], Tally())
        csns = asyncio.run(outcomes(names))
        order = [csns[xid] for xid in witness.xids]
        assert order == sorted(set(order)), "CSNs do not follow the order of the commits"
        assert one.stop() == 0
