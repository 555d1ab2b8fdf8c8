"""DDL on schemas and comments, and what concerns objects of several kinds: new names and owners."""

from __future__ import annotations

import msgspec

from adapter.access.privileges import Rights
from adapter.definitions.common.catalog_changes import change, named_role, new_oid, owner_oid
from adapter.definitions.common.owners import check_new_owner, give, require_member, require_owner
from adapter.definitions.common.storage_parameters import checked_parameters
from adapter.definitions.common.table_options import RETAIN_HISTORY, retained_ms
from adapter.definitions.constraints.keys import find_constraint, refuse_duplicate
from adapter.definitions.databases.changes import (
    find_database,
    give_database,
    rename_database,
    require_database,
)
from adapter.definitions.extensions.changes import require as require_extension
from adapter.definitions.foreign.servers import rename_server, require_server
from adapter.definitions.large_objects import changes as large_objects
from adapter.definitions.policies.changes import policy_table, rename_policy, require_policy
from adapter.definitions.roles.attributes import commented_role, rename_role
from adapter.definitions.routines.names import find_routine
from adapter.definitions.statistics.changes import require_statistics
from adapter.definitions.types.changes import rename_type
from adapter.definitions.types.domains import domain_check, rename_check
from adapter.definitions.types.names import require_domain, require_own_type
from adapter.definitions.views import rename_schema_in_queries
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import (
    check_schema_name,
    find_relation,
    kind_of,
    look_up,
    missing,
    require_schema,
    skip_missing,
    with_article,
)
from adapter.execution.statement import Running
from adapter.publishing.published_tables import OF_TABLES, flag_of
from adapter.publishing.published_tables import OPTION as ICEBERG
from adapter.results import Notice
from planner.common_errors import existing_relation, missing_column, missing_database
from planner.errors import (
    DuplicateSchema,
    FeatureNotSupported,
    UndefinedObject,
    WrongObjectType,
)
from planner.statements import records as st
from planner.syntax.object_kinds import words_of
from planner.types.table_indexes import is_taken
from storage.catalog.model import (
    CatalogSnapshot,
    Comment,
    Constraint,
    Index,
    Relation,
    Schema,
)
from storage.catalog.outside import LAKE_WRAPPER_OID

# ---------------------------------------------------------------- schemas


def name_of_schema(running: Running, statement: st.CreateSchema) -> str:
    """The name of the schema that CREATE SCHEMA makes. 42704."""
    return statement.name or named_role(running, statement.owner or "").name


async def create_schema(running: Running, statement: st.CreateSchema) -> None:
    """CREATE SCHEMA; the statements inside it come after."""
    catalog = own_catalog(running)
    running.session.rights(catalog).require("d", running.session.database_oid, "C")
    name = name_of_schema(running, statement)
    check_schema_name(name)
    if catalog.schema(name) is not None:
        if not statement.if_not_exists:
            raise DuplicateSchema(f'schema "{name}" already exists')
        message = f'schema "{name}" already exists, skipping'
        running.session.notice(Notice(severity="NOTICE", sqlstate="42P06", message=message))
        return
    owner = owner_oid(running)
    if statement.owner is not None:
        role = named_role(running, statement.owner)
        require_member(running, role)
        owner = role.oid
    database = running.session.database_oid
    change(running, added=[Schema(oid=new_oid(running), name=name, owner=owner, database=database)])


