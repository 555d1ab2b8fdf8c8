"""psql at a terminal: what the TAB key completes, and what Ctrl-C ends, compared with what the terminal shows with
PostgreSQL 15.

`psql/completions.txt` has a line that is typed on each of its lines; the key is pressed at its end.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.clients.test_psql import find_psql
from tests.clients.test_psql_commands import DATABASE, FOLDER, set_up
from tests.support.postgres import PostgresServer, start_postgres
from tests.support.server import TidegateServer, run_server

LINES = (FOLDER / "completions.txt").read_text(encoding="utf-8").splitlines()
PROMPT = ">> "
INPUTRC = """\
set bell-style none
set show-all-if-ambiguous on
set completion-query-items 0
set page-completions off
set completion-display-width 0
set enable-bracketed-paste off
"""
BEFORE = 'LISTEN orders; LISTEN "Returns"; PREPARE kept AS SELECT 1; BEGIN; DECLARE rows CURSOR FOR SELECT 1;\n'
"""What UNLISTEN, EXECUTE and FETCH complete."""
CTRL_C, CTRL_U = "\x03", "\x15"
_SHOWN_S, _MOMENT_S = 60.0, 0.5
Server = TidegateServer | PostgresServer


class Terminal:
    """psql at a terminal of its own."""

    def __init__(self, server: Server, folder: Path) -> None:
        (folder / "inputrc").write_text(INPUTRC, encoding="utf-8")
        environment = {**os.environ, "INPUTRC": str(folder / "inputrc"), "TERM": "dumb", "PAGER": "cat"}
        environment |= {"LC_ALL": "C.UTF-8", "PGOPTIONS": "-c search_path=shop,public", "PGAPPNAME": "terminal"}
        environment |= {"PSQL_HISTORY": "/dev/null", "COLUMNS": "200"}
        self._ours, theirs = pty.openpty()
        # --ctty: the keys of this terminal reach psql as signals.
        command = ["setsid", "--ctty", find_psql(), "-X", "-q", "-d", server.dsn(DATABASE)]
        command += ["-v", f"PROMPT1={PROMPT}", "-v", "PROMPT2=.. ", "-v", "PROMPT3=", "-v", "COMP_KEYWORD_CASE=upper"]
        self._process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self.until(PROMPT)

    def close(self) -> None:
        """Hang up."""
        os.close(self._ours)
        self._process.wait(_SHOWN_S)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    def until(self, end: str) -> str:
        """What is shown up to `end`, which has to come."""
        shown, deadline = "", time.monotonic() + _SHOWN_S
        while not shown.endswith(end):
            ready, _, _ = select.select([self._ours], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"{end!r} does not come: {shown!r}"
            shown += os.read(self._ours, 65536).decode()
        return shown

    def said(self, text: str) -> str:
        """What is shown when a line has been typed, up to the next prompt."""
        self.type(f"{text}\n")
        return self.until(PROMPT)

    def completed(self, line: str) -> str:
        """What is shown when TAB is pressed behind `line`, which is then taken back."""
        self.type(f"{line}\t{CTRL_U}\\echo @@\n")
        return self.until(f"@@\r\n{PROMPT}")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Servers of our own: lists of roles have nothing of other tests."""
    with run_server(tmp_path_factory.mktemp("psql") / "data") as ours, start_postgres() as theirs:
        set_up(ours, theirs)
        yield ours, theirs


@pytest.fixture(scope="module")
def completions(
    both: tuple[Server, Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Terminal, Terminal]]:
    """A terminal at each server."""
    ours, theirs = (Terminal(server, tmp_path_factory.mktemp("terminal")) for server in both)
    for terminal in (ours, theirs):
        terminal.said(BEFORE.strip())
    yield ours, theirs
    for terminal in (ours, theirs):
        terminal.close()


@pytest.mark.parametrize("line", LINES)
def test_tab_completes_what_it_completes_with_postgresql(completions: tuple[Terminal, Terminal], line: str) -> None:
    ours, theirs = completions
    assert ours.completed(line) == theirs.completed(line)


