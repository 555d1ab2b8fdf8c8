"""What the server's log says of its clients, as the settings have it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.support.server import TidegateServer, run_server


@pytest.fixture(scope="module")
def logging_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateServer]:
    data_dir = tmp_path_factory.mktemp("log") / "data"
    with run_server(data_dir, arguments=("--spark-start", "lazy")) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE ROLE told LOGIN; CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)")
            connection.execute("GRANT ALL ON t TO told")
        yield server


def entries(server: TidegateServer, after: int, *, application: str = "test") -> list[str]:
    """The log's lines about clients of this name, from `after` on, without time and identities."""
    lines = server.log.read_text()[after:].splitlines()
    own = [line for line in lines if f"application_name={application}" in line]
    hidden = re.compile(r"^\S+ \[\w+ *\] | (application_name|database|pid|user|host|ms|session_time_s)=\S+")
    return [re.sub(r"\s+", " ", hidden.sub("", line)).strip() for line in own]


CASES: dict[str, tuple[dict[str, str], list[tuple[str, list[object] | None]], list[str]]] = {
    "nothing": ({}, [("SELECT 1", None), ("INSERT INTO t VALUES (2)", None)], []),
    "all": (
        {"log_statement": "all"},
        [("SELECT 2; SELECT 'x'", None), ("SELECT $1 || $2", ["a b", None]), ("SELEC", None)],
        [
            "statement statement=\"SELECT 2; SELECT 'x'\"",
            "execute <unnamed> parameters=\"$1 = 'a b', $2 = NULL\" statement='SELECT $1 || $2'",
            "ERROR message='syntax error at or near \"SELEC\"' sqlstate=42601 statement=SELEC",
        ],
    ),
    "mod": (
        {"log_statement": "mod"},
        [
            ("SELECT 3", None),
            ("INSERT INTO t VALUES (3)", None),
            ("EXPLAIN DELETE FROM t", None),
            ("EXPLAIN ANALYZE DELETE FROM t WHERE a = 7", None),
            ("CREATE TEMPORARY TABLE made (a int)", None),
            ("DELETE FROM t WHERE a = $1", [3]),
        ],
        [
            "statement statement='INSERT INTO t VALUES (3)'",
            "statement statement='EXPLAIN ANALYZE DELETE FROM t WHERE a = 7'",
            "statement statement='CREATE TEMPORARY TABLE made (a int)'",
            "execute <unnamed> parameters=\"$1 = '3'\" statement='DELETE FROM t WHERE a = $1'",
        ],
    ),
    "ddl": (
        {"log_statement": "ddl"},
        [
            ("INSERT INTO t VALUES (4)", None),
            ("SELECT 5 AS five INTO TEMPORARY five", None),
            ("ALTER ROLE told PASSWORD 'secret'", None),
            ("COMMENT ON TABLE t IS 'x'", None),
        ],
        [
            "statement statement='SELECT 5 AS five INTO TEMPORARY five'",
            "statement statement=\"ALTER ROLE told PASSWORD '********'\"",
            "statement statement=\"COMMENT ON TABLE t IS 'x'\"",
        ],
    ),
    "durations": (
        {"log_duration": "on"},
        [("SELECT 6", None), ("SELECT x", None)],
        ["duration of=statement", "ERROR message='column \"x\" does not exist' sqlstate=42703 statement='SELECT x'"],
    ),
    "slow ones": (
        {"log_min_duration_statement": "150"},
        [("SELECT 7", None), ("SELECT pg_sleep(0.2)", None), ("SELECT pg_sleep($1)", [0.2])],
        [
            "duration of=statement statement='SELECT pg_sleep(0.2)'",
            "duration of='execute <unnamed>' parameters=\"$1 = '0.2'\" statement='SELECT pg_sleep($1)'",
        ],
    ),
    "both": (
        {"log_min_duration_statement": "0", "log_statement": "all"},
        [("SELECT 8", None)],
        ["statement statement='SELECT 8'", "duration of=statement"],
    ),
    "errors": (
        {},
        [("INSERT INTO t VALUES (1)", None), ("INSERT INTO t VALUES ($1)", ["x"])],
        [
            "ERROR detail='Key (a)=(1) already exists.' "
            "message='duplicate key value violates unique constraint \"t_pkey\"' sqlstate=23505 "
            "statement='INSERT INTO t VALUES (1)'",
            "ERROR context=\"unnamed portal parameter $1 = '...'\" "
            "message='invalid input syntax for type integer: \"x\"' sqlstate=22P02 "
            "statement='INSERT INTO t VALUES ($1)'",
        ],
    ),
    "errors, terse, without statements": (
        {"log_error_verbosity": "terse", "log_min_error_statement": "panic"},
        [("INSERT INTO t VALUES (1)", None)],
        ["ERROR message='duplicate key value violates unique constraint \"t_pkey\"' sqlstate=23505"],
    ),
    "no errors": ({"log_min_messages": "fatal"}, [("SELECT nothing", None)], []),
    "no parameters": (
        {"log_statement": "all", "log_parameter_max_length": "2"},
        [("SELECT $1", ["abc"])],
        ["execute <unnamed> parameters=\"$1 = 'ab...'\" statement='SELECT $1'"],
    ),
    "coming and going": (
        {"log_connections": "on", "log_disconnections": "on"},
        [],
        ["connection authorized", "disconnection"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_log_says_what_the_settings_ask_for(name: str, logging_server: TidegateServer) -> None:
    settings, statements, wanted = CASES[name]
    before = len(logging_server.log.read_text())
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    dsn = f"{logging_server.dsn()} application_name=test options='{options}'"
    with psycopg.connect(dsn, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        for text, parameters in statements:
            with suppress(
                psycopg.errors.SyntaxError,
                psycopg.errors.UndefinedColumn,
                psycopg.errors.UniqueViolation,
                psycopg.errors.InvalidTextRepresentation,
            ):
                connection.execute(text.encode(), parameters, prepare=False)
    deadline = time.monotonic() + 10
    # The client may have its answer before the log has its line.
    while len(entries(logging_server, before)) < len(wanted) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert entries(logging_server, before) == wanted


def test_lines_are_in_the_form_of_postgresql_with_a_prefix(tmp_path: Path) -> None:
    pattern = r"<%-8u|%d|%a|%p|%c|%l|%e|%i|%5x|%q%m %%>"
    arguments = ("--spark-start", "lazy", "--set", f"log_line_prefix={pattern}", "--set", "log_statement=mod")
    with run_server(tmp_path / "data", arguments=arguments) as server:
        dsn = f"{server.dsn()} application_name=test"
        with psycopg.connect(dsn, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
            pid = connection.info.backend_pid
            connection.execute(b"CREATE TABLE t (a int)")
            connection.execute(b"INSERT INTO t\n VALUES ($1)", [7])
            connection.execute(b"SET log_duration = on")
            connection.execute(b"BEGIN; SELECT txid_current() + 0")
            with pytest.raises(psycopg.errors.UndefinedTable):
                connection.execute(b"SELECT 1 FROM nowhere")
        deadline = time.monotonic() + 10
        while "STATEMENT:" not in server.log.read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        text = server.log.read_text()
    found = text[text.index("<") :]
    stamp = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC %>"
    who = rf"<postgres\|postgres\|test\|{pid}\|[0-9a-f]+\.{pid:x}\|"
    ms = r"duration: \d+\.\d{3} ms"
    wanted = [
        rf"{who}1\|00000\|idle\|    0\|{stamp}LOG:  statement: CREATE TABLE t \(a int\)",
        rf"{who}2\|00000\|idle\|    0\|{stamp}LOG:  execute <unnamed>: INSERT INTO t",
        r"\t VALUES \(\$1\)",
        rf"{who}3\|00000\|idle\|    0\|{stamp}DETAIL:  parameters: \$1 = '7'",
        rf"{who}4\|00000\|BEGIN\| *[1-9]\d*\|{stamp}LOG:  {ms}",
        rf'{who}5\|42P01\|SELECT\| *\d+\|{stamp}ERROR:  relation "nowhere" does not exist at character 15',
        rf"{who}6\|42P01\|SELECT\| *\d+\|{stamp}STATEMENT:  SELECT 1 FROM nowhere",
    ]
    for line, expected in zip(found.splitlines(), wanted, strict=False):
        assert re.fullmatch(expected, line), (line, expected)
    assert len(found.splitlines()) >= len(wanted)


def test_who_is_no_superuser_does_not_choose_what_is_logged(logging_server: TidegateServer) -> None:
    with psycopg.connect(logging_server.dsn(), autocommit=True) as connection:
        connection.execute("ALTER ROLE told SET log_statement = 'all'")
    dsn = logging_server.dsn().replace("user=postgres", "user=told") + " application_name=test"
    before = len(logging_server.log.read_text())
    with psycopg.connect(dsn, autocommit=True) as told:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match='permission denied to set parameter "log_st'):
            told.execute("SET log_statement = 'none'")
        told.execute("SELECT 9")
    assert entries(logging_server, before)[-1] == "statement statement='SELECT 9'"


def test_who_is_turned_away_is_logged(logging_server: TidegateServer, tmp_path: Path) -> None:
    before = len(logging_server.log.read_text())
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(logging_server.dsn("nowhere"))
    found = logging_server.log.read_text()[before:]
    assert "FATAL" in found
    assert 'database "nowhere" does not exist' in found


@pytest.mark.parametrize(
    ("setting", "before", "expected"),
    [
        ("idle_session_timeout", [], "idle-session timeout' sqlstate=57P05"),
        ("idle_in_transaction_session_timeout", ["BEGIN"], "idle-in-transaction timeout' sqlstate=25P03"),
        ("transaction_timeout", ["BEGIN"], "transaction timeout' sqlstate=25P04"),
        ("transaction_timeout", ["SELECT pg_sleep(5)"], "transaction timeout' sqlstate=25P04 statement='SELECT pg_sl"),
        ("", ["SELECT pg_terminate_backend(pg_backend_pid())"], "administrator command' sqlstate=57P01 statement='SEL"),
    ],
)
def test_what_ends_a_session_is_logged_as_its_own(
    logging_server: TidegateServer, setting: str, before: list[str], expected: str
) -> None:
    after = len(logging_server.log.read_text())
    application = f"ended{after}"
    connection = psycopg.connect(logging_server.dsn(), autocommit=True, application_name=application)
    with suppress(psycopg.Error):
        if setting:
            connection.execute(f"SET {setting} = '100ms'".encode())
        for text in before:
            connection.execute(text.encode())
        time.sleep(0.5)
    deadline = time.monotonic() + 10
    while not (told := entries(logging_server, after, application=application)) and time.monotonic() < deadline:
        time.sleep(0.1)
    connection.close()
    assert len(told) == 1
    assert told[0].startswith("FATAL message='terminating connection due to ")
    assert expected in told[0]
