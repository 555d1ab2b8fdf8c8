"""pg_identify_object and pg_identify_object_as_address: objects by names that mean the same whatever the search path
is, and by lists of names from which `addresses` finds them again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeAlias

from msgspec import Struct

from adapter.system_catalogs.functions.contexts import Entered
from adapter.system_catalogs.objects.builtin import builtin_columns
from adapter.system_catalogs.objects.definitions import column_name, format_type, qualified_relation_name
from adapter.system_catalogs.objects.functions import function_row
from adapter.system_catalogs.objects.objects import (
    PG_ATTRDEF,
    PG_AUTHID,
    PG_CLASS,
    PG_CONSTRAINT,
    PG_DATABASE,
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
    builtin_operators,
    static_row,
)
from planner.catalog_data import content as catalog_data
from planner.extensions.available import PLPGSQL
from planner.syntax.identifiers import quote_identifier
from planner.types import derived_oids
from storage.catalog.access import Policy
from storage.catalog.model import Constraint, Database
from storage.catalog.outside import LAKE_WRAPPER, LAKE_WRAPPER_OID, Extension, ForeignServer
from storage.catalog.record import ExtendedStatistics

Identity: TypeAlias = dict[str, str | None]
Address: TypeAlias = dict[str, Any]

_RELATIONS = {"r": "table", "v": "view", "m": "materialized view", "i": "index", "S": "sequence",
              "c": "composite type", "f": "foreign table"}  # fmt: skip
_ROUTINES = {"f": "function", "p": "procedure", "a": "aggregate", "w": "function"}
_UNQUALIFIED = ("numeric", "interval", "bit")
"""Types that the grammar knows by the names that they have in pg_type."""

STATIC: Mapping[str, tuple[str, str, str]] = {
    "access method": ("pg_am", "amname", ""),
    "language": ("pg_language", "lanname", ""),
    "tablespace": ("pg_tablespace", "spcname", ""),
    "collation": ("pg_collation", "collname", "collnamespace"),
    "conversion": ("pg_conversion", "conname", "connamespace"),
    "text search configuration": ("pg_ts_config", "cfgname", "cfgnamespace"),
    "text search dictionary": ("pg_ts_dict", "dictname", "dictnamespace"),
    "text search parser": ("pg_ts_parser", "prsname", "prsnamespace"),
    "text search template": ("pg_ts_template", "tmplname", "tmplnamespace"),
}
"""Sorts of objects of which there are the system's only: their catalog, its columns with the name and the schema."""

OF_METHODS: Mapping[str, tuple[str, str, str, str]] = {
    "operator class": ("pg_opclass", "opcname", "opcnamespace", "opcmethod"),
    "operator family": ("pg_opfamily", "opfname", "opfnamespace", "opfmethod"),
}


class Identified(Struct, frozen=True):
    """An object: its sort, the schema and the name of one that these tell from all of its sort, the text that means
    it, and the lists of names that do. None of these for one that is not there."""

    type: str
    schema: str | None
    name: str | None
    identity: str | None
    names: tuple[str, ...] | None
    args: tuple[str, ...] | None = ()


def identify_object(context: Entered, class_id: int, oid: int, subid: int) -> Identity | None:
    """pg_identify_object, for the sorts of objects that exist here: type, schema, name and identity."""
    found = identified(context.objects, class_id, oid, subid)
    if found is None:
        return None
    return {"type": found.type, "schema": found.schema, "name": found.name, "identity": found.identity}


def address_of_object(context: Entered, class_id: int, oid: int, subid: int) -> Address | None:
    """pg_identify_object_as_address: type, names and arguments."""
    found = identified(context.objects, class_id, oid, subid)
    return None if found is None else {"type": found.type, "object_names": found.names, "object_args": found.args}


@cache
def class_oid(catalog: str) -> int:
    """The oid of a catalog of the system, pg_class say."""
    return catalog_data.relations()["pg_catalog", catalog].oid


def identified(objects: CatalogObjects, class_id: int, oid: int, subid: int) -> Identified | None:
    """What is known of an object by its address; None for a sort that does not exist here."""
    match class_id:
        case _ if class_id == PG_CLASS:
            return _relation(objects, oid, subid)
        case _ if class_id == PG_TYPE:
            return _type(objects, oid)
        case _ if class_id == PG_PROC:
            return _routine(objects, oid)
        case _ if class_id == PG_CONSTRAINT:
            return _constraint(objects, oid)
        case _ if class_id == PG_ATTRDEF:
            return _default(objects, oid)
        case _ if class_id == PG_REWRITE:
            view = derived_oids.owner_of_rule(oid)
            return _none("rule") if view is None else _on(objects, "rule", None, "_RETURN", view)
        case _:
            return _record(objects, class_id, oid) or _static(objects, class_id, oid)


