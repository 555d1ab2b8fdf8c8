"""What a process answers to the other workers of its server, and to the other servers of its environment."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec

from adapter.execution.services import Services
from adapter.execution.session_registry import SessionRegistry
from adapter.queries.facts.lock_facts import BLOCKED, blocked_rows
from adapter.queries.session_facts import own_rows
from adapter.transactions.locks.tags import Tag
from adapter.workers.mesh import Mesh
from adapter.workers.messages import (
    Appended,
    ForgetActivity,
    ForgetStatements,
    HoldersOf,
    LetGo,
    Notified,
    RoleOf,
    SessionRows,
    Signal,
    Waits,
)
from adapter.workers.questions import ServerQuestions


def answer_servers(servers: ServerQuestions, services: Services, sessions: SessionRegistry) -> None:
    """Answer other servers for these sessions, from now on."""
    servers.answer(RoleOf, lambda asked: sessions.role_of(asked.pid))
    servers.answer(Signal, lambda asked: sessions.signal(asked.pid, terminate=asked.terminate))
    servers.answer(ForgetActivity, lambda asked: services.activity.forget(asked.database, asked.oid, asked.at))
    servers.answer(SessionRows, lambda asked: _rows(asked.relation, services, sessions))


def _rows(
    relation: str, services: Services, sessions: SessionRegistry
) -> list[Mapping[str, Any]] | Awaitable[list[Mapping[str, Any]]]:
    return blocked_rows(services) if relation == BLOCKED else own_rows(relation, sessions, services)


def answer_colleagues(mesh: Mesh, services: Services, sessions: SessionRegistry) -> None:
    """Answer for these sessions, from now on."""
    mesh.answer(RoleOf, lambda asked: sessions.role_of(asked.pid))
    mesh.answer(Signal, lambda asked: sessions.signal(asked.pid, terminate=asked.terminate))
    mesh.answer(Notified, lambda asked: services.notifications.deliver(asked.pid, asked.database, asked.notifications))
    mesh.answer(Appended, lambda asked: services.other_servers.appended(asked.first))
    mesh.answer(SessionRows, lambda asked: own_rows(asked.relation, sessions, services))
    statistics = services.statistics
    mesh.answer(ForgetActivity, lambda asked: services.activity.forget(asked.database, asked.oid, asked.at))
    mesh.answer(ForgetStatements, lambda asked: statistics.reset(asked.role, asked.database, asked.query_id))
    between = services.locks.between_workers
    if between is not None:
        mesh.answer(LetGo, lambda asked: between.try_now())
        mesh.answer(Waits, lambda asked: between.who_waits())
        mesh.answer(HoldersOf, lambda asked: between.who_holds(msgspec.convert(asked.tags, list[Tag])))
