"""sqllogictest-bin, in Rust: it holds what a server answers against `projects/sqllogictest`, which PostgreSQL wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.clients_basic.client import PROJECTS, Check, Client, Place, run_tool
from tests.clients_basic.installing import cargo_program

_VERSION = "0.29.1"


def _files(engine: str, *files: str, jobs: int = 0) -> Callable[[Place], Sequence[str]]:
    """Which files it finds in order, by the simple protocol (`postgres`) or the extended one; with `jobs` side by side
    in databases of its own."""

    def check(place: Place) -> Sequence[str]:
        address = ("--host", place.host, "--port", str(place.port), "--db", place.database, "--user", "postgres")
        how = ("--engine", engine, "--color", "never", *(("--jobs", str(jobs)) if jobs else ()))
        paths = [PROJECTS / "sqllogictest" / name for name in files]
        printed = run_tool(place.installed / "bin" / "sqllogictest", *how, *address, *paths, cwd=place.folder)
        found = [name for name in files if any(name in line and "[OK]" in line for line in printed.splitlines())]
        assert found == list(files), printed
        return found

    return check


CLIENT = Client(
    name="sqllogictest-bin",
    version=_VERSION,
    install=lambda: cargo_program("sqllogictest-bin", _VERSION),
    checks=(
        Check("the simple protocol: types, orders, errors, several connections", _files("postgres", "rows.slt")),
        Check("the extended protocol, binary answers", _files("postgres-extended", "extended.slt")),
        Check("files in databases of their own, side by side", _files("postgres", "rows.slt", jobs=2)),
    ),
)
