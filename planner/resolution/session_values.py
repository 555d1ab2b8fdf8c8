"""Values that depend on the session or the transaction, and putting them into a bound statement.

Bound as a `SessionValue`: the functions of `VALUES` and the key words CURRENT_TIMESTAMP, CURRENT_USER, ... The names
are: now, statement_timestamp, clock_timestamp, current_user, session_user, current_database, current_schema,
current_schemas (of the search path), current_schemas_implicit (with pg_catalog and that of temporary objects),
backend_pid, temporary_schema, postmaster_start_time, conf_load_time, version, current_snapshot, current_query,
inet_server_addr, inet_server_port, inet_client_addr, inet_client_port, client_encoding, ``setting:<name>``
(current_setting of a constant) and ``setting_or_null:<name>`` (with missing_ok).
CURRENT_DATE, LOCALTIME and their like are casts of now. The adapter gives each a literal per execution.

Functions that act on the session (`ACTS`) are bound as plain calls; the adapter carries them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TypeVar

from planner.functions.routines import routines
from planner.ir.nodes import BoolOp, Case, Cast, Literal, Scalar, SessionValue
from planner.ir.rewrite import transform, walk
from planner.types.signature import Kind, Signature
from planner.types.types import SqlType
from storage.catalog.model import FIRST_USER_OID

VALUES: Mapping[str, str] = {
    "now": "now",
    "transaction_timestamp": "now",
    "statement_timestamp": "statement_timestamp",
    "clock_timestamp": "clock_timestamp",
    "current_database": "current_database",
    "current_schema": "current_schema",
    "current_schemas": "current_schemas",
    "current_setting": "setting",
    "current_query": "current_query",
    "current_user": "current_user",
    "getpgusername": "current_user",
    "session_user": "session_user",
    "version": "version",
    "pg_backend_pid": "backend_pid",
    "pg_client_encoding": "client_encoding",
    "pg_my_temp_schema": "temporary_schema",
    "pg_postmaster_start_time": "postmaster_start_time",
    "pg_conf_load_time": "conf_load_time",
    "inet_server_addr": "inet_server_addr",
    "inet_server_port": "inet_server_port",
    "inet_client_addr": "inet_client_addr",
    "inet_client_port": "inet_client_port",
    "pg_current_snapshot": "current_snapshot",
    "txid_current_snapshot": "current_snapshot",
}
"""By function: the name of its session value."""

ACTS = frozenset({
    "set_config", "nextval", "currval", "setval", "lastval", "pg_notify", "pg_sleep", "pg_sleep_for", "pg_sleep_until",
    "pg_cancel_backend", "pg_terminate_backend", "pg_advisory_lock", "pg_advisory_lock_shared", "pg_advisory_unlock",
    "pg_advisory_unlock_shared", "pg_advisory_unlock_all", "pg_advisory_xact_lock", "pg_advisory_xact_lock_shared",
    "pg_try_advisory_lock", "pg_try_advisory_lock_shared", "pg_try_advisory_xact_lock",
    "pg_try_advisory_xact_lock_shared", "txid_current", "txid_current_if_assigned", "pg_current_xact_id",
    "pg_current_xact_id_if_assigned", "pg_export_snapshot", "pg_reload_conf", "setseed", "timeofday",
    "txid_status", "pg_xact_status", "pg_xact_commit_timestamp", "pg_notification_queue_usage", "current_csn",
    "csn_at", "csn_time", "reset_statement_statistics", "pg_sequence_last_value", "pg_stat_clear_snapshot",
    "pg_stat_force_next_flush", "pg_stat_reset", "pg_stat_reset_single_table_counters",
    "lo_creat", "lo_create", "lo_from_bytea", "lo_unlink", "lo_open", "lo_close", "loread", "lowrite", "lo_lseek",
    "lo_lseek64", "lo_tell", "lo_tell64", "lo_truncate", "lo_truncate64", "lo_get", "lo_put", "lo_import", "lo_export",
})  # fmt: skip
"""Functions that act on the session or ask for what changes with every call."""

_T = TypeVar("_T")


def acts(signature: Signature) -> bool:
    """Whether a call is carried out by the adapter: of a function that acts on the session, or of one of a user whose
    statements do not fit into the query."""
    return signature.acts or (signature.name in ACTS and signature.oid < FIRST_USER_OID)


@cache
def session_signatures(name: str) -> tuple[Signature, ...]:
    """The overloads of a function of `VALUES` or `ACTS`, straight from PostgreSQL's catalog; () for other names."""
    if name not in VALUES and name not in ACTS:
        return ()
    return tuple(
        routine.signature
        for routine in routines().values()
        if routine.signature.name == name and routine.signature.kind is Kind.FUNCTION
    )


def session_value(signature: Signature, args: tuple[Scalar, ...], type: SqlType) -> Scalar | None:
    """The session value that a call is, or one of several; None when it is none (its arguments are not constant)."""
    name = VALUES.get(signature.name) if signature.oid < FIRST_USER_OID else None
    if name is None:
        return None
    if not args:
        return SessionValue(name=name, type=type)
    first = args[0]
    if name == "current_schemas":
        with_implicit = SessionValue(name="current_schemas_implicit", type=type)
        plain = SessionValue(name=name, type=type)
        if isinstance(first, Literal):
            return Literal(value=None, type=type) if first.value is None else with_implicit if first.value else plain
        is_false = BoolOp(op="not", args=(first,), type=first.type)
        return Case(whens=((first, with_implicit), (is_false, plain)), otherwise=None, type=type)
    while isinstance(first, Cast):
        first = first.arg
    if name != "setting" or not isinstance(first, Literal) or not isinstance(first.value, str):
        return None
    missing_ok = len(args) > 1 and isinstance(args[1], Literal) and args[1].value is True
    return SessionValue(name=f"{'setting_or_null' if missing_ok else 'setting'}:{first.value}", type=type)


def session_values(bound: object) -> frozenset[str]:
    """The names of all session values in a bound statement (or any part of the IR)."""
    return frozenset([node.name for node in walk(bound) if isinstance(node, SessionValue)])


def substitute(bound: _T, values: Mapping[str, Literal]) -> _T:
    """`bound` with every session value replaced by `values[name]`, with the type that it was bound with.

    Raises KeyError for a name that `values` lacks.
    """

    def replace(node: object) -> Literal | None:
        if not isinstance(node, SessionValue):
            return None
        found = values[node.name]
        return found if found.type == node.type else Literal(value=found.value, type=node.type)

    return transform(bound, replace)