def _none(kind: str) -> Identified:
    return Identified(kind, None, None, None, None, None)


def _schema(objects: CatalogObjects, oid: int) -> str:
    return objects.schema_name_by_oid.get(oid, "")


def _relation(objects: CatalogObjects, oid: int, subid: int) -> Identified:
    named = objects.relation(oid)
    kind = "relation" if named is None else _RELATIONS.get(named.kind, "relation")
    if subid:
        kind += " column"
    column = column_name(objects, oid, subid) if subid else None
    if named is None or (subid and column is None):
        return _none(kind)
    schema, identity = _schema(objects, named.namespace), qualified_relation_name(objects, oid, None)
    if column is not None:
        identity = f"{identity}.{quote_identifier(column)}"
        return Identified(
            kind, quote_identifier(schema), quote_identifier(named.name), identity, (schema, named.name, column)
        )
    return Identified(kind, quote_identifier(schema), quote_identifier(named.name), identity, (schema, named.name))


def _type(objects: CatalogObjects, oid: int) -> Identified:
    found = objects.type(oid)
    if found is None:
        return _none("type")
    text = type_text(objects, oid)
    schema = quote_identifier(_schema(objects, found.namespace))
    return Identified("type", schema, quote_identifier(found.name), text, (text,))


def type_text(objects: CatalogObjects, oid: int) -> str:
    """The name of a type with its schema, unless it is one of the grammar's (format_type_be_qualified)."""
    text = format_type(objects, oid)
    name, brackets, _ = text.partition("[]")
    found = objects.type(objects.element_type(oid) or oid) if brackets else objects.type(oid)
    if text == "record[]":
        # The array of a pseudo-type is one itself.
        return f"pg_catalog.{text}"
    if found is None or name in _UNQUALIFIED or name != quote_identifier(found.name):
        return text
    return f"pg_catalog.{text}"


def _routine(objects: CatalogObjects, oid: int) -> Identified:
    row = function_row(objects, oid)
    if row is None:
        return _none("routine")
    schema, name = _schema(objects, row["pronamespace"]), row["proname"]
    args = tuple(type_text(objects, argument) for argument in row["proargtypes"])
    identity = f"{quote_identifier(schema)}.{quote_identifier(name)}({','.join(args)})"
    kind = _ROUTINES.get(row["prokind"], "function")
    return Identified(kind, quote_identifier(schema), None, identity, (schema, name), args)


def _constraint(objects: CatalogObjects, oid: int) -> Identified:
    record = objects.snapshot.get(oid)
    if isinstance(record, Constraint):
        named = objects.relation(record.relation)
        schema = "" if named is None else quote_identifier(_schema(objects, named.namespace))
        return _on(objects, "table constraint", schema, record.name, record.relation)
    if oid not in objects.domain_checks:
        return _none("constraint")
    check, domain = objects.domain_checks[oid]
    of = type_text(objects, derived_oids.row_type_oid(domain.oid))
    schema = quote_identifier(_schema(objects, domain.schema))
    identity = f"{quote_identifier(check.name)} on {of}"
    return Identified("domain constraint", schema, None, identity, (of,), (check.name,))


def _default(objects: CatalogObjects, oid: int) -> Identified:
    if oid not in objects.defaults:
        return _none("default value")
    relation, column = objects.defaults[oid]
    found = _relation(objects, relation.oid, column.attnum)
    return Identified("default value", None, None, f"for {found.identity}", found.names)


def _on(objects: CatalogObjects, kind: str, schema: str | None, name: str, relation: int) -> Identified:
    """What belongs to a relation."""
    identity = f"{quote_identifier(name)} on {qualified_relation_name(objects, relation, None)}"
    return Identified(kind, schema, None, identity, (*(_relation(objects, relation, 0).names or ()), name))


def _record(objects: CatalogObjects, class_id: int, oid: int) -> Identified | None:
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
    if class_id == PG_FOREIGN_DATA_WRAPPER:
        return _named("foreign-data wrapper", LAKE_WRAPPER if oid == LAKE_WRAPPER_OID else None)
    if class_id == PG_FOREIGN_SERVER:
        return _named("server", record.name if isinstance(record, ForeignServer) else None)
    if class_id == PG_POLICY:
        if not isinstance(record, Policy):
            return _none("policy")
        return _on(objects, "policy", None, record.name, record.relation)
    if class_id == PG_STATISTIC_EXT:
        if not isinstance(record, ExtendedStatistics):
            return _none("statistics object")
        return _in_schema(
            "statistics object",
            _schema(objects, record.schema),
            record.name,
            defined_in=objects.defined_in(record.schema),
        )
    if class_id == class_oid("pg_user_mapping"):
        return _mapping(objects, oid)
    return _default_acl(objects, oid) if class_id == class_oid("pg_default_acl") else None


