"""The objects that GRANT and REVOKE name, and how messages call their kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from adapter.access.acls import owner_of
from adapter.access.privileges import described
from adapter.definitions.databases.changes import require_database
from adapter.definitions.foreign.servers import require_server
from adapter.definitions.routines.names import find_routine
from adapter.definitions.types.names import require_type
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import look_up_any, missing, require_open_schema, require_schema
from adapter.execution.statement import Running
from adapter.settings.values import require_setting
from planner.catalog_data import content as catalog_data
from planner.errors import FeatureNotSupported, InvalidGrantOperation, UndefinedObject, WrongObjectType
from planner.statements import records as st
from planner.types import derived_oids
from planner.types.system_relations import SystemRelation
from planner.types.type_names import element_of, format_type
from planner.types.type_scope import record_of
from storage.catalog.model import COMPOSITE, CatalogSnapshot, DomainType, Index, Relation, Sequence
from storage.catalog.outside import LAKE_WRAPPER, LAKE_WRAPPER_OID
from storage.catalog.record import Record
from storage.catalog.routines import Function

KINDS: Mapping[str, str] = {
    "table": "r",
    "sequence": "s",
    "database": "d",
    "schema": "n",
    "function": "f",
    "procedure": "f",
    "routine": "f",
    "type": "T",
    "domain": "T",
    "language": "l",
    "tablespace": "t",
    "foreign data wrapper": "F",
    "foreign server": "S",
    "large object": "L",
    "parameter": "p",
}
"""The kinds of GRANT's objects as `storage.catalog.acl` has them."""

_ROUTINES: Mapping[str, str] = {"function": "f", "procedure": "p", "routine": "fp"}
"""The kinds of routines that ALL FUNCTIONS, PROCEDURES and ROUTINES mean."""

SHOWN: Mapping[str, str] = {"table": "relation", "foreign data wrapper": "foreign-data wrapper"}
"""What PostgreSQL's messages call a kind, where that is not its name."""


class Target(Struct, frozen=True, kw_only=True):
    """An object that privileges are granted on. `record` is its own, where it is not built in."""

    kind: str
    oid: int
    owner: int
    name: str
    record: Record | None = None
    parameter: str = ""


def targets(running: Running, grant: st.Grant) -> Iterator[Target]:
    """The objects of a GRANT or REVOKE, in its order. 42P01, 3F000, 42883, 42704, 42809, 3D000."""
    catalog = own_catalog(running)
    if grant.all_in_schema:
        for name in grant.objects:
            schema = require_open_schema(running, catalog, name.name)
            yield from _in_schema(catalog, grant.kind, schema.oid)
        return
    for routine in grant.routines:
        yield _routine(running, catalog, routine)
    for name in grant.objects:
        yield _target(running, catalog, grant.kind, name)


def _in_schema(catalog: CatalogSnapshot, kind: str, schema: int) -> Iterator[Target]:
    for record in sorted(catalog.all(), key=lambda record: record.oid):
        match record:
            case Relation() if kind == "table" and record.schema == schema and record.kind != COMPOSITE:
                yield of_record(record)
            case Sequence() if kind == "sequence" and record.schema == schema:
                yield of_record(record)
            case Function() if record.schema == schema and record.kind in _ROUTINES.get(kind, ""):
                yield of_record(record)
            case _:
                pass


def of_record(record: Relation | Sequence | Function) -> Target:
    """A relation, sequence, function or procedure."""
    kind = "s" if isinstance(record, Sequence) else "f" if isinstance(record, Function) else "r"
    return Target(kind=kind, oid=record.oid, owner=record.owner, name=record.name, record=record)


