"""What a query asks of its session: now(), current_user, current_setting('x'), set_config(...), pg_sleep(...), ...

Values that depend on the session (`SessionValue`) become literals once per execution. `ACTIONS` are what functions do
that act on the session; `acting` has where and when they are carried out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from adapter.access.membership import is_superuser
from adapter.access.signals import require_signal
from adapter.execution.session_settings import apply_setting, current_value
from adapter.execution.statement import Running
from adapter.queries.acting.advisory_locks import ADVISORY_LOCKS
from adapter.queries.acting.cursor_rows import CURRENT_ROW, current_row
from adapter.queries.acting.sequences import currval, given_last, lastval, nextval, position, setval
from adapter.queries.large_objects.calls import LARGE_OBJECTS
from adapter.transactions.past.moments import csn_at, time_of
from adapter.transactions.snapshots import exported
from adapter.transactions.transaction import NeedsSnapshot
from adapter.wall_clock import utc_now
from planner.errors import (
    InsufficientPrivilege,
    InvalidParameterValue,
    NumericValueOutOfRange,
    UndefinedObject,
)
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.resolution.session_values import substitute
from planner.statements.records import Notify
from planner.types import types as t
from planner.types.types import SqlType
from storage.transactions.xids import FIRST_NORMAL_XID

BOOTSTRAP_XID, FROZEN_XID = 1, 2
NAME_ARRAY = 1003
MAX_CHANNEL_BYTES = 63
_LOOK_AGAIN_S = 0.1
"""How often it is looked whether a session that was terminated has ended."""
MAX_PAYLOAD_BYTES = 7999


async def with_session_values(
    running: Running, query: BoundQuery, names: frozenset[str], *, settings: bool = True
) -> BoundQuery:
    """`query` with the session values of these names replaced by literals; without `settings`, not those that
    `set_config` may set before they are read."""
    if not settings:
        names = frozenset([name for name in names if not is_setting(name)])
    if not names:
        return query
    return substitute(query, {name: await session_value(running, name) for name in names})


def is_setting(name: str) -> bool:
    """Whether a session value is that of a setting."""
    return name.startswith(("setting:", "setting_or_null:"))


async def session_value(running: Running, name: str) -> ir.Literal:
    """The session value of this name."""
    if name.startswith("sequence_"):
        kind, _, oid_text = name.partition(":")
        last_value, called = await position(running, int(oid_text))
        is_value = kind == "sequence_last_value"
        return ir.Literal(value=last_value if is_value else called, type=SqlType(t.INT8 if is_value else t.BOOL))
    if name.startswith(CURRENT_ROW):
        return ir.Literal(value=await current_row(running, name), type=SqlType(t.INT8))
    if name == "current_snapshot":
        return ir.Literal(value=await running.services.current_snapshot(running.transaction), type=SqlType(t.TEXT))
    value, oid = _value(running, name)
    return ir.Literal(value=value, type=SqlType(oid))


def _value(running: Running, name: str) -> tuple[Any, int]:
    session = running.session
    kind, _, argument = name.partition(":")
    match kind:
        case "setting":
            return _setting(running, argument, missing_ok=False), t.TEXT
        case "setting_or_null":
            return _setting(running, argument, missing_ok=True), t.TEXT
        case "now":
            return running.transaction.started_at, t.TIMESTAMPTZ
        case "statement_timestamp":
            return running.started_at, t.TIMESTAMPTZ
        case "clock_timestamp":
            return utc_now(), t.TIMESTAMPTZ
        case "current_user":
            return session.user, t.NAME
        case "session_user":
            return session.session_user, t.NAME
        case "client_encoding":
            return _setting(running, "client_encoding", missing_ok=False), t.NAME
        case "current_database":
            return session.database, t.NAME
        case "current_schema":
            schemas = _schemas(running, implicit=False)
            return (schemas[0] if schemas else None), t.NAME
        case "current_schemas":
            return _schemas(running, implicit=False), NAME_ARRAY
        case "current_schemas_implicit":
            return _schemas(running, implicit=True), NAME_ARRAY
        case "backend_pid":
            return session.backend_pid, t.INT4
        case "temporary_schema":
            return 0 if session.temporary is None else session.temporary.schema, t.OID
        case "postmaster_start_time" | "conf_load_time":
            return running.services.started_at, t.TIMESTAMPTZ
        case "version":
            return f"PostgreSQL {session.values['server_version']}, 64-bit", t.TEXT
        case "current_query":
            return session.query_text, t.TEXT
        case "inet_client_addr":
            return _address(session.remote_address), t.INET
        case "inet_client_port":
            return _port(session.remote_address), t.INT4
        case "inet_server_addr":
            return _address(session.server_address), t.INET
        case "inet_server_port":
            return _port(session.server_address), t.INT4
        case _:
            raise KeyError(name)


def _address(end: str | None) -> str | None:
    return None if end is None else end.rpartition(":")[0]


def _port(end: str | None) -> int | None:
    return None if end is None else int(end.rpartition(":")[2])


def _setting(running: Running, name: str | None, missing_ok: bool) -> str | None:
    if name is None:
        return None
    try:
        setting = running.session.values.find(name)
    except UndefinedObject:
        if missing_ok:
            return None
        raise
    return current_value(running.session, setting)


def _set_config(running: Running, name: str | None, value: str | None, local: bool | None) -> str:
    if name is None:
        raise InvalidParameterValue("SET requires parameter name")
    return apply_setting(running, name, value, local=bool(local))


def _notify(running: Running, channel: str | None, payload: str | None) -> str:
    notify(running, Notify(channel=channel or "", payload=payload or ""))
    return ""


def notify(running: Running, statement: Notify) -> None:
    """NOTIFY: queued until the transaction commits. 22023 for a bad channel or payload."""
    if not statement.channel:
        raise InvalidParameterValue("channel name cannot be empty")
    if len(statement.channel.encode()) > MAX_CHANNEL_BYTES:
        raise InvalidParameterValue("channel name too long")
    if len(statement.payload.encode()) > MAX_PAYLOAD_BYTES:
        raise InvalidParameterValue("payload string too long")
    running.transaction.notify(statement.channel, statement.payload)


async def _sleep(running: Running, seconds: float) -> str:
    await asyncio.sleep(max(float(seconds), 0.0))
    return ""


async def _signal(running: Running, pid: int, *, terminate: bool) -> bool:
    """Reach the session with this pid; False, with PostgreSQL's warning, when no server has it. 42501."""
    sessions = running.sessions
    owner = sessions.role_of(pid)
    if owner is None:
        owner = await sessions.colleagues.role_of(pid)
    if owner is not None:
        role = running.session.values.identity.current
        require_signal(running.session.newest_catalog(), role, owner, terminate=terminate)
    if sessions.signal(pid, terminate=terminate):
        running.scope.check()
        return True
    if await sessions.colleagues.signal(pid, terminate=terminate):
        return True
    running.session.warn("01000", f"PID {pid} is not a PostgreSQL backend process")
    return False


