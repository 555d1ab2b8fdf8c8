"""What SET says in CREATE and ALTER FUNCTION, and who may say LEAKPROOF."""

from __future__ import annotations

from msgspec.structs import replace

from adapter.access.membership import is_superuser
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.settings.values import canonical_value, check_changeable
from planner.errors import InsufficientPrivilege, InvalidParameterValue
from planner.statements.routines import RoutineOptions
from storage.catalog.routines import Function


def with_settings(running: Running, record: Function, options: RoutineOptions) -> Function:
    """`record` with the settings that SET and RESET leave. 42704, 22023."""
    known = {} if options.reset_all else dict(setting.partition("=")[::2] for setting in record.settings)
    session = running.session
    for given in options.settings:
        setting, _ = session.values.find_or_add(given.name)
        if given.values is None:
            known.pop(setting.name, None)
            continue
        check_changeable(setting)
        if given.local:
            # SET ... FROM CURRENT.
            known[setting.name] = session.values[setting.name]
            continue
        if len(given.values) > 1 and not setting.list_value:
            raise InvalidParameterValue(f"SET {setting.name} takes only one argument")
        known[setting.name] = canonical_value(setting, ", ".join(given.values), session.values.get(setting.name))
    return replace(record, settings=tuple(f"{name}={value}" for name, value in known.items()))


def check_leakproof(running: Running, options: RoutineOptions) -> None:
    """42501 where another than a superuser says LEAKPROOF: such functions see rows that row security and views with
    `security_barrier` keep from who reads them."""
    if options.leakproof and not is_superuser(own_catalog(running), running.session.values.identity.current):
        raise InsufficientPrivilege("only superuser can define a leakproof function")