def _target(running: Running, catalog: CatalogSnapshot, kind: str, name: st.QualifiedName) -> Target:
    match kind:
        case "table" | "sequence":
            return _relation(running, catalog, kind, name)
        case "schema":
            schema = require_schema(catalog, name.name)
            return Target(kind="n", oid=schema.oid, owner=schema.owner, name=schema.name, record=schema)
        case "database":
            database = require_database(catalog, name.name)
            return Target(kind="d", oid=database.oid, owner=database.owner, name=database.name, record=database)
        case "type" | "domain":
            return _type(running, catalog, kind, name)
        case "language":
            return _language(catalog, name.name)
        case "parameter":
            setting = require_setting(str(name).lower())
            return Target(kind="p", oid=0, owner=10, name=setting.name, parameter=setting.name.lower())
        case "tablespace":
            data = catalog_data.columns("pg_tablespace")
            if name.name not in data["spcname"]:
                raise UndefinedObject(f'tablespace "{name.name}" does not exist')
            oid = data["oid"][data["spcname"].index(name.name)]
            return Target(kind="t", oid=oid, owner=10, name=name.name)
        case "foreign data wrapper":
            if name.name != LAKE_WRAPPER:
                raise UndefinedObject(f'foreign-data wrapper "{name.name}" does not exist')
            return Target(kind="F", oid=LAKE_WRAPPER_OID, owner=10, name=name.name)
        case "foreign server":
            server = require_server(catalog, name.name)
            return Target(kind="S", oid=server.oid, owner=server.owner, name=server.name, record=server)
        case "large object":
            raise UndefinedObject(f"large object {name.name} does not exist")
        case _:
            raise FeatureNotSupported(f"GRANT ON {kind.upper()} is not supported")


def _relation(running: Running, catalog: CatalogSnapshot, kind: str, name: st.QualifiedName) -> Target:
    found = look_up_any(running, catalog, name)
    if found is None:
        raise missing(catalog, name)
    if isinstance(found, SystemRelation):
        return Target(kind="r", oid=found.oid, owner=10, name=found.name)
    if isinstance(found, Index):
        raise WrongObjectType(f'"{found.name}" is an index')
    if isinstance(found, Relation) and found.kind == COMPOSITE:
        raise WrongObjectType(f'"{found.name}" is a composite type')
    if kind == "sequence" and not isinstance(found, Sequence):
        raise WrongObjectType(f'"{found.name}" is not a sequence')
    return of_record(found)


def _routine(running: Running, catalog: CatalogSnapshot, named: st.RoutineName) -> Target:
    builtin = _builtin_routine(named)
    if builtin is not None:
        return Target(kind="f", oid=builtin, owner=10, name=described(catalog, "f", builtin)[1])
    return of_record(find_routine(running, named))


def _builtin_routine(named: st.RoutineName) -> int | None:
    """The function of pg_catalog that is meant; None when it is a user's."""
    if named.name.schema not in (None, "pg_catalog") or named.kind == "procedure":
        return None
    data = catalog_data.columns("pg_proc")
    found = [
        oid
        for oid, name, types in zip(data["oid"], data["proname"], data["proargtypes"], strict=True)
        if name == named.name.name and (named.inputs is None or tuple(types) == named.inputs)
    ]
    return found[0] if len(found) == 1 else None


def _type(running: Running, catalog: CatalogSnapshot, kind: str, name: st.QualifiedName) -> Target:
    row = require_type(running, name)
    if element_of(row.oid):
        raise InvalidGrantOperation(
            "cannot set privileges of array types", hint="Set the privileges of the element type instead."
        )
    record = record_of(row.oid)
    if kind == "domain" and not isinstance(record, DomainType):
        raise WrongObjectType(f'"{format_type(row.oid)}" is not a domain')
    owner = owner_of(catalog, "T", row.oid)
    found = catalog.get(derived_oids.owner(row.oid))
    return Target(kind="T", oid=row.oid, owner=owner or 10, name=described(catalog, "T", row.oid)[1], record=found)


def _language(catalog: CatalogSnapshot, name: str) -> Target:
    data = catalog_data.columns("pg_language")
    if name not in data["lanname"]:
        raise UndefinedObject(f'language "{name}" does not exist')
    place = data["lanname"].index(name)
    if not data["lanpltrusted"][place]:
        raise WrongObjectType(
            f'language "{name}" is not trusted',
            detail="GRANT and REVOKE are not allowed on untrusted languages, because only superusers can use untrusted "
            "languages.",
        )
    return Target(kind="l", oid=data["oid"][place], owner=10, name=name)
