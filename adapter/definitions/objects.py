"""DDL on schemas, comments, roles and stored settings."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac

import msgspec

from adapter.definitions.common.catalog_changes import change, named_role, new_oid, owner_oid
from adapter.definitions.constraints.checks import find_constraint, refuse_duplicate
from adapter.definitions.databases.changes import give_database, rename_database, require_database
from adapter.definitions.dependents import remove
from adapter.definitions.extensions.changes import require as require_extension
from adapter.definitions.routines.names import find_routine
from adapter.definitions.types.changes import rename_type
from adapter.definitions.types.domains import domain_check, rename_check
from adapter.definitions.types.names import require_domain, require_own_type
from adapter.definitions.views import rename_schema_in_views
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import (
    check_schema_name,
    find_relation,
    kind_of,
    look_up,
    missing,
    require_schema,
    with_article,
)
from adapter.execution.statement import Running
from adapter.results import Notice
from adapter.settings.values import canonical_value, check_changeable, require_setting
from planner.common_errors import existing_relation, missing_column, missing_role
from planner.errors import (
    DependentObjectsStillExist,
    DuplicateObject,
    DuplicateSchema,
    FeatureNotSupported,
    InsufficientPrivilege,
    UndefinedObject,
    WrongObjectType,
)
from planner.statements import records as st
from planner.types.table_indexes import is_taken
from storage.catalog.access import Role
from storage.catalog.model import (
    CatalogSnapshot,
    Comment,
    Constraint,
    Database,
    Index,
    Relation,
    Schema,
    Sequence,
    Setting,
)
from storage.catalog.routines import Function

SCRAM_ITERATIONS = 4096


def _require_superuser(running: Running, what: str) -> None:
    if running.session.values["is_superuser"] != "on":
        raise InsufficientPrivilege(f"permission denied to {what}")


# ---------------------------------------------------------------- schemas


async def create_schema(running: Running, statement: st.CreateSchema) -> None:
    """CREATE SCHEMA; the statements inside it come after."""
    catalog = own_catalog(running)
    check_schema_name(statement.name)
    if catalog.schema(statement.name) is not None:
        if not statement.if_not_exists:
            raise DuplicateSchema(f'schema "{statement.name}" already exists')
        message = f'schema "{statement.name}" already exists, skipping'
        running.session.notice(Notice(severity="NOTICE", sqlstate="42P06", message=message))
        return
    owner = owner_oid(running) if statement.owner is None else named_role(running, statement.owner).oid
    database = running.session.database_oid
    change(running, added=[Schema(oid=new_oid(running), name=statement.name, owner=owner, database=database)])


async def rename_object(running: Running, statement: st.RenameObject) -> None:
    """ALTER SCHEMA, DATABASE, ROLE, TABLE ... CONSTRAINT ... RENAME TO."""
    catalog = own_catalog(running)
    match statement.kind:
        case "schema":
            schema = require_schema(catalog, statement.name)
            check_schema_name(statement.new_name)
            if catalog.schema(statement.new_name) is not None:
                raise DuplicateSchema(f'schema "{statement.new_name}" already exists')
            _rename_schema(running, catalog, schema, statement.new_name)
        case "role" | "user" | "group":
            role = _role(catalog, statement.name)
            if any(isinstance(r, Role) and r.name == statement.new_name for r in catalog.all()):
                raise DuplicateObject(f'role "{statement.new_name}" already exists')
            change(running, removed=[role], added=[msgspec.structs.replace(role, name=statement.new_name)])
        case "database":
            await rename_database(running, statement.name, statement.new_name)
        case "type" | "domain" if statement.relation is not None:
            rename_type(running, statement.relation, statement.new_name, statement.kind)
        case "domain constraint" if statement.relation is not None:
            rename_check(running, statement.relation, statement.name, statement.new_name)
        case "constraint" if statement.relation is not None:
            relation = find_relation(running, catalog, statement.relation)
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


def _rename_schema(running: Running, catalog: CatalogSnapshot, schema: Schema, name: str) -> None:
    views = rename_schema_in_views(catalog, schema, name)
    change(
        running,
        removed=[schema, *(old for old, _ in views)],
        added=[msgspec.structs.replace(schema, name=name), *(new for _, new in views)],
    )


async def alter_owner(running: Running, statement: st.AlterOwner) -> None:
    """ALTER SCHEMA / DATABASE ... OWNER TO."""
    catalog = own_catalog(running)
    owner = named_role(running, statement.owner).oid
    if statement.kind == "database":
        give_database(running, statement.name, owner)
        return
    if statement.kind != "schema":
        raise FeatureNotSupported(f"ALTER {statement.kind.upper()} ... OWNER TO is not supported")
    record = require_schema(catalog, statement.name)
    change(running, removed=[record], added=[msgspec.structs.replace(record, owner=owner)])


# ---------------------------------------------------------------- comments


async def comment(running: Running, statement: st.Comment) -> None:
    """COMMENT ON."""
    catalog = own_catalog(running)
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
        case "table" | "view" | "materialized view" | "sequence" | "index":
            name = statement.relation or st.QualifiedName(name=statement.name)
            found = look_up(running, catalog, name)
            if found is None:
                raise missing(catalog, name)
            if kind_of(found) != statement.kind:
                raise WrongObjectType(f'"{found.name}" is not {with_article(statement.kind)}')
            return found.oid, 0
        case "column" if statement.relation is not None:
            relation = find_relation(running, catalog, statement.relation)
            column = relation.column(statement.name)
            if column is None:
                raise missing_column(relation.name, statement.name)
            return relation.oid, column.attnum
        case "schema":
            return require_schema(catalog, statement.name).oid, 0
        case _ if statement.routine is not None:
            return find_routine(running, statement.routine).oid, 0
        case "type" | "domain" if statement.relation is not None:
            return require_own_type(running, statement.relation, statement.kind).oid, 0
        case "domain constraint" if statement.relation is not None:
            return domain_check(require_domain(running, statement.relation), statement.name).oid, 0
        case "extension":
            return require_extension(catalog, statement.name).oid, 0
        case "database":
            return require_database(catalog, statement.name).oid, 0
        case "role":
            return _role(catalog, statement.name).oid, 0
        case "constraint" if statement.relation is not None:
            return _constraint(catalog, find_relation(running, catalog, statement.relation), statement.name).oid, 0
        case _:
            raise FeatureNotSupported(f"COMMENT ON {statement.kind.upper()} is not supported")


def _constraint(catalog: CatalogSnapshot, relation: Relation, name: str) -> Constraint:
    found = find_constraint(catalog, relation, name)
    if found is None:
        raise UndefinedObject(f'constraint "{name}" for table "{relation.name}" does not exist')
    return found


# ---------------------------------------------------------------- roles


def _role(catalog: CatalogSnapshot, name: str) -> Role:
    for record in catalog.all():
        if isinstance(record, Role) and record.name == name:
            return record
    raise missing_role(name)


async def create_role(running: Running, statement: st.CreateRole) -> None:
    """CREATE ROLE, USER, GROUP."""
    _require_superuser(running, "create role")
    catalog = own_catalog(running)
    if any(isinstance(r, Role) and r.name == statement.name for r in catalog.all()):
        raise DuplicateObject(f'role "{statement.name}" already exists')
    role = Role(oid=new_oid(running), name=statement.name, login=statement.kind == "user")
    change(running, added=[await _with_options(running, role, statement.options)])


async def alter_role(running: Running, statement: st.AlterRole) -> None:
    """ALTER ROLE."""
    catalog = own_catalog(running)
    names = {"current_user": running.session.user, "session_user": running.session.session_user}
    role = _role(catalog, names.get(statement.name, statement.name))
    if role.name != running.session.user:
        _require_superuser(running, "alter role")
    changed = await _with_options(running, role, statement.options)
    if changed != role:
        change(running, removed=[role], added=[changed])


async def _with_options(running: Running, role: Role, options: st.RoleOptions) -> Role:
    if options.in_roles or options.members or options.admins:
        raise FeatureNotSupported("membership in roles is not supported")
    changes: dict[str, object] = {}
    for name in ("superuser", "login", "create_db", "create_role", "inherit"):
        value = getattr(options, name)
        if value is not None:
            changes[name] = value
    if options.password_null:
        changes["password"] = None
    elif options.password is not None:
        changes["password"] = await asyncio.to_thread(
            scram_verifier, options.password, running.services.env.random.randbytes(16)
        )
    return msgspec.structs.replace(role, **changes)


def scram_verifier(password: str, salt: bytes) -> str:
    """What pg_authid stores for a password (RFC 5803); a string that is a verifier already stays."""
    if password.startswith("SCRAM-SHA-256$"):
        return password
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, SCRAM_ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    stored_key = hashlib.sha256(client_key).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    encoded = [base64.b64encode(part).decode() for part in (salt, stored_key, server_key)]
    return f"SCRAM-SHA-256${SCRAM_ITERATIONS}:{encoded[0]}${encoded[1]}:{encoded[2]}"


async def drop_role(running: Running, statement: st.DropRole) -> None:
    """DROP ROLE."""
    _require_superuser(running, "drop role")
    for name in statement.names:
        catalog = own_catalog(running)
        role = next((r for r in catalog.all() if isinstance(r, Role) and r.name == name), None)
        if role is None:
            if not statement.if_exists:
                raise missing_role(name)
            message = f'role "{name}" does not exist, skipping'
            running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))
            continue
        if name == running.session.user:
            raise DependentObjectsStillExist("current user cannot be dropped")
        kinds = (Relation, Schema, Sequence, Database, Function)
        owned = [r for r in catalog.all() if isinstance(r, kinds) and r.owner == role.oid]
        if owned:
            raise DependentObjectsStillExist(
                f'role "{name}" cannot be dropped because some objects depend on it',
                detail="\n".join(f"owner of {type(r).__name__.lower()} {r.name}" for r in owned[:100]),
            )
        remove(running, catalog, [role])


# ---------------------------------------------------------------- stored settings


async def alter_setting(running: Running, statement: st.AlterSetting) -> None:
    """ALTER DATABASE / ROLE ... SET and RESET: defaults of new sessions."""
    catalog = own_catalog(running)
    database = 0 if statement.database is None else require_database(catalog, statement.database).oid
    role = 0 if statement.role is None else _role(catalog, statement.role).oid
    known = [r for r in catalog.all() if isinstance(r, Setting) and r.database == database and r.role == role]
    if statement.name is None:
        change(running, removed=known)
        return
    setting = require_setting(statement.name)
    check_changeable(setting)
    removed = [record for record in known if record.name == setting.name]
    added = []
    if not statement.reset and statement.values is not None:
        value = canonical_value(setting, ", ".join(statement.values), None)
        added.append(Setting(oid=new_oid(running), name=setting.name, value=value, database=database, role=role))
    change(running, removed=removed, added=added)