async def _cancel_backend(running: Running, pid: int) -> bool:
    return await _signal(running, pid, terminate=False)


async def _terminate_backend(running: Running, pid: int, timeout_ms: int = 0) -> bool:
    if timeout_ms < 0:
        raise NumericValueOutOfRange('"timeout" must not be negative')
    if not await _signal(running, pid, terminate=True):
        return False
    return timeout_ms == 0 or await _has_ended(running, pid, timeout_ms)


async def _has_ended(running: Running, pid: int, timeout_ms: int) -> bool:
    """Whether the session ends within so long; a warning when it does not (pg_wait_until_termination)."""
    sessions, clock = running.sessions, running.services.env.clock
    until = clock.monotonic() + timeout_ms / 1000
    while sessions.role_of(pid) is not None or await sessions.colleagues.role_of(pid) is not None:
        running.scope.check()
        left = until - clock.monotonic()
        if left <= 0:
            plural = "" if timeout_ms == 1 else "s"
            running.session.warn(
                "01000", f"backend with PID {pid} did not terminate within {timeout_ms} millisecond{plural}"
            )
            return False
        await clock.sleep(min(_LOOK_AGAIN_S, left))
    return True


def _schemas(running: Running, implicit: bool) -> tuple[str, ...]:
    """The schemas of the search path that exist; with `implicit` also those that are searched without being named."""
    session = running.session
    catalog = running.transaction.planning_catalog(running.services.env)
    path = session.search_path() if implicit else session.creation_path()
    found = tuple(name for name in dict.fromkeys(path) if catalog.schema(name) is not None)
    return ("pg_catalog", *found) if implicit and "pg_catalog" not in found else found