async def rename_object(running: Running, statement: st.RenameObject) -> None:
    """ALTER SCHEMA, DATABASE, ROLE, POLICY, TABLE ... CONSTRAINT ... RENAME TO."""
    catalog = own_catalog(running)
    match statement.kind:
        case "schema":
            schema = require_schema(catalog, statement.name)
            require_owner(running, schema)
            check_schema_name(statement.new_name)
            if catalog.schema(statement.new_name) is not None:
                raise DuplicateSchema(f'schema "{statement.new_name}" already exists')
            await _rename_schema(running, schema, statement.new_name)
        case "role" | "user" | "group":
            rename_role(running, statement.name, statement.new_name)
        case "server":
            rename_server(running, statement.name, statement.new_name)
        case "database":
            await rename_database(running, statement.name, statement.new_name)
        case "type" | "domain" if statement.relation is not None:
            rename_type(running, statement.relation, statement.new_name, statement.kind)
        case "domain constraint" if statement.relation is not None:
            rename_check(running, statement.relation, statement.name, statement.new_name)
        case "policy" if statement.relation is not None:
            rename_policy(running, statement.relation, statement.name, statement.new_name)
        case "constraint" if statement.relation is not None:
            if statement.if_exists and look_up(running, catalog, statement.relation) is None:
                skip_missing(running, statement.relation)
                return
            relation = find_relation(running, catalog, statement.relation)
            require_owner(running, relation)
            record = _constraint(catalog, relation, statement.name)
            refuse_duplicate(catalog, relation, statement.new_name)
            if record.kind in ("p", "u", "x") and is_taken(catalog, relation.schema, statement.new_name):
                raise existing_relation(statement.new_name)
            index = catalog.get(record.index or 0)
            renamed = [record, *([index] if isinstance(index, Index) else ())]
            change(
                running,
                removed=renamed,
                added=[msgspec.structs.replace(each, name=statement.new_name) for each in renamed],
            )
        case _:
            raise FeatureNotSupported(f"ALTER {statement.kind.upper()} ... RENAME is not supported")


async def set_schema_options(running: Running, statement: st.SetSchemaOptions) -> None:
    """ALTER SCHEMA ... SET and RESET (retain_history, iceberg). Raises 22023 for another option."""
    catalog = own_catalog(running)
    schema = require_schema(catalog, statement.name)
    require_owner(running, schema)
    options = checked_parameters(statement.options, {}, (), {RETAIN_HISTORY: str, **OF_TABLES})
    kept, iceberg = schema.retain_ms, schema.iceberg
    if RETAIN_HISTORY in options:
        kept = None if statement.reset else retained_ms(options[RETAIN_HISTORY])
    if ICEBERG in options:
        iceberg = None if statement.reset else flag_of(options[ICEBERG])
    changed = msgspec.structs.replace(schema, retain_ms=kept, iceberg=iceberg)
    if changed != schema:
        change(running, removed=[schema], added=[changed])


async def _rename_schema(running: Running, schema: Schema, name: str) -> None:
    edited = await rename_schema_in_queries(running, schema, name)
    change(
        running,
        removed=[schema, *(old for old, _ in edited)],
        added=[msgspec.structs.replace(schema, name=name), *(new for _, new in edited)],
    )


async def alter_owner(running: Running, statement: st.AlterOwner) -> None:
    """ALTER SCHEMA / DATABASE ... OWNER TO."""
    catalog = own_catalog(running)
    if statement.kind == "large object":
        await large_objects.alter_owner(running, statement)
        return
    if statement.kind == "database":
        give_database(running, statement.name, statement.owner)
        return
    if statement.kind == "server":
        server = require_server(catalog, statement.name)
        role = check_new_owner(running, server, statement.owner)
        if not running.session.rights(catalog).is_superuser:
            Rights(catalog, role.oid).require("F", LAKE_WRAPPER_OID, "U")
        give(running, server, role.oid)
        return
    if statement.kind != "schema":
        raise FeatureNotSupported(f"ALTER {statement.kind.upper()} ... OWNER TO is not supported")
    record = require_schema(catalog, statement.name)
    give(running, record, check_new_owner(running, record, statement.owner).oid)


# ---------------------------------------------------------------- comments


