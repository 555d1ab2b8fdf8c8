"""has_*_privilege and the default ACLs.

The catalog records owners and no grants, so the defaults of PostgreSQL hold (chapter "Privileges"): a superuser may do
everything, an owner everything with what it owns, everybody may read the system relations, use the types, languages,
functions and the standard schemas, and connect to databases.
"""

from __future__ import annotations

from collections.abc import Callable

from adapter.access.membership import has_privileges_of, is_admin_of, is_member_of
from adapter.system_catalogs.functions.contexts import Entered
from adapter.system_catalogs.functions.reg_names import (
    function_oid,
    namespace_oid,
    procedure_oid,
    relation_oid,
    role_oid,
    type_oid,
)
from adapter.system_catalogs.objects.objects import publicly_readable
from planner.catalog_data import content as catalog_data
from planner.common_errors import missing_column, missing_database
from planner.errors import InvalidParameterValue, UndefinedObject
from storage.catalog.access import Role
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, FIRST_USER_OID, CatalogSnapshot, Relation, Schema

_ALLOWED: dict[str, frozenset[str]] = {
    "table": frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "RULE"}),
    "column": frozenset({"SELECT", "INSERT", "UPDATE", "REFERENCES"}),
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

_PUBLIC = {
    "database": frozenset({"TEMPORARY", "TEMP", "CONNECT"}),
    "function": frozenset({"EXECUTE"}),
    "language": frozenset({"USAGE"}),
    "type": frozenset({"USAGE"}),
}


def _privileges(kind: str, text: str) -> list[tuple[str, bool]]:
    """The privileges asked for and whether WITH GRANT OPTION is; 22023 for one that the kind does not have."""
    wanted: list[tuple[str, bool]] = []
    for item in text.split(","):
        name = " ".join(item.upper().split())
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


def _missing(what: str) -> Callable[[Entered, str], int]:
    def find(context: Entered, name: str) -> int:
        raise UndefinedObject(f'{what} "{name}" does not exist')

    return find


_RESOLVE: dict[str, Callable[[Entered, str], int]] = {
    "table": relation_oid,
    "column": relation_oid,
    "sequence": relation_oid,
    "schema": namespace_oid,
    "database": database_oid,
    "function": lambda context, name: (procedure_oid if "(" in name else function_oid)(context, name),
    "language": _static_oid("pg_language", "lanname", "language"),
    "type": type_oid,
    "tablespace": _static_oid("pg_tablespace", "spcname", "tablespace"),
    "foreign_data_wrapper": _missing("foreign-data wrapper"),
    "server": _missing("server"),
    "role": role_oid,
}


def _owner(context: Entered, kind: str, oid: int) -> int | None:
    """The owner of an object, or None when there is no such object."""
    if kind in ("table", "column", "sequence"):
        relation = context.objects.relation(oid)
        return None if relation is None else relation.owner
    if kind == "type":
        named = context.objects.type(oid)
        return None if named is None else named.owner
    if kind == "function":
        function = context.objects.function(oid)
        return None if function is None else function.owner
    if kind in ("language", "tablespace"):
        return BOOTSTRAP_SUPERUSER_OID if oid in catalog_data.columns(f"pg_{kind}")["oid"] else None
    owner = getattr(context.objects.snapshot.get(oid), "owner", None)
    return owner if isinstance(owner, int) else None


def _is_superuser(context: Entered, role: int) -> bool:
    record = context.objects.snapshot.get(role)
    return isinstance(record, Role) and record.superuser


def _is_public(context: Entered, oid: int) -> bool:
    schema = context.objects.snapshot.get(oid)
    return isinstance(schema, Schema) and schema.name == "public"


def _public(context: Entered, kind: str, oid: int) -> frozenset[str]:
    if kind in ("table", "column"):
        return frozenset({"SELECT"}) if publicly_readable(oid) else frozenset()
    if kind == "schema":
        return frozenset({"USAGE"}) if oid < FIRST_USER_OID or _is_public(context, oid) else frozenset()
    return _PUBLIC.get(kind, frozenset())


