"""A client and its checks, and how a check runs the tool."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.support.server import ROOT

PROJECTS = Path(__file__).parent / "projects"
CACHE = ROOT / ".cache" / "clients-basic"
"""What is installed; nothing here is part of the project."""

Observed = str | Sequence[str]
"""What a check saw, to be compared between the servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server, a database of it for one client, a folder for what the client writes, and what its install gave."""

    host: str
    port: int
    database: str
    folder: Path
    installed: Path

    def dsn(self) -> str:
        """A libpq connection string."""
        return f"host={self.host} port={self.port} user=postgres dbname={self.database}"

    def url(self, scheme: str = "postgresql") -> str:
        """The same as a URL."""
        return f"{scheme}://postgres@{self.host}:{self.port}/{self.database}"

    def rows(self, sql: str) -> list[str]:
        """What a query gives, a text for each row."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            return [str(row) for row in connection.execute(sql).fetchall()]

    def execute(self, sql: str) -> None:
        """Send statements without parameters."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(sql)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """What Tidegate does not do. The check's failure holds `shows`; `why` goes to the page."""

    shows: str
    why: str


@dataclass(frozen=True, slots=True)
class Check:
    """One feature of a client. `run` fails with AssertionError, `ToolError` or an error of psycopg."""

    feature: str
    run: Callable[[Place], Observed]
    gap: Gap | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A tool. Its checks run in order in one database of their own; `install` returns the folder that it fills."""

    name: str
    version: str
    install: Callable[[], Path]
    checks: Sequence[Check]


class ToolError(Exception):
    """A tool ended with another exit status than 0; the text is the end of what it printed, `printed` all of it."""

    def __init__(self, message: str, printed: str = "") -> None:
        super().__init__(message)
        self.printed = printed


_PRINTED = 6000


def run_tool(
    *command: str | Path,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 300.0,
    given: str | None = None,
) -> str:
    """What a tool prints; ToolError when it fails or is missing. `given` is its standard input."""
    words = [str(word) for word in command]
    try:
        result = subprocess.run(
            words,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout_s,
        )
    except FileNotFoundError as error:
        raise ToolError(f"{words[0]} is missing: {error}") from error
    except subprocess.TimeoutExpired as error:
        printed = error.stdout or b""
        raise ToolError(
            f"{' '.join(words)} ran longer than {timeout_s:.0f} s",
            printed.decode(errors="replace") if isinstance(printed, bytes) else printed,
        ) from error
    if result.returncode != 0:
        failed = f"{' '.join(words)}: exit status {result.returncode}\n{result.stdout[-_PRINTED:]}"
        raise ToolError(failed, result.stdout)
    return result.stdout
