"""``python -m tests.clients_basic``: runs the clients that are named, or all of them, and then writes
docs/clients-basic.md, where the others keep their lines. Fails when a check fails on either server, when what it sees
differs, or when a gap is none.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg

from tests.clients_basic import (
    alembic,
    dataframes,
    dbt,
    debian,
    dumps,
    flyway,
    foreign,
    gorm,
    java,
    node,
    pgbouncer,
    pgx,
    pipelines,
    programs,
    rust,
    sqllogictest,
    suites,
    superset,
)
from tests.clients_basic.client import Check, Client, Observed, Place, ToolError
from tests.clients_basic.page import Line, page
from tests.clients_basic.servers import Servers, both_servers, make_place
from tests.support.server import ROOT

CLIENTS = (
    dbt.CLIENT,
    dumps.CLIENT,
    programs.CLIENT,
    *node.CLIENTS,
    pgx.CLIENT,
    gorm.CLIENT,
    *rust.CLIENTS,
    sqllogictest.CLIENT,
    flyway.CLIENT,
    *dataframes.CLIENTS,
    *pipelines.CLIENTS,
    foreign.CLIENT,
    *suites.CLIENTS,
    alembic.CLIENT,
    *debian.CLIENTS,
    *java.CLIENTS,
    pgbouncer.CLIENT,
    superset.CLIENT,
)
PAGE = ROOT / "docs" / "clients-basic.md"
SETTING = "max_prepared_transactions=10"
"""SQLAlchemy's suite prepares transactions."""


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every check gave what it should."""
    names = [client.name.lower() for client in CLIENTS]
    parser = argparse.ArgumentParser(prog="python -m tests.clients_basic", description=__doc__)
    parser.add_argument("clients", nargs="*", metavar="client", help=f"of {', '.join(names)} (default: all)")
    parsed = parser.parse_args(arguments)
    unknown = set(parsed.clients) - set(names)
    if unknown:
        parser.error(f"no such client: {', '.join(sorted(unknown))}")
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="tidegate-clients-") as name:
        folder = Path(name)
        with both_servers(folder, (SETTING,)) as servers:
            for client in CLIENTS:
                if not parsed.clients or client.name.lower() in parsed.clients:
                    lines += _run(client, folder, servers)
    failed = [line for line in lines if line.failure]
    for line in failed:
        print(f"--- {line.client}: {line.feature}\n{line.failure}")
    print(f"{len(lines) - len(failed)} passed, {len(failed)} failed")
    if not failed:
        PAGE.write_text(
            page([client.name for client in CLIENTS], lines, PAGE.read_text(encoding="utf-8")), encoding="utf-8"
        )
    return 1 if failed else 0


def _run(client: Client, folder: Path, servers: Servers) -> list[Line]:
    """A line for each check of a client; one that fails when it cannot be installed."""
    try:
        installed = client.install()
    except ToolError as error:
        return [Line(client=client.name, version=client.version, feature="install", failure=str(error))]
    places = [make_place(client.name, folder / name, port, installed) for name, port in servers]
    lines = []
    for check in client.checks:
        began = time.monotonic()
        line = _line(client, check, places[0], places[1])
        lines.append(line)
        took = time.monotonic() - began
        print(f"{'FAILED' if line.failure else 'ok':6} {client.name}: {check.feature} ({took:.0f} s)", flush=True)
    return lines


def _line(client: Client, check: Check, theirs: Place, ours: Place) -> Line:
    """What a check gave on PostgreSQL at `theirs` and on Tidegate at `ours`."""
    line = Line(client=client.name, version=client.version, feature=check.feature)
    wanted, wrong = _observed(check, theirs)
    if wrong:
        line.failure = f"PostgreSQL fails it: {wrong}"
        return line
    got, wrong = _observed(check, ours)
    if not wrong and got != wanted:
        difference = difflib.unified_diff(_lines(wanted), _lines(got), "postgresql", "tidegate", n=1, lineterm="")
        wrong = "\n".join(difference)
    if check.gap is None:
        line.failure = wrong
    elif not wrong:
        line.failure = f"works, although it is said not to: {check.gap.why}"
    elif check.gap.shows not in wrong:
        line.failure = f"{check.gap.shows!r} was expected:\n{wrong}"
    else:
        line.gap = check.gap.why
    return line


def _lines(observed: Observed) -> list[str]:
    return observed.splitlines() if isinstance(observed, str) else list(observed)


def _observed(check: Check, place: Place) -> tuple[Observed, str]:
    try:
        return check.run(place), ""
    except (AssertionError, ToolError, psycopg.Error) as error:
        return "", f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(main())
