"""What an ordinary stop of the server shows the person who started it."""

from __future__ import annotations

from pathlib import Path

import psycopg

from tests.support.server import run_server


def test_a_stop_is_silent(tmp_path: Path) -> None:
    with run_server(tmp_path / "data", arguments=("--spark-start", "lazy")) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE TABLE t (a int)")
            connection.execute("SELECT count(*) FROM pg_class, t")
        assert server.stop() == 0
        assert server.output().splitlines() == [f'psql "{server.dsn()}"']
