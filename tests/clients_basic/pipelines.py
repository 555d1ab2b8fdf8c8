"""dlt, SQLMesh and pgcli: `projects/pipelines` and `projects/pgcli` print what they see."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.clients_basic.client import Check, Client, Place
from tests.clients_basic.installing import python_packages
from tests.clients_basic.sessions import of_script


def _dlt(feature: str) -> Callable[[Place], Sequence[str]]:
    return of_script("pipelines", "dlt_session.py", feature)


def _sqlmesh(feature: str) -> Callable[[Place], Sequence[str]]:
    return of_script("pipelines", "sqlmesh_session.py", feature)


CLIENTS = (
    Client(
        name="dlt",
        version="1.31.0",
        install=lambda: python_packages("dlt"),
        checks=(
            Check("loads of rows of many types with rows inside, a new column", _dlt("append")),
            Check("replaces and merges, by each strategy", _dlt("change")),
            Check("incremental loads, state kept in the database", _dlt("increment")),
            Check("loads that fail, transactions", _dlt("failure")),
        ),
    ),
    Client(
        name="SQLMesh",
        version="0.236.4",
        install=lambda: python_packages("sqlmesh"),
        checks=(
            Check("a plan of models of every kind, nothing left to change", _sqlmesh("plan")),
            Check("an environment of its own, differences, promotion, restatement", _sqlmesh("develop")),
            Check("runs of later days, audits, unit tests, its janitor", _sqlmesh("run")),
            Check("a plan whose audit fails", _sqlmesh("failure")),
        ),
    ),
    Client(
        name="pgcli",
        version="4.7.1",
        install=lambda: python_packages("pgcli"),
        checks=(Check("statements, backslash commands, errors, completions", of_script("pgcli", "session.py")),),
    ),
)