def _mapping(objects: CatalogObjects, oid: int) -> Identified:
    from adapter.system_catalogs.pg_catalog.foreign_rows import pg_user_mapping

    for row in pg_user_mapping(objects).rows:
        server = objects.snapshot.get(row["umserver"])
        if row["oid"] == oid and isinstance(server, ForeignServer):
            user = objects.role_names[row["umuser"]] if row["umuser"] else "public"
            identity = f"{quote_identifier(user)} on server {server.name}"
            return Identified("user mapping", None, None, identity, (user,), (server.name,))
    return _none("user mapping")


DEFAULTS_OF = {"r": "tables", "S": "sequences", "f": "functions", "T": "types", "n": "schemas"}
"""Default privileges: on what, by pg_default_acl.defaclobjtype."""


def _default_acl(objects: CatalogObjects, oid: int) -> Identified:
    from adapter.system_catalogs.pg_catalog.privilege_rows import pg_default_acl

    for row in pg_default_acl(objects).rows:
        if row["oid"] == oid:
            role, schema = objects.role_names[row["defaclrole"]], _schema(objects, row["defaclnamespace"])
            inside = f" in schema {quote_identifier(schema)}" if schema else ""
            identity = f"for role {quote_identifier(role)}{inside} on {DEFAULTS_OF[row['defaclobjtype']]}"
            names = (role, schema) if schema else (role,)
            return Identified("default acl", None, None, identity, names, (row["defaclobjtype"],))
    return _none("default acl")


def _static(objects: CatalogObjects, class_id: int, oid: int) -> Identified | None:
    """What there are the system's own of only."""
    for kind, (catalog, name, schema) in STATIC.items():
        if class_id == class_oid(catalog):
            place = static_row(catalog, "oid").get(oid)
            if place is None:
                return _none(kind)
            data = builtin_columns(catalog)
            if not schema:
                return _named(kind, data[name][place])
            return _in_schema(kind, _schema(objects, data[schema][place]), data[name][place])
    for kind, (catalog, name, schema, method) in OF_METHODS.items():
        if class_id == class_oid(catalog):
            place = static_row(catalog, "oid").get(oid)
            if place is None:
                return _none(kind)
            data = builtin_columns(catalog)
            found = _in_schema(kind, _schema(objects, data[schema][place]), data[name][place])
            am = builtin_columns("pg_am")["amname"][static_row("pg_am", "oid")[data[method][place]]]
            identity = f"{found.identity} USING {quote_identifier(am)}"
            return Identified(kind, found.schema, found.name, identity, (am, *(found.names or ())))
    if class_id == class_oid("pg_operator"):
        return _operator(objects, oid)
    return _cast(objects, oid) if class_id == class_oid("pg_cast") else None


def _operator(objects: CatalogObjects, oid: int) -> Identified:
    known = builtin_operators().get(oid)
    if known is None:
        return _none("operator")
    symbol, left, right = known
    args = tuple(type_text(objects, each) for each in (left, right) if each)
    shown = ",".join(args if left else ("NONE", *args))
    return Identified("operator", "pg_catalog", None, f"pg_catalog.{symbol}({shown})", ("pg_catalog", symbol), args)


def _cast(objects: CatalogObjects, oid: int) -> Identified:
    place = static_row("pg_cast", "oid").get(oid)
    if place is None:
        return _none("cast")
    data = builtin_columns("pg_cast")
    source, target = (type_text(objects, data[column][place]) for column in ("castsource", "casttarget"))
    return Identified("cast", None, None, f"({source} AS {target})", (source,), (target,))


def _named(kind: str, name: str | None) -> Identified:
    """What has no schema."""
    if name is None:
        return _none(kind)
    return Identified(kind, None, quote_identifier(name), quote_identifier(name), (name,))


def _in_schema(kind: str, schema: str, name: str, *, defined_in: str | None = None) -> Identified:
    quoted = quote_identifier(schema), quote_identifier(name)
    identity = f"{quote_identifier(schema if defined_in is None else defined_in)}.{quoted[1]}"
    return Identified(kind, *quoted, identity, (schema, name))
