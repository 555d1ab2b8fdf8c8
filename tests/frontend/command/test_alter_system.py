"""ALTER SYSTEM: what it stores holds after pg_reload_conf() or a restart, and is shown, as in PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.postgres import start_postgres
from tests.support.server import TidegateServer

STATEMENTS = (
    "ALTER SYSTEM SET work_mem = '8MB'",
    "ALTER SYSTEM SET work_mem TO 9000",
    "ALTER SYSTEM SET DateStyle = German",
    "ALTER SYSTEM SET search_path = \"$user\", 'Odd one', public",
    "ALTER SYSTEM SET work_mem = 'many'",
    "ALTER SYSTEM SET work_mem = 1",
    "ALTER SYSTEM SET enable_sort = perhaps",
    "ALTER SYSTEM SET client_min_messages = 'loud'",
    "ALTER SYSTEM SET no_such_parameter = 1",
    "ALTER SYSTEM SET custom.one = 1",
    "ALTER SYSTEM SET server_version = '99'",
    "ALTER SYSTEM SET role = 'x'",
    "ALTER SYSTEM SET transaction_isolation = 'serializable'",
    "ALTER SYSTEM SET application_name = E'a\\nb'",
    "ALTER SYSTEM RESET no_such_parameter",
    "ALTER SYSTEM SET DateStyle = DEFAULT",
    "BEGIN; ALTER SYSTEM SET work_mem = '8MB'",
    "ROLLBACK",
    "SET ROLE weak",
    "ALTER SYSTEM SET work_mem = '8MB'",
    "ALTER SYSTEM RESET no_such_parameter",
    "ALTER SYSTEM RESET ALL",
    "ALTER SYSTEM SET statement_timeout = '1h'",
    "SELECT * FROM pg_file_settings",
    "RESET ROLE",
)
SHOWN = (
    "SELECT name, setting, applied, error FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf'",
    "SELECT name, setting, unit, source, sourceline, pending_restart, reset_val FROM pg_settings"
    " WHERE name IN ('work_mem', 'search_path', 'statement_timeout')",
    "SHOW work_mem",
)


def _told(connection: psycopg.Connection, statement: str) -> str:
    try:
        cursor = connection.execute(statement.encode())
    except psycopg.Error as error:
        return f"{error.sqlstate} {error.diag.message_primary} {error.diag.message_detail} {error.diag.message_hint}"
    return str(cursor.fetchall()) if cursor.description else str(cursor.statusmessage)


def _session(dsn: str) -> list[str]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE weak")
        connection.execute("GRANT ALTER SYSTEM ON PARAMETER statement_timeout TO weak")
        told = [_told(connection, statement) for statement in STATEMENTS]
        told += [_told(connection, SHOWN[0]), _told(connection, SHOWN[2])]
        assert connection.execute("SELECT pg_reload_conf()").fetchone() == (True,)
        deadline = time.monotonic() + 10
        while connection.execute("SHOW work_mem").fetchone() == ("4MB",) and time.monotonic() < deadline:
            time.sleep(0.05)
        told += [_told(connection, statement) for statement in SHOWN]
        assert connection.execute("SHOW statement_timeout").fetchone() == ("1h",)
        connection.execute("ALTER SYSTEM RESET ALL")
        connection.execute("SELECT pg_reload_conf()")
        while connection.execute("SHOW work_mem").fetchone() != ("4MB",) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [*told, *(_told(connection, statement) for statement in SHOWN)]


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[TidegateServer]:
    server = TidegateServer(tmp_path / "data", arguments=("--spark-start", "lazy"))
    server.start()
    yield server
    server.kill()


def test_answers_are_postgres(server: TidegateServer) -> None:
    with start_postgres() as postgres:
        assert _session(server.dsn()) == _session(postgres.dsn())


def test_a_session_keeps_what_it_has_set(server: TidegateServer) -> None:
    with (
        psycopg.connect(server.dsn(), autocommit=True) as one,
        psycopg.connect(f"{server.dsn()} options='-c work_mem=2MB'", autocommit=True) as other,
    ):
        one.execute("SET enable_sort = off")
        one.execute("ALTER SYSTEM SET work_mem = '8MB'")
        one.execute("ALTER SYSTEM SET enable_sort = on")
        one.execute("ALTER SYSTEM SET IntervalStyle = iso_8601")
        other.execute("BEGIN")
        one.execute("SELECT pg_reload_conf()")
        assert other.execute("SELECT '1 day'::interval::text").fetchone() == ("P1D",)
        assert other.info.parameter_status("IntervalStyle") == "iso_8601"
        other.execute("ROLLBACK")
        assert other.execute("SHOW IntervalStyle").fetchone() == ("iso_8601",)
        assert other.execute("SHOW work_mem").fetchone() == ("2MB",)
        assert one.execute("SHOW work_mem").fetchone() == ("8MB",)
        assert one.execute("SHOW enable_sort").fetchone() == ("off",)


def test_what_takes_a_restart_waits_for_one(server: TidegateServer) -> None:
    pending = "SELECT setting, pending_restart FROM pg_settings WHERE name = 'max_prepared_transactions'"
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET max_prepared_transactions = 7")
        connection.execute("ALTER SYSTEM SET max_connections = 2")
        assert connection.execute(pending).fetchone() == ("0", False)
        connection.execute("SELECT pg_reload_conf()")
        assert connection.execute(pending).fetchone() == ("0", True)
        wrong = connection.execute("SELECT name, applied, error FROM pg_file_settings").fetchall()
        assert wrong == [
            ("max_prepared_transactions", False, "setting could not be applied"),
            ("max_connections", False, "setting could not be applied"),
        ]
    server.kill()
    server.start()
    with psycopg.connect(server.dsn(), autocommit=True) as connection, psycopg.connect(server.dsn()):
        assert connection.execute(pending).fetchone() == ("7", False)
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            psycopg.connect(server.dsn())


def test_the_command_line_has_the_last_word_and_the_file_has_not(tmp_path: Path) -> None:
    config = tmp_path / "tidegate.toml"
    config.write_text("[settings]\nwork_mem = '2MB'\n", encoding="utf-8")
    shown = "SELECT setting, source FROM pg_settings WHERE name = 'work_mem'"
    for arguments, before, after in (
        (("--config", str(config)), ("2048", "configuration file"), ("8192", "configuration file")),
        (("--set", "work_mem=3MB"), ("3072", "command line"), ("3072", "command line")),
    ):
        server = TidegateServer(tmp_path / "data", arguments=("--spark-start", "lazy", *arguments))
        server.start()
        try:
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                connection.execute("ALTER SYSTEM RESET ALL")
                connection.execute("SELECT pg_reload_conf()")
                assert connection.execute(shown).fetchone() == before
                connection.execute("ALTER SYSTEM SET work_mem = '8MB'")
                connection.execute("SELECT pg_reload_conf()")
                assert connection.execute(shown).fetchone() == after
        finally:
            server.kill()
