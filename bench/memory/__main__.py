"""What a statement takes of memory as its rows grow: `make memory`; writes docs/memory.md.

One server gets each statement for each of `--rows`. Of each: its time, and the peak of the
process's anonymous memory beyond what it had (sampled: mapped and cached files are the system's to drop).
"""

from __future__ import annotations

import argparse
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
from msgspec import Struct

from bench.report import machine, print_json
from tests.support.server import AS_SHIPPED, run_server

Connection: TypeAlias = "psycopg.Connection[Any]"

PAGE = Path("docs/memory.md")
MARK = "<!-- made by `make memory` -->\n"
"""What follows it in the page is written anew."""

INTERVAL_S = 0.01

ROWS = "(n int PRIMARY KEY, u int UNIQUE, v text)"
SERIES = "SELECT n, n, 'row ' || n FROM generate_series(1, {rows}) n"


class Case(Struct, frozen=True, kw_only=True):
    """What `run` does is measured; `before` and `after` are not. {rows} stands for their number."""

    name: str
    run: Callable[[Connection, int], object]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def text(*statements: str) -> Callable[[Connection, int], object]:
    """The statements, one after the other; what they return is received and dropped."""

    def run(connection: Connection, rows: int) -> None:
        for statement in statements:
            connection.execute(statement.format(rows=rows).encode())

    return run


def copied(statement: str) -> Callable[[Connection, int], object]:
    """COPY FROM STDIN of numbered rows."""

    def run(connection: Connection, rows: int) -> None:
        with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for first in range(1, rows + 1, 10_000):
                last = min(first + 10_000, rows + 1)
                copy.write("".join([f"{n}\t{n}\trow {n}\n" for n in range(first, last)]))

    return run


def streamed(statement: str) -> Callable[[Connection, int], object]:
    """A statement whose rows are received one by one, and dropped."""

    def run(connection: Connection, rows: int) -> None:
        with connection.cursor() as cursor:
            for _ in cursor.stream(statement.format(rows=rows).encode()):
                pass

    return run


def fetched(name: str) -> tuple[str, ...]:
    """A cursor's rows, to its middle and back."""
    return (f"MOVE FORWARD 1000 IN {name}", f"FETCH 10 FROM {name}", f"MOVE BACKWARD 10 IN {name}", f"CLOSE {name}")


FILLED = (f"CREATE TABLE filled {ROWS}", f"INSERT INTO filled {SERIES}")
DROPPED = ("DROP TABLE filled",)
REFERRED = ("CREATE TABLE parent (n int PRIMARY KEY)", "INSERT INTO parent SELECT n FROM generate_series(1, {rows}) n")

CASES = (
    Case(
        name="INSERT ... SELECT without a key",
        before=("CREATE TABLE filled (n int, u int, v text)",),
        run=text(f"INSERT INTO filled {SERIES}"),
        after=DROPPED,
    ),
    Case(
        name="INSERT ... SELECT, two keys",
        before=(FILLED[0],),
        run=text(f"INSERT INTO filled {SERIES}"),
        after=DROPPED,
    ),
    Case(name="COPY FROM, two keys", before=(FILLED[0],), run=copied("COPY filled FROM STDIN"), after=DROPPED),
    Case(
        name="INSERT ... SELECT into a filled table, two keys",
        before=FILLED,
        run=text("INSERT INTO filled SELECT n + {rows}, n + {rows}, 'row ' || n FROM generate_series(1, {rows}) n"),
        after=DROPPED,
    ),
    Case(
        name="INSERT ... SELECT, text key",
        before=("CREATE TABLE filled (k text PRIMARY KEY, v int)",),
        run=text("INSERT INTO filled SELECT 'the key of row ' || n, n FROM generate_series(1, {rows}) n"),
        after=DROPPED,
    ),
    Case(name="UPDATE of a value", before=FILLED, run=text("UPDATE filled SET v = v || '.'"), after=DROPPED),
    Case(name="UPDATE of a key", before=FILLED, run=text("UPDATE filled SET u = u + {rows}"), after=DROPPED),
    Case(name="DELETE", before=FILLED, run=text("DELETE FROM filled"), after=DROPPED),
    Case(
        name="DELETE of what a foreign key refers to",
        before=(*REFERRED, "CREATE TABLE child (n int REFERENCES parent)"),
        run=text("DELETE FROM parent"),
        after=("DROP TABLE child, parent",),
    ),
    Case(
        name="INSERT ... SELECT with a foreign key",
        before=(*REFERRED, "CREATE TABLE child (n int REFERENCES parent)"),
        run=text("INSERT INTO child SELECT n FROM parent"),
        after=("DROP TABLE child, parent",),
    ),
    Case(
        name="deferred foreign and unique keys",
        before=(
            *REFERRED,
            "CREATE TABLE child (n int REFERENCES parent DEFERRABLE INITIALLY DEFERRED,"
            " u int UNIQUE DEFERRABLE INITIALLY DEFERRED)",
        ),
        run=text("INSERT INTO child SELECT n, n FROM parent"),
        after=("DROP TABLE child, parent",),
    ),
    Case(
        name="ON CONFLICT DO UPDATE, all conflict",
        before=FILLED,
        run=text(f"INSERT INTO filled {SERIES} ON CONFLICT (n) DO UPDATE SET v = excluded.v || '.'"),
        after=DROPPED,
    ),
    Case(
        name="ON CONFLICT DO NOTHING, none conflicts",
        before=(FILLED[0],),
        run=text(f"INSERT INTO filled {SERIES} ON CONFLICT DO NOTHING"),
        after=DROPPED,
    ),
    Case(
        name="UPDATE ... RETURNING",
        before=FILLED,
        run=streamed("UPDATE filled SET v = v || '.' RETURNING *"),
        after=DROPPED,
    ),
    Case(
        name="INSERT ... RETURNING",
        before=("CREATE TABLE filled (n int, u int, v text)",),
        run=streamed(f"INSERT INTO filled {SERIES} RETURNING *"),
        after=DROPPED,
    ),
    Case(
        name="a temporary table and its UPDATE",
        run=text(
            "CREATE TEMPORARY TABLE filled (n int, u int, v text)",
            f"INSERT INTO filled {SERIES}",
            "UPDATE filled SET v = v || '.'",
            "DROP TABLE filled",
        ),
    ),
    Case(
        name="a cursor WITH HOLD",
        before=FILLED,
        run=text("DECLARE held SCROLL CURSOR WITH HOLD FOR SELECT * FROM filled", *fetched("held")),
        after=DROPPED,
    ),
    Case(
        name="SELECT ... FOR UPDATE",
        before=FILLED,
        run=streamed("SELECT n FROM filled FOR UPDATE"),
        after=DROPPED,
    ),
    Case(name="SELECT ... ORDER BY", before=FILLED, run=streamed("SELECT * FROM filled ORDER BY v"), after=DROPPED),
)


