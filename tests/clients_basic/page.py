"""The page that says what each client does, and what not and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_HEAD = """\
# Clients

Written by `make clients-basic`, which installs the tools in these versions and runs scripted sessions of each, or tests
of its own, against a PostgreSQL 15 and against Tidegate, on the local engine. A feature works when the session's own
assertions hold on both and what it sees is the same.

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
    remarks: list[str] = field(default_factory=list)


def page(lines: Sequence[Line]) -> str:
    """The page for the checks of all clients."""
    table = [f"| {line.client} | {line.version} | {line.feature} | {line.gap or 'works'} |" for line in lines]
    remarks = ["\n".join(line.remarks) for line in lines if line.remarks]
    return _HEAD + "\n".join(["\n".join(table), *(f"\n{remark}" for remark in remarks)]) + "\n"
