"""ALTER ROLE, ALTER DATABASE and ALTER SYSTEM ... SET and RESET: defaults of new sessions, and of servers."""

from __future__ import annotations

from msgspec.structs import replace

from adapter.access.membership import has_privileges_of
from adapter.definitions.common.catalog_changes import change, named_role, new_oid
from adapter.definitions.common.table_options import RETAIN_HISTORY, retained_ms
from adapter.definitions.databases.changes import require_database
from adapter.definitions.roles.attributes import CANNOT_ALTER, check_not_reserved, is_powerful, may_create_roles
from adapter.execution.guards import own_catalog
from adapter.execution.session_settings import check_may_set
from adapter.execution.statement import Running
from adapter.publishing.published_tables import OPTION as ICEBERG
from adapter.publishing.published_tables import flag_of
from adapter.settings.server_settings import stored_settings
from adapter.settings.values import canonical_value, check_changeable, require_setting
from planner.errors import CantChangeRuntimeParam, InsufficientPrivilege, InvalidParameterValue
from planner.statements import records as st
from storage.catalog.access import Role
from storage.catalog.model import Database, Setting, SystemSetting


async def alter_setting(running: Running, statement: st.AlterSetting) -> None:
    """ALTER DATABASE / ROLE ... SET and RESET: defaults of new sessions."""
    catalog = own_catalog(running)
    given = None if statement.role is None else named_role(running, statement.role)
    if given is not None:
        _check_may_alter(running, given)
    within = None if statement.database is None else require_database(catalog, statement.database)
    if given is None:
        _check_may_alter_all(running, within)
    if within is not None and given is None and statement.name in (RETAIN_HISTORY, f"tidegate.{RETAIN_HISTORY}"):
        text = ", ".join(statement.values or ())
        kept = None if statement.reset or statement.values is None else retained_ms(text)
        if kept != within.retain_ms:
            change(running, removed=[within], added=[replace(within, retain_ms=kept)])
        return
    if within is not None and given is None and statement.name in (ICEBERG, f"tidegate.{ICEBERG}"):
        on = not statement.reset and statement.values is not None and flag_of(", ".join(statement.values))
        if on != within.iceberg:
            change(running, removed=[within], added=[replace(within, iceberg=on)])
        return
    database, role = 0 if within is None else within.oid, 0 if given is None else given.oid
    known = [r for r in catalog.all() if isinstance(r, Setting) and r.database == database and r.role == role]
    if statement.name is None:
        change(running, removed=known)
        return
    setting = require_setting(statement.name)
    check_changeable(setting)
    check_may_set(running, setting)
    removed = [record for record in known if record.name == setting.name]
    added = []
    if not statement.reset and statement.values is not None:
        value = canonical_value(setting, ", ".join(statement.values), None)
        added.append(Setting(oid=new_oid(running), name=setting.name, value=value, database=database, role=role))
    change(running, removed=removed, added=added)


async def alter_system(running: Running, statement: st.AlterSystem) -> None:
    """ALTER SYSTEM SET and RESET: what servers take when they start, or read their configuration again.

    Raises 42501 without ALTER SYSTEM on the parameter, 42704, 55P02 for one that no file of PostgreSQL's may have,
    22023."""
    known = stored_settings(own_catalog(running))
    name = statement.name
    if name is None:
        if not is_powerful(running):
            raise InsufficientPrivilege("permission denied to perform ALTER SYSTEM RESET ALL")
        change(running, removed=known)
        return
    if not running.session.rights(own_catalog(running)).may_parameter(name, "A"):
        raise InsufficientPrivilege(f'permission denied to set parameter "{name}"')
    setting = running.session.values.find(name)
    if setting.context == "internal" or setting.name in _IN_NO_FILE:
        raise CantChangeRuntimeParam(f'parameter "{setting.name}" cannot be changed')
    removed = [record for record in known if record.name == setting.name]
    added = []
    if statement.value is not None:
        canonical_value(setting, statement.value, None)
        if "\n" in statement.value:
            raise InvalidParameterValue("parameter value for ALTER SYSTEM must not contain a newline")
        added.append(SystemSetting(oid=new_oid(running), name=setting.name, value=statement.value))
    change(running, removed=removed, added=added)


_IN_NO_FILE = frozenset(
    {
        "role",
        "session_authorization",
        "seed",
        "transaction_isolation",
        "transaction_read_only",
        "transaction_deferrable",
    }
)
"""PostgreSQL's GUC_DISALLOW_IN_FILE, but for what is internal anyhow."""


def _check_may_alter(running: Running, role: Role) -> None:
    check_not_reserved(role.name, CANNOT_ALTER)
    if role.superuser:
        if not is_powerful(running):
            raise InsufficientPrivilege("must be superuser to alter superusers")
    elif not may_create_roles(running) and role.oid != running.session.values.identity.current:
        raise InsufficientPrivilege("permission denied")


def _check_may_alter_all(running: Running, database: Database | None) -> None:
    """42501 for who may not say what holds for every role, in `database` or everywhere."""
    current = running.session.values.identity.current
    if database is None:
        if not is_powerful(running):
            raise InsufficientPrivilege("must be superuser to alter settings globally")
    elif not has_privileges_of(own_catalog(running), current, database.owner):
        raise InsufficientPrivilege(f"must be owner of database {database.name}")
