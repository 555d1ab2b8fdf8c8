"""Reading and changing the settings of a session, for whatever does so: SET and SHOW, set_config() and
current_setting(), pg_settings.

A few settings are not values of the session but of its transaction (transaction_isolation and its like), or say who the
session acts as (role, session_authorization); they are read and changed where they live."""

from __future__ import annotations

from adapter.access.membership import has_privileges_of, is_member_of, is_superuser
from adapter.access.roles import require_role, role_called
from adapter.execution.session_state import SessionState
from adapter.execution.statement import Running
from adapter.results import ColumnDescription
from adapter.settings.catalogue import SETTINGS, Setting
from adapter.settings.identity import Identity
from adapter.settings.server_settings import STORED
from adapter.settings.values import canonical_value, check_changeable, raw_value
from adapter.transactions.commit_request import Isolation
from adapter.transactions.past.moments import moment
from planner.errors import InsufficientPrivilege, InvalidParameterValue
from planner.statements import records as st
from planner.types import types as t
from planner.types.types import SqlType
from storage.catalog.access import Role
from storage.catalog.model import CatalogSnapshot

TEXT = SqlType(t.TEXT)


def apply_setting(
    running: Running, name: str, value: str | None, *, local: bool, items: tuple[str, ...] | None = None
) -> str:
    """Change a setting (`value` None: to its default). Returns the value as SHOW prints it."""
    session = running.session
    setting, values = session.values.find_or_add(name)
    check_changeable(setting)
    check_may_set(running, setting)
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
        case "tidegate.as_of" if shown:
            shown = str(moment(shown, values["TimeZone"]))
        case "role":
            _check_own_identity(session, setting.name)
            return _set_role(session, shown, local=local)
        case "session_authorization":
            _check_own_identity(session, setting.name)
            return _set_session_authorization(session, shown, local=local)
        case _:
            pass
    values = session.values
    session.values = values.with_local(setting.name, shown) if local else values.with_session(setting.name, shown)
    return shown


def reset_setting(running: Running, setting: Setting, *, local: bool) -> str:
    """Give `setting` its default, with `local` for this transaction only. Returns the value as SHOW prints it."""
    session = running.session
    check_may_set(running, setting)
    if setting.name == "transaction_isolation":
        running.transaction.set_isolation(Isolation(session.values["default_transaction_isolation"]))
        return running.transaction.isolation.value
    if setting.name == "role":
        _check_own_identity(session, setting.name)
        return _set_role(session, session.values.base["role"], local=local)
    if setting.name == "session_authorization":
        _check_own_identity(session, setting.name)
        identity, name = session.values.identity, session.values.base[setting.name]
        shown = {"session_authorization": name, "role": "none"}
        _act_as(session, identity.with_session(identity.authenticated), shown, local=local)
        return name
    if local:
        session.values = session.values.with_local(setting.name, session.values.base[setting.name])
    else:
        session.values = session.values.reset(setting.name)
    return session.values[setting.name]


def check_may_set(running: Running, setting: Setting) -> None:
    """42501 for a parameter of superusers without SET on it."""
    if setting.context not in ("superuser", "superuser-backend"):
        return
    session = running.session
    if not session.rights(session.newest_catalog()).may_parameter(setting.name.lower(), "s"):
        raise InsufficientPrivilege(f'permission denied to set parameter "{setting.name}"')


def _set_role(session: SessionState, name: str, *, local: bool) -> str:
    """SET ROLE. Raises 22023 for a role that there is not, 42501 for one that the session's user may not become."""
    catalog, identity = session.newest_catalog(), session.values.identity
    role = None
    if name != "none":
        role = _role(catalog, name).oid
        if not is_member_of(catalog, identity.session, role):
            raise InsufficientPrivilege(f'permission denied to set role "{name}"')
    _act_as(session, identity.with_role(role), {"role": name}, local=local)
    return name


def _set_session_authorization(session: SessionState, name: str, *, local: bool) -> str:
    """SET SESSION AUTHORIZATION, which ends SET ROLE. Raises 22023 and 42501."""
    catalog, identity = session.newest_catalog(), session.values.identity
    role = _role(catalog, name).oid
    if role != identity.authenticated and not is_superuser(catalog, identity.authenticated):
        raise InsufficientPrivilege("permission denied to set session authorization")
    shown = {"session_authorization": name, "role": "none"}
    _act_as(session, identity.with_session(role), shown, local=local)
    return name


def _act_as(session: SessionState, identity: Identity, shown: dict[str, str], *, local: bool) -> None:
    powerful = "on" if is_superuser(session.newest_catalog(), identity.current) else "off"
    session.values = session.values.acting_as(identity, {**shown, "is_superuser": powerful}, local=local)


def _check_own_identity(session: SessionState, name: str) -> None:
    """Raise 42501 inside a SECURITY DEFINER function, which may not change who it acts as."""
    if session.values.identity.definer is not None:
        raise InsufficientPrivilege(f'cannot set parameter "{name}" within security-definer function')


def _role(catalog: CatalogSnapshot, name: str) -> Role:
    role = role_called(catalog, name)
    if role is None:
        raise InvalidParameterValue(f'role "{name}" does not exist')
    return role


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
    stored, catalog = session.services.settings, session.newest_catalog()
    role = require_role(catalog, "pg_read_all_settings").oid
    shows = has_privileges_of(catalog, session.values.identity.current, role)
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
                "source": session.values.source(setting.name),
                "min_val": _bound(setting.minimum, whole),
                "max_val": _bound(setting.maximum, whole),
                "enumvals": list(setting.values) or None,
                "boot_val": setting.default,
                "reset_val": raw_value(setting, session.values.base[setting.name]),
                "pending_restart": setting.name in stored.pending_restart,
                "sourcefile": STORED if shows and setting.name in stored.lines else None,
                "sourceline": stored.lines.get(setting.name) if shows else None,
            }
        )
    return rows


def _bound(bound: float | None, whole: bool) -> str | None:
    if bound is None:
        return None
    return str(int(bound)) if whole else f"{bound:g}"
