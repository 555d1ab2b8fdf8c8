"""What a role may do with an object that it does not own: one check for statements and for has_*_privilege.

`Rights` are those of one role in one catalog. A superuser may everything; others what the object's privileges
(`adapter.access.acls`) give to them, to a role whose privileges they have, or to PUBLIC. pg_read_all_data and
pg_write_all_data count as privileges on every relation and schema (PostgreSQL 15, "Predefined Roles").
"""

from __future__ import annotations

from collections.abc import Iterable

from adapter.access.acls import OF_KIND, builtin_entries, default_entries, entries_of, held, owner_of
from adapter.access.membership import is_superuser, roles_used_by
from adapter.access.roles import predefined, role_called, role_name
from planner.catalog_data import content as catalog_data
from planner.errors import InsufficientPrivilege
from planner.functions.own_routines import own_routines
from planner.ir.required import Required
from planner.types import derived_oids
from planner.types.own_relations import OWN_RELATIONS
from planner.types.system_relations import own_oids
from planner.types.type_names import element_of
from storage.catalog.acl import DefaultAcl
from storage.catalog.model import (
    BOOTSTRAP_SUPERUSER_OID,
    COMPOSITE,
    FIRST_USER_OID,
    CatalogSnapshot,
    Database,
    Index,
    Relation,
    Schema,
    Sequence,
)
from storage.catalog.outside import LAKE_WRAPPER, ForeignServer
from storage.catalog.routines import Function
from storage.catalog.temporary import is_temporary

NOBODY = -1
"""In place of the oid of a role that is gone: it has what PUBLIC has."""

_READ_ALL = next(oid for oid, role in predefined().items() if role.name == "pg_read_all_data")
_WRITE_ALL = next(oid for oid, role in predefined().items() if role.name == "pg_write_all_data")

_KINDS = {"r": "table", "v": "view", "m": "materialized view", "f": "foreign table", COMPOSITE: "type"}


class Rights:
    """What the role with this oid may do in this catalog."""

    def __init__(self, catalog: CatalogSnapshot, role: int) -> None:
        self.catalog = catalog
        self.role = role
        self.is_superuser = is_superuser(catalog, role)
        self.roles = roles_used_by(catalog, role) | {role}

    def held(self, kind: str, oid: int, subid: int = 0, *, grant_options: bool = False) -> set[str] | None:
        """The privileges, by their letters, on an object or (by its own privileges alone) on a column; None when there
        is no such object."""
        catalog = self.catalog
        if kind == "T":
            oid = element_of(oid) or oid
        owner = owner_of(catalog, kind, oid)
        if owner is None:
            return None
        letters = OF_KIND["c" if subid else kind]
        if self.is_superuser:
            return set(letters)
        if kind == "n" and is_temporary(oid):
            return set(letters) if "T" in (self.held("d", catalog.database) or ()) else {"U"}
        found = held(
            entries_of(catalog, kind, oid, owner, subid), self.roles, owner, "c" if subid else kind,
            grant_options=grant_options,
        )  # fmt: skip
        if not grant_options and not subid:
            if _READ_ALL in self.roles:
                found.update({"r": "r", "s": "r", "n": "U"}.get(kind, ""))
            if _WRITE_ALL in self.roles:
                found.update({"r": "awd", "s": "w", "n": "U"}.get(kind, ""))
        return found

    def may(self, kind: str, oid: int, letter: str, *, grant_option: bool = False) -> bool:
        """Whether the role has one privilege on an object, which exists."""
        return letter in (self.held(kind, oid, grant_options=grant_option) or ())

    def may_with_columns(self, oid: int, letter: str, attnums: Iterable[int], *, grant_option: bool = False) -> bool:
        """Whether the role has a privilege on each of the columns, or, when none is named, on any, by a grant on the
        relation or on the columns."""
        if self.may("r", oid, letter, grant_option=grant_option):
            return True
        wanted = tuple(attnums)
        given = {
            acl.subid
            for acl in self.catalog.acls.of_columns(oid)
            if letter in (self.held("r", oid, acl.subid, grant_options=grant_option) or ())
        }
        return bool(given) if not wanted else given.issuperset(wanted)

    def may_parameter(self, name: str, letter: str, *, grant_option: bool = False) -> bool:
        """Whether the role has a privilege (``s`` SET, ``A`` ALTER SYSTEM) on a parameter."""
        if self.is_superuser:
            return True
        acl = self.catalog.acls.of_parameter(name)
        entries = default_entries("p", BOOTSTRAP_SUPERUSER_OID) if acl is None else acl.entries
        return letter in held(entries, self.roles, BOOTSTRAP_SUPERUSER_OID, "p", grant_options=grant_option)

    def require(self, kind: str, oid: int, letters: str, *, position: int | None = None) -> None:
        """42501 unless the role has one of the privileges on an object."""
        if not self.is_superuser and not any(self.may(kind, oid, letter) for letter in letters):
            raise InsufficientPrivilege(refusal(self.catalog, kind, oid), position=position)

    def require_all(self, required: Required) -> None:
        """42501 when something that a statement needs is missing."""
        if not self.is_superuser and self.lacks(required):
            raise InsufficientPrivilege(refusal(self.catalog, required.kind, required.oid))

    def require_columns(self, oid: int, letter: str, attnums: Iterable[int]) -> None:
        """42501 unless the role has a privilege on a relation or on each of the columns."""
        if not self.is_superuser and not self.may_with_columns(oid, letter, attnums):
            raise InsufficientPrivilege(refusal(self.catalog, "r", oid))

    def closed_schemas(self) -> frozenset[str]:
        """The names of the schemas of the database on which the role has no USAGE."""
        if self.is_superuser:
            return frozenset()
        catalog = self.catalog
        schemas = [catalog.get(oid) for oid in catalog.schema_names.values()]
        return frozenset(
            schema.name for schema in schemas if isinstance(schema, Schema) and not self.may("n", schema.oid, "U")
        )

    def lacks(self, required: Required) -> bool:
        """Whether something that a statement needs is missing."""
        oid = required.oid
        if required.kind == "f":
            return not self.may("f", oid, "X")
        missing = set(required.privileges) - (self.held("r", oid) or set())
        if not missing:
            return False
        columns = {"r": required.selected, "a": required.inserted, "w": required.updated}
        return any(
            letter not in columns or not self.may_with_columns(oid, letter, columns[letter]) for letter in missing
        )


