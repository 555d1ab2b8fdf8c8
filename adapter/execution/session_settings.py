"""Reading and changing the settings of a session, for whatever does so: SET and SHOW, set_config() and
current_setting(), pg_settings.

A few settings are not values of the session but of its transaction (transaction_isolation and its like), or say who the
session acts as (role, session_authorization); they are read and changed where they live."""

from __future__ import annotations

from adapter.execution.session_state import SessionState
from adapter.execution.statement import Running
from adapter.results import ColumnDescription
from adapter.settings.catalogue import SETTINGS, Setting
from adapter.settings.values import canonical_value, check_changeable, raw_value
from adapter.transactions.commit_request import Isolation
from planner.errors import InsufficientPrivilege, InvalidParameterValue
from planner.statements import records as st
from planner.types import types as t
from planner.types.types import SqlType
from storage.catalog.model import Role

TEXT = SqlType(t.TEXT)


def apply_setting(
    running: Running, name: str, value: str | None, *, local: bool, items: tuple[str, ...] | None = None
) -> str:
    """Change a setting (`value` None: to its default). Returns the value as SHOW prints it."""
    session = running.session
    setting, values = session.values.find_or_add(name)
    check_changeable(setting)
    if items is not None and len(items) > 1 and not setting.list_value:
        raise InvalidParameterValue(f"SET {setting.name} takes only one argument")
    session.values = values
    if value is None:
        return reset_setting(running, setting, local=local)
    shown = canonical_value(setting, value, session.values.get(setting.name))
    match setting.name:
        case "transaction_isolation":
            running.transaction.set_isolation(Isolation(shown))
            return shown
        case "transaction_read_only":
            running.transaction.set_read_only(shown == "on")
            return shown
        case "transaction_deferrable":
            running.transaction.deferrable = shown == "on"
            return shown
        case "role":
            shown = _set_role(session, shown)
        case "session_authorization":
            shown = _set_session_authorization(session, shown)
        case _:
            pass
    values = session.values
    session.values = values.with_local(setting.name, shown) if local else values.with_session(setting.name, shown)
    return shown


def reset_setting(running: Running, setting: Setting, *, local: bool) -> str:
    """Give `setting` its default, with `local` for this transaction only. Returns the value as SHOW prints it."""
    session = running.session
    if setting.name == "transaction_isolation":
        running.transaction.set_isolation(Isolation(session.values["default_transaction_isolation"]))
        return running.transaction.isolation.value
    if setting.name == "role":
        session.user = session.session_user
    if setting.name == "session_authorization":
        session.user = session.session_user
    if local:
        session.values = session.values.with_local(setting.name, session.values.base[setting.name])
    else:
        session.values = session.values.reset(setting.name)
    return session.values[setting.name]


def _set_role(session: SessionState, name: str) -> str:
    if name == "none":
        session.user = session.session_user
        return name
    _check_role(session, name)
    session.user = name
    return name


def _set_session_authorization(session: SessionState, name: str) -> str:
    _check_role(session, name)
    session.user = name
    return name


def _check_role(session: SessionState, name: str) -> None:
    """Raise 22023 when there is no such role, 42501 when the session's user may not become it."""
    roles = {record.name: record for record in session.services.catalog().all() if isinstance(record, Role)}
    if name not in roles:
        raise InvalidParameterValue(f'role "{name}" does not exist')
    if not roles[session.session_user].superuser and name != session.session_user:
        raise InsufficientPrivilege(f'permission denied to set role "{name}"')


def show_value(session: SessionState, name: str) -> tuple[str, str]:
    """The canonical name and the value that SHOW prints. 42704 when there is no such setting."""
    setting = session.values.find(name)
    return setting.name, current_value(session, setting)


def current_value(session: SessionState, setting: Setting) -> str:
    """The setting's value now."""
    transaction = session.transaction
    match setting.name:
        case "transaction_isolation":
            if transaction is not None:
                return transaction.isolation.value
            return session.values["default_transaction_isolation"]
        case "transaction_read_only":
            if transaction is not None:
                return "on" if transaction.read_only else "off"
            return session.values["default_transaction_read_only"]
        case "transaction_deferrable":
            if transaction is not None:
                return "on" if transaction.deferrable else "off"
            return session.values["default_transaction_deferrable"]
        case _:
            return session.values[setting.name]


def describe_show(session: SessionState, statement: st.Show) -> tuple[ColumnDescription, ...]:
    """The columns of SHOW. 42704 when there is no such setting."""
    if statement.name == "all":
        return tuple(ColumnDescription(name=name, type=TEXT) for name in ("name", "setting", "description"))
    return (ColumnDescription(name=session.values.find(statement.name).name, type=TEXT),)


def setting_rows(session: SessionState) -> list[dict[str, object]]:
    """The rows of pg_settings, by column name."""
    rows: list[dict[str, object]] = []
    for setting in SETTINGS:
        if setting.hidden:
            continue
        shown = current_value(session, setting)
        whole = setting.type == "integer"
        rows.append(
            {
                "name": setting.name,
                "setting": raw_value(setting, shown),
                "unit": setting.unit,
                "category": setting.category,
                "short_desc": setting.description,
                "context": setting.context,
                "vartype": setting.type,
                "source": "session" if setting.name in session.values.session else "default",
                "min_val": _bound(setting.minimum, whole),
                "max_val": _bound(setting.maximum, whole),
                "enumvals": list(setting.values) or None,
                "boot_val": setting.default,
                "reset_val": raw_value(setting, session.values.base[setting.name]),
                "pending_restart": False,
            }
        )
    return rows


def _bound(bound: float | None, whole: bool) -> str | None:
    if bound is None:
        return None
    return str(int(bound)) if whole else f"{bound:g}"
