"""Names of relations in DDL: look-up through the search path, and how messages call an object."""

from __future__ import annotations

from collections.abc import Iterable

from adapter.execution.statement import Running
from adapter.results import Notice
from planner.common_errors import missing_relation, missing_schema, not_open, other_database
from planner.errors import (
    InsufficientPrivilege,
    InvalidSchemaName,
    InvalidTableDefinition,
    ReservedName,
    SqlError,
    WrongObjectType,
)
from planner.functions.own import SCHEMA as OWN_SCHEMA
from planner.resolution.required import closed_schema
from planner.statements.records import QualifiedName
from planner.syntax.identifiers import quote_identifier
from planner.types.derived_oids import row_type_oid
from planner.types.system_relations import SystemRelation
from planner.types.table_indexes import index_called
from planner.types.type_names import format_type
from planner.types.user_types import function_name, is_type_record
from storage.catalog.model import (
    BOOTSTRAP_SUPERUSER_OID,
    COMPOSITE,
    CatalogSnapshot,
    CatalogUpdate,
    Index,
    Relation,
    Schema,
    Sequence,
)
from storage.catalog.outside import Extension, ForeignServer
from storage.catalog.record import LARGE_OBJECT_SCHEMA, TEMPORARY_SCHEMA, ExtendedStatistics, Record
from storage.catalog.routines import Function

KINDS = {"r": "table", "v": "view", "m": "materialized view", "f": "foreign table", COMPOSITE: "composite type"}
SYSTEM_SCHEMAS = frozenset({"pg_catalog", "information_schema", OWN_SCHEMA})


def kind_of(record: Relation | Sequence | Index) -> str:
    """What messages call this kind of relation."""
    if isinstance(record, Index):
        return "index"
    return "sequence" if isinstance(record, Sequence) else KINDS[record.kind]


def with_article(kind: str) -> str:
    """``a table``, ``an index``."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def plural(kind: str) -> str:
    """``tables``, ``indexes``."""
    return "indexes" if kind == "index" else f"{kind}s"


def check_database(running: Running, name: QualifiedName) -> None:
    """0A000 for a name in another database."""
    if name.database is not None and name.database != running.session.database:
        raise other_database(name, name.position)


def look_up(running: Running, catalog: CatalogSnapshot, name: QualifiedName) -> Relation | Sequence | Index | None:
    """The relation, sequence or index (also of a constraint) called `name`, or None. 42501 for a system relation, and
    for a schema without USAGE."""
    found = look_up_any(running, catalog, name)
    if isinstance(found, SystemRelation):
        raise InsufficientPrivilege(f'permission denied: "{name.name}" is a system catalog')
    return found


def look_up_any(
    running: Running, catalog: CatalogSnapshot, name: QualifiedName
) -> Relation | Sequence | Index | SystemRelation | None:
    """What `look_up` gives, or a system relation."""
    check_database(running, name)
    context = running.session.bind_context(catalog)
    if name.schema is not None:
        if name.schema in context.closed_schemas:
            raise closed_schema(name.schema)
        path: tuple[str, ...] = (name.schema,)
    else:
        path = context.search_path
        if "pg_catalog" not in path:
            path = ("pg_catalog", *path)
    for schema_name in path:
        if schema_name in SYSTEM_SCHEMAS:
            system = running.services.system_relations.lookup(schema_name, name.name)
            if system is not None:
                return system
            continue
        schema = catalog.schema(schema_name)
        if schema is None:
            continue
        record = catalog.get(catalog.relation_names.get((schema.oid, name.name), 0))
        if isinstance(record, (Relation, Sequence)):
            return record
        index = index_called(catalog, schema.oid, name.name)
        if index is not None:
            return index
    return None


def find_relation(
    running: Running, catalog: CatalogSnapshot, name: QualifiedName, *, located: bool = False
) -> Relation:
    """The table or view called `name`. 42P01 when there is none, 3F000 when there is no such schema; they have a
    position when `located`. 42809 for an index."""
    record = look_up(running, catalog, name)
    if isinstance(record, Index):
        raise WrongObjectType(
            f'cannot open relation "{record.name}"', detail="This operation is not supported for indexes."
        )
    if not isinstance(record, Relation):
        raise missing(catalog, name, located=located)
    if record.kind == COMPOSITE:
        raise not_open(record.name)
    return record


def find_like_source(running: Running, catalog: CatalogSnapshot, name: QualifiedName) -> Relation:
    """The table, view or composite type called `name`, for a LIKE clause. 42P01, 42809, 42501."""
    record = look_up(running, catalog, name)
    if record is None:
        raise missing(catalog, name, located=True)
    if not isinstance(record, Relation):
        raise WrongObjectType(
            f'relation "{record.name}" is invalid in LIKE clause',
            detail=f"This operation is not supported for {plural(kind_of(record))}.",
            position=name.position,
        )
    return record


def missing(catalog: CatalogSnapshot, name: QualifiedName, *, located: bool = False) -> SqlError:
    """The error for a name that `look_up` does not find: 42P01, or 3F000."""
    position = name.position if located else None
    if name.schema is not None and catalog.schema(name.schema) is None:
        return missing_schema(name.schema, position)
    return missing_relation(str(name), position)


def skip_missing(running: Running, name: QualifiedName) -> None:
    """The notice of IF EXISTS for a relation that does not exist."""
    message = f'relation "{name.name}" does not exist, skipping'
    running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))


def creation_schema(
    running: Running,
    catalog: CatalogSnapshot,
    name: QualifiedName,
    *,
    located: bool = False,
    temporary: bool = False,
) -> Schema:
    """The schema in which an object called `name` is created. 3F000 (with a position when `located`), 42501; 42P16 for
    a `temporary` one in a schema that is not. The temporary schema is made when it is wanted for the first time."""
    check_database(running, name)
    own = running.session.temporary
    if name.schema is not None:
        if name.schema == TEMPORARY_SCHEMA or (own is not None and name.schema == own.name):
            return _temporary_schema(running)
        schema = catalog.schema(name.schema)
        if schema is None:
            raise missing(catalog, name, located=located)
        if temporary:
            raise InvalidTableDefinition(
                "cannot create temporary relation in non-temporary schema", position=name.position if located else None
            )
    elif temporary:
        return _temporary_schema(running)
    else:
        schema = None
        closed = running.session.bind_context(catalog).closed_schemas
        for path in running.session.creation_path():
            if path in closed:
                continue
            if path == TEMPORARY_SCHEMA or (own is not None and path == own.name):
                return _temporary_schema(running)
            schema = catalog.schema(path)
            if schema is not None:
                break
        if schema is None:
            raise InvalidSchemaName("no schema has been selected to create in", position=name.position)
    if schema.name in SYSTEM_SCHEMAS:
        raise InsufficientPrivilege(
            f'permission denied to create "{schema.name}.{name.name}"',
            detail="System catalog modifications are currently disallowed.",
        )
    check_create(running, catalog, schema, name.position if located else None)
    return schema


def _temporary_schema(running: Running) -> Schema:
    """The session's own temporary schema, which the transaction makes if there is none. 42501 without TEMPORARY on the
    database."""
    transaction = running.transaction
    session = running.session
    if not session.rights(transaction.catalog).may("d", session.database_oid, "T"):
        raise InsufficientPrivilege(f'permission denied to create temporary tables in database "{session.database}"')
    known = transaction.catalog.schema(TEMPORARY_SCHEMA)
    if known is not None:
        return known
    space = session.temporary_space()
    schema = Schema(oid=space.schema, name=space.name, owner=BOOTSTRAP_SUPERUSER_OID, database=session.database_oid)
    transaction.change_catalog([CatalogUpdate(record=schema, diff=1)])
    return schema


def require_open_schema(running: Running, catalog: CatalogSnapshot, name: str) -> Schema:
    """The schema called `name`, on which the current role has USAGE. 3F000, 42501."""
    schema = require_schema(catalog, name)
    if name in running.session.bind_context(catalog).closed_schemas:
        raise closed_schema(name)
    return schema


def check_create(running: Running, catalog: CatalogSnapshot, schema: Schema, position: int | None = None) -> None:
    """42501 unless the current role has CREATE on the schema."""
    running.session.rights(catalog).require("n", schema.oid, "C", position=position)


def require_schema(catalog: CatalogSnapshot, name: str) -> Schema:
    """The schema called `name`. 3F000."""
    schema = catalog.schema(name)
    if schema is None or name == LARGE_OBJECT_SCHEMA:
        raise missing_schema(name)
    return schema


def require_target_schema(catalog: CatalogSnapshot, name: str) -> Schema:
    """The schema called `name`, into which something is moved. 3F000; 42501 for those of the system, in which there are
    no objects of users (PostgreSQL lets superusers move theirs there)."""
    schema = require_schema(catalog, name)
    if name in SYSTEM_SCHEMAS:
        raise InsufficientPrivilege(
            f"permission denied for schema {name}", detail="System catalog modifications are currently disallowed."
        )
    return schema


def check_schema_name(name: str) -> None:
    """42939 for names that are PostgreSQL's own."""
    if name.startswith("pg_"):
        raise ReservedName(
            f'unacceptable schema name "{name}"', detail='The prefix "pg_" is reserved for system schemas.'
        )