async def comment(running: Running, statement: st.Comment) -> None:
    """COMMENT ON."""
    if statement.kind == "large object":
        await large_objects.comment(running, statement)
        return
    catalog = own_catalog(running)
    if statement.kind == "database" and find_database(catalog, statement.name) is None:
        # pg_restore comments on a database under another name.
        warning = missing_database(statement.name)
        running.session.notice(Notice(severity="WARNING", sqlstate=warning.sqlstate, message=warning.message))
        return
    oid, subid = _commented(running, catalog, statement)
    existing = [r for r in catalog.all() if isinstance(r, Comment) and r.object_oid == oid and r.subid == subid]
    added = []
    if statement.text:
        added.append(
            Comment(
                oid=new_oid(running, oid),
                object_oid=oid,
                subid=subid,
                text=statement.text,
                database=running.session.database_oid,
            )
        )
    change(running, removed=existing, added=added)


def _commented(running: Running, catalog: CatalogSnapshot, statement: st.Comment) -> tuple[int, int]:
    match statement.kind:
        case "table" | "view" | "materialized view" | "sequence" | "index" | "foreign table":
            name = statement.relation or st.QualifiedName(name=statement.name)
            found = look_up(running, catalog, name)
            if found is None:
                raise missing(catalog, name)
            if kind_of(found) != statement.kind:
                raise WrongObjectType(f'"{found.name}" is not {with_article(statement.kind)}')
            require_owner(running, found)
            return found.oid, 0
        case "column" if statement.relation is not None:
            relation = _with_columns(running, catalog, statement.relation)
            require_owner(running, relation, "relation")
            column = relation.column(statement.name)
            if column is None:
                raise missing_column(str(statement.relation), statement.name)
            return relation.oid, column.attnum
        case "schema":
            schema = require_schema(catalog, statement.name)
            require_owner(running, schema)
            return schema.oid, 0
        case _ if statement.routine is not None:
            routine = find_routine(running, statement.routine)
            require_owner(running, routine)
            return routine.oid, 0
        case "type" | "domain" if statement.relation is not None:
            return require_own_type(running, statement.relation, statement.kind).oid, 0
        case "domain constraint" if statement.relation is not None:
            return domain_check(require_domain(running, statement.relation), statement.name).oid, 0
        case "extension":
            extension = require_extension(catalog, statement.name)
            require_owner(running, extension)
            return extension.oid, 0
        case "statistics object" if statement.relation is not None:
            statistics = require_statistics(running, statement.relation)
            require_owner(running, statistics)
            return statistics.oid, 0
        case "server":
            server = require_server(catalog, statement.name)
            require_owner(running, server)
            return server.oid, 0
        case "database":
            database = require_database(catalog, statement.name)
            require_owner(running, database)
            return database.oid, 0
        case "role":
            return commented_role(running, statement.name).oid, 0
        case "policy" if statement.relation is not None:
            return require_policy(running, policy_table(running, statement.relation), statement.name).oid, 0
        case "constraint" if statement.relation is not None:
            relation = find_relation(running, catalog, statement.relation)
            require_owner(running, relation, "relation")
            return _constraint(catalog, relation, statement.name).oid, 0
        case _:
            raise FeatureNotSupported(f"COMMENT ON {words_of(statement.kind)} is not supported")


def _with_columns(running: Running, catalog: CatalogSnapshot, name: st.QualifiedName) -> Relation:
    """What has columns to comment on: composite types too. 42809 for a sequence and an index."""
    found = look_up(running, catalog, name)
    if found is None:
        raise missing(catalog, name)
    if not isinstance(found, Relation):
        raise WrongObjectType(
            f'cannot set comment on relation "{found.name}"',
            detail=f"This operation is not supported for {'sequences' if kind_of(found) == 'sequence' else 'indexes'}.",
        )
    return found


def _constraint(catalog: CatalogSnapshot, relation: Relation, name: str) -> Constraint:
    found = find_constraint(catalog, relation, name)
    if found is None:
        raise UndefinedObject(f'constraint "{name}" for table "{relation.name}" does not exist')
    return found
