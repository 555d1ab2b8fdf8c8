"""psql's backslash commands, of psql 15 and 18: each shows what it shows of PostgreSQL 15 for the same objects.

`psql/setup.sql` makes the objects. `psql/describe.txt` has a command a line, `psql/sessions.txt` whole sessions, each
below a line with its name, `psql/sessions_18.txt` those that only psql 18 knows. A line that begins with ``~`` is
compared but for sizes; one with ``!``, up to a ``|``, says why the answer differs: it has to.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.test_psql import find_psql
from tests.support.postgres import PostgresServer, bundled_binaries, start_postgres
from tests.support.server import TidegateServer, run_server

FOLDER = Path(__file__).parent / "psql"
DATABASE = "psql_tour"
VERSIONS = ("15", "18")

NORMALIZED = (
    (re.compile(r"\bport \"?\d+\"?"), "port PORT"),
    (re.compile(r"PORT = '\d+'"), "PORT"),
    (re.compile(r"(Server Port +\| )\d+ *"), r"\1PORT"),
    (re.compile(r"(Backend PID +\| )\d+ *"), r"\1PID"),
    (re.compile(r"server process with PID \d+"), "server process with PID"),
    (re.compile(r"LOCATION: .*"), "LOCATION"),
    (re.compile(r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?(?=\+00\))"), "NOW"),
    (re.compile(r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d 20\d\d\b"), "NOW"),
    (re.compile(r"Time: [\d.]+ ms.*"), "Time"),
    (re.compile(r"15\.\d+ \([^)]*\)"), "15 (of whom)"),
    (re.compile(r"\b1500\d\d\b"), "1500xx"),
)
"""What two servers may say differently, and what is compared in its place."""
SIZES = (
    (re.compile(r" *\b\d+ (bytes|kB|MB)\b *"), " SIZE "),
    (re.compile(r" +"), " "),
    (re.compile(r"-{2,}"), "-"),
)
"""Where sizes are not compared, neither are the widths of columns."""


@dataclass(frozen=True, slots=True)
class Case:
    """What psql is sent. `gap` says why the answer differs, `sized` that it has sizes."""

    text: str
    sized: bool = False
    gap: str | None = None


def _case(line: str) -> Case:
    if line.startswith("! "):
        reason, _, text = line[2:].partition(" | ")
        return Case(text, gap=reason)
    return Case(line.removeprefix("~ "), sized=line.startswith("~ "))


def _sessions(name: str) -> dict[str, Case]:
    """The sessions of a file by name; a reason why one differs stands behind its name."""
    found: dict[str, Case] = {}
    for part in re.split(r"^---- ", (FOLDER / name).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        head, _, text = part.partition("\n")
        title, _, gap = head.partition(" ! ")
        found[title] = Case(text, gap=gap or None)
    return found


COMMANDS = [_case(line) for line in (FOLDER / "describe.txt").read_text(encoding="utf-8").splitlines()]
SESSIONS = _sessions("sessions.txt")
SESSIONS_18 = _sessions("sessions_18.txt")


def binary(version: str) -> str:
    """psql of a version; skips where there is no 18, but not under CI."""
    if version == "15":
        return find_psql()
    folder = bundled_binaries()
    if folder is None:
        assert not os.environ.get("CI"), "psql 18 is missing"
        pytest.skip("psql 18 is missing")
    return str(folder / "psql")


def answers(server: TidegateServer | PostgresServer, version: str, texts: Sequence[str]) -> list[str]:
    """What one psql says to each of `texts`: standard output, then standard error."""
    script = "".join(f"\\echo @@{n}\n\\warn @@{n}\n{text}\n" for n, text in enumerate(texts))
    environment = {**os.environ, "PGOPTIONS": "-c search_path=shop,public", "LC_ALL": "C.UTF-8", "PAGER": "cat"}
    result = subprocess.run(
        [binary(version), "-X", "-d", server.dsn(DATABASE)],
        input=script,
        capture_output=True,
        text=True,
        env={**environment, "PSQL_EDITOR": "cat", "PGAPPNAME": "tour"},
        check=False,
        timeout=300,
    )
    streams = [re.split(r"^@@\d+\n", stream, flags=re.MULTILINE)[1:] for stream in (result.stdout, result.stderr)]
    return ["".join(pieces) for pieces in zip(*streams, strict=True)]


def normalized(case: Case, answer: str) -> str:
    """`answer` without what two servers may say differently."""
    for pattern, replacement in (*NORMALIZED, *(SIZES if case.sized else ())):
        answer = pattern.sub(replacement, answer)
    return answer


def compare(case: Case, ours: str, theirs: str) -> None:
    """The answers are the same, or differ where that is known."""
    ours, theirs = normalized(case, ours), normalized(case, theirs)
    if case.gap is None:
        assert ours == theirs
    else:
        assert ours != theirs, f"the answer is PostgreSQL's now: {case.gap}"


def set_up(ours: TidegateServer, theirs: PostgresServer) -> None:
    """Makes the objects in both; PostgreSQL is given a schema like the one that Tidegate has of itself."""
    command = [find_psql(), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d"]
    for server, scripts in ((ours, ("setup.sql",)), (theirs, ("own_schema.sql", "setup.sql"))):
        subprocess.run([*command, server.dsn(), "-c", f"CREATE DATABASE {DATABASE}"], check=True)
        for script in scripts:
            subprocess.run([*command, server.dsn(DATABASE), "-f", str(FOLDER / script)], check=True)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TidegateServer, PostgresServer]]:
    """Servers of our own: lists of roles and settings have nothing of other tests."""
    with run_server(tmp_path_factory.mktemp("psql") / "data") as ours, start_postgres() as theirs:
        set_up(ours, theirs)
        yield ours, theirs


@pytest.fixture(scope="module")
def described(both: tuple[TidegateServer, PostgresServer]) -> dict[str, list[list[str]]]:
    """The answers of both to all commands, by psql's version as they are first asked for."""
    return {}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("place", range(len(COMMANDS)), ids=[case.text for case in COMMANDS])
def test_a_command_shows_what_it_shows_of_postgresql(
    both: tuple[TidegateServer, PostgresServer], described: dict[str, list[list[str]]], place: int, version: str
) -> None:
    if version not in described:
        described[version] = [answers(server, version, [case.text for case in COMMANDS]) for server in both]
    ours, theirs = described[version]
    compare(COMMANDS[place], ours[place], theirs[place])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_goes_as_with_postgresql(
    both: tuple[TidegateServer, PostgresServer], name: str, version: str
) -> None:
    (ours,), (theirs,) = (answers(server, version, [SESSIONS[name].text]) for server in both)
    compare(SESSIONS[name], ours, theirs)


@pytest.mark.parametrize("name", SESSIONS_18)
def test_a_session_of_psql_18_goes_as_with_postgresql(both: tuple[TidegateServer, PostgresServer], name: str) -> None:
    (ours,), (theirs,) = (answers(server, "18", [SESSIONS_18[name].text]) for server in both)
    compare(SESSIONS_18[name], ours, theirs)
