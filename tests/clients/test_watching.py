"""The relations of schema tidegate that tell what servers are doing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from tests.support.server import TidegateServer, run_server


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    data_dir = tmp_path_factory.mktemp("watched") / "data"
    with run_server(
        data_dir, arguments=("--spark-start", "lazy", "--workers", "2", "--set", "max_prepared_transactions=2")
    ) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
            connection.execute("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 100) g")
            connection.execute("CREATE ROLE plain LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_monitor")
        yield server


def connect(server: TidegateServer, user: str = "postgres") -> psycopg.Connection[DictRow]:
    """A session whose rows are dictionaries."""
    dsn = server.dsn().replace("user=postgres", f"user={user}")
    return psycopg.connect(dsn, autocommit=True, row_factory=dict_row)


def rows(connection: psycopg.Connection[DictRow], relation: str, condition: str = "true") -> list[DictRow]:
    """The rows of a relation of schema tidegate."""
    return connection.execute(f"SELECT * FROM tidegate.{relation} WHERE {condition}".encode()).fetchall()


def test_sessions_and_statements_of_all_workers(watched: TidegateServer) -> None:
    others = [connect(watched) for _ in range(4)]
    with connect(watched, "watcher") as watcher:
        others[0].execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        others[0].execute("UPDATE t SET b = 'y' WHERE a = 1")
        waiting = threading.Thread(target=lambda: others[1].execute("UPDATE t SET b = 'z' WHERE a = 1"))
        sleeping = threading.Thread(target=lambda: others[2].execute("SELECT pg_sleep(1.5)"))
        for thread in (waiting, sleeping):
            thread.start()
        time.sleep(0.7)
        found = {row["pid"]: row for row in rows(watcher, "sessions")}
        pids = [other.info.backend_pid for other in others]
        assert {row["worker"] for row in found.values()} == {0, 1}
        assert [found[pid]["state"] for pid in pids] == ["idle in transaction", "active", "active", "idle"]
        assert found[pids[0]]["isolation"] == "read committed"
        assert found[pids[0]]["transaction_began_at"] is not None
        assert found[pids[3]]["transaction_began_at"] is None
        running = {row["pid"]: row for row in rows(watcher, "statements")}
        assert set(running) == {pids[1], pids[2], watcher.info.backend_pid}
        assert timedelta(seconds=0.3) < running[pids[2]]["elapsed"] < timedelta(seconds=30)
        assert running[pids[2]]["statement"].startswith("SELECT pg_sleep(1.5)")
        open_ones = {row["pid"] for row in rows(watcher, "transactions", "kind = 'open'")}
        assert {pids[0], pids[1], pids[2]} <= open_ones
        with connect(watched, "plain") as plain:
            seen = {row["pid"]: row for row in rows(plain, "sessions")}
            assert set(seen) >= set(pids)
            assert all(seen[pid]["statement"] is None and seen[pid]["usename"] is None for pid in pids)
            assert seen[plain.info.backend_pid]["usename"] == "plain"
            assert [row["pid"] for row in rows(plain, "statements")] == [plain.info.backend_pid]
        others[0].execute("COMMIT")
        waiting.join()
        sleeping.join()
    for other in others:
        other.close()


@pytest.mark.parametrize("relation", ["transactions", "shards", "servers", "oracle", "engines"])
def test_the_environment_is_for_who_may_watch(relation: str, watched: TidegateServer) -> None:
    with connect(watched, "plain") as plain:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match=f"permission denied for view {relation}"):
            rows(plain, relation)
        assert plain.execute("SELECT 1 AS one").fetchall() == [{"one": 1}]


def test_the_environment(watched: TidegateServer) -> None:
    with connect(watched, "watcher") as watcher, connect(watched) as one:
        one.execute("BEGIN")
        one.execute("INSERT INTO t VALUES (1000, 'prepared')")
        one.execute("PREPARE TRANSACTION 'later'")
        (prepared,) = rows(watcher, "transactions", "kind = 'prepared'")
        assert prepared["gid"] == "later"
        (oracle,) = rows(watcher, "oracle")
        assert (oracle["prepared"], oracle["servers"], oracle["asks_store"]) == (1, 2, False)
        assert oracle["csn"] >= prepared["csn"]
        one.execute("ROLLBACK PREPARED 'later'")
        servers = rows(watcher, "servers")
        assert len(servers) == 2
        assert sum(server["is_this"] for server in servers) == 1
        (shard,) = rows(watcher, "shards", "relation = 't'")
        assert (shard["rows"], shard["relid"]) == (100, 16384)
        assert shard["bytes"] > 0
        assert shard["since"] <= oracle["csn"]
        engines = {row["engine"]: row for row in rows(watcher, "engines")}
        assert set(engines) == {"local", "spark"}
        assert not engines["spark"]["is_started"]
        deadline = time.monotonic() + 30
        while rows(watcher, "transactions", "kind = 'unapplied'") and time.monotonic() < deadline:
            time.sleep(0.1)
        assert rows(watcher, "transactions", "kind IN ('unapplied', 'staged', 'prepared')") == []


def test_what_a_role_is_told_of_other_sessions(watched: TidegateServer) -> None:
    others = [connect(watched) for _ in range(2)]
    pids = [other.info.backend_pid for other in others]
    wanted = "SELECT pid, query, client_port IS NULL AS hidden, state FROM pg_stat_activity WHERE pid = ANY(%s)"
    with connect(watched, "plain") as plain, connect(watched, "watcher") as watcher:
        told = plain.execute(wanted, (pids,)).fetchall()
        assert {row["pid"] for row in told} == set(pids)
        assert all(row["query"] == "<insufficient privilege>" and row["hidden"] for row in told)
        assert not any(row["hidden"] for row in watcher.execute(wanted, (pids,)).fetchall())
        encrypted = "SELECT pid FROM pg_stat_ssl WHERE pid = ANY(%s)"
        assert not plain.execute(encrypted, (pids,)).fetchall()
        assert len(watcher.execute(encrypted, (pids,)).fetchall()) == 2


def test_who_may_signal_whom(watched: TidegateServer) -> None:
    superusers, plains = [connect(watched) for _ in range(2)], [connect(watched, "plain") for _ in range(4)]
    superusers[0].execute("CREATE ROLE signaller LOGIN IN ROLE pg_signal_backend")
    with connect(watched, "watcher") as watcher, connect(watched, "signaller") as signaller:
        for session in (watcher, signaller):
            for target in superusers:
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be a superuser to cancel"):
                    session.execute("SELECT pg_cancel_backend(%s)", (target.info.backend_pid,))
        for target in plains:
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="member of pg_signal_backend"):
                watcher.execute("SELECT pg_terminate_backend(%s)", (target.info.backend_pid,))
        ended = plains[0].info.backend_pid
        assert signaller.execute("SELECT pg_terminate_backend(%s) AS done", (ended,)).fetchone() == {"done": True}
        own = plains[2].execute("SELECT pg_cancel_backend(%s) AS done", (plains[1].info.backend_pid,))
        assert own.fetchone() == {"done": True}
    superusers[1].execute("SELECT 1")
