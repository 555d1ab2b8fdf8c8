"""``python -m tests.regression``: runs the regression SQL of PostgreSQL 15 on a PostgreSQL 15 and on Tidegate, and
writes docs/regression.md. Fails when less than the share that `page` promises gives PostgreSQL's answer.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from psycopg import pq

from tests.regression.compare import Difference
from tests.regression.page import PROMISED_PERCENT, Tally, page
from tests.regression.run import Record, Servers
from tests.regression.target import Target
from tests.support.postgres import start_postgres
from tests.support.server import AS_SHIPPED, ROOT, TidegateServer

SOURCE = ROOT / ".cache" / "postgres-tests" / "regress"
PAGE = ROOT / "docs" / "regression.md"
SETUP = "test_setup"

SETTINGS = {
    "datestyle": "Postgres, MDY",
    "timezone": "PST8PDT",
    "intervalstyle": "postgres_verbose",
    "default_transaction_isolation": "read committed",
}
"""What PostgreSQL's own run of the files has; the last is not Tidegate's default."""

SERVER_SETTINGS = ("max_prepared_transactions=2",)
POSTGRES_SETTINGS = (*SERVER_SETTINGS, "allow_in_place_tablespaces=on")
POSTGRES_TIMEOUT_S = 120.0
TIDEGATE_TIMEOUT_S = 20.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files that are named, or those of the default schedule; 0 when as many are right as is promised."""
    parser = argparse.ArgumentParser(prog="python -m tests.regression", description=__doc__)
    parser.add_argument("files", nargs="*", help="names of files, after test_setup (default: all; the page is written)")
    parser.add_argument("--diff", action="store_true", help="show the statements that differ, with both answers")
    parsed = parser.parse_args(arguments)
    names = [SETUP, *(name for name in parsed.files if name != SETUP)] if parsed.files else schedule()
    tally = Tally()
    began = time.monotonic()
    with _both() as servers:
        for name in names:
            for record in servers.run(SOURCE / "sql" / f"{name}.sql"):
                tally.add(record)
                if parsed.diff and record.difference is not Difference.NONE:
                    print(_shown(record), flush=True)
            print(f"{tally.line(name)}  {time.monotonic() - began:6.0f} s", flush=True)
        tally.skipped = servers.skipped
    print(tally.summary())
    if not parsed.files:
        PAGE.write_text(page(tally), encoding="utf-8")
        return 0 if tally.percent() >= PROMISED_PERCENT else 1
    return 0


def schedule() -> list[str]:
    """The files of the default schedule, in its order."""
    lines = (SOURCE / "parallel_schedule").read_text(encoding="utf-8").splitlines()
    return [name for line in lines if line.startswith("test:") for name in line.split()[1:]]


@contextmanager
def _both() -> Iterator[Servers]:
    """Both servers with a database `regression`, while they run."""
    escaped = {name: value.replace(" ", "\\\\ ") for name, value in SETTINGS.items()}
    options = f"options='{' '.join(f'-c {name}={value}' for name, value in escaped.items())}'"
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-regression-") as folder,
        start_postgres(settings=POSTGRES_SETTINGS) as postgres,
    ):
        home = Path(folder)
        home.chmod(0o755)
        shutil.copytree(SOURCE / "data", home / "data")
        (home / "results").mkdir()
        (home / "results").chmod(0o777)
        given = [word for setting in SERVER_SETTINGS for word in ("--set", setting)]
        server = TidegateServer(home / "tidegate", arguments=("--spark-start", "lazy", *given), environment=AS_SHIPPED)
        server.start()

        def revive() -> None:
            server.kill()
            server.start()

        _create_database(f"{postgres.dsn()} {options}")
        one_database = not _create_database(f"{server.dsn()} {options}")
        ours = Target(
            f"{server.dsn('postgres' if one_database else 'regression')} {options}", timeout_s=TIDEGATE_TIMEOUT_S
        )
        theirs = Target(f"{postgres.dsn('regression')} {options}", timeout_s=POSTGRES_TIMEOUT_S)
        environment = {
            "PG_ABS_SRCDIR": str(home),
            "PG_ABS_BUILDDIR": str(home),
            "PG_LIBDIR": str(home),
            "PG_DLSUFFIX": ".so",
        }
        try:
            yield Servers(theirs, ours, environment=environment, revive=revive, one_database=one_database)
        finally:
            for target in (theirs, ours):
                target.close()
            server.kill()


def _create_database(address: str) -> bool:
    connection = pq.PGconn.connect(address.encode())
    result = connection.exec_(b"CREATE DATABASE regression TEMPLATE template0")
    connection.finish()
    return result.status == pq.ExecStatus.COMMAND_OK


def _shown(record: Record) -> str:
    lines = [f"--- {record.file}:{record.line} [{record.difference}] {record.reason}", record.sql.strip()]
    for server, outcome in (("postgresql", record.wanted), ("tidegate", record.got)):
        for answer in outcome.answers:
            if answer.sqlstate is not None:
                lines.append(f"{server}: {answer.sqlstate} {answer.message}")
            else:
                rows = answer.rows if len(answer.rows) <= 20 else [*answer.rows[:20], ("...",)]
                lines.append(f"{server}: {answer.tag} {answer.columns or ''} {answer.copied or ''}")
                lines += [re.sub(r"\s+", " ", f"    {row}")[:300] for row in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
