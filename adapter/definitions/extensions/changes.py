"""CREATE, ALTER and DROP EXTENSION. The types, functions and views of one belong to it: they come, move and go with
it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from adapter.access.membership import is_superuser
from adapter.definitions.common.catalog_changes import change, new_oid, owner_oid
from adapter.definitions.common.owners import require_owner
from adapter.definitions.routines.names import check_free
from adapter.definitions.types.names import check_free_type
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import SYSTEM_SCHEMAS, creation_schema
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.catalog_data.content import type_by_name
from planner.common_errors import missing_schema
from planner.errors import (
    DuplicateFunction,
    DuplicateObject,
    DuplicateTable,
    FeatureNotSupported,
    InsufficientPrivilege,
    InvalidParameterValue,
    UndefinedObject,
)
from planner.extensions.available import AVAILABLE, PLPGSQL, Available
from planner.statements import records as st
from planner.syntax.qualified_names import QualifiedName
from planner.types.derived_oids import row_type_oid
from planner.types.table_indexes import is_taken
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, PG_CATALOG_OID, CatalogSnapshot, Comment, Relation, Schema
from storage.catalog.outside import Extension
from storage.catalog.routines import Function, Parameter
from storage.catalog.types import BaseType


def find(catalog: CatalogSnapshot, name: str) -> Extension | None:
    """The extension of this name that the database has, other than plpgsql."""
    return next((r for r in catalog.all() if isinstance(r, Extension) and r.name == name), None)


def require(catalog: CatalogSnapshot, name: str) -> Extension:
    """The extension of this name. 42704; 0A000 for plpgsql, which is the server's."""
    if name == PLPGSQL.name:
        raise FeatureNotSupported(f'extension "{name}" is part of every database')
    found = find(catalog, name)
    if found is None:
        raise UndefinedObject(f'extension "{name}" does not exist')
    return found


def members(catalog: CatalogSnapshot, extension: Extension) -> Sequence[Function | Relation | BaseType]:
    """The types, functions and views that belong to it."""
    found = (catalog.get(oid) for oid in extension.members)
    return [record for record in found if isinstance(record, (Function, Relation, BaseType))]


@contextmanager
def as_first_superuser(running: Running) -> Iterator[None]:
    """What an extension is made of is the first superuser's, whoever makes it."""
    session, values = running.session, running.session.values
    session.values = values.within(BOOTSTRAP_SUPERUSER_OID)
    try:
        yield
    finally:
        session.values = values


def begin(running: Running, statement: st.CreateExtension) -> tuple[Available, Schema] | None:
    """Which extension CREATE EXTENSION makes, and in which schema; None when it is there and that is no error.

    Raises 42710, 0A000 for one that there is not, 22023 for another version, 3F000, 42501."""
    name = statement.name
    catalog = own_catalog(running)
    if name == PLPGSQL.name or find(catalog, name) is not None:
        if not statement.if_not_exists:
            raise DuplicateObject(f'extension "{name}" already exists')
        message = f'extension "{name}" already exists, skipping'
        running.session.notice(Notice(severity="NOTICE", sqlstate="42710", message=message))
        return None
    known = AVAILABLE.get(name)
    if known is None:
        raise FeatureNotSupported(
            f'extension "{name}" is not available',
            hint="Those that are can be looked up in pg_available_extensions.",
        )
    if not known.is_trusted and not is_superuser(catalog, running.session.values.identity.current):
        raise InsufficientPrivilege(
            f'permission denied to create extension "{name}"', hint="Must be superuser to create this extension."
        )
    if not running.session.rights(catalog).may("d", running.session.database_oid, "C"):
        raise InsufficientPrivilege(
            f'permission denied to create extension "{name}"',
            hint="Must have CREATE privilege on current database to create this extension.",
        )
    if statement.version not in (None, known.version):
        raise InvalidParameterValue(
            f'extension "{name}" has no installation script nor update path for version "{statement.version}"'
        )
    if statement.schema is not None:
        schema = catalog.schema(statement.schema)
        if schema is None:
            raise missing_schema(statement.schema)
    else:
        with as_first_superuser(running):
            schema = creation_schema(running, catalog, QualifiedName(name=name))
    running.transaction.rely_on([schema])
    return known, schema


