"""The page that says what each client does, and what not and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_HEAD = """\
# Clients

Written by `make clients-basic`, which installs the tools in these versions and runs scripted sessions of each, or tests
of its own, against a PostgreSQL 15 and against Tidegate, on the local engine. A feature works when the session's own
assertions hold on both and what it sees is the same. [clients.md](clients.md) has clients by their own suites; psql 15
and 18 are compared command by command in `tests/clients`.

| client | version | feature | Tidegate |
| --- | --- | --- | --- |
"""


@dataclass(slots=True, kw_only=True)
class Line:
    """A check that ran. `failure`: what is wrong with it; `gap`: what is known not to work; both '' when it works."""

    client: str
    version: str
    feature: str
    failure: str = ""
    gap: str = ""


def page(clients: Sequence[str], lines: Sequence[Line], before: str) -> str:
    """The page for these clients: their checks that have run, or what the page `before` has of them."""
    rows = [
        (line.client, f"| {line.client} | {line.version} | {line.feature} | {line.gap or 'works'} |") for line in lines
    ]
    ran = {line.client for line in lines}
    kept = [(row.split(" | ")[0].removeprefix("| "), row) for row in before.removeprefix(_HEAD).splitlines()]
    table = [row for name in clients for client, row in (rows if name in ran else kept) if client == name]
    return _HEAD + "\n".join(table) + "\n"