def describe(running: Running, catalog: CatalogSnapshot, record: Record) -> str:
    """What messages call an object: ``table t``, qualified when the search path does not show it."""
    if isinstance(record, Schema):
        return f"schema {record.name}"
    if is_type_record(record):
        return f"type {format_type(row_type_oid(record.oid))}"
    if isinstance(record, Extension):
        return f"extension {record.name}"
    if isinstance(record, ForeignServer):
        return f"server {record.name}"
    if isinstance(record, ExtendedStatistics):
        return f"statistics object {_statistics_name(running, catalog, record)}"
    if isinstance(record, Function):
        types = ",".join(format_type(oid) for oid in record.input_types)
        return f"function {function_name(record.oid)}({types})"
    if not isinstance(record, (Relation, Sequence, Index)):
        return f"object {record.oid}"
    return f"{kind_of(record)} {shown_name(running, catalog, record)}"


def _statistics_name(running: Running, catalog: CatalogSnapshot, record: ExtendedStatistics) -> str:
    schema = catalog.get(record.schema)
    name = quote_identifier(record.name)
    if not isinstance(schema, Schema) or schema.name in running.session.search_path():
        return name
    return f"{quote_identifier(schema.name)}.{name}"


def shown_name(running: Running, catalog: CatalogSnapshot, record: Relation | Sequence | Index) -> str:
    """The name, qualified when the search path does not show it."""
    name = quote_identifier(record.name)
    visible = look_up_visible(running.session.search_path(), catalog, record.name)
    if visible is not None and visible.oid == record.oid:
        return name
    schema = catalog.get(record.schema)
    return f"{quote_identifier(schema.name)}.{name}" if isinstance(schema, Schema) else name


def look_up_visible(path: Iterable[str], catalog: CatalogSnapshot, name: str) -> Record | None:
    """What an unqualified name means with this search path."""
    for schema_name in path:
        schema = catalog.schema(schema_name)
        if schema is not None:
            record = catalog.get(catalog.relation_names.get((schema.oid, name), 0))
            found = record or index_called(catalog, schema.oid, name)
            if found is not None:
                return found
    return None