def make_types(running: Running, known: Available, schema: Schema) -> None:
    """Make the types that the extension has, which the first superuser owns. 42710."""
    for name in known.types:
        check_free_type(own_catalog(running), schema.oid, name)
        oid = new_oid(running, schema.oid)
        record = BaseType(oid=oid, name=name, schema=schema.oid, owner=BOOTSTRAP_SUPERUSER_OID, kind=name)
        change(running, added=[record])


def make_natives(running: Running, known: Available, schema: Schema) -> None:
    """Make the functions that the extension has in no SQL, which the first superuser owns. 42723."""
    known_types = type_by_name()

    def type_named(name: str) -> int:
        catalog = own_catalog(running)
        made = catalog.type_names.get((schema.oid, name))
        if made is None:
            row = catalog.relation(schema.oid, name)
            made = None if row is None else row.oid
        return known_types[PG_CATALOG_OID, name].oid if made is None else row_type_oid(made)

    for native in known.natives:
        catalog = own_catalog(running)
        record = Function(
            oid=new_oid(running, schema.oid),
            name=native.name,
            schema=schema.oid,
            owner=BOOTSTRAP_SUPERUSER_OID,
            parameters=tuple(Parameter(type_oid=type_named(name)) for name in native.args),
            result=type_named(native.result),
            returns_set=not native.expression,
            volatility="i" if native.expression else "s",
            strict=not native.expression,
            parallel="s" if native.expression else "u",
            cost=1.0,
            rows=0.0 if native.expression else 1000.0,
            native=True,
            body=native.symbol,
        )
        check_free(catalog, schema.oid, record)
        change(running, added=[record])


def finish(running: Running, known: Available, schema: Schema, before: Collection[int]) -> None:
    """Record the extension that has made what was not among the objects `before`."""
    after = own_catalog(running).records
    kinds = (Function, Relation, BaseType)
    made = sorted([oid for oid, record in after.items() if isinstance(record, kinds) and oid not in before])
    record = Extension(
        oid=new_oid(running, schema.oid),
        name=known.name,
        schema=schema.oid,
        owner=owner_oid(running),
        version=known.version,
        members=tuple(sorted(made)),
    )
    change(running, added=[record])
    comment = Comment(
        oid=new_oid(running, record.oid),
        object_oid=record.oid,
        text=known.comment,
        database=running.session.database_oid,
    )
    change(running, added=[comment])


async def alter(running: Running, statement: st.AlterExtension) -> None:
    """ALTER EXTENSION ... UPDATE, which never has anything to do, and SET SCHEMA."""
    catalog = own_catalog(running)
    record = require(catalog, statement.name)
    require_owner(running, record)
    if statement.schema is not None:
        _move(running, catalog, record, statement.schema)
        return
    if statement.version not in (None, record.version):
        raise InvalidParameterValue(
            f'extension "{record.name}" has no update path from version "{record.version}" '
            f'to version "{statement.version}"'
        )
    message = f'version "{record.version}" of extension "{record.name}" is already installed'
    running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))


def _move(running: Running, catalog: CatalogSnapshot, record: Extension, name: str) -> None:
    schema = catalog.schema(name)
    if schema is None:
        raise missing_schema(name)
    if name in SYSTEM_SCHEMAS:
        raise InsufficientPrivilege(f"permission denied for schema {name}")
    if schema.oid == record.schema:
        return
    running.transaction.rely_on([schema])
    parts = members(catalog, record)
    for part in parts:
        if isinstance(part, BaseType):
            check_free_type(catalog, schema.oid, part.name)
            continue
        if isinstance(part, Relation):
            if is_taken(catalog, schema.oid, part.name):
                raise DuplicateTable(f'relation "{part.name}" already exists in schema "{name}"')
            continue
        same = catalog.functions(schema.oid, part.name)
        if any(other.input_types == part.input_types for other in same):
            raise DuplicateFunction(f'function "{part.name}" already exists in schema "{name}"')
    moved = [replace(each, schema=schema.oid) for each in parts]
    change(running, removed=[record, *parts], added=[replace(record, schema=schema.oid), *moved])
