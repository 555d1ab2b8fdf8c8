"""Who may cancel the statement of a session or terminate it (PostgreSQL 15, signalfuncs.c)."""

from __future__ import annotations

from adapter.access.membership import has_privileges_of, is_superuser
from adapter.access.roles import require_role
from planner.errors import InsufficientPrivilege
from storage.catalog.model import CatalogSnapshot


def require_signal(catalog: CatalogSnapshot, role: int, target: int, *, terminate: bool) -> None:
    """42501 unless `role` may signal a session that has come in as the role `target`: only superusers reach those of
    superusers; others are reached by their own members, and by those of pg_signal_backend."""
    if is_superuser(catalog, target) and not is_superuser(catalog, role):
        what = "terminate superuser process" if terminate else "cancel superuser query"
        raise InsufficientPrivilege(f"must be a superuser to {what}")
    signallers = require_role(catalog, "pg_signal_backend").oid
    if not has_privileges_of(catalog, role, target) and not has_privileges_of(catalog, role, signallers):
        what = "process is being terminated" if terminate else "query is being canceled"
        raise InsufficientPrivilege(f"must be a member of the role whose {what} or member of pg_signal_backend")
