"""has_*_privilege, which ask what checks of statements ask (`adapter.access.privileges`), acldefault and aclexplode."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adapter.access.acls import LETTERS, OF_KIND, default_entries, entry_of, shown_entries
from adapter.access.membership import has_privileges_of, is_admin_of, is_member_of
from adapter.access.privileges import Rights
from adapter.system_catalogs.functions.contexts import Entered
from adapter.system_catalogs.functions.reg_names import (
    namespace_oid,
    procedure_oid,
    relation_oid,
    role_oid,
    type_oid,
)
from adapter.system_catalogs.objects.definitions import column_name, column_number
from adapter.system_catalogs.objects.objects import CatalogObjects
from planner.catalog_data import content as catalog_data
from planner.common_errors import missing_column, missing_database
from planner.errors import InvalidParameterValue, UndefinedObject, WrongObjectType
from storage.catalog.acl import PUBLIC
from storage.catalog.model import CatalogSnapshot, Sequence
from storage.catalog.outside import LAKE_WRAPPER, LAKE_WRAPPER_OID

_ALLOWED: dict[str, frozenset[str]] = {
    "table": frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "RULE"}),
    "column": frozenset({"SELECT", "INSERT", "UPDATE", "REFERENCES"}),
    "any_column": frozenset({"SELECT", "INSERT", "UPDATE", "REFERENCES"}),
    "parameter": frozenset({"SET", "ALTER SYSTEM"}),
    "sequence": frozenset({"USAGE", "SELECT", "UPDATE"}),
    "schema": frozenset({"CREATE", "USAGE"}),
    "database": frozenset({"CREATE", "TEMPORARY", "TEMP", "CONNECT"}),
    "function": frozenset({"EXECUTE"}),
    "language": frozenset({"USAGE"}),
    "type": frozenset({"USAGE"}),
    "tablespace": frozenset({"CREATE"}),
    "foreign_data_wrapper": frozenset({"USAGE"}),
    "server": frozenset({"USAGE"}),
    "role": frozenset({"MEMBER", "USAGE"}),
}

_KINDS: dict[str, str] = {
    "table": "r",
    "any_column": "r",
    "sequence": "s",
    "schema": "n",
    "database": "d",
    "function": "f",
    "language": "l",
    "type": "T",
    "tablespace": "t",
    "foreign_data_wrapper": "F",
    "server": "S",
}
"""The kinds of objects as `adapter.access.acls` has them."""

_BY_NAME: dict[str, str] = {**{name: letter for letter, name in LETTERS.items()}, "TEMP": "T", "RULE": ""}


def _privileges(kind: str, text: str) -> list[tuple[str, bool]]:
    """The privileges asked for and whether WITH GRANT OPTION is; 22023 for one that the kind does not have."""
    wanted: list[tuple[str, bool]] = []
    for item in text.split(","):
        name = item.strip().upper()
        suffix = " WITH ADMIN OPTION" if kind == "role" and name.endswith("ADMIN OPTION") else " WITH GRANT OPTION"
        grant = name.endswith(suffix)
        plain = name.removesuffix(suffix)
        if plain not in _ALLOWED[kind]:
            raise InvalidParameterValue(f'unrecognized privilege type: "{item.strip()}"')
        wanted.append((plain, grant))
    return wanted


def database_oid(context: Entered, name: str) -> int:
    """The database called `name`. 3D000."""
    for database in context.objects.databases:
        if database.name == name:
            return database.oid
    raise missing_database(name)


def _static_oid(relation: str, column: str, what: str) -> Callable[[Entered, str], int]:
    def find(context: Entered, name: str) -> int:
        data = catalog_data.columns(relation)
        if name in data[column]:
            found: int = data["oid"][data[column].index(name)]
            return found
        raise UndefinedObject(f'{what} "{name}" does not exist')

    return find


def _wrapper_oid(context: Entered, name: str) -> int:
    if name != LAKE_WRAPPER:
        raise UndefinedObject(f'foreign-data wrapper "{name}" does not exist')
    return LAKE_WRAPPER_OID


def _server_oid(context: Entered, name: str) -> int:
    for server in context.objects.foreign_servers:
        if server.name == name:
            return server.oid
    raise UndefinedObject(f'server "{name}" does not exist')


_RESOLVE: dict[str, Callable[[Entered, str], int]] = {
    "table": relation_oid,
    "any_column": relation_oid,
    "sequence": relation_oid,
    "schema": namespace_oid,
    "database": database_oid,
    "function": lambda context, name: procedure_oid(context, name),
    "language": _static_oid("pg_language", "lanname", "language"),
    "type": type_oid,
    "tablespace": _static_oid("pg_tablespace", "spcname", "tablespace"),
    "foreign_data_wrapper": _wrapper_oid,
    "server": _server_oid,
    "role": role_oid,
}


_EXISTS: Mapping[str, Callable[[CatalogObjects, int], object | None]] = {
    **dict.fromkeys(("table", "any_column", "sequence"), CatalogObjects.relation),
    "type": CatalogObjects.type,
    "function": CatalogObjects.function,
}
"""Kinds of which PostgreSQL has built-in objects whose privileges are kept nowhere: the object with an oid, if any."""


def _role_asked(context: Entered, role: str | int | None) -> int:
    if role is None:
        return context.user_oid
    if isinstance(role, str):
        return PUBLIC if role == "public" else role_oid(context, role)
    return role


def has_privilege(context: Entered, kind: str, role: str | int | None, target: str | int, text: str) -> bool | None:
    """has_`kind`_privilege: `role` None is the current user, 0 or 'public' everybody. None when an oid names no
    object; a name that names none is an error."""
    asked = _role_asked(context, role)
    oid = _RESOLVE[kind](context, target) if isinstance(target, str) else target
    wanted = _privileges(kind, text)
    catalog = context.objects.snapshot
    if kind == "role":
        return any(_has_role(catalog, asked, oid, name, admin=admin) for name, admin in wanted)
    rights = Rights(catalog, asked)
    exists = _EXISTS.get(kind)
    if exists is not None and exists(context.objects, oid) is None:
        return None
    letter = _KINDS[kind]
    if letter == "r" and isinstance(catalog.get(oid), Sequence):
        letter = "s"
    elif kind == "sequence" and isinstance(target, str) and not isinstance(catalog.get(oid), Sequence):
        raise WrongObjectType(f'"{target}" is not a sequence')
    if rights.held(letter, oid) is None:
        return None
    if kind == "any_column":
        return any(rights.may_with_columns(oid, _BY_NAME[name], (), grant_option=grant) for name, grant in wanted)
    asked_for = [(_BY_NAME[name], grant) for name, grant in wanted if name != "RULE"]
    return any(wish in (rights.held(letter, oid, grant_options=grant) or ()) for wish, grant in asked_for)


def has_parameter_privilege(context: Entered, role: str | int | None, name: str, text: str) -> bool:
    """has_parameter_privilege."""
    rights = Rights(context.objects.snapshot, _role_asked(context, role))
    return any(
        rights.may_parameter(name.lower(), _BY_NAME[wanted], grant_option=grant)
        for wanted, grant in _privileges("parameter", text)
    )


def _has_role(catalog: CatalogSnapshot, role: int, other: int, privilege: str, *, admin: bool) -> bool:
    if admin:
        return is_admin_of(catalog, role, other)
    return (is_member_of if privilege == "MEMBER" else has_privileges_of)(catalog, role, other)


def has_column_privilege(
    context: Entered, role: str | int | None, table: str | int, column: str | int, text: str
) -> bool | None:
    """has_column_privilege; 42703 when a name names no column, None when a number or an oid names nothing."""
    asked = _role_asked(context, role)
    oid = relation_oid(context, table) if isinstance(table, str) else table
    wanted = _privileges("column", text)
    rights = Rights(context.objects.snapshot, asked)
    named = context.objects.relation(oid)
    if named is None or rights.held("r", oid) is None:
        return None
    if isinstance(column, str):
        attnum = column_number(context.objects, oid, column)
        if attnum is None:
            raise missing_column(named.name, column)
    else:
        name = column_name(context.objects, oid, column)
        attnum = column if name is not None and column_number(context.objects, oid, name) == column else 0
    if not attnum:
        return None
    return any(rights.may_with_columns(oid, _BY_NAME[name], (attnum,), grant_option=grant) for name, grant in wanted)


def default_acl(context: Entered, kind: str, owner: int) -> list[str]:
    """acldefault: the ACL that an object of this kind has before any GRANT."""
    if kind != "c" and kind not in OF_KIND:
        raise InvalidParameterValue(f'unrecognized object type abbreviation: "{kind}"')
    return shown_entries(default_entries(kind, owner), context.objects.role_names)


def explode_acl(context: Entered, items: list[str]) -> list[dict[str, object]]:
    """aclexplode: one row for each privilege of each item, in PostgreSQL's order."""
    roles = {name: oid for oid, name in context.objects.role_names.items()}
    return [
        {
            "grantor": entry.grantor,
            "grantee": entry.grantee,
            "privilege_type": LETTERS[letter],
            "is_grantable": letter in entry.grantable,
        }
        for entry in (entry_of(item, roles) for item in items)
        for letter in entry.privileges
    ]
