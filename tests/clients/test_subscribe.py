"""SUBSCRIBE over the wire: changes reach a client of COPY as they come, a cancel request ends it, and the commands of
docs/time-travel.md work."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.clients.test_psql import psql
from tests.clients.test_readme import pattern, tour
from tests.support.server import TidegateServer, run_server

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """A server with a table."""
    with run_server(tmp_path_factory.mktemp("subscribe") / "data") as running:
        yield running


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_copy_sends_each_change_as_it_comes_and_can_be_cancelled(server: TidegateServer, engine: str) -> None:
    with (
        psycopg.connect(server.dsn(), autocommit=True) as writer,
        psycopg.connect(server.dsn(), autocommit=True) as reader,
    ):
        writer.execute("DROP TABLE IF EXISTS t")
        writer.execute("CREATE TABLE t (id int, name text)")
        writer.execute("INSERT INTO t VALUES (1, 'one')")
        reader.execute(f"SET tidegate.engine = '{engine}'")
        seen: list[tuple[Any, ...]] = []
        failed: list[psycopg.Error] = []

        def follow() -> None:
            try:
                with reader.cursor().copy("COPY (SUBSCRIBE (SELECT id * 10, name FROM t)) TO STDOUT") as copy:
                    seen.extend(row[1:] for row in copy.rows())
            except psycopg.Error as error:
                failed.append(error)

        thread = threading.Thread(target=follow)
        thread.start()
        until(lambda: len(seen) == 1)
        writer.execute("UPDATE t SET name = 'two'")
        until(lambda: len(seen) == 3)
        writer.execute("UPDATE t SET name = 'two'")
        writer.execute("DELETE FROM t")
        until(lambda: len(seen) == 4)
        reader.cancel()
        thread.join(20)
        assert not thread.is_alive()
        assert [error.sqlstate for error in failed] == ["57014"]
        assert seen == [("1", "10", "one"), ("-1", "10", "one"), ("1", "10", "two"), ("-1", "10", "two")]
        assert reader.execute("SELECT count(*) FROM t").fetchone() == (0,)


def until(is_so: Any) -> None:
    """Wait for something that should come soon."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_commands_of_the_document_work(server: TidegateServer) -> None:
    steps = list(tour((ROOT / "docs/time-travel.md").read_text(encoding="utf-8")))
    assert len(steps) > 5
    script = "".join(
        f"\\echo =={number}==\n\\warn =={number}==\n{step.statement}\n" for number, step in enumerate(steps)
    )
    answers = dict(re.findall(r"==(\d+)==\n((?:(?!==\d+==\n).*\n)+)", psql(server, script)))
    for number, step in enumerate(steps):
        answer = answers.get(str(number), "")
        assert re.fullmatch(pattern(step.expected), answer), f"{step.statement}\n{answer}"