def has_privilege(context: Entered, kind: str, role: str | int | None, target: str | int, text: str) -> bool | None:
    """has_`kind`_privilege: `role` None is the current user, 0 or 'public' everybody. None when an oid names no
    object; a name that names none is an error."""
    if role is None:
        role_id = context.user_oid
    elif isinstance(role, str):
        role_id = 0 if role == "public" else role_oid(context, role)
    else:
        role_id = role
    oid = _RESOLVE[kind](context, target) if isinstance(target, str) else target
    wanted = _privileges(kind, text)
    if kind == "role":
        return any(_has_role(context.objects.snapshot, role_id, oid, name, admin=admin) for name, admin in wanted)
    owner = _owner(context, kind, oid)
    if owner is None:
        return None
    if role_id and (_is_superuser(context, role_id) or role_id == owner):
        return True
    public = _public(context, kind, oid)
    return any(name in public and not grant for name, grant in wanted)


def _has_role(catalog: CatalogSnapshot, role: int, other: int, privilege: str, *, admin: bool) -> bool:
    if admin:
        return is_admin_of(catalog, role, other)
    return (is_member_of if privilege == "MEMBER" else has_privileges_of)(catalog, role, other)


def has_column_privilege(
    context: Entered, role: str | int | None, table: str | int, column: str | int, text: str
) -> bool | None:
    """has_column_privilege; 42703 when a name names no column."""
    oid = relation_oid(context, table) if isinstance(table, str) else table
    if isinstance(column, str):
        relation = context.objects.snapshot.get(oid)
        if isinstance(relation, Relation) and relation.column(column) is None:
            raise missing_column(relation.name, column)
    return has_privilege(context, "column", role, oid, text)


_DEFAULT_ACLS = {
    "r": (None, "arwdDxt"),
    "s": (None, "rwU"),
    "S": (None, "U"),
    "d": ("Tc", "CTc"),
    "f": ("X", "X"),
    "l": ("U", "U"),
    "T": ("U", "U"),
    "n": (None, "UC"),
    "t": (None, "C"),
    "F": (None, "U"),
    "L": (None, "rw"),
    "p": (None, "sA"),
    "c": (None, None),
}


def default_acl(context: Entered, kind: str, owner: int) -> list[str]:
    """acldefault: the ACL that an object of this kind has before any GRANT."""
    if kind not in _DEFAULT_ACLS:
        raise InvalidParameterValue(f'unrecognized object type abbreviation: "{kind}"')
    public, own = _DEFAULT_ACLS[kind]
    name = context.objects.role_names.get(owner, str(owner))
    items = [] if public is None else [f"={public}/{name}"]
    return items if own is None else [*items, f"{name}={own}/{name}"]


_LETTERS = {
    "a": "INSERT",
    "r": "SELECT",
    "w": "UPDATE",
    "d": "DELETE",
    "D": "TRUNCATE",
    "x": "REFERENCES",
    "t": "TRIGGER",
    "X": "EXECUTE",
    "U": "USAGE",
    "C": "CREATE",
    "T": "TEMPORARY",
    "c": "CONNECT",
    "s": "SET",
    "A": "ALTER SYSTEM",
}


def explode_acl(context: Entered, items: list[str]) -> list[dict[str, object]]:
    """aclexplode: one row for each privilege of each item, in PostgreSQL's order."""
    roles = {name: oid for oid, name in context.objects.role_names.items()}
    rows: list[dict[str, object]] = []
    for item in items:
        grantee, _, rest = item.partition("=")
        letters, _, grantor = rest.partition("/")
        held: dict[str, bool] = {}
        for letter in letters:
            if letter == "*":
                held[next(reversed(held))] = True
            else:
                held[letter] = False
        for letter, privilege in _LETTERS.items():
            if letter in held:
                rows.append(
                    {
                        "grantor": roles.get(grantor, 0),
                        "grantee": roles.get(grantee, 0) if grantee else 0,
                        "privilege_type": privilege,
                        "is_grantable": held[letter],
                    }
                )
    return rows