def _running(server: Server, text: str) -> None:
    """Waits until the terminal's session has been running a statement with `text` for a moment."""
    wanted = (
        "SELECT 1 FROM pg_stat_activity WHERE application_name = 'terminal' AND state = 'active' AND query LIKE %s"
        " AND now() - query_start > interval '0.3 s'"
    )
    with psycopg.connect(server.dsn(DATABASE), autocommit=True) as connection:
        deadline = time.monotonic() + _SHOWN_S
        while not connection.execute(wanted, (f"%{text}%",)).fetchall():
            assert time.monotonic() < deadline, f"{text} does not run"
            time.sleep(0.05)


def _while_a_statement_runs(terminal: Terminal, server: Server) -> list[str]:
    terminal.type("SELECT pg_sleep(600);\n")
    _running(server, "pg_sleep(600)")
    terminal.type(CTRL_C)
    return [terminal.until(PROMPT), terminal.said("SELECT 1 AS still;")]


def _in_a_block(terminal: Terminal, server: Server) -> list[str]:
    terminal.said("BEGIN;")
    terminal.said("CREATE TABLE begun (a int);")
    terminal.type("SELECT a, pg_sleep(600) FROM (VALUES (1)) AS v (a);\n")
    _running(server, "pg_sleep(600)")
    terminal.type(CTRL_C)
    return [terminal.until(PROMPT), *map(terminal.said, ("SELECT 1;", "ROLLBACK;", "SELECT * FROM begun;"))]


def _while_it_waits_for_a_lock(terminal: Terminal, server: Server) -> list[str]:
    with psycopg.connect(server.dsn(DATABASE)) as connection:
        connection.execute("LOCK TABLE shop.scratch IN ACCESS EXCLUSIVE MODE")
        terminal.type("SELECT count(*) FROM shop.scratch;\n")
        _running(server, "count(*) FROM shop.scratch")
        terminal.type(CTRL_C)
        return [terminal.until(PROMPT)]


def _while_a_line_is_typed(terminal: Terminal, server: Server) -> list[str]:
    terminal.type("SELECT 1,\n")
    shown = terminal.until(".. ")
    terminal.type(f"2{CTRL_C}")
    return [shown, terminal.until(PROMPT), terminal.said("SELECT 3 AS three;")]


def _while_it_is_watched(terminal: Terminal, server: Server) -> list[str]:
    terminal.type("SELECT 'seen' AS it \\watch 600\n")
    terminal.until("(1 row)\r\n\r\n")
    # psql waits now, after a moment: before, it would send a request.
    time.sleep(_MOMENT_S)
    terminal.type(CTRL_C)
    return [terminal.until(PROMPT), terminal.said("SELECT 4 AS four;")]


def _while_rows_are_copied_in(terminal: Terminal, server: Server) -> list[str]:
    terminal.type("COPY shop.scratch FROM STDIN;\n")
    _running(server, "COPY shop.scratch")
    terminal.type(f"1\tone\n{CTRL_C}")
    return [re.sub(r"1\s+one", "1 one", terminal.until(PROMPT)), terminal.said("SELECT count(*) FROM shop.scratch;")]


def _while_rows_are_fetched(terminal: Terminal, server: Server) -> list[str]:
    terminal.said("\\set FETCH_COUNT 2")
    terminal.type("SELECT g, pg_sleep(CASE WHEN g = 3 THEN 600 ELSE 0 END) FROM generate_series(1, 4) AS g;\n")
    _running(server, "_psql_cursor")
    terminal.type(CTRL_C)
    terminal.until(PROMPT)
    return [terminal.said("\\unset FETCH_COUNT"), terminal.said("SELECT 5 AS five;")]


INTERRUPTS: tuple[Callable[[Terminal, Server], list[str]], ...] = (
    _while_a_statement_runs,
    _in_a_block,
    _while_it_waits_for_a_lock,
    _while_a_line_is_typed,
    _while_it_is_watched,
    _while_rows_are_copied_in,
    _while_rows_are_fetched,
)


@pytest.mark.parametrize("interrupt", INTERRUPTS, ids=[step.__name__.strip("_") for step in INTERRUPTS])
def test_ctrl_c_ends_what_it_ends_with_postgresql(
    both: tuple[Server, Server], tmp_path: Path, interrupt: Callable[[Terminal, Server], list[str]]
) -> None:
    shown = []
    for server in both:
        terminal = Terminal(server, tmp_path)
        try:
            shown.append(interrupt(terminal, server))
        finally:
            terminal.close()
    ours, theirs = shown
    assert ours == theirs