def rights_of(catalog: CatalogSnapshot, user: str) -> Rights:
    """The rights of the role called `user`."""
    role = role_called(catalog, user)
    return Rights(catalog, NOBODY if role is None else role.oid)


def denial(catalog: CatalogSnapshot, user: str, required: Iterable[Required], called: Iterable[int] = ()) -> str | None:
    """What PostgreSQL answers when the role called `user` may not run a statement that needs `required` and calls the
    built-in functions `called`; None when it may."""
    rights = rights_of(catalog, user)
    for each in required:
        if each.then is not None:
            then = Rights(each.then, rights.role if each.role is None else each.role)
            if not then.is_superuser and then.lacks(each):
                return refusal(each.then, each.kind, each.oid)
            if catalog.get(each.oid) is None:
                continue
        judged = rights if each.role is None else Rights(catalog, each.role)
        if not judged.is_superuser and judged.lacks(each):
            return refusal(catalog, each.kind, each.oid)
    if rights.is_superuser:
        return None
    restricted = restricted_functions(catalog)
    for oid in called:
        if oid in restricted and not rights.may("f", oid, "X"):
            return refusal(catalog, "f", oid)
    return None


def restricted_functions(catalog: CatalogSnapshot) -> frozenset[int]:
    """The built-in functions that not everybody may call, as far as is known without looking at each."""
    return frozenset(builtin_entries("f")) | {oid for oid in catalog.acls.by_object if oid < FIRST_USER_OID}


def refusal(catalog: CatalogSnapshot, kind: str, oid: int) -> str:
    """``permission denied for table t``."""
    what, name = described(catalog, kind, oid)
    return f"permission denied for {what} {name}"


def described(catalog: CatalogSnapshot, kind: str, oid: int) -> tuple[str, str]:
    """What messages on privileges call an object: ``table``, ``t``."""
    record = catalog.get(derived_oids.owner(oid) if kind == "T" else oid)
    match record:
        case Sequence():
            return "sequence", record.name
        case Relation() if kind == "T":
            return "type", record.name
        case Relation():
            return _KINDS[record.kind], record.name
        case Index():
            return "index", record.name
        case Schema():
            return "schema", record.name
        case Database():
            return "database", record.name
        case ForeignServer():
            return "foreign server", record.name
        case Function():
            return ("procedure" if record.kind == "p" else "function"), record.name
        case _:
            pass
    name = getattr(record, "name", None)
    if isinstance(name, str):
        return "type", name
    return _described_builtin(kind, oid)


def _described_builtin(kind: str, oid: int) -> tuple[str, str]:
    if kind == "F":
        return "foreign-data wrapper", LAKE_WRAPPER
    if kind == "r" and oid in own_oids():
        return "view", next(name for name, relation in OWN_RELATIONS.items() if relation.oid == oid)
    if kind == "f" and oid in own_routines():
        routine = own_routines()[oid]
        return ("procedure" if routine.kind == "p" else "function"), routine.name
    relation, column, what = {
        "r": ("pg_class", "relname", "table"),
        "s": ("pg_class", "relname", "sequence"),
        "f": ("pg_proc", "proname", "function"),
        "n": ("pg_namespace", "nspname", "schema"),
        "T": ("pg_type", "typname", "type"),
        "l": ("pg_language", "lanname", "language"),
        "t": ("pg_tablespace", "spcname", "tablespace"),
    }[kind]
    data = catalog_data.columns(relation)
    if oid not in data["oid"]:
        return what, str(oid)
    place = data["oid"].index(oid)
    name = str(data[column][place])
    if kind == "r":
        what = {"v": "view", "m": "materialized view", "S": "sequence", "i": "index"}.get(data["relkind"][place], what)
    elif kind == "f" and data["prokind"][place] == "a":
        what = "aggregate"
    return what, name


_DEFAULTS_OF = {"r": "relations", "S": "sequences", "f": "functions", "T": "types", "n": "schemas"}


def described_default(catalog: CatalogSnapshot, default: DefaultAcl) -> str:
    """Default privileges in PostgreSQL's words."""
    schema = catalog.get(default.schema)
    where = f" in schema {schema.name}" if isinstance(schema, Schema) else ""
    what = f"default privileges on new {_DEFAULTS_OF[default.kind]}"
    return f"{what} belonging to role {role_name(catalog, default.role)}{where}"
