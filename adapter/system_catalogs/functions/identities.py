"""pg_identify_object: objects by names that mean the same whatever the search path is."""

from __future__ import annotations

from typing import TypeAlias

from adapter.system_catalogs.functions.contexts import Entered
from adapter.system_catalogs.objects.definitions import column_name, format_type, qualified_relation_name
from adapter.system_catalogs.objects.functions import function_row
from adapter.system_catalogs.objects.objects import (
    PG_AUTHID,
    PG_CLASS,
    PG_CONSTRAINT,
    PG_DATABASE,
    PG_EXTENSION,
    PG_NAMESPACE,
    PG_POLICY,
    PG_PROC,
    PG_REWRITE,
    PG_STATISTIC_EXT,
    PG_TYPE,
    PLPGSQL_OID,
    CatalogObjects,
)
from planner.extensions.available import PLPGSQL
from planner.syntax.identifiers import quote_identifier
from planner.types import derived_oids
from storage.catalog.access import Policy
from storage.catalog.model import Constraint, Database
from storage.catalog.outside import Extension
from storage.catalog.record import ExtendedStatistics

Identity: TypeAlias = dict[str, str | None]

_RELATIONS = {"r": "table", "v": "view", "m": "materialized view", "i": "index", "S": "sequence",
              "c": "composite type", "f": "foreign table"}  # fmt: skip
_ROUTINES = {"f": "function", "p": "procedure", "a": "aggregate", "w": "function"}
_UNQUALIFIED = ("numeric", "interval", "bit")
"""Types that the grammar knows by the names that they have in pg_type."""


def identify_object(context: Entered, class_id: int, oid: int, subid: int) -> Identity | None:
    """pg_identify_object, for the sorts of objects that exist here: type, schema, name and identity. None for an object
    that does not."""
    objects = context.objects
    match class_id:
        case _ if class_id == PG_CLASS:
            return _relation(objects, oid, subid)
        case _ if class_id == PG_TYPE:
            return _type(objects, oid)
        case _ if class_id == PG_PROC:
            return _routine(objects, oid)
        case _ if class_id == PG_CONSTRAINT:
            return _constraint(objects, oid)
        case _ if class_id == PG_REWRITE:
            view = derived_oids.owner_of_rule(oid)
            return None if view is None else _on(objects, "rule", None, "_RETURN", view)
        case _:
            return _record(objects, class_id, oid)


def _relation(objects: CatalogObjects, oid: int, subid: int) -> Identity | None:
    named = objects.relation(oid)
    if named is None:
        return None
    kind, identity = _RELATIONS.get(named.kind, "relation"), qualified_relation_name(objects, oid, None)
    if subid:
        column = column_name(objects, oid, subid)
        if column is None:
            return None
        kind, identity = f"{kind} column", f"{identity}.{quote_identifier(column)}"
    schema = quote_identifier(objects.schema_name_by_oid.get(named.namespace, ""))
    return _identity(kind, schema, quote_identifier(named.name), identity)


def _type(objects: CatalogObjects, oid: int) -> Identity | None:
    found = objects.type(oid)
    if found is None:
        return None
    schema = quote_identifier(objects.schema_name_by_oid.get(found.namespace, ""))
    return _identity("type", schema, quote_identifier(found.name), _type_text(objects, oid))


def _type_text(objects: CatalogObjects, oid: int) -> str:
    """The name of a type with its schema, unless it is one of the grammar's (format_type_be_qualified)."""
    text = format_type(objects, oid)
    name, brackets, _ = text.partition("[]")
    found = objects.type(objects.element_type(oid) or oid) if brackets else objects.type(oid)
    if found is None or name in _UNQUALIFIED or name != quote_identifier(found.name):
        return text
    return f"pg_catalog.{text}"


def _routine(objects: CatalogObjects, oid: int) -> Identity | None:
    row = function_row(objects, oid)
    if row is None:
        return None
    schema = quote_identifier(objects.schema_name_by_oid.get(row["pronamespace"], ""))
    arguments = ",".join(_type_text(objects, argument) for argument in row["proargtypes"])
    identity = f"{schema}.{quote_identifier(row['proname'])}({arguments})"
    return _identity(_ROUTINES.get(row["prokind"], "function"), schema, None, identity)


def _constraint(objects: CatalogObjects, oid: int) -> Identity | None:
    record = objects.snapshot.get(oid)
    if isinstance(record, Constraint):
        named = objects.relation(record.relation)
        schema = "" if named is None else quote_identifier(objects.schema_name_by_oid.get(named.namespace, ""))
        return _on(objects, "table constraint", schema, record.name, record.relation)
    if oid not in objects.domain_checks:
        return None
    check, domain = objects.domain_checks[oid]
    of = derived_oids.row_type_oid(domain.oid)
    schema = quote_identifier(objects.schema_name_by_oid.get(domain.schema, ""))
    identity = f"{quote_identifier(check.name)} on {_type_text(objects, of)}"
    return _identity("domain constraint", schema, None, identity)


def _on(objects: CatalogObjects, kind: str, schema: str | None, name: str, relation: int) -> Identity:
    """What belongs to a relation."""
    identity = f"{quote_identifier(name)} on {qualified_relation_name(objects, relation, None)}"
    return _identity(kind, schema, None, identity)


def _record(objects: CatalogObjects, class_id: int, oid: int) -> Identity | None:
    record = objects.snapshot.get(oid)
    if class_id == PG_NAMESPACE:
        return _named("schema", objects.schema_name_by_oid.get(oid))
    if class_id == PG_AUTHID:
        return _named("role", objects.role_names.get(oid))
    if class_id == PG_DATABASE:
        return _named("database", record.name if isinstance(record, Database) else None)
    if class_id == PG_EXTENSION:
        name = PLPGSQL.name if oid == PLPGSQL_OID else record.name if isinstance(record, Extension) else None
        return _named("extension", name)
    if class_id == PG_POLICY and isinstance(record, Policy):
        return _on(objects, "policy", None, record.name, record.relation)
    if class_id == PG_STATISTIC_EXT and isinstance(record, ExtendedStatistics):
        schema, name = quote_identifier(objects.schema_name_by_oid[record.schema]), quote_identifier(record.name)
        return _identity("statistics object", schema, name, f"{schema}.{name}")
    return None


def _named(kind: str, name: str | None) -> Identity | None:
    """What has no schema."""
    return None if name is None else _identity(kind, None, quote_identifier(name), quote_identifier(name))


def _identity(kind: str, schema: str | None, name: str | None, identity: str) -> Identity:
    return {"type": kind, "schema": schema, "name": name, "identity": identity}
