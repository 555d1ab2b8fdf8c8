"""Which anomalies each isolation level lets happen, on PostgreSQL and on us: `python -m tests.isolation.hermitage`.

The cases are those that the Hermitage project made known, by their names in the literature (Adya's G0 to G2, lost
updates, predicates), in steps of our own. Each runs over the wire in sessions that wait for each other as they do
anywhere; a step that waits is left alone until its session is next needed. An anomaly is *seen* when what was read and
what is stored at the end cannot be had without it. Writes the matrix into docs/isolation.md, between its two marks.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import psycopg
from msgspec import Struct

from tests.support.postgres import start_postgres
from tests.support.server import AS_SHIPPED, run_server

PAGE = Path(__file__).resolve().parents[2] / "docs" / "isolation.md"
BEGIN, END = "<!-- hermitage -->\n", "<!-- /hermitage -->\n"
LEVELS = ("read uncommitted", "read committed", "repeatable read", "serializable")
PATIENCE_S = 0.4
"""After which a step is taken to wait for another session."""

Rows = Sequence[tuple[Any, ...]] | str | None
"""What a step gave: rows, the SQLSTATE of its error, or nothing."""


class Case(Struct, frozen=True):
    """An anomaly: the steps (session, statement) and what tells that it has happened. Reads are numbered from 0; `seen`
    is given them, who has committed, and the rows that are stored at the end."""

    name: str
    meaning: str
    steps: tuple[tuple[int, str], ...]
    seen: Callable[[Sequence[Rows], Sequence[bool], Mapping[int, int]], bool]


def _read(where: str) -> str:
    return f"select id, value from test where {where} order by id"


def _set(row: int, value: int | str) -> str:
    return f"update test set value = {value} where id = {row}"


CASES = (
    Case(
        "G0", "dirty write: the changes of two transactions mix",
        ((1, _set(1, 11)), (2, _set(1, 12)), (1, _set(2, 21)), (1, "commit"), (2, _set(2, 22)), (2, "commit")),
        lambda reads, done, rows: (rows[1], rows[2]) not in ((11, 21), (12, 22)),
    ),
    Case(
        "G1a", "aborted read: what is rolled back is read",
        ((1, _set(1, 101)), (2, _read("id = 1")), (1, "rollback"), (2, _read("id = 1")), (2, "commit")),
        lambda reads, done, rows: [(1, 101)] in reads,
    ),
    Case(
        "G1b", "intermediate read: what is changed again before the commit is read",
        ((1, _set(1, 101)), (2, _read("id = 1")), (1, _set(1, 11)), (1, "commit"), (2, _read("id = 1")), (2, "commit")),
        lambda reads, done, rows: [(1, 101)] in reads,
    ),
    Case(
        "G1c", "circular information flow: two transactions read each other's changes",
        ((1, _set(1, 11)), (2, _set(2, 22)), (1, _read("id = 2")), (2, _read("id = 1")), (1, "commit"), (2, "commit")),
        lambda reads, done, rows: all(done) and reads == [[(2, 22)], [(1, 11)]],
    ),
    Case(
        "OTV", "observed transaction vanishes: of two changes of one transaction the first is seen, then not",
        ((1, _set(1, 11)), (1, _set(2, 19)), (2, _set(1, 12)), (1, "commit"), (3, _read("id = 1")), (2, _set(2, 18)),
         (3, _read("id = 2")), (2, "commit"), (3, _read("id = 2")), (3, _read("id = 1")), (3, "commit")),
        lambda reads, done, rows: reads[0] == [(1, 12)] and reads[1] != [(2, 18)],
    ),
    Case(
        "PMP", "predicate-many-preceders: rows that come to match are read the second time",
        ((1, _read("value = 30")), (2, "insert into test values (3, 30)"), (2, "commit"), (1, _read("value % 3 = 0")),
         (1, "commit")),
        lambda reads, done, rows: done[0] and reads[0] != reads[1],
    ),
    Case(
        "P4", "lost update: two read a row, both change it by what they have read",
        ((1, _read("id = 1")), (2, _read("id = 1")), (1, _set(1, 11)), (2, _set(1, 11)), (1, "commit"), (2, "commit")),
        lambda reads, done, rows: all(done),
    ),
    Case(
        "G-single", "read skew: one row is read before, another after somebody else's change of both",
        ((1, _read("id = 1")), (2, _set(1, 12)), (2, _set(2, 18)), (2, "commit"), (1, _read("id = 2")), (1, "commit")),
        lambda reads, done, rows: done[0] and reads[0] == [(1, 10)] and reads[1] == [(2, 18)],
    ),
    Case(
        "G2-item", "write skew: two read two rows, and each changes another one of them",
        ((1, _read("id in (1, 2)")), (2, _read("id in (1, 2)")), (1, _set(1, 11)), (2, _set(2, 21)), (1, "commit"),
         (2, "commit")),
        lambda reads, done, rows: all(done),
    ),
    Case(
        "G2", "write skew of predicates: two find no row, and each inserts one that the other looked for",
        ((1, _read("value % 3 = 0")), (2, _read("value % 3 = 0")), (1, "insert into test values (3, 30)"),
         (2, "insert into test values (4, 42)"), (1, "commit"), (2, "commit")),
        lambda reads, done, rows: all(done),
    ),
    Case(
        "G2, two edges", "one reads what another is about to change, while a third sees a part of it",
        ((1, _read("true")), (2, _set(2, "value + 5")), (2, "commit"), (3, _read("true")), (3, "commit"),
         (1, _set(1, 0)), (1, "commit")),
        lambda reads, done, rows: all(done) and reads == [[(1, 10), (2, 20)], [(1, 10), (2, 25)]],
    ),
)  # fmt: skip
"""In the order of what they ask of a level."""


class _Session:
    def __init__(self, dsn: str, level: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.connection.execute("set lock_timeout = '10s'")
        self.connection.execute(f"begin isolation level {level}".encode())
        self._threads = ThreadPoolExecutor(1)
        self.failed = False
        self.committed = False

    def start(self, text: str) -> Future[Rows]:
        return self._threads.submit(self._run, text)

    def _run(self, text: str) -> Rows:
        try:
            result = self.connection.execute(text.encode())
            self.committed |= text == "commit" and not self.failed
            return result.fetchall() if result.description else None
        except psycopg.Error as error:
            self.failed = True
            return error.sqlstate or "connection"

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        self.connection.close()


def happens(dsn: str, level: str, case: Case) -> bool:
    """Whether the anomaly is seen at `level`."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop table if exists test")
        connection.execute("create table test (id int primary key, value int)")
        connection.execute("insert into test values (1, 10), (2, 20)")
        sessions = {number: _Session(dsn, level) for number in sorted({number for number, _ in case.steps})}
        reads: list[Future[Rows]] = []
        for number, text in case.steps:
            step = sessions[number].start(text)
            wait([step], PATIENCE_S)
            if text.startswith("select"):
                reads.append(step)
        found = [read.result() for read in reads]
        for session in sessions.values():
            session.close()
        stored: dict[int, int] = dict(connection.execute("select id, value from test").fetchall())
    return case.seen(found, [session.committed for session in sessions.values()], stored)


def matrix(servers: Mapping[str, str]) -> str:
    """The page's part, of servers by name."""
    columns = [(name, level) for level in LEVELS for name in servers]
    lines = ["| anomaly | " + " | ".join(f"{level}, {name}" for name, level in columns) + " |"]
    lines.append("| --- " * (len(columns) + 1) + "|")
    for case in CASES:
        cells = ["seen" if happens(servers[name], level, case) else "–" for name, level in columns]
        print(case.name, cells, file=sys.stderr, flush=True)
        lines.append(f"| {case.name}: {case.meaning} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs all cases and writes the page."""
    with tempfile.TemporaryDirectory(prefix="tidegate-hermitage-") as folder:
        data = Path(folder)
        with start_postgres() as postgres, run_server(data / "data", environment=AS_SHIPPED) as server:
            found = matrix({"us": server.dsn(), "PostgreSQL 15": postgres.dsn()})
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + "\n" + found + "\n" + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
