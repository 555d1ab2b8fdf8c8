"""Comments, and objects described in words: obj_description and its like, pg_describe_object."""

from __future__ import annotations

from functools import cache

from adapter.access.privileges import described_default
from adapter.system_catalogs.functions.contexts import Entered
from adapter.system_catalogs.objects.definitions import (
    column_name,
    format_type,
    qualified_relation_name,
)
from adapter.system_catalogs.objects.functions import function_signature
from adapter.system_catalogs.objects.objects import (
    PG_ATTRDEF,
    PG_AUTHID,
    PG_CLASS,
    PG_CONSTRAINT,
    PG_DATABASE,
    PG_DEFAULT_ACL,
    PG_EXTENSION,
    PG_FOREIGN_DATA_WRAPPER,
    PG_FOREIGN_SERVER,
    PG_NAMESPACE,
    PG_POLICY,
    PG_PROC,
    PG_REWRITE,
    PG_STATISTIC_EXT,
    PG_TYPE,
    PLPGSQL_OID,
    CatalogObjects,
    static_descriptions,
)
from planner.catalog_data import content as catalog_data
from planner.extensions.available import PLPGSQL
from planner.syntax.identifiers import quote_identifier
from planner.types import derived_oids
from storage.catalog.access import Policy
from storage.catalog.model import Constraint, Database
from storage.catalog.outside import LAKE_WRAPPER, LAKE_WRAPPER_OID, Extension, ForeignServer
from storage.catalog.record import ExtendedStatistics
from storage.catalog.temporary import is_temporary

SHARED_CLASSES = (PG_DATABASE, PG_AUTHID)


def class_oid(catalog: str) -> int | None:
    """The oid of the catalog called `catalog` (pg_class, pg_proc, ...)."""
    row = catalog_data.relations().get(("pg_catalog", catalog))
    return None if row is None else row.oid


@cache
def _shared_descriptions() -> dict[tuple[int, int], str]:
    data = catalog_data.columns("pg_shdescription")
    return {
        (classoid, objoid): text
        for objoid, classoid, text in zip(data["objoid"], data["classoid"], data["description"], strict=True)
    }


def description(objects: CatalogObjects, class_id: int, oid: int, subid: int) -> str | None:
    """The comment on an object of a database."""
    key = (class_id, oid, subid)
    if class_id in SHARED_CLASSES:
        return None
    return objects.descriptions.get(key) or static_descriptions().get(key)


def object_description(context: Entered, oid: int, catalog: str) -> str | None:
    """obj_description(oid, name)."""
    class_id = class_oid(catalog)
    return None if class_id is None else description(context.objects, class_id, oid, 0)


def any_description(context: Entered, oid: int) -> str | None:
    """obj_description(oid), which looks through all catalogs."""
    own = context.objects.descriptions.get((context.objects.class_of(oid), oid, 0))
    if own is not None:
        return own
    return _any_static().get(oid)


@cache
def _any_static() -> dict[int, str]:
    return {oid: text for (_, oid, subid), text in static_descriptions().items() if subid == 0}


def shared_description(context: Entered, oid: int, catalog: str) -> str | None:
    """shobj_description: comments on databases and roles."""
    class_id = class_oid(catalog)
    if class_id is None:
        return None
    own = context.objects.descriptions.get((class_id, oid, 0))
    return own or _shared_descriptions().get((class_id, oid))


def column_description(context: Entered, relation: int, attnum: int) -> str | None:
    """col_description."""
    return description(context.objects, PG_CLASS, relation, attnum)


_KINDS = {"r": "table", "v": "view", "m": "materialized view", "i": "index", "S": "sequence", "c": "composite type",
          "f": "foreign table"}  # fmt: skip


def describe_object(context: Entered, class_id: int, oid: int, subid: int) -> str | None:
    """pg_describe_object, for the sorts of objects that exist here; None for an object that does not. As PostgreSQL's,
    it quotes only names that may be qualified."""
    objects = context.objects
    if class_id == PG_CLASS:
        named = objects.relation(oid)
        if named is None:
            return None
        relation = f"{_KINDS.get(named.kind, 'relation')} {qualified_relation_name(objects, oid, context.path)}"
        if subid == 0:
            return relation
        column = column_name(objects, oid, subid)
        return None if column is None else f"column {column} of {relation}"
    if class_id == PG_TYPE:
        if objects.type(oid) is None:
            return None
        return f"type {format_type(objects, oid, None, context.path)}"
    if class_id == PG_PROC:
        signature = function_signature(objects, oid)
        return None if signature is None else f"function {signature}"
    if class_id == PG_NAMESPACE:
        name = objects.schema_name_by_oid.get(oid)
        return None if name is None else f"schema {name}"
    if class_id == PG_AUTHID:
        name = objects.role_names.get(oid)
        return None if name is None else f"role {name}"
    record = objects.snapshot.get(oid)
    if class_id == PG_DATABASE:
        return f"database {record.name}" if isinstance(record, Database) else None
    if class_id == PG_CONSTRAINT and isinstance(record, Constraint):
        table = describe_object(context, PG_CLASS, record.relation, 0)
        return f"constraint {record.name} on {table}"
    if class_id == PG_CONSTRAINT and oid in objects.domain_checks:
        check, _ = objects.domain_checks[oid]
        return f"constraint {check.name}"
    if class_id == PG_REWRITE:
        view = derived_oids.owner_of_rule(oid)
        return None if view is None else f"rule _RETURN on {describe_object(context, PG_CLASS, view, 0)}"
    if class_id == PG_ATTRDEF:
        return _describe_default(context, oid)
    if class_id == PG_FOREIGN_DATA_WRAPPER:
        return f"foreign-data wrapper {LAKE_WRAPPER}" if oid == LAKE_WRAPPER_OID else None
    if class_id == PG_STATISTIC_EXT and isinstance(record, ExtendedStatistics):
        hidden = record.schema not in context.path or is_temporary(record.schema)
        schema = f"{quote_identifier(objects.schema_name_by_oid[record.schema])}." if hidden else ""
        return f"statistics object {schema}{quote_identifier(record.name)}"
    if class_id == PG_POLICY and isinstance(record, Policy):
        return f"policy {record.name} on {describe_object(context, PG_CLASS, record.relation, 0)}"
    if class_id == PG_FOREIGN_SERVER:
        return f"server {record.name}" if isinstance(record, ForeignServer) else None
    if class_id == PG_DEFAULT_ACL:
        default = next((each for each in objects.snapshot.acls.defaults if each.oid == oid), None)
        return None if default is None else described_default(objects.snapshot, default)
    if class_id == PG_EXTENSION:
        name = PLPGSQL.name if oid == PLPGSQL_OID else record.name if isinstance(record, Extension) else None
        return None if name is None else f"extension {name}"
    return None


def _describe_default(context: Entered, oid: int) -> str | None:
    if oid not in context.objects.defaults:
        return None
    relation, column = context.objects.defaults[oid]
    return f"default value for {describe_object(context, PG_CLASS, relation.oid, column.attnum)}"
