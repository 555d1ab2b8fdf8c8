"""Clients in Java: `projects/java`, one program that prints what each of them sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.clients_basic.client import PROJECTS, Check, Client, Place, run_tool
from tests.clients_basic.installing import java_program

_PROJECT = PROJECTS / "java"
_SESSION_S = 600.0


def _session(feature: str) -> Callable[[Place], Sequence[str]]:
    def check(place: Place) -> Sequence[str]:
        url = f"jdbc:postgresql://{place.host}:{place.port}/{place.database}"
        command = (
            "java",
            "-cp",
            f"{place.installed / 'classes'}:{place.installed}/*",
            "Session",
            url,
            _PROJECT,
            feature,
        )
        return run_tool(*command, cwd=place.folder, timeout_s=_SESSION_S).splitlines()

    return check


def _client(name: str, version: str, feature: str, session: str) -> Client:
    return Client(name=name, version=version, install=_install, checks=(Check(feature, _session(session)),))


def _install() -> Path:
    return java_program("java")


CLIENTS = (
    _client(
        "pgjdbc",
        "42.5.6",
        "rows of many types in each mode, batches, keys, cursors, updatable rows, meta data, COPY, errors",
        "driver",
    ),
    _client("HikariCP", "5.1.0 (pgjdbc 42.5.6)", "twelve threads, sessions that end, read-only sessions", "pooling"),
    _client(
        "JdbcTemplate",
        "6.1.14 (pgjdbc 42.5.6)",
        "statements, keys, batches, functions, errors as its exceptions, nested transactions",
        "templates",
    ),
    _client(
        "Hibernate",
        "6.6.1 (pgjdbc 42.5.6)",
        "schemas made, changed and checked; entities, arrays, collections, HQL, locks, versions, errors",
        "mapping",
    ),
    _client(
        "Liquibase",
        "4.29.2 (pgjdbc 42.5.6)",
        "updates, preconditions, data, rollbacks as SQL and for real, a snapshot",
        "changes",
    ),
)
