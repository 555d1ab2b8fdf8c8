"""pgbouncer of Debian in transaction mode, with the server behind it; its clients are psycopg's."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.clients_basic.client import Check, Client, Place, ToolError
from tests.clients_basic.debian import debian_tools
from tests.support.postgres import free_port

_CONFIGURATION = """\
[databases]
{name} = host={host} port={port} dbname={database} {pool}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = {auth}
auth_file = {users}
auth_user = postgres
admin_users = postgres
pool_mode = {mode}
default_pool_size = 2
max_client_conn = 100
logfile = {log}
ignore_startup_parameters = extra_float_digits,options
server_reset_query = DISCARD ALL
"""
_NAME = "pooled"
"""Of the database, to pgbouncer's clients: `pgbouncer` is that of its console."""

_CLIENTS = 20
_START_S = 20.0
_CURSOR = "SELECT pg_backend_pid()"
Session = psycopg.Connection[tuple[Any, ...]]


@contextmanager
def _pooled(
    place: Place, mode: str = "transaction", auth: str = "any", users: str = "", pool: str = "user=postgres"
) -> Iterator[str]:
    """A pgbouncer in front of `place` for as long as the context lasts: where it listens, as a connection string."""
    own, folder = free_port(), Path("/tmp") / f"tidegate-pgbouncer-{free_port()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    log, file, listed = folder / "log", folder / "ini", folder / "users"
    listed.write_text(users, encoding="utf-8")
    file.write_text(
        _CONFIGURATION.format(
            host=place.host, port=place.port, database=place.database, name=_NAME, own=own, users=listed, mode=mode,
            log=log,
            auth=auth, pool=pool,
        ),
        encoding="utf-8",
    )  # fmt: skip
    user = ("-u", "nobody") if os.geteuid() == 0 else ()
    process = subprocess.Popen(("pgbouncer", "-q", *user, str(file)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        dsn = f"host=127.0.0.1 port={own} dbname={_NAME} user=postgres"
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            try:
                psycopg.connect(dsn.replace(f"dbname={_NAME}", "dbname=pgbouncer"), password="own").close()
                break
            except psycopg.OperationalError as error:
                if process.poll() is not None or "password" in str(error) or "authentication" in str(error):
                    break
                time.sleep(0.1)
        if process.poll() is not None:
            raise ToolError(f"pgbouncer did not start: {log.read_text() if log.exists() else process.stdout}")
        yield dsn
    finally:
        process.terminate()
        process.wait()
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def _connect(dsn: str, **options: Any) -> Session:
    """A connection without prepared statements, which live in sessions."""
    return psycopg.connect(dsn, autocommit=True, prepare_threshold=None, **options)


def _transactions(place: Place) -> Sequence[str]:
    """Many clients share two sessions, a transaction each at a time; what they set of what is tracked goes along."""
    seen = []
    place.execute("CREATE TABLE counted (id int PRIMARY KEY, n int); INSERT INTO counted VALUES (1, 0)")
    with _pooled(place) as dsn:
        pids: set[int] = set()

        def count(number: int) -> None:
            with _connect(dsn, application_name=f"client {number}") as client:
                for _ in range(5):
                    with client.transaction():
                        client.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                        client.execute("UPDATE counted SET n = n + 1 WHERE id = %s", (1,))
                        row = client.execute("SELECT pg_backend_pid(), current_setting('application_name')").fetchone()
                        assert row is not None
                        assert row[1] == f"client {number}", row
                        pids.add(row[0])

        threads = [threading.Thread(target=count, args=(number,)) for number in range(_CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(pids) <= 2, pids
        with _connect(dsn) as one, _connect(dsn) as other:
            seen.append(str(one.execute("SELECT n FROM counted").fetchone()))
            other.execute("SET TimeZone = 'UTC'")
            one.execute("SET TimeZone = 'Asia/Tokyo'")
            one.execute("SET DateStyle = 'German'")
            one.execute("SET client_encoding = 'LATIN1'")
            one.execute("SET standard_conforming_strings = on")
            for client in (one, other, one):
                shown = "SELECT current_setting('TimeZone'), timestamptz '2024-02-29 12:00:00+00'::text, 'é'"
                seen.append(str(client.execute(shown).fetchone()))
            with one.transaction():
                one.execute("SET LOCAL work_mem = '7MB'")
                seen.append(str(one.execute("SHOW work_mem").fetchone()))
            seen.append(str(other.execute("SHOW work_mem").fetchone()))
            with other.transaction():
                other.execute("DECLARE c CURSOR FOR SELECT generate_series(1, 10)")
                seen.append(str(other.execute("FETCH 3 FROM c").fetchall()))
                other.execute("CREATE TEMP TABLE mine (x int) ON COMMIT DROP")
            seen += [str(row) for row in other.execute("SELECT %s::int, %s::text", (1, "x"), binary=True).fetchall()]
            with other.cursor().copy("COPY (SELECT generate_series(1, 3)) TO STDOUT") as copy:
                seen += [str(row) for row in copy.rows()]
            for statement in ("SELECT 1/0", "SELECT nothing", "INSERT INTO counted VALUES (1, 1)"):
                seen.append(_refused(lambda client=other, text=statement: client.execute(text)))  # type: ignore[misc]
            with one.pipeline():
                got = [one.execute("SELECT %s::int", (number,)) for number in range(5)]
            seen.append(str([cursor.fetchone() for cursor in got]))
    return seen


def _prepared(place: Place) -> Sequence[str]:
    """Statements that are prepared and run in one transaction, and DISCARD ALL of a pool by sessions."""
    seen = []
    with _pooled(place) as dsn, psycopg.connect(dsn, autocommit=True) as client, client.transaction():
        seen += [str(client.execute("SELECT %s::int + 1", (number,), prepare=True).fetchone()) for number in range(8)]
        client.execute("PREPARE twice AS SELECT 2 * $1::int")
        seen.append(str(client.execute("EXECUTE twice(21)").fetchone()))
        client.execute("DEALLOCATE ALL")
    with _pooled(place, mode="session") as dsn:
        for _ in range(4):
            with psycopg.connect(dsn, autocommit=True) as client:
                client.execute("PREPARE kept AS SELECT 'kept'")
                client.execute("SET work_mem = '9MB'")
                client.execute("CREATE TEMP TABLE passing (x int)")
                client.execute("LISTEN news")
                client.execute("SELECT pg_advisory_lock(1)")
                seen.append(str(client.execute("EXECUTE kept").fetchone()))
    with _pooled(place, mode="statement") as dsn, _connect(dsn) as client:
        seen.append(str(client.execute("SELECT 1").fetchone()))
        seen.append(_refused(lambda: client.execute("BEGIN")))
    return seen


def _cancels(place: Place) -> Sequence[str]:
    """A cancel request finds the statement that runs for its client; a session that is ended is replaced."""
    seen = []
    with _pooled(place) as dsn:
        with _connect(dsn) as client, _connect(dsn) as other:
            timer = threading.Timer(1.0, client.cancel)
            timer.start()
            seen.append(_refused(lambda: client.execute("SELECT pg_sleep(30)")))
            timer.join()
            seen.append(str(client.execute("SELECT 1").fetchone()))
            pid = client.execute(_CURSOR).fetchone()
            assert pid is not None
            place.execute(f"SELECT pg_terminate_backend({pid[0]})")
            time.sleep(0.5)
            seen.append(str([session.execute("SELECT 2").fetchone() for session in (client, other)]))
        admin = dsn.replace(f"dbname={_NAME}", "dbname=pgbouncer")
        with psycopg.connect(admin, autocommit=True, cursor_factory=psycopg.ClientCursor) as console:
            seen += [str(console.execute(command).statusmessage) for command in (b"PAUSE", b"RESUME", b"RECONNECT")]
        with _connect(dsn) as client:
            seen.append(str(client.execute("SELECT 3").fetchone()))
    return seen


def _passwords(place: Place) -> Sequence[str]:
    """SCRAM on both sides: pgbouncer has verifiers by its query, and with what clients prove comes in at the server."""
    seen = []
    place.execute("CREATE ROLE pooled LOGIN PASSWORD 'its password'; CREATE ROLE other LOGIN PASSWORD 'another'")
    (verifier,) = place.rows("SELECT rolpassword FROM pg_authid WHERE rolname = 'pooled'")
    users = f'"pooled" "{verifier[2:-3]}"\n"postgres" "own"\n'
    # From now on Tidegate asks everybody for a password.
    with psycopg.connect(place.dsn(), autocommit=True) as kept:
        kept.execute("ALTER ROLE postgres PASSWORD 'own'")
        try:
            with _pooled(place, auth="scram-sha-256", users=users, pool="") as dsn:
                for user, password in (("pooled", "its password"), ("other", "another")):
                    with _connect(dsn.replace("user=postgres", f"user={user}"), password=password) as client:
                        seen.append(str(client.execute("SELECT current_user, session_user").fetchone()))
                        seen.append(_refused(lambda client=client: client.execute("CREATE ROLE x")))  # type: ignore[misc]
                for password in ("wrong", ""):
                    try:
                        _connect(dsn.replace("user=postgres", "user=pooled"), password=password).close()
                        seen.append("let in")
                    except psycopg.OperationalError as error:
                        seen.append(str(error).splitlines()[0].rpartition("failed: ")[2])
        finally:
            kept.execute("ALTER ROLE postgres PASSWORD NULL")
            kept.execute("DROP ROLE pooled, other")
    return seen


def _refused(what: Callable[[], object]) -> str:
    try:
        what()
    except psycopg.Error as error:
        return f"{type(error).__name__} {error.sqlstate} {error.diag.message_primary}"
    raise AssertionError("it should have failed")


CLIENT = Client(
    name="pgbouncer",
    version="1.18 (psycopg's clients)",
    install=lambda: debian_tools("pgbouncer"),
    checks=(
        Check("transactions of many clients over two sessions; parameters, cursors, COPY, pipelines", _transactions),
        Check("prepared statements in a transaction; pools by session and by statement", _prepared),
        Check("cancelling, a session that ends, PAUSE and RECONNECT", _cancels),
        Check("SCRAM on both sides, verifiers by its query", _passwords),
    ),
)