async def _transaction_id(running: Running) -> int:
    return await running.services.transaction_id(running.transaction)


async def _transaction_id_text(running: Running) -> str:
    """As an xid8, whose values are their text."""
    return str(await _transaction_id(running))


def _assigned_id_text(running: Running) -> str | None:
    xid = running.transaction.id
    return None if xid is None else str(xid)


async def _transaction_status(running: Running, xid: int) -> str | None:
    """'committed', 'aborted' or 'in progress'; NULL when it is so old that nobody knows any more."""
    if xid < FIRST_NORMAL_XID:
        # PostgreSQL's permanent transaction ids.
        return {BOOTSTRAP_XID: "committed", FROZEN_XID: "committed"}.get(xid)
    status = await running.services.transaction_status(xid)
    return None if status == "unknown" else status


async def _export_snapshot(running: Running) -> str:
    return await exported(running.services.env, running.transaction)


def _current_csn(running: Running) -> int:
    snapshot = running.transaction.snapshot
    if snapshot is None or snapshot.provisional:
        raise NeedsSnapshot
    return snapshot.csn


def _timeofday(running: Running) -> str:
    return utc_now().strftime("%a %b %d %H:%M:%S.%f %Y UTC")


def _reload_configuration(running: Running) -> bool:
    running.services.reload()
    return True


async def _reset_statement_statistics(running: Running, role: int, database: int, query_id: int) -> str:
    """Forget what was counted of statements, at all workers. 42501 for all but superusers: others call the extension's
    function, which is granted."""
    if not is_superuser(running.session.newest_catalog(), running.session.values.identity.current):
        raise InsufficientPrivilege("permission denied for function reset_statement_statistics")
    running.services.statistics.reset(role, database, query_id)
    await running.services.colleagues.forget_statements(role, database, query_id)
    return ""


async def _forget_activity(running: Running, oid: int = 0) -> str:
    """pg_stat_reset, and of one relation pg_stat_reset_single_table_counters. 42501 for all but superusers."""
    if not is_superuser(running.session.newest_catalog(), running.session.values.identity.current):
        what = "pg_stat_reset_single_table_counters" if oid else "pg_stat_reset"
        raise InsufficientPrivilege(f"permission denied for function {what}")
    database, now = running.session.database_oid, utc_now()
    running.services.activity.forget(database, oid, now)
    await running.services.colleagues.forget_activity(database, oid, now)
    return ""


ACTIONS: Mapping[str, Callable[..., Any]] = {
    "set_config": _set_config,
    "pg_notify": _notify,
    "pg_notification_queue_usage": lambda running: running.services.notifications.usage(),
    "pg_sleep": _sleep,
    "pg_cancel_backend": _cancel_backend,
    "pg_terminate_backend": _terminate_backend,
    "txid_current": _transaction_id,
    "pg_current_xact_id": _transaction_id_text,
    "txid_current_if_assigned": lambda running: running.transaction.id,
    "pg_current_xact_id_if_assigned": _assigned_id_text,
    "txid_status": _transaction_status,
    "pg_xact_status": lambda running, xid: _transaction_status(running, int(xid)),
    "pg_xact_commit_timestamp": lambda running, xid: running.services.committed_at(int(xid)),
    "pg_export_snapshot": _export_snapshot,
    **ADVISORY_LOCKS,
    **LARGE_OBJECTS,
    "pg_reload_conf": _reload_configuration,
    "timeofday": _timeofday,
    "current_csn": _current_csn,
    "csn_at": lambda running, time: csn_at(time),
    "csn_time": lambda running, csn: time_of(csn),
    "reset_statement_statistics": _reset_statement_statistics,
    # What is counted is read anew by each statement: there is nothing older to forget, nothing held back to write.
    "pg_stat_clear_snapshot": lambda running: "",
    "pg_stat_force_next_flush": lambda running: "",
    "pg_stat_reset": _forget_activity,
    "pg_stat_reset_single_table_counters": _forget_activity,
    "pg_sequence_last_value": given_last,
    "nextval": nextval,
    "currval": currval,
    "setval": setval,
    "lastval": lastval,
}
