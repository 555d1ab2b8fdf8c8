"""What a query asks of its session: now(), current_user, current_setting('x'), set_config(...), pg_sleep(...), ...

The binder leaves these as `SessionValue`s. Each distinct one is evaluated here once per execution, before an engine
runs the query, and stands in it as a literal. Those with side effects act then and there.
"""

from __future__ import annotations

import asyncio
import datetime
import zoneinfo
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from adapter import variables
from adapter.running import Running
from adapter.sequences import currval, lastval, nextval, setval
from adapter.settings_statements import apply_setting, current_value
from adapter.wall_clock import utc_now
from planner import ir
from planner import types as t
from planner.errors import AdminShutdown, FeatureNotSupported, InvalidParameterValue, QueryCanceled, UndefinedObject
from planner.session_values import PER_ROW, constant_argument, session_values, substitute
from planner.statements import Notify

MAX_CHANNEL_BYTES = 63
MAX_PAYLOAD_BYTES = 7999

_T = TypeVar("_T")


async def fill_in(running: Running, bound: _T, values: tuple[ir.SessionValue, ...]) -> _T:
    """`bound` with each of `values`, all those in it, evaluated and replaced.

    A function with one value per row (nextval) is evaluated for each place it stands in, which is right for rows
    that are written out; 0A000 where it would have to run for each row of a table.
    """
    if not values:
        return bound
    if any(value.name in PER_ROW for value in values):
        if isinstance(bound, ir.BoundQuery) and not _rows_written_out(bound.rel):
            raise FeatureNotSupported("sequence functions in queries over tables are not supported")
        return await _fill_in_each(running, bound)
    known: dict[ir.SessionValue, ir.Literal] = {}
    for value in values:
        known[value] = ir.Literal(value=await _evaluate(running, value), type=value.type)
    return substitute(bound, known.__getitem__)


def _rows_written_out(rel: ir.Rel) -> bool:
    """Whether every expression of `rel` is evaluated exactly once."""
    match rel:
        case ir.OneRow() | ir.Values():
            return True
        case ir.Project(input=ir.Values(rows=rows)):
            return len(rows) == 1 or not any(v.name in PER_ROW for v in session_values(rel.exprs))
        case ir.Project():
            return _rows_written_out(rel.input)
        case _:
            return False


async def _fill_in_each(running: Running, bound: _T) -> _T:
    occurrences: list[ir.SessionValue] = []

    def note(node: ir.SessionValue) -> ir.Literal:
        occurrences.append(node)
        return ir.Literal(value=None, type=node.type)

    substitute(bound, note)
    shared: dict[ir.SessionValue, ir.Literal] = {}
    by_place: dict[int, ir.Literal] = {}
    for node in occurrences:
        if node.name in PER_ROW or node not in shared:
            shared[node] = ir.Literal(value=await _evaluate(running, node), type=node.type)
        by_place[id(node)] = shared[node]
    return substitute(bound, lambda node: by_place[id(node)])


async def _evaluate(running: Running, value: ir.SessionValue) -> Any:
    if value.name.startswith("setting:"):
        missing_ok = bool(value.args and constant_argument(value.args[0], running.params).value)
        return _setting(running, value.name[len("setting:") :], missing_ok)
    handler = _HANDLERS.get(value.name)
    if handler is None:
        raise FeatureNotSupported(f"function {value.name}() is not supported")
    args = [constant_argument(arg, running.params).value for arg in value.args]
    if value.name not in _NOT_STRICT and any(arg is None for arg in args):
        return None
    result = handler(running, *args)
    result = await result if isinstance(result, Awaitable) else result
    return _timestamp(running, result, value.type.oid) if isinstance(result, datetime.datetime) else result


def _timestamp(running: Running, moment: datetime.datetime, oid: int) -> Any:
    """A moment as the type wanted: timestamptz as it is, the others in the session's time zone."""
    if oid == t.TIMESTAMPTZ:
        return moment
    local = moment.astimezone(_zone(running.session.values["TimeZone"]))
    if oid == t.DATE:
        return local.date()
    if oid == t.TIMESTAMP:
        return local.replace(tzinfo=None)
    if oid == t.TIME:
        return local.time()
    if oid == t.TIMETZ:
        return local.timetz()
    return moment.strftime("%a %b %d %H:%M:%S.%f %Y UTC")


def _zone(name: str) -> datetime.tzinfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        # POSIX form, <+05>-05: the sign counts west of Greenwich.
        sign, _, digits = name.partition(">")[2][:1], None, name.partition(">")[2][1:]
        hours, _, minutes = digits.partition(":")
        offset = datetime.timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        return datetime.timezone(offset if sign == "-" else -offset)


