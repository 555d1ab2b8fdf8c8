"""``python -m tests.isolation``: runs PostgreSQL's isolation specs on a PostgreSQL 15 and on Tidegate, and writes
docs/isolation-specs.md. Fails when a spec differs that `differences` does not name, or no longer differs that it names.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from psycopg import pq

from tests.isolation.differences import DIFFERENCES
from tests.isolation.page import page
from tests.isolation.permutation import SpecFailed, SpecRun
from tests.isolation.spec import parse_spec
from tests.support.postgres import start_postgres
from tests.support.server import AS_SHIPPED, ROOT, TidegateServer

SPECS = ROOT / ".cache" / "postgres-tests" / "isolation" / "specs"
PAGE = ROOT / "docs" / "isolation-specs.md"

SETTINGS = {
    "default_transaction_isolation": "read committed",
    "datestyle": "Postgres, MDY",
    "timezone": "PST8PDT",
}
"""What PostgreSQL's own run of the specs has; the first is not Tidegate's default."""

MAX_PREPARED = 8
"""Prepared transactions that both servers allow: neither does by itself."""

STEP_TIMEOUT_S = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the specs that are named, or all; 0 when each gives what is expected of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.isolation", description=__doc__)
    parser.add_argument("specs", nargs="*", help="names of specs (default: all, and the page is written)")
    parser.add_argument("--diff", action="store_true", help="show how the output of each spec differs")
    parsed = parser.parse_args(arguments)
    names = parsed.specs or sorted(path.stem for path in SPECS.glob("*.spec"))
    if not names:
        parser.error(f"there are no specs in {SPECS}: scripts/postgres-tests.sh fetches them")
    same: dict[str, bool] = {}
    with both_servers() as (postgres, tidegate):
        for name in names:
            text = (SPECS / f"{name}.spec").read_text(encoding="utf-8")
            wanted, got = run_spec(text, postgres), run_spec(text, tidegate)
            same[name] = wanted == got
            print(f"{'same   ' if same[name] else 'differs'} {name}", flush=True)
            if parsed.diff and not same[name]:
                lines = difflib.unified_diff(wanted.splitlines(), got.splitlines(), "postgresql", "tidegate", "", "")
                print("\n".join(lines))
    if not parsed.specs:
        PAGE.write_text(page(same, DIFFERENCES), encoding="utf-8")
    unexpected = [name for name, equal in same.items() if equal is (name in DIFFERENCES)]
    for name in unexpected:
        print(f"{name}: {'no longer differs' if same[name] else 'differs, and nothing says why'}")
    print(f"{sum(same.values())} of {len(same)} specs give PostgreSQL's output")
    return 1 if unexpected else 0


@contextmanager
def both_servers() -> Iterator[tuple[str, str]]:
    """The addresses of a PostgreSQL and of Tidegate, while they run."""
    setting = f"max_prepared_transactions={MAX_PREPARED}"
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-isolation-") as folder,
        start_postgres(settings=(setting,)) as postgres,
    ):
        server = TidegateServer(Path(folder) / "data", arguments=("--set", setting), environment=AS_SHIPPED)
        server.start()
        try:
            yield postgres.dsn(), f"host={server.host} port={server.port} user=postgres dbname=postgres"
        finally:
            server.stop()


def run_spec(text: str, address: str) -> str:
    """What a spec prints on a server, whose schema `public` is emptied before."""
    control = pq.PGconn.connect(address.encode())
    for sql in ("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "GRANT USAGE ON SCHEMA public TO PUBLIC"):
        control.exec_(sql.encode())
    control.finish()
    escaped = {name: value.replace(" ", "\\\\ ") for name, value in SETTINGS.items()}
    options = " ".join(f"-c {name}={value}" for name, value in escaped.items())
    try:
        return SpecRun(parse_spec(text), f"{address} options='{options}'", step_timeout_s=STEP_TIMEOUT_S).run()
    except SpecFailed as error:
        return str(error)


if __name__ == "__main__":
    sys.exit(main())