class Outcome(Struct, frozen=True, kw_only=True):
    """What a statement took."""

    seconds: float
    peak_mib: float


def _anonymous_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1])


@contextmanager
def _peak(pid: int) -> Iterator[Callable[[], int]]:
    """The most anonymous memory since then, in KiB."""
    most = _anonymous_kib(pid)
    ended = threading.Event()

    def sample() -> None:
        nonlocal most
        while not ended.wait(INTERVAL_S):
            most = max(most, _anonymous_kib(pid))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield lambda: most
    finally:
        ended.set()
        thread.join()


def measure(dsn: str, pid: int, case: Case, rows: int) -> Outcome:
    """Run `case` with so many rows."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in case.before:
            connection.execute(statement.format(rows=rows).encode())
        # Until what the statements before have left is given back.
        time.sleep(3)
        before = _anonymous_kib(pid)
        began = time.perf_counter()
        with _peak(pid) as peak:
            case.run(connection, rows)
            most = peak()
        seconds = time.perf_counter() - began
        for statement in case.after:
            connection.execute(statement.encode())
    return Outcome(seconds=seconds, peak_mib=(most - before) / 1024)


def table(rows: list[int], outcomes: list[tuple[Case, list[Outcome]]]) -> str:
    """The table of the page."""
    heads = [f"{count:,} rows" for count in rows]
    lines = [
        f"On {machine()}:",
        "",
        "| statement | " + " | ".join([f"{head} | peak" for head in heads]) + " |",
        "| --- |" + " ---: | ---: |" * len(heads),
    ]
    for case, found in outcomes:
        cells = [f"{each.seconds:,.1f} s | {each.peak_mib:,.0f} MiB" for each in found]
        lines.append(f"| {case.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="make memory", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[250_000, 1_000_000])
    parser.add_argument("--only", default="", metavar="REGEX", help="statements whose names match; writes no page")
    options = parser.parse_args()
    outcomes: list[tuple[Case, list[Outcome]]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-memory-")))
        server = stack.enter_context(run_server(folder / "data", environment=AS_SHIPPED))
        assert server.process is not None
        for case in CASES:
            if not re.search(options.only, case.name):
                continue
            found = [measure(server.dsn(), server.process.pid, case, rows) for rows in options.rows]
            outcomes.append((case, found))
            print(
                f"{case.name:50}" + "".join([f"{each.seconds:8.1f} s {each.peak_mib:7,.0f} MiB" for each in found]),
                flush=True,
            )
    if not options.only:
        head = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
        PAGE.write_text(head + MARK + "\n" + table(options.rows, outcomes), encoding="utf-8")
    print_json(
        "memory",
        {case.name: found[-1].peak_mib / max(1.0, found[0].peak_mib) for case, found in outcomes},
        {"longest peak, MiB": round(max(found[-1].peak_mib for _, found in outcomes))},
    )


if __name__ == "__main__":
    main()