def _setting(running: Running, name: str | None, missing_ok: bool) -> str | None:
    if name is None:
        return None
    setting = variables.lookup(name)
    if setting is None or (setting.category == "Customized Options" and setting.name not in running.session.values):
        if missing_ok:
            return None
        raise UndefinedObject(f'unrecognized configuration parameter "{name}"')
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
    running.transaction.notifications.append((statement.channel, statement.payload))


async def _sleep(running: Running, seconds: float) -> str:
    await asyncio.sleep(max(float(seconds), 0.0))
    return ""


def _cancel_backend(running: Running, pid: int) -> bool:
    session = running.session.state.sessions.get(pid)
    if session is None:
        running.session.warn("01000", f"PID {pid} is not a PostgreSQL backend process")
        return False
    if session.running is not None:
        session.running.scope.request(QueryCanceled("canceling statement due to user request"))
    running.scope.check()
    return True


def _terminate_backend(running: Running, pid: int, timeout_ms: int = 0) -> bool:
    session = running.session.state.sessions.get(pid)
    if session is None:
        running.session.warn("01000", f"PID {pid} is not a PostgreSQL backend process")
        return False
    session.terminate(AdminShutdown("terminating connection due to administrator command", fatal=True))
    running.scope.check()
    return True


def _current_schema(running: Running) -> str | None:
    schemas = _schemas(running, implicit=False)
    return schemas[0] if schemas else None


def _schemas(running: Running, implicit: bool) -> tuple[str, ...]:
    """The schemas of the search path that exist."""
    session = running.session
    catalog = running.transaction.planning_catalog(session.state.env)
    found = tuple(name for name in dict.fromkeys(session.search_path()) if catalog.schema(name) is not None)
    return ("pg_catalog", *found) if implicit and "pg_catalog" not in found else found


def _transaction_id(running: Running) -> int:
    return running.session.state.transaction_id(running.transaction)


def _version(running: Running) -> str:
    return f"PostgreSQL {running.session.values['server_version']} on Tidegate, lakehouse storage, 64-bit"


def _client_address(running: Running) -> str | None:
    return (running.session.remote_address or "").rpartition(":")[0] or None


def _client_port(running: Running) -> int | None:
    port = (running.session.remote_address or "").rpartition(":")[2]
    return int(port) if port.isdigit() else None


_HANDLERS: Mapping[str, Callable[..., Any]] = {
    "now": lambda running: running.transaction.started_at,
    "current_date": lambda running: running.transaction.started_at,
    "current_time": lambda running: running.transaction.started_at,
    "localtime": lambda running: running.transaction.started_at,
    "localtimestamp": lambda running: running.transaction.started_at,
    "statement_timestamp": lambda running: running.started_at,
    "clock_timestamp": lambda running: utc_now(),
    "timeofday": lambda running: utc_now(),
    "current_user": lambda running: running.session.user,
    "session_user": lambda running: running.session.session_user,
    "current_database": lambda running: running.session.database,
    "current_schema": _current_schema,
    "current_schemas": lambda running, implicit: _schemas(running, bool(implicit)),
    "current_query": lambda running: running.session.query_text,
    "current_setting": lambda running, name, missing_ok=False: _setting(running, name, bool(missing_ok)),
    "version": _version,
    "pg_backend_pid": lambda running: running.session.backend_pid,
    "set_config": _set_config,
    "pg_notify": _notify,
    "pg_sleep": _sleep,
    "pg_cancel_backend": _cancel_backend,
    "pg_terminate_backend": _terminate_backend,
    "txid_current": _transaction_id,
    "pg_current_xact_id": _transaction_id,
    "txid_current_if_assigned": lambda running: running.transaction.id,
    "pg_current_xact_id_if_assigned": lambda running: running.transaction.id,
    "inet_client_addr": _client_address,
    "inet_client_port": _client_port,
    "inet_server_addr": lambda running: None,
    "inet_server_port": lambda running: None,
    "pg_is_in_recovery": lambda running: False,
    "pg_is_wal_replay_paused": lambda running: False,
    "pg_postmaster_start_time": lambda running: running.session.state.started_at,
    "pg_conf_load_time": lambda running: running.session.state.started_at,
    "pg_my_temp_schema": lambda running: 0,
    "pg_advisory_unlock_all": lambda running: "",
    "pg_trigger_depth": lambda running: 0,
    "pg_stat_clear_snapshot": lambda running: "",
    "pg_jit_available": lambda running: False,
    "pg_notification_queue_usage": lambda running: 0.0,
    "getdatabaseencoding": lambda running: "UTF8",
    "pg_client_encoding": lambda running: running.session.values["client_encoding"],
    "pg_blocking_pids": lambda running, pid: (),
    "pg_current_logfile": lambda running, *args: None,
    "pg_last_xact_replay_timestamp": lambda running: None,
    "pg_reload_conf": lambda running: True,
    "nextval": nextval,
    "currval": currval,
    "setval": setval,
    "lastval": lastval,
}
_NOT_STRICT = frozenset({"set_config", "pg_notify", "current_setting"})
