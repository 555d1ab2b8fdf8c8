"""Coming in, as users do it: a server that listens, real clients, and every reason to be turned away."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest

from adapter.access.passwords import scram_of
from tests.frontend import raw_client as raw
from tests.frontend.authentication import scram_client
from tests.support.server import TidegateServer, run_server

ARGUMENTS = ("--spark-start", "lazy")


def attempt(server: TidegateServer, user: str, password: str, database: str = "postgres") -> str:
    """`in`, or the error that libpq shows."""
    dsn = f"host={server.host} port={server.port} user={user} dbname={database} sslmode=disable"
    try:
        psycopg.connect(dsn, password=password).close()
    except psycopg.OperationalError as error:
        return str(error).partition("FATAL:")[2].strip()
    return "in"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    """A server of two workers whose superuser got a password when it was first started."""
    folder = tmp_path_factory.mktemp("guarded")
    password = folder / "password"
    password.write_text("first word\nsecond line\n")
    arguments = (*ARGUMENTS, "--workers", "2", "--superuser-password-file", str(password))
    with run_server(folder / "data", arguments=arguments) as server:
        yield server


@pytest.fixture
def superuser(guarded: TidegateServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(guarded.dsn(), password="first word", autocommit=True) as connection:
        yield connection


def test_the_first_password_is_asked_for(guarded: TidegateServer) -> None:
    assert attempt(guarded, "postgres", "first word") == "in"
    assert attempt(guarded, "postgres", "first word\n") == 'password authentication failed for user "postgres"'


def test_roles_come_in_as_their_attributes_say(guarded: TidegateServer, superuser: psycopg.Connection) -> None:
    failed = 'password authentication failed for user "{}"'.format
    for statement in (
        "CREATE ROLE door_open LOGIN PASSWORD 'pw'",
        "CREATE ROLE door_mute LOGIN",
        "CREATE ROLE door_shut PASSWORD 'pw'",
        "CREATE ROLE door_past LOGIN PASSWORD 'pw' VALID UNTIL '2020-01-01'",
        "CREATE ROLE door_ever LOGIN PASSWORD 'pw' VALID UNTIL 'infinity'",
        "CREATE ROLE door_none LOGIN PASSWORD 'pw' CONNECTION LIMIT 0",
        "CREATE ROLE door_null LOGIN PASSWORD 'pw'",
        "ALTER ROLE door_null PASSWORD NULL",
        "SET password_encryption = md5",
        "CREATE ROLE door_md5 LOGIN PASSWORD 'pw'",
        f"CREATE ROLE door_hash LOGIN PASSWORD '{scram_of('pw', bytes(16)).text()}'",
    ):
        superuser.execute(statement)
    found = {
        user: attempt(guarded, user, "pw")
        for user in (
            "door_open",
            "door_mute",
            "door_shut",
            "door_past",
            "door_ever",
            "door_none",
            "door_null",
            "door_md5",
            "door_hash",
            "door_nobody",
        )
    }
    assert found == {
        "door_open": "in",
        "door_mute": failed("door_mute"),
        "door_shut": 'role "door_shut" is not permitted to log in',
        "door_past": failed("door_past"),
        "door_ever": "in",
        "door_none": 'too many connections for role "door_none"',
        "door_null": failed("door_null"),
        "door_md5": failed("door_md5"),
        "door_hash": "in",
        "door_nobody": failed("door_nobody"),
    }
    assert attempt(guarded, "door_open", "pw", "nowhere") == 'database "nowhere" does not exist'
    assert attempt(guarded, "door_open", "pw", "template0") == (
        'database "template0" is not currently accepting connections'
    )


def test_a_role_has_its_limit_over_all_workers(guarded: TidegateServer, superuser: psycopg.Connection) -> None:
    superuser.execute("CREATE ROLE door_two LOGIN PASSWORD 'pw' CONNECTION LIMIT 2")
    dsn = guarded.dsn().replace("user=postgres", "user=door_two")
    with psycopg.connect(dsn, password="pw"), psycopg.connect(dsn, password="pw"):
        assert attempt(guarded, "door_two", "pw") == 'too many connections for role "door_two"'
    deadline = time.monotonic() + 10
    while (answer := attempt(guarded, "door_two", "pw")) != "in":
        assert time.monotonic() < deadline, answer


def test_catalogs_show_what_was_said(superuser: psycopg.Connection) -> None:
    superuser.execute("CREATE ROLE shown LOGIN PASSWORD 'pw' VALID UNTIL '2031-02-03 04:05+00' CONNECTION LIMIT 7")
    superuser.execute("ALTER ROLE shown VALID UNTIL '2032-01-01 00:00+00'")
    row = superuser.execute(
        "SELECT rolconnlimit, rolvaliduntil::text, left(rolpassword, 19) FROM pg_authid WHERE rolname = 'shown'"
    ).fetchone()
    assert row == (7, "2032-01-01 00:00:00+00", "SCRAM-SHA-256$4096:")
    row = superuser.execute("SELECT passwd, valuntil IS NULL FROM pg_user WHERE usename = 'shown'").fetchone()
    assert row == ("********", False)
    rules = superuser.execute("SELECT type, address, auth_method, error FROM pg_hba_file_rules").fetchall()
    assert rules == [("local", None, "scram-sha-256", None), ("host", "all", "scram-sha-256", None)]
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="invalid connection limit: -2"):
        superuser.execute("ALTER ROLE shown CONNECTION LIMIT -2")
    with pytest.raises(psycopg.errors.InvalidDatetimeFormat):
        superuser.execute("ALTER ROLE shown VALID UNTIL 'soon'")


def test_passwords_are_nowhere_to_be_read(guarded: TidegateServer, superuser: psycopg.Connection) -> None:
    with psycopg.connect(guarded.dsn(), password="first word", autocommit=True) as other:
        other.execute("CREATE ROLE hidden LOGIN PASSWORD 'n0t f0r y0ur eyes'")
        query = "SELECT query FROM pg_stat_activity WHERE pid = %s"
        row = superuser.execute(query, (other.info.backend_pid,)).fetchone()
        assert row == ("CREATE ROLE hidden LOGIN PASSWORD '********'",)
        with pytest.raises(psycopg.errors.DuplicateObject):
            other.execute("CREATE ROLE hidden LOGIN PASSWORD 'n0t f0r y0ur eyes'")
    assert attempt(guarded, "hidden", "n0t f0r y0ur eyes at all").startswith("password authentication failed")
    for file in guarded.data_dir.rglob("*"):
        assert not file.is_file() or b"n0t f0r y0ur eyes" not in file.read_bytes(), file
    assert "n0t f0r y0ur eyes" not in guarded.output()


async def test_asyncpg_comes_in(guarded: TidegateServer) -> None:
    connection = await asyncpg.connect(
        host=guarded.host, port=guarded.port, user="postgres", password="first word", database="postgres"
    )
    assert await connection.fetchval("SELECT current_user") == "postgres"
    await connection.close()
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(host=guarded.host, port=guarded.port, user="postgres", password="x", database="postgres")


def test_psql_comes_in(guarded: TidegateServer) -> None:
    command = ["psql", "-X", "-At", "-h", guarded.host, "-p", str(guarded.port), "-U", "postgres", "-c", "SELECT 1"]
    found = subprocess.run(
        command, env={**os.environ, "PGPASSWORD": "first word"}, capture_output=True, text=True, check=False
    )
    assert (found.stdout, found.stderr) == ("1\n", "")


async def test_guessing_is_slow_and_ends_on_every_worker(
    guarded: TidegateServer, superuser: psycopg.Connection
) -> None:
    """After a dozen wrong guesses an address is not even asked any more, whichever worker it meets."""
    superuser.execute("CREATE ROLE guessed LOGIN PASSWORD 'pw'")
    began = time.monotonic()
    guesses = 0
    while True:
        client, reply = await scram_client.begin(guarded.port, "guessed")
        await client.close()
        if reply.code == "E":
            break
        last = await scram_client.log_in(guarded.port, "guessed", "wrong")
        assert last is not None
        assert last.fields["C"] == "28P01"
        guesses += 1
    assert 10 <= guesses <= 14
    assert time.monotonic() - began > 10
    assert reply.fields["M"] == 'password authentication failed for user "guessed"'
    assert attempt(guarded, "postgres", "first word") == "in"
    assert "too many failures" in guarded.output()


def test_rules_are_read_again(tmp_path: Path) -> None:
    hba = tmp_path / "hba"
    hba.write_text("host all postgres 127.0.0.1/32 trust\nhost all +family all trust\n")
    arguments = (*ARGUMENTS, "--hba-file", str(hba))
    with run_server(tmp_path / "data", arguments=arguments) as server, psycopg.connect(server.dsn()) as connection:
        connection.autocommit = True
        connection.execute("CREATE ROLE family; CREATE ROLE child LOGIN IN ROLE family; CREATE ROLE guest LOGIN")
        assert connection.execute("SHOW hba_file").fetchone() == (str(hba),)
        assert attempt(server, "child", "") == "in"
        assert attempt(server, "guest", "") == (
            'no pg_hba.conf entry for host "127.0.0.1", user "guest", database "postgres", no encryption'
        )
        assert attempt(server, "nobody", "").startswith("no pg_hba.conf entry")
        hba.write_text("host all child all reject\nhost all all all trust\nhost all all all magic\n")
        errors = connection.execute("SELECT error FROM pg_hba_file_rules").fetchall()
        assert errors == [(None,), (None,), ('invalid authentication method "magic"',)]
        assert connection.execute("SELECT pg_reload_conf()").fetchone() == (True,)
        time.sleep(0.2)
        assert attempt(server, "child", "") == "in"
        assert "were not read again" in server.output()
        hba.write_text("host all child all reject\nhost all guest all password\nhost all all all trust\n")
        assert server.process is not None
        server.process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        assert attempt(server, "child", "") == (
            'pg_hba.conf rejects connection for host "127.0.0.1", user "child", database "postgres", no encryption'
        )
        assert attempt(server, "guest", "").startswith("password authentication requires an encrypted connection")
        assert attempt(server, "nobody", "") == 'role "nobody" does not exist'


async def test_who_says_nothing_is_sent_away(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("pw\n")
    arguments = (
        *(*ARGUMENTS, "--superuser-password-file", str(password)),
        *("--authentication-timeout-s", "1", "--max-connections", "4"),
    )
    with run_server(tmp_path / "data", arguments=arguments) as server:
        silent = await raw.RawClient.open(server.port)
        asked, _ = await scram_client.begin(server.port, "postgres")
        reply = await asked.receive()
        assert reply is not None
        assert (reply.fields["C"], reply.fields["M"]) == ("57014", "canceling authentication due to timeout")
        assert await silent.receive() is None
        # One host that opens any number of connections has eight of them, and its newest ones.
        flood = [await raw.RawClient.open(server.port) for _ in range(100)]
        await asyncio.sleep(0.2)
        replies = [await client.receive() for client in flood[:92]]
        assert {reply.fields["M"] for reply in replies if reply is not None} == {"sorry, too many clients already"}
        assert attempt(server, "postgres", "pw") == "in"
        for client in flood:
            await client.close()
