"""pg_stat_progress_copy: what others see of a COPY that runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.server import TidegateServer, run_server

Client = psycopg.Connection[tuple[Any, ...]]

PROGRESS = (
    "SELECT relid::regclass::text, command, type, bytes_processed, bytes_total, tuples_processed, tuples_excluded"
    " FROM pg_stat_progress_copy WHERE pid = %s"
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the server may use."""
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module", params=[1, 2])
def server(
    lake: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[TidegateServer]:
    """A server of one process, and one of two."""
    arguments = ("--allow-path", str(lake), "--workers", str(request.param))
    with run_server(tmp_path_factory.mktemp("data") / "data", arguments=arguments) as running:
        with psycopg.connect(running.dsn(), autocommit=True) as admin:
            admin.execute("CREATE TABLE t (a int, b text); CREATE ROLE passer_by LOGIN")
        yield running


def seen(watcher: Client, pid: int, enough: Callable[[tuple[Any, ...]], bool]) -> tuple[Any, ...]:
    """The row of a session, once it is as wanted."""
    deadline = time.monotonic() + 20
    found: list[tuple[Any, ...]] = []
    while time.monotonic() < deadline:
        found = watcher.execute(PROGRESS, (pid,)).fetchall()
        if found and enough(found[0]):
            return found[0]
        time.sleep(0.02)
    raise AssertionError(found)


def test_rows_of_a_client_are_counted_as_they_come(server: TidegateServer) -> None:
    with (
        psycopg.connect(server.dsn(), autocommit=True) as copying,
        psycopg.connect(server.dsn(), autocommit=True) as watcher,
        psycopg.connect(f"{server.dsn()} user=passer_by", autocommit=True) as stranger,
    ):
        pid = copying.info.backend_pid
        assert watcher.execute(PROGRESS, (pid,)).fetchall() == []
        with copying.cursor() as cursor:
            with cursor.copy("COPY t FROM STDIN WHERE a % 2 = 0") as copy:
                data = "".join(f"{number}\tsome text that takes room\n" for number in range(200_000)).encode()
                copy.write(data)
                row = seen(watcher, pid, lambda row: row[5] > 0)
                assert row[:3] == ("t", "COPY FROM", "PIPE")
                assert 0 < row[3] <= len(data)
                assert row[4] == 0
                assert abs(row[5] - row[6]) <= 1
                (hidden,) = stranger.execute(PROGRESS, (pid,)).fetchall()
                assert hidden == (None,) * 7
            assert cursor.rowcount == 100_000
        assert watcher.execute(PROGRESS, (pid,)).fetchall() == []


def test_rows_to_a_client_are_counted(server: TidegateServer) -> None:
    with (
        psycopg.connect(server.dsn(), autocommit=True) as copying,
        psycopg.connect(server.dsn(), autocommit=True) as watcher,
        copying.cursor() as cursor,
    ):
        text = "COPY (SELECT g, repeat('x', 100) FROM generate_series(1, 600000) g) TO STDOUT"
        with cursor.copy(text) as copy:
            next(iter(copy))
            row = seen(watcher, copying.info.backend_pid, lambda row: row[5] > 0)
            assert (row[0], row[1], row[2]) == ("-", "COPY TO", "PIPE")
            assert row[3] > 100 * row[5]
            for _ in copy:
                pass


def test_files_have_a_total(server: TidegateServer, lake: Path) -> None:
    (lake / "rows.csv").write_text("".join(f"{number},text\n" for number in range(600_000)))
    with (
        psycopg.connect(server.dsn(), autocommit=True) as copying,
        psycopg.connect(server.dsn(), autocommit=True) as watcher,
    ):
        import threading

        pid, rows = copying.info.backend_pid, []
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                rows.extend(watcher.execute(PROGRESS, (pid,)).fetchall())

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            copying.execute(f"COPY t FROM '{lake}/rows.csv' (FORMAT csv)")
            copying.execute(f"COPY t TO '{lake}/out.parquet'")
        finally:
            done.set()
            thread.join()
    size = (lake / "rows.csv").stat().st_size
    loads = [row for row in rows if row[1] == "COPY FROM"]
    assert loads
    assert {row[:3] for row in loads} == {("t", "COPY FROM", "FILE")}
    assert max(row[4] for row in loads) == size
    assert all(row[3] <= size for row in loads)
    assert max(row[5] for row in loads) > 0
    assert {row[:3] for row in rows} - {("t", "COPY FROM", "FILE")} <= {("t", "COPY TO", "FILE")}
