"""Large statements against PostgreSQL in the same run: `make large`.

Both servers get the same statements in turn, each over a connection of its own. Of each: its time, the peak of the
memory of the process that ran it beyond what it had before, and the longest time that another session, a process of its
own, waited meanwhile for `SELECT 1`. What a server refuses has its SQLSTATE in place of a time.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psycopg
from msgspec import Struct

from bench.large.cases import CASES, TABLES, Case
from bench.large.second_session import SecondSession, second_session
from bench.report import geometric_mean, machine, print_json, print_table
from tests.support.postgres import start_postgres
from tests.support.server import WATCHED, run_server
from tests.support.watched_server import ABOVE_SECONDS

PAGE = Path("docs/large-statements.md")
TIMEOUT_S = 60
"""A statement that takes longer is given up."""

STEPS = {ABOVE_SECONDS: "0.002"}
"""The server as its users have it, with the event loop's longer steps noted."""

GOOD_STEP_MS = 20.0

GOOD_WAIT_MS = 50.0
"""Waits of the second session beyond this count, where PostgreSQL's was below it."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What a server made of a statement. `sqlstate` is that of its error, or empty."""

    seconds: float
    peak_mib: float
    wait_ms: float
    step_ms: float
    """The longest step of the server's event loop, in processor time; 0 for PostgreSQL."""
    sqlstate: str = ""
    message: str = ""

    @property
    def time(self) -> str:
        """For the table."""
        return self.sqlstate or f"{self.seconds * 1000:,.0f} ms"


class Target(Struct, frozen=True, kw_only=True):
    """A server under measurement. `pid` is that of the process that runs all statements; None: each connection's."""

    dsn: str
    pid: int | None
    second: SecondSession
    stalls: Callable[[], list[tuple[float, str]]] = list
    """What the event loop's watch has seen since it was last asked."""


def _memory_kib(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1])


def measure(target: Target, case: Case) -> Outcome:
    """Run `case`. Raises nothing that the server reports."""
    with psycopg.connect(target.dsn, autocommit=True) as connection:
        for statement in case.before:
            connection.execute(statement.encode())
        connection.execute(f"SET statement_timeout = '{TIMEOUT_S}s'".encode())
        pid = target.pid or connection.info.backend_pid
        # Resets the peak of a process's memory to what it has now.
        Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
        before = _memory_kib(pid, "VmRSS")
        target.second.longest_ms()
        target.stalls()
        began = time.perf_counter()
        sqlstate = message = ""
        try:
            case.run(connection)
        except psycopg.Error as error:
            sqlstate, message = error.sqlstate or "lost", str(error).partition("\n")[0][:200]
        seconds = time.perf_counter() - began
        wait_ms = target.second.longest_ms()
        peak = _memory_kib(pid, "VmHWM") - before
        step_ms = max([seconds * 1000 for seconds, _ in target.stalls()], default=0.0)
    with psycopg.connect(target.dsn, autocommit=True) as connection:
        for statement in case.after:
            try:
                connection.execute(statement.encode())
            except psycopg.Error as error:
                message += f" / {error}"
    return Outcome(
        seconds=seconds, peak_mib=max(0, peak) / 1024, wait_ms=wait_ms, step_ms=step_ms, sqlstate=sqlstate,
        message=message,
    )  # fmt: skip


def page(rows: list[tuple[Case, Outcome, Outcome]]) -> str:
    """The table as a page."""
    lines = [
        "# Large statements",
        "",
        "Made by `make large`: each statement on Tidegate and on PostgreSQL 15 in one run. *Peak* is the memory that",
        "the server's process (PostgreSQL: the session's) took beyond what it had; *wait* the longest time that a",
        "second session, a process of its own, waited for `SELECT 1` meanwhile, while others worked; *step* the",
        "longest time that our event loop, which all sessions share, was busy at once, in processor time. Beside long",
        "values the wait is longer: one call on a text of 100 MB lets no other thread run for 0.1 s. Where",
        "a server refuses, there is its SQLSTATE in place of a time. The limits are listed in",
        "[compatibility.md](compatibility.md).",
        "",
        f"On {machine()}:",
        "",
        "| statement | Tidegate | PostgreSQL | peak | PostgreSQL's | step | wait | PostgreSQL's |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for case, ours, theirs in rows:
        lines.append(
            f"| {case.name} | {ours.time} | {theirs.time} | {ours.peak_mib:,.0f} MiB | {theirs.peak_mib:,.0f} MiB "
            f"| {ours.step_ms:.0f} ms | {ours.wait_ms:.0f} ms | {theirs.wait_ms:.0f} ms |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="make large", description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="statements whose names match; writes no page")
    options = parser.parse_args()
    chosen = [case for case in CASES if re.search(options.only, case.name)]
    rows: list[tuple[Case, Outcome, Outcome]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-large-")))
        ours = stack.enter_context(run_server(folder / "data", environment=STEPS, module=WATCHED))
        theirs = stack.enter_context(start_postgres(folder=None))
        for server in (ours, theirs):
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                for statement in TABLES:
                    connection.execute(statement.encode())
        assert ours.process is not None
        targets = [
            Target(dsn=server.dsn(), pid=pid, second=stack.enter_context(second_session(server.dsn())), stalls=stalls)
            for server, pid, stalls in ((ours, ours.process.pid, ours.stalls), (theirs, None, list))
        ]
        for case in chosen:
            mine, other = (measure(target, case) for target in targets)
            rows.append((case, mine, other))
            print(
                f"{case.name:45} {mine.time:>12} {other.time:>12} {mine.peak_mib:8,.0f} {other.peak_mib:8,.0f} MiB"
                f" {mine.step_ms:8.1f} {mine.wait_ms:8.1f} {other.wait_ms:8.1f} ms  {mine.message}",
                flush=True,
            )
    if not options.only:
        PAGE.write_text(page(rows), encoding="utf-8")
    compared = [(mine, other) for _, mine, other in rows if not mine.sqlstate and not other.sqlstate]
    print_table(
        [
            ["statements", "geometric mean of PostgreSQL's time / ours"],
            [str(len(compared)), f"{geometric_mean([other.seconds / mine.seconds for mine, other in compared]):.3f}"],
        ]
    )
    print_json(
        "large",
        {case.name: other.seconds / mine.seconds for case, mine, other in rows if not mine.sqlstate + other.sqlstate},
        {
            "statements": len(rows),
            "internal errors": sum(mine.sqlstate in ("XX000", "lost") for _, mine, _ in rows),
            "other SQLSTATEs than PostgreSQL's": sum(mine.sqlstate != other.sqlstate for _, mine, other in rows),
            "longest wait, ms": max(mine.wait_ms for _, mine, _ in rows),
            "longest step, ms": max(mine.step_ms for _, mine, _ in rows),
            "steps above 20 ms": sum(mine.step_ms > GOOD_STEP_MS for _, mine, _ in rows),
            "waits above 50 ms": sum(mine.wait_ms > GOOD_WAIT_MS >= other.wait_ms for _, mine, other in rows),
            "longest peak, MiB": round(max(mine.peak_mib for _, mine, _ in rows)),
        },
    )


if __name__ == "__main__":
    main()
