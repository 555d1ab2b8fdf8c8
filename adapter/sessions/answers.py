"""What one worker of the server answers to the others."""

from __future__ import annotations

from adapter.execution.services import Services
from adapter.execution.session_registry import SessionRegistry
from adapter.queries.session_facts import own_rows
from adapter.workers.mesh import Mesh
from adapter.workers.messages import Blocked, Notified, SessionRows, Signal


def answer_colleagues(mesh: Mesh, services: Services, sessions: SessionRegistry) -> None:
    """Answer for these sessions, from now on."""
    mesh.answer(Signal, lambda asked: sessions.signal(asked.pid, terminate=asked.terminate))
    mesh.answer(Notified, lambda asked: services.notifications.deliver(asked.pid, asked.notifications))
    mesh.answer(SessionRows, lambda asked: own_rows(asked.relation, sessions, services.locks))
    mesh.answer(Blocked, lambda asked: services.locks.blocked())
